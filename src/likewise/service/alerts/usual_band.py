"""Is the rate of contradictions what it usually is?

A rate is `violations` of `comparable` decisions in a window of time. What is usual is the sum over
earlier windows. Both get a Wilson score interval, so many standard deviations wide on each side,
and the rate is unusual if the two intervals do not meet. Windows vary more than chance alone would
have them (an evening is not a morning), so all counts are divided by the spread first: Pearson's
chi-squared of the earlier windows by its degrees of freedom, where that is above 1.

Where there are too few decisions, or too few earlier windows, nothing is concluded, and the reason
is said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from likewise.reports.intervals import wilson_bounds
from likewise.service.toml_tables import Count, Positive, SettingsTable

Finding = Literal["usual", "above", "below", "cannot be concluded"]


@dataclass(frozen=True, slots=True)
class RateWindow:
    """Counts of a stretch of time."""

    number: int
    """Which one, counted from 1970."""
    comparable: int = 0
    """The denominator: decisions that had a like case; all of them where that is not asked."""
    violations: int = 0


class BandSettings(SettingsTable, frozen=True):
    """How much is needed to conclude something, and how far is unusual."""

    deviations: Positive = 4.0
    least_comparable: Count = 100
    """In the window that is judged."""
    least_windows: Count = 12
    """Earlier windows with comparable decisions."""


@dataclass(frozen=True, slots=True)
class RateConclusion:
    """What can be said of one window."""

    finding: Finding
    because: str = ""
    """Why nothing can be concluded."""
    violations: int = 0
    comparable: int = 0
    usual_violations: int = 0
    usual_comparable: int = 0
    low: float = 0.0
    """The usual rate lies between here…"""
    high: float = 1.0
    """…and here."""
    spread: float = 1.0


def conclude(
    window: RateWindow, earlier: Sequence[RateWindow], band: BandSettings
) -> RateConclusion:
    """Compare a window with those before it."""
    known = [one for one in earlier if one.comparable > 0]
    usual = sum(one.violations for one in known)
    of = sum(one.comparable for one in known)
    counts = {
        "violations": window.violations,
        "comparable": window.comparable,
        "usual_violations": usual,
        "usual_comparable": of,
    }
    if len(known) < band.least_windows:
        because = f"{len(known)} earlier windows of at least {band.least_windows}"
        return RateConclusion("cannot be concluded", because, **counts)
    if window.comparable < band.least_comparable:
        because = f"{window.comparable} comparable decisions of at least {band.least_comparable}"
        return RateConclusion("cannot be concluded", because, **counts)
    wide = spread(known)
    low, high = wilson_bounds(usual / wide, of / wide, band.deviations)
    from_here, to_here = wilson_bounds(
        window.violations / wide, window.comparable / wide, band.deviations
    )
    finding: Finding = "above" if from_here > high else "below" if to_here < low else "usual"
    return RateConclusion(finding, "", **counts, low=low, high=high, spread=wide)


def spread(windows: Sequence[RateWindow]) -> float:
    """How much more windows differ than chance alone would have them; at least 1."""
    of = sum(one.comparable for one in windows)
    rate = sum(one.violations for one in windows) / of if of else 0.0
    if len(windows) < 2 or not 0.0 < rate < 1.0:
        return 1.0
    squares = sum(
        (one.violations - one.comparable * rate) ** 2 / (one.comparable * rate * (1.0 - rate))
        for one in windows
        if one.comparable
    )
    return max(1.0, squares / (len(windows) - 1))
