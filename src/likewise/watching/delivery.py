"""Hands watched decisions to a buffer, so that a model never waits for a service.

A watcher of a client makes a buffer of its own with the first decision. A watcher of a user's
buffer submits to that one, whose verdicts are the user's to read.
Invariant: `submit` never waits. What finds no room is counted, and the buffer reports it to the
service before anything later is judged. Each verdict is given back once, in order.
Cost: at most `capacity` decisions in memory, within the bytes of `lw.buffered`.
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
    """Stands for the decisions of one call.

    submitted   how many of them wait for verdicts, or waited
    arrivals    gets one entry for each verdict that came; nobody waits on a Condition, which an
                interruption can leave locked
    """

    def __init__(self, call: Any, answer: Any, batched: bool) -> None:
        self.call, self.answer, self.batched = call, answer, batched
        self.submitted = 0
        self.arrivals: SimpleQueue[None] = SimpleQueue()
        self.failed: list[tuple[int | None, Exception]] = []
        self.outcomes: list[Any] | None = None
        """The outcomes so far, if somebody waits for them; None if nobody does any more."""


class VerdictWaiter:
    """Waits for the verdicts of calls.

    After a wait in vain nobody waits until a verdict comes, so that a service that is away, or a
    disk that hangs, delays one caller and not every one.
    """

    def __init__(self) -> None:
        self._last_wait_failed = False

    def wait(self, ticket: Ticket, seconds: float) -> int:
        """Wait for the verdicts of a call; return how many did not come within `seconds`."""
        until = monotonic() + (0.0 if self._last_wait_failed else seconds)
        for arrived in range(ticket.submitted):
            try:
                ticket.arrivals.get(timeout=max(0.0, until - monotonic()))
            except Empty:
                self._last_wait_failed = True
                return ticket.submitted - arrived
        return 0

    def notify(self, ticket: Ticket) -> None:
        """Wake whoever waits for this call: a verdict came."""
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
    """Submits decisions to a buffer before a service, or to the user's own.

    monitor         the monitor behind the buffer
    buffer          the user's own; None: one is made here
    handle_receipt  called for each decision in the thread that judges; never for a user's buffer
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
        """Drop what waits: it is the parent process that delivers it."""
        self._lock = RLock()
        self._pending.clear()
        if self._owns_buffer:
            self._buffer = None

    @property
    def rule(self) -> Rule | None:
        """The monitor's rule; None if a service would have to be asked for it."""
        return get_known_rule(self.monitor)

    @property
    def waiting_count(self) -> int:
        if self._buffer is None:
            return 0
        stats = self._buffer.stats
        return stats.waiting + stats.accepted

    def submit(self, ticket: Ticket, x: Any, z: Any, key: Any) -> int:
        """Submit the decisions of a call; return how many found no room."""
        lost = 0
        with self._lock:  # verdicts come in order, so they are looked up from the first on
            if self._buffer is None:
                self._buffer = buffered(
                    self.monitor,
                    self._capacity,
                    when_full="drop_newest",
                    on_verdict=self._match_verdict,
                )
            decisions = _split_decisions(ticket.batched, x, z, key)
            for number, (row, output, row_key) in enumerate(decisions):
                place = number if ticket.batched else None
                try:
                    receipt = self._buffer.submit(row, output, key=row_key)
                except BadDecision as error:
                    ticket.failed.append((place, error))
                    continue
                if receipt.lost is not None:
                    lost += 1
                elif self._owns_buffer:
                    ticket.submitted += 1
                    answer = output if ticket.batched else ticket.answer
                    self._pending.append(_Pending(receipt.number, ticket, place, answer))
        return lost

    def _match_verdict(self, receipt: Receipt) -> None:
        """Hand on a verdict; what was submitted before it and is still pending was lost."""
        with self._lock:
            done = []
            while self._pending and self._pending[0].number <= receipt.number:
                done.append(self._pending.popleft())
        for number, ticket, place, output in done:
            own_receipt = receipt if number == receipt.number else None
            try:
                self._handle_receipt(ticket, place, output, own_receipt)
            finally:
                self.waiter.notify(ticket)

    def flush(self, seconds: float) -> bool:
        return self._buffer is None or self._buffer.flush(seconds)

    def close(self) -> None:
        """Deliver what waits, within a few seconds; the rest is lost, and reported if possible.

        A user's own buffer stays open.
        """
        if self._owns_buffer and self._buffer is not None:
            self._buffer.close(CLOSE_SECONDS)


def get_known_rule(monitor: AnyMonitor) -> Rule | None:
    """Return the rule of a monitor, or None where a service would have to be asked for it."""
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
    """Return the rows of a batch; those of a frame as dictionaries."""
    if not hasattr(x, "columns"):
        return list(x)
    columns = table_columns(x)
    values = (require_list(column) for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
