"""The monitor: one lock, and all that can be asked of a history.

What a call does stands in sequencer.py; the short way of a single vector in memory stands here,
since it is to cost one call more than the engine's. Whoever calls after a call that was cut off
finds `midway` set, and has that undone before anything else.

Invariant: every call is one step of the history, whichever thread it comes from.
Cost: `observe` of a vector in memory is the engine's, and one call more.
Not here: reading (reading/), judging (engine/), disks (ledger/).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, Self
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, BadFile, BadRule, LikewiseError, NestedCall
from likewise.explaining.past import Past
from likewise.ledger.heads import Head
from likewise.ledger.loss_events import BufferBound
from likewise.ledger.stats import LedgerStats
from likewise.ledger.verification import Verification
from likewise.ledger.window import RetentionWindow
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
from likewise.monitor.sequencer import Sequencer, make_loss
from likewise.monitor.sharded import ShardCoordinator
from likewise.monitor.time_span import TimeSpan
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger
from likewise.runtime.reentrancy import is_called_within
from likewise.search.engine.engine import Engine
from likewise.search.engine.refusal import rows_of
from likewise.tables.copy_input import copy_input
from likewise.tables.keys import Keys
from likewise.tables.named_array import NAMELESS
from likewise.tables.positions import Position, check_position, check_positions
from likewise.tables.rows import Rows
from likewise.verdict.index_report import Explanation
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdicts import Verdict, Verdicts

_DRAIN_SECONDS = 60.0  # that closing waits for those who still have decisions for it


class Monitor:
    """Watches a sequence of decisions for like cases that were not treated alike.

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

    index   "auto" chooses, and changes its mind as the history grows; "live" is the tree, over a
            sketch where inputs are long; "flat" a scan of rotated coordinates, for l2 and cosine.
            The paper's are "brute", "kdtree", "snn", "bdd", Periodic(…) and Split(…); or your own:
            an index, or what makes one for a space (search/indexes/protocol.py).
    rows    a new file to keep inputs in, instead of memory: only candidates are read from it.
    burst   a Burst: count near inputs among the last decisions, whatever their output.
    comparable  whether each verdict also says if there was a near past input at all, whatever its
            output: `verdict.comparable`. Without one, that nothing contradicts it means nothing.
    within  how long before a decision the past begins that it is compared with: "90 days". Every
            decision then needs its time, and they come in order of time. Nothing is forgotten.
    slope   ask another question: against which past decision is the slope steepest, that is output
            distance / input distance ** input_exponent? `verdict.slope` says how steep it is, and
            the only witness which one it is; epsilon and delta take no part. For vectors.
    slope_limit     a steeper slope is a violation; None: nothing is
    input_exponent  from 0.01 to 100; 1 unless given

    An input may have any shape; the first decision settles it. All methods may be called from
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
        chosen = None if isinstance(index, str) and index == "auto" else index
        others = {"index": chosen, "rows": rows, "burst": burst, "within": within}
        asked = read_slope_options(
            slope, slope_limit, input_exponent, comparable=comparable, **others
        )
        span = None if within is None else make_time_span(within)
        if asked is not None:
            from likewise.monitor.best_match import make_slope_engine  # which others need not load

            engine = make_slope_engine(rule, SlopeQuestion(**asked))
        else:
            engine = Engine(
                reader.vector_rule, index=index, rows=rows, burst=burst, comparable=comparable
            )
        self._begin(reader, engine, Keys(), span)

    @classmethod
    def from_parts(cls, reader: Reader, engine: Engine, keys: Keys | None = None) -> Self:
        """A monitor of these parts, in memory."""
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
        """What is remembered, for a journal to copy; everybody else looks at `past`."""
        self.known_keys = keys
        self._ledger_handle: LedgerHandle | None = None
        self._embeds = reader.embeds
        self._can_join = reader.rule.features is None and span is None and not self._embeds
        self._shards: ShardCoordinator | None = None
        self._drains: list[WeakMethod[Callable[[float], object]]] = []
        self.erasure_listeners: list[Callable[[Rows | None], None]] = []
        """Called with the rows after each erasure, by whoever keeps something about decisions
        elsewhere; with None if an erasure failed half way, and it may be any."""
        self.closed = False
        register_after_fork(self)

    @property
    def _journal(self) -> Journal | None:
        return self._sequencer.journal

    @property
    def rule(self) -> Rule:
        return self._reader.rule

    @property
    def burst(self) -> Burst | None:
        return self._engine.burst

    @property
    def comparable(self) -> bool:
        """Whether verdicts say if there was a near past input at all."""
        return self._engine.comparable

    @property
    def slope(self) -> SlopeQuestion | None:
        """What is asked of slopes, with its `limit`; None where contradictions are asked for."""
        return self._engine.verdict_context.question

    def insist_on_contradictions(self) -> None:
        """Raise BadRule if slopes are asked for, since nearly every decision has one."""
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
        """The only way to look back: values, inputs, outputs and keys, by row."""
        return self._sequencer.past

    # The door

    def _make_ready(self, *, record_fault: bool = False, judge: bool = True) -> None:
        """Undo or finish what an earlier call left half done, and judge what was accepted.

        note: whether a ledger is to say so if its disk had refused something
        judge: whether decisions that were accepted are judged first
        """
        steps, kept = self._sequencer, self._ledger_handle
        if kept is not None and self.closed:
            raise BadFile(
                f"the ledger {str(kept.path)!r} is closed. Open it again.", path=kept.path
            )
        if steps.is_settled or (not judge and steps.needs_only_judging):
            return
        if kept is not None:
            kept.check_process()
        if is_called_within(self):
            name = "this monitor" if kept is None else f"the ledger {str(kept.path)!r}"
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
        """In a forked process: another thread may have held the lock, in the middle of a call."""
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

        x       a vector; a row of a table (a dictionary or named tuple); or what is embedded
        z       the output; may be left out where it is one of the row's columns
        key     your own name for the decision, unique, if the rule has no column for it
        time    when it was made; a ledger keeps it, and takes the clock's if none is given
        model   which model made it; the rule's `compare` says if that decides what is compared
        source, position    with a ledger: the sequence that it comes from ("decisions/3"), and its
                place there, a whole number or a pair of them, above those that came before
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
                    self._reader.read_one(x, z)  # which says what is missing
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
        """As `observe`, soon: `result()` of the answer waits for the verdict, and so does `await`.

        Decisions are taken in the order in which they are submitted. With a ledger, those that are
        submitted meanwhile share a transaction. The input may be changed once this has returned.
        """
        if self._embeds:
            x = self._reader.embed_inputs(x, many=False)
        else:
            x = copy_input(x, columns=self.rule.features is not None)
        return self._commits.submit(Decision(x, z, key, time, model, source, position))

    def observe_each(self, decisions: Sequence[Decision]) -> list[Verdict | LikewiseError]:
        """Take decisions one after another, each as `observe` does: its verdict, or the refusal.

        With a ledger those that are not refused share a transaction. Raises BadFile, and none is
        taken, if they cannot be written.
        """
        if not self._embeds:
            return list(map(_answer_or_refusal, self._commit_group(decisions)))
        given = [self._embed(decision) for decision in decisions]
        good = [one for one in given if not isinstance(one, LikewiseError)]
        answers = map(_answer_or_refusal, self._commit_group(good))
        return [one if isinstance(one, LikewiseError) else next(answers) for one in given]

    def _commit_group(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception]":
        """`observe_each`, of decisions whose turn it is, with what the caller's code raised."""
        if self._can_join:
            joint = self._observe_joined(decisions)
            if joint is not None:
                return joint
        with self._share_transaction():
            if self._shards is not None:
                return self._take_in_batches(self._shards, decisions)
            return self._take_each(decisions)

    def _take_in_batches(
        self, sharded: ShardCoordinator, decisions: Sequence[Decision]
    ) -> "list[Verdict | Exception]":
        """`_take_each`, in batches."""
        answers: list[Verdict | Exception] = []
        for start in range(0, len(decisions), MOST_JOINED):
            some = decisions[start : start + MOST_JOINED]
            self._make_ready(record_fault=True)
            answers += sharded.observe_together(self._sequencer, some) or self._take_each(some)
        return answers

    def _take_each(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception]":
        """What is answered to decisions, one after another."""
        answers: list[Verdict | Exception] = []
        for decision in decisions:
            try:
                answers.append(self._observe_next(decision))
            except Exception as error:
                answers.append(error)
        return answers

    def _observe_joined(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception] | None":
        """The answers to decisions as to one call; None if they are to be taken one by one."""
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
                    raise  # they were taken: once more would be twice
                return None

    def _embed(self, decision: Decision) -> "Decision | LikewiseError":
        try:
            return decision._replace(x=self._reader.embed_inputs(decision.x, many=False))
        except LikewiseError as error:
            return error

    def _observe_next(self, decision: Decision) -> Verdict:
        """`observe`, of a decision whose turn it is."""
        with self._lock:
            self._make_ready(record_fault=True)
            return self._sequencer.observe(decision.x, decision.z, RawMetadata(*decision[2:]))

    @contextmanager
    def _share_transaction(self) -> Iterator[None]:
        """Within it calls are made and nothing is written; at its end all of it is, or BadFile."""
        with self._lock:
            self._make_ready(record_fault=True)
            journal = self._sequencer.journal
            with nullcontext() if journal is None else journal.group_writes():
                yield

    def _is_in_a_call(self) -> bool:
        """Whether this thread holds the lock, and comes here out of a call that it is making."""
        return self._lock._is_owned() and is_called_within(self)  # type: ignore[attr-defined]

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """The verdict on a decision as if it came now; nothing is remembered."""
        if self._embeds:
            x = self._reader.embed_inputs(x, many=False)
        with self._lock:
            self._make_ready()
            return self._sequencer.check(x, z, time, model)

    # Many decisions

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
        """The same verdicts as `observe` would give one by one.

        All are remembered, or none. To a ledger they are written in chunks; if its disk fails in
        between, the error says which decisions are stored.

        models   which model made them: one for all, or one, or None, for each.
        sources, positions  with a ledger: the sequences that they come from, one for all or one, or
                 None, for each, and the place of each there, as for `observe`.
        threads  how many cores may share the work; all of them unless told otherwise.
        """
        if self._embeds:
            x = self._reader.embed_inputs(x, many=True)
        with self._lock:
            self._make_ready(record_fault=True)
            said = RawMetadata(keys, times, models, sources, positions)
            return self._sequencer.observe_many(x, z, said, threads)

    def check_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        time: Any = None,
        models: ForEach = None,
    ) -> Verdicts:
        """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
        if self._embeds:
            x = self._reader.embed_inputs(x, many=True)
        with self._lock:
            self._make_ready()
            return self._sequencer.check_many(x, z, time, models)

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
        """Remember decisions without judging them; their rows."""
        if self._embeds:
            x = self._reader.embed_inputs(x, many=True)
        with self._lock:
            self._make_ready(record_fault=True)
            return self._sequencer.load(x, z, RawMetadata(keys, times, models, sources, positions))

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
        """With a ledger: write decisions that are judged later, in their order; their rows.

        They are on disk when this returns, and are judged by `judge_accepted`, before any other
        call that looks at the history or adds to it, or when the ledger is opened again. All are
        accepted, or none. A ledger without a row does not know what decisions look like: the first
        one has to be observed.
        """
        if self._embeds:
            x = self._reader.embed_inputs(x, many=True)
        with self._lock:
            self._make_ready(record_fault=True, judge=False)
            return self._sequencer.accept(
                x, z, RawMetadata(keys, times, models, sources, positions)
            )

    def judge_accepted(self, most: int = 1024) -> Verdicts | None:
        """Judge the next decisions that were accepted: their verdicts; None if there are none.

        Decisions that were erased in between get no verdict, and are passed over.
        """
        with self._lock:
            self._make_ready(record_fault=True, judge=False)
            return self._sequencer.judge_accepted(most)

    @property
    def accepted_count(self) -> int:
        """Decisions that are accepted and not judged yet."""
        with self._lock:
            self._make_ready(judge=False)
            return self._count_accepted()

    def verdicts_of(self, rows: Sequence[int]) -> list[Verdict | None]:
        """With a ledger: the verdicts that it has on these rows, with the witnesses that it keeps.

        None for a row without one: it was erased before it was judged, or loaded, or has left.
        """
        with self._lock:
            self._make_ready(judge=False)
            return self._sequencer.verdicts_of(list(rows))

    def begin_buffer(self, name: str, most: int, *, drops: bool) -> None:
        """With a ledger: chain that decisions wait for it in this process's memory from now on.

        If the process is killed before `end_buffer`, whoever opens the ledger next records them as
        lost: at most so many, or at least about so many if the buffer also drops decisions.
        """
        self._record_buffers({name: BufferBound(most, drops)})

    def end_buffer(self, name: str) -> None:
        """Chain that nothing of that buffer waits any more. Nothing is done the second time."""
        self._record_buffers({}, without=name)

    def _record_buffers(self, more: dict[str, BufferBound], without: str | None = None) -> None:
        with self._lock:
            self._make_ready(record_fault=True, judge=False)
            known = self._sequencer.require_journal().buffers | more
            self._sequencer.record_buffers({name: known[name] for name in known if name != without})

    # Forgetting

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""
        return len(self._erase(lambda: self._resolve_rows(rows)).rows)

    def erase(self, *, key: Any = None, rows: Any = None) -> Erasure:
        """Destroy inputs, outputs and keys, in memory and in every file of a ledger.

        key     one key, or a list of them
        rows    rows, instead of keys
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

    def _erase(self, meant: Callable[[], Rows]) -> Erasure:
        failed: BaseException | None = None
        with self._lock:
            self._make_ready(record_fault=True, judge=False)
            wanted = meant()
            try:
                erasure = self._sequencer.erase(wanted)
            except BaseException as error:
                if (
                    self._sequencer.is_settled or self._sequencer.needs_only_judging
                ):  # it was refused
                    raise
                failed = error
        if failed is not None:
            self._notify_erasure(None)
            raise failed
        # Also rows that were erased before: whoever could not forget them then can do so now.
        told = self._notify_erasure(np.union1d(wanted, np.array(erasure.rows, np.int64)))
        return erasure if told else replace(erasure, complete=False)

    def _notify_erasure(self, rows: Rows | None) -> bool:
        """Whether all who keep something about these rows have forgotten it. Without the lock:
        they may be waiting for it."""
        told = True
        for forget in self.erasure_listeners:
            try:
                forget(rows)
            except Exception as error:
                logger.error("something about erased rows is still kept: %s", type(error).__name__)
                told = False
        return told

    def _resolve_rows(self, rows: Any) -> Rows:
        what = "forgotten" if self._ledger_handle is None else "erased"
        taken = self._sequencer.rows_taken + self._count_accepted()
        return np.unique(rows_of(rows, taken, f"Nothing was {what}."))

    # Bounds

    def limit_words(self, most: int) -> None:
        """Refuse decisions with more distinct labels, categories, models or sources than this.

        For whoever takes decisions from strangers: every new word stays in memory, and on disk.
        """
        with self._lock_for_reading():
            self.memory.limit_words(most)
            if self._sequencer.journal is not None:
                self._sequencer.journal.most_sources = most

    # Losing

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
        """So many decisions were made and will never be observed; every later verdict says so.

        reason          why, in a word or a few: "full", "timeout", "crash"
        first, last     your own numbers of the first and the last of them
        since, until    when they were lost, as `time` of a decision
        source, position    with a ledger: the sequence that they were in, and the last place there
                        that is missing. `positions` then stands behind it, in the same transaction

        A ledger keeps it as an event of its chain.

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
        """With a ledger: by source, a position up to which everything was read.

        For records of which no decision was made, such as messages that nobody could read: after a
        restart they are not read again. Chained as decisions are.
        """
        places = check_positions(list(positions), list(positions.values()), len(positions))
        with self._lock:
            self._make_ready(record_fault=True)
            self._sequencer.skip_positions(places)

    @property
    def missing(self) -> int:
        """Decisions known to be missing from this history: the sum of what `lost` was told."""
        with self._lock:
            self._make_ready(judge=False)
            return self._sequencer.missing.count

    # What is there

    @property
    def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""
        with self._lock_for_reading():
            return self._sequencer.rows_taken

    @property
    def rows_taken(self) -> int:
        """`rows`, without having accepted decisions judged first."""
        with self._lock:
            self._make_ready(judge=False)
            return self._sequencer.rows_taken + self._count_accepted()

    def _count_accepted(self) -> int:
        return 0 if self._sequencer.journal is None else self._sequencer.journal.accepted_count

    def __len__(self) -> int:
        """Decisions remembered now."""
        with self._lock_for_reading():
            return len(self._engine)

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """What is remembered of these rows, in the shape and type in which it is kept."""
        return self._sequencer.past.inputs(rows)

    def values(self, row: int) -> dict[str, Any]:
        """A row of a table as it came, its output included; None where something was missing."""
        return self._sequencer.past.values(row)

    def keys(self, rows: Any) -> list[Any]:
        """The keys of rows; None for one without, or forgotten."""
        return self._sequencer.past.keys(rows)

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""
        return self._sequencer.past.row_of(key)

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""
        with self._lock_for_reading():
            return self._engine.explain()

    def __repr__(self) -> str:
        kept = "" if self._ledger_handle is None else f", ledger {str(self.path)!r}"
        if self.closed:
            return f"<Monitor: closed{kept}>"
        rule = self.rule
        near = f"{rule.metric} within {rule.epsilon:g}"
        if rule.features is not None:
            near = f"{len(rule.features)} columns, {near}"
        return f"<Monitor: {len(self):,} decisions remembered, {near}{kept}>"

    # What people say afterwards, with a ledger

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
        """Write down what somebody makes of a contradiction; the chain has it from then on.

        row, witness    the later and the earlier decision; None: all that the later contradicts
        disposition     justified, error, unfair, duplicate or unclear; "open" takes one back
        verified        whether the caller has checked that it is the reviewer, as a service does
        """
        self.insist_on_contradictions()
        with self._lock:
            self._make_ready(record_fault=True)
            journal = self._sequencer.require_journal()
            case_work.review(journal, row, witness, disposition, reason, reviewer, verified)

    def truth(self, key: Any, value: Any) -> None:
        """Write down what turned out to be right for a decision; no verdict changes."""
        with self._lock:
            self._make_ready(record_fault=True)
            journal = self._sequencer.require_journal()
            case_work.tell_truth(journal, self.known_keys.row_on_disk(key), value)

    def supersede(
        self, key: Any, output: Any, *, by: str, why: str, verified: bool = False
    ) -> Verdict:
        """Overrule a decision: the verdict on the one that takes its place.

        The old one stays in the ledger as evidence, and is compared with no more. The new one has
        the same input and the new output, and no key. verified: as of `review`, of `by`
        """
        self.insist_on_contradictions()
        with self._lock:
            self._make_ready(record_fault=True)
            return self._sequencer.supersede(key, output, by, why, verified)

    def record_administration(self, who: str, what: str, **more: Any) -> None:
        """Chain that somebody has asked for something other than a decision; no values of people.

        who     a name of theirs, such as that of a token
        what    what was asked, in a word: "erase"
        more    numbers and rows that belong to it
        """
        with self._lock:
            self._make_ready(record_fault=True)
            self._sequencer.event("administration", {"who": who, "what": what, **more})

    def stats(self, last: str | None = None) -> LedgerStats:
        """How many decisions there were, how many could be compared, how many contradict."""
        kept = self._require_ledger()
        self.flush()
        return kept.stats(last)

    # With shards

    def use_shards(self, shards: ShardCoordinator) -> None:
        """From here on the history is searched by these shards."""
        self._shards, self._can_join = shards, False

    @property
    def incomplete_count(self) -> int:
        """How many decisions were answered without some shard that was not asked since."""
        with self._lock_for_reading():
            return 0 if self._shards is None else self._shards.incomplete_count

    def collect_late_verdicts(self) -> list[Verdict]:
        """Witnesses of decisions that were answered while shards were down that are back now.

        One verdict for each such decision with the witnesses that its own lacks, and no other. Only
        `lw.cluster` makes monitors with shards.
        """
        with self._lock:
            self._make_ready(record_fault=True)
            return (
                [] if self._shards is None else self._shards.collect_late_verdicts(self._sequencer)
            )

    # With a ledger

    def attach_journal(
        self, journal: Journal, path: Path, durability: str, wait: float | None
    ) -> None:
        """From here on everything is in a ledger, which memory was made from."""
        self._sequencer.attach_journal(journal)
        self._ledger_handle = LedgerHandle(self, journal, path, durability, wait)

    def _require_ledger(self) -> LedgerHandle:
        self._sequencer.require_journal()
        assert self._ledger_handle is not None
        return self._ledger_handle

    @property
    def durable(self) -> bool:
        """Whether its history outlives this process: it has a ledger."""
        return self._ledger_handle is not None

    @property
    def remote(self) -> None:
        """None: it is in this process, and not behind a service (monitor/protocol.py)."""

    @property
    def call_lock(self) -> "RLock | None":
        """The lock that calls take, if a call waits for nothing else."""
        waits = self._ledger_handle is not None or self._shards is not None or self._embeds
        return None if waits else self._lock

    def drain_before_close(self, drain: Callable[[float], object]) -> None:
        """Have a method called, with seconds, when this is closed; its object may go before."""
        self._drains = [one for one in self._drains if one() is not None]
        self._drains.append(WeakMethod(drain))

    @property
    def accepting(self) -> AcceptingMonitor | None:
        """This monitor, if it has a ledger: `accept` can be called."""
        return None if self._ledger_handle is None else self

    @property
    def path(self) -> Path:
        """The folder of the ledger."""
        return self._require_ledger().path

    @property
    def durability(self) -> str:
        return self._require_ledger().durability

    @property
    def window(self) -> RetentionWindow:
        """How much of the past is kept."""
        journal = self._sequencer.journal
        return RetentionWindow() if journal is None else journal.window

    @property
    def positions(self) -> dict[str, Position]:
        """By source, the last position that is on disk: where to go on after a restart.

        With durability "batch", decisions that wait are not counted: `flush` has them written.
        """
        with self._lock_for_reading():
            return dict(self._sequencer.require_journal().store.positions)

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        with self._lock:
            self._make_ready(judge=False)
            if self._sequencer.journal is not None:
                self._sequencer.journal.flush()

    def verify(self, head: Head | str | None = None) -> Verification:
        """Walk the ledger's chain; name the first row that is not as it was written.

        Decisions are taken meanwhile: the walk is over what was on disk when it began.
        """
        kept = self._require_ledger()
        self.flush()
        return kept.verify(head)

    def head(self) -> Head:
        """The end of the ledger's chain, to be kept elsewhere."""
        with self._lock_for_reading():
            return self._sequencer.require_journal().head()

    # The end

    def close(self) -> None:
        """Let go of the history; a file of rows, or a ledger, keeps what was observed.

        If a signal cuts it off, call it again: it does what is left to do.
        """
        for known in self._drains:
            drain = known()
            if drain is not None and not self.closed:
                drain(_DRAIN_SECONDS)
        self._commits.finish()
        with self._lock:
            kept = self._ledger_handle
            if self.closed:
                if kept is not None and kept.is_mine:
                    kept.close()
                return
            if kept is None:
                self._make_ready()
                self.closed = True
                self._sequencer.forget_all()
                return
            if not kept.is_mine:  # a process that was forked off: this is not its ledger
                self.closed = True
                return
            try:
                self._make_ready(judge=False)
                self._sequencer.require_journal().flush()
            finally:
                self.closed = True
                kept.close()
                self._sequencer.forget_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answer_or_refusal(answer: Verdict | Exception) -> Verdict | LikewiseError:
    """An answer of `observe_each`: what a label or index of the caller raised is a refusal."""
    if not isinstance(answer, Exception) or isinstance(answer, LikewiseError):
        return answer
    refusal = BadDecision(f"judging it raised {type(answer).__name__}: {answer}.")
    refusal.__cause__ = answer
    return refusal
