"""Names out of a known list: refuse any other, and say which one was probably meant."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from likewise.errors import BadRule

_CUTOFF = 0.75  # how alike two names are, from 0 to 1, of which one may be meant by the other
_COMPARED, _LETTERS = 10_000, 80  # known names that are looked at, and how much of each

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
"""By setting and its value, what others call it."""


def nearest_names(given: Any, known: Iterable[Any], most: int, cutoff: float) -> list[Any]:
    """Return the few known names whose text is most like this one's, the nearest first."""
    texts: dict[str, Any] = {}
    for name in islice(known, _COMPARED):
        texts.setdefault(str(name)[:_LETTERS].casefold(), name)
    wanted = str(given)[:_LETTERS].casefold()
    return [texts[text] for text in difflib.get_close_matches(wanted, texts, most, cutoff)]


def did_you_mean(given: Any, known: Collection[Any], setting: str = "") -> str:
    """Return a clause that names the known name that was probably meant; "" if none was.

    setting: what the name is the value of, where its values have other usual names (ALIASES)

    >>> did_you_mean("Euclidean", ["linf", "l2"], "metric")
    "; did you mean 'l2'?"
    >>> did_you_mean("Age", ["income", "age"])
    "; did you mean 'age'?"
    >>> did_you_mean("shoe size", ["income", "age"])
    ''
    """
    if not isinstance(given, str):
        return ""
    called: Mapping[str, Collection[str]] = ALIASES.get(setting, {})
    alias = given.strip().casefold()
    by_alias = [name for name, others in called.items() if alias in others and name in known]
    for name in by_alias or nearest_names(given, known, 1, _CUTOFF):
        return f"; did you mean {name!r}?"
    return ""


def check_one_of(setting: str, value: Any, allowed: Collection[str], aliases: str = "") -> None:
    """Raise BadRule unless the value of a setting is one of those allowed.

    aliases: whose other names are known (ALIASES), if not those of the setting
    """
    if value not in allowed:
        meant = did_you_mean(value, allowed, aliases or setting)
        raise BadRule(
            f"{setting} is {value!r}; expected one of {', '.join(allowed)}{meant}", setting=setting
        )
