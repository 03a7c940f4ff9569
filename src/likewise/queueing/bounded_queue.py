"""A queue bounded in number and in bytes; lost entries get numbers, too.

Invariant: numbers are dense, each is given once, and entries leave in their order.
Cost: `put` is a few attributes and one append.
Not here: the thread that takes entries (waiting_decisions.py), no room (buffer.py).
"""

import time as clock
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from likewise.errors import NestedCall
from likewise.runtime.forking import is_called_within
from likewise.verdict.losses import Loss

T = TypeVar("T")
Entry: TypeAlias = tuple[int, int, T]
"""The entry's number, how many bytes were put into the queue up to its end, and the item."""

NO_ROOM = -1
"""Returned instead of a number for an entry that found no room."""
UNLIMITED = 1 << 62


class QueueLosses(NamedTuple):
    """Counts losses. It is replaced as a whole, so an exception leaves the old one or the new."""

    counts: Mapping[str, int] = {}
    """How many entries were lost, by reason."""
    unreported: Mapping[str, Loss] = {}
    """Losses that were not taken to be reported yet, by reason."""

    def and_then(self, loss: Loss) -> "QueueLosses":
        """Return these losses and a further one, joined with the unreported of the same reason."""
        reason, before = loss.reason, self.unreported.get(loss.reason)
        counts = {**self.counts, reason: self.counts.get(reason, 0) + loss.count}
        joined = loss if before is None else before.merge(loss)
        return QueueLosses(counts, {**self.unreported, reason: joined})


class DeferredEntries(Protocol):
    """Entries that were taken and put off: older than all that wait, and to be done before them."""

    def __len__(self) -> int: ...

    @property
    def first_number(self) -> int:
        """The number of the first of them; they are not empty."""


class BoundedQueue(Generic[T]):
    """Holds at most `most` entries of `most_bytes` together; callers of all methods hold `lock`.

    wake    called when `wake_at` entries wait, just before the last of them is appended

    An exception may arrive between any two bytecodes of a caller. An entry waits once it is
    appended, and a loss counts once `losses` is replaced, each in one step. The counters follow,
    and `_midway` says that they may be wrong; the next call counts again (`settle`).
    """

    def __init__(self, most: int, most_bytes: int, *, wake: Callable[[], None]) -> None:
        self.lock = RLock()  # no Condition: a signal in Condition.__enter__ would leave it taken
        self.wake_at = 1
        self.urgent_below = 0
        """Somebody waits for entries with smaller numbers, so they are not held back for more."""
        self.busy = False
        """Whether the thread that takes entries is at work."""
        self.in_hand = 0
        """How many entries were taken and are not answered or lost yet."""
        self.crowded = False
        """Whether an entry has found no room since entries were taken last."""
        self.losses = QueueLosses()
        self._most, self._most_bytes = most, most_bytes
        self._wake = wake
        self.deferred: DeferredEntries | None = None
        """Entries that were put off; None if there are none, or they will not be done any more."""
        self._midway = False
        self._entries: deque[Entry[T]] = deque()
        self._hand_first = 0  # the number of the first entry in hand
        self.next_number = 0
        self._bytes_in = self._bytes_out = 0

    # Putting

    def put(self, item: T, size: int = 0) -> int:
        """Append an item; return its number, or NO_ROOM."""
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
        """Count an item that finds no room as lost; return its number."""
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
        """Count again after an interrupted call; raise NestedCall from inside another call."""
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
        """Take the next entries, which are in hand from then on."""
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
        """Count entries that were taken as lost."""
        lost, now = list(numbers), microseconds_now()
        if lost:
            self.losses = self.losses.and_then(Loss(len(lost), reason, lost[0], lost[-1], now, now))
            self.in_hand -= len(lost)

    def take_unreported(self) -> list[Loss]:
        """Take the losses that were not reported yet; the caller reports them."""
        if self._midway:
            self.settle()
        unreported = list(self.losses.unreported.values())
        self.losses = self.losses._replace(unreported={})
        return unreported

    # Looking

    def has_room(self, size: int) -> bool:
        """Whether an item of that size would find room."""
        return len(self._entries) < self._most and self.bytes + size <= self._most_bytes

    @property
    def settled_number(self) -> int:
        """The next number, after `settle` if a call was interrupted."""
        if self._midway:
            self.settle()
        return self.next_number

    def __len__(self) -> int:
        """Count the entries that wait, without those in hand and those that were put off."""
        return len(self._entries)

    @property
    def to_do(self) -> int:
        """How many entries wait or were put off, without those in hand."""
        return len(self._entries) + (0 if self.deferred is None else len(self.deferred))

    @property
    def bytes(self) -> int:
        """How many bytes the waiting entries have."""
        if self._midway:
            self.settle()
        return self._bytes_in - self._bytes_out

    @property
    def first_number(self) -> int:
        """The first number that is not done; the next one to be given if all are done."""
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
        """Empty the queue in a forked process: what waits is the parent's to do."""
        self.lock = RLock()
        self._entries.clear()
        self.in_hand = self.next_number = 0
        self.deferred = None
        self.losses = QueueLosses()
        self.busy = self.crowded = self._midway = False
        self._bytes_in = self._bytes_out = 0
        self.wake_at = 1


def microseconds_now() -> int:
    """Return the microseconds since 1970."""
    return clock.time_ns() // 1000
