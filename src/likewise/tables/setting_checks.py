"""Checks settings that are numbers, whatever library they come from, without loading NumPy."""

import math
from numbers import Integral
from typing import Any

from likewise.errors import BadRule

_LARGEST = 1.7976931348623157e308


def is_integer(value: object) -> bool:
    """Whether a value is an integer of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_number(
    name: str,
    value: Any,
    low: float = -_LARGEST,
    high: float = _LARGEST,
    *,
    or_zero: bool = False,
    setting: str | None = None,
) -> float:
    """Return a number as a float; raise BadRule unless it is from low to high.

    name        what the error calls it
    setting     the setting that the error is about, if that has another name
    """
    plain = to_plain_value(value)
    single = not isinstance(plain, str | bytes | bool) and getattr(plain, "ndim", 0) == 0
    try:
        number = float(plain) if single else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if low <= number <= high or (or_zero and number == 0):
        return number
    bounds = f" from {low:g}" * (low > -_LARGEST) + f" to {high:g}" * (high < _LARGEST)
    raise BadRule(
        f"{name} is {value!r:.200}; expected a number{bounds}" + " (or 0)" * or_zero,
        setting=setting or name,
    )


def check_whole_number(name: str, value: Any, low: int = 1) -> int:
    """Return a whole number as an int; raise BadRule if it is none, or below `low`."""
    if not is_integer(value) or value < low:
        raise BadRule(f"{name} is {value!r}; expected a whole number from {low}", setting=name)
    return int(value)


def to_plain_value(value: Any) -> Any:
    """Return a scalar of NumPy or torch as a Python value; anything else as it is."""
    if not hasattr(value, "dtype"):
        return value
    from likewise.tables.normalize import to_python_scalar  # loads NumPy

    return to_python_scalar(value)
