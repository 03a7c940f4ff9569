"""Entries that wait, in the order in which they came: bounded in number and in bytes.

Each entry gets a number. What finds no room goes to an overflow, if there is one; as long as
something waits there, everything that comes goes there, so that the order holds.

An exception may arrive between any two bytecodes of a caller. An entry waits once it is appended,
in one step; the counters beside it follow, and `_midway` says that they may not have. Whoever
comes next counts again (`settle`).

Invariant: numbers are dense, each is given once, and entries leave in their order.
Cost: `put` is a few attributes and one append.
Not here: the thread that takes entries (worker.py), what to do when there is no room
(buffered.py).
"""

from collections import deque
from collections.abc import Callable
from threading import RLock
from typing import Generic, Protocol, TypeAlias, TypeVar

from likewise.runtime.reentry import called_within
from likewise.values.errors import NestedCall

T = TypeVar("T")
Entry: TypeAlias = tuple[int, int, T]
"""Its number, how many bytes have been put up to its end, and what it is."""

FULL = -1
"""Stands for the number of an entry that found no room."""
NEVER = 1 << 62


class Overflow(Protocol[T]):
    """Where entries go that find no room. `append` is its owner's business."""

    @property
    def waiting(self) -> int: ...

    @property
    def first_number(self) -> int:
        """No entry that waits there has a smaller number."""

    @property
    def next_number(self) -> int:
        """One more than the number of the last entry that was ever put there; 0 if none was."""

    def read(self, most: int) -> list[Entry[T]]:
        """The first entries that wait there. They go on waiting until `took` is called."""

    def took(self, batch: list[Entry[T]]) -> None:
        """These, which were read last, wait no more."""


class BoundedQueue(Generic[T]):
    """Room for `most` entries of `most_bytes` together. Whoever calls a method holds `lock`.

    wake    called when as many entries wait as were asked for (`wake_at`), before the last of them
            is appended
    floor   the smallest number that is not given yet, as far as the owner knows
    """

    def __init__(
        self,
        most: int,
        most_bytes: int = NEVER,
        *,
        wake: Callable[[], None],
        overflow: Overflow[T] | None = None,
        floor: Callable[[], int] = lambda: 0,
    ) -> None:
        self.lock = RLock()  # taken itself: a signal in Condition.__enter__ would leave it taken
        self.wake_at = 1
        self.hurry_to = 0
        """Entries with smaller numbers are waited for: they are not to wait for company."""
        self.busy = False
        """Whether the thread that takes entries is at work on some."""
        self.in_hand = 0
        """Entries that were taken and are not accounted for yet."""
        self._most, self._most_bytes = most, most_bytes
        self._wake, self._floor = wake, floor
        self.overflow = overflow
        self._overflowing = False
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
        if count >= self._most or end - self._bytes_out > self._most_bytes or self._overflowing:
            return FULL
        if count + 1 >= self.wake_at:
            self._wake()  # the thread waits for the lock, so it finds the entry
        self._midway = True
        number = self.next_number
        entries.append((number, end, item))  # from here on it waits
        self._bytes_in = end
        self.next_number = number + 1
        self._midway = False
        return number

    def number(self, note: Callable[[int], None]) -> int:
        """Give the next number to something that does not wait here; `note` takes it, in a step."""
        if self._midway:
            self.settle()
        self._midway = True
        number = self.next_number
        note(number)  # from here on the number is given
        self.next_number = number + 1
        self._midway = False
        return number

    def overflow_from_now_on(self) -> None:
        """Have no further entry wait here before the overflow is empty."""
        self._overflowing = True
        if self.wake_at != NEVER:
            self._wake()

    def settle(self) -> None:
        """Count again after a call that was cut off; refuse a call out of the middle of another."""
        if called_within(self):
            raise NestedCall(
                "this buffer is in the middle of another call, out of which it was called again,"
                " by a signal handler or a finalizer.",
                advice="Call it afterwards.",
            )
        entries = self._entries
        last, end = (entries[-1][0], entries[-1][1]) if entries else (-1, self._bytes_out)
        beyond = 0 if self.overflow is None else self.overflow.next_number
        self.next_number = max(self.next_number, last + 1, beyond, self._floor())
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
        if batch:
            self._hand_first, self._bytes_out = batch[0][0], batch[-1][1]
        self.in_hand = len(batch)
        self.busy = True
        return batch

    def begin_overflow(self) -> None:
        """The next entries come from the overflow, which is read without the lock."""
        assert self.overflow is not None
        self._hand_first = self.overflow.first_number
        self.busy = True

    def took_from_overflow(self, batch: list[Entry[T]]) -> None:
        """Entries of the overflow are in hand now."""
        assert self.overflow is not None
        if batch:
            self._hand_first = batch[0][0]
        self.overflow.took(batch)
        self.in_hand = len(batch)
        self._overflowing = self.overflow.waiting > 0

    # Looking

    def has_room(self, size: int) -> bool:
        """Whether something of that size would find room."""
        full = len(self._entries) >= self._most or self._overflowing
        return not full and self.bytes + size <= self._most_bytes

    @property
    def settled_number(self) -> int:
        """The next number, counted again if need be."""
        if self._midway:
            self.settle()
        return self.next_number

    def __len__(self) -> int:
        """Entries that wait here, not in the overflow."""
        return len(self._entries)

    @property
    def waiting(self) -> int:
        """Entries that wait, here or in the overflow; those in hand are not among them."""
        return len(self._entries) + (0 if self.overflow is None else self.overflow.waiting)

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
        if self.busy:
            return self._hand_first
        if self._entries:
            return self._entries[0][0]
        if self.overflow is not None and self.overflow.waiting:
            return self.overflow.first_number
        return self.next_number

    @property
    def is_hurried(self) -> bool:
        """Whether somebody waits for the first entry."""
        return self.first_number < self.hurry_to

    def after_fork(self) -> None:
        """In a forked process: what waits is the parent's to do."""
        self.lock = RLock()
        self._entries.clear()
        self.in_hand = 0
        self.overflow = None
        self.busy = self._overflowing = self._midway = False
        self._bytes_in = self._bytes_out = 0
        self.wake_at = 1
