"""Check and make indexes, given by name, as objects or as factories.

Invariant: an index is only ever made for a metric that it serves.
"""

from importlib.util import find_spec
from typing import Any

from likewise.errors import BadRule
from likewise.search.indexes.periodic import STATIC, Periodic, load_index
from likewise.search.indexes.protocol import Index, LimitedIndex, MakeIndex, Space, WrappingIndex
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
"""The metrics that each index serves, by name."""

_DYNAMIC = {"live": "live_as_index.LiveTreeIndex", "brute": "brute.Brute", "bdd": "bdd.BDD"}
_NEEDS = {"brute": "faiss", "kdtree": "scipy", "bdd": "dd.cudd"}
"""The package that an index needs, by name; the extra that installs it has the index's name."""


def check_index(index: Any, metric: str) -> None:
    """Raise BadRule unless the index is known, serves the metric and is installed."""
    if isinstance(index, str):
        _check_name(index, metric, tuple(METRICS))
        return
    if isinstance(index, LimitedIndex):
        _check_metric(index, metric, index.metrics)
    if isinstance(index, WrappingIndex):
        _check_inner(index, metric)
    if not callable(index) and not _is_index(index):
        raise BadRule(
            f"index is {index!r}; expected one of {', '.join(METRICS)}, an object with add and"
            " candidates, or a function that makes one for a space",
            setting="index",
        )


def _check_inner(wrapper: WrappingIndex, metric: str) -> None:
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
    return not isinstance(index, type) and isinstance(index, Index)


def _check_metric(index: Any, metric: str, metrics: tuple[str, ...]) -> None:
    if metric not in metrics:
        able = ", ".join(name for name, served in METRICS.items() if metric in served)
        raise BadRule(
            f"index {index!r} serves {', '.join(metrics)}, and the metric is {metric!r}."
            f" Indexes for that: {able}"
        )


def _check_name(name: str, metric: str, names: tuple[str, ...]) -> None:
    check_one_of("index", name, names)
    _check_metric(name, metric, METRICS[name])
    package = _NEEDS.get(name)
    if package is not None and not _is_installed(package):
        raise BadRule(
            f"index {name!r} needs the package {package}, which is not installed."
            f" Install it with: pip install '.[{name}]' in the clone of likewise"
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing, too
        return False


def maker_of(index: Any) -> MakeIndex:
    """Return what makes an index for a space, from a name, an object or a factory."""
    if isinstance(index, str):
        if index in STATIC:
            return Periodic(index)
        make: MakeIndex = load_index(_DYNAMIC[index])
        return make
    return ExistingIndex(index) if _is_index(index) else index


def name_of(index: Any) -> str:
    """Return the name of an index for an explanation."""
    if isinstance(index, str):
        return index
    return getattr(index, "__name__", repr(index))


class ExistingIndex:
    """Wraps an index that exists already: it serves one history, and cannot be made again."""

    def __init__(self, index: Index) -> None:
        self._unused: list[Index] = [index]

    def __call__(self, space: Space) -> Index:
        if not self._unused:
            raise BadRule(
                "the index was given as an object, and another is needed: objects cannot forget,"
                " and serve one history. Give a function that makes one for a space instead."
            )
        return self._unused.pop()
