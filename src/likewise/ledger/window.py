"""Read how much of the past is kept: everything, so many decisions, or so much time.

>>> RetentionWindow.of("10000 rows").rows
10000
>>> RetentionWindow.of("24 hours").microseconds
86400000000
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.errors import BadRule
from likewise.search.history.reserved_memory import Growing
from likewise.tables.array_types import Rows
from likewise.tables.times import amount_in, duration

_MOST = 1 << 62


@dataclass(frozen=True)
class RetentionWindow:
    """The last `rows` decisions, or those of the last `microseconds`; neither: everything."""

    text: str = "all"
    rows: int | None = None
    microseconds: int | None = None

    @classmethod
    def of(cls, text: Any) -> "RetentionWindow":
        """Read a window from text: "all", "10000 rows", "90 minutes", "24 hours", "30 days"."""
        if text == "all":
            return cls()
        amount = amount_in(text)
        if amount is not None and amount[1] == "row" and 1 <= amount[0] < _MOST:
            number = int(amount[0])
            if number == amount[0]:
                return cls(f"{number} rows", rows=number)
        microseconds = duration(text)
        if microseconds is not None and microseconds > 0:
            return cls(text.strip(), microseconds=microseconds)
        raise BadRule(
            f'window is {text!r}; expected "all", or how much to keep, such as "100000 rows",'
            ' "90 minutes", "24 hours" or "30 days"',
            setting="window",
        )

    def firsts(self, first_row: int, times: Rows, earlier: "LatestTimes") -> Rows:
        """Return the first row that each of a run of decisions with these times is compared with.

        A decision is as old as the latest time seen up to it, so the past leaves in order.
        """
        if self.rows is not None:
            return np.maximum(np.arange(first_row, first_row + len(times)) - self.rows, 0)
        if self.microseconds is None:
            return np.zeros(len(times), np.int64)
        past = earlier.latest()
        latest = np.maximum.accumulate(np.concatenate([past[-1:], times]))[-len(times) :]
        oldest = latest - self.microseconds
        firsts = np.searchsorted(past, oldest, side="left")
        beyond = firsts == len(past)
        firsts[beyond] += np.searchsorted(latest, oldest[beyond], side="left")
        return earlier.first + firsts


class LatestTimes:
    """Holds the latest time seen up to each row, from some row on."""

    def __init__(self, first: int) -> None:
        self.first = self._stop = first
        self._latest = Growing(np.int64)
        self._latest.release(first)

    def latest(self) -> Rows:
        return self._latest.first(self._stop)[self.first :]

    def add(self, times: Rows) -> None:
        fresh = np.maximum.accumulate(np.concatenate([self.latest()[-1:], times]))[-len(times) :]
        self._latest.put(self._stop, fresh, len(times))
        self._stop += len(times)

    def forget_before(self, row: int) -> None:
        self.first = max(self.first, row)
        self._latest.release(self.first)
