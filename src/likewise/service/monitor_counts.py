"""Counts of a served monitor since the process started.

They are plain numbers, which only the event loop changes and a scrape reads: a counter object of a
metrics library would cost as much per decision as the decision.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from likewise.errors import LikewiseError
from likewise.service.http_errors import Refusal

OTHER = "(other)"
"""What models beyond the limit, and unknown routes, are counted under."""
BUCKET_SECONDS = (
    *(0.00001, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
)
"""Seconds; written as literals, so that they print as such."""


@dataclass
class DurationHistogram:
    """Counts durations by bucket, and adds them up."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKET_SECONDS) + 1))
    total: float = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        self.buckets[bisect_left(BUCKET_SECONDS, seconds)] += times
        self.total += seconds * times


@dataclass
class MonitorCounts:
    """Counts what a monitor did since the start of this process."""

    decisions: Counter[str] = field(default_factory=Counter)
    """Decisions by model; "" for those without one."""
    violations: Counter[str] = field(default_factory=Counter)
    newest_violations: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The row of the newest violation of each model, and when it came, in seconds since 1970."""
    comparable: int = 0
    pairs: int = 0
    alarms: int = 0
    repeated: int = 0
    """Decisions that were sent again under their keys, and answered as before."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused decisions by the code of the error, or by status if no monitor was asked."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Decisions that were reported as lost, by the reason."""
    unpaired: Counter[str] = field(default_factory=Counter)
    """CloudEvents whose other half did not come in time, by kind: request or response."""
    repeated_events: Counter[str] = field(default_factory=Counter)
    """CloudEvents that came before, by kind."""
    waiting_events: int = 0
    """CloudEvents that wait for their other half."""
    last_decision: float = 0.0
    """When the last decision was judged, in seconds since 1970."""
    observe_durations: DurationHistogram = field(default_factory=DurationHistogram)
    commit_durations: DurationHistogram = field(default_factory=DurationHistogram)

    def count_refusal(self, error: LikewiseError | Refusal, rows: int = 1) -> None:
        """Count refused decisions."""
        self.refused[str(error.status) if isinstance(error, Refusal) else error.code] += rows
