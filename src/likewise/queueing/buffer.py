"""`lw.buffered`: callers submit decisions and go on; a thread passes them to the monitor.

Invariant: every submitted decision is answered, refused, lost, accepted or waiting, in the order of
numbers; each loss is reported to the monitor before it judges more; a ledger knows how many
decisions a kill may lose.
Cost: `submit` copies the input and appends it to a queue.
Not here: the queue (bounded_queue.py), the thread (waiting_decisions.py), its work (delivering.py).
"""

import atexit
import math
import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from time import monotonic
from types import MappingProxyType
from typing import Any, Self

from likewise.errors import BadDecision, BadFile, BadRule
from likewise.monitor.protocol import AnyMonitor
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.queueing.answers import (
    CLOSED,
    FORK,
    FULL,
    TIMEOUT,
    BufferSettings,
    BufferStats,
    Receipt,
    ReceiptLog,
    WhenFull,
)
from likewise.queueing.bounded_queue import NO_ROOM
from likewise.queueing.delivering import MOST_PER_TRANSACTION, Deliverer
from likewise.queueing.waiting_decisions import InputCopier, SubmittedDecision, WaitingEntry, Worker
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger

_new = tuple.__new__
_ACCEPTED_TOGETHER = 4096
"""How many decisions are accepted into a ledger as one transaction, at most."""
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
    on_verdict: Callable[[Receipt], Any] | None = None,
) -> "DecisionBuffer":
    """Put a queue in front of a monitor, so that `submit` takes microseconds.

    >>> import likewise as lw
    >>> monitor = lw.Monitor(lw.Rule(metric="linf", epsilon=0.1))
    >>> with lw.buffered(monitor) as buffer:
    ...     buffer.submit([0.50, 0.20], "yes"), buffer.submit([0.45, 0.25], "no")
    (Receipt(number=0), Receipt(number=1))
    >>> [receipt.verdict.violation for receipt in buffer.results()]
    [False, True]

    monitor     any monitor. Nothing else should observe through it meanwhile; reading is fine
    capacity    how many decisions wait in memory at most
    max_bytes   how much memory they take at most, about
    when_full   "block": `submit` waits until there is room, at most `timeout` seconds if that is
                given, and then the decision is lost; "drop_newest": it is lost at once; "accept",
                for a ledger: waiting decisions are written into it and judged later, in order
    batch_rows, batch_seconds   how many decisions are judged together, and how long they wait for
                more
    on_verdict  called with the receipt of every answered or refused decision, in the thread that
                judges. Without it `results()` returns the receipts

    A lost decision has a receipt that says why, is counted (`stats.lost`), and is reported to the
    monitor before it judges the next: every later verdict says how many are missing. If the process
    is killed, what waited in memory is lost; the next opening of a ledger records an upper bound.
    """
    settings = BufferSettings(
        capacity, max_bytes, when_full, timeout, batch_rows, batch_seconds, on_verdict
    )
    return DecisionBuffer(monitor, settings)


class DecisionBuffer:
    """Queues decisions for a monitor; made by `lw.buffered`, used from any number of threads.

    As a context manager it is closed at the end of the block. The monitor stays open, since it
    belongs to the caller.
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
        ledger = None if monitor.core is None else monitor.core.ledger
        if settings.when_full == "accept" and ledger is None:
            where = "in memory only" if monitor.remote is None else "behind a service"
            raise BadRule(
                'when_full="accept" writes waiting decisions into a ledger, and this monitor is'
                f" {where}. Open a ledger with lw.open(folder, rule), or choose another when_full"
                " and give the buffer more room: capacity=, max_bytes=.",
                setting="when_full",
            )
        self._batch = min(settings.batch_rows, MOST_PER_TRANSACTION)
        if settings.when_full == "accept":  # so that the queue does not fill up meanwhile
            self._batch = min(self._batch, max(1, settings.capacity // 4))
        copies = InputCopier(monitor, remote=monitor.remote is not None)
        self._copy = copies.copy
        self._accepting = False  # whether the batch in hand is to be accepted
        self._worker: Worker[SubmittedDecision] = Worker(
            self._work,
            name="likewise-buffer",
            most=settings.capacity,
            most_bytes=settings.max_bytes,
            batch=self._batch,
            gather=settings.batch_seconds,
            idle=_IDLE,
            choose=self._choose,
        )
        self._queue = self._worker.queue
        kept = max(settings.capacity, _ANSWERS)
        self._answers = ReceiptLog(self._queue, kept, settings.max_bytes, settings.on_verdict)
        self._accepted = self._queue.deferred = self._answers.accepted
        self._deliverer = Deliverer(
            monitor, self._queue, self._answers, copies=copies, given_up=lambda: self._give_up
        )
        self._name = secrets.token_hex(4)
        # A ledger records the buffer's end at exit, so the buffer lives until then if not closed.
        reference = weakref.ref(self) if ledger is None else lambda: self
        at_exit = partial(_close_at_exit, reference)
        atexit.register(at_exit)  # registered after the monitor's close, so it runs before that
        self._unregister = weakref.finalize(self, atexit.unregister, at_exit)
        self._unregister.atexit = False
        register_after_fork(self)
        if ledger is not None:
            drops = settings.when_full == "drop_newest" or settings.timeout is not None
            in_hand = _ACCEPTED_TOGETHER if settings.when_full == "accept" else self._batch
            most = settings.capacity + min(settings.capacity, in_hand)
            ledger.begin_buffer(self._name, most, drops=drops)

    # Submitting

    def submit(
        self, x: Any, z: Any = FROM_ROW, *, key: Any = None, time: Any = None, model: Any = None
    ) -> Receipt:
        """Queue a copy of a decision to be judged later; return a receipt with its number.

        x, z, key, time     as for `observe`; by default the time is that of this call
        model               which model made it, if the monitor stores that

        Input that cannot be read at all is refused here, as by `observe`; for a later refusal by
        the monitor there is another receipt with the same number.
        """
        decision, size = self._copy(x, z, key, time, model)
        queue = self._queue
        with queue.lock:
            if self._state:
                raise self._not_open()
            number = queue.put(decision, size)
        if number >= 0:  # half the time of calling the class
            return _new(Receipt, (number, None, None, None, None, None))
        return self._submit_when_full(decision, size)

    def _submit_when_full(self, decision: SubmittedDecision, size: int) -> Receipt:
        """Apply `when_full` to a decision that found no room."""
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
                receipt = self._put_or_lose(decision, size, left <= 0)
            if receipt is not None:
                return receipt
            self._worker.wait_until(
                lambda: queue.has_room(size) or self._state != _OPEN, min(left, 3600.0)
            )

    def _put_or_lose(self, decision: SubmittedDecision, size: int, late: bool) -> Receipt | None:
        """Return the receipt of a decision; None if it has to wait for room."""
        number = self._queue.put(decision, size)
        if number != NO_ROOM:
            return Receipt(number)
        if self.settings.when_full == "drop_newest":
            return Receipt(self._queue.drop(FULL), lost=FULL)
        if late or self._worker.is_mine:
            return Receipt(self._queue.drop(TIMEOUT), lost=TIMEOUT)
        self._worker.hurry()
        return None

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

    def _choose(self) -> int:
        """Say how many decisions the thread takes now; 0 to judge some that were accepted.

        With "accept", decisions are accepted in groups while the queue is half full.
        """
        queue, settings = self._queue, self.settings
        self._accepting = False
        if settings.when_full != "accept" or not self._deliverer.can_accept:
            return self._batch
        half_full = (
            len(queue) > max(1, settings.capacity // 2) or queue.bytes > settings.max_bytes // 2
        )
        if half_full or queue.crowded or self._give_up:
            self._accepting = True
            return _ACCEPTED_TOGETHER
        return 0 if len(self._accepted) else self._batch

    def _work(self, batch: list[WaitingEntry]) -> None:
        rest = batch
        if self._accepting and batch:
            rest = self._deliverer.accept(batch)
        elif batch:
            rest = self._deliverer.deliver(batch)
        elif len(self._accepted):
            self._deliverer.judge_accepted(self._batch)
        if self._deliverer.is_over():
            self._abandon(rest)

    def _abandon(self, rest: list[WaitingEntry]) -> None:
        """Judge no more: what is left of a batch is lost; what was accepted is in the ledger."""
        self._stop_judging()
        with self._queue.lock:
            self._queue.drop_in_hand((entry[0] for entry in rest), CLOSED)
        self._deliverer.try_report_losses()

    def _stop_judging(self) -> None:
        """Judge no more; what waits is accepted if that is possible, and else lost."""
        with self._queue.lock:
            self._give_up = True
            self._state = self._state or _CLOSING
            self._queue.deferred = None
        self._deliverer.wake()

    # Answers

    def results(self, *, wait: bool = False) -> Iterator[Receipt]:
        """Yield the receipts of decisions that were answered or refused, in order, each once.

        wait    whether to wait for further receipts until the buffer is closed; by default it ends
                with those that are there. Call `flush()` first to have everything answered

        At most 65,536 are kept, or as many as the capacity if that is more; if nobody reads them,
        the oldest are dropped, and counted in `stats.unread`.
        """
        if self.settings.on_verdict is not None:
            raise BadRule("the receipts of this buffer go to on_verdict; results() has none.")
        queue, answers = self._queue, self._answers
        while True:
            with queue.lock:
                receipt = answers.next()
            if receipt is not None:
                yield receipt
            elif not wait or self._is_closed():
                return
            else:
                self._worker.wait_until(lambda: len(answers) > 0 or self._is_closed(), None)

    def _is_closed(self) -> bool:
        return self._state in (_CLOSED, _FORKED)

    @property
    def stats(self) -> BufferStats:
        """How many decisions are in which state, at one moment."""
        queue, answers = self._queue, self._answers
        with queue.lock:
            return BufferStats(
                submitted=queue.settled_number,
                answered=answers.answered,
                refused=answers.refused,
                lost=MappingProxyType(dict(queue.losses.counts)),
                waiting=len(queue) + queue.in_hand,
                waiting_bytes=queue.bytes,
                accepted=self._accepted.count,
                unread=answers.unread,
                failing=self._deliverer.failing,
            )

    # The end

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything submitted before is judged; False if `timeout` seconds pass.

        That includes accepted decisions.
        """
        queue = self._queue
        with queue.lock:
            target = queue.settled_number
            if self._state != _OPEN:
                return queue.first_number >= target and not self._accepted.count
            self._worker.hurry()
        return self._worker.wait_until(lambda: queue.first_number >= target, timeout)

    def close(self, timeout: float | None = _CLOSE_SECONDS) -> bool:
        """Take no more decisions, and judge what waits; False if `timeout` seconds pass before.

        Decisions that still wait then are lost ("closed"); with "accept" they are accepted, and
        judged when the ledger is opened again. The batch in hand is always waited for. A call from
        `on_verdict` does not wait: another call, or the end of the program, does the rest.
        """
        with self._queue.lock:
            if self._is_closed():
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
                self._answers.release_accepted()
                self._deliverer.record_end(self._name)
                self._state = _CLOSED
                self._worker.notify()
                self._worker.end()
        self._unregister()
        return judged and not self._give_up

    def _is_idle(self) -> bool:
        """Whether nothing waits that will be judged, and nothing is in hand."""
        return not self._queue.to_do and not self._queue.busy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        stats = self.stats
        lost = f", {stats.total_lost:,} lost" if stats.total_lost else ""
        state = f", {self._state}" if self._state else ""
        accepted = f", {stats.accepted:,} accepted" if stats.accepted else ""
        return (
            f"<Buffered: {stats.submitted:,} submitted, {stats.answered:,} answered,"
            f" {stats.waiting:,} waiting{accepted}{lost}{state}>"
        )

    def _after_fork(self) -> None:
        """Close the buffer in a forked process: what waits is the parent's to judge.

        A monitor in memory was copied without what waits, so that is recorded as missing; so is the
        batch in hand, though the monitor may have taken it just before.
        """
        missing = len(self._queue) + self._queue.in_hand
        self._state = _FORKED
        self._worker.after_fork()
        self._answers = ReceiptLog(self._queue, 1, 1, None)
        self._accepted = self._answers.accepted
        if missing and self.monitor.remote is None and not self.monitor.durable:
            with suppress(Exception):
                self.monitor.record_loss(missing, FORK)


def _close_at_exit(reference: "Callable[[], DecisionBuffer | None]") -> None:
    buffer = reference()
    if buffer is not None:
        buffer.close(_EXIT_SECONDS)
