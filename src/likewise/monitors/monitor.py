"""The monitor: one lock, rows, keys and times; a reader, an engine and, with a ledger, a journal.

A decision is read, judged and remembered by the engine, kept by the reader, and written by the
journal, in that order. Only then does the number of rows that count move, in one step. An exception
may arrive between any two steps (a signal handler, a user's index, a full disk): whoever calls next
finds `_midway` set, and goes back to that number before anything else.

Invariant: a rejected decision, or batch, leaves no trace; what was answered is remembered.
Cost: `observe` of a vector in memory is the engine's, and one call more.
Not here: reading (reading/), judging (engine/), disks (ledger/).
"""

import atexit
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.engine.engine import Engine
from likewise.engine.memory import Memory
from likewise.engine.refusal import rows_of
from likewise.engine.row_models import Models
from likewise.engine.time_span import TimeSpan
from likewise.ledger import folder, words
from likewise.ledger.erasure import Erasure
from likewise.ledger.flusher import start_flusher
from likewise.ledger.heads import Head
from likewise.ledger.journal import KEEPING, Journal
from likewise.ledger.ledger import Ledger
from likewise.ledger.reader import LedgerReader
from likewise.ledger.stats import LedgerStats
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.stored_witnesses import Kept
from likewise.ledger.times import all_microseconds, duration, microseconds
from likewise.ledger.verify import Verification, verify
from likewise.ledger.window import Window
from likewise.ledger.write_buffer import Pending, kept_of_many, kept_of_one
from likewise.metrics.outputs import Labels
from likewise.monitors import case_work
from likewise.monitors.protocol import Decision
from likewise.monitors.remembered_past import RememberedPast
from likewise.monitors.repeats import is_same, stored_verdict
from likewise.monitors.sharing import Answer, SharedCommits
from likewise.reading.embedded import EmbeddedReader
from likewise.reading.protocol import FROM_ROW, Batch, Reader
from likewise.reading.tables import TableReader
from likewise.reading.vectors import VectorReader
from likewise.rules.burst import Burst
from likewise.rules.rule import Rule
from likewise.runtime.forking import copied_by_fork
from likewise.runtime.log import logger
from likewise.runtime.reentry import called_within
from likewise.values.errors import (
    BadDecision,
    BadFile,
    BadRow,
    BadRule,
    LikewiseError,
    RepeatedKey,
)
from likewise.values.explanation import Explanation
from likewise.values.given import as_given
from likewise.values.keys import Keys
from likewise.values.losses import Loss
from likewise.values.models import model_of, models_of
from likewise.values.past import Past
from likewise.values.verdicts import Beside, Rows, Verdict, Verdicts

_NO_TIMES: Rows = np.empty(0, np.int64)


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
            an index, or what makes one for a space (indexes/protocol.py).
    rows    a new file to keep inputs in, instead of memory: only candidates are read from it.
    burst   a Burst: count near inputs among the last decisions, whatever their output.
    comparable  whether each verdict also says if there was a near past input at all, whatever its
            output: `verdict.comparable`. Without one, that nothing contradicts it means nothing.
    within  how long before a decision the past begins that it is compared with: "90 days". Every
            decision then needs its time, and they come in order of time. Nothing is forgotten.

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
    ) -> None:
        reader = reader_of(rule)
        span = None if within is None else span_of(within)
        engine = Engine(reader.plain, index=index, rows=rows, burst=burst, comparable=comparable)
        self._begin(reader, engine, Keys(), span)

    @classmethod
    def of(cls, reader: Reader, engine: Engine, keys: Keys | None = None) -> Self:
        """A monitor of these parts, in memory."""
        monitor = cls.__new__(cls)
        monitor._begin(reader, engine, Keys() if keys is None else keys)
        return monitor

    def _begin(
        self, reader: Reader, engine: Engine, keys: Keys, span: TimeSpan | None = None
    ) -> None:
        self._lock = RLock()
        self._midway = False  # whether a call has begun, and not finished
        self._shared = SharedCommits(self)
        self._taken = 0
        """Rows that all finished calls have left behind; with a journal, its queue says that."""
        self._reader = reader
        self._engine = engine
        self.known_keys = keys
        self._journal: Journal | None = None
        self.memory = Memory(reader, engine, span)
        """What is remembered, for a journal to copy; everybody else looks at `past`."""
        self._past = RememberedPast(self.memory, keys, self._looking)
        engine.beside = Beside(self._past)
        self._embeds = isinstance(reader, EmbeddedReader)
        self._span = span
        self._direct = (
            type(reader) is VectorReader and span is None and reader.rule.compare == "all"
        )
        """Whether a decision goes to the engine as it came. Not once a model is given: then every
        verdict says the models of its witnesses."""
        self.closed = False
        copied_by_fork(self)

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
    def within(self) -> str | None:
        """How long before a decision the past begins that it is compared with, if limited."""
        return None if self._span is None else self._span.text

    @property
    def past(self) -> Past:
        """The only way to look back: values, inputs, outputs and keys, by row."""
        return self._past

    # The door

    def _ready(self, *, note: bool = False) -> None:
        """Undo or finish what an earlier call left half done.

        note: whether a ledger is to say so if its disk had refused something
        """
        journal = self._journal
        if journal is not None:
            if self.closed:
                raise BadFile(f"the ledger {str(self.path)!r} is closed. Open it again.")
            journal.store.check_process()
        if not self._midway and (journal is None or journal.sure):
            return
        if called_within(self):
            name = "this monitor" if journal is None else f"the ledger {str(self.path)!r}"
            raise BadDecision(
                f"{name} is in the middle of another call, out of which it was called again: by a"
                " signal handler, a finalizer, or a label, index or embedder of yours. Nothing was"
                " stored: call it afterwards."
            )
        if journal is None:
            self.memory.settle(self._taken)
            self.known_keys.settle(self._taken, self._engine.alive)
        else:
            journal.settle(note=note)
            self._taken = journal.rows
            self._say_missing(journal.missing)
        self._midway = False

    @contextmanager
    def _looking(self) -> Iterator[None]:
        with self._lock:
            self._ready()
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around all that can be refused, before anything is remembered."""
        self._midway = True
        try:
            yield
        except LikewiseError:
            self._refused()
            raise

    def _refused(self) -> None:
        """Something was refused before it was remembered: nothing is left to undo, or little."""
        if self._engine.rows == self._taken and self._engine.refused():
            self._midway = False

    def _after_fork(self) -> None:
        """In a forked process: another thread may have held the lock, in the middle of a call."""
        self._lock = RLock()
        self._shared.after_fork(self)
        if self._journal is not None:  # the folder's lock is let go of, so every call is refused
            self._journal.after_fork()
        self._midway = self._engine.after_fork(cut_off=self._midway)
        if self._engine.rows == 0:
            self._taken = 0

    # One decision

    def observe(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
    ) -> Verdict:
        """Compare a decision with the past, then make it part of the past.

        x       a vector; a row of a table (a dictionary or named tuple); or what is embedded
        z       the output; may be left out where it is one of the row's columns
        key     your own name for the decision, unique, if the rule has no column for it
        time    when it was made; a ledger keeps it, and takes the clock's if none is given
        model   which model made it; the rule's `compare` says if that decides what is compared
        """
        if self._embeds:
            x = self._reader.vectors_of(x, many=False)
        if self._journal is not None:
            return self._shared.make(partial(self._observe_next, x, z, key, time, model))
        with self._lock:
            if self._midway:
                self._ready()
            if not self._direct or key is not None or time is not None or model is not None:
                return self._observe(x, z, key, time, model)
            self._midway = True
            try:
                if z is FROM_ROW:
                    self._reader.one(x, z)  # which says what is missing
                verdict = self._engine.observe(x, z)
            except LikewiseError:
                self._refused()
                raise
            self._taken = self._engine.rows  # from here on the decision is remembered
            self._midway = False
            return verdict

    def submit(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
    ) -> Answer[Verdict]:
        """As `observe`, soon: `result()` of the answer waits for the verdict, and so does `await`.

        Decisions are taken in the order in which they are submitted. With a ledger, those that are
        submitted meanwhile share a transaction. The input may be changed once this has returned.
        """
        if self._embeds:
            x = self._reader.vectors_of(x, many=False)
        else:
            x = as_given(x, columns=self.rule.features is not None)
        return self._shared.submit(partial(self._observe_next, x, z, key, time, model))

    def observe_each(self, decisions: Sequence[Decision]) -> list[Verdict | LikewiseError]:
        """Take decisions one after another, each as `observe` does: a verdict, or why it is refused.

        With a ledger those that are not refused share a transaction. Raises BadFile, and none is
        taken, if they cannot be written.
        """
        answers: list[Verdict | LikewiseError] = []
        if self._embeds:
            decisions = [self._embedded(decision) for decision in decisions]
        with self._committing_together():
            for decision in decisions:
                try:
                    if isinstance(decision, LikewiseError):
                        raise decision
                    self._ready(note=True)
                    answers.append(self._observe(*decision))
                except LikewiseError as error:
                    answers.append(error)
        return answers

    def _embedded(self, decision: Decision) -> Decision | LikewiseError:
        try:
            return decision._replace(x=self._reader.vectors_of(decision.x, many=False))
        except LikewiseError as error:
            return error

    def _observe_next(self, x: Any, z: Any, key: Any, time: Any, model: Any) -> Verdict:
        """`observe`, of a decision whose turn it is."""
        with self._lock:
            self._ready(note=True)
            return self._observe(x, z, key, time, model)

    @contextmanager
    def _committing_together(self) -> Iterator[None]:
        """Within it calls are made and nothing is written; at its end all of it is, or BadFile."""
        with self._lock:
            self._ready(note=True)
            with nullcontext() if self._journal is None else self._journal.together():
                yield

    def _observe(self, x: Any, z: Any, key: Any, time: Any, model: Any) -> Verdict:
        """The same where there is more to it than vectors in memory."""
        journal, row = self._journal, self._taken
        if journal is not None:
            journal.flush_in_time()
        self._midway = True
        try:
            batch = self._reader.one(x, z)
            batch.models = self._given_models(model)
            try:
                keys = self._given_keys(batch, None if key is None else [key], 1)
            except RepeatedKey as error:
                if journal is None or not is_same(self.memory, error.row, batch):
                    raise
                return self._answer_again(journal, error.row)
            now, over, first = self._now(time), None, 0
            if journal is not None:
                over = journal.retention.compared(row, now)
                first = over.first
            elif self._span is not None:
                first = int(self._span.firsts(row, np.array([now]))[0])
            found = self.memory.observe(batch, first)
        except LikewiseError:
            self._refused()
            raise
        self.known_keys.add(row, keys)
        if self._span is not None:
            self._span.took(row, np.array([now]))
        verdict = Verdict(row, found.witnesses, self._beside(found, keys, batch.models, over=over))
        if journal is not None and over is not None:
            numbers = np.array([now, over.first, len(verdict.witnesses)])
            kept = kept_of_one(verdict, journal.witnesses)
            said = None if found.comparable is None else np.array([found.comparable])
            some = Pending(
                numbers[:1],
                keys,
                numbers[1:2],
                numbers[2:],
                kept,
                models=batch.models,
                missing=self._missing(1),
                comparable=said,
            )
            journal.took(some, single=True)
        self._taken = row + 1
        self._midway = False
        return verdict

    def _answer_again(self, journal: Journal, row: int) -> Verdict:
        """What was answered to a decision that is sent again."""
        beside = Beside(self._past, key=self.known_keys.key_of(row))
        verdict = stored_verdict(journal, row, beside)
        self._engine.refused()
        self._midway = False
        names = self._names(verdict)
        return Verdict(row, verdict.witnesses, verdict.beside._replace(witness_keys=names))

    def _names(self, found: Verdict | Verdicts) -> tuple[Any, ...]:
        return tuple(map(self.known_keys.key_of, found.witnesses.rows.tolist()))

    def _beside(
        self, found: Verdict, keys: list[Any] | None, models: Models, **more: Any
    ) -> Beside:
        """What stands beside the witnesses of a decision, with keys and models where known."""
        if keys is not None or self.known_keys:
            more["key"] = None if keys is None else keys[0]
            more["witness_keys"] = self._names(found)
        if models is not None or self.memory.models:
            more["model"] = None if models is None else models[0]
            more["witness_models"] = self.memory.models.names(found.witnesses.rows)
        return found.beside._replace(**more)

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """The verdict on a decision as if it came now; nothing is remembered."""
        if self._embeds:
            x = self._reader.vectors_of(x, many=False)
        with self._lock:
            self._ready()
            with self._changing():
                batch = self._reader.one(x, z)
                batch.models = self._checked_models(model)
                verdict = self._check(batch, time)
            self._midway = False
            return verdict

    def _check(self, batch: Batch, time: Any) -> Verdict:
        over, first = None, 0
        if self._journal is not None:
            over = self._journal.retention.compared(self._taken, self._journal.retention.now(time))
            first = over.first
        elif self._span is not None:
            now = self._span.last(self._taken) if time is None else microseconds(time)
            first = int(self._span.firsts(self._taken, np.array([now]))[0])
        found = self.memory.check(batch, first)
        values = self._reader.values_read(batch)
        if values is not None:
            values |= self._past.output_values(batch.outputs)
        beside = self._beside(found, None, batch.models, over=over, values=values)
        return Verdict(None, found.witnesses, beside)

    # Many decisions

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: str | Sequence[str | None] | None = None,
        threads: int | None = None,
    ) -> Verdicts:
        """The same verdicts as `observe` would give one by one.

        All are remembered, or none. To a ledger they are written in chunks; if its disk fails in
        between, the error says which decisions are stored.

        models   which model made them: one for all, or one, or None, for each.
        threads  how many cores may share the work; all of them unless told otherwise.
        """
        if self._embeds:
            x = self._reader.vectors_of(x, many=True)
        with self._lock:
            self._ready(note=True)
            journal, row = self._journal, self._taken
            if journal is not None:
                journal.flush()
            self._midway = True
            try:
                batch = self._reader.many(x, z)
                given, when = self._given(batch, keys, times, models)
                firsts = None
                if journal is not None:
                    firsts = journal.retention.firsts(row, when)
                elif self._span is not None:
                    firsts = self._span.firsts(row, when)
                found = self.memory.observe_many(batch, firsts, threads)
            except LikewiseError:
                self._refused()
                raise
            self.known_keys.add(row, given)
            if self._span is not None:
                self._span.took(row, when)
            verdicts = found
            if journal is not None and firsts is not None:
                absent = journal.retention.absent(firsts)
                verdicts = replace(found, firsts=firsts, absent=absent)
            if given is not None or self.known_keys:
                owned = (None,) * len(found) if given is None else tuple(given)
                verdicts = replace(verdicts, keys=owned, witness_keys=self._names(found))
            known = self.memory.models
            if known:
                decided = (None,) * len(found) if batch.models is None else tuple(batch.models)
                theirs = known.names(found.witnesses.rows)
                verdicts = replace(verdicts, models=decided, witness_models=theirs)
            if journal is not None and firsts is not None:
                kept = kept_of_many(verdicts, journal.witnesses)
                some = Pending(
                    when,
                    given,
                    firsts,
                    verdicts.counts,
                    kept,
                    models=batch.models,
                    missing=self._missing(len(verdicts)),
                    comparable=verdicts.comparable,
                )
                journal.took(some, single=False)
            self._taken = row + len(verdicts)
            self._midway = False
            return verdicts

    def check_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        time: Any = None,
        models: str | Sequence[str | None] | None = None,
    ) -> Verdicts:
        """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
        if self._embeds:
            x = self._reader.vectors_of(x, many=True)
        with self._lock:
            self._ready()
            with self._changing():
                batch = self._reader.many(x, z)
                batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
                decided = self._checked_models(models, len(batch.outputs))
                each = []
                for i, one in enumerate(self._reader.split(batch)):
                    one.models = None if decided is None else decided[i : i + 1]
                    each.append(self._check(one, time))
            self._midway = False
            return Verdicts.of_checks(self._taken, each, comparable=self._engine.comparable)

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: str | Sequence[str | None] | None = None,
    ) -> range:
        """Remember decisions without judging them; their rows."""
        if self._embeds:
            x = self._reader.vectors_of(x, many=True)
        with self._lock:
            self._ready(note=True)
            journal, row = self._journal, self._taken
            if journal is not None:
                journal.flush()
            with self._changing():
                batch = self._reader.many(x, z)
                given, when = self._given(batch, keys, times, models)
                if self._span is not None:
                    self._span.firsts(row, when)  # which refuses times that go back
                rows = self.memory.load(batch)
            self.known_keys.add(row, given)
            if self._span is not None:
                self._span.took(row, when)
            if journal is not None:
                firsts = journal.retention.firsts(row, when)
                not_judged = np.full(len(rows), NOT_JUDGED)
                some = Pending(when, given, firsts, not_judged, Kept.none(), models=batch.models)
                journal.took(some, single=False)
            self._taken = row + len(rows)
            self._midway = False
            return rows

    # Keys, times and models, checked before anything changes

    def _given(
        self, batch: Batch, keys: Any, times: Any, models: Any
    ) -> tuple[list[Any] | None, Rows]:
        """The keys and times of a batch, which is told its models."""
        nothing = keys is None and times is None and models is None
        if nothing and self._direct and self._journal is None:
            return None, _NO_TIMES
        try:
            count = len(batch.outputs)
        except TypeError:
            count = 0  # the engine says what is wrong with them
        batch.models = self._given_models(models, count)
        given = self._given_keys(batch, keys, count)
        if self._journal is None:
            if times is None:
                self._insist_on_times()
                return given, _NO_TIMES
            return given, all_microseconds(times, count)
        if times is None:
            return given, np.broadcast_to(np.array(self._now(None)), count)
        return given, self._journal.retention.all_given(times, count)

    def _given_keys(self, batch: Batch, keys: Any, count: int) -> list[Any] | None:
        column = self._reader.key_column
        if keys is None:
            many = 0 if batch.keys is None else len(batch.keys)
            return self.known_keys.check(batch.keys, many, self._taken, column=True)
        if column is not None:
            some = next((key for key in keys if key is not None), None)
            raise BadDecision(
                f"the key is {some!r}, but the rule takes keys from the column {column!r}. Nothing"
                " was stored: leave it out."
            )
        return self.known_keys.check(list(keys), count, self._taken)

    def _given_models(self, models: Any, count: int | None = None) -> Models:
        """The models of decisions that are to be remembered; arguments as below."""
        given = self._checked_models(models, count)
        if given is not None:
            self._direct = False
        return given

    def _checked_models(self, models: Any, count: int | None = None) -> Models:
        """The models of so many decisions; without a count, that of a single one."""
        if models is not None and self._journal is not None:
            self._journal.insist_on_models()
        if count is not None:
            return models_of(models, count)
        return None if models is None else [model_of(models)]

    def _now(self, time: Any) -> int:
        if self._journal is not None:
            return self._journal.now(time)
        if time is None:
            self._insist_on_times()
            return 0
        return microseconds(time)

    def _insist_on_times(self) -> None:
        if self._span is not None:
            raise BadDecision(
                f"no time is given, and decisions are compared within {self._span.text}; expected"
                " `time` of a decision, or `times` of many. Nothing was stored."
            )

    # Forgetting

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""
        return len(self._erase(lambda: self._rows_meant(rows)).rows)

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
                self._rows_meant(rows)
                if key is None
                else np.unique(np.array([self.known_keys.row_on_disk(one) for one in several]))
            )
        )

    def _erase(self, meant: Callable[[], Rows]) -> Erasure:
        with self._lock:
            self._ready(note=True)
            wanted = meant()
            self._midway = True
            try:
                if self._journal is not None:
                    erasure = self._journal.erase(wanted)
                else:
                    gone = self.memory.forget(wanted)
                    self.known_keys.forget(gone)
                    erasure = Erasure(tuple(gone.tolist()), complete=True)
            except LikewiseError:
                self._refused()
                raise
            self._midway = False
            return erasure

    def _rows_meant(self, rows: Any) -> Rows:
        what = "forgotten" if self._journal is None else "erased"
        return np.unique(rows_of(rows, self._taken, f"Nothing was {what}."))

    # Losing

    def lost(
        self,
        count: int,
        reason: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: Any = None,
        until: Any = None,
    ) -> None:
        """So many decisions were made and will never be observed; every later verdict says so.

        reason          why, in a word or a few: "full", "timeout", "crash"
        first, last     your own numbers of the first and the last of them
        since, until    when they were lost, as `time` of a decision

        A ledger keeps it as an event of its chain.

        >>> from likewise import Rule
        >>> monitor = Monitor(Rule(metric="linf", epsilon=0.1))
        >>> monitor.lost(3, "full")
        >>> verdict = monitor.observe([0.5], "yes")
        >>> verdict.violation, verdict.missing, verdict.clean
        (False, 3, False)
        """
        times = (None if one is None else microseconds(one) for one in (since, until))
        loss = Loss(count, reason, first, last, *times)
        with self._lock:
            if self._journal is None:
                self._say_missing(self._engine.beside.missing + loss.count)
                return
            self._ready(note=True)
            self._midway = True
            self._journal.lost(loss.to_dict())
            self._say_missing(self._journal.missing)
            self._midway = False

    def _missing(self, count: int) -> Rows | None:
        """What a ledger keeps with so many decisions; None if nothing is missing."""
        missing = self._engine.beside.missing
        return np.full(count, missing) if missing else None

    def _say_missing(self, missing: int) -> None:
        """Have every verdict from now on say so."""
        if missing != self._engine.beside.missing:
            self._engine.beside = self._engine.beside._replace(missing=missing)

    @property
    def missing(self) -> int:
        """Decisions known to be missing from this history: the sum of what `lost` was told."""
        with self._looking():
            return self._engine.beside.missing

    # What is there

    @property
    def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""
        with self._looking():
            return self._taken

    def __len__(self) -> int:
        """Decisions remembered now."""
        with self._looking():
            return len(self._engine)

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """What is remembered of these rows, in the shape and type in which it is kept."""
        return self._past.inputs(rows)

    def values(self, row: int) -> dict[str, Any]:
        """A row of a table as it came, its output included; None where something was missing."""
        return self._past.values(row)

    def keys(self, rows: Any) -> list[Any]:
        """The keys of rows; None for one without, or forgotten."""
        return self._past.keys(rows)

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""
        return self._past.row_of(key)

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""
        with self._looking():
            return self._engine.explain()

    def __repr__(self) -> str:
        kept = "" if self._journal is None else f", ledger {str(self.path)!r}"
        if self.closed:
            return f"<Monitor: closed{kept}>"
        rule = self.rule
        near = f"{rule.metric} within {rule.epsilon:g}"
        if rule.features is not None:
            near = f"{len(rule.features)} columns, {near}"
        return f"<Monitor: {len(self):,} decisions remembered, {near}{kept}>"

    # What people say afterwards, with a ledger

    def review(
        self, row: int | None, witness: int | None, disposition: str, *, reason: str, reviewer: str
    ) -> None:
        """Write down what somebody makes of a contradiction; the chain has it from then on.

        row, witness    the later and the earlier decision; None: all that the later contradicts
        disposition     justified, error, unfair, duplicate or unclear; "open" takes one back
        """
        with self._lock:
            self._ready(note=True)
            case_work.review(self._ledger(), row, witness, disposition, reason, reviewer)

    def truth(self, key: Any, value: Any) -> None:
        """Write down what turned out to be right for a decision; no verdict changes."""
        with self._lock:
            self._ready(note=True)
            journal = self._ledger()
            case_work.tell_truth(journal, self.known_keys.row_on_disk(key), value)

    def supersede(self, key: Any, output: Any, *, by: str, why: str) -> Verdict:
        """Overrule a decision: the verdict on the one that takes its place.

        The old one stays in the ledger as evidence, and is compared with no more. The new one has
        the same input and the new output, and no key.
        """
        with self._lock:
            self._ready(note=True)
            journal, row = self._ledger(), self._taken
            old = self.known_keys.row_on_disk(key)
            if not self._engine.alive(np.array([old]))[0]:
                raise BadRow(
                    f"the decision with the key {key!r}, row {old}, was overruled before, or has"
                    " left the window. Nothing was changed."
                )
            note = case_work.superseded_note(old, row, by, why)
            journal.flush()
            self._midway = True
            batch = case_work.read_again(journal, self.memory, old, output)
            if self.memory.models:
                batch.models = list(self.memory.models.names(np.array([old])))
            if isinstance(self._engine.outputs, Labels):
                words.written(output, "the output")
            journal.unsure = KEEPING  # memory is made again if anything fails from here on
            gone = self.memory.forget(np.array([old]))
            journal.retention.erase(gone)
            when = np.array([journal.now()])
            over = journal.retention.compared(row, int(when[0]))
            firsts = np.array([over.first])
            verdicts = self.memory.observe_many(batch, firsts, None)
            kept = kept_of_many(verdicts, journal.witnesses)
            journal.took(
                Pending(
                    when,
                    None,
                    firsts,
                    verdicts.counts,
                    kept,
                    models=batch.models,
                    missing=self._missing(1),
                    comparable=verdicts.comparable,
                    notes=[note],
                ),
                single=False,
            )
            self._taken = row + 1
            self._midway = False
            return Verdict(row, verdicts[0].witnesses, verdicts[0].beside._replace(over=over))

    def stats(self, last: str | None = None) -> LedgerStats:
        """How many decisions there were, how many could be compared, how many contradict."""
        self._ledger()
        self.flush()
        with Ledger(self._path) as ledger:
            return ledger.stats(last=last)

    # With a ledger

    def keep_in(self, journal: Journal, path: Path, durability: str, wait: float | None) -> None:
        """From here on everything is in a ledger, which memory was made from."""
        self._journal = journal
        self._taken = journal.rows
        self._say_missing(journal.missing)
        self._path = path
        self._durability = durability
        if wait is not None:
            start_flusher(self, journal.waits, wait)
        self._finish = partial(_close, weakref.ref(self))
        atexit.register(self._finish)
        logger.debug("the ledger %s is open, with %d rows", path, journal.rows)

    def _ledger(self) -> Journal:
        if self._journal is None:
            raise BadRule("this monitor is in memory only; lw.open(folder, rule) has a ledger")
        return self._journal

    @property
    def durable(self) -> bool:
        """Whether its history outlives this process: it has a ledger."""
        return self._journal is not None

    @property
    def path(self) -> Path:
        """The folder of the ledger."""
        self._ledger()
        return self._path

    @property
    def durability(self) -> str:
        self._ledger()
        return self._durability

    @property
    def window(self) -> Window:
        """How much of the past is kept."""
        return Window() if self._journal is None else self._journal.window

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        with self._looking():
            if self._journal is not None:
                self._journal.flush()

    def verify(self, head: Head | str | None = None) -> Verification:
        """Walk the ledger's chain; name the first row that is not as it was written.

        Decisions are taken meanwhile: the walk is over what was on disk when it began.
        """
        self._ledger()
        self.flush()
        database = folder.connect(self._path, write=False, schema=False)  # which `verify` checks
        with closing(LedgerReader(self._path, database)) as reader:
            return verify(reader, Head.of(head) if isinstance(head, str) else head)

    def head(self) -> Head:
        """The end of the ledger's chain, to be kept elsewhere."""
        with self._looking():
            return self._ledger().head()

    # The end

    def close(self) -> None:
        """Let go of the history; a file of rows, or a ledger, keeps what was observed."""
        self._shared.finish()
        with self._lock:
            if self.closed:
                return
            journal = self._journal
            if journal is None:
                self._ready()
                self.closed = True
                self._forget_all()
                return
            if not journal.store.mine:  # a process that was forked off: this is not its ledger
                self.closed = True
                return
            try:
                self._ready()
                journal.flush()
            finally:
                self.closed = True
                journal.close()
                self._forget_all()
                atexit.unregister(self._finish)
                logger.debug("the ledger %s is closed", self._path)

    def _forget_all(self) -> None:
        self._engine.close()
        self._reader.reset()
        self.memory.models.reset()
        self.known_keys.reset()
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reader_of(rule: Rule) -> Reader:
    """What reads decisions under a rule."""
    if not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    if rule.features is not None:
        return TableReader(rule)
    return VectorReader(rule) if rule.embed is None else EmbeddedReader(rule)


def span_of(within: Any) -> TimeSpan:
    """How far back decisions are compared, from words such as "90 days"."""
    length = duration(within) if isinstance(within, str) else None
    if length is None or length <= 0:
        raise BadRule(
            f"within is {within!r}; expected how long before a decision its past begins, such as"
            ' "90 days", "24 hours" or "90 minutes"'
        )
    return TimeSpan(within.strip(), length)


def _close(known: "weakref.ref[Monitor]") -> None:
    monitor = known()
    if monitor is not None:
        monitor.close()
