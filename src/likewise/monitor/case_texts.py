"""Read a case that a person typed or pasted, with texts in place of numbers and categories.

Invariant: a text stands for the value of the rule or of the history that is written or called so;
a number is read as a number. Everything else is left to the reader of the monitor.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.errors import UnexpectedValue
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.encoding import ERASED
from likewise.rule.rule import Rule
from likewise.rule.value_names import name_value
from likewise.tables.normalize import short_repr

_MOST_CHOICES = 100  # values of a column that are offered one by one


@dataclass(frozen=True)
class CaseField:
    """A column that a case may have."""

    name: str
    kind: str
    required: bool
    choices: tuple[Any, ...] = ()
    """All values that are known, where they are few; empty for numbers and texts."""


def list_case_fields(monitor: Monitor) -> list[CaseField]:
    """Return the columns that similar cases are found by; none for a rule about vectors."""
    rule = monitor.rule
    with monitor.core.enter() as steps:
        words = {name: list(values) for name, values in steps.memory.words().items()}
    fields = []
    for name, feature in (rule.features or {}).items():
        must_differ = feature.kind == "protected" and rule.protected_must_differ
        if not (feature.is_compared or must_differ or feature.kind == "person"):
            continue
        listed: Sequence[Any] = feature.order or feature.values or words.get(name, [])
        known = [value for value in listed if value is not ERASED]
        offered = feature.kind in ("ordinal", "category", "protected")
        choices = tuple(known) if offered and len(known) <= _MOST_CHOICES else ()
        required = feature.kind != "person" and feature.missing == "reject"
        fields.append(CaseField(name, feature.kind, required, choices))
    return fields


def read_case_fields(monitor: Monitor, texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for `Monitor.like` of texts by column; an empty text is a missing value."""
    rule = monitor.rule
    with monitor.core.enter() as steps:
        words = steps.memory.words()
        return {
            name: _read_value(rule, name, words.get(name, ()), value)
            for name, value in texts.items()
        }


def _read_value(rule: Rule, name: str, words: Sequence[Any], value: Any) -> Any:
    feature = (rule.features or {}).get(name)
    if not isinstance(value, str) or feature is None:
        return value
    text = value.strip()
    if not text:
        return None
    if feature.kind == "number":
        try:
            return float(text)
        except ValueError:
            raise UnexpectedValue(
                f"{name!r} is {short_repr(value)}; expected a number.", column=name
            ) from None
    if feature.kind in ("text", "image"):
        return value
    known = [one for one in (feature.order or feature.values or words) if one is not ERASED]
    for is_meant in (
        lambda one: one == text,
        lambda one: str(one) == text,
        lambda one: name_value(feature.labels, one) == text,
        lambda one: isinstance(one, int | float) and _number_of(text) == one,
    ):
        meant = [one for one in known if is_meant(one)]
        if meant:
            return meant[0]
    return text


def _number_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_pasted_case(monitor: Monitor, text: str) -> Any:
    """Return an input for `Monitor.like` of JSON, of numbers, or of lines of CSV.

    A line of CSV has the columns of `list_case_fields` in their order, or comes below a header.
    """
    rule, text = monitor.rule, text.strip()
    if rule.embed is not None:
        return text
    if text[:1] in ("{", "["):
        try:
            case = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnexpectedValue(f"the case is no JSON: {error}.") from None
        return read_case_fields(monitor, case) if isinstance(case, dict) else case
    if rule.features is None:
        return [_read_number(part) for part in text.replace(",", " ").replace(";", " ").split()]
    separator = next((one for one in ("\t", ";") if one in text), ",")
    lines = [line for line in csv.reader(text.splitlines(), delimiter=separator) if line]
    names = [field.name for field in list_case_fields(monitor)]
    if len(lines) == 2:
        names, lines = [cell.strip() for cell in lines[0]], lines[1:]
    if len(lines) != 1 or len(lines[0]) != len(names):
        raise UnexpectedValue(
            f"the case has {len(lines)} lines, the last with {len(lines[-1]) if lines else 0}"
            f" values; expected one line with {', '.join(names)}, or a header and a line below it."
        )
    return read_case_fields(monitor, dict(zip(names, lines[0], strict=True)))


def _read_number(text: str) -> float:
    number = _number_of(text)
    if number is None:
        raise UnexpectedValue(f"the case has {short_repr(text)}; expected numbers.")
    return number
