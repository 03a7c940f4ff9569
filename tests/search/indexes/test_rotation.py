"""Directions to scan along: orthonormal whatever they are learnt from, good where they can be."""

import numpy as np
import pytest

import likewise as lw
from likewise.search.history.stored_decisions import History
from likewise.search.indexes import rotation
from likewise.search.kernels import table as t
from tests.search.indexes.audit import audit
from tests.search.indexes.shapes import random
from tests.search.kernels.calling import history_for
from tests.support.oracle import assert_same_verdict, assert_same_verdicts
from tests.support.play import Foreseen

pytestmark = pytest.mark.pairwise

SAMPLES = {
    "ordinary": lambda: random().normal(size=(300, 40)),
    "more coordinates than rows": lambda: random().normal(size=(10, 200)),
    "wider than directions": lambda: random().normal(size=(300, 150)),
    "a line": lambda: random().normal(size=(300, 1)) * random(1).normal(size=(1, 40)),
    "far away": lambda: 1e9 + random().normal(size=(300, 40)),
    "one row": lambda: random().normal(size=(1, 40)),
    "equal rows": lambda: np.ones((50, 40)),
    "nothing but zeros": lambda: np.zeros((50, 40)),
    "huge": lambda: 1.7e308 * random().uniform(-1, 1, (50, 40)),
    "tiny": lambda: 1e-310 * random().normal(size=(50, 40)),
    "infinite": lambda: np.where(random().random((50, 40)) < 0.1, np.inf, 1.0),
    "no numbers": lambda: np.full((50, 40), np.nan),
    "one coordinate": lambda: random().normal(size=(50, 1)),
}


@pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES)
def test_directions_are_orthonormal_and_the_centre_finite(make):
    sample = make()
    width = sample.shape[1]
    learnt = rotation.learn(sample, 77)
    assert learnt.rows == 77
    assert learnt.directions.shape == (width, rotation.direction_count(width))
    assert learnt.directions.flags.c_contiguous
    products = learnt.directions.T @ learnt.directions
    assert np.abs(products - np.eye(len(products))).max() < 1e-12
    assert 1.0 < learnt.norm() < 1 + 1e-8
    assert np.isfinite(learnt.centre).all()


@pytest.mark.parametrize("count", [40, 400])
def test_what_varies_most_comes_first(count):
    width = 150
    sizes = np.geomspace(100, 0.01, width)
    mixing, _ = np.linalg.qr(random(1).normal(size=(width, width)))
    sample = (random().normal(size=(count, width)) * sizes) @ mixing.T + 5.0
    learnt = rotation.learn(sample, count)
    spread = ((sample - learnt.centre) @ learnt.directions).var(axis=0)
    assert (spread[:30] >= 0.5 * spread[1:31]).all()
    assert spread[:30].sum() > 0.9 * sample.var(axis=0).sum()


@pytest.mark.parametrize("width", [1, 2, 127, 128, 129, 3_072, 200_000])
def test_before_anything_is_learnt_directions_are_coordinates_spread_over_the_input(width):
    assert 1 <= rotation.direction_count(width) <= min(width, 128)
    if width > 10_000:
        return
    unlearnt = rotation.initial_rotation(width)
    assert unlearnt.rows == 0 and not unlearnt.centre.any()
    assert unlearnt.directions.shape == (width, rotation.direction_count(width))
    picked, _ = np.nonzero(unlearnt.directions)
    assert len(set(picked.tolist())) == rotation.direction_count(width)
    assert (unlearnt.directions.sum(axis=0) == 1).all()


def filled(rule: lw.Rule, X: np.ndarray) -> History:
    history = history_for(rule, X.shape[1], capacity=len(X))
    history.rows[:] = X
    history.region(t.ALIVE).view(np.uint8, len(X))[:] = 1
    history.table[t.TOTAL] = history.table[t.LIVE] = len(X)
    return history


def test_positions_are_weighted_as_the_metric_weighs_them():
    X, weights = random().normal(size=(60, 5)), [0.0, 1.0, 4.0, 1e-3, 9.0]
    rows = np.array([3, 0, 59])
    straight = filled(lw.Rule("l2", 0.1, weights=weights), X)
    assert np.allclose(rotation.positions(straight, rows), X[rows] * np.sqrt(weights))
    sphere = rotation.positions(filled(lw.Rule("cosine", 0.1, weights=weights), X), rows)
    lengths = np.linalg.norm(X[rows] * np.sqrt(weights), axis=1)
    assert np.allclose(sphere * lengths[:, None], X[rows] * np.sqrt(weights))


@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_inputs_of_any_size_are_learnt_from_in_silence(size, batch):
    """Weights and values may overflow together; a warning would be an error here."""
    X = random().normal(size=(700, 40)) * size
    X[1::2] = X[::2] * (1 + 1e-12)
    Z = (np.arange(700) % 2).tolist()
    rule = lw.Rule("l2", 1e140 if size > 1 else 1e-140, weights=[1e100, 1e-100] * 20)
    monitor, oracle = lw.Monitor(rule, index="flat"), Foreseen(rule, X, Z)
    for start in range(0, 700, batch):
        part = slice(start, start + batch)
        expected = oracle.observe_many(X[part], Z[part])
        if batch == 1:
            assert_same_verdict(monitor.observe(X[start], Z[start]), expected[0])
        else:
            assert_same_verdicts(monitor.observe_many(X[part], Z[part]), expected)
    audit(monitor)
