"""Checks the sizes of what a decision has, and converts values, before a monitor is asked.

Not here: how many distinct labels, categories and models a history may have, which only the
monitor knows (`MonitorCore.limit_words`).
"""

import datetime
import time as clock
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from likewise.errors import BadFile, UnexpectedValue
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.service.http_errors import Refusal
from likewise.service.settings import Limits
from likewise.sources.arrow_ipc import MOST_COLUMNS
from likewise.tables import codec
from likewise.tables.frames import ColumnTable
from likewise.tables.normalize import short_repr
from likewise.tables.times import to_microseconds

_COMPOSED = (bytes, tuple, list, dict, set, frozenset)
_NUMBERS = {int, float}
_DEPTH = 16
_PLAIN = (int, float, datetime.date, datetime.datetime)


def check_lengths(limits: Limits, label: Any, key: Any, model: Any) -> None:
    """Raise Refusal if a label, a key or the name of a model is too long."""
    if isinstance(label, str) and len(label) > limits.label_bytes >> 2:
        _check_length("the output", label, limits.label_bytes)
    if isinstance(key, str) and len(key) > limits.key_bytes >> 2:
        _check_length("the key", key, limits.key_bytes)
    if isinstance(model, str) and len(model) > limits.label_bytes >> 2:
        _check_length("the model", model, limits.label_bytes)


def _check_length(what: str, text: str, most: int) -> None:
    if len(text.encode()) > most:
        raise Refusal(413, f"{what} has more than {most} bytes.")


def normalize_row(limits: Limits, rule: Rule, values: dict[str, Any]) -> dict[str, Any]:
    """Convert a row of a table to what a monitor takes; Refusal if it or a text is too long."""
    if len(values) > MOST_COLUMNS:
        check_columns(values)
    short, row = limits.label_bytes >> 2, {}
    for name, value in values.items():
        kind = type(value)
        if kind is not int and kind is not float and not (kind is str and len(value) <= short):
            row[name] = normalize_value(value, _text_limit(limits, rule, name))
        else:
            row[name] = value
    return row


def check_columns(values: Mapping[str, Any]) -> None:
    """Raise Refusal if a table has too many columns."""
    if len(values) > MOST_COLUMNS:
        raise Refusal(413, f"there are {len(values)} columns; at most {MOST_COLUMNS} are taken.")


def make_column_table(columns: dict[str, Any]) -> ColumnTable:
    """Make a table of columns; raise Refusal unless they are equally long."""
    are_columns = all(
        isinstance(column, list) or (isinstance(column, np.ndarray) and column.ndim)
        for column in columns.values()
    )
    if not are_columns or len({len(column) for column in columns.values()}) != 1:
        raise Refusal(422, "the columns of `values` are not equally long.")
    return ColumnTable(columns)


def refuse_fields(rule: Rule) -> NoReturn:
    """Raise Refusal of a body with the fields of the other kind of rule, or without its own."""
    if rule.features is None:
        raise Refusal(422, "the rule is about vectors: expected `x` and `z`, not `values`.")
    raise Refusal(422, "the rule is about a table: expected `values`, without `x` and `z`.")


def check_count(limits: Limits, count: int) -> None:
    """Raise Refusal if a batch has too many decisions."""
    if count > limits.batch_rows:
        raise Refusal(
            413, f"the batch has {count} decisions; at most {limits.batch_rows} are taken."
        )


def count_decisions(limits: Limits, columns: Mapping[str, Any]) -> int:
    """Return how many decisions a batch has; raise Refusal if they are too many."""
    x, z = columns["x"], columns["z"]
    try:
        count = len(x if z is FROM_ROW else z)
    except TypeError:
        count = 1  # the monitor says what is wrong with it
    check_count(limits, count)
    return count


def check_names(limits: Limits, columns: Mapping[str, Any]) -> None:
    """Raise Refusal if a key of a batch, or the name of a model or a source, is too long."""
    check_words("a key", columns.get("keys"), limits.key_bytes)
    check_words("a model", columns.get("models"), limits.label_bytes)
    check_words("a source", columns.get("sources"), limits.label_bytes)


def check_words(what: str, words: Any, most: int) -> None:
    """Raise Refusal if a word is too long; of any type that a label, key or category may have.

    words: one for each decision, or one for all of them
    """
    if isinstance(words, np.ndarray):
        words = words.tolist() if words.dtype.kind in "OSUT" else ()
    for word in words if isinstance(words, list | tuple) else (words,):
        if isinstance(word, str):
            if len(word) > most >> 2:
                _check_length(what, word, most)
        elif isinstance(word, _COMPOSED) and len(str(word)) > most:
            raise Refusal(413, f"{what} has more than {most} characters.")


def check_table(limits: Limits, rule: Rule, rows: Any) -> None:
    """Raise Refusal if a text of a table is too long; rows or columns, in any form."""
    columns: Any = getattr(rows, "columns", rows)
    if isinstance(columns, Mapping):
        for name, column in columns.items():
            check_words("a value", column, _text_limit(limits, rule, name))
    elif isinstance(rows, list | tuple):
        for row in rows:
            check_table(limits, rule, row)


def normalize_column(limits: Limits, rule: Rule, name: str, column: Any) -> Any:
    """Convert a column of a table to what a monitor takes; raise Refusal if a text is too long."""
    if not isinstance(column, list):
        return column
    most = _text_limit(limits, rule, name)
    return [normalize_value(value, most) for value in column]


def _text_limit(limits: Limits, rule: Rule, column: str) -> int:
    """Return how long a text of a column may be: an embedded text may be as long as a line."""
    feature = (rule.features or {}).get(column)
    embedded = feature is not None and feature.kind in ("text", "image")
    return limits.line_bytes if embedded else limits.label_bytes


def normalize_value(value: Any, most: int) -> Any:
    """Convert a JSON value to Python: dates and the like come as objects with one entry."""
    if isinstance(value, str):
        if len(value) > most >> 2:
            _check_length("a value", value, most)
        return value
    if value is None or isinstance(value, _PLAIN):
        return value
    try:
        check_depth(value)
        decoded = codec.value_of(value)
    except BadFile:
        raise Refusal(
            422,
            f"{short_repr(value)} is no value; expected text, a number, true or false, a list of"
            ' such, or an object such as {"date": "2026-01-31"}.',
        ) from None
    check_words("a value", (decoded,), most)
    return decoded


def check_depth(value: Any) -> None:
    """Raise Refusal if lists and objects are nested deeper than any that a monitor takes."""
    level = [value]
    for _ in range(_DEPTH):
        level = [
            part
            for one in level
            if isinstance(one, list | dict)
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, list | dict)
        ]
        if not level:
            return
    raise Refusal(422, f"a value is nested more than {_DEPTH} levels deep.")


def check_numbers(x: Any, name: str = "x") -> None:
    """Raise BadDecision if a list of JSON, or one inside of it, holds anything but numbers.

    NumPy would make numbers of text and of true, and JSON's clients seldom mean that.
    """
    if _NUMBERS.issuperset(map(type, x)):
        return
    check_depth(x)
    for one in x:
        if type(one) is list:
            check_numbers(one, name)
        elif type(one) not in _NUMBERS:
            raise UnexpectedValue(f"{name} has {short_repr(one)}; expected numbers.")


def normalize_label(limits: Limits, label: Any, kind: str) -> Any:
    """Convert an output to what a monitor takes."""
    if isinstance(label, list | dict) and kind == "label":
        return normalize_value(label, limits.label_bytes)
    return label


def check_time(limits: Limits, time: Any) -> Any:
    """Return the time that a client gives; raise Refusal if it is too far from the server's."""
    if time is None:
        return None
    skew = limits.skew_seconds
    if skew == 0:
        raise Refusal(422, "a time is given, but this server takes its own: leave it out.")
    ahead = to_microseconds(time) / 1e6 - clock.time()
    if abs(ahead) > skew:
        side = "ahead of" if ahead > 0 else "behind"
        raise Refusal(
            422, f"the time is {abs(ahead):,.0f} s {side} the server's; at most {skew:g} are taken."
        )
    return time
