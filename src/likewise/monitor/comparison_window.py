"""From which row on a decision is compared with the past, and what a ledger says about that.

In memory a span of time may limit it (`within`), with a ledger its window does.
"""

from typing import Any

import numpy as np

from likewise.monitor.journal import Journal
from likewise.monitor.time_span import TimeSpan
from likewise.tables.rows import Rows
from likewise.tables.times import to_microseconds
from likewise.verdict.context import ComparedRows


class ComparisonWindow:
    """Of one monitor. Rows are those of the next decision, or decisions."""

    def __init__(self, span: TimeSpan | None) -> None:
        self.span = span
        self.journal: Journal | None = None

    def find_first_row(self, row: int, times: Rows) -> tuple[int, ComparedRows | None]:
        """The first row that a decision is compared with, and what is kept of that."""
        if self.journal is not None:
            over = self.journal.retention.comparison_range(row, int(times[0]))
            return over.first, over
        return (0 if self.span is None else int(self.span.find_first_rows(row, times)[0])), None

    def find_first_row_for_check(self, row: int, time: Any) -> tuple[int, ComparedRows | None]:
        """The same of a decision that is not to be remembered; without a time, as if it came now.

        A clock that has gone back is not written down for it.
        """
        if self.journal is not None:
            return self.find_first_row(row, np.array([self.journal.retention.now(time)]))
        if self.span is None:
            return 0, None
        now = self.span.last(row) if time is None else to_microseconds(time)
        return self.find_first_row(row, np.array([now]))

    def find_first_rows(self, row: int, times: Rows) -> Rows | None:
        """The first row that each is compared with; None if all are compared with everything."""
        if self.journal is not None:
            return self.journal.retention.firsts(row, times)
        return None if self.span is None else self.span.find_first_rows(row, times)

    def count_erased(self, firsts: Rows | None) -> Rows | None:
        """How many rows from each of these on were erased, where that is kept."""
        if self.journal is None or firsts is None:
            return None
        return self.journal.retention.count_absent(firsts)
