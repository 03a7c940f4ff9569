"""Names of models as callers give them: one for all decisions, or one for each.

Invariant: what is not a name is refused before anything changes.
"""

from typing import Any

from likewise.errors import UnexpectedValue, WrongShape
from likewise.tables.normalize import require_list, short_repr


def check_name(given: Any, what: str = "the model") -> str | None:
    """A model's name as it is kept, None where there is none; raise BadDecision if it is neither.

    >>> model_of("credit-7")
    'credit-7'
    """
    if given is None:
        return None
    if isinstance(given, str) and given and _is_unicode(given):
        return str(given)
    raise UnexpectedValue(
        f"{what} is {short_repr(given)} of type {type(given).__name__}; expected a name, which is"
        " text and not empty, or None where none is known."
    )


def check_names(given: Any, count: int, what: str = "model") -> list[str | None] | None:
    """The models of so many decisions, or other names; None if none is given.

    >>> models_of("credit-7", 2)
    ['credit-7', 'credit-7']
    """
    if given is None:
        return None
    if isinstance(given, str):
        return [check_name(given, f"the {what}")] * count
    expected = "one name for all decisions, or a list with a name or None for each"
    several = require_list(given, f"the {what}s", expected)
    if len(several) != count:
        raise WrongShape(
            f"there are {count} decisions and {len(several)} {what}s; expected one for each, or"
            " one name for all."
        )
    known: set[str | None] = {None}
    models: list[str | None] = []
    for i, one in enumerate(several):
        name = one
        if name is not None and (type(name) is not str or name not in known):
            name = check_name(one, f"the {what} of decision {i}")
            known.add(name)
        models.append(name)
    return models


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
