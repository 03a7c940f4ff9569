"""Decide which part of the past counts in a ledger: by times, the window, and what was erased.

Invariant: the past leaves in order, and the clock's times never go back.
"""

import time as clock
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.errors import BadRule
from likewise.search.history.reserved_memory import Growing
from likewise.tables.array_types import Rows
from likewise.tables.times import (
    MaxAhead,
    amount_in,
    duration,
    to_microseconds,
    to_microseconds_each,
)
from likewise.verdict.context import ComparedRows

_MOST = 1 << 62


@dataclass(frozen=True)
class RetentionWindow:
    """The last `rows` decisions, or those of the last `microseconds`; neither: everything.

    >>> RetentionWindow.of("10000 rows").rows
    10000
    >>> RetentionWindow.of("24 hours").microseconds
    86400000000
    """

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


_STEP = 1_000_000  # microseconds that a clock may be behind without a warning


class Retention:
    """Knows the part of the past that counts, from the first row that a ledger still has."""

    def __init__(
        self, window: RetentionWindow, first: int, last_time: int, erased: Rows, ahead: MaxAhead
    ) -> None:
        self.window = window
        self._ahead = ahead
        self.first = first
        self.erased = erased[erased >= first]
        self._last_time = last_time
        self._times = LatestTimes(first)  # filled only if the window is a period of time
        self._has_warned = False

    # Time

    def now(self, time: Any = None) -> int:
        """Return a time in microseconds, or the clock's, but never one before the last decision."""
        if time is None:
            return max(clock.time_ns() // 1000, self._last_time)
        microseconds = to_microseconds(time)
        self._ahead.check(np.array([microseconds]))
        return microseconds

    def times_of(self, times: Any, count: int) -> Rows:
        """Return the times of a batch in microseconds."""
        microseconds = to_microseconds_each(times, count)
        self._ahead.check(microseconds)
        return microseconds

    def clock_is_behind(self) -> int:
        """Return how far the clock is behind the last decision; 0 if that was reported before."""
        behind = self._last_time - clock.time_ns() // 1000
        is_new = behind > _STEP and not self._has_warned
        self._has_warned = behind > _STEP
        return behind if is_new else 0

    # Rows

    def note_times(self, times: Rows) -> None:
        """Note the times of decisions that the history has now."""
        self._last_time = max([self._last_time, *times[-1:].tolist()])
        if len(times) > 1:
            self._last_time = max(self._last_time, int(times.max()))
        if self.window.microseconds is not None and len(times):
            self._times.add(times)

    def firsts(self, row: int, times: Rows) -> Rows:
        """Return the first row that each of the next decisions is compared with."""
        return np.maximum(self.window.firsts(row, times, self._times), self.first)

    def comparison_range(self, row: int, time: int | None = None) -> ComparedRows:
        """Return what a decision that comes now, or at `time`, is compared with."""
        first = self.first
        if self.window.text != "all":
            time = self._last_time if time is None else time
            first = int(self.firsts(row, np.array([time]))[0])
        erased = len(self.erased)
        absent = erased and erased - int(np.searchsorted(self.erased, first))
        return ComparedRows(first, row, absent)

    def count_absent(self, firsts: Rows) -> Rows:
        """Return how many rows from each of these on were erased."""
        return len(self.erased) - np.searchsorted(self.erased, firsts)

    def erase(self, rows: Rows) -> None:
        self.erased = np.union1d(self.erased, rows)

    def forget_before(self, first: int, on_disk: int) -> None:
        """Let the past begin at row `first`; `on_disk` is the first row that is still on disk."""
        self.first = on_disk
        self._times.forget_before(first)
        self.erased = self.erased[self.erased >= first]
