"""The ledger of a monitor: evidence, reviews, decisions that are judged later, and the folder.

Invariant: each call is a call of the monitor, under its lock, and one step of its history.
Not here: writing (journal.py), and views of ledgers that nobody writes (ledger/ledger.py).
"""

import atexit
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar
from weakref import WeakMethod

from likewise.ledger import folder
from likewise.ledger.heads import Head
from likewise.ledger.ledger import Ledger
from likewise.ledger.loss_events import BufferBound
from likewise.ledger.reader import LedgerReader
from likewise.ledger.stats import LedgerStats
from likewise.ledger.verification import Verification, verify
from likewise.monitor import case_work
from likewise.monitor.journal import Journal
from likewise.monitor.metadata import RawMetadata
from likewise.monitor.readers.protocol import FROM_ROW, ForEach
from likewise.monitor.sequencer import Sequencer, ShardCoordinator
from likewise.runtime.log import logger
from likewise.tables.keys import Keys
from likewise.tables.positions import Position, check_positions
from likewise.verdict.verdicts import Verdict, Verdicts

_DRAIN_SECONDS = 60.0  # that closing waits for buffers that still hold decisions
_T = TypeVar("_T")


class LedgerOwner(Protocol):
    """The core of the monitor whose ledger it is (core.py)."""

    closed: bool
    keys: Keys
    sequencer: Sequencer
    shards: ShardCoordinator | None

    def enter(
        self, *, record_fault: bool = False, judge: bool = True
    ) -> AbstractContextManager[Sequencer]:
        """Hold the monitor's lock during a call, when no earlier call is half done."""

    def take_batch(
        self, step: Callable[..., _T], x: Any, *arguments: Any, judge: bool = True
    ) -> _T:
        """Run a step of the sequencer on a batch, under the lock."""

    def require_contradictions(self) -> None:
        """Raise BadRule if the monitor measures slopes."""

    def flush(self) -> None: ...

    def close(self) -> None: ...


def _run_flusher(
    reference: "weakref.ref[LedgerOwner]", wake: "SimpleQueue[bool]", seconds: float
) -> None:
    """Flush a monitor some seconds after each wake-up, until it is closed or gone."""
    failing = False
    while True:
        wake.get()
        time.sleep(seconds)
        owner = reference()
        if owner is None or owner.closed:
            return
        try:
            owner.flush()
            failing = False
        except Exception as error:
            if not failing:
                logger.warning("a ledger cannot be written: %s; trying again", type(error).__name__)
            failing = True
            wake.put(True)  # try again; the monitor's next call raises the error, too
        del owner


class MonitorLedger:
    """Keeps what a monitor answers, as evidence: `monitor.ledger`.

    `verify`, `head` and `stats` look at it; `review`, `truth` and `supersede` add what people say
    about decisions; `positions` says where streams go on. `accept` writes decisions that
    are judged later. Its monitor opens it (`lw.open`) and closes it.
    """

    def __init__(
        self,
        owner: LedgerOwner,
        journal: Journal,
        path: Path,
        durability: str,
        flush_seconds: float | None,
    ) -> None:
        self._owner = owner
        self.path = path
        """The folder of the ledger."""
        self.durability = durability
        """How soon answers are on disk: "commit", "batch" or "off", as given to `lw.open`."""
        self.journal = journal
        self._drains: list[WeakMethod[Callable[[float], object]]] = []
        reference = weakref.ref(owner)
        if flush_seconds is not None:
            arguments = reference, journal.wake_flusher, flush_seconds
            Thread(target=_run_flusher, args=arguments, name="likewise-flush", daemon=True).start()
        self._finish = partial(_close, reference)
        atexit.register(self._finish)
        logger.debug("the ledger %s is open, with %d rows", path, journal.rows)

    def __repr__(self) -> str:
        return f"<MonitorLedger: {str(self.path)!r}, durability {self.durability!r}>"

    # Evidence

    def verify(self, head: Head | str | None = None) -> Verification:
        """Check the ledger's chain, and name the first row that is not as it was written.

        head    a head that was noted earlier; the ledger must continue it

        Decisions are taken meanwhile: what was on disk at the beginning is checked.
        """
        self._owner.flush()
        database = folder.connect(self.path, write=False, schema=False)  # `verify` checks that
        with closing(LedgerReader(self.path, database)) as reader:
            return verify(reader, Head.of(head) if isinstance(head, str) else head)

    def head(self) -> Head:
        """Return the end of the ledger's chain; keep it somewhere else, as evidence."""
        with self._owner.enter():
            return self.journal.head()

    def stats(self, last: str | None = None) -> LedgerStats:
        """Count the decisions of the ledger: all, comparable ones and contradicting ones.

        last    count only a recent time, such as "24 hours"
        """
        self._owner.flush()
        with Ledger(self.path) as ledger:
            return ledger.stats(last=last)

    # Streams

    @property
    def positions(self) -> dict[str, Position]:
        """The last position on disk by source, which is where to go on after a restart.

        With durability "batch", decisions that are not written yet do not count; `Monitor.flush`
        writes them.
        """
        with self._owner.enter():
            return dict(self.journal.store.positions)

    def skip_positions(self, positions: Mapping[str, Position]) -> None:
        """Record, by source, the position up to which everything was read.

        For records that held no decision, such as messages that could not be read: after a restart
        they are not read again. The positions are part of the ledger's chain.
        """
        places = check_positions(list(positions), list(positions.values()), len(positions))
        with self._owner.enter(record_fault=True) as steps:
            steps.skip_positions(places)

    # What people say about decisions

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
        self._owner.require_contradictions()
        with self._owner.enter(record_fault=True):
            case_work.review(self.journal, row, witness, disposition, reason, reviewer, verified)

    def truth(self, key: Any, value: Any) -> None:
        """Record what turned out to be right for a decision; no verdict changes."""
        with self._owner.enter(record_fault=True):
            case_work.tell_truth(self.journal, self._owner.keys.row_on_disk(key), value)

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
        self._owner.require_contradictions()
        with self._owner.enter(record_fault=True) as steps:
            return steps.supersede(key, output, by, why, verified)

    def record_administration(self, who: str, what: str, **more: Any) -> None:
        """Record in the chain an administrative request; it must hold no personal data.

        who     the name of the requester, such as that of a token
        what    what was requested, in a word: "erase"
        more    numbers and rows that belong to it
        """
        with self._owner.enter(record_fault=True) as steps:
            steps.event("administration", {"who": who, "what": what, **more})

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
        """Write decisions now and judge them later, in order; return their rows.

        They are on disk when this returns. They are judged by `judge_accepted`; before any other
        call that looks at the history or adds to it; or when the ledger is opened again. All are
        accepted, or none. An empty ledger does not know what decisions look like, so the first
        one has to be observed. Arguments are those of `Monitor.observe_many`.
        """
        metadata = RawMetadata(keys, times, models, sources, positions)
        return self._owner.take_batch(self._owner.sequencer.accept, x, z, metadata, judge=False)

    def judge_accepted(self, most: int = 1024) -> Verdicts | None:
        """Judge the next accepted decisions, at most so many; None if none is left.

        Decisions that were erased in the meantime get no verdict, and are skipped.
        """
        with self._owner.enter(record_fault=True, judge=False) as steps:
            return steps.judge_accepted(most)

    @property
    def accepted_count(self) -> int:
        """How many decisions are accepted and not judged yet."""
        with self._owner.enter(judge=False):
            return self.journal.accepted_count

    @property
    def rows_taken(self) -> int:
        """Like `Monitor.rows`, but accepted decisions are counted without being judged first."""
        with self._owner.enter(judge=False) as steps:
            return steps.count_taken()

    def verdicts_of(self, rows: Sequence[int]) -> list[Verdict | None]:
        """Read the stored verdicts on these rows, with the witnesses that are stored.

        None for a row without one: it was erased before it was judged, or was loaded, or has left
        the window.
        """
        with self._owner.enter(judge=False) as steps:
            return steps.verdicts_of(list(rows))

    # Decisions that wait in memory

    def begin_buffer(self, name: str, most: int, *, drops: bool) -> None:
        """Record that decisions wait for the ledger in this process's memory from now on.

        If the process is killed before `end_buffer`, the next opening of the ledger records them as
        lost: at most `most`, or at least about that many if the buffer also drops decisions.
        """
        self._record_buffers({name: BufferBound(most, drops)})

    def end_buffer(self, name: str) -> None:
        """Record that the buffer is empty and gone; a second call does nothing."""
        self._record_buffers({}, without=name)

    def _record_buffers(self, more: dict[str, BufferBound], without: str | None = None) -> None:
        with self._owner.enter(record_fault=True, judge=False) as steps:
            bounds = self.journal.buffers | more
            steps.record_buffers({name: one for name, one in bounds.items() if name != without})

    def drain_before_close(self, drain: Callable[[float], object]) -> None:
        """Have `close` call this method with a number of seconds; the reference to it is weak."""
        self._drains = [one for one in self._drains if one() is not None]
        self._drains.append(WeakMethod(drain))

    def drain(self) -> None:
        """Wait until buffers have handed over their decisions, since the monitor will close."""
        for reference in self._drains:
            drain = reference()
            if drain is not None and not self._owner.closed:
                drain(_DRAIN_SECONDS)

    # Of a cluster

    @property
    def incomplete_count(self) -> int:
        """How many decisions of a cluster lack the answer of a shard that was down."""
        with self._owner.enter():
            return 0 if self._owner.shards is None else self._owner.shards.incomplete_count

    def collect_late_verdicts(self) -> list[Verdict]:
        """Find the witnesses that were missed while shards were down that are back now.

        Returns one verdict for each affected decision, with the witnesses that its first verdict
        lacked and no others. Only `lw.cluster` makes monitors with shards.
        """
        with self._owner.enter(record_fault=True) as steps:
            shards = self._owner.shards
            return [] if shards is None else shards.collect_late_verdicts(steps)

    # The folder

    @property
    def is_own_process(self) -> bool:
        """Whether this process opened the ledger, and was not forked since."""
        return self.journal.store.is_own_process

    def check_process(self) -> None:
        """Raise BadFile in a forked process."""
        self.journal.store.check_process()

    def release(self) -> None:
        """Write what waits, and release the folder; a monitor does it when it is closed."""
        self.journal.close()
        atexit.unregister(self._finish)
        logger.debug("the ledger %s is closed", self.path)


def _close(reference: "weakref.ref[LedgerOwner]") -> None:
    owner = reference()
    if owner is not None:
        owner.close()
