"""Names for values, as people know them: "1.0" is "women".

They are for display. They change no verdict, so no fingerprint covers them, and a ledger that was
begun without them, or with others, goes on.
"""

from collections.abc import Mapping
from typing import Any

from likewise.errors import BadRule

Labels = tuple[tuple[str, str], ...]
"""The text of a value, and what it is called."""


def labels_of(where: str, given: Any) -> Labels:
    """Labels as they are kept, from a table of names by value.

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
    """What a value is called, or the value itself; 1, 1.0 and "1.0" are the same.

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
