"""The flat scan keeps every remembered row in its seat, however the past arrives and goes."""

import numpy as np
import pytest

import likewise as lw
from likewise.search.kernels import table as t
from likewise.search.kernels.table import BLOCK
from tests.search.indexes.arrivals import (
    ORDERS,
    arrivals,
    choose_outputs,
    forget_everything,
)
from tests.search.indexes.beside import Beside
from tests.search.indexes.shapes import random, wide

pytestmark = pytest.mark.pairwise

N = 2_500


SHAPES = {
    "clusters": (lw.Rule("l2", 0.1), wide),
    "single precision": (lw.Rule("l2", 0.1), lambda n: wide(n).astype(np.float32)),
    "bytes": (lw.Rule("l2", 9.0), lambda n: (100 * wide(n)).astype(np.uint8)),
    "directions": (lw.Rule("cosine", 1e-4), wide),
    "one coordinate": (lw.Rule("l2", 0.01), lambda n: random().random((n, 1)).round(2)),
    "weights of zero": (
        lw.Rule("l2", 0.05, weights=[1.0, 0.0, 2.0, 0.0, 1e-3, 1.0]),
        lambda n: random().random((n, 6)).round(1),
    ),
    "far away": (lw.Rule("l2", 0.1), lambda n: wide(n) + 1e9),
    "all sizes": (
        lw.Rule("l2", 1e-3),
        lambda n: wide(n, 12) * 10 ** random(1).uniform(-30, 200, (n, 1)),
    ),
}
every_shape = pytest.mark.parametrize(("rule", "make"), SHAPES.values(), ids=SHAPES)


ARRIVALS = arrivals((1, 23, 24, 600, 1_100), 300, 2_000)


@every_shape
@pytest.mark.parametrize("arrive", ARRIVALS.values(), ids=ARRIVALS)
def test_every_row_has_its_seat_however_the_past_arrives(rule, make, arrive):
    both = Beside(rule, "flat")
    arrive(both, make(N))
    assert both.monitor.explain().shape == "flat scan"
    assert both.ask_some(random(), 40) > 40


@pytest.mark.parametrize("output", ["label", "number", "probabilities", "many probabilities"])
@pytest.mark.parametrize("batch", [0, 400])
def test_ranges_hold_every_output(output, batch):
    kind = output.removeprefix("many ")
    rule = lw.Rule("l2", 0.3, output=kind, delta=0.1)
    both, X, Z = Beside(rule, "flat"), wide(1_600), choose_outputs(output, 1_600)
    for start in range(0, 1_600, 400):
        part = slice(start, start + 400)
        if batch:
            both.observe_many(X[part], Z[part], threads=2)
        else:
            both.observe(X[part], Z[part])
        both.forget(range(start // 2, start // 2 + 150))
        both.audit()
    assert both.ask_some(random(), 30, Z[0]) > 30


@every_shape
def test_every_row_has_its_seat_in_a_window(rule, make):
    both, X, window = Beside(rule, "flat"), make(N), 600
    for start in range(0, N, 50):
        both.observe(X[start : start + 50])
        both.forget(range(max(0, start - 50 - window), max(0, start - window)))
        if start % 500 == 0:
            both.audit()
    both.audit()
    assert both.ask_some(random(), 40) > 0
    used = int(both.table[t.BLOCKS])
    assert used <= 2 * window / BLOCK + 8, f"{used} blocks were made for a window of {window}"


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_forgetting_everything_leaves_every_block_open(order):
    both, X = Beside(lw.Rule("l2", 0.1), "flat"), wide(1_000)
    made = 0
    for _ in range(2):
        both.observe(X[:400])
        both.observe_many(X[400:])
        forget_everything(both, 1_000, order)
        made = made or int(both.table[t.BLOCKS])
    assert int(both.table[t.BLOCKS]) <= made + 1, "blocks left empty were not used again"
