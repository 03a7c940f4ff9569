"""`calibrate` finds each decision's nearest contradiction, and knows every epsilon's rate."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.nearest_oracle import hunt, nearest
from tests.support.refusals import raises
from tests.support.strategies import FAMILIES, METRICS, OUTPUTS, prove, streams


def assert_found(found, expected):
    assert found.rows.tolist() == [row for row, _, _ in expected]
    assert found.distances.tobytes() == np.array([near for _, near, _ in expected]).tobytes()


@pytest.mark.long
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("metric", METRICS)
def test_nearest_contradiction_is_found_to_the_last_bit(metric, output):
    contradictions = []

    @prove(12, stream=streams(metric=metric, output=output), threads=st.sampled_from((1, 2)))
    def holds(stream, threads):
        expected = hunt(nearest, stream.rule, stream.X, stream.Z)
        assert_found(lw.calibrate(stream.rule, stream.X, stream.Z, threads=threads), expected)
        contradictions.append(sum(row >= 0 for row, _, _ in expected))

    assert sum(map(bool, contradictions)) > len(contradictions) / 3


@pytest.mark.parametrize("family", FAMILIES)
def test_every_storage_is_calibrated_exactly(family):
    contradictions = []

    @prove(20, stream=streams(family=family, most=300))
    def holds(stream):
        expected = hunt(nearest, stream.rule, stream.X, stream.Z)
        assert_found(lw.calibrate(stream.rule, stream.X, stream.Z), expected)
        contradictions.append(sum(row >= 0 for row, _, _ in expected))

    assert any(contradictions)


@pytest.mark.parametrize("metric", METRICS)
def test_long_streams_are_calibrated_exactly_whatever_the_first_unit(metric):
    """Several blocks, units chosen anew, ties in plenty, and threads that share the work."""
    rng = np.random.default_rng(4)
    X = rng.integers(1, 9, (9_000, 5)).astype(np.float32)
    X[::2] += rng.random((4_500, 5), dtype=np.float32)
    Z = (X[:, 0] + X[:, 1] > 9).astype(int) + 10 * (rng.random(9_000) < 0.01)
    which = range(0, 9_000, 37)
    expected = hunt(nearest, lw.Rule(metric, 1.0), X, Z, which)
    for epsilon, threads in ((1e-6, 2), (1.0, 1), (1e6, 2)):
        found = lw.calibrate(lw.Rule(metric, epsilon), X, Z, threads=threads)
        assert found.rows[which].tolist() == [row for row, _, _ in expected]
        assert found.distances[which].tolist() == [near for _, near, _ in expected]


@pytest.mark.parametrize("output", ["number", "probabilities"])
def test_outputs_that_follow_the_inputs_are_calibrated_exactly(output):
    """Ranges rule out whole subtrees here, and the nearest that differs is far away."""
    rng = np.random.default_rng(5)
    X = rng.random((6_000, 3))
    share = X.mean(axis=1)
    Z = share if output == "number" else np.stack([share, 1 - share], axis=1)
    rule = lw.Rule("l2", 0.1, output=output, delta=0.15)
    which = range(0, 6_000, 29)
    expected = hunt(nearest, rule, X, Z, which)
    found = lw.calibrate(rule, X, Z)
    assert found.rows[which].tolist() == [row for row, _, _ in expected]
    assert found.distances[which].tolist() == [near for _, near, _ in expected]
    assert np.median(found.distances) > 0.1


@pytest.mark.parametrize("metric", METRICS)
def test_wide_inputs_are_calibrated_exactly(metric):
    rng = np.random.default_rng(6)
    centres = 1 + rng.random((8, 60))
    X = centres[rng.integers(8, size=3_000)] + 0.2 * rng.random((3_000, 60))
    X[1_000:1_500] = X[:500]
    Z = rng.integers(0, 3, 3_000)
    which = [*range(0, 1_000, 41), *range(1_000, 3_000, 31)]
    expected = hunt(nearest, lw.Rule(metric, 1.0), X, Z, which)
    found = lw.calibrate(lw.Rule(metric, 1e-3), X, Z)
    assert found.rows[which].tolist() == [row for row, _, _ in expected]
    assert found.distances[which].tolist() == [near for _, near, _ in expected]
    assert (found.distances[1_000:1_500] == 0).mean() > 0.4


def test_rates_are_those_of_a_monitor_at_radii_drawn_from_real_distances():
    flagged = []

    @prove(15, stream=streams(most=300), pick=st.randoms(use_true_random=False))
    def holds(stream, pick):
        found = lw.calibrate(stream.rule, stream.X, stream.Z)
        usable = found.distances[(found.distances >= 1e-149) & (found.distances <= 1e149)]
        if len(usable) == 0:
            return
        steps, rates = found.curve()
        for _ in range(20):
            radius = float(usable[pick.randrange(len(usable))])
            beside = pick.choice((lambda r: r, lambda r: r / (1 + found.slack), _below, _step))
            epsilon = beside(radius)
            monitor = lw.Monitor(replace(stream.rule, epsilon=epsilon))
            rate = monitor.observe_many(stream.X, stream.Z).violations.mean()
            assert found.rate(epsilon) == rate
            at = np.searchsorted(steps, epsilon, side="right") - 1
            assert (rates[at] if at >= 0 else 0.0) == rate
            flagged.append(rate)

    assert 0 < np.mean(flagged) < 1


def _below(radius):
    return float(np.nextafter(radius, 0))


def _step(radius):
    return float(np.nextafter(radius, np.inf))


def some_calibration(slack=None):
    rng = np.random.default_rng(7)
    X = rng.integers(0, 40, (500, 2)) / 10
    return lw.calibrate(lw.Rule("linf", 1, slack=slack), X, rng.integers(0, 2, 500).tolist())


@pytest.mark.parametrize("slack", [None, 0.0, 1e-3])
def test_curve_steps_where_the_rate_does_and_nowhere_else(slack):
    found = some_calibration(slack)
    steps, rates = found.curve()
    assert len(steps) > 5
    assert (np.diff(steps) > 0).all() and (np.diff(rates) > 0).all()
    assert rates[-1] == (found.rows >= 0).mean()
    for i, step in enumerate(steps.tolist()):
        assert found.rate(step) == rates[i]
        if step > 0:
            assert found.rate(np.nextafter(step, 0)) == (rates[i - 1] if i else 0.0)


@pytest.mark.parametrize("slack", [None, 0.0, 1e-3])
def test_epsilon_for_is_the_largest_that_keeps_the_rate(slack):
    found = some_calibration(slack)
    steps, rates = found.curve()
    for rate in [*rates[:-1], *(rates[:-1] + 1e-9), 0.9]:
        epsilon = found.epsilon_for(rate)
        assert found.rate(epsilon) <= rate < found.rate(np.nextafter(epsilon, np.inf))
    assert found.epsilon_for(1.0) == math.inf
    assert steps[0] == 0
    with raises(lw.errors.BadRule, setting="rate"):
        found.epsilon_for(0.0)


def test_rates_and_radii_that_are_none_are_refused():
    found = some_calibration()
    for rate in (-0.1, 1.1, math.nan):
        with raises(lw.errors.BadRule, setting="rate"):
            found.epsilon_for(rate)
    for epsilon in (-1, math.nan):
        with raises(lw.errors.BadRule, setting="epsilon"):
            found.rate(epsilon)


def test_closest_are_the_closest_pairs_in_order():
    found = some_calibration()
    pairs = found.closest(30)
    assert len(pairs) == 30
    assert [pair.distance for pair in pairs] == np.sort(found.distances)[:30].tolist()
    for pair in pairs:
        assert found.rows[pair.later] == pair.earlier < pair.later
    assert len(found.closest(10_000)) == (found.rows >= 0).sum()


def test_decisions_that_all_agree_are_never_flagged():
    found = lw.calibrate(lw.Rule("l2", 1), [[0.0], [1.0]], ["a", "a"])
    assert found.rate(math.inf) == 0
    assert found.epsilon_for(0.0) == math.inf
    assert found.closest() == []
    assert [part.tolist() for part in found.curve()] == [[], []]
    assert "0 of them with a contradiction" in str(found)


def test_no_decisions_at_all_are_no_trouble():
    found = lw.calibrate(lw.Rule("l2", 1), np.empty((0, 3)), [])
    assert len(found) == 0
    assert found.rate(1) == 0


def test_result_is_frozen():
    found = some_calibration()
    for array in (found.distances, found.rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_text_says_how_many_and_how_near():
    text = str(some_calibration())
    assert text.startswith("500 decisions, 499 of them with a contradiction in their past")
    assert "at distance 0" in text


def test_bad_decisions_are_refused_in_the_words_of_a_monitor():
    with raises(lw.errors.UnexpectedValue, place=2):
        lw.calibrate(lw.Rule("l2", 1), [[0.0, 1], [1, 1], [1, math.nan]], [0, 1, 0])
    with raises(lw.errors.BadRule):
        lw.calibrate("linf", [[0.0]], [0])
    with raises(lw.errors.BadRule, setting="threads"):
        lw.calibrate(lw.Rule("l2", 1), [[0.0, 1]], [0], threads=0)


def test_without_matplotlib_plot_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[plot\]'"):
        some_calibration().plot()


def test_a_notebook_shows_the_plot_as_a_picture():
    pytest.importorskip("matplotlib")
    shown = some_calibration().plot()._repr_html_()
    assert shown.startswith('<img alt="rate over epsilon" src="data:image/png;base64,iVBOR')


class Axes:
    """Stands in for matplotlib's."""

    def __init__(self):
        self.figure = self
        self.drawn, self.saved = None, None

    def step(self, x, y, where):
        self.drawn = np.array(x), np.array(y), where

    def savefig(self, path):
        self.saved = path

    def subplots(self):
        return self

    def set_xlabel(self, text):
        assert "linf" in text

    set_ylabel = set_xlim = set_ylim = lambda self, *a, **k: None


def test_plot_draws_the_curve_and_saves_it(monkeypatch, tmp_path):
    axes = Axes()
    figures = type(sys)("matplotlib.figure")
    figures.Figure = lambda **_: axes
    monkeypatch.setitem(sys.modules, "matplotlib", type(sys)("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", figures)
    found = some_calibration()
    assert found.plot(axes).axes is axes and axes.saved is None
    assert found.plot(tmp_path / "rates.svg").axes is axes
    assert axes.saved == tmp_path / "rates.svg"
    x, y, where = axes.drawn
    assert where == "post" and x[1:].tolist() == found.curve()[0].tolist()
    assert y[-1] == found.curve()[1][-1]
