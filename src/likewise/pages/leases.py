"""A reviewer leases a pair for a while, so that no two reviewers work on the same one.

A reviewer has one pair at a time. It is released after `seconds` unless the reviewer opens it
again. Leases are in memory: a restart of the server releases all, and no review is lost by that.
Invariant: a leased row is given to nobody else before the lease expires.
Bound: one row for each reviewer, and `MOST_SKIPPED` that each has skipped.
"""

import threading
import time as clock
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

SECONDS = 600.0
MOST_SKIPPED = 10_000


@dataclass(frozen=True)
class Lease:
    """Says who works on a row, and until when."""

    row: int
    reviewer: str
    expires_at: float


class Leases:
    """Holds the leases of one monitor."""

    def __init__(
        self, seconds: float = SECONDS, now: Callable[[], float] = clock.monotonic
    ) -> None:
        self._seconds, self._now = seconds, now
        self._leases: dict[str, Lease] = {}  # by reviewer
        self._skipped: dict[str, OrderedDict[int, None]] = {}
        self._lock = threading.Lock()

    def claim(self, row: int, reviewer: str) -> bool:
        """Lease a row, or renew the lease, and release any other; False if somebody else has it."""
        with self._lock:
            if any(one.row == row and one.reviewer != reviewer for one in self._find_current()):
                return False
            self._leases[reviewer] = Lease(row, reviewer, self._now() + self._seconds)
            return True

    def find_row(self, reviewer: str) -> int | None:
        """Return the row that a reviewer works on."""
        with self._lock:
            return next((one.row for one in self._find_current() if one.reviewer == reviewer), None)

    def find_holder(self, row: int) -> str | None:
        """Return who works on a row."""
        with self._lock:
            return next((one.reviewer for one in self._find_current() if one.row == row), None)

    def release(self, row: int, reviewer: str) -> None:
        """Release a row."""
        with self._lock:
            if reviewer in self._leases and self._leases[reviewer].row == row:
                del self._leases[reviewer]

    def skip(self, row: int, reviewer: str) -> None:
        """Release a row, and do not offer it to this reviewer for now."""
        self.release(row, reviewer)
        with self._lock:
            skipped = self._skipped.setdefault(reviewer, OrderedDict())
            skipped[row] = None
            while len(skipped) > MOST_SKIPPED:
                skipped.popitem(last=False)

    def is_skipped(self, row: int, reviewer: str) -> bool:
        with self._lock:
            return row in self._skipped.get(reviewer, ())

    def restore_skipped(self, reviewer: str) -> int:
        """Offer a reviewer all skipped rows again; return how many these are."""
        with self._lock:
            return len(self._skipped.pop(reviewer, ()))

    def count_skipped(self, reviewer: str) -> int:
        with self._lock:
            return len(self._skipped.get(reviewer, ()))

    def list_leases(self) -> list[tuple[Lease, float]]:
        """Return every lease with the seconds that it has left."""
        with self._lock:
            now = self._now()
            return [(lease, lease.expires_at - now) for lease in self._find_current()]

    def _find_current(self) -> list[Lease]:
        """Drop the leases that have expired; return the others."""
        now = self._now()
        self._leases = {who: one for who, one in self._leases.items() if now < one.expires_at}
        return list(self._leases.values())
