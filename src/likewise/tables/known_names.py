"""Refuses unknown names and values of settings, and suggests the one that was probably meant."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from likewise.errors import BadRule

_CUTOFF = 0.75  # how similar, from 0 to 1, a known name must be to be suggested
_COMPARED, _LETTERS = 10_000, 80  # known names that are compared, and letters of each

ALIASES = {
    "metric": {
        "l2": ("euclidean", "euclid"),
        "l1": ("manhattan", "cityblock", "taxicab"),
        "linf": ("chebyshev", "chebychev", "inf", "infinity", "max", "maximum", "l∞", "supremum"),
        "cosine": ("cos", "angular", "angle"),
        "tv": ("total_variation", "total variation"),
    },
    "output": {
        "label": ("class", "classes", "classification", "category", "categorical", "bool"),
        "number": ("regression", "numeric", "float", "int", "score", "value"),
        "probabilities": ("proba", "probas", "probability", "softmax", "distribution"),
    },
    "kind": {
        "number": ("numeric", "numerical", "float", "int", "integer", "continuous"),
        "category": ("categorical", "nominal", "bool", "boolean", "str", "string"),
        "ordinal": ("ordered", "rank"),
        "protected": ("sensitive", "group"),
        "key": ("id", "identifier"),
        "ignore": ("skip", "drop", "none"),
    },
}
"""What other libraries call the values of a setting."""


def nearest_names(given: Any, known: Iterable[Any], most: int, cutoff: float) -> list[Any]:
    """Return the few known names whose text is most like this one's, the nearest first."""
    texts: dict[str, Any] = {}
    for name in islice(known, _COMPARED):
        texts.setdefault(str(name)[:_LETTERS].casefold(), name)
    text = str(given)[:_LETTERS].casefold()
    return [texts[match] for match in difflib.get_close_matches(text, texts, most, cutoff)]


def did_you_mean(given: Any, known: Collection[Any], setting: str = "") -> str:
    """Return a clause with the known name that was probably meant; "" if none is similar.

    setting: the setting whose aliases (ALIASES) are tried first

    >>> did_you_mean("Euclidean", ["linf", "l2"], "metric")
    "; did you mean 'l2'?"
    >>> did_you_mean("Age", ["income", "age"])
    "; did you mean 'age'?"
    >>> did_you_mean("shoe size", ["income", "age"])
    ''
    """
    if not isinstance(given, str):
        return ""
    aliases: Mapping[str, Collection[str]] = ALIASES.get(setting, {})
    alias = given.strip().casefold()
    by_alias = [name for name, others in aliases.items() if alias in others and name in known]
    for name in by_alias or nearest_names(given, known, 1, _CUTOFF):
        return f"; did you mean {name!r}?"
    return ""


def check_known(what: str, names: Iterable[Any], known: Collection[str]) -> None:
    """Raise BadRule at the first name that is not known.

    what: the beginning of the message, such as "the rule has an unknown key"
    """
    for name in names:
        if name not in known:
            raise BadRule(
                f"{what} {name!r}; expected {', '.join(known)}{did_you_mean(name, known)}"
            )


def check_one_of(setting: str, value: Any, allowed: Collection[str], aliases: str = "") -> None:
    """Raise BadRule unless the value of a setting is one of those allowed.

    aliases: the setting whose aliases (ALIASES) apply, if not this one
    """
    if value not in allowed:
        meant = did_you_mean(value, allowed, aliases or setting)
        raise BadRule(
            f"{setting} is {value!r}; expected one of {', '.join(allowed)}{meant}", setting=setting
        )
