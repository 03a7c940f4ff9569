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
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.engine.engine import Engine
from likewise.engine.explanation import Explanation
from likewise.engine.memory import Memory
from likewise.engine.refusal import rows_of
from likewise.engine.time_span import TimeSpan
from likewise.ledger.erasure import Erasure
from likewise.ledger.flusher import start_flusher
from likewise.ledger.journal import Journal
from likewise.ledger.store import NOT_JUDGED
from likewise.ledger.stored_witnesses import Kept
from likewise.ledger.times import all_microseconds, duration, microseconds
from likewise.ledger.verify import Head, Verification
from likewise.ledger.window import Window
from likewise.ledger.write_buffer import Pending, kept_of_many, kept_of_one
from likewise.monitors.remembered_past import RememberedPast
from likewise.reading.embedded import EmbeddedReader
from likewise.reading.protocol import FROM_ROW, Batch, Reader
from likewise.reading.tables import TableReader
from likewise.reading.vectors import VectorReader
from likewise.rules.burst import Burst
from likewise.rules.rule import Rule
from likewise.runtime.forking import copied_by_fork
from likewise.runtime.log import logger
from likewise.runtime.reentry import called_within
from likewise.values.errors import BadDecision, BadFile, BadRule, LikewiseError
from likewise.values.keys import Keys
from likewise.values.losses import Loss
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
        self._direct = type(reader) is VectorReader and span is None
        """Whether a decision goes to the engine as it came."""
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
        if self._journal is not None:  # the folder's lock is let go of, so every call is refused
            self._journal.after_fork()
        self._midway = self._engine.after_fork(cut_off=self._midway)
        if self._engine.rows == 0:
            self._taken = 0

    # One decision

    def observe(self, x: Any, z: Any = FROM_ROW, *, key: Any = None, time: Any = None) -> Verdict:
        """Compare a decision with the past, then make it part of the past.

        x       a vector; a row of a table (a dictionary or named tuple); or what is embedded
        z       the output; may be left out where it is one of the row's columns
        key     your own name for the decision, unique, if the rule has no column for it
        time    when it was made; a ledger keeps it, and takes the clock's if none is given
        """
        if self._embeds:
            x = self._reader.vectors_of(x, many=False)
        with self._lock:
            if self._midway or self._journal is not None:
                self._ready(note=True)
            if not self._direct or key is not None or time is not None or self._journal is not None:
                return self._observe(x, z, key, time)
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

    def _observe(self, x: Any, z: Any, key: Any, time: Any) -> Verdict:
        """The same where there is more to it than vectors in memory."""
        journal, row = self._journal, self._taken
        if journal is not None:
            journal.flush_in_time()
        self._midway = True
        try:
            batch = self._reader.one(x, z)
            keys = self._given_keys(batch, None if key is None else [key], 1)
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
        beside = found.beside._replace(over=over)
        if keys is not None or self.known_keys:
            beside = beside._replace(
                key=None if keys is None else keys[0], witness_keys=self._names(found)
            )
        verdict = Verdict(row, found.witnesses, beside)
        if journal is not None and over is not None:
            numbers = np.array([now, over.first, len(verdict.witnesses)])
            kept = kept_of_one(verdict, journal.witnesses)
            some = Pending(numbers[:1], keys, numbers[1:2], numbers[2:], kept)
            journal.took(some, single=True)
        self._taken = row + 1
        self._midway = False
        return verdict

    def _names(self, found: Verdict | Verdicts) -> tuple[Any, ...]:
        return tuple(map(self.known_keys.key_of, found.witnesses.rows.tolist()))

    def check(self, x: Any, z: Any = FROM_ROW, *, time: Any = None) -> Verdict:
        """The verdict on a decision as if it came now; nothing is remembered."""
        if self._embeds:
            x = self._reader.vectors_of(x, many=False)
        with self._lock:
            self._ready()
            with self._changing():
                verdict = self._check(self._reader.one(x, z), time)
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
        beside = found.beside._replace(over=over, values=values)
        if self.known_keys:
            beside = beside._replace(witness_keys=self._names(found))
        return Verdict(None, found.witnesses, beside)

    # Many decisions

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        threads: int | None = None,
    ) -> Verdicts:
        """The same verdicts as `observe` would give one by one.

        All are remembered, or none. To a ledger they are written in chunks; if its disk fails in
        between, the error says which decisions are stored.

        threads: how many cores may share the work; all of them unless told otherwise.
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
                given, when = self._given(batch, keys, times)
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
            if journal is not None and firsts is not None:
                kept = kept_of_many(verdicts, journal.witnesses)
                some = Pending(when, given, firsts, verdicts.counts, kept)
                journal.took(some, single=False)
            self._taken = row + len(verdicts)
            self._midway = False
            return verdicts

    def check_many(self, x: Any, z: Any = FROM_ROW, *, time: Any = None) -> Verdicts:
        """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
        if self._embeds:
            x = self._reader.vectors_of(x, many=True)
        with self._lock:
            self._ready()
            with self._changing():
                batch = self._reader.many(x, z)
                batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
                each = [self._check(one, time) for one in self._reader.split(batch)]
            self._midway = False
            return Verdicts.of_checks(self._taken, each, comparable=self._engine.comparable)

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
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
                given, when = self._given(batch, keys, times)
                if self._span is not None:
                    self._span.firsts(row, when)  # which refuses times that go back
                rows = self.memory.load(batch)
            self.known_keys.add(row, given)
            if self._span is not None:
                self._span.took(row, when)
            if journal is not None:
                firsts = journal.retention.firsts(row, when)
                not_judged = np.full(len(rows), NOT_JUDGED)
                some = Pending(when, given, firsts, not_judged, Kept.none())
                journal.took(some, single=False)
            self._taken = row + len(rows)
            self._midway = False
            return rows

    # Keys and times, checked before anything changes

    def _given(self, batch: Batch, keys: Any, times: Any) -> tuple[list[Any] | None, Rows]:
        """The keys and times of a batch."""
        if self._direct and keys is None and times is None and self._journal is None:
            return None, _NO_TIMES
        try:
            count = len(batch.outputs)
        except TypeError:
            count = 0  # the engine says what is wrong with them
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
        """Walk the ledger's chain; name the first row that is not as it was written."""
        with self._looking():
            return self._ledger().verify(Head.of(head) if isinstance(head, str) else head)

    def head(self) -> Head:
        """The end of the ledger's chain, to be kept elsewhere."""
        with self._looking():
            return self._ledger().head()

    # The end

    def close(self) -> None:
        """Let go of the history; a file of rows, or a ledger, keeps what was observed."""
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
