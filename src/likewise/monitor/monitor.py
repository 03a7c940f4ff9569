"""The monitor: one lock, and all that can be asked of a history.

If a call is interrupted, `midway` stays set, and the next call first undoes what it left half done.
Invariant: every call is one step of the history, whichever thread makes it.
Cost: `observe` of a vector in memory is one Python call more than the engine's own.
Not here: the steps of a call (sequencer.py), reading (readers/), judging (search/), disks (ledger/)
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypeVar
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, BadFile, BadRule, LikewiseError, NestedCall
from likewise.explaining.past import Past
from likewise.ledger.heads import Head
from likewise.ledger.loss_events import BufferBound
from likewise.ledger.retention import RetentionWindow
from likewise.ledger.stats import LedgerStats
from likewise.ledger.verification import Verification
from likewise.monitor import case_work
from likewise.monitor.batching import FEW_DECISIONS, MOST_JOINED, join_decisions
from likewise.monitor.erasure import Erasure
from likewise.monitor.factory import make_reader, make_time_span, read_slope_options
from likewise.monitor.group_commit import AwaitableFuture, CommitQueue
from likewise.monitor.journal import Journal
from likewise.monitor.ledger_handle import LedgerHandle
from likewise.monitor.metadata import RawMetadata
from likewise.monitor.protocol import AcceptingMonitor, Decision, ForEach
from likewise.monitor.readers.protocol import FROM_ROW, Reader
from likewise.monitor.sequencer import Sequencer, ShardCoordinator, make_loss
from likewise.monitor.time_span import TimeSpan
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.runtime.forking import is_called_within, register_after_fork
from likewise.runtime.log import logger
from likewise.search.engine.engine import Engine
from likewise.search.engine.refusal import rows_of
from likewise.tables.array_types import Rows
from likewise.tables.copy_input import copy_input
from likewise.tables.keys import Keys
from likewise.tables.named_array import NAMELESS
from likewise.tables.positions import Position, check_position, check_positions
from likewise.verdict.losses import Explanation
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdicts import Verdict, Verdicts

_DRAIN_SECONDS = 60.0  # that closing waits for buffers that still hold decisions
_T = TypeVar("_T")


class Monitor:
    """Finds decisions that treat similar cases differently, while they are being made.

    >>> from likewise import Rule
    >>> monitor = Monitor(Rule(metric="linf", epsilon=0.1))
    >>> monitor.observe([0.50, 0.20], "yes").violation
    False
    >>> verdict = monitor.observe([0.45, 0.25], "no")
    >>> verdict.violation, verdict.row
    (True, 1)
    >>> for witness in verdict.witnesses:
    ...     print(witness.row, round(witness.input_distance, 3))
    0 0.05

    Under a rule with features, decisions are rows of a table:

    >>> import likewise as lw
    >>> rule = lw.Rule(
    ...     features={
    ...         "age": lw.Feature("number", tolerance=5),
    ...         "job": lw.Feature("category"),
    ...         "sex": lw.Feature("protected"),
    ...     },
    ...     output_column="approved",
    ... )
    >>> monitor = lw.Monitor(rule)
    >>> monitor.observe({"age": 41, "job": "nurse", "sex": "f", "approved": "no"}).violation
    False
    >>> verdict = monitor.observe({"age": 44, "job": "nurse", "sex": "m", "approved": "yes"})
    >>> print(verdict.explain())  # doctest: +NORMALIZE_WHITESPACE
    row 1 contradicts row 0, 0.6 away
              row 1  row 0
    approved  yes    no     *
    age       44     41     *
    sex       m      f      *
    job       nurse  nurse

    index   how near inputs are found. "auto" chooses, and changes its choice as the history grows;
            "live" is the tree, over a sketch where inputs are long; "flat" is a scan of rotated
            coordinates, for l2 and cosine. The paper's indexes are "brute", "kdtree", "snn", "bdd",
            Periodic(…) and Split(…). Or pass your own: an index, or a callable that makes one for
            a space (search/indexes/protocol.py).
    rows    a new file to keep inputs in, instead of memory: only candidates are read from it.
    burst   a Burst: count near inputs among the last decisions, whatever their output.
    comparable  whether each verdict also says if any past input was near, whatever its output:
            `verdict.comparable`. If none was, the absence of a contradiction means nothing.
    within  compare a decision only with those made at most this long before it: "90 days". Every
            decision then needs its time, in ascending order. Nothing is forgotten.
    slope   ask another question: to which past decision is the slope steepest, that is output
            distance / input distance ** input_exponent? `verdict.slope` says how steep it is, and
            the only witness says which decision it is; epsilon and delta are ignored. For vectors.
    slope_limit     a steeper slope is a violation; with None, no slope is one
    input_exponent  from 0.01 to 100; 1 by default

    An input may have any shape; the first decision fixes it. All methods may be called from
    several threads; each call is one step of the history. `lw.open` makes a monitor whose history
    is a folder on disk.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        index: Any = "auto",
        rows: str | os.PathLike[str] | None = None,
        burst: Burst | None = None,
        comparable: bool = False,
        within: str | None = None,
        slope: bool = False,
        slope_limit: float | None = None,
        input_exponent: float | None = None,
    ) -> None:
        reader = make_reader(rule)
        slope_options = read_slope_options(
            slope,
            slope_limit,
            input_exponent,
            comparable=comparable,
            index=index,
            rows=rows,
            burst=burst,
            within=within,
        )
        span = None if within is None else make_time_span(within)
        if slope_options is not None:
            # Imported here, so that other monitors start without it.
            from likewise.monitor.best_match import make_slope_engine

            engine = make_slope_engine(rule, SlopeQuestion(**slope_options))
        else:
            engine = Engine(
                reader.vector_rule, index=index, rows=rows, burst=burst, comparable=comparable
            )
        self._begin(reader, engine, Keys(), span)

    @classmethod
    def from_parts(cls, reader: Reader, engine: Engine, keys: Keys | None = None) -> Self:
        """Make a monitor in memory from a reader, an engine and the keys of its rows."""
        monitor = cls.__new__(cls)
        monitor._begin(reader, engine, Keys() if keys is None else keys)
        return monitor

    def _begin(
        self, reader: Reader, engine: Engine, keys: Keys, span: TimeSpan | None = None
    ) -> None:
        self._lock = RLock()
        self._commits: CommitQueue[Decision, Verdict] = CommitQueue(self)
        self._reader = reader
        self._engine = engine
        self._span = span
        self._sequencer = Sequencer(reader, engine, keys, span, self._lock_for_reading)
        self.memory = self._sequencer.memory
        """What is remembered, for a journal to copy; all other code reads `past`."""
        self.known_keys = keys
        self._ledger_handle: LedgerHandle | None = None
        self._embeds = reader.embeds
        self._can_join = reader.rule.features is None and span is None and not self._embeds
        self._shards: ShardCoordinator | None = None
        self._drains: list[WeakMethod[Callable[[float], object]]] = []
        self.erasure_listeners: list[Callable[[Rows | None], None]] = []
        """Callables that keep data about decisions elsewhere. Each is called with the rows after
        an erasure; with None if an erasure failed half way, so that any row may be erased."""
        self.closed = False
        register_after_fork(self)

    @property
    def _journal(self) -> Journal | None:
        return self._sequencer.journal

    @property
    def rule(self) -> Rule:
        """The rule by which decisions are judged."""
        return self._reader.rule

    @property
    def burst(self) -> Burst | None:
        """The setting that counts near inputs among the last decisions, if there is one."""
        return self._engine.burst

    @property
    def comparable(self) -> bool:
        """Whether verdicts say if any past input was near, whatever its output."""
        return self._engine.comparable

    @property
    def slope(self) -> SlopeQuestion | None:
        """The question about slopes, with its `limit`; None if this finds contradictions."""
        return self._engine.verdict_context.question

    def insist_on_contradictions(self) -> None:
        """Raise BadRule if this monitor measures slopes, since nearly every decision has one."""
        if self.slope is not None:
            raise BadRule(
                "this monitor names slopes, and this is about contradictions. Ask it for verdicts,"
                " its past, head, verify or erase.",
                setting="slope",
            )

    @property
    def within(self) -> str | None:
        """How long before a decision the past begins that it is compared with, if limited."""
        return None if self._span is None else self._span.text

    @property
    def past(self) -> Past:
        """The past by row: values, inputs, outputs, keys and models, whole columns at once."""
        return self._sequencer.past

    # Before a call

    def _make_ready(self, *, record_fault: bool = False, judge: bool = True) -> None:
        """Undo or finish what an earlier call left half done, and judge what was accepted.

        record_fault    whether a ledger records that its disk had refused something
        judge           whether accepted decisions are judged first
        """
        steps, ledger = self._sequencer, self._ledger_handle
        if ledger is not None and self.closed:
            raise BadFile(
                f"the ledger {str(ledger.path)!r} is closed. Open it again.", path=ledger.path
            )
        if steps.is_settled or (not judge and steps.needs_only_judging):
            return
        if ledger is not None:
            ledger.check_process()
        if is_called_within(self):
            name = "this monitor" if ledger is None else f"the ledger {str(ledger.path)!r}"
            raise NestedCall(
                f"{name} is in the middle of another call, out of which it was called again: by a"
                " signal handler, a finalizer, or a label, index or embedder of yours.",
                advice="Call it afterwards.",
            )
        steps.settle(record_fault=record_fault)

    @contextmanager
    def _lock_for_reading(self) -> Iterator[None]:
        with self._lock:
            self._make_ready()
            yield

    def _after_fork(self) -> None:
        """Start afresh in a forked process: another thread may have held the lock there."""
        self._lock = RLock()
        self._commits.after_fork(self)
        self._sequencer.after_fork()

    # One decision

    def observe(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
        source: str | None = None,
        position: Position | None = None,
    ) -> Verdict:
        """Compare a decision with the past, then make it part of the past.

        x       the input: a vector; a row of a table (a dictionary or named tuple); or what the
                rule's embedder takes
        z       the output; may be left out if it is one of the row's columns
        key     your own name for the decision, unique, if the rule has no column for it
        time    when it was made; a ledger stores it, and uses the clock if none is given
        model   which model made it; the rule's `compare` says whether that limits the comparison
        source, position    with a ledger: the sequence that it comes from ("decisions/3"), and its
                place there, a whole number or a pair of them, above all earlier ones
        """
        if self._embeds:
            x = self._reader.embed_inputs(x, many=False)
        steps = self._sequencer
        if steps.journal is not None:
            decision = Decision(x, z, key, time, model, source, position)
            return self._commits.observe(decision)
        with self._lock:
            if steps.midway:
                self._make_ready()
            alone = key is None and time is None and model is None and type(x) in NAMELESS
            if not (alone and steps.can_bypass_reader and source is None and position is None):
                return steps.observe(x, z, RawMetadata(key, time, model, source, position))
            steps.midway = True
            try:
                if z is FROM_ROW:
                    self._reader.read_one(x, z)  # raises, and says what is missing
                verdict = self._engine.observe(x, z)
            except LikewiseError:
                steps.note_refusal()
                raise
            steps.rows_taken = self._engine.rows  # from here on the decision is remembered
            steps.midway = False
            return verdict

    def submit(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
        source: str | None = None,
        position: Position | None = None,
    ) -> AwaitableFuture[Verdict]:
        """Observe a decision soon, and return at once; `result()` or `await` gives the verdict.

        Decisions are taken in the order in which they are submitted. With a ledger, those that are
        submitted meanwhile share a transaction. The input may be changed once this has returned.
        Arguments are those of `observe`.
        """
        if self._embeds:
            x = self._reader.embed_inputs(x, many=False)
        else:
            x = copy_input(x, columns=self.rule.features is not None)
        return self._commits.submit(Decision(x, z, key, time, model, source, position))

    def observe_each(self, decisions: Sequence[Decision]) -> list[Verdict | LikewiseError]:
        """Observe decisions one after another; return for each its verdict, or why it was refused.

        With a ledger those that are not refused share a transaction. Raises BadFile, and none is
        taken, if they cannot be written.
        """
        if not self._embeds:
            return list(map(_answer_or_refusal, self._commit_group(decisions)))
        embedded = [self._embed(decision) for decision in decisions]
        good = [one for one in embedded if not isinstance(one, LikewiseError)]
        answers = map(_answer_or_refusal, self._commit_group(good))
        return [one if isinstance(one, LikewiseError) else next(answers) for one in embedded]

    def _commit_group(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception]":
        """Take embedded decisions whose turn it is; errors of the caller's code are returned."""
        if self._can_join:
            answers = self._observe_joined(decisions)
            if answers is not None:
                return answers
        with self._share_transaction():
            if self._shards is not None:
                return self._take_in_batches(self._shards, decisions)
            return self._take_each(decisions)

    def _take_in_batches(
        self, sharded: ShardCoordinator, decisions: Sequence[Decision]
    ) -> "list[Verdict | Exception]":
        """Take decisions in batches, or one by one where shards cannot judge a batch."""
        answers: list[Verdict | Exception] = []
        for start in range(0, len(decisions), MOST_JOINED):
            batch = decisions[start : start + MOST_JOINED]
            self._make_ready(record_fault=True)
            answers += sharded.observe_together(self._sequencer, batch) or self._take_each(batch)
        return answers

    def _take_each(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception]":
        """Take decisions one after another; return each verdict, or the error."""
        answers: list[Verdict | Exception] = []
        for decision in decisions:
            try:
                answers.append(self._observe_next(decision))
            except Exception as error:
                answers.append(error)
        return answers

    def _observe_joined(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception] | None":
        """Take decisions as one call; None if they have to be taken one by one."""
        batch = join_decisions(decisions)
        if batch is None:
            return None
        with self._lock:
            self._make_ready(record_fault=True)
            steps = self._sequencer
            rows = steps.rows_taken
            try:
                if batch.raw_metadata.is_empty and len(decisions) <= FEW_DECISIONS:
                    return [*steps.observe_group(batch.inputs, batch.outputs)]
                return [*steps.observe_many(batch.inputs, batch.outputs, batch.raw_metadata, 1)]
            except BadFile:
                raise
            except Exception:
                self._make_ready(record_fault=True)
                if steps.rows_taken != rows:
                    raise  # they were taken, so they must not be taken again
                return None

    def _embed(self, decision: Decision) -> "Decision | LikewiseError":
        try:
            return decision._replace(x=self._reader.embed_inputs(decision.x, many=False))
        except LikewiseError as error:
            return error

    def _observe_next(self, decision: Decision) -> Verdict:
        """Observe a decision whose turn it is."""
        with self._lock:
            self._make_ready(record_fault=True)
            return self._sequencer.observe(decision.x, decision.z, RawMetadata(*decision[2:]))

    @contextmanager
    def _share_transaction(self) -> Iterator[None]:
        """Write what the block observes in one transaction at its end; BadFile if that fails."""
        with self._lock:
            self._make_ready(record_fault=True)
            journal = self._sequencer.journal
            with nullcontext() if journal is None else journal.group_writes():
                yield

    def _is_in_a_call(self) -> bool:
        """Whether this thread calls the monitor from inside another call of the monitor."""
        return self._lock._is_owned() and is_called_within(self)  # type: ignore[attr-defined]

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """Judge a decision as if it came now; nothing is remembered."""
        if self._embeds:
            x = self._reader.embed_inputs(x, many=False)
        with self._lock:
            self._make_ready()
            return self._sequencer.check(x, z, time, model)

    # Many decisions

    def _take_batch(
        self,
        step: Callable[..., _T],
        x: Any,
        *arguments: Any,
        record_fault: bool = True,
        judge: bool = True,
    ) -> _T:
        """Run a step of the sequencer on a batch; inputs are embedded before the lock is taken."""
        if self._embeds:
            x = self._reader.embed_inputs(x, many=True)
        with self._lock:
            self._make_ready(record_fault=record_fault, judge=judge)
            return step(x, *arguments)

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
        threads: int | None = None,
    ) -> Verdicts:
        """Observe many decisions; the verdicts are those that `observe` would give one by one.

        All are remembered, or none. To a ledger they are written in chunks; if its disk fails in
        between, the error says which decisions are stored.

        x, z     the inputs and outputs, in order
        keys, times     one for each, as for `observe`
        models   which model made them: one for all; or one, or None, for each
        sources, positions  with a ledger: the sequences that they come from, one for all; or one,
                 or None, for each; and the place of each there, as for `observe`
        threads  how many cores may share the work; all of them by default
        """
        metadata = RawMetadata(keys, times, models, sources, positions)
        return self._take_batch(self._sequencer.observe_many, x, z, metadata, threads)

    def check_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        time: Any = None,
        models: ForEach = None,
    ) -> Verdicts:
        """Judge each decision as if it alone came now; nothing is remembered."""
        step = self._sequencer.check_many
        return self._take_batch(step, x, z, time, models, record_fault=False)

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
    ) -> range:
        """Remember decisions without judging them; return their rows.

        Arguments are those of `observe_many`.
        """
        metadata = RawMetadata(keys, times, models, sources, positions)
        return self._take_batch(self._sequencer.load, x, z, metadata)

    # Accepting now, judging later

    def accept(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
    ) -> range:
        """Write decisions to the ledger now and judge them later, in order; return their rows.

        They are on disk when this returns. They are judged by `judge_accepted`; before any other
        call that looks at the history or adds to it; or when the ledger is opened again. All are
        accepted, or none. An empty ledger does not know what decisions look like, so the first
        one has to be observed. Arguments are those of `observe_many`.
        """
        metadata = RawMetadata(keys, times, models, sources, positions)
        return self._take_batch(self._sequencer.accept, x, z, metadata, judge=False)

    def judge_accepted(self, most: int = 1024) -> Verdicts | None:
        """Judge the next accepted decisions, at most so many; None if none is left.

        Decisions that were erased in the meantime get no verdict, and are skipped.
        """
        with self._lock:
            self._make_ready(record_fault=True, judge=False)
            return self._sequencer.judge_accepted(most)

    @property
    def accepted_count(self) -> int:
        """How many decisions are accepted and not judged yet."""
        with self._lock:
            self._make_ready(judge=False)
            return self._count_accepted()

    def verdicts_of(self, rows: Sequence[int]) -> list[Verdict | None]:
        """Read the verdicts that the ledger has on these rows, with the witnesses that it stores.

        None for a row without one: it was erased before it was judged, or was loaded, or has left
        the window.
        """
        with self._lock:
            self._make_ready(judge=False)
            return self._sequencer.verdicts_of(list(rows))

    def begin_buffer(self, name: str, most: int, *, drops: bool) -> None:
        """Record in the ledger that decisions wait for it in this process's memory from now on.

        If the process is killed before `end_buffer`, the next opening of the ledger records them as
        lost: at most `most`, or at least about that many if the buffer also drops decisions.
        """
        self._record_buffers({name: BufferBound(most, drops)})

    def end_buffer(self, name: str) -> None:
        """Record in the ledger that the buffer is empty and gone; a second call does nothing."""
        self._record_buffers({}, without=name)

    def _record_buffers(self, more: dict[str, BufferBound], without: str | None = None) -> None:
        with self._lock:
            self._make_ready(record_fault=True, judge=False)
            bounds = self._sequencer.require_journal().buffers | more
            self._sequencer.record_buffers(
                {name: bound for name, bound in bounds.items() if name != without}
            )

    # Forgetting

    def forget(self, rows: Any) -> int:
        """Erase rows, so that they are never witnesses again; return how many were remembered."""
        return len(self._erase(lambda: self._resolve_rows(rows)).rows)

    def erase(self, *, key: Any = None, rows: Any = None) -> Erasure:
        """Destroy inputs, outputs and keys of decisions, in memory and in every file of a ledger.

        key     one key, or a list of them
        rows    row numbers, instead of keys
        """
        if (key is None) == (rows is None):
            raise TypeError("erase takes a key, or keys, or rows")
        several = key if isinstance(key, list | tuple | set) else [key]
        return self._erase(
            lambda: (
                self._resolve_rows(rows)
                if key is None
                else np.unique(np.array([self.known_keys.row_on_disk(one) for one in several]))
            )
        )

    def _erase(self, find_rows: Callable[[], Rows]) -> Erasure:
        failed: BaseException | None = None
        with self._lock:
            self._make_ready(record_fault=True, judge=False)
            rows = find_rows()
            try:
                erasure = self._sequencer.erase(rows)
            except BaseException as error:
                steps = self._sequencer
                if steps.is_settled or steps.needs_only_judging:  # it was refused
                    raise
                failed = error
        if failed is not None:
            self._notify_erasure(None)
            raise failed
        # Rows that were erased before are included: a listener that failed then gets another try.
        complete = self._notify_erasure(np.union1d(rows, np.array(erasure.rows, np.int64)))
        return erasure if complete else replace(erasure, complete=False)

    def _notify_erasure(self, rows: Rows | None) -> bool:
        """Call the listeners, without the lock, since they may wait for it; whether all succeed."""
        complete = True
        for forget in self.erasure_listeners:
            try:
                forget(rows)
            except Exception as error:
                logger.error("something about erased rows is still kept: %s", type(error).__name__)
                complete = False
        return complete

    def _resolve_rows(self, rows: Any) -> Rows:
        what = "forgotten" if self._ledger_handle is None else "erased"
        taken = self._sequencer.rows_taken + self._count_accepted()
        return np.unique(rows_of(rows, taken, f"Nothing was {what}."))

    # Bounds

    def limit_words(self, most: int) -> None:
        """Limit the number of distinct labels, values of each column, models and sources.

        Decisions with more are refused. For services that take decisions from strangers: every new
        word stays in memory and on disk.
        """
        with self._lock_for_reading():
            self.memory.limit_words(most)
            if self._sequencer.journal is not None:
                self._sequencer.journal.most_sources = most

    # Losses

    def record_loss(
        self,
        count: int,
        reason: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: Any = None,
        until: Any = None,
        source: str | None = None,
        position: Position | None = None,
    ) -> None:
        """Record that decisions were made that will never be observed; every later verdict says so.

        count           how many they are
        reason          why, in a word or a few: "full", "timeout", "crash"
        first, last     your own numbers for the first and the last of them
        since, until    when they were lost, as `time` of a decision
        source, position    with a ledger: the sequence that they were in, and the last place there
                        that is missing. `positions` then goes on after it, in the same transaction

        A ledger stores this as an event of its chain.

        >>> from likewise import Rule
        >>> monitor = Monitor(Rule(metric="linf", epsilon=0.1))
        >>> monitor.record_loss(3, "full")
        >>> verdict = monitor.observe([0.5], "yes")
        >>> verdict.violation, verdict.missing, verdict.clean
        (False, 3, False)
        """
        loss = make_loss(count, reason, first, last, since, until)
        places = check_position(source, position)
        with self._lock:
            if self._ledger_handle is not None:
                self._make_ready(record_fault=True, judge=False)
            self._sequencer.record_loss(loss, places)

    def skip_positions(self, positions: Mapping[str, Position]) -> None:
        """Record in the ledger, by source, the position up to which everything was read.

        For records that held no decision, such as messages that could not be read: after a restart
        they are not read again. The positions are part of the ledger's chain.
        """
        places = check_positions(list(positions), list(positions.values()), len(positions))
        with self._lock:
            self._make_ready(record_fault=True)
            self._sequencer.skip_positions(places)

    @property
    def missing(self) -> int:
        """How many decisions are known to be missing: the sum of all `record_loss` calls."""
        with self._lock:
            self._make_ready(judge=False)
            return self._sequencer.missing

    # What is there

    @property
    def rows(self) -> int:
        """How many decisions were ever taken, which is the row of the next one."""
        with self._lock_for_reading():
            return self._sequencer.rows_taken

    @property
    def rows_taken(self) -> int:
        """Like `rows`, but accepted decisions are counted without being judged first."""
        with self._lock:
            self._make_ready(judge=False)
            return self._sequencer.rows_taken + self._count_accepted()

    def _count_accepted(self) -> int:
        return 0 if self._sequencer.journal is None else self._sequencer.journal.accepted_count

    def __len__(self) -> int:
        """Return how many decisions are remembered now."""
        with self._lock_for_reading():
            return len(self._engine)

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """Return the remembered inputs of these rows, in the shape and type that are stored."""
        return self._sequencer.past.inputs(rows)

    def values(self, row: int) -> dict[str, Any]:
        """Return a table row as it came, output included; None where a value was missing."""
        return self._sequencer.past.values(row)

    def keys(self, rows: Any) -> list[Any]:
        """Return the keys of rows; None for a row without one, or a forgotten one."""
        return self._sequencer.past.keys(rows)

    def row_of(self, key: Any) -> int | None:
        """Return the row of a key, or None if it is not remembered."""
        return self._sequencer.past.row_of(key)

    def explain(self) -> Explanation:
        """Say which index is in use, why, and what it costs."""
        with self._lock_for_reading():
            return self._engine.explain()

    def __repr__(self) -> str:
        ledger = "" if self._ledger_handle is None else f", ledger {str(self.path)!r}"
        if self.closed:
            return f"<Monitor: closed{ledger}>"
        rule = self.rule
        near = f"{rule.metric} within {rule.epsilon:g}"
        if rule.features is not None:
            near = f"{len(rule.features)} columns, {near}"
        return f"<Monitor: {len(self):,} decisions remembered, {near}{ledger}>"

    # Case work, with a ledger

    def review(
        self,
        row: int | None,
        witness: int | None,
        disposition: str,
        *,
        reason: str,
        reviewer: str,
        verified: bool = False,
    ) -> None:
        """Save a review of a contradiction, as an event of the ledger's chain.

        row, witness    the later and the earlier decision; without a witness, the review is about
                        all decisions that the later one contradicts
        disposition     justified, error, unfair, duplicate or unclear; "open" withdraws a review
        reason          why, in the reviewer's words
        reviewer        who says so
        verified        whether the caller has authenticated the reviewer, as a service does
        """
        self.insist_on_contradictions()
        with self._lock:
            self._make_ready(record_fault=True)
            journal = self._sequencer.require_journal()
            case_work.review(journal, row, witness, disposition, reason, reviewer, verified)

    def truth(self, key: Any, value: Any) -> None:
        """Record what turned out to be right for a decision; no verdict changes."""
        with self._lock:
            self._make_ready(record_fault=True)
            journal = self._sequencer.require_journal()
            case_work.tell_truth(journal, self.known_keys.row_on_disk(key), value)

    def supersede(
        self, key: Any, output: Any, *, by: str, why: str, verified: bool = False
    ) -> Verdict:
        """Overrule a decision; return the verdict on the one that takes its place.

        The old one stays in the ledger as evidence, and no later decision is compared with it. The
        new one has the same input, the new output, and no key.

        key         the key of the old decision
        output      the output of the new one
        by, why     who overrules it, and the reason
        verified    whether the caller has authenticated `by`, as a service does
        """
        self.insist_on_contradictions()
        with self._lock:
            self._make_ready(record_fault=True)
            return self._sequencer.supersede(key, output, by, why, verified)

    def record_administration(self, who: str, what: str, **more: Any) -> None:
        """Record in the ledger's chain an administrative request; it must hold no personal data.

        who     the name of the requester, such as that of a token
        what    what was requested, in a word: "erase"
        more    numbers and rows that belong to it
        """
        with self._lock:
            self._make_ready(record_fault=True)
            self._sequencer.event("administration", {"who": who, "what": what, **more})

    def stats(self, last: str | None = None) -> LedgerStats:
        """Count the decisions of the ledger: all, comparable ones and contradicting ones.

        last    count only a recent time, such as "24 hours"
        """
        ledger = self._require_ledger()
        self.flush()
        return ledger.stats(last)

    # With shards

    def use_shards(self, shards: ShardCoordinator) -> None:
        """Have these shards search the history from now on."""
        self._shards, self._can_join = shards, False

    @property
    def incomplete_count(self) -> int:
        """How many decisions were answered without a shard that has not been asked since."""
        with self._lock_for_reading():
            return 0 if self._shards is None else self._shards.incomplete_count

    def collect_late_verdicts(self) -> list[Verdict]:
        """Find the witnesses that were missed while shards were down that are back now.

        Returns one verdict for each affected decision, with the witnesses that its first verdict
        lacked and no others. Only `lw.cluster` makes monitors with shards.
        """
        with self._lock:
            self._make_ready(record_fault=True)
            shards = self._shards
            return [] if shards is None else shards.collect_late_verdicts(self._sequencer)

    # With a ledger

    def attach_journal(
        self, journal: Journal, path: Path, durability: str, wait: float | None
    ) -> None:
        """Keep everything in a ledger from now on; memory was made from it."""
        self._sequencer.attach_journal(journal)
        self._ledger_handle = LedgerHandle(self, journal, path, durability, wait)

    def _require_ledger(self) -> LedgerHandle:
        self._sequencer.require_journal()
        assert self._ledger_handle is not None
        return self._ledger_handle

    @property
    def durable(self) -> bool:
        """Whether the history outlives this process, which is so with a ledger."""
        return self._ledger_handle is not None

    @property
    def remote(self) -> None:
        """None: this monitor is in this process, not behind a service (monitor/protocol.py)."""

    @property
    def call_lock(self) -> "RLock | None":
        """The lock that calls take, if a call waits for nothing else."""
        waits = self._ledger_handle is not None or self._shards is not None or self._embeds
        return None if waits else self._lock

    def drain_before_close(self, drain: Callable[[float], object]) -> None:
        """Have `close` call this method with a number of seconds; the reference to it is weak."""
        self._drains = [one for one in self._drains if one() is not None]
        self._drains.append(WeakMethod(drain))

    @property
    def accepting(self) -> AcceptingMonitor | None:
        """This monitor if it has a ledger, so that `accept` can be called; else None."""
        return None if self._ledger_handle is None else self

    @property
    def path(self) -> Path:
        """The folder of the ledger."""
        return self._require_ledger().path

    @property
    def durability(self) -> str:
        """How soon answers are on disk: "commit", "batch" or "off", as given to `lw.open`."""
        return self._require_ledger().durability

    @property
    def window(self) -> RetentionWindow:
        """How much of the past the ledger keeps; everything for a monitor in memory."""
        journal = self._sequencer.journal
        return RetentionWindow() if journal is None else journal.window

    @property
    def positions(self) -> dict[str, Position]:
        """The last position on disk by source, which is where to go on after a restart.

        With durability "batch", decisions that are not written yet do not count; `flush` writes
        them.
        """
        with self._lock_for_reading():
            return dict(self._sequencer.require_journal().store.positions)

    def flush(self) -> None:
        """Write everything that was answered to disk."""
        with self._lock:
            self._make_ready(judge=False)
            if self._sequencer.journal is not None:
                self._sequencer.journal.flush()

    def verify(self, head: Head | str | None = None) -> Verification:
        """Check the ledger's chain, and name the first row that is not as it was written.

        head    a head that was noted earlier; the ledger must continue it

        Decisions are taken meanwhile: what was on disk at the beginning is checked.
        """
        ledger = self._require_ledger()
        self.flush()
        return ledger.verify(head)

    def head(self) -> Head:
        """Return the end of the ledger's chain; keep it somewhere else, as evidence."""
        with self._lock_for_reading():
            return self._sequencer.require_journal().head()

    # The end

    def close(self) -> None:
        """Let go of the history; a file of rows, or a ledger, keeps what was observed.

        If a signal interrupts it, call it again: it does what is left to do.
        """
        for reference in self._drains:
            drain = reference()
            if drain is not None and not self.closed:
                drain(_DRAIN_SECONDS)
        self._commits.finish()
        with self._lock:
            ledger = self._ledger_handle
            if self.closed:
                if ledger is not None and ledger.is_mine:
                    ledger.close()
                return
            if ledger is None:
                self._make_ready()
                self.closed = True
                self._sequencer.forget_all()
                return
            if not ledger.is_mine:  # this process was forked: the ledger is the parent's
                self.closed = True
                return
            try:
                self._make_ready(judge=False)
                self._sequencer.require_journal().flush()
            finally:
                self.closed = True
                ledger.close()
                self._sequencer.forget_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answer_or_refusal(answer: Verdict | Exception) -> Verdict | LikewiseError:
    """Turn an error of the caller's own label, index or embedder into a refusal."""
    if not isinstance(answer, Exception) or isinstance(answer, LikewiseError):
        return answer
    refusal = BadDecision(f"judging it raised {type(answer).__name__}: {answer}.")
    refusal.__cause__ = answer
    return refusal
