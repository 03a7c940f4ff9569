"""What a served monitor has done since it was started, to be read when somebody asks.

A counter that is told of every decision costs as much as the decision; these are plain numbers that
the event loop alone changes, and a scrape reads.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BUCKET_SECONDS = (
    0.00001,
    0.0001,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)
"""Seconds; written as literals, so that they print as such."""


@dataclass
class DurationHistogram:
    """How long something took: how often it was at most each edge, and in all."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKET_SECONDS) + 1))
    total: float = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        self.buckets[bisect_left(BUCKET_SECONDS, seconds)] += times
        self.total += seconds * times


@dataclass
class MonitorCounts:
    """Since the start of this process."""

    decisions: Counter[str] = field(default_factory=Counter)
    """By model; "" for decisions without one."""
    violations: Counter[str] = field(default_factory=Counter)
    newest_violations: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By model: the row of its newest violation, and when it came, in seconds since 1970."""
    comparable: int = 0
    pairs: int = 0
    alarms: int = 0
    repeated: int = 0
    """Sent again under their keys, and answered as before."""
    refused: Counter[str] = field(default_factory=Counter)
    """By the class of the error, or the status of what was refused at the door."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Decisions that the monitor was told are lost, by the reason."""
    unpaired: Counter[str] = field(default_factory=Counter)
    """CloudEvents whose other half did not come in time, by kind: request or response."""
    repeated_events: Counter[str] = field(default_factory=Counter)
    """CloudEvents that came before, by kind."""
    waiting_events: int = 0
    """CloudEvents that wait for their other half."""
    last_decision: float = 0.0
    """When, in seconds since 1970."""
    observe_durations: DurationHistogram = field(default_factory=DurationHistogram)
    commit_durations: DurationHistogram = field(default_factory=DurationHistogram)
