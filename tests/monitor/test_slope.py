"""`Monitor(rule, slope=True)` names the steepest past pair of a decision, as brute force does."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.looping import each
from tests.support.nearest_oracle import hunt, slope, steepest
from tests.support.refusals import raises
from tests.support.slopes import columns_of, distances_of, slope_monitor, witness_of
from tests.support.strategies import FAMILIES, METRICS, prove, streams

EXPONENTS = (1.0, 0.5, 2.0, 0.1, 7.3)


def assert_steepest(verdicts, expected, exponent=1.0):
    rows, *distances = columns_of(verdicts)
    assert rows.tolist() == [row for row, _, _ in expected]
    near, far = ([answer[k] for answer in expected] for k in (1, 2))
    assert [column.tolist() for column in distances] == [near, far]
    slopes = [slope(d, apart, exponent) for d, apart in zip(near, far, strict=True)]
    assert verdicts.slopes.tolist() == slopes


@pytest.mark.long
@pytest.mark.parametrize("output", ["label", "number", "probabilities"])
@pytest.mark.parametrize("metric", METRICS)
def test_steepest_is_found_to_the_last_bit(metric, output):
    found = []

    @prove(
        12,
        stream=streams(metric=metric, output=output),
        exponent=st.sampled_from(EXPONENTS),
        threads=st.sampled_from((1, 2)),
    )
    def holds(stream, exponent, threads):
        expected = hunt(steepest(exponent), stream.rule, stream.X, stream.Z)
        monitor = slope_monitor(stream.rule, input_exponent=exponent)
        verdicts = monitor.observe_many(stream.X, stream.Z, threads=threads)
        assert_steepest(verdicts, expected, exponent)
        found.append(sum(row >= 0 for row, _, _ in expected))

    assert sum(map(bool, found)) > len(found) / 3


@pytest.mark.parametrize("family", FAMILIES)
def test_one_by_one_or_at_once_is_the_same(family):
    steep = []

    @prove(12, stream=streams(family=family, most=300), exponent=st.sampled_from(EXPONENTS))
    def holds(stream, exponent):
        half = len(stream) // 2
        monitor = slope_monitor(stream.rule, input_exponent=exponent, slope_limit=1.0)
        at_once = slope_monitor(stream.rule, input_exponent=exponent, slope_limit=1.0)
        verdicts = at_once.observe_many(stream.X, stream.Z)
        for i in range(len(stream)):
            if i == half:
                checked = monitor.check(stream.X[i], stream.Z[i])
            verdict = monitor.observe(stream.X[i], stream.Z[i])
            assert verdict == verdicts[i]
            if i == half:
                assert checked.row is None
                assert (checked.slope, checked.witnesses) == (verdict.slope, verdict.witnesses)
            assert verdict.violation == (verdict.slope > 1.0)
            steep.append(verdict.violation)
        assert len(monitor) == len(at_once) == len(stream)

    assert any(steep) and not all(steep)


@each("classes", [2, 40])
@each("output_metric", ["linf", "l1", "l2", "tv"])
def test_long_streams_of_probabilities_are_exact(classes, output_metric):
    """More than 16 classes have no ranges; several blocks, and units chosen anew."""
    rng = np.random.default_rng(1)
    X = rng.random((5_000, 4))
    Z = rng.dirichlet(np.full(classes, 0.1), 5_000)
    Z[:2_500] = np.eye(classes)[rng.integers(classes, size=2_500)]  # as far apart as can be
    rule = lw.Rule("l2", 10.0, output="probabilities", output_metric=output_metric)
    which = range(1, 5_000, 61)
    expected = hunt(steepest(1.0), rule, X, Z, which)
    verdicts = slope_monitor(rule).observe_many(X, Z)
    assert columns_of(verdicts)[0][which].tolist() == [row for row, _, _ in expected]
    assert verdicts.slopes[which].tolist() == [slope(d, far, 1.0) for _, d, far in expected]


@pytest.mark.parametrize("metric", METRICS)
def test_wide_inputs_are_exact(metric):
    rng = np.random.default_rng(2)
    X = 1 + rng.random((2_000, 50), dtype=np.float32)
    X[1_000:1_200] = X[:200]
    Z = rng.normal(size=2_000)
    rule = lw.Rule(metric, 1.0, output="number")
    which = [*range(1, 1_000, 53), *range(1_000, 2_000, 47)]
    expected = hunt(steepest(1.0), rule, X, Z, which)
    verdicts = slope_monitor(rule).observe_many(X, Z)
    assert columns_of(verdicts)[0][which].tolist() == [row for row, _, _ in expected]
    assert np.isinf(verdicts.slopes[1_000:1_200]).mean() > 0.9


def test_forgotten_rows_are_never_a_witness():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 12, (1_500, 3)) * 0.5
    Z = rng.normal(size=1_500).round(1)
    rule = lw.Rule("l1", 1.0, output="number")
    monitor = slope_monitor(rule)
    first = monitor.observe_many(X[:1_200], Z[:1_200])
    alive = np.ones(1_500, dtype=bool)
    gone = np.unique(first.witnesses.rows)[::2]
    alive[gone] = False
    assert monitor.forget(gone) == len(gone) > 100
    rest = range(1_200, 1_500)
    expected = hunt(steepest(1.0), rule, X, Z, rest, alive)
    for i in rest[:50]:
        checked = monitor.check(X[i], Z[i])
        if i == rest[0]:
            assert witness_of(checked) == expected[0][0]
    assert_steepest(monitor.observe_many(X[rest], Z[rest]), expected)
    assert len(monitor) == 1_500 - len(gone)


def test_loaded_rows_are_part_of_the_past():
    monitor = slope_monitor(lw.Rule("l2", 1, output="number"))
    rng = np.random.default_rng(4)
    X, Z = rng.random((3_000, 6)), rng.random(3_000)
    assert monitor.load(X[:2_900], Z[:2_900]) == range(2_900)
    expected = hunt(steepest(1.0), monitor.rule, X, Z, range(2_900, 3_000))
    assert_steepest(monitor.observe_many(X[2_900:], Z[2_900:]), expected)


def test_equal_inputs_are_infinitely_steep_and_the_farthest_output_is_named():
    monitor = slope_monitor(lw.Rule("linf", 1, output="number"), slope_limit=1e9)
    for z in (0.0, 3.0, -3.0, 3.0, 1.0):
        monitor.observe([1.0, 2.0], z)
    verdict = monitor.observe([1.0, 2.0], 0.5)
    assert (verdict.slope, witness_of(verdict), distances_of(verdict)[1]) == (math.inf, 2, 3.5)
    assert verdict.violation
    same = monitor.check([1.0, 2.5], 3.0)
    assert (witness_of(same), same.slope) == (2, 12.0)


def test_slopes_beyond_all_floats_are_infinite_and_vanishing_ones_are_none():
    rule = lw.Rule("l1", 1, output="number")
    monitor = slope_monitor(rule)
    monitor.observe([0.0], 0.0)
    verdict = monitor.observe([1e-200], 1e200)
    assert (verdict.slope, witness_of(verdict)) == (math.inf, 0)
    far = slope_monitor(rule)
    far.observe([-1e300], 0.0)
    assert witness_of(far.observe([1e300], 1e-300)) is None
    assert far.observe([-1e300], 1e308).slope == math.inf


def test_first_decision_and_equal_outputs_have_no_witness():
    monitor = slope_monitor(lw.Rule("l2", 1, output="number"), slope_limit=0)
    for row in range(3):
        verdict = monitor.observe([float(row)], 1.0)
        assert (verdict.row, verdict.slope, witness_of(verdict)) == (row, 0.0, None)
        assert not verdict.violation
    verdicts = monitor.observe_many([[5.0], [5.5]], [1.0, 2.0])
    assert columns_of(verdicts)[0].tolist() == [-1, 3]
    assert verdicts.violations.tolist() == [False, True]
    assert [verdict.row for verdict in verdicts] == verdicts.rows.tolist() == [3, 4]
    assert (verdicts[-1].slope, witness_of(verdicts[-1])) == (2.0, 3)
    with pytest.raises(IndexError, match="this batch has 2 verdicts"):
        verdicts[2]


def test_result_is_frozen():
    verdicts = slope_monitor(lw.Rule("l2", 1)).observe_many([[5.0], [5.5]], [1, 2])
    found = verdicts.witnesses
    for column in (verdicts.slopes, found.rows, found.input_distances, found.output_distances):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


@each("exponent", [0, -1, math.nan, math.inf, "1", True, 101])
def test_exponents_that_make_no_sense_are_refused(exponent):
    with raises(lw.errors.BadRule, setting="input_exponent"):
        slope_monitor(lw.Rule("l2", 1), input_exponent=exponent)


@pytest.mark.parametrize("limit", [-1, math.nan, "1", True])
def test_limits_that_make_no_sense_are_refused(limit):
    with raises(lw.errors.BadRule, setting="slope_limit"):
        slope_monitor(lw.Rule("l2", 1), slope_limit=limit)


def test_rules_with_features_are_refused():
    age = {"age": lw.Feature("number", tolerance=5)}
    with raises(lw.errors.BadRule):
        slope_monitor(lw.Rule(features=age, output_column="z"))


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("burst", {"burst": lw.Burst(10)}),
        ("comparable", {"comparable": True}),
        ("within", {"within": "1 day"}),
        ("index", {"index": "flat"}),
        ("slope", {"slope": 1}),
        ("slope", {"slope": False, "slope_limit": 3}),
    ],
    ids=str,
)
def test_settings_about_contradictions_are_refused(setting, given):
    with raises(lw.errors.BadRule, setting=setting):
        slope_monitor(lw.Rule("l2", 1), **given)


def test_what_is_about_contradictions_is_refused_and_verdicts_without_the_question_have_no_slope():
    monitor = slope_monitor(lw.Rule("l2", 1, output="number"))
    monitor.observe([0.0], 0.0)
    verdict = monitor.observe([1.0], 1.0)
    for call in (verdict.explain, monitor.core.require_contradictions):
        with raises(lw.errors.BadRule, setting="slope"):
            call()
    assert verdict.to_dict()["slope"] == 1.0 and not verdict.to_dict()["violation"]
    assert lw.Monitor(lw.Rule("l2", 1)).observe([0.0], "a").slope is None


def test_bad_decisions_are_refused_in_the_words_of_a_monitor_and_leave_no_trace():
    monitor = slope_monitor(lw.Rule("l2", 1, output="number"))
    with raises(lw.errors.UnexpectedValue):
        monitor.observe([0.0, math.nan], 1.0)
    assert len(monitor) == 0
    monitor.observe([0.0], 1.0)
    with raises(lw.errors.WrongShape):
        monitor.check([0.0, 1.0], 1.0)
    with raises(lw.errors.UnexpectedValue):
        monitor.observe([0.0], math.inf)
    with raises(lw.errors.UnexpectedValue, place=1):
        monitor.observe_many([[0.0], [math.inf]], [1.0, 2.0])
    assert len(monitor) == 1
    assert witness_of(monitor.observe([0.0], 2.0)) == 0
    assert "tree" in str(monitor.explain())
    assert monitor.past.inputs([0]).tolist() == [[0.0]]
