"""Computes intervals for a share (95 % by default) and for the difference of two shares.

A share: Wilson's score interval, which stays within 0 and 1, and is sensible for 0 of 20, too.
A difference of two shares: Newcombe's (his method 10), from the two Wilson intervals.

Both assume independent decisions. Decisions of one history are not quite independent: one odd
decision may contradict many later ones. Pages that show an interval say so.
"""

import math
from dataclasses import dataclass

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


@dataclass(frozen=True)
class Share:
    """Holds a count out of a number, and the interval of the share."""

    count: int
    of: int
    low: float
    high: float

    @property
    def rate(self) -> float | None:
        """The share itself; None if it is a share of nothing."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True)
class Difference:
    """Holds the difference of two shares, the second minus the first."""

    value: float
    low: float
    high: float

    @property
    def beyond_chance(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


def wilson(count: int, of: int) -> Share:
    """Return a share with its interval; a share of nothing has that from 0 to 1.

    >>> share = wilson(10, 100)
    >>> round(share.low, 4), round(share.high, 4)
    (0.0552, 0.1744)
    """
    return Share(count, of, *wilson_bounds(count, of))


def wilson_bounds(count: float, of: float, deviations: float = Z) -> tuple[float, float]:
    """Return the lowest and the highest rate that the share is within `deviations` of."""
    if of == 0:
        return 0.0, 1.0
    square = deviations * deviations
    middle = (count + square / 2) / (of + square)
    half = deviations * math.sqrt(count * (of - count) / of + square / 4) / (of + square)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    return low, 1.0 if count == of else min(1.0, middle + half)


def difference(one: Share, other: Share) -> Difference | None:
    """Return the other share minus the one; None if one of them is a share of nothing.

    >>> found = difference(wilson(10, 100), wilson(20, 100))
    >>> round(found.value, 4), round(found.low, 4), round(found.high, 4)
    (0.1, 0.0001, 0.1995)
    """
    if one.rate is None or other.rate is None:
        return None
    value = other.rate - one.rate
    below = math.hypot(other.rate - other.low, one.high - one.rate)
    above = math.hypot(other.high - other.rate, one.rate - one.low)
    return Difference(value, value - below, value + above)
