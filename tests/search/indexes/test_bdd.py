"""The decision diagram: what becomes of columns of few values, and of diagrams that were made anew.

Verdicts at its edges are in contracts/test_boundaries.py; here is that the edges were reached.
"""

import gc
import re

import numpy as np
import pytest

import likewise as lw
from likewise.search.indexes.bdd import BDD, Coordinate, cell_of
from likewise.search.indexes.protocol import Space

pytestmark = pytest.mark.pairwise


def by_value(monitor: lw.Monitor) -> int:
    """How many coordinates are labelled by value."""
    return int(re.search(r"(\d+) coordinates labelled by value", monitor.explain().form)[1])


def test_a_column_is_labelled_by_value_up_to_the_seventeenth():
    monitor = lw.Monitor(lw.Rule("linf", 0.16), index="bdd")
    for n in range(40):
        monitor.observe([float(n % 3), float(n % 16), float(n % 17), float(n)], "same")
        assert by_value(monitor) == (4 if n < 16 else 2)


def test_checking_does_not_use_up_values():
    monitor = lw.Monitor(lw.Rule("linf", 0.16), index="bdd")
    monitor.observe([0.0, 0.0], "same")
    for n in range(40):
        monitor.check([float(n), 0.0], "same")
    assert by_value(monitor) == 2


def test_forgetting_makes_a_column_of_few_values_out_of_many():
    monitor = lw.Monitor(lw.Rule("linf", 0.16), index="bdd")
    for n in range(40):
        monitor.observe([float(n)], "same")
    assert by_value(monitor) == 0
    assert monitor.forget(range(5, 40)) == 35
    assert monitor.observe([4.0], "other").witnesses.rows.tolist() == [4]
    assert by_value(monitor) == 1


def test_rows_that_share_a_cell_after_the_change_are_all_kept():
    """The first sixteen values, each its own label, all lie in one cell."""
    index = BDD(Space("linf", 2))
    for row in range(40):
        index.add(row, np.array([0.01 * row, 3.0 * (row % 2)]))
        even = index.candidates(np.array([0.2, 0.0]), 1.0)
        assert sorted(even.tolist()) == list(range(0, row + 1, 2))


@pytest.mark.parametrize("order", [1, -1], ids=["upwards", "downwards"])
@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_every_label_fits_after_it_was_made_to(sign, order):
    one = Coordinate()
    one.values = None
    labels = [sign * (1 << bit) + offset for bit in range(33) for offset in (-1, 0, 1)][::order]
    for seen, label in enumerate(labels, 1):
        one.make_fit(label)
        assert all(one.fits(known) for known in labels[:seen])
    assert one.bits <= 36


@pytest.mark.parametrize("value", [0.0, -1e-17, 1.0, 1 - 1e-16, -1.0, 1e5, 1e9, -1e9, 1e140])
def test_a_cell_within_reach_is_near(value):
    """From the border of a cell, or a rounding step beside it, in both directions."""
    for start in (value, np.nextafter(value, 9e99), np.nextafter(value, -9e99)):
        one = Coordinate()
        one.values = None
        for other in (start - 1.0, start, start + 1.0):
            one.make_fit(cell_of(other))
        near = set(one.near(start, 1.0 + 2.0**-40))
        assert {cell_of(start - 1.0), cell_of(start), cell_of(start + 1.0)} <= near
        assert len(near) <= 3


@pytest.mark.parametrize("far", [1.0, 1e9, 1e300], ids=["near", "far", "farther"])
@pytest.mark.parametrize("verb", ["forget", "window"])
def test_when_everything_is_forgotten_the_next_decision_is_judged(far, verb, tmp_path):
    """Far out a radius is mostly rounding error, and all rows are candidates: here none."""
    rule = lw.Rule("linf", 0.1)
    if verb == "window":
        monitor = lw.open(tmp_path / "ledger", rule, index="bdd", window="5 rows")
    else:
        monitor = lw.Monitor(rule, index="bdd")
    with monitor:
        monitor.observe_many([[far, 0.0], [-far, 1.0], [0.0, 0.5]], ["a", "b", "a"])
        monitor.forget([0, 1, 2])
        assert not monitor.check([far, 0.0], "b").violation
        assert not monitor.observe([far, 0.0], "b").violation
        assert monitor.observe([far, 0.0], "c").witnesses.rows.tolist() == [3]
        monitor.forget([3, 4])
        assert monitor.observe_many([[far, 0.0]] * 2, ["b", "c"]).counts.tolist() == [0, 1]


def test_an_index_in_a_cycle_frees_diagrams_before_their_manager():
    index = BDD(Space("linf", 3))
    for row, point in enumerate(np.random.default_rng(0).random((5, 3))):
        index.add(row, point)
        index.candidates(point, 1.0)
    index.itself = index
    before, debug = len(gc.garbage), gc.get_debug()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        del index
        gc.collect()
        cleared = {type(one) for one in gc.garbage[before:]}
    finally:
        gc.set_debug(debug)
        del gc.garbage[before:]
    assert BDD in cleared
    assert not [kind for kind in cleared if kind.__module__ == "dd.cudd"]
