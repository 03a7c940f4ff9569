"""Matrices of tests: pairs of values in the quick tier, the whole product in the long one.

A test marked `pairwise` has several parameters. Any two values of two of them meet in an item of
the quick tier; the other items belong to the long one.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

import pytest

Pair = frozenset[tuple[str, str]]


def items_beyond_pairs(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the items of marked tests that are not needed for any pair of values to meet."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("pairwise") is not None and hasattr(item, "callspec"):
            tests[item.nodeid.partition("[")[0]].append(item)
    return [item for several in tests.values() for item in _beyond(several)]


def _beyond(items: list[pytest.Item]) -> list[pytest.Item]:
    """Choose the item with most pairs that have not met, until all have; return the others."""
    pairs = [_pairs(item) for item in items]
    missing, left = set[Pair]().union(*pairs), list(range(len(items)))
    while missing:
        best = max(left, key=lambda i: len(pairs[i] & missing))
        missing -= pairs[best]
        left.remove(best)
    return [items[i] for i in left]


def _pairs(item: pytest.Item) -> set[Pair]:
    values = [(name, repr(value)) for name, value in item.callspec.params.items()]
    return set(map(frozenset, combinations(values, min(2, len(values)))))
