"""Hands watched decisions to a buffer, so that a model never waits for a service.

A watcher of a client has a buffer of its own, made with the first decision: nothing is connected
before. A watcher of a user's buffer submits to that one, whose verdicts are the user's to read.

Invariant: `submit` waits for nobody; what finds no room is lost, counted here, and told to the
service by the buffer before it judges anything further. Each verdict is given back once, in order.
Bound: `capacity` decisions, and the bytes of `lw.buffered`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple

from likewise.errors import BadDecision
from likewise.monitor.protocol import AnyMonitor
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.queueing.buffer import DecisionBuffer, buffered
from likewise.queueing.receipt import Receipt
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.tables.frames import table_columns
from likewise.tables.normalize import require_list

CLOSE_SECONDS = 5.0  # that the end of a watch waits for a service


class Ticket:
    """The decisions of one call.

    submitted   how many of them wait for verdicts, or waited
    settled     gets one entry for each that was settled; nobody waits on a Condition, which an
                interruption can leave locked
    """

    def __init__(self, call: Any, answer: Any, batched: bool) -> None:
        self.call, self.answer, self.batched = call, answer, batched
        self.submitted = 0
        self.arrivals: SimpleQueue[None] = SimpleQueue()
        self.failed: list[tuple[int | None, Exception]] = []
        self.outcomes: list[Any] | None = None
        """What came out, if somebody waits for it; None if nobody does, or not any more."""


class VerdictWaiter:
    """Waits for what comes of calls.

    After a wait in vain nobody waits until something comes: a service that is away, or a disk that
    hangs, costs one caller the time, and not every one.
    """

    def __init__(self) -> None:
        self._last_wait_failed = False

    def wait(self, ticket: Ticket, seconds: float) -> int:
        """Wait for the verdicts of a call; how many did not come within `seconds`."""
        until = monotonic() + (0.0 if self._last_wait_failed else seconds)
        for came in range(ticket.submitted):
            try:
                ticket.arrivals.get(timeout=max(0.0, until - monotonic()))
            except Empty:
                self._last_wait_failed = True
                return ticket.submitted - came
        return 0

    def notify(self, ticket: Ticket) -> None:
        """Something came: whoever waits for this call hears of it."""
        self._last_wait_failed = False
        ticket.arrivals.put(None)


class _Pending(NamedTuple):
    number: int
    ticket: Ticket
    place: int | None
    output: Any


HandleReceipt = Callable[[Ticket, int | None, Any, Receipt | None], None]
"""Takes a ticket, a place in its batch, the output, and the receipt; None for a lost decision."""


class DecisionDelivery:
    """A buffer before a service, or the user's own.

    monitor the one that is told in the end
    buffer  the user's own; None: one is made here
    settle  called for each decision in the thread that judges; never for a user's buffer
    """

    def __init__(
        self,
        monitor: AnyMonitor,
        buffer: DecisionBuffer | None,
        capacity: int,
        handle_receipt: HandleReceipt,
    ) -> None:
        self._owns_buffer = buffer is None
        self.monitor = monitor
        self._capacity, self._handle_receipt = capacity, handle_receipt
        self._buffer = buffer
        self._pending: deque[_Pending] = deque()
        self._lock = RLock()  # since a signal handler may call the model
        self.waiter = VerdictWaiter()
        register_after_fork(self)

    def _after_fork(self) -> None:
        """In a forked process: what waits is the parent's to deliver."""
        self._lock = RLock()
        self._pending.clear()
        if self._owns_buffer:
            self._buffer = None

    @property
    def rule(self) -> Rule | None:
        """The monitor's rule, if it is known without asking a service."""
        return get_known_rule(self.monitor)

    @property
    def waiting_count(self) -> int:
        if self._buffer is None:
            return 0
        stats = self._buffer.stats
        return stats.waiting + stats.accepted

    def submit(self, ticket: Ticket, x: Any, z: Any, key: Any) -> int:
        """Submit the decisions of a call; how many found no room. Bad ones are in the ticket."""
        lost = 0
        with self._lock:  # verdicts come in order, so they are looked up from the first on
            if self._buffer is None:
                self._buffer = buffered(
                    self.monitor,
                    self._capacity,
                    when_full="drop_newest",
                    on_verdict=self._match_verdict,
                )
            for place, (one, output, name) in enumerate(
                _split_decisions(ticket.batched, x, z, key)
            ):
                at = place if ticket.batched else None
                try:
                    receipt = self._buffer.submit(one, output, key=name)
                except BadDecision as error:
                    ticket.failed.append((at, error))
                    continue
                if receipt.lost is not None:
                    lost += 1
                elif self._owns_buffer:
                    ticket.submitted += 1
                    told = output if ticket.batched else ticket.answer
                    self._pending.append(_Pending(receipt.number, ticket, at, told))
        return lost

    def _match_verdict(self, receipt: Receipt) -> None:
        """Give a verdict back; what was submitted before it and is still pending was lost."""
        with self._lock:
            done = []
            while self._pending and self._pending[0].number <= receipt.number:
                done.append(self._pending.popleft())
        for one in done:
            known = receipt if one.number == receipt.number else None
            try:
                self._handle_receipt(one.ticket, one.place, one.output, known)
            finally:
                self.waiter.notify(one.ticket)

    def flush(self, seconds: float) -> bool:
        return self._buffer is None or self._buffer.flush(seconds)

    def close(self) -> None:
        """Deliver what waits, within a few seconds; the rest is lost, and told if that is possible.

        A user's own buffer stays open.
        """
        if self._owns_buffer and self._buffer is not None:
            self._buffer.close(CLOSE_SECONDS)


def get_known_rule(monitor: AnyMonitor) -> Rule | None:
    """The rule of a monitor, or None where a service would have to be asked for it."""
    remote = monitor.remote
    return monitor.rule if remote is None else remote.known_rule


def _split_decisions(batched: bool, x: Any, z: Any, key: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield input, output and key of each decision of a call."""
    if not batched:
        yield x, z, key
        return
    rows = _split_rows(x)
    outputs = [FROM_ROW] * len(rows) if z is FROM_ROW else list(z)
    keys = [None] * len(rows) if key is None else list(key)
    if not len(rows) == len(outputs) == len(keys):
        raise BadDecision(
            f"there are {len(rows)} inputs, {len(outputs)} outputs and {len(keys)} keys; expected"
            " one of each for each decision."
        )
    yield from zip(rows, outputs, keys, strict=True)


def _split_rows(x: Any) -> list[Any]:
    """The rows of a batch; those of a frame as dictionaries."""
    if not hasattr(x, "columns"):
        return list(x)
    columns = table_columns(x)
    values = (require_list(column) for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
