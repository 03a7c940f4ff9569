"""What came lately, counted by windows of time: what the overview shows of a monitor.

The counts of the service (service/monitor_counts.py) are read once a second, and their growth is
added to the window that is open, of each span. After a start the windows are filled from the end
of the ledger, so that a restart leaves no hole.

Whether the rate is usual is concluded as the alerts do it (service/alerts/usual_band.py), whenever
a window closes: the last few windows together against those before them. From a window that is
unusual until the rate is back in its band, nothing becomes part of what is usual. So a change stays
visible for as long as the span shows what was before it.

Invariant: a decision is in one window of each span; counts of the service are only read.
Bound: `windows` windows of each span; the last SEEDED rows of a ledger are read, once.
Cost: some microseconds a second, and one conclusion for each window that closes.
Not here: times before the spans. Whoever asks for those asks the ledger.
"""

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
_LEAST_COMPARABLE = (
    30  # comparable decisions of a window, on average, for a rate that is more than noise
)
_NOTHING_YET = RateConclusion("cannot be concluded", "no window has closed yet")


@dataclass(frozen=True, slots=True)
class Span:
    """How far back, and in which steps."""

    key: str
    words: str
    step: int
    """Seconds of a window."""
    windows: int

    @property
    def recent_label(self) -> str:
        """How long the stretch is whose rate is judged."""
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
    """How many there were."""

    decisions: int = 0
    comparable: int = 0
    """The denominator of a rate: all decisions where it is not asked which are comparable."""
    violations: int = 0

    def plus(self, more: "WindowCounts") -> "WindowCounts":
        return WindowCounts(*(one + other for one, other in zip(self, more, strict=True)))

    @property
    def rate(self) -> float | None:
        return self.violations / self.comparable if self.comparable else None


@dataclass(frozen=True, slots=True)
class CountedWindow:
    """A window of time, what came in it, and what could be said when it closed."""

    start: float
    """Seconds since 1970."""
    counts: WindowCounts
    conclusion: RateConclusion | None


@dataclass(frozen=True, slots=True)
class RecentRate:
    """The last few windows together."""

    until: float
    """Seconds since 1970."""
    counts: WindowCounts
    conclusion: RateConclusion


CountsBySpan = Mapping[str, Mapping[int, WindowCounts]]
"""By the key of a span, and by number, counted from 1970."""


@dataclass
class _SpanWindows:
    """The windows of one span, and what was concluded of them."""

    span: Span
    windows: dict[int, WindowCounts] = field(default_factory=dict)
    concluded: dict[int, RateConclusion] = field(default_factory=dict)
    usual: list[RateWindow] = field(default_factory=list)
    is_unusual: bool = False
    """Whether the rate left its band, and has not come back into it."""
    next_number: int | None = None
    """The first window of which nothing was concluded yet; None: begin at the first there is."""

    def add(self, number: int, growth: WindowCounts) -> None:
        self.windows[number] = self.windows.get(number, WindowCounts()).plus(growth)
        if self.next_number is not None and number < self.next_number:
            self.next_number = None  # which has everything concluded again

    def close_before(self, current: int) -> None:
        """Conclude what there is to say of every window before the one that is open."""
        oldest = current - self.span.windows
        self.windows = {n: one for n, one in self.windows.items() if n > oldest}
        self.concluded = {n: one for n, one in self.concluded.items() if n > oldest}
        if not self.windows:
            return
        if self.next_number is None:
            self.next_number, self.usual, self.concluded = min(self.windows), [], {}
            self.is_unusual = False
        self.usual = [one for one in self.usual if one.number > oldest]
        for number in range(max(self.next_number, oldest + 1), current):
            self.concluded[number] = self._conclude(number)
        self.next_number = max(self.next_number, current)

    def _conclude(self, number: int) -> RateConclusion:
        lately = self.sum_recent(number)
        window = RateWindow(number, lately.comparable, lately.violations)
        conclusion = conclude(window, self.usual, _BAND)
        rate = lately.rate or 0.0
        if conclusion.finding in ("above", "below"):
            self.is_unusual = True
        elif len(self.usual) < _BAND.least_windows or (
            not conclusion.because and conclusion.low <= rate <= conclusion.high
        ):
            self.is_unusual = False
        leaving = number - _RECENT_WINDOWS + 1
        if not self.is_unusual and leaving in self.windows:
            left = self.windows[leaving]
            self.usual.append(RateWindow(leaving, left.comparable, left.violations))
        return conclusion

    def sum_recent(self, number: int) -> WindowCounts:
        """A window and the few before it together."""
        sum_of = WindowCounts()
        for one in range(number - _RECENT_WINDOWS + 1, number + 1):
            sum_of = sum_of.plus(self.windows.get(one, WindowCounts()))
        return sum_of


class RateWindows:
    """The windows of one monitor."""

    def __init__(self, hosted: ServedMonitor) -> None:
        self.hosted = hosted
        self.rows_before = hosted.next_row
        """Those that were there before anything was counted here."""
        self.last_decision = 0.0
        """When the last one came, in seconds since 1970; 0 if that is not known."""
        self._before = _total(hosted)
        self._tracks = {span.key: _SpanWindows(span) for span in SPANS}

    def update(self, now: float | None = None) -> None:
        """Add what has come since the last time; on the event loop."""
        now = clock.time() if now is None else now
        total = _total(self.hosted)
        growth = WindowCounts(
            *(one - before for one, before in zip(total, self._before, strict=True))
        )
        self._before = total
        self.last_decision = max(self.last_decision, self.hosted.counts.last_decision)
        for track in self._tracks.values():
            number = int(now // track.span.step)
            if any(growth):
                track.add(number, growth)
            track.close_before(number)

    def add_past(self, windows: CountsBySpan, last_decision: float) -> None:
        """What came before anything was counted here."""
        self.last_decision = max(self.last_decision, last_decision)
        for key, counted in windows.items():
            for number, growth in counted.items():
                self._tracks[key].add(number, growth)

    def list_windows(self, span: Span, now: float | None = None) -> list[CountedWindow]:
        """All windows of a span, from the first with a decision on; the last one is open."""
        current = int((clock.time() if now is None else now) // span.step)
        track = self._tracks[span.key]
        first = min((one for one in track.windows if one > current - span.windows), default=current)
        return [
            CountedWindow(
                n * span.step, track.windows.get(n, WindowCounts()), track.concluded.get(n)
            )
            for n in range(first, current + 1)
        ]

    def find_recent_rate(self, span: Span, now: float | None = None) -> RecentRate:
        """The last closed windows, up to the last one in which a decision came."""
        closed = int((clock.time() if now is None else now) // span.step) - 1
        track = self._tracks[span.key]
        number = max((one for one in track.windows if one <= closed), default=closed)
        conclusion = track.concluded.get(number, _NOTHING_YET)
        return RecentRate((number + 1) * span.step, track.sum_recent(number), conclusion)

    def choose_span(self, key: str | None, now: float | None = None) -> Span:
        """The span that was asked for, or the finest whose windows hold enough to say anything.

        If none does, the finest that has all that is known.
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

    def decisions_per_second(self, now: float | None = None) -> float:
        """Decisions a second, over the last windows of the finest span that are closed."""
        span = SPANS[0]
        closed = int((clock.time() if now is None else now) // span.step) - 1
        lately = self._tracks[span.key].sum_recent(closed)
        return lately.decisions / (span.step * _RECENT_WINDOWS)


def count_in_ledger(ledger: Ledger, rows: int, *, asked: bool) -> tuple[CountsBySpan, float]:
    """Windows from the end of a ledger, up to so many rows, and when the last decision came.

    asked: whether the monitor asks which decisions are comparable
    """
    reader = ledger.reader
    stop = min(rows, reader.state().judged)
    start = max(ledger.first, stop - SEEDED)
    now, last = clock.time(), 0.0
    windows: dict[str, dict[int, WindowCounts]] = {span.key: {} for span in SPANS}
    while start < stop:
        some = reader.decisions(start, min(stop, start + _CHUNK), keys=False, witnesses=False)
        start += len(some)
        seconds = np.minimum(some.times / 1e6, now)  # a client's clock may be ahead
        last = max(last, float(seconds.max(initial=0.0)))
        like = some.facts["comparable"] > 0 if asked else np.ones(len(some), np.bool_)
        flags = np.stack([np.ones(len(some)), like, some.counts > 0])
        for span in SPANS:
            there = seconds > now - span.step * span.windows
            numbers, places = np.unique(seconds[there] // span.step, return_inverse=True)
            sums = [np.bincount(places, one, len(numbers)).astype(int) for one in flags[:, there]]
            for i, number in enumerate(numbers.astype(int).tolist()):
                grown = WindowCounts(*(int(one[i]) for one in sums))
                kept = windows[span.key]
                kept[number] = kept.get(number, WindowCounts()).plus(grown)
    return windows, last


def _total(hosted: ServedMonitor) -> WindowCounts:
    counts = hosted.counts
    decisions = counts.decisions.total()
    asked = hosted.monitor.comparable
    return WindowCounts(
        decisions, counts.comparable if asked else decisions, counts.violations.total()
    )
