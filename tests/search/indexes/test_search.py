"""Distances to cells, added up plane by plane: no cell within reach is skipped.

Epsilon is a real distance, computed as the engine computes it, and there is no slack: in every
search some row lies exactly on the boundary, behind as many planes as the tree is deep.
"""

import numpy as np
import pytest

import likewise as lw
from tests.search.indexes.beside import Beside
from tests.search.indexes.shapes import random, shells
from tests.support.oracle import input_distances

pytestmark = pytest.mark.pairwise

N = 20_000

CLOUDS = {
    "uniform": lambda: random().random((N, 3)) - 0.3,
    "tenths": lambda: random().integers(-9, 10, (N, 3)) * 0.1,
    "thirds, far away": lambda: random().integers(-9, 10, (N, 3)) / 3 + [1e6, -1e9, 0.0],
    "shells": lambda: shells(N) - 0.01,
    "a plane of many points": lambda: random().random((N, 3)) * [1.0, 1e-9, 1.0],
}


def weights_for(metric: str) -> list[float] | None:
    return {"l1": [0.3, 1.0, 7.0], "l2": None, "cosine": [2.0, 0.1, 1.0], "linf": None}[metric]


@pytest.mark.parametrize("metric", ["linf", "l1", "l2", "cosine"])
@pytest.mark.parametrize("make", CLOUDS.values(), ids=CLOUDS)
@pytest.mark.parametrize("way", ["load", "observe_many"])
def test_no_row_on_the_boundary_is_skipped(make, metric, way):
    X, rng = make(), random(2)
    if metric == "cosine":
        X = X[np.abs(X).max(axis=1) > 0]
    boundary = 0
    for rank in (3, 40, 900):
        anchor = X[rng.integers(len(X))]
        rule = lw.Rule(metric, 1.0, weights=weights_for(metric), slack=0)
        distances = np.unique(input_distances(rule, X, anchor))
        usable = distances[distances >= 1e-150]
        epsilon = float(usable[min(rank, len(usable) - 1)])
        both = Beside(lw.Rule(metric, epsilon, weights=weights_for(metric), slack=0))
        getattr(both, way)(X)
        assert both.ask([anchor]) > 0
        assert both.ask(X[rng.integers(len(X), size=12)]) > 0
        distances = both.monitor.check(anchor, "new").witnesses.input_distances
        boundary += int((distances == epsilon).sum())
    assert boundary >= 3


@pytest.mark.parametrize("metric", ["l1", "l2"])
def test_far_queries_add_up_the_same_way(metric):
    """The query lies outside every cell, so each plane replaces an offset that is not zero."""
    X = random().random((N, 3))
    both = Beside(lw.Rule(metric, 1.0, slack=0))
    both.load(X)
    found = 0
    for x in random(1).normal(size=(60, 3)) * 1.2 + 0.5:
        distances = input_distances(both.monitor.rule, X, x)
        nearest = np.sort(distances)[:2]
        found += both.ask([x])
        assert (distances <= 1.0).sum() == len(both.monitor.check(x, "new").witnesses), nearest
    assert found > 1_000
