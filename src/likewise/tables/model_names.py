"""Checks names of models and sources: one for all decisions, or one for each.

Invariant: a value that is no name is refused before anything changes.
"""

from typing import Any

from likewise.errors import UnexpectedValue, WrongShape
from likewise.tables.normalize import is_unicode, require_list, short_repr


def check_name(given: Any, what: str = "the model") -> str | None:
    """Return a name, or None where none is given; raise UnexpectedValue for anything else.

    >>> check_name("credit-7")
    'credit-7'
    """
    if given is None:
        return None
    if isinstance(given, str) and given and is_unicode(given):
        return str(given)
    raise UnexpectedValue(
        f"{what} is {short_repr(given)} of type {type(given).__name__}; expected a name, which is"
        " text and not empty, or None where none is known."
    )


def check_names(given: Any, count: int, what: str = "model") -> list[str | None] | None:
    """Return a name or None for each of `count` decisions; None if none is given.

    >>> check_names("credit-7", 2)
    ['credit-7', 'credit-7']
    """
    if given is None:
        return None
    if isinstance(given, str):
        return [check_name(given, f"the {what}")] * count
    expected = "one name for all decisions, or a list with a name or None for each"
    names: list[str | None] = list(require_list(given, f"the {what}s", expected))
    if len(names) != count:
        raise WrongShape(
            f"there are {count} decisions and {len(names)} {what}s; expected one for each, or"
            " one name for all."
        )
    checked: set[str | None] = {None}
    for i, name in enumerate(names):
        if name is not None and (type(name) is not str or name not in checked):
            names[i] = check_name(name, f"the {what} of decision {i}")
            checked.add(names[i])
    return names
