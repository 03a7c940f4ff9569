"""The tree stays a tree: every invariant after every kind of history, exact verdicts."""

import math

import numpy as np
import pytest

import likewise as lw
from likewise.search.kernels import table as t
from tests.search.indexes.arrivals import (
    ORDERS,
    arrivals,
    choose_outputs,
    forget_everything,
)
from tests.search.indexes.audit import audit
from tests.search.indexes.beside import Beside
from tests.search.indexes.shapes import drift, duplicates, line, random, shells, wide

pytestmark = [pytest.mark.pairwise, pytest.mark.early]

N = 7_000


SHAPES = {
    "uniform": (lw.Rule("linf", 0.05), lambda n: random().random((n, 3))),
    "clusters": (
        lw.Rule("l2", 0.02),
        lambda n: (
            random(1).random((8, 5))[random(2).integers(8, size=n)]
            + 0.01 * random(3).normal(size=(n, 5))
        ),
    ),
    "sorted line": (lw.Rule("linf", 9.0), line),
    "reversed line": (lw.Rule("l1", 9.0), lambda n: line(n)[::-1]),
    "drift in every coordinate": (lw.Rule("l2", 0.5), drift),
    "drift, single precision": (lw.Rule("l1", 0.9), lambda n: drift(n).astype(np.float32)),
    "duplicates": (lw.Rule("linf", 1e-9), duplicates),
    "few bytes": (
        lw.Rule("l1", 1.0),
        lambda n: random().integers(0, 5, (n, 3)).astype(np.uint8),
    ),
    "shells": (lw.Rule("linf", 1e-7), shells),
    "weights of zero": (
        lw.Rule("l2", 0.05, weights=[1.0, 0.0, 2.0, 0.0]),
        lambda n: random().random((n, 4)).round(2),
    ),
    "directions": (lw.Rule("cosine", 1e-3), lambda n: random().normal(size=(n, 4))),
    "turning direction": (
        lw.Rule("cosine", 1e-6),
        lambda n: np.stack([np.cos(np.arange(n) / n), np.sin(np.arange(n) / n)], axis=1),
    ),
    "a sketch": (lw.Rule("linf", 0.05), wide),
    "a sketch of directions": (lw.Rule("cosine", 1e-4), lambda n: wide(n).astype(np.float32)),
    "a sketch of bytes": (
        lw.Rule("l1", 9.0),
        lambda n: (100 * wide(n)).astype(np.uint8),
    ),
}
every_shape = pytest.mark.parametrize(("rule", "make"), SHAPES.values(), ids=SHAPES)


def loaded(both: Beside, X: np.ndarray) -> None:
    both.load(X)
    both.audit()


ARRIVALS = arrivals((1, 500, 1_500), 1_000, 6_000) | {"loaded": loaded}


@every_shape
@pytest.mark.parametrize("arrive", ARRIVALS.values(), ids=ARRIVALS)
def test_tree_keeps_its_invariants_however_the_past_arrives(rule, make, arrive):
    both = Beside(rule)
    arrive(both, make(N))
    assert both.ask_some(random(), 40) > 40


@pytest.mark.parametrize("output", ["label", "number", "probabilities"])
@pytest.mark.parametrize("shape", ["uniform", "drift in every coordinate", "duplicates"])
@pytest.mark.parametrize("batch", [0, 900])
def test_ranges_hold_every_output(output, shape, batch):
    rule, make = SHAPES[shape]
    rule = lw.Rule(rule.metric, rule.epsilon, output=output, delta=0.1)
    both, X, Z = Beside(rule), make(4_000), choose_outputs(output, 4_000)
    for start in range(0, 4_000, batch or 1_000):
        part = slice(start, start + (batch or 1_000))
        if batch:
            both.observe_many(X[part], Z[part], threads=2)
        else:
            both.observe(X[part], Z[part])
        both.audit()
        both.forget(range(start // 2, start // 2 + 200))
        both.audit()
    assert both.ask_some(random(), 30, Z[0]) > 30


@every_shape
def test_tree_keeps_its_invariants_in_a_window(rule, make):
    both, X, window = Beside(rule), make(5_000), 1_200
    for start in range(0, 5_000, 100):
        both.observe(X[start : start + 100])
        old = range(max(0, start - 100 - window), max(0, start - window))
        both.forget(old)
        if start % 500 == 0:
            both.audit()
    both.audit()
    assert both.ask_some(random(), 40) > 0
    table = both.table
    used = int(table[t.BLOCKS])
    assert used < 5_000 / 16, f"{used} blocks were made for a window of {window}"


@pytest.mark.long
def test_nothing_piles_up_when_each_arrival_replaces_the_oldest():
    """One in, one out, for forty windows, and the drift makes for rebuilds all the while."""
    n, window = 80_000, 2_000
    monitor, X = lw.Monitor(lw.Rule("linf", 1e-9)), drift(n)
    for row, x in enumerate(X):
        monitor.observe(x, "past")
        if row >= window:
            monitor.forget(row - window)
    audit(monitor)
    explanation, half_full = monitor.explain(), window / 64
    assert explanation.subtrees_rebuilt > 0, "nothing disturbed the window"
    assert explanation.leaves <= 1.5 * half_full
    assert int(monitor.core.engine.index.state.table[t.BLOCKS]) <= 2.5 * half_full
    assert explanation.depth <= 5 * math.log2(window)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@every_shape
def test_forgetting_everything_frees_every_block(rule, make, order):
    both, X = Beside(rule), make(2_000)
    for _ in range(2):
        both.observe(X[:1_000])
        both.observe_many(X[1_000:])
        forget_everything(both, 2_000, order)
        explanation = both.monitor.explain()
        if not explanation.subtrees_rebuilt:  # one under way keeps its leaves until it is done
            assert explanation.leaves == both.table[t.TREES]
            assert explanation.depth == 1


def test_forgetting_between_arrivals_keeps_the_invariants():
    for seed in range(4):
        rng = random(seed)
        both = Beside(lw.Rule("linf", 0.05))
        for _ in range(40):
            centre = rng.random(3)
            n = int(rng.integers(1, 200))
            X = (centre + rng.choice([0.0, 0.01, 0.3]) * rng.random((n, 3))).round(
                int(rng.choice([1, 2, 9]))
            )
            verb = rng.choice(["observe", "observe_many", "load"])
            getattr(both, verb)(X)
            remembered = np.flatnonzero(both.oracle.alive)
            both.forget(rng.choice(remembered, int(rng.integers(0, 150)) % len(remembered)))
            both.audit()
        assert both.ask_some(rng, 40) > 40


def test_equal_points_around_others_are_all_found():
    """A chain of equal points whose first block fills with other points, twice."""
    for below, above in ((0.0, 1.0), (1.0, 0.0)):
        for other in (0.5, -3.0, 3.0):
            both = Beside(lw.Rule("linf", 0.1))
            for point, times in ((above, 128), (below, 129), (other, 300), (above, 200)):
                both.observe(np.full((times, 1), point))
                both.audit()
                assert both.ask(np.array([[above], [below], [other]])) >= times


def test_any_order_of_equal_points_is_found():
    values = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    for seed in range(12):
        rng = random(seed)
        both = Beside(lw.Rule("l1", 0.1))
        for _ in range(10):
            point = rng.choice(values, 2)
            times = int(rng.choice([1, 3, 127, 128, 129, 256]))
            both.observe(np.tile(point, (times, 1)))
            both.audit()
        both.forget(rng.choice(len(both.oracle.outputs), 400))
        both.audit()
        grid = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
        assert both.ask(grid) > 100


# Balance


BARS = {
    "sorted line": line,
    "reversed line": lambda n: line(n)[::-1],
    "drift in every coordinate": drift,
    "drift in one coordinate": lambda n: drift(n) * [1.0, 0.0, 0.0, 0.0] + random(1).random((n, 4)),
    "uniform": lambda n: random().random((n, 4)),
}


@pytest.mark.parametrize("batch", [0, 5_000, 60_000])
@pytest.mark.parametrize("make", BARS.values(), ids=BARS)
def test_depth_stays_logarithmic(make, batch):
    n = 60_000
    monitor, X = lw.Monitor(lw.Rule("linf", 1e-3)), make(n)
    if batch:
        for start in range(0, n, batch):
            part = X[start : start + batch]
            monitor.observe_many(part, ["past"] * len(part))
    else:
        for x in X:
            monitor.observe(x, "past")
    audit(monitor)
    assert monitor.explain().depth <= 3 * math.log2(n)


def test_drift_is_met_by_lifting_planes():
    both = Beside(lw.Rule("linf", 0.3))
    both.observe(drift(20_000))
    both.audit()
    explanation = both.monitor.explain()
    assert explanation.planes_lifted > 0
    assert explanation.depth <= 3 * math.log2(20_000)
    assert both.ask_some(random(), 40) > 40


def test_a_batch_that_outgrows_its_leaves_lands_where_it_belongs():
    """Planes are lifted in the middle of the batch; rows led to a leaf before that still arrive."""
    for make in (line, drift, lambda n: line(n)[::-1]):
        both = Beside(lw.Rule("linf", 0.3))
        X = make(20_000)
        both.observe_many(X[:8_000])
        lifted = both.monitor.explain().planes_lifted
        both.observe_many(X[8_000:])
        assert both.monitor.explain().planes_lifted > lifted
        both.audit()
        assert both.ask_some(random(), 40) > 0
