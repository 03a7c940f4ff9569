"""The question of slopes: against which past decision do outputs change most for their inputs?

The slope of a pair is output distance / input distance ** input_exponent. A rule says how distances
are measured; this says what is asked. A ledger of slopes has it in its chain. What the edges mean:

- Equal outputs take no part. Different outputs at input distance 0 have an infinite slope; so has a
  quotient that is too large for a float, or whose power of a distance vanishes.
- A quotient that vanishes, or whose distance is too large for a float, takes no part.
- Of equally steep pairs the one whose outputs are farthest apart is named, then the earliest.
"""

import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRule

_EXPONENTS = (0.01, 100.0)
_KIND = "steepest"
Slopes: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SlopeQuestion:
    """What makes a slope, and from which slope on it is a violation."""

    input_exponent: float = 1.0
    limit: float = math.inf
    """A steeper slope is a violation; infinity: nothing is."""

    def __post_init__(self) -> None:
        low, high = _EXPONENTS
        exponent, limit = self.input_exponent, self.limit
        if not _is_number(exponent) or not low <= exponent <= high:
            raise BadRule(
                f"input_exponent is {exponent!r}; expected a number from {low:g} to {high:g}",
                setting="input_exponent",
            )
        if not _is_number(limit) or not limit >= 0:
            raise BadRule(
                f"slope_limit is {limit!r}; expected a number from 0, or None",
                setting="slope_limit",
            )

    def slope(self, near: float, far: float) -> float:
        """The slope of a pair whose outputs differ, as the kernel has it to the last bit.

        near, far   the distance of its inputs, and of its outputs
        """
        if self.input_exponent == 1.0:
            power = near
        else:
            try:
                power = math.pow(near, self.input_exponent)
            except OverflowError:
                power = math.inf
        return far / power if power != 0.0 else math.inf

    def slopes(self, near: Slopes, far: Slopes) -> Slopes:
        """Return the slope of each pair."""
        each = map(self.slope, near.tolist(), far.tolist())
        return np.fromiter(each, dtype=np.float64, count=len(near))

    def to_dict(self) -> dict[str, Any]:
        """For an event of a ledger."""
        exponent = float(self.input_exponent)
        return {"kind": _KIND, "input_exponent": exponent, "level": self.finite_limit}

    @property
    def finite_limit(self) -> float | None:
        """The limit for JSON; None if there is none."""
        return None if self.limit == math.inf else float(self.limit)

    @classmethod
    def of(cls, told: Any) -> Self:
        """From an event of a ledger; BadRule if that asks something else."""
        if not isinstance(told, dict) or told.get("kind") != _KIND:
            raise BadRule(f"the question is {told!r}; expected one of kind {_KIND!r}")
        level = told.get("level")
        return cls(told.get("input_exponent"), math.inf if level is None else level)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
