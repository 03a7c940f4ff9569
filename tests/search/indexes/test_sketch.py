"""Which coordinates a tree holds: any choice is right, and the choice is good where it can be."""

import numpy as np
import pytest

import likewise as lw
from likewise.search.history.stored_decisions import History
from likewise.search.indexes import sketch
from likewise.search.kernels import table as t
from tests.search.indexes.shapes import random
from tests.search.kernels.calling import history_for
from tests.support.strategies import METRICS

pytestmark = pytest.mark.pairwise


def filled(rule: lw.Rule, X: np.ndarray) -> History:
    history = history_for(rule, X.shape[1], capacity=max(64, len(X)))
    history.rows[: len(X)] = X
    history.region(t.ALIVE).view(np.uint8, len(X))[:] = 1
    history.table[t.TOTAL] = history.table[t.LIVE] = len(X)
    return history


def chosen(history: History) -> np.ndarray:
    """What `choose` ends with, and that it does so in small pieces."""
    job, steps = sketch.choose(history), 0
    while True:
        try:
            next(job)
        except StopIteration as end:
            assert steps <= 2 * sketch._PAIRS
            return end.value
        steps += 1


def assert_some_coordinates(coordinates: np.ndarray, counting: np.ndarray) -> None:
    assert coordinates.dtype == np.int64
    assert len(set(coordinates.tolist())) == len(coordinates), "one is there twice"
    assert set(coordinates.tolist()) <= set(counting.tolist()), "one that does not count"
    assert len(coordinates) == min(sketch.AXES, len(counting))


PASTS = {
    "ordinary": lambda: random().normal(size=(500, 60)),
    "nothing": lambda: np.empty((0, 60)),
    "one row": lambda: np.ones((1, 60)),
    "two rows": lambda: random().normal(size=(2, 60)),
    "equal rows": lambda: np.ones((100, 60)),
    "huge": lambda: 1.7e308 * random().uniform(-1, 1, (100, 60)),
    "near one another": lambda: 1.0 + 1e-9 * random().normal(size=(100, 60)),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("make", PASTS.values(), ids=PASTS)
def test_a_sketch_is_of_coordinates_that_count(make, metric):
    X = make()
    for counting in (60, 30, 24, 7, 1):
        weights = np.zeros(60)
        weights[random(counting).permutation(60)[:counting]] = 2.0
        history = filled(lw.Rule(metric, 0.1, weights=weights.tolist()), X)
        assert_some_coordinates(sketch.first_coordinates(history), np.flatnonzero(weights))
        assert_some_coordinates(chosen(history), np.flatnonzero(weights))


@pytest.mark.parametrize("metric", METRICS)
def test_coordinates_that_part_come_first(metric):
    """A dozen of 300 say something, and no two of these the same."""
    telling = random().permutation(300)[:12]
    X = np.full((600, 300), 5.0)
    X[:, telling] = 5 + random(1).normal(size=(600, 12))
    rule = lw.Rule(metric, 1e-3 if metric == "cosine" else 0.5)
    assert set(telling) <= set(chosen(filled(rule, X)).tolist())


def test_neighbours_that_say_the_same_are_not_all_taken():
    """Forty groups of ten coordinates move together, as pixels do; in a sum, each would count."""
    groups = 5 + random().normal(size=(600, 40))
    taken = chosen(filled(lw.Rule("linf", 1.0), np.repeat(groups, 10, axis=1)))
    assert len({coordinate // 10 for coordinate in taken.tolist()}) >= 20


def test_rows_that_are_forgotten_have_no_say():
    X = np.zeros((600, 100))
    X[:300, :20] = 10 * random().random((300, 20))
    X[300:, 50:70] = 10 * random().random((300, 20))
    history = filled(lw.Rule("linf", 0.5), X)
    history.erase(np.arange(300))
    assert set(range(50, 70)) <= set(chosen(history).tolist())


def test_a_choice_does_not_depend_on_chance():
    X = random().normal(size=(500, 80))
    rule = lw.Rule("linf", 0.5)
    assert chosen(filled(rule, X)).tolist() == chosen(filled(rule, X)).tolist()
