"""Hands watched decisions to a buffer, so that a model never waits for a service.

A watcher of a client makes a buffer of its own with the first decision. A watcher of a user's
buffer submits to that one, whose verdicts are the user's to read.
Invariant: `submit` never waits. What finds no room is counted, and the buffer reports it to the
service before anything later is judged. Each verdict is given back once, in order.
Cost: at most `capacity` decisions in memory, within the bytes of `lw.buffered`.
"""

import atexit
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from queue import Empty, SimpleQueue
from threading import RLock
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from likewise.errors import BadDecision
from likewise.monitor.protocol import AnyMonitor
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.queueing.answers import Receipt
from likewise.queueing.bounded_queue import NO_ROOM, UNLIMITED, Entry
from likewise.queueing.buffer import DecisionBuffer, buffered
from likewise.queueing.waiting_decisions import Worker
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger
from likewise.tables.frames import table_columns
from likewise.tables.normalize import require_list

_EXIT_SECONDS = 10.0  # that the end of the program waits at most

PieceT = TypeVar("PieceT")


# A queue of work and a thread that does it in order: what cannot be judged at once (watcher.py).
# Invariant: pieces are done in the order in which they were put, each once. `put` never waits: a
# full queue refuses. What is put before the program ends is done then, within some seconds.
# Cost: a thread while there is work and for a second afterwards; a wake-up for each piece that
# finds it asleep. Not here: the queue and the thread themselves (queueing/); refused pieces
# (watcher.py).


class Backlog(Generic[PieceT]):
    """Keeps at most `most` pieces of work waiting, of `most_bytes` together.

    process     does up to `batch` pieces, in their order
    """

    def __init__(
        self,
        process: Callable[[list[PieceT]], None],
        *,
        most: int,
        most_bytes: int = UNLIMITED,
        batch: int = 1,
    ) -> None:
        def work(entries: list[Entry[PieceT]]) -> None:
            process([piece for _, _, piece in entries])

        self._worker: Worker[PieceT] = Worker(
            work, name="likewise-watch", most=most, most_bytes=most_bytes, batch=batch
        )
        self._queue = self._worker.queue
        # Registered after the close of the monitor, so it runs before that.
        at_exit = partial(_drain_at_exit, weakref.ref(self))
        atexit.register(at_exit)
        weakref.finalize(self, atexit.unregister, at_exit).atexit = False
        register_after_fork(self)

    def _after_fork(self) -> None:
        """Drop what waits: it is the parent process that does it."""
        self._worker.after_fork()

    @property
    def waiting_count(self) -> int:
        """How many pieces are not done yet."""
        with self._queue.lock:
            return len(self._queue) + self._queue.in_hand

    @property
    def is_mine(self) -> bool:
        """Whether this is the thread that does the work."""
        return self._worker.is_mine

    def put(self, piece: PieceT, size: int = 0) -> bool:
        """Have a piece of work done later; return whether there was room for it."""
        with self._queue.lock:
            number = self._queue.put(piece, size)
        return number != NO_ROOM

    def drain(self, seconds: float) -> bool:
        """Wait until all work is done; return whether that took no longer than `seconds`.

        Called by a piece of work, it does not wait for that piece itself.
        """
        queue, mine = self._queue, self._worker.is_mine
        return self._worker.wait_until(lambda: not len(queue) and (mine or not queue.busy), seconds)


def size_of(value: Any) -> int:
    """Estimate how many bytes a value takes, quickly: by the first element of a sequence."""
    if isinstance(value, list | tuple):
        return 56 + len(value) * (8 + size_of(value[0])) if value else 56
    if isinstance(value, dict):
        return 64 + sum(100 + size_of(one) for one in value.values())
    if isinstance(value, str | bytes):
        return 50 + len(value)
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    shape = getattr(value, "shape", None)  # of a frame
    return 64 * prod(shape) if isinstance(shape, tuple) else 100


def _drain_at_exit(reference: "weakref.ref[Backlog[PieceT]]") -> None:
    backlog = reference()
    if backlog is not None and not backlog.drain(_EXIT_SECONDS):
        logger.warning("the program ends before %d watched calls are judged", backlog.waiting_count)


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
