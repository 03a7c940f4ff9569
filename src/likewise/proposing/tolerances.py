"""Suggests first tolerances and deltas from the spread of numbers.

The usual spread is the range between the 10th and the 90th percentile, so that a few extremes do
not widen it. A tenth of it, rounded down to 1, 2 or 5 times a power of ten, is a first tolerance
and a first delta; at least 1 for whole numbers. A column that is mostly 0 (gains, arrears) has no
usual spread: there 0 is near 0 alone, and other amounts are near within a tenth.

Invariant: every suggestion is a tolerance that a Feature accepts, with a reason.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.proposing.profile import Profile
from likewise.rule.feature import TOLERANCES

_SIGN = re.compile(r"=|[_.:/| -]+")
_NEARLY = 0.99


# Finds one-hot families: columns of 0 and 1 that say one thing, such as race_White, race_Black.
# Columns are a family if their names begin alike up to a sign (race_White, `race=White`), each
# holds 0 and 1 only, no row has two of them set, and either nearly every row has one, or there are
# three of them or more, or the sign is `=`, which nothing else is used for.
#
# Invariant: a column is in one family at most; families come in the order of the table.
# Cost: one sum over rows for each beginning that columns share.


class Family(NamedTuple):
    """Names the columns that together say one thing."""

    name: str
    columns: tuple[str, ...]


def families_of(profiles: Mapping[str, Profile]) -> list[Family]:
    """Find the one-hot families of a table."""
    left = {name: one for name, one in profiles.items() if one.binary and not one.has_missing}
    families: list[Family] = []
    for beginning, names in _find_beginnings(list(left)):
        members = [name for name in names if name in left]
        if len(members) > 1 and _is_family(beginning, [left[name] for name in members]):
            families.append(Family(_SIGN.sub(" ", beginning).strip() or beginning, tuple(members)))
            for name in members:
                del left[name]
    order = {name: i for i, name in enumerate(profiles)}
    return sorted(families, key=lambda family: order[family.columns[0]])


def _find_beginnings(names: list[str]) -> list[tuple[str, list[str]]]:
    """Return what several names begin with, up to a sign and with it; those of most names first."""
    shared: dict[str, list[str]] = {}
    for name in names:
        for sign in _SIGN.finditer(name):
            if sign.start() > 0 and sign.end() < len(name):
                shared.setdefault(name[: sign.end()], []).append(name)
    several = [(beginning, names) for beginning, names in shared.items() if len(names) > 1]
    return sorted(several, key=lambda one: (-len(one[1]), -len(one[0])))


def _is_family(beginning: str, members: list[Profile]) -> bool:
    """Tell whether no row has two of these columns set, and enough speaks for a family."""
    flags = np.array([[bool(value) for value in one.values] for one in members])
    set_in_row: npt.NDArray[np.int64] = flags.sum(axis=0)
    if set_in_row.max() > 1:
        return False
    complete = float((set_in_row == 1).mean()) >= _NEARLY
    return complete or len(members) > 2 or beginning.endswith("=")


SHARE = 0.1
_COUNTED = 100  # whole numbers that are mostly 0 are counts if all are below this
_MOSTLY = 0.5
_STEPS = (1.0, 2.0, 5.0)


class SuggestedValue(NamedTuple):
    """Holds a tolerance or a delta, and where it comes from."""

    value: float | str
    why: str


def tolerance_of(numbers: npt.NDArray[np.float64], *, whole: bool) -> SuggestedValue:
    """Suggest a tolerance for known numbers, at least one of them."""
    zeros = float((numbers == 0.0).mean())
    if zeros > _MOSTLY and numbers.min() >= 0.0 and (not whole or numbers.max() >= _COUNTED):
        return SuggestedValue("10%", f"{zeros:.0%} are 0: 0 is near 0 alone; others within a tenth")
    tolerance = _round_down(SHARE * _usual_spread(numbers))
    if whole and tolerance < 1.0:
        return SuggestedValue(1.0, "whole numbers: one more or less is near")
    return SuggestedValue(tolerance, "near within this; a tenth of the usual spread")


def delta_of(numbers: npt.NDArray[np.float64], *, whole: bool) -> SuggestedValue:
    """Suggest how far apart outputs still count as the same; 0 where they do not differ at all."""
    spread = _usual_spread(numbers) if len(numbers) else 0.0
    if spread == 0.0:
        return SuggestedValue(0.0, "how far apart outputs still count as the same")
    return SuggestedValue(
        max(_round_down(SHARE * spread), 1.0 if whole else 0.0),
        "farther apart is different. A guess: about a tenth of the usual spread of outputs"
        f" ({spread:.3g}, from the 10th to the 90th percentile)",
    )


def widen_tolerance(tolerance: float | str) -> float | str:
    """Widen a tolerance by one step: 1 becomes 2, 2 becomes 5, 5 becomes 10; 10% becomes 20%."""
    if isinstance(tolerance, str):
        return f"{2.0 * float(tolerance[:-1]):g}%"
    return min(TOLERANCES[1], _round_down(2.5 * tolerance))


def _usual_spread(numbers: npt.NDArray[np.float64]) -> float:
    """Return the spread of the middle 80 %, or of all numbers if that is 0."""
    small = numbers / 16.0 if np.abs(numbers).max() > 1e300 else numbers  # avoids an overflow
    low, high = np.quantile(small, (0.1, 0.9))
    return float(high - low or np.ptp(small))


def _round_down(number: float) -> float:
    """Round down to 1, 2 or 5 times a power of ten, within the limits of a tolerance."""
    least, most = TOLERANCES
    if not least <= number <= most:
        return least if number < least else most
    power = 10.0 ** math.floor(math.log10(number))
    return max(step * power for step in _STEPS if step * power <= number * (1 + 1e-9))
