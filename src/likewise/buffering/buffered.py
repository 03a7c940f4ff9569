"""`lw.buffered`: whoever makes decisions submits them and goes on; a thread tells the monitor.

Invariant: every decision that was submitted is answered, refused, lost or waiting; in the order of
numbers; and each loss is told to the monitor before it judges anything further.
Cost: `submit` copies the input and appends it to a queue.
Not here: the queue and the thread (bounded_queue.py, worker.py), what the thread does (telling.py),
the folder for what finds no room (spill.py).
"""

import atexit
import math
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, Self

from likewise.buffering import frames
from likewise.buffering.accounts import Accounts
from likewise.buffering.answers import Answers
from likewise.buffering.bounded_queue import FULL as NO_ROOM
from likewise.buffering.decisions import Copies, SubmittedDecision, Waiting
from likewise.buffering.receipt import (
    CLOSED,
    CRASH,
    FORK,
    FULL,
    SPILL_FULL,
    TIMEOUT,
    UNREADABLE,
    Receipt,
    Stats,
)
from likewise.buffering.recovery import recovered
from likewise.buffering.settings import BufferSettings, WhenFull
from likewise.buffering.spill import NO_MEMORY, Spill
from likewise.buffering.tally import Tally
from likewise.buffering.telling import TOGETHER, Teller, has_ids, is_durable
from likewise.buffering.worker import Worker
from likewise.monitors.monitor import Monitor
from likewise.monitors.protocol import AnyMonitor
from likewise.monitors.slope import SlopeMonitor
from likewise.reading.protocol import FROM_ROW
from likewise.runtime.forking import copied_by_fork
from likewise.runtime.log import logger
from likewise.values.errors import BadDecision, BadFile, BadRule

_new = tuple.__new__
_IDLE = 30.0  # seconds without a decision after which the thread ends
_CLOSE_SECONDS, _EXIT_SECONDS = 60.0, 5.0
_ANSWERS = 65_536  # that are kept for `results`, or as many as the capacity if that is more
_OPEN, _CLOSING, _CLOSED, _FORKED = "", "closing", "closed", "forked"


def buffered(
    monitor: AnyMonitor,
    capacity: int = 65_536,
    max_bytes: int = 256 << 20,
    when_full: WhenFull = "block",
    *,
    timeout: float | None = None,
    batch_rows: int = 1024,
    batch_seconds: float = 0.005,
    spill: str | os.PathLike[str] | None = None,
    max_spill_bytes: int = 1 << 30,
    fsync: bool = False,
    on_verdict: Callable[[Receipt], Any] | None = None,
) -> "Buffered":
    """A queue before a monitor: `submit` takes microseconds, whatever the monitor takes.

    >>> import likewise as lw
    >>> monitor = lw.Monitor(lw.Rule(metric="linf", epsilon=0.1))
    >>> with lw.buffered(monitor) as buffer:
    ...     buffer.submit([0.50, 0.20], "yes"), buffer.submit([0.45, 0.25], "no")
    (Receipt(number=0), Receipt(number=1))
    >>> [receipt.verdict.violation for receipt in buffer.results()]
    [False, True]

    monitor     any monitor. Nothing else should observe through it meanwhile; looking is fine
    capacity    decisions that wait in memory at most, and
    max_bytes   how much memory they take, about
    when_full   "block": `submit` waits, at most `timeout` seconds if that is given, and then the
                decision is lost; "drop_newest": it is lost at once; "spill": it waits in a folder
    batch_rows, batch_seconds   decisions that are judged together, and how long they wait for
                company
    spill       the folder, for "spill". What a process that was killed left there is judged first
    max_spill_bytes     that the folder takes at most; beyond, decisions are lost
    fsync       whether what was spilled survives a power cut, and not only the end of the process
    on_verdict  called with the receipt of every answered or refused decision, in the thread that
                judges. Without it `results()` gives the receipts

    A lost decision has a receipt that says why, is counted (`stats.lost`), and told to the monitor
    before it judges the next: every later verdict says how many are missing.
    """
    settings = BufferSettings(
        capacity=capacity,
        max_bytes=max_bytes,
        when_full=when_full,
        timeout=timeout,
        batch_rows=batch_rows,
        batch_seconds=batch_seconds,
        spill=spill,
        max_spill_bytes=max_spill_bytes,
        fsync=fsync,
        on_verdict=on_verdict,
    )
    return Buffered(monitor, settings)


class Buffered:
    """A queue before a monitor; `lw.buffered` makes it. Methods may be called from many threads.

    As a context manager it is closed when it is left. The monitor stays open, and is the caller's.
    """

    def __init__(self, monitor: AnyMonitor, settings: BufferSettings) -> None:
        if iscoroutinefunction(monitor.observe_many):
            raise BadRule(
                f"the monitor is {monitor!r}, whose calls are awaited, and a buffer waits in a"
                " thread. Give it lw.connect(…) instead."
            )
        self.monitor = monitor
        self.settings = settings
        self._state = _OPEN
        self._give_up = False
        self._process = os.getpid()
        copies = Copies(monitor.rule)
        self._copy = copies.of
        answers = Answers(max(settings.capacity, _ANSWERS), settings.max_bytes)
        self._accounts = Accounts(answers, settings.on_verdict)
        self._spill: Spill | None = None
        if settings.spill is not None and has_ids(monitor):
            raise BadRule(
                "a buffer before a service cannot spill to a folder: after a crash its rows would"
                " not say what was told, since others observe there too. Leave out spill, and give"
                " it more room: capacity=, max_bytes="
            )
        if settings.spill is not None:
            folder, most = Path(settings.spill), settings.max_spill_bytes
            self._spill = Spill(folder, most_bytes=most, fsync=settings.fsync)
        self._position = None if self._spill is None else self._spill.position
        self._worker: Worker[SubmittedDecision] = Worker(
            self._work,
            name="likewise-buffer",
            most=settings.capacity,
            most_bytes=settings.max_bytes,
            batch=min(settings.batch_rows, TOGETHER),
            gather=settings.batch_seconds,
            idle=_IDLE,
            overflow=self._spill,
            floor=lambda: self._accounts.tally.next_number,
        )
        self._queue = self._accounts.queue = self._worker.queue
        self._teller = Teller(
            monitor,
            self._accounts,
            vectors=copies.vectors,
            position=self._position,
            given_up=lambda: self._give_up,
        )
        self._settled_before = 0  # numbers that an earlier process has settled
        self._left: tuple[int, int] | None = None  # in the spill folder at the end, and its bytes
        if self._spill is not None:
            self._go_on(self._spill)
        at_exit = partial(_close_at_exit, weakref.ref(self))
        atexit.register(at_exit)  # after the monitor's own end was registered, so it runs before it
        self._unregister = weakref.finalize(self, atexit.unregister, at_exit)
        self._unregister.atexit = False
        copied_by_fork(self)

    def _go_on(self, spill: Spill) -> None:
        """Go on with what an earlier process left in the folder; tell what it lost."""
        try:
            found = recovered(spill, self.monitor)
            self._settled_before = spill.position.settled
            self._queue.next_number = found.next_number
            spill.position.give(found.next_number - 1)
            if found.lost:
                self._accounts.lost(found.lost, CRASH, found.first, found.next_number - 1)
                self._teller.tell_losses()
            if spill.waiting:
                with self._queue.lock:
                    self._queue.overflow_from_now_on()
        except BaseException:
            spill.close()
            raise

    # Submitting

    def submit(
        self, x: Any, z: Any = FROM_ROW, *, key: Any = None, time: Any = None, model: Any = None
    ) -> Receipt:
        """Have a decision judged later; its number. All is copied, and may be changed afterwards.

        x, z, key, time     as for `observe`; the time is that of the call if none is given
        model               which model made it, if the monitor keeps that

        What cannot be read at all is refused here, as `observe` would; what the monitor refuses
        later is told by its number.
        """
        decision, size = self._copy(x, z, key, time, model)
        if model is not None or self._position is not None:
            self._check(decision)
        queue = self._queue
        with queue.lock:
            if self._state:
                raise self._not_open()
            number = queue.put(decision, size)
            if number >= 0 and self._position is not None:
                self._position.give(number)
        if number >= 0:  # half the time of calling the class
            return _new(Receipt, (number, None, None, None, None, None))
        return self._without_room(decision, size)

    def _check(self, decision: SubmittedDecision) -> None:
        if decision.model is not None and not self._teller.takes_models:
            raise BadDecision(
                f"the model is {decision.model!r}, but this monitor does not keep which model"
                " made a decision.",
                advice="Leave it out.",
            )
        if self._position is not None:
            frames.check(decision)

    def _without_room(self, decision: SubmittedDecision, size: int) -> Receipt:
        """Do what was chosen for a decision that found no room."""
        most = self.settings.max_bytes
        if size > most:
            raise BadDecision(
                f"the decision takes {size:,} bytes, and max_bytes is {most:,}: it never fits.",
                advice="Give the buffer more room, or submit less at a time.",
            )
        queue, timeout = self._queue, self.settings.timeout
        until = math.inf if timeout is None else monotonic() + timeout
        while True:
            left = until - monotonic()
            with queue.lock:
                if self._state:
                    raise self._not_open()
                receipt = self._put_or_lose(decision, size, left)
            if receipt is not None:
                return receipt
            self._worker.wait_until(
                lambda: queue.has_room(size) or self._state != _OPEN, min(left, 3600.0)
            )

    def _put_or_lose(self, decision: SubmittedDecision, size: int, left: float) -> Receipt | None:
        """The receipt of a decision; None if it is to wait for room, for which so much is left."""
        number, when_full = self._queue.put(decision, size), self.settings.when_full
        if number != NO_ROOM:
            return self._given(Receipt(number))
        if when_full == "spill":
            return self._spilled(decision)
        if when_full == "drop_newest":
            return self._lost(FULL)
        if left <= 0 or self._worker.is_mine:
            return self._lost(TIMEOUT)
        self._worker.hurry()
        return None

    def _spilled(self, decision: SubmittedDecision) -> Receipt:
        """To the folder, or lost if that is full; from here on all that comes goes there."""
        spill, reason = self._spill, None
        assert spill is not None
        self._queue.overflow_from_now_on()

        def put(number: int) -> None:
            nonlocal reason
            if not spill.append(number, decision):
                reason = SPILL_FULL
                self._accounts.lost_at_submit(number, reason)

        number = self._queue.number(put)
        return self._given(Receipt(number, lost=reason))

    def _lost(self, reason: str) -> Receipt:
        number = self._queue.number(lambda number: self._accounts.lost_at_submit(number, reason))
        return self._given(Receipt(number, lost=reason))

    def _given(self, receipt: Receipt) -> Receipt:
        if self._position is not None:
            self._position.give(receipt.number)
        return receipt

    def _not_open(self) -> BadFile:
        if self._state == _FORKED:
            return BadFile(
                f"this buffer belongs to process {self._process}, which this process was forked"
                " from; what waited is judged there, and nothing was stored here. Make another with"
                " lw.buffered(monitor) in this process, with a monitor of its own if it has a"
                " ledger, or submit in the parent."
            )
        return BadFile(
            "this buffer is closed. Nothing was stored: make another with lw.buffered(monitor)."
        )

    # The thread that judges

    def _work(self, batch: list[Waiting]) -> None:
        spill = self._spill
        if spill is not None:
            with self._queue.lock:
                spill.position.give(self._queue.settled_number - 1)
                if spill.unreadable:
                    self._accounts.lost(spill.unreadable, UNREADABLE)
                    spill.unreadable = 0
        rest = self._teller.tell(batch)
        if self._teller.is_over():
            self._leave(rest)
        elif spill is not None:
            with self._queue.lock:
                spill.release()

    def _leave(self, rest: list[Waiting]) -> None:
        """Judge no more: what is left of a batch is lost, or waits on in the spill folder."""
        self._stop_judging()
        if self._spill is not None and rest and rest[0][1] == NO_MEMORY:
            with self._queue.lock:
                self._queue.in_hand -= len(rest)
                self._spill.rewind()
        else:
            self._accounts.lost_in_hand(rest, CLOSED)
        self._teller.tell_losses_once()

    def _stop_judging(self) -> None:
        """Take no more, and leave alone what waits in the spill folder."""
        with self._queue.lock:
            self._give_up = True
            self._state = self._state or _CLOSING
            self._queue.overflow = None
        self._teller.nudge()

    # Answers

    def results(self, *, wait: bool = False) -> Iterator[Receipt]:
        """Receipts of decisions that were answered or refused, in order, each once.

        wait    whether to wait for those that are still to come, until the buffer is closed; else
                it ends with what there is. `flush()` first has everything answered

        At most 65,536 are kept, or as many as the capacity if that is more; of those that nobody
        reads the oldest are let go of, and counted in `stats.unread`.
        """
        if self.settings.on_verdict is not None:
            raise BadRule("the receipts of this buffer go to on_verdict; results() has none.")
        queue, answers = self._queue, self._accounts.answers
        while True:
            with queue.lock:
                receipt = answers.next()
            if receipt is not None:
                yield receipt
            elif not wait or self._is_over():
                return
            else:
                self._worker.wait_until(lambda: len(answers) > 0 or self._is_over(), None)

    def _is_over(self) -> bool:
        return self._state in (_CLOSED, _FORKED)

    @property
    def stats(self) -> Stats:
        """How it stands, at one moment."""
        with self._queue.lock:
            stats = self._stats()
        return stats

    def _stats(self) -> Stats:
        queue, tally, spill = self._queue, self._accounts.tally, self._spill
        submitted = queue.settled_number - self._settled_before
        waiting = len(queue) + queue.in_hand
        spilled, spilled_bytes = self._left or (0, 0)
        if spill is not None and self._left is None:
            spilled, spilled_bytes = spill.waiting, spill.bytes
            waiting += spill.unreadable
        return Stats(
            submitted=submitted,
            answered=tally.answered,
            refused=tally.refused,
            lost=MappingProxyType(dict(tally.lost)),
            waiting=waiting,
            waiting_bytes=queue.bytes,
            spilled=spilled,
            spilled_bytes=spilled_bytes,
            unread=self._accounts.answers.unread,
            failing=self._teller.failing,
        )

    # The end

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was submitted before is judged; whether it is, within `timeout`."""
        queue = self._queue
        with queue.lock:
            target = queue.settled_number
            if self._state != _OPEN:
                return queue.first_number >= target
            self._worker.hurry()
        return self._worker.wait_until(lambda: queue.first_number >= target, timeout)

    def close(self, timeout: float | None = _CLOSE_SECONDS) -> bool:
        """Take no more; judge what waits, within `timeout` seconds; whether all of it was judged.

        What waits in memory after that time is lost ("closed"). What waits in a spill folder stays
        there, for the next buffer. The batch in hand is waited for. Within `on_verdict` nothing is
        waited for: what waits is judged, and another call, or the end of the program, does the
        rest.
        """
        with self._queue.lock:
            if self._is_over():
                return not self._give_up
            self._state = _CLOSING
            self._worker.hurry()
            if self._worker.is_mine:
                return False
        judged = self._worker.wait_until(self._is_idle, timeout)
        if not judged:
            self._stop_judging()
            if not self._worker.wait_until(self._is_idle, max(timeout or 0.0, _EXIT_SECONDS)):
                logger.warning("a buffer is closed while its monitor still judges a batch")
                return False
        with self._queue.lock:
            if self._state == _CLOSING:
                self._teller.tell_losses_once()
                if self._spill is not None:
                    self._left = self._left or (self._spill.waiting, self._spill.bytes)
                    self._spill.close()
                self._state = _CLOSED
                self._worker.tell()
                self._worker.end()
        self._unregister()
        return judged and not self._give_up

    def _is_idle(self) -> bool:
        """Whether nothing waits that will be judged, and nothing is in hand."""
        return not self._queue.waiting and not self._queue.busy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        stats = self.stats
        lost = f", {stats.all_lost:,} lost" if stats.all_lost else ""
        state = f", {self._state}" if self._state else ""
        waiting = stats.waiting + stats.spilled
        return (
            f"<Buffered: {stats.submitted:,} submitted, {stats.answered:,} answered,"
            f" {waiting:,} waiting{lost}{state}>"
        )

    def _after_fork(self) -> None:
        """In a forked process: the thread is not there, and what waits is the parent's to judge.

        A monitor in memory was copied without what waits, and says so. What was in hand counts as
        missing, too, though it may have been taken at that very moment.
        """
        missing = len(self._queue) + self._queue.in_hand
        missing += 0 if self._spill is None else self._spill.waiting
        self._state = _FORKED
        self._worker.after_fork()
        self._accounts.tally = Tally()
        self._accounts.answers = Answers(1, 1)
        self._queue.next_number = self._settled_before = 0
        if self._spill is not None:
            self._spill.close()
        self._spill = self._position = None
        if missing and isinstance(self.monitor, Monitor | SlopeMonitor):
            with suppress(Exception):  # a ledger is the parent's
                if not is_durable(self.monitor):
                    self.monitor.lost(missing, FORK)


def _close_at_exit(known: "weakref.ref[Buffered]") -> None:
    buffer = known()
    if buffer is not None:
        buffer.close(_EXIT_SECONDS)
