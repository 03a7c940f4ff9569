"""Decides whether the rate of contradictions in a window of time is unusual.

The rate is unusual if its Wilson score interval does not meet that of all earlier windows. Windows
vary more than by chance (evenings differ from mornings), so all counts are divided by their spread
first: Pearson's chi-squared of the earlier windows by its degrees of freedom, if that is above 1.
With too few decisions or earlier windows nothing is concluded, and the reason is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from likewise.reports.totals import wilson_bounds
from likewise.service.toml_tables import Count, Positive, SettingsTable

Finding = Literal["usual", "above", "below", "cannot be concluded"]


@dataclass(frozen=True, slots=True)
class RateWindow:
    """Counts the decisions in a window of time."""

    number: int
    """Its number, counted from 1970."""
    comparable: int = 0
    """The denominator: decisions with a similar case; all decisions where that is not asked."""
    violations: int = 0


class BandSettings(SettingsTable, frozen=True):
    """Says how many counts a conclusion needs, and how far from usual is unusual."""

    deviations: Positive = 4.0
    least_comparable: Count = 100
    """Comparable decisions that the judged window needs."""
    least_windows: Count = 12
    """Earlier windows with comparable decisions that are needed."""


@dataclass(frozen=True, slots=True)
class RateConclusion:
    """The conclusion about one window."""

    finding: Finding
    reason: str = ""
    """Why nothing can be concluded."""
    violations: int = 0
    comparable: int = 0
    usual_violations: int = 0
    usual_comparable: int = 0
    low: float = 0.0
    """Lower bound of the usual rate."""
    high: float = 1.0
    """Upper bound of the usual rate."""
    spread: float = 1.0

    def details(self) -> dict[str, Any]:
        """Return the finding, the counts and the bounds, as alerts have them."""
        names = ("finding", "violations", "comparable", "usual_violations", "usual_comparable")
        bounds = {"usual_low": self.low, "usual_high": self.high}
        return {name: getattr(self, name) for name in names} | bounds


def conclude(
    window: RateWindow, earlier: Sequence[RateWindow], band: BandSettings
) -> RateConclusion:
    """Compare a window with those before it."""
    earlier = [one for one in earlier if one.comparable > 0]
    usual_violations = sum(one.violations for one in earlier)
    usual_comparable = sum(one.comparable for one in earlier)
    counts = {
        "violations": window.violations,
        "comparable": window.comparable,
        "usual_violations": usual_violations,
        "usual_comparable": usual_comparable,
    }
    if len(earlier) < band.least_windows:
        because = f"{len(earlier)} earlier windows of at least {band.least_windows}"
        return RateConclusion("cannot be concluded", because, **counts)
    if window.comparable < band.least_comparable:
        because = f"{window.comparable} comparable decisions of at least {band.least_comparable}"
        return RateConclusion("cannot be concluded", because, **counts)
    factor = spread(earlier)
    low, high = wilson_bounds(usual_violations / factor, usual_comparable / factor, band.deviations)
    window_low, window_high = wilson_bounds(
        window.violations / factor, window.comparable / factor, band.deviations
    )
    finding: Finding = "above" if window_low > high else "below" if window_high < low else "usual"
    return RateConclusion(finding, "", **counts, low=low, high=high, spread=factor)


def spread(windows: Sequence[RateWindow]) -> float:
    """Return how much more windows differ than by chance alone; at least 1."""
    comparable = sum(one.comparable for one in windows)
    rate = sum(one.violations for one in windows) / comparable if comparable else 0.0
    if len(windows) < 2 or not 0.0 < rate < 1.0:
        return 1.0
    squares = sum(
        (one.violations - one.comparable * rate) ** 2 / (one.comparable * rate * (1.0 - rate))
        for one in windows
        if one.comparable
    )
    return max(1.0, squares / (len(windows) - 1))
