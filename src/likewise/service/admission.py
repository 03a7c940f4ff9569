"""Limits on what a decision may carry, checked before a monitor is asked.

How many distinct labels, categories and models a history may have is the monitor's to say, since
it alone knows them (`Monitor.limit_words`).
"""

import datetime
import time as clock
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from likewise.ledger import words
from likewise.ledger.times import microseconds
from likewise.rules.feature import Feature
from likewise.rules.rule import Rule
from likewise.service.refusals import Refusal
from likewise.service.settings import Limits
from likewise.values.errors import BadFile

_COMPOSED = (bytes, tuple, list, dict, set, frozenset)
_PLAIN = (int, float, datetime.date, datetime.datetime)


def checked(limits: Limits, label: Any, key: Any, model: Any) -> None:
    """Raise Refusal if a label, a key or the name of a model is too long."""
    if isinstance(label, str) and len(label) > limits.label_bytes >> 2:
        _check_length("the output", label, limits.label_bytes)
    if isinstance(key, str) and len(key) > limits.key_bytes >> 2:
        _check_length("the key", key, limits.key_bytes)
    if isinstance(model, str) and len(model) > limits.label_bytes >> 2:
        _check_length("the model", model, limits.label_bytes)


def checked_all(limits: Limits, what: str, values: Iterable[Any], most: int) -> None:
    """The same of a whole column."""
    for value in values:
        if type(value) is str and len(value) > most >> 2:
            _check_length(what, value, most)


def _check_length(what: str, text: str, most: int) -> None:
    if len(text.encode()) > most:
        raise Refusal(413, f"{what} has more than {most} bytes.")


def checked_row(limits: Limits, rule: Rule, values: dict[str, Any]) -> dict[str, Any]:
    """A row of a table, as a monitor takes it; Refusal if a text is too long."""
    features = rule.features or {}
    return {
        name: plain_value(value, _most(limits, features.get(name)))
        for name, value in values.items()
    }


def check_words(what: str, words: Any, most: int) -> None:
    """Raise Refusal if a word is too long; of any type that a label, key or category may have."""
    if isinstance(words, np.ndarray):
        words = words.tolist() if words.dtype.kind in "OSUT" else ()
    for word in words:
        if isinstance(word, str):
            if len(word) > most >> 2:
                _check_length(what, word, most)
        elif isinstance(word, _COMPOSED) and len(str(word)) > most:
            raise Refusal(413, f"{what} has more than {most} characters.")


def check_table(limits: Limits, rule: Rule, rows: Any) -> None:
    """The same of rows of a table, in whatever form they come."""
    columns: Any = getattr(rows, "columns", rows)
    if isinstance(columns, Mapping):
        for name, column in columns.items():
            several = isinstance(column, list | tuple | np.ndarray)
            most = _most(limits, (rule.features or {}).get(name))
            check_words("a value", column if several else [column], most)
    elif isinstance(rows, list | tuple):
        for row in rows:
            check_table(limits, rule, row)


def checked_column(limits: Limits, rule: Rule, name: str, column: Any) -> Any:
    """The same of a column."""
    if not isinstance(column, list):
        return column
    most = _most(limits, (rule.features or {}).get(name))
    return [plain_value(value, most) for value in column]


def _most(limits: Limits, feature: Feature | None) -> int:
    """How long a text of a column may be: what is embedded has the bound of a line only."""
    embedded = feature is not None and feature.kind in ("text", "image")
    return limits.line_bytes if embedded else limits.label_bytes


def plain_value(value: Any, most: int) -> Any:
    """A value as Python has it: JSON has no form for dates and the like."""
    if isinstance(value, str):
        if len(value) > most >> 2:
            _check_length("a value", value, most)
        return value
    if value is None or isinstance(value, _PLAIN):
        return value
    try:
        return words.of_plain(value)
    except BadFile:
        raise Refusal(
            422,
            f"{str(value)[:100]} is no value; expected text, a number, true or false, a list of"
            ' such, or an object such as {"date": "2026-01-31"}.',
        ) from None


def label_of(limits: Limits, label: Any, kind: str) -> Any:
    """An output as a monitor takes it."""
    if isinstance(label, list | dict) and kind == "label":
        label = plain_value(label, limits.label_bytes)
        if len(str(label)) > limits.label_bytes:
            raise Refusal(413, f"the output has more than {limits.label_bytes} characters.")
    return label


def checked_time(limits: Limits, time: Any) -> Any:
    """A time that a client gives, if it is near enough to the server's."""
    if time is None:
        return None
    skew = limits.skew_seconds
    if skew == 0:
        raise Refusal(422, "a time is given, but this server takes its own: leave it out.")
    apart = microseconds(time) / 1e6 - clock.time()
    if abs(apart) > skew:
        side = "ahead of" if apart > 0 else "behind"
        raise Refusal(
            422,
            f"the time is {abs(apart):,.0f} s {side} the server's; at most {skew:g} are taken.",
        )
    return time
