"""How near is near, and how far is different: first figures from the spread of numbers.

The usual spread is the range between the 10th and the 90th hundredth, so that a few extremes do not
widen it. A tenth of it, rounded down to 1, 2 or 5 times a power of ten, is a first tolerance, and a
first delta. Whole numbers get at least 1, the smallest step that they can be apart. A column that
is mostly 0 (gains, arrears) has no usual spread: there 0 is near 0 alone, and other amounts within
a tenth of each other.

Invariant: every figure is a tolerance that a Feature takes, with the reason beside it.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.rule.feature import TOLERANCES

SHARE = 0.1
_COUNTED = 100  # below this, whole numbers that are mostly 0 are counts
_MOSTLY = 0.5
_STEPS = (1.0, 2.0, 5.0)


class SuggestedValue(NamedTuple):
    """A tolerance or a delta, and where it comes from."""

    value: float | str
    why: str


def tolerance_of(numbers: npt.NDArray[np.float64], *, whole: bool) -> SuggestedValue:
    """For known numbers, at least one of them."""
    zeros = float((numbers == 0.0).mean())
    if zeros > _MOSTLY and numbers.min() >= 0.0 and (not whole or numbers.max() >= _COUNTED):
        return SuggestedValue(
            "10%", f"{zeros:.0%} are 0: near 0 is 0 alone; others, within a tenth"
        )
    spread = _usual_spread(numbers)
    figure = _plain(SHARE * spread)
    if whole and figure < 1.0:
        return SuggestedValue(1.0, "whole numbers: one more or less is near")
    return SuggestedValue(figure, "near within this; a tenth of the usual spread")


def delta_of(numbers: npt.NDArray[np.float64], *, whole: bool) -> SuggestedValue:
    """How far apart outputs still count as the same; 0 where they do not differ at all."""
    spread = _usual_spread(numbers) if len(numbers) else 0.0
    if spread == 0.0:
        return SuggestedValue(0.0, "how far apart outputs still count as the same")
    figure = max(_plain(SHARE * spread), 1.0 if whole else 0.0)
    shown = f"{spread:.3g}"
    return SuggestedValue(
        figure,
        "further apart is different. A guess: about a tenth of the usual spread of outputs"
        f" ({shown}, from the 10th to the 90th hundredth)",
    )


def widen_tolerance(tolerance: float | str) -> float | str:
    """The next plain figure but one: 1 becomes 2, 2 becomes 5, 5 becomes 10; 10% becomes 20%."""
    if isinstance(tolerance, str):
        return f"{2.0 * float(tolerance[:-1]):g}%"
    return min(TOLERANCES[1], _plain(2.5 * tolerance))


def _usual_spread(numbers: npt.NDArray[np.float64]) -> float:
    """Of the middle four fifths, or where that is none, of all."""
    small = numbers / 16.0 if np.abs(numbers).max() > 1e300 else numbers  # lest it overflow
    low, high = np.quantile(small, (0.1, 0.9))
    return float(high - low or np.ptp(small))


def _plain(figure: float) -> float:
    """Rounded down to 1, 2 or 5 times a power of ten, within what a tolerance can be."""
    least, most = TOLERANCES
    if not least <= figure <= most:
        return least if figure < least else most
    power = 10.0 ** math.floor(math.log10(figure))
    return max(step * power for step in _STEPS if step * power <= figure * (1 + 1e-9))
