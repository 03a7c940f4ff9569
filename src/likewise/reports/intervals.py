"""Intervals for a share (of 95 % unless told) and for the difference of two, by their formulas.

A share: Wilson's score interval. It stays within 0 and 1, and says something of 0 of 20, too.
A difference of two shares: Newcombe's (his method 10), from the two Wilson intervals.

Both treat decisions as independent draws. Decisions of one history are not quite that: one odd
decision may contradict many later ones. Whoever shows an interval says so.
"""

import math
from dataclasses import dataclass

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


@dataclass(frozen=True)
class Share:
    """So many of so many, and where the share lies that they are a draw from."""

    count: int
    of: int
    low: float
    high: float

    @property
    def rate(self) -> float | None:
        """None of nothing."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True)
class Difference:
    """Of two shares, the second minus the first."""

    value: float
    low: float
    high: float

    @property
    def beyond_chance(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


def wilson(count: int, of: int) -> Share:
    """A share with its interval; from 0 to 1 where there is nothing.

    >>> share = wilson(10, 100)
    >>> round(share.low, 4), round(share.high, 4)
    (0.0552, 0.1744)
    """
    return Share(count, of, *wilson_bounds(count, of))


def wilson_bounds(count: float, of: float, deviations: float = Z) -> tuple[float, float]:
    """The lowest and the highest rate of which the share is within so many standard deviations."""
    if of == 0:
        return 0.0, 1.0
    square = deviations * deviations
    middle = (count + square / 2) / (of + square)
    half = deviations * math.sqrt(count * (of - count) / of + square / 4) / (of + square)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    return low, 1.0 if count == of else min(1.0, middle + half)


def difference(one: Share, other: Share) -> Difference | None:
    """The other share minus the one; None where one of them is of nothing.

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
