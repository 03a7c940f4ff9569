"""Display names for values: "1.0" is "women".

They change no verdict, so no fingerprint covers them, and a ledger may be opened with other names.
"""

from collections.abc import Mapping
from typing import Any

from likewise.errors import BadRule

Labels = tuple[tuple[str, str], ...]
"""Pairs of the text of a value and its name."""


def labels_of(where: str, given: Any) -> Labels:
    """Make labels from a table of names by value; raise BadRule if it is none.

    >>> labels_of("labels", {1.0: "women", "2.0": "men"})
    (('1.0', 'women'), ('2.0', 'men'))
    """
    pairs = dict(given) if isinstance(given, tuple) else given
    if not isinstance(pairs, Mapping) or not pairs:
        raise BadRule(f'{where} is {given!r}; expected a name for each value: {{"1.0" = "women"}}')
    for value, name in pairs.items():
        if not isinstance(name, str) or not name.strip():
            raise BadRule(f"{where} calls {value!r} {name!r}; expected a name, as text")
    return tuple((str(value), name) for value, name in pairs.items())


def name_value(labels: Labels | None, value: Any) -> Any:
    """Return the name of a value, or the value itself; 1, 1.0 and "1.0" are the same value.

    >>> named((("1.0", "women"),), 1)
    'women'
    >>> named((("1.0", "women"),), 2)
    2
    """
    for text, name in labels or ():
        if text == str(value) or _same_number(text, value):
            return name
    return value


def _same_number(text: str, value: Any) -> bool:
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return False
