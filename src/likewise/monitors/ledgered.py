"""A monitor whose history is a folder: what it answers is on disk, and survives.

Around a `Monitor` in memory stands a ledger that follows it: a decision is judged in memory, then
written with its verdict (history/ledger), then answered. Memory is a copy of the disk: if writing
fails, the decision is refused and memory is made anew from what was written.

Invariant: with durability "commit", whatever was answered is on disk; with "batch", all but the
last few; what is on disk is a prefix of what was answered, each decision once and in order.
Cost: two waits for the disk for each transaction; memory as any monitor's.
Not here: what a monitor's memory looks like as bytes (cargo.py).
"""

import atexit
import math
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.burst import Burst
from likewise.embedders.standing_in import without_models
from likewise.errors import BadDecision, BadFile, BadRule
from likewise.forking import copied_by_fork
from likewise.history.ledger import folder
from likewise.history.ledger.chain import Key
from likewise.history.ledger.kept import Kept
from likewise.history.ledger.store import NOT_JUDGED, Store
from likewise.history.ledger.times import Ahead
from likewise.history.ledger.verify import Head, Verification, blame_alteration, verify
from likewise.history.ledger.window import Window
from likewise.log import logger
from likewise.monitors.difference import insist_on_checks, the_same_rule
from likewise.monitors.erasure import Erasure, erase
from likewise.monitors.explanation import Explanation
from likewise.monitors.flusher import start_flusher
from likewise.monitors.following import JUDGING, KEEPING, SURE, Following
from likewise.monitors.keys import plain_key, unknown_key
from likewise.monitors.past import Past
from likewise.monitors.pending import Pending, kept_of_many, kept_of_one
from likewise.monitors.reentry import called_within
from likewise.monitors.refusal import rows_of
from likewise.monitors.robustness import Monitor
from likewise.monitors.tables import GIVEN_APART, TableMonitor
from likewise.rule import Rule
from likewise.types import Rows, Verdict, Verdicts

DURABILITIES = {"commit": (1, 0.0), "batch": (1024, 0.1), "off": (8192, 1.0)}
"""Decisions, and seconds, after which what was answered is on disk at the latest."""


class LedgerMonitor:
    """A monitor whose history is a ledger: a folder, begun or gone on with.

    >>> import likewise as lw, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with lw.open(folder, lw.Rule("linf", 0.1)) as monitor:
    ...     monitor.observe([0.50, 0.20], "yes", key="case 17").violation
    False
    >>> with lw.open(folder) as monitor:  # in another process, another year
    ...     verdict = monitor.observe([0.45, 0.25], "no", key="case 18")
    ...     verdict.witnesses.rows, monitor.verify().ok
    (array([0]), True)

    path        the folder, new or empty or with a ledger
    rule        of a new ledger; for one that is there it may be left out, and must be the same
    durability  "commit": a verdict is answered when its decision is on disk; "batch": decisions are
                on disk after `batch_rows` of them or `batch_seconds`, whichever comes first; "off":
                the same, but the system is not asked to have them on disk, so a crash of the
                machine, not of the process, may lose some or damage the ledger
    window      "all", or how much to keep: "100000 rows", "24 hours"; as it was unless given
    witnesses   how many of the nearest are written for each decision; all are counted
    max_ahead   how far a time that is given may be ahead of the clock: "5 minutes", seconds, "any"
    index       as for Monitor
    burst       as for Monitor; counts are answered, not written, and need not be the same next time
    check       whether the whole chain is verified first
    models      whether embedders are loaded, and compared with those of the ledger. If not given,
                those of a rule that is passed here are, and those that the ledger's own rule names
                are not: that rule may be somebody else's, and may name code. Without models texts
                and pictures cannot be observed, but all else can be done

    All else is as with a `Monitor`. Methods may be called from several threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        rule: Rule | None = None,
        *,
        durability: str = "commit",
        batch_rows: int | None = None,
        batch_seconds: float | None = None,
        window: str | None = None,
        witnesses: int = 3,
        max_ahead: str | float = "5 minutes",
        index: Any = "auto",
        burst: Burst | None = None,
        check: bool = True,
        models: bool | None = None,
    ) -> None:
        if durability not in DURABILITIES:
            raise BadRule(
                f"durability is {durability!r}; expected one of {', '.join(DURABILITIES)}"
            )
        most, wait = DURABILITIES[durability]
        self._most = most if batch_rows is None or durability == "commit" else batch_rows
        self._wait = wait if batch_seconds is None or durability == "commit" else batch_seconds
        if self._most < 1 or not 0 <= self._wait < math.inf or witnesses < 0:
            raise BadRule("batch_rows is at least 1, batch_seconds and witnesses at least 0")
        if rule is not None and not isinstance(rule, Rule):
            raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
        models = rule is not None if models is None else models
        if rule is not None and (models or not folder.exists(Path(path))):
            insist_on_checks(rule)
        wanted = None if window is None else Window.of(window)
        ahead = Ahead.of(max_ahead)
        self.path = Path(path)
        self.durability = durability
        self._witnesses = witnesses
        self._lock = RLock()
        self.closed = False
        self._store = Store(self.path, rule, sync=durability != "off")
        try:
            self.rule = the_same_rule(self._store.reader.rule, rule, self.path, models=models)
            self._settle_window(wanted)
            embeds = bool(self.rule.embedders())
            working = self._without_models() if embeds and not models else self.rule
            self._following = Following(
                self._store, working, self.window, index, check=check, burst=burst, ahead=ahead
            )
        except BaseException as error:
            with closing(self._store):
                blame_alteration(self._store.reader, error)
            raise
        if durability != "commit":
            start_flusher(self, self._following.waits, self._wait)
        copied_by_fork(self)
        self._finish = partial(_close, weakref.ref(self))
        atexit.register(self._finish)
        logger.debug("the ledger %s is open, with %d rows", self.path, self._store.rows)

    def _without_models(self) -> Rule:
        layout = self._store.reader.layout
        types = {} if layout is None else layout.vector_types
        return without_models(self.rule, types, of_vectors=False)

    def _settle_window(self, wanted: Window | None) -> None:
        stored = self._store.reader.window
        if wanted is not None and wanted.text != stored:
            self._store.event("window", {"keep": wanted.text})
        self.window = Window.of(stored) if wanted is None else wanted

    def _ready(self) -> None:
        """Before something changes: have memory and disk agree, and nothing wait too long."""
        self._settled(note=True)
        following = self._following
        if following.queue.stop - self._store.rows >= self._most or following.overdue(self._wait):
            following.flush()

    def _settled(self, *, note: bool = False) -> None:
        """The door through which every call goes: memory says what was taken, and nothing else."""
        if self.closed:
            raise BadFile(f"the ledger {str(self.path)!r} is closed. Open it again.")
        self._store.check_process()
        if self._following.unsure and called_within(self):
            raise BadDecision(
                f"the ledger {str(self.path)!r} is in the middle of another call, out of which it"
                " was called again: by a signal handler, a finalizer, or a label, index or embedder"
                " of yours. Nothing was stored: call it afterwards."
            )
        self._following.settle(note=note)

    def _after_fork(self) -> None:
        """In a forked process: another thread may have held the lock; what waits is the parent's.

        The lock on the folder is let go of (folder.py), so every call is refused here.
        """
        self._lock = RLock()
        self._following.queue = self._following.queue.written()

    @property
    def _past(self) -> Past:
        return self._following.past

    # One decision

    def observe(
        self, x: Any, z: Any = GIVEN_APART, *, key: Any = None, time: Any = None
    ) -> Verdict:
        """Compare with the past, make it part of the past, and keep both on disk."""
        with self._lock:
            self._ready()
            row = self._following.queue.stop
            keys = self._past.keys.check(None if key is None else [self._own(key)], 1, row)
            now = self._now(time)
            over = self._past.compared(row, now)
            self._count_from(np.array(now))
            self._following.unsure = JUDGING
            verdict = self.memory.observe(x, *_output(z)).within(over)
            verdict.named(self._key_of(row, keys))
            numbers = np.array([now, over.first, len(verdict.witnesses)])
            kept = kept_of_one(verdict, self._witnesses)
            some = Pending(numbers[:1], keys, numbers[1:2], numbers[2:], kept)
            self._following.took(row, some, write=self._most == 1)
            return verdict

    def check(self, x: Any, z: Any = GIVEN_APART, *, time: Any = None) -> Verdict:
        """The verdict as if it came now; nothing is remembered or written."""
        with self._lock:
            self._settled()
            now = self._past.now(time)
            over = self._past.compared(self.rows, now)
            self._count_from(np.array(now))
            return self.memory.check(x, *_output(z)).within(over).named(self._key_of())

    # Many

    def observe_many(
        self,
        x: Any,
        z: Any = GIVEN_APART,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        threads: int | None = None,
    ) -> Verdicts:
        """The same verdicts as one by one. All are taken or none, but for a disk that fails.

        They are written in chunks; if a chunk cannot be, the error says which decisions are stored.
        """
        with self._lock:
            given, when = self._given(x, keys, times)
            first_row = self.rows
            self._count_from(when)
            self._following.unsure = JUDGING
            verdicts = self.memory.observe_many(x, *_output(z), threads=threads)
            when = np.broadcast_to(when, len(verdicts))
            firsts = self._past.firsts(first_row, when)
            verdicts.within(firsts, self._past.absent(firsts))
            verdicts.named(self._key_of(first_row, given))  # before the window lets go of any
            kept = kept_of_many(verdicts, self._witnesses)
            self._following.took(
                first_row, Pending(when, given, firsts, verdicts.counts, kept), write=True
            )
            return verdicts

    def load(
        self,
        x: Any,
        z: Any = GIVEN_APART,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
    ) -> range:
        """Remember decisions without judging them; their rows."""
        with self._lock:
            given, when = self._given(x, keys, times)
            self._following.unsure = JUDGING
            rows = self.memory.load(x, *_output(z))
            when = np.broadcast_to(when, len(rows))
            firsts = self._past.firsts(rows.start, when)
            self._following.took(
                rows.start,
                Pending(when, given, firsts, np.full(len(rows), NOT_JUDGED), Kept.none()),
                write=True,
            )
            return rows

    def _given(self, x: Any, keys: Any, times: Any) -> tuple[list[Key] | None, Rows]:
        """Keys and times of a batch, checked before anything changes."""
        self._ready()
        self.flush()
        count = len(x) if keys is not None or times is not None else 0
        if keys is not None:
            keys = [None if key is None else self._own(key) for key in keys]
        given = self._past.keys.check(keys, count, self.rows)
        return given, np.array(self._now()) if times is None else self._past.all_given(times, count)

    def _count_from(self, when: Rows) -> None:
        """What left the window is no neighbour either, though memory lets go of it later."""
        crowd, past = self.memory._crowd, self._past
        if crowd is not None:
            crowd.since = lambda row, count: past.firsts(row, np.broadcast_to(when, count))

    def _own(self, key: Any) -> Any:
        """A key that is given beside the decision, where the rule has no column for it."""
        monitor = self.memory
        if isinstance(monitor, TableMonitor) and monitor._kept.key is not None:
            raise BadDecision(
                f"the key is {key!r}, but the rule takes keys from the column"
                f" {monitor._kept.key!r}. Nothing was stored: leave it out."
            )
        return key

    def _now(self, time: Any = None) -> int:
        behind = self._past.clock_is_behind() if time is None else 0
        if behind:
            self.flush()
            self._store.event("clock", {"behind_microseconds": behind})
        return self._past.now(time)

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        with self._lock:
            self._settled()
            self._following.flush()

    # Erasure and evidence

    def erase(self, *, key: Any = None, rows: Any = None) -> Erasure:
        """Destroy inputs, outputs and keys, in memory and in every file; tombstones stay.

        key     one key, or a list of them
        rows    rows, instead of keys
        """
        with self._lock:
            self._ready()
            self.flush()
            wanted = self._wanted(key, rows)
            self._following.unsure = KEEPING
            erasure = erase(self._following, wanted)
            self._following.unsure = SURE
            return erasure

    def _wanted(self, key: Any, rows: Any) -> Rows:
        if (key is None) == (rows is None):
            raise TypeError("erase takes a key, or keys, or rows")
        if rows is not None:
            return np.unique(rows_of(rows, self.rows, "Nothing was erased."))
        found = []
        for one in key if isinstance(key, list | tuple | set) else [key]:
            row = self.row_of(plain_key(one))
            if row is None:
                row = self._past.keys.row_left(plain_key(one))
            if row is None:
                raise unknown_key(one)
            found.append(row)
        return np.unique(np.array(found, np.int64))

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still there."""
        return len(self.erase(rows=rows).rows)

    def verify(self, head: Head | str | None = None) -> Verification:
        """Walk the chain; name the first row that is not as it was written."""
        with self._lock:
            self.flush()
            self._store.reconnect()
            return verify(self._store.reader, Head.of(head) if isinstance(head, str) else head)

    def head(self) -> Head:
        """The end of the chain, to be kept elsewhere."""
        with self._lock:
            self.flush()
            self._store.reconnect()
            return Head(self._store.rows, self._store.events, self._store.link)

    # Looking

    @property
    def memory(self) -> Monitor:
        """The monitor that holds the past in memory; to look at, not to tell anything."""
        return self._following.monitor

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""
        with self._lock:
            self._settled()
            monitor = self.memory
            if isinstance(monitor, TableMonitor) and monitor._kept.key is not None:
                return monitor.row_of(key)
            return self._past.keys.row_of(plain_key(key))

    def _key_of(self, first: int = 0, given: list[Key] | None = None) -> Callable[[int], Any]:
        """From a row to its key; `given` are keys of rows from `first` on, not yet among the past.

        Keys come in a column of the table, or beside the decision.
        """
        monitor = self.memory
        if isinstance(monitor, TableMonitor) and monitor._kept.key is not None:
            return monitor._kept.key_of
        known = self._past.keys.key_of
        if given is None:
            return known
        return lambda row: known(row) if row < first else given[row - first]

    def values(self, row: int) -> dict[str, Any]:
        """A row of a table as it came, its output included."""
        if not isinstance(self.memory, TableMonitor):
            raise BadRule("this rule has no columns; use `inputs` for vectors")
        with self._lock:
            self._settled()
            return self.memory.values(row)

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """What is remembered of these rows, as vectors."""
        with self._lock:
            self._settled()
            return self.memory.inputs(rows)

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""
        with self._lock:
            self._settled()
            return self.memory.explain()

    @property
    def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""
        with self._lock:
            self._settled()
            return self._following.queue.stop

    def __len__(self) -> int:
        """Decisions remembered now."""
        with self._lock:
            self._settled()
            return len(self.memory)

    def close(self) -> None:
        """Write what is left, and let go of the folder."""
        with self._lock:
            if self.closed:
                return
            if not self._store.mine:  # a process that was forked off: this is not its ledger
                self.closed = True
                return
            try:
                self.flush()
            finally:
                self.closed = True
                self._following.waits.put(True)
                self._store.close()
                self.memory.close()
                atexit.unregister(self._finish)
                logger.debug("the ledger %s is closed", self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _output(z: Any) -> tuple[Any, ...]:
    """An output that is given apart, if it is."""
    return () if z is GIVEN_APART else (z,)


def _close(known: "weakref.ref[LedgerMonitor]") -> None:
    ledgered = known()
    if ledgered is not None:
        ledgered.close()


open = LedgerMonitor
"""`lw.open(path, rule)`."""
