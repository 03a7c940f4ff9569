"""Hunts for one past decision: bounds that lose nothing, and answers that a scan would give.

Small enough to run uncompiled.
"""

import ctypes
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise.monitor.monitor import assemble_monitor
from likewise.monitor.readers.vector_reader import VectorReader
from likewise.search.engine.engine import Engine
from likewise.search.indexes.best_index import NearestTree
from likewise.search.kernels import bounds
from likewise.search.kernels import table as t
from tests.search.kernels.calling import compiled, state_for
from tests.support.nearest_oracle import hunt, nearest, slope, steepest
from tests.support.oracle import output_distances
from tests.support.strategies import METRICS, OUTPUTS

slope_of = compiled(bounds.slope_of)
radius_of_interest = compiled(bounds.radius_of_interest)
farthest_below = compiled(bounds.farthest_below)

DISTANCES = st.one_of(
    st.floats(0, 1e308), st.floats(0, 10), st.sampled_from((0.0, 5e-324, 1e-200, 1e200, math.inf))
)
EXPONENTS = st.sampled_from((1.0, 0.5, 2.0, 0.01, 100.0, 7.3))


def numbers_of(state):
    return state.layout.settings[t.NUMBERS]


def let_best_be(state, far):
    """The output distance of the best so far."""
    ctypes.c_double.from_address(int(state.table[t.RESULT_OUTPUT])).value = far


@given(near=DISTANCES, far=DISTANCES, exponent=EXPONENTS)
def test_slope_is_the_obvious_one(near, far, exponent):
    assert slope_of(near, far, exponent) == slope(near, far, exponent)


STEEP = state_for(lw.Rule("l2", 1.0, output="number"), 2)
STEEP.table[t.QUESTION] = t.STEEPEST


@given(near=DISTANCES, far=DISTANCES, factor=st.floats(0, 1), exponent=EXPONENTS)
def test_whatever_is_at_least_as_steep_lies_within_the_radius(near, far, factor, exponent):
    numbers_of(STEEP)[t.EXPONENT] = exponent
    mine = slope(near, far, exponent)
    for merit in (mine, mine * factor, np.nextafter(mine, 0)):
        if mine > 0 and (mine > merit or merit == mine):
            let_best_be(STEEP, far)
            radius = radius_of_interest(STEEP.table, far, merit, 0)
            assert radius >= near


def test_nothing_that_cannot_be_better_is_of_interest():
    numbers_of(STEEP)[t.EXPONENT] = 1.0
    assert radius_of_interest(STEEP.table, 0.0, 0.0, 0) < 0
    let_best_be(STEEP, 2.0)
    assert radius_of_interest(STEEP.table, 1.0, math.inf, 0) < 0
    assert 0 <= radius_of_interest(STEEP.table, 2.0, math.inf, 0) < 1e-200
    assert radius_of_interest(STEEP.table, 6.0, 2.0, 0) == pytest.approx(3)


@pytest.mark.parametrize("output_metric", ["linf", "l1", "l2", "tv"])
@given(seed=st.integers(0, 2**32 - 1))
def test_no_two_probabilities_differ_by_more_than_is_taken_for_granted(output_metric, seed):
    rng = np.random.default_rng(seed)
    state = MANY[output_metric]
    rule = state.history.rule
    one, other = np.eye(20)[rng.integers(20, size=2)] * rng.choice([0.999, 1.001], (2, 1))
    one[rng.random(20) < 0.3] -= 1e-9
    given_output = state.scratch.small[t.GIVEN]
    given_output[:] = one
    assert farthest_below(state.table, 0) >= output_distances(rule, [other], one)[0]


MANY = {
    metric: state_for(
        lw.Rule("l2", 1, output="probabilities", output_metric=metric), 2, "float64", 20
    )
    for metric in ("linf", "l1", "l2", "tv")
}


def decisions(metric, output, width=3, n=170):
    """A past that fills more than one block, repeats and ties included."""
    rng = np.random.default_rng(9)
    X = rng.integers(1, 6, (n, width)) * 0.25
    X[20:60] = X[0]
    X[100:] += rng.random((n - 100, width)) * 0.1
    kinds = rng.integers(0, 7, n) // 3
    if output == "label":
        Z = [("yes", "no", None)[kind] for kind in kinds]
    elif output == "number":
        Z = kinds * 0.5 + (X[:, 0] > 0.8)
    else:
        Z = np.eye(3)[kinds]
    return lw.Rule(metric, 0.3, output=output, delta=0.0 if output == "label" else 0.5), X, Z


def hunting_monitor(rule, **question):
    """A monitor whose trees answer the question."""
    tree = partial(NearestTree, **question)
    return assemble_monitor(VectorReader(rule), Engine(rule, index="live", tree=tree))


@pytest.mark.parametrize("question", ["nearest", "steepest", "steepest in squares"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("metric", METRICS)
def test_hunts_find_what_a_scan_finds(metric, output, question):
    rule, X, Z = decisions(metric, output)
    exponent = 2.0 if "squares" in question else 1.0
    find = nearest if question == "nearest" else steepest(exponent)
    kind = t.NEAREST if question == "nearest" else t.STEEPEST
    monitor = hunting_monitor(rule, question=kind, exponent=exponent)
    monitor.load(X[:130], Z[:130])
    alive = np.ones(len(X), dtype=bool)
    alive[0:130:3] = False
    monitor.forget(np.flatnonzero(~alive))
    expected = hunt(find, rule, X, Z, range(130, 170), alive)
    for i in range(130, 140):
        assert found(monitor.check(X[i], Z[i])) == expected[i - 130]
        assert found(monitor.observe(X[i], Z[i])) == expected[i - 130]
    rest = monitor.observe_many(X[140:], Z[140:], threads=2)
    assert [found(verdict) for verdict in rest] == expected[10:]
    assert sum(row >= 0 for row, _, _ in expected) > 20, "nothing to find"


def found(verdict):
    if not verdict.violation:
        return -1, math.inf, 0.0
    (witness,) = verdict.witnesses
    return witness.row, witness.input_distance, witness.output_distance


@pytest.mark.parametrize("metric", METRICS)
def test_hunts_over_a_sketch_find_what_a_scan_finds(metric):
    rule, X, Z = decisions(metric, "label", width=40)
    monitor = hunting_monitor(rule)
    verdicts = monitor.observe_many(X, Z, threads=1)
    assert monitor.explain().shape == "sketch tree"
    assert [found(verdict) for verdict in verdicts] == hunt(nearest, rule, X, Z)


def test_a_limit_keeps_what_is_on_it_and_nothing_beyond():
    rule, X, Z = decisions("linf", "label")
    answers = hunt(nearest, rule, X, Z)
    limit = sorted(near for _, near, _ in answers)[len(answers) // 2]
    limited = [one if one[1] <= limit else (-1, math.inf, 0.0) for one in answers]
    assert any(near == limit for _, near, _ in answers) and limited != answers
    verdicts = hunting_monitor(rule, limit=limit).observe_many(X, Z, threads=1)
    assert [found(verdict) for verdict in verdicts] == limited


@pytest.mark.parametrize("question", ["nearest", "steepest"])
@pytest.mark.parametrize("gone", [0, 300, 450])
def test_of_many_equally_good_rows_the_earliest_is_named(question, gone):
    """Before and behind those that are looked through one by one."""
    X = np.zeros((700, 2))
    X[:gone, 0] = 5.0 + np.arange(gone)
    X[gone:-1, 1] = np.arange(699 - gone) % 3 - 1.0
    Z = [0.0] * 699 + [1.0]
    rule = lw.Rule("linf", 1.0, output="number")
    kind, find = (
        (t.NEAREST, nearest) if question == "nearest" else (t.STEEPEST, steepest(exponent=1.0))
    )
    for place in (0.0, 0.5, 1.0):
        X[-1, 0] = place
        monitor = hunting_monitor(rule, question=kind)
        monitor.load(X[:-1], Z[:-1])
        expected = hunt(find, rule, X, Z, [699])[0]
        assert found(monitor.check(X[-1], Z[-1])) == expected
        assert gone <= expected[0] < gone + 3
        alive = np.arange(700) >= expected[0] + 5
        monitor.forget(np.flatnonzero(~alive))
        expected = hunt(find, rule, X, Z, [699], alive)[0]
        assert found(monitor.observe(X[-1], Z[-1])) == expected


def test_tree_is_measured_anew_where_the_unit_does_not_fit():
    rng = np.random.default_rng(2)
    X, Z = rng.random((300, 2)), rng.integers(0, 2, 300).tolist()
    rule = lw.Rule("l2", 1e9)
    expected = hunt(nearest, rule, X, Z)
    monitor = hunting_monitor(rule)
    for x, z, answer in zip(X, Z, expected, strict=True):
        assert found(monitor.observe(x, z)) == answer
    assert 0.01 < monitor.core.engine.index._unit < 1
