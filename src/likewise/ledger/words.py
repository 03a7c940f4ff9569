"""Labels and categories as text that keeps their type, and back.

JSON for strings, numbers, truth values and tuples of them; an object with one entry for dates,
bytes and the like. Nothing is ever executed to read one.

Invariant: what comes back equals what was written, and has its type.
"""

import datetime
import decimal
import json
import math
from collections.abc import Callable
from typing import Any

from likewise.values.errors import BadFile, UnexpectedValue

_TOLD = {
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": decimal.Decimal,
    "bytes": bytes.fromhex,
    "float": float,
}


def written(value: Any, what: str) -> str:
    """A label or category as JSON text; raise BadDecision if it has no such form."""
    try:
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError):  # a lone surrogate is a ValueError too
        raise UnexpectedValue(
            f"{what} is {value!r} of type {type(value).__name__}, which a ledger cannot keep;"
            " expected a string, a number, a date, or a tuple of such."
        ) from None
    return text


def read(text: str) -> Any:
    """The value that `written` wrote; raise BadFile if it did not."""
    try:
        return of_plain(json.loads(text))
    except (BadFile, ValueError, RecursionError):
        raise BadFile(f"{text!r} in the ledger is no word of a rule: it was altered.") from None


def of_plain(plain: Any) -> Any:
    """The value that JSON stands for, as `written` writes it; raise BadFile if it is none."""
    try:
        return value_of(plain)
    except (TypeError, ValueError, KeyError, ArithmeticError, RecursionError, AttributeError):
        raise BadFile(f"{plain!r} is no label or category.") from None


def plain(value: Any) -> Any:
    """The same as JSON can hold it; raise TypeError if there is no such form."""
    if hasattr(value, "dtype") and hasattr(value, "item"):  # NumPy's own
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    for kind, form in _PLAIN:
        if isinstance(value, kind):
            return form(value)
    raise TypeError


def _of_float(value: float) -> Any:
    return float(value) if math.isfinite(value) else {"float": repr(float(value))}


_PLAIN: list[tuple[type, Callable[[Any], Any]]] = [
    (str, str.__str__),  # an enumeration's member too: as what it equals
    (int, int),
    (float, _of_float),
    (tuple, lambda value: [plain(one) for one in value]),
    (datetime.datetime, lambda value: {"datetime": value.isoformat()}),
    (datetime.date, lambda value: {"date": value.isoformat()}),
    (datetime.time, lambda value: {"time": value.isoformat()}),
    (decimal.Decimal, lambda value: {"decimal": str(value)}),
    (bytes, lambda value: {"bytes": value.hex()}),
]


def value_of(plain: Any) -> Any:
    """The value that `plain` made this of; raises what Python raises if it is none."""
    if isinstance(plain, list):
        return tuple(value_of(one) for one in plain)
    if isinstance(plain, dict):
        ((kind, text),) = plain.items()
        return _TOLD[kind](text)
    return plain
