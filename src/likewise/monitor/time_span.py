"""Limit in memory how far back decisions are compared (`within`); nothing is forgotten for it.

Invariant: times of remembered rows never fall; a decision whose time lies before the last is
refused before anything changes.
Cost: eight bytes for each decision, and one search.
Not here: windows of a ledger, which forget (ledger/retention.py).
"""

import numpy as np
import numpy.typing as npt

from likewise.errors import WrongOrder
from likewise.search.history.reserved_memory import Growing
from likewise.tables.array_types import Rows
from likewise.tables.times import iso_text


class TimeSpan:
    """Knows how far back a decision is compared, and when each row was decided.

    Decisions come in order of time, so each is compared with a range of rows that ends with the row
    before it; a search among sorted times finds where the range begins. Equal times are within any
    span, and so is a decision exactly that long before.

    Entries for rows that do not count yet are ignored, so an interrupted call leaves nothing to
    undo.
    """

    def __init__(self, text: str, microseconds: int) -> None:
        self.text = text
        self.microseconds = microseconds
        self._times = Growing(np.int64)

    def times(self, count: int) -> Rows:
        """Return the times of the first `count` rows, in microseconds since 1970."""
        times: Rows = self._times.first(count)
        return times

    def find_first_rows(self, row: int, times: Rows) -> Rows:
        """Return the first row that each of the next decisions, from `row` on, is compared with."""
        earlier = self.times(row)
        self._check_order(earlier, times)
        oldest = times - self.microseconds
        firsts = np.searchsorted(earlier, oldest, side="left")
        beyond = firsts == row
        firsts[beyond] += np.searchsorted(times, oldest[beyond], side="left")
        return firsts.astype(np.int64)

    def _check_order(self, earlier: Rows, times: Rows) -> None:
        together = np.concatenate([earlier[-1:], times])
        back = np.flatnonzero(together[1:] < together[:-1])
        if len(back):
            before, after = (iso_text(int(together[back[0] + i])) for i in (0, 1))
            raise WrongOrder(
                f"the time is {after}, and the decision before was made at {before}; expected"
                " decisions in order of time, since each is compared with those of the last"
                f" {self.text} before it.",
                advice="Sort them by time.",
            )

    def add(self, row: int, times: Rows) -> None:
        """Remember the times of new rows, from `row` on."""
        if len(times):
            self._times.put(row, times, len(times))

    def last(self, row: int) -> int:
        """Return the time of the last decision before `row`; 0 if there is none."""
        return int(self.times(row)[-1]) if row else 0

    def mask_pairs(self, later: Rows, earlier: Rows) -> npt.NDArray[np.bool_]:
        """Mark the pairs of remembered rows that are near enough in time."""
        if len(later) == 0:
            return np.ones(0, dtype=np.bool_)
        times = self.times(int(max(later.max(), earlier.max())) + 1)
        near: npt.NDArray[np.bool_] = np.abs(times[later] - times[earlier]) <= self.microseconds
        return near
