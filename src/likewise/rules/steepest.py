"""The question of a slope monitor: against which past decision is the slope steepest?

The slope of a pair is output distance / input distance ** input_exponent. A rule says how distances
are measured; this says what is asked. A ledger of slopes has it in its chain.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likewise.values.errors import BadRule

_EXPONENTS = (0.01, 100.0)
_KIND = "steepest"


@dataclass(frozen=True)
class Steepest:
    """What makes a slope, and from which slope on it is a violation."""

    input_exponent: float = 1.0
    level: float = math.inf
    """A steeper slope is a violation; infinity: nothing is."""

    def __post_init__(self) -> None:
        low, high = _EXPONENTS
        exponent, level = self.input_exponent, self.level
        if not _is_number(exponent) or not low <= exponent <= high:
            raise BadRule(
                f"input_exponent is {exponent!r}; expected a number from {low:g} to {high:g}",
                setting="input_exponent",
            )
        if not _is_number(level) or not level >= 0:
            raise BadRule(f"level is {level!r}; expected a number from 0, or None", setting="level")

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

    def to_dict(self) -> dict[str, Any]:
        """For an event of a ledger."""
        level = None if self.level == math.inf else float(self.level)
        return {"kind": _KIND, "input_exponent": float(self.input_exponent), "level": level}

    @classmethod
    def of(cls, told: Any) -> Self:
        """From an event of a ledger; BadRule if that asks something else."""
        if not isinstance(told, dict) or told.get("kind") != _KIND:
            raise BadRule(f"the question is {told!r}; expected one of kind {_KIND!r}")
        level = told.get("level")
        return cls(told.get("input_exponent"), math.inf if level is None else level)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
