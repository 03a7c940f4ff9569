"""Names of models as callers give them: one for all decisions, or one for each.

Invariant: what is not a name is refused before anything changes.
"""

from collections.abc import Mapping, Set
from typing import Any

from likewise.values.errors import UnexpectedValue, WrongShape


def model_of(given: Any, what: str = "the model") -> str | None:
    """A model's name as it is kept, None where there is none; raise BadDecision if it is neither.

    >>> model_of("credit-7")
    'credit-7'
    """
    if given is None:
        return None
    if isinstance(given, str) and given and _is_unicode(given):
        return str(given)
    raise UnexpectedValue(
        f"{what} is {given!r} of type {type(given).__name__}; expected a name, which is text and"
        " not empty, or None where none is known."
    )


def models_of(given: Any, count: int, what: str = "model") -> list[str | None] | None:
    """The models of so many decisions, or other names; None if none is given.

    >>> models_of("credit-7", 2)
    ['credit-7', 'credit-7']
    """
    if given is None:
        return None
    if isinstance(given, str):
        return [model_of(given, f"the {what}")] * count
    several = _listed(given, what)
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
            name = model_of(one, f"the {what} of decision {i}")
            known.add(name)
        models.append(name)
    return models


def _listed(given: Any, what: str) -> list[Any]:
    """A sequence, an array or a series of names, as a list."""
    for name in ("to_list", "tolist", "to_pylist"):
        if hasattr(given, name):
            given = getattr(given, name)()
            break
    sized = hasattr(given, "__len__") and hasattr(given, "__iter__")
    if not sized or isinstance(given, bytes | Mapping | Set):
        raise UnexpectedValue(
            f"the {what}s are {given!r}; expected one name for all decisions, or a list with a"
            " name or None for each."
        )
    return list(given)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
