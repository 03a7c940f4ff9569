"""Who works on which pair: for a while, so that no two reviewers have the same one at once.

A reviewer has one pair at a time. Whoever goes away loses it after `seconds`; whoever looks at it
again keeps it. All of it is in memory: a restart of the server gives every pair back, and nothing
is lost by that, since what was reviewed is in the ledger.

Invariant: a row that is taken by somebody is given to nobody else before its time is over.
Bound: one row for each reviewer, and `MOST_SKIPPED` that each has put aside.
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
    """A row, who works on it, and until when."""

    row: int
    reviewer: str
    expires_at: float


class Leases:
    """The rows of one monitor that somebody works on."""

    def __init__(
        self, seconds: float = SECONDS, now: Callable[[], float] = clock.monotonic
    ) -> None:
        self._seconds, self._now = seconds, now
        self._by_row: dict[int, Lease] = {}
        self._by_reviewer: dict[str, int] = {}
        self._skipped: dict[str, OrderedDict[int, None]] = {}
        self._lock = threading.Lock()

    def claim(self, row: int, reviewer: str) -> bool:
        """Take a row, or take it again; whether that could be done. Any other one is given back."""
        with self._lock:
            held = self._holder(row)
            if held is not None and held.reviewer != reviewer:
                return False
            before = self._by_reviewer.get(reviewer)
            if before is not None and before != row:
                self._drop(before)
            self._by_row[row] = Lease(row, reviewer, self._now() + self._seconds)
            self._by_reviewer[reviewer] = row
            return True

    def find_row(self, reviewer: str) -> int | None:
        """The row that somebody works on."""
        with self._lock:
            row = self._by_reviewer.get(reviewer)
            return None if row is None or self._holder(row) is None else row

    def find_holder(self, row: int) -> str | None:
        """Who works on a row."""
        with self._lock:
            held = self._holder(row)
            return None if held is None else held.reviewer

    def release(self, row: int, reviewer: str) -> None:
        """Give a row back."""
        with self._lock:
            held = self._by_row.get(row)
            if held is not None and held.reviewer == reviewer:
                self._drop(row)

    def skip(self, row: int, reviewer: str) -> None:
        """Give a row back, and not have it again for now."""
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
        """Have all rows again that somebody has put aside; how many these are."""
        with self._lock:
            return len(self._skipped.pop(reviewer, ()))

    def count_skipped(self, reviewer: str) -> int:
        with self._lock:
            return len(self._skipped.get(reviewer, ()))

    def list_leases(self) -> list[tuple[Lease, float]]:
        """Every lease, with the seconds that it has left."""
        with self._lock:
            now = self._now()
            held = [one for row in list(self._by_row) if (one := self._holder(row)) is not None]
            return [(one, one.expires_at - now) for one in held]

    def _holder(self, row: int) -> Lease | None:
        held = self._by_row.get(row)
        if held is not None and self._now() >= held.expires_at:
            self._drop(row)
            return None
        return held

    def _drop(self, row: int) -> None:
        held = self._by_row.pop(row, None)
        if held is not None and self._by_reviewer.get(held.reviewer) == row:
            del self._by_reviewer[held.reviewer]
