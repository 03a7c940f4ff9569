"""Entries that wait, in the order in which they came: bounded in number and in bytes.

Each entry gets a number, and so does what finds no room and is lost.

An exception may arrive between any two bytecodes of a caller. An entry waits once it is appended,
and a loss counts once the dictionary of losses is replaced, in one step each; the counters beside
them follow, and `_midway` says that they may not have. Whoever comes next counts again (`settle`).

Invariant: numbers are dense, each is given once, and entries leave in their order.
Cost: `put` is a few attributes and one append.
Not here: the thread that takes entries (worker.py), what to do when there is no room
(buffer.py).
"""

import time as clock
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from likewise.errors import NestedCall
from likewise.runtime.reentrancy import is_called_within
from likewise.verdict.losses import Loss

T = TypeVar("T")
Entry: TypeAlias = tuple[int, int, T]
"""Its number, how many bytes have been put up to its end, and what it is."""

NO_ROOM = -1
"""Stands for the number of an entry that found no room."""
UNLIMITED = 1 << 62


class QueueLosses(NamedTuple):
    """What was lost. It is replaced whole, so an exception leaves it as before or as after."""

    counts: Mapping[str, int] = {}
    """How many, by reason."""
    unreported: Mapping[str, Loss] = {}
    """Of these, what nobody has taken yet to tell it; by reason."""

    def and_then(self, loss: Loss) -> "QueueLosses":
        """Return both; a loss joins what is untold for the same reason."""
        reason, before = loss.reason, self.unreported.get(loss.reason)
        counts = {**self.counts, reason: self.counts.get(reason, 0) + loss.count}
        joined = loss if before is None else before.merge(loss)
        return QueueLosses(counts, {**self.unreported, reason: joined})


class DeferredEntries(Protocol):
    """Entries that were taken and put off: older than all that wait, and done before them."""

    def __len__(self) -> int: ...

    @property
    def first_number(self) -> int:
        """The number of the first of them; there is one."""


class BoundedQueue(Generic[T]):
    """Room for `most` entries of `most_bytes` together. Whoever calls a method holds `lock`.

    wake    called when as many entries wait as were asked for (`wake_at`), before the last of them
            is appended
    """

    def __init__(
        self,
        most: int,
        most_bytes: int = UNLIMITED,
        *,
        wake: Callable[[], None],
        later: DeferredEntries | None = None,
    ) -> None:
        self.lock = RLock()  # taken itself: a signal in Condition.__enter__ would leave it taken
        self.wake_at = 1
        self.urgent_below = 0
        """Entries with smaller numbers are waited for: they are not to wait for company."""
        self.busy = False
        """Whether the thread that takes entries is at work."""
        self.in_hand = 0
        """Entries that were taken and are not accounted for yet."""
        self.crowded = False
        """Whether something has found no room since entries were taken last."""
        self.losses = QueueLosses()
        self._most, self._most_bytes = most, most_bytes
        self._wake = wake
        self.deferred = later
        """None: nothing is put off, or what is will not be done any more."""
        self._midway = False
        self._entries: deque[Entry[T]] = deque()
        self._hand_first = 0  # the number of the first entry in hand
        self.next_number = 0
        self._bytes_in = self._bytes_out = 0

    # Putting

    def put(self, item: T, size: int = 0) -> int:
        """Have an item wait; its number, or FULL if there is no room for it."""
        if self._midway:
            self.settle()
        entries, end = self._entries, self._bytes_in + size
        count = len(entries)
        if count >= self._most or end - self._bytes_out > self._most_bytes:
            self.crowded = True
            return NO_ROOM
        if count + 1 >= self.wake_at:
            self._wake()  # the thread waits for the lock, so it finds the entry
        self._midway = True
        number = self.next_number
        entries.append((number, end, item))  # from here on it waits
        self._bytes_in = end
        self.next_number = number + 1
        self._midway = False
        return number

    def drop(self, reason: str) -> int:
        """Give the next number to something that finds no room: it is lost."""
        if self._midway:
            self.settle()
        self._midway = True
        number, now = self.next_number, microseconds_now()
        loss = Loss(1, reason, number, number, now, now)
        self.losses = self.losses.and_then(loss)  # from here on it is lost
        self.next_number = number + 1
        self._midway = False
        return number

    def settle(self) -> None:
        """Count again after a call that was cut off; refuse a call out of the middle of another."""
        if is_called_within(self):
            raise NestedCall(
                "this buffer is in the middle of another call, out of which it was called again,"
                " by a signal handler or a finalizer.",
                advice="Call it afterwards.",
            )
        entries = self._entries
        last, end = (entries[-1][0], entries[-1][1]) if entries else (-1, self._bytes_out)
        lost = [-1 if loss.last is None else loss.last for loss in self.losses.unreported.values()]
        self.next_number = max(self.next_number, *(number + 1 for number in (last, *lost)))
        self._bytes_in = end
        self._midway = False

    # Taking: by one thread, which no signal interrupts

    def take(self, most: int) -> list[Entry[T]]:
        """The next entries that wait here; they are in hand now."""
        if self._midway:
            self.settle()
        entries = self._entries
        if len(entries) <= most:
            batch = list(entries)
            entries.clear()
        else:
            batch = [entries.popleft() for _ in range(most)]
        self._hand_first = self._next_to_do
        if batch:
            self._hand_first, self._bytes_out = batch[0][0], batch[-1][1]
            self.crowded = False
        self.in_hand = len(batch)
        self.busy = True
        return batch

    def drop_in_hand(self, numbers: Iterable[int], reason: str) -> None:
        """Entries that were taken will not be done."""
        lost, now = list(numbers), microseconds_now()
        if lost:
            self.losses = self.losses.and_then(Loss(len(lost), reason, lost[0], lost[-1], now, now))
            self.in_hand -= len(lost)

    def take_unreported(self) -> list[Loss]:
        """Losses that nobody has told yet; whoever takes them tells them."""
        if self._midway:
            self.settle()
        untold = list(self.losses.unreported.values())
        self.losses = self.losses._replace(unreported={})
        return untold

    # Looking

    def has_room(self, size: int) -> bool:
        """Whether something of that size would find room."""
        return len(self._entries) < self._most and self.bytes + size <= self._most_bytes

    @property
    def settled_number(self) -> int:
        """The next number, counted again if need be."""
        if self._midway:
            self.settle()
        return self.next_number

    def __len__(self) -> int:
        """Entries that wait; those in hand are not among them, nor those that were put off."""
        return len(self._entries)

    @property
    def to_do(self) -> int:
        """Entries that wait or were put off; those in hand are not among them."""
        return len(self._entries) + (0 if self.deferred is None else len(self.deferred))

    @property
    def bytes(self) -> int:
        """Of the entries that wait here."""
        if self._midway:
            self.settle()
        return self._bytes_in - self._bytes_out

    @property
    def first_number(self) -> int:
        """All smaller numbers are done; the next one to be given if nothing is left to do."""
        if self._midway:
            self.settle()
        if self.deferred is not None and len(self.deferred):
            return self.deferred.first_number
        return self._hand_first if self.busy else self._next_to_do

    @property
    def _next_to_do(self) -> int:
        return self._entries[0][0] if self._entries else self.next_number

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for the first entry."""
        return self.first_number < self.urgent_below

    def after_fork(self) -> None:
        """In a forked process: what waits is the parent's to do."""
        self.lock = RLock()
        self._entries.clear()
        self.in_hand = self.next_number = 0
        self.deferred = None
        self.losses = QueueLosses()
        self.busy = self.crowded = self._midway = False
        self._bytes_in = self._bytes_out = 0
        self.wake_at = 1


def microseconds_now() -> int:
    """Since 1970."""
    return clock.time_ns() // 1000
