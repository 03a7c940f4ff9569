"""Writes values as JSON: exactly for ledgers and requests, or readably for answers.

Exactly (`form_of`/`value_of`; as text `write_word`/`read_word`): dates, bytes and the like become
an object with one entry, such as {"date": "2026-01-31"}. Invariant: the value that is read back
equals the one written, and has its type; reading executes nothing. Readably (`json_value`): values
that JSON lacks become text, numbers that are not finite null. Not here: bodies of verdicts.
"""

import datetime
import decimal
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from likewise.errors import BadFile, UnexpectedValue
from likewise.tables.normalize import as_list, short_repr, to_python_scalar

CODE, VECTOR = "f0", "f1"
"""The names of the two fields of its NumPy type."""


def make_column_type(vector: np.dtype[Any]) -> str:
    """Return the NumPy type of a column whose vectors have this type."""
    return f"<i4,({vector.shape[0]},){vector.base.newbyteorder('<').str}"


_READ: dict[str, Callable[[str], Any]] = {
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": decimal.Decimal,
    "bytes": bytes.fromhex,
    "float": float,
}


def write_word(value: Any, what: str) -> str:
    """Return a label or category as JSON text; raise UnexpectedValue if it has no such form."""
    try:
        text = json.dumps(form_of(value), ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError):  # a lone surrogate is a ValueError too
        raise UnexpectedValue(
            f"{what} is {short_repr(value)} of type {type(value).__name__}, which a ledger cannot"
            " keep; expected a string, a number, a date, or a tuple of such."
        ) from None
    return text


def read_word(text: str) -> Any:
    """Return the value that `write_word` wrote; raise BadFile if it did not."""
    try:
        return value_of(json.loads(text))
    except (BadFile, ValueError, RecursionError):
        raise BadFile(
            f"{short_repr(text)} in the ledger is no label or category: it was altered."
        ) from None


def form_of(value: Any) -> Any:
    """Return a form that JSON can hold and `value_of` reads back; raise TypeError without one."""
    value = to_python_scalar(value)
    if value is None or isinstance(value, bool):
        return value
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    raise TypeError


def _float_form(value: float) -> Any:
    return float(value) if math.isfinite(value) else {"float": repr(float(value))}


_FORMS: list[tuple[type, Callable[[Any], Any]]] = [
    (str, str.__str__),  # also a member of an enumeration: it becomes the text that it equals
    (int, int),
    (float, _float_form),
    (tuple, lambda value: [form_of(part) for part in value]),
    (datetime.datetime, lambda value: {"datetime": value.isoformat()}),
    (datetime.date, lambda value: {"date": value.isoformat()}),
    (datetime.time, lambda value: {"time": value.isoformat()}),
    (decimal.Decimal, lambda value: {"decimal": str(value)}),
    (bytes, lambda value: {"bytes": value.hex()}),
]


def value_of(form: Any) -> Any:
    """Return the value whose form this is; raise BadFile if it is no form."""
    try:
        return _value_of(form)
    except (TypeError, ValueError, KeyError, ArithmeticError, RecursionError, AttributeError):
        raise BadFile(f"{short_repr(form)} is no label or category.") from None


def _value_of(form: Any) -> Any:
    if isinstance(form, list):
        return tuple(map(_value_of, form))
    if isinstance(form, dict):
        ((kind, text),) = form.items()
        return _READ[kind](text)
    return form


def json_value(value: Any) -> Any:
    """Return a value for a JSON answer; an array becomes a list.

    >>> json_value((0.5, float("nan"), datetime.date(2026, 1, 31)))
    [0.5, None, '2026-01-31']
    """
    if isinstance(value, np.ndarray | list | tuple):
        return [json_value(part) for part in as_list(value) or ()]
    value = to_python_scalar(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def to_query_text(value: Any) -> str:
    """Return a value as the text of a query parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(json_value(value))
