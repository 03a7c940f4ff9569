"""Which part of the past counts in a ledger: times, the window, and what was erased.

Invariant: the past leaves in order, and a time of our own never goes back.
"""

import time as clock
from typing import Any

import numpy as np

from likewise.ledger.window import LatestTimes, RetentionWindow
from likewise.tables.rows import Rows
from likewise.tables.times import MaxAhead, to_microseconds, to_microseconds_each
from likewise.verdict.context import ComparedRows

_STEP = 1_000_000  # microseconds that a clock may be behind without a word


class Retention:
    """From the first row that a ledger still has."""

    def __init__(
        self, window: RetentionWindow, first: int, last_time: int, erased: Rows, ahead: MaxAhead
    ) -> None:
        self.window = window
        self._ahead = ahead
        self.first = first
        self.erased = erased[erased >= first]
        self._last_time = last_time
        self._times = LatestTimes(first)  # where a window in time needs them
        self._has_warned = False

    # Time

    def now(self, time: Any = None) -> int:
        """A time that was given, or the clock's; where that went back, it stands still."""
        if time is None:
            return max(clock.time_ns() // 1000, self._last_time)
        given = to_microseconds(time)
        self._ahead.check(np.array([given]))
        return given

    def times_of(self, times: Any, count: int) -> Rows:
        """Times that were given for a batch."""
        given = to_microseconds_each(times, count)
        self._ahead.check(given)
        return given

    def clock_is_behind(self) -> int:
        """By how many microseconds the clock is newly behind the last decision."""
        behind = self._last_time - clock.time_ns() // 1000
        news = behind > _STEP and not self._has_warned
        self._has_warned = behind > _STEP
        return behind if news else 0

    # Rows

    def note_times(self, times: Rows) -> None:
        """The history has decisions of these times now."""
        self._last_time = max([self._last_time, *times[-1:].tolist()])
        if len(times) > 1:
            self._last_time = max(self._last_time, int(times.max()))
        if self.window.microseconds is not None and len(times):
            self._times.add(times)

    def firsts(self, row: int, times: Rows) -> Rows:
        """The first row that each of the next decisions is compared with."""
        return np.maximum(self.window.firsts(row, times, self._times), self.first)

    def comparison_range(self, row: int, time: int | None = None) -> ComparedRows:
        """What a decision is compared with that comes now, or at that time."""
        first = self.first
        if self.window.text != "all":
            time = self._last_time if time is None else time
            first = int(self.firsts(row, np.array([time]))[0])
        gone = len(self.erased)
        return ComparedRows(first, row, gone and gone - int(np.searchsorted(self.erased, first)))

    def count_absent(self, firsts: Rows) -> Rows:
        """How many rows from each of these on were erased."""
        return len(self.erased) - np.searchsorted(self.erased, firsts)

    def erase(self, rows: Rows) -> None:
        self.erased = np.union1d(self.erased, rows)

    def forget_before(self, first: int, on_disk: int) -> None:
        """The past begins there; `on_disk` is the first row that is still on disk."""
        self.first = on_disk
        self._times.forget_before(first)
        self.erased = self.erased[self.erased >= first]
