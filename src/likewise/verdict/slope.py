"""The question of a monitor of slopes: against which past decision is the slope the steepest?

The slope of a pair is output distance / input distance ** input_exponent. Equal outputs have none.
Different outputs at input distance 0 have an infinite slope, as does a quotient too large for a
float, or with a divisor that vanishes. A quotient that vanishes, or whose distance is too large for
a float, does not count. Ties go to the outputs farthest apart, then to the earliest row.
"""

import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRule
from likewise.tables.setting_checks import check_number

_EXPONENTS = (0.01, 100.0)
_KIND = "steepest"
Slopes: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SlopeQuestion:
    """The definition of a slope, and the slope above which it is a violation."""

    input_exponent: float = 1.0
    limit: float = math.inf
    """A steeper slope is a violation; with infinity, none is."""

    def __post_init__(self) -> None:
        exponent = check_number("input_exponent", self.input_exponent, *_EXPONENTS)
        object.__setattr__(self, "input_exponent", exponent)
        object.__setattr__(self, "limit", check_number("slope_limit", self.limit, 0.0, math.inf))

    def slope(self, near: float, far: float) -> float:
        """Return the slope of a pair whose outputs differ, equal to the kernel's to the last bit.

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
        """Return the fields for an event of a ledger."""
        return {
            "kind": _KIND,
            "input_exponent": self.input_exponent,
            "slope_limit": self.finite_limit,
        }

    @property
    def finite_limit(self) -> float | None:
        """The limit for JSON; None if there is none."""
        return None if self.limit == math.inf else self.limit

    @classmethod
    def of(cls, event: Any) -> Self:
        """Read an event of a ledger; raise BadRule if it asks another question."""
        if not isinstance(event, dict) or event.get("kind") != _KIND:
            raise BadRule(f"the question is {event!r}; expected one of kind {_KIND!r}")
        limit = event.get("slope_limit")
        return cls(event.get("input_exponent"), math.inf if limit is None else limit)  # type: ignore[arg-type]
