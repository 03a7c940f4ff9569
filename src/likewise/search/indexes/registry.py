"""Indexes by name, as objects or as factories; what each can serve, and what it needs installed.

Invariant: an index is only ever made for a metric that it serves.
"""

from importlib.util import find_spec
from typing import Any

from likewise.errors import BadRule
from likewise.search.indexes.periodic import STATIC, Periodic, load_index
from likewise.search.indexes.protocol import Index, MakeIndex, Space
from likewise.tables.known_names import check_one_of

COMPILED = ("auto", "live", "flat")
_ALL = ("l2", "cosine", "linf", "l1")
METRICS = {
    "auto": _ALL,
    "live": _ALL,
    "flat": _ALL[:2],
    "brute": _ALL,
    "kdtree": _ALL,
    "snn": _ALL[:2],
    "bdd": ("linf",),
}
"""By name: the metrics served."""

_DYNAMIC = {"live": "live_as_index.LiveTreeIndex", "brute": "brute.Brute", "bdd": "bdd.BDD"}
_NEEDS = {"brute": "faiss", "kdtree": "scipy", "bdd": "dd.cudd"}
"""By name: the package that it needs; the extra that installs it is called like the index."""


def check_index(index: Any, metric: str) -> None:
    """Raise unless `index` is one, serves the metric, and has what it needs."""
    if isinstance(index, str):
        _check_name(index, metric, tuple(METRICS))
        return
    metrics = getattr(index, "metrics", None)
    if metrics is not None and metric not in metrics:
        raise BadRule(
            f"index {index!r} serves {', '.join(metrics)}, and the metric is {metric!r}."
            f" Indexes for that: {_able(metric)}"
        )
    if hasattr(index, "inner"):
        _check_inner(index, metric)
    if not callable(index) and not _is_index(index) and not hasattr(index, "make_index"):
        raise BadRule(
            f"index is {index!r}; expected one of {', '.join(METRICS)}, an object with add and"
            " candidates, or a function that makes one for a space",
            setting="index",
        )


def _check_inner(wrapper: Any, metric: str) -> None:
    inner, static = wrapper.inner, isinstance(wrapper, Periodic)
    if isinstance(inner, str):
        _check_name(inner, metric, tuple(STATIC if static else STATIC | _DYNAMIC))
    elif not static:
        check_index(inner, metric)
    elif not callable(inner):
        raise BadRule(
            f"the index in {wrapper!r} is {inner!r}; expected one of {', '.join(STATIC)}, or a"
            " function that builds one over points in a space"
        )


def _is_index(index: Any) -> bool:
    return not isinstance(index, type) and hasattr(index, "add") and hasattr(index, "candidates")


def _able(metric: str) -> str:
    return ", ".join(name for name, served in METRICS.items() if metric in served)


def _check_name(name: str, metric: str, known: tuple[str, ...]) -> None:
    check_one_of("index", name, known)
    if metric not in METRICS[name]:
        raise BadRule(
            f"index {name!r} serves {', '.join(METRICS[name])}, and the metric is {metric!r}."
            f" Indexes for that: {_able(metric)}"
        )
    package = _NEEDS.get(name)
    if package is not None and not _is_installed(package):
        raise BadRule(
            f"index {name!r} needs the package {package}, which is not installed."
            f" Install it with: pip install 'likewise[{name}]'"
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # nor is the package that it lies in
        return False


def maker_of(index: Any) -> MakeIndex:
    """What makes an index for a space: from a name, an object or a factory that was checked."""
    if isinstance(index, str):
        if index in STATIC:
            return Periodic(index)
        made: MakeIndex = load_index(_DYNAMIC[index])
        return made
    return ExistingIndex(index) if _is_index(index) else index


def name_of(index: Any) -> str:
    """How an index is called in an explanation."""
    if isinstance(index, str):
        return index
    return getattr(index, "__name__", repr(index))


class ExistingIndex:
    """An index that is there already: it serves one history, and cannot be made anew."""

    def __init__(self, index: Index) -> None:
        self._given: list[Index] = [index]

    def __call__(self, space: Space) -> Index:
        if not self._given:
            raise BadRule(
                "the index was given as an object, and another is needed: objects cannot forget,"
                " and serve one history. Give a function that makes one for a space instead."
            )
        return self._given.pop()
