"""From a rule to numbers: what search/kernels/codes.py and search/kernels/search.py take for
granted."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.search.geometry import METRICS as NUMBERS
from likewise.search.geometry import geometry
from likewise.search.kernels import codes
from likewise.search.kernels import table as t
from tests.support.oracle import input_distances, squared_norms, weights_of
from tests.support.strategies import METRICS, prove

GRID = {"linf": 16, "l1": 64, "l2": 32, "cosine": 32}
WIDTHS = (1, 2, 3, 17, 200, 3_000, 100_000)
EPSILONS = (1e-150, 1e-9, 0.1, 1.0, 1e150)

every_metric = pytest.mark.parametrize("metric", METRICS)


@every_metric
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("slack", [0.0, 1e-9, 1.0])
def test_reach_is_epsilon_with_slack_and_the_tree_reaches_a_little_farther(metric, epsilon, slack):
    shape = geometry(lw.Rule(metric, epsilon), 5, slack)
    assert shape.reach == epsilon * (1.0 + slack)
    straight = math.sqrt(2 * shape.reach) if metric == "cosine" else shape.reach
    assert shape.tree_reach >= straight * (1 + 0.9e-10)
    if epsilon >= 1e-6:
        assert shape.tree_reach <= straight * (1 + 1e-6), "farther than rounding asks for"


@every_metric
def test_kernels_know_the_metric_by_its_number(metric):
    numbers = {"linf": t.LINF, "l1": t.L1, "l2": t.L2, "cosine": t.COSINE}
    assert numbers == NUMBERS
    assert NUMBERS[metric] == numbers[metric]


@every_metric
@pytest.mark.parametrize("width", WIDTHS)
def test_window_and_limit_hold_a_reach_with_its_roundings(metric, width):
    shape = geometry(lw.Rule(metric, 0.1), width, 0.0)
    grid = GRID[metric]
    assert shape.window >= grid + 1
    assert 2 * shape.window < 255, "codes wrap around at 256"
    error = 2.0**-52 * shape.clamp  # of two products, in code units
    assert shape.clamp + 1 < 2.0**53, "floor and the cast to an integer are exact"
    if metric == "linf":
        assert grid + error < shape.window
    elif metric == "l1":
        assert shape.limit >= grid + error * width
    else:
        assert shape.limit >= (grid + error * math.sqrt(width)) ** 2


@every_metric
@pytest.mark.parametrize("width", WIDTHS)
def test_sums_of_code_gaps_fit_in_sixteen_bits(metric, width):
    if metric == "linf":
        return
    shape = geometry(lw.Rule(metric, 0.1), width, 0.0)
    most = shape.window if metric == "l1" else shape.window**2
    assert shape.limit + 1 + codes._CHECK * most < 2**16


@every_metric
def test_one_coordinate_alone_can_be_out_of_reach(metric):
    shape = geometry(lw.Rule(metric, 0.1), 3, 0.0)
    if metric == "linf":
        assert shape.window < GRID[metric] * 1.2
    else:
        most = shape.window if metric == "l1" else shape.window**2
        assert most > shape.limit, "a gap is capped at the window, which the limit still admits"


@every_metric
def test_scales_follow_the_weights(metric):
    weights = np.array([4.0, 0.0, 0.25, 1e-100, 1e100])
    shape = geometry(lw.Rule(metric, 0.1, weights=weights.tolist()), 5, 0.0)
    gaps = {"linf": weights, "l1": weights, "l2": np.sqrt(weights)}.get(metric, weights > 0)
    gaps = np.asarray(gaps, dtype=float)
    prescale = np.sqrt(weights) if metric == "cosine" else np.ones(5)
    assert shape.gap_scale.tolist() == gaps.tolist()
    assert shape.prescale.tolist() == prescale.tolist()
    units = shape.code_scale[gaps > 0] * shape.tree_reach / shape.gap_scale[gaps > 0]
    assert (units <= GRID[metric] * (1 + 1e-15)).all(), "more code units than the window allows for"
    assert (units >= 0.8 * GRID[metric]).all()
    plain = geometry(lw.Rule(metric, 0.1), 5, 0.0)
    assert plain.gap_scale.tolist() == plain.prescale.tolist() == [1.0] * 5
    for array in (shape.gap_scale, shape.prescale, shape.code_scale):
        assert array.dtype == np.float64 and array.flags.c_contiguous


@every_metric
def test_a_coordinate_of_weight_zero_is_one_point_for_planes_and_codes(metric):
    shape = geometry(lw.Rule(metric, 0.1, weights=[0.0, 1.0, 0.0]), 3, 0.0)
    for j in (0, 2):
        assert shape.gap_scale[j] == shape.code_scale[j] == 0.0
        for value in (0.0, 1e308, -1e308):
            assert value * shape.code_scale[j] == 0.0
    assert shape.gap_scale[1] > 0 and shape.code_scale[1] > 0


@every_metric
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("weight", [1e-100, 1.0, 1e100])
def test_all_numbers_stay_finite_at_the_edges_of_what_a_rule_may_say(metric, epsilon, weight):
    shape = geometry(lw.Rule(metric, epsilon, weights=[weight, 0.0]), 2, 1.0)
    for number in (shape.reach, shape.tree_reach, shape.code_scale[0], shape.gap_scale[0]):
        assert np.isfinite(number) and number > 0
    assert np.isfinite(shape.tree_reach**2)


def rule_at(epsilon, weights):
    return lw.Rule("cosine", epsilon, weights=weights)


@every_metric
def test_a_sketch_measures_its_coordinates_as_the_whole_does(metric):
    weights = [4.0, 0.0, 0.25, 3.0, 1e-100, 1e100, 7.0]
    whole = geometry(lw.Rule(metric, 0.1, weights=weights), 7, 1e-9)
    for chosen in ([0], [6, 2], [5, 1, 3], [3, 2, 1, 0], range(7)):
        coordinates = np.array(chosen, dtype=np.int64)
        sketch = geometry(lw.Rule(metric, 0.1, weights=weights), 7, 1e-9, coordinates)
        assert (sketch.reach, sketch.tree_reach) == (whole.reach, whole.tree_reach)
        assert sketch.gap_scale.tolist() == whole.gap_scale[coordinates].tolist()
        assert sketch.prescale.tolist() == whole.prescale[coordinates].tolist()
        assert len(sketch.code_scale) == len(chosen)
        counts = sketch.gap_scale > 0
        units = sketch.code_scale[counts] * sketch.tree_reach / sketch.gap_scale[counts]
        assert (units <= GRID[metric] * (1 + 1e-15)).all() and (units >= 0.8 * GRID[metric]).all()
        assert not sketch.code_scale[~counts].any()


def test_near_directions_lie_within_the_straight_reach():
    seen = {"near": 0, "on the boundary": 0}

    @prove(
        200,
        seed=st.integers(0, 2**32 - 1),
        width=st.sampled_from((1, 2, 5, 64, 500)),
        apart=st.sampled_from((0.0, 1e-16, 1e-9, 1e-6, 1e-3, 1.0)),
        weighted=st.booleans(),
    )
    def holds(seed, width, apart, weighted):
        rng = np.random.default_rng(seed)
        listed = (10 ** rng.uniform(-2, 2, width)).tolist() if weighted else None
        x = rng.normal(size=width)
        others = (x + apart * rng.normal(size=(50, width))) * 10 ** rng.uniform(-60, 60, (50, 1))
        others[:5] = x * rng.uniform(0.1, 10, (5, 1))
        rule = lw.Rule("cosine", 1.0, weights=listed)
        distances = input_distances(rule, others, x)
        epsilon = max(float(rng.choice(distances)), 1e-150)
        shape = geometry(rule_at(epsilon, listed), width, 0.0)

        def place(points):
            norms = squared_norms(rule, points)[:, None]
            return points * np.sqrt(weights_of(rule, width)) * (1.0 / np.sqrt(norms))

        near = distances <= shape.reach
        gaps = place(others) - place(x[None])
        straight = np.sqrt(np.sum(gaps**2, axis=1))
        assert (straight[near] <= shape.tree_reach).all()
        some = rng.permutation(width)[: rng.integers(1, width, endpoint=True)]
        sketch = geometry(rule_at(epsilon, listed), width, 0.0, some)
        assert (sketch.reach, sketch.tree_reach) == (shape.reach, shape.tree_reach)
        assert (np.linalg.norm(gaps[:, some], axis=1)[near] <= sketch.tree_reach).all()
        seen["near"] += int(near.sum())
        seen["on the boundary"] += int((distances == epsilon).sum())

    assert min(seen.values()) >= 3, seen
