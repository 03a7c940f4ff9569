"""Recent decisions are counted in windows of time, for the overview of a monitor.

The counts of the service are read once a second, and their growth is added to the open window of
each span; after a start the windows are filled from the ledger. When a window closes, its rate is
judged as alerts judge it (service/alerts/usual_band.py). Invariant: a decision is in one window of
each span. Bound: `Span.windows`, and the last SEEDED rows of a ledger. Older times: see the ledger.
"""

import operator
import time as clock
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from likewise.ledger.ledger import Ledger
from likewise.service.alerts.usual_band import BandSettings, RateConclusion, RateWindow, conclude
from likewise.service.served_monitor import ServedMonitor

SEEDED = 200_000
_CHUNK = 1 << 15
_RECENT_WINDOWS = 4  # windows that are judged together
_BAND = BandSettings()
_LEAST_COMPARABLE = 30  # in a window, on average, for a rate that is more than noise
_NOTHING_YET = RateConclusion("cannot be concluded", "no window has closed yet")


@dataclass(frozen=True, slots=True)
class Span:
    """Says how far back the windows reach, and how long each is."""

    key: str
    words: str
    step: int
    """Seconds of a window."""
    windows: int

    @property
    def recent_label(self) -> str:
        """How long the recent windows are whose rate is judged together."""
        seconds = self.step * _RECENT_WINDOWS
        if seconds < 60:
            return f"{seconds} seconds"
        return f"{seconds // 60} minutes" if seconds < 3600 else f"{seconds // 3600} hours"


SPANS = (
    Span("10m", "10 minutes", 3, 200),
    Span("2h", "2 hours", 60, 120),
    Span("7d", "7 days", 3600, 168),
)
_BY_KEY = {span.key: span for span in SPANS}


class WindowCounts(NamedTuple):
    """Counts the decisions of a window."""

    decisions: int = 0
    comparable: int = 0
    """The denominator of a rate; all decisions if the monitor does not count comparable ones."""
    violations: int = 0

    def plus(self, more: "WindowCounts") -> "WindowCounts":
        return WindowCounts(*map(operator.add, self, more))

    @property
    def rate(self) -> float | None:
        return self.violations / self.comparable if self.comparable else None


@dataclass(frozen=True, slots=True)
class CountedWindow:
    """Holds the counts of a window, and what was concluded when it closed."""

    start: float
    """Seconds since 1970."""
    counts: WindowCounts
    conclusion: RateConclusion | None


@dataclass(frozen=True, slots=True)
class RecentRate:
    """Holds the counts of the last few windows together."""

    until: float
    """Seconds since 1970."""
    counts: WindowCounts
    conclusion: RateConclusion


CountsBySpan = Mapping[str, Mapping[int, WindowCounts]]
"""Counts by the key of a span and the number of a window since 1970."""


@dataclass
class _SpanWindows:
    """Holds the windows of one span, and what was concluded about them."""

    span: Span
    windows: dict[int, WindowCounts] = field(default_factory=dict)
    concluded: dict[int, RateConclusion] = field(default_factory=dict)
    usual: list[RateWindow] = field(default_factory=list)
    is_unusual: bool = False
    """Whether the rate has left its band and not yet returned; then nothing becomes usual."""
    next_number: int | None = None
    """The first window without a conclusion; None: begin at the first window."""

    def add(self, number: int, growth: WindowCounts) -> None:
        self.windows[number] = self.windows.get(number, WindowCounts()).plus(growth)
        if self.next_number is not None and number < self.next_number:
            self.next_number = None  # conclude everything again

    def close_before(self, current: int) -> None:
        """Conclude about every window before the open one, and drop windows that are too old."""
        oldest = current - self.span.windows
        self.windows = {n: counts for n, counts in self.windows.items() if n > oldest}
        self.concluded = {n: conclusion for n, conclusion in self.concluded.items() if n > oldest}
        if not self.windows:
            return
        if self.next_number is None:
            self.next_number, self.usual, self.concluded = min(self.windows), [], {}
            self.is_unusual = False
        self.usual = [window for window in self.usual if window.number > oldest]
        for number in range(max(self.next_number, oldest + 1), current):
            self.concluded[number] = self._conclude(number)
        self.next_number = max(self.next_number, current)

    def _conclude(self, number: int) -> RateConclusion:
        recent = self.sum_recent(number)
        window = RateWindow(number, recent.comparable, recent.violations)
        conclusion = conclude(window, self.usual, _BAND)
        rate = recent.rate or 0.0
        if conclusion.finding in ("above", "below"):
            self.is_unusual = True
        elif len(self.usual) < _BAND.least_windows or (
            not conclusion.reason and conclusion.low <= rate <= conclusion.high
        ):
            self.is_unusual = False
        leaving = number - _RECENT_WINDOWS + 1
        if not self.is_unusual and leaving in self.windows:
            counts = self.windows[leaving]
            self.usual.append(RateWindow(leaving, counts.comparable, counts.violations))
        return conclusion

    def sum_recent(self, number: int) -> WindowCounts:
        """Sum the counts of a window and the few before it."""
        total = WindowCounts()
        for n in range(number - _RECENT_WINDOWS + 1, number + 1):
            total = total.plus(self.windows.get(n, WindowCounts()))
        return total


class RateWindows:
    """Counts the decisions of one monitor in windows of every span."""

    def __init__(self, served: ServedMonitor) -> None:
        self.served = served
        self.rows_before = served.next_row
        """Decisions from before the counting began."""
        self.last_decision = 0.0
        """When the last decision arrived, in seconds since 1970; 0 if that is not known."""
        self._last_total = _total(served)
        self._tracks = {span.key: _SpanWindows(span) for span in SPANS}

    def update(self, now: float | None = None) -> None:
        """Add what has arrived since the last update; on the event loop."""
        now = clock.time() if now is None else now
        total = _total(self.served)
        growth = WindowCounts(*map(operator.sub, total, self._last_total))
        self._last_total = total
        self.last_decision = max(self.last_decision, self.served.counts.last_decision)
        for track in self._tracks.values():
            number = int(now // track.span.step)
            if any(growth):
                track.add(number, growth)
            track.close_before(number)

    def add_past(self, windows: CountsBySpan, last_decision: float) -> None:
        """Add decisions from before the counting began."""
        self.last_decision = max(self.last_decision, last_decision)
        for key, counted in windows.items():
            for number, growth in counted.items():
                self._tracks[key].add(number, growth)

    def list_windows(self, span: Span, now: float) -> list[CountedWindow]:
        """Return the windows of a span, from the first with a decision to the open one."""
        current = int(now // span.step)
        track = self._tracks[span.key]
        first = min((n for n in track.windows if n > current - span.windows), default=current)
        windows, concluded, none = track.windows, track.concluded, WindowCounts()
        return [
            CountedWindow(n * span.step, windows.get(n, none), concluded.get(n))
            for n in range(first, current + 1)
        ]

    def find_recent_rate(self, span: Span, now: float) -> RecentRate:
        """Return the recent closed windows, up to the last one with a decision."""
        closed = int(now // span.step) - 1
        track = self._tracks[span.key]
        number = max((n for n in track.windows if n <= closed), default=closed)
        conclusion = track.concluded.get(number, _NOTHING_YET)
        return RecentRate((number + 1) * span.step, track.sum_recent(number), conclusion)

    def choose_span(self, key: str | None, now: float) -> Span:
        """Return the span with this key, or the finest whose windows hold enough decisions.

        If there is none, return the finest span with the most decisions.
        """
        if key in _BY_KEY:
            return _BY_KEY[key]
        windows = {span: self.list_windows(span, now) for span in SPANS}
        for span in SPANS:
            busy = [one.counts.comparable for one in windows[span] if one.counts.decisions]
            if busy and sum(busy) / len(busy) >= _LEAST_COMPARABLE:
                return span
        decisions = [sum(one.counts.decisions for one in windows[span]) for span in SPANS]
        return SPANS[decisions.index(max(decisions))]

    def decisions_per_second(self, now: float) -> float:
        """Return decisions a second, over the recent closed windows of the finest span."""
        span = SPANS[0]
        closed = int(now // span.step) - 1
        recent = self._tracks[span.key].sum_recent(closed)
        return recent.decisions / (span.step * _RECENT_WINDOWS)


def count_in_ledger(
    ledger: Ledger, rows: int, *, counts_comparable: bool
) -> tuple[CountsBySpan, float]:
    """Count the end of a ledger of so many rows in windows; also return the last decision's time.

    counts_comparable: whether the monitor counts comparable decisions
    """
    reader = ledger.reader
    stop = min(rows, reader.state().judged)
    start = max(ledger.first, stop - SEEDED)
    now, last = clock.time(), 0.0
    windows: dict[str, dict[int, WindowCounts]] = {span.key: {} for span in SPANS}
    while start < stop:
        chunk = reader.decisions(start, min(stop, start + _CHUNK), keys=False, witnesses=False)
        start += len(chunk)
        seconds = np.minimum(chunk.times / 1e6, now)  # a client's clock may be ahead
        last = max(last, float(seconds.max(initial=0.0)))
        every = np.ones(len(chunk))
        comparable = chunk.facts["comparable"] > 0 if counts_comparable else every
        flags = np.stack([every, comparable, chunk.counts > 0])
        for span in SPANS:
            inside = seconds > now - span.step * span.windows
            numbers, places = np.unique(seconds[inside] // span.step, return_inverse=True)
            sums = [np.bincount(places, flag, len(numbers)) for flag in flags[:, inside]]
            counted = windows[span.key]
            for number, *growth in zip(numbers.astype(int).tolist(), *sums, strict=True):
                counts = WindowCounts(*map(int, growth))
                counted[number] = counted.get(number, WindowCounts()).plus(counts)
    return windows, last


def _total(served: ServedMonitor) -> WindowCounts:
    counts = served.counts
    decisions = counts.decisions.total()
    comparable = counts.comparable if served.monitor.comparable else decisions
    return WindowCounts(decisions, comparable, counts.violations.total())
