"""Values as JSON: exactly, as ledgers, records and requests keep them; or readably, as answers do.

Exactly (`form_of`, `value_of`, and as text `write_word`, `read_word`): JSON for text, numbers,
truth values and tuples of them; an object with one entry, such as {"date": "2026-01-31"}, for
dates, bytes and the like. Nothing is ever executed to read one.
Readably (`json_value`): what has no form of its own becomes text, and what is not finite null.

Invariant: a value that was read back equals the one that was written, and has its type.
Not here: bodies of verdicts (verdict_body.py), text for people (html.py, printing.py,
csv_escape.py).
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

_READ: dict[str, Callable[[str], Any]] = {
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": decimal.Decimal,
    "bytes": bytes.fromhex,
    "float": float,
}


def write_word(value: Any, what: str) -> str:
    """Return a label or category as JSON text; raise BadDecision if it has no such form."""
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
            f"{short_repr(text)} in the ledger is no word of a rule: it was altered."
        ) from None


def form_of(value: Any) -> Any:
    """Return what JSON can hold and `value_of` reads back; raise TypeError if there is none."""
    value = to_python_scalar(value)
    if value is None or isinstance(value, bool):
        return value
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    raise TypeError


def _of_float(value: float) -> Any:
    return float(value) if math.isfinite(value) else {"float": repr(float(value))}


_FORMS: list[tuple[type, Callable[[Any], Any]]] = [
    (str, str.__str__),  # an enumeration's member too: as what it equals
    (int, int),
    (float, _of_float),
    (tuple, lambda value: [form_of(one) for one in value]),
    (datetime.datetime, lambda value: {"datetime": value.isoformat()}),
    (datetime.date, lambda value: {"date": value.isoformat()}),
    (datetime.time, lambda value: {"time": value.isoformat()}),
    (decimal.Decimal, lambda value: {"decimal": str(value)}),
    (bytes, lambda value: {"bytes": value.hex()}),
]


def value_of(form: Any) -> Any:
    """Return the value that `form_of` made this of; raise BadFile if it is none."""
    try:
        return _value_of(form)
    except (TypeError, ValueError, KeyError, ArithmeticError, RecursionError, AttributeError):
        raise BadFile(f"{short_repr(form)} is no label or category.") from None


def _value_of(form: Any) -> Any:
    if isinstance(form, list):
        return tuple(_value_of(one) for one in form)
    if isinstance(form, dict):
        ((kind, text),) = form.items()
        return _READ[kind](text)
    return form


def json_value(value: Any) -> Any:
    """Return a value as answers say it; the numbers of a vector one by one.

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
    """Return how a query says a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(json_value(value))
