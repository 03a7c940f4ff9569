"""Distances and the two comparisons, each against a NumPy twin."""

from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.search.kernels import distance, search
from likewise.search.kernels import table as t
from likewise.search.kernels.table import CHUNK
from tests.search.kernels.calling import OUTPUT_KINDS, compiled, state_for
from tests.search.kernels.twins import lane_sum
from tests.support.strategies import prove

SEEDS = st.integers(0, 2**32 - 1)
WIDTHS = st.sampled_from((1, 2, 3, 4, 5, 8, 31, CHUNK - 1, CHUNK, CHUNK + 1, 200))
SCALES = st.sampled_from((1.0, 1e-160, 1e-20, 1e20, 1e150, 1e300))
METRICS = {"linf": t.LINF, "l1": t.L1, "l2": t.L2, "cosine": t.COSINE}
KINDS = {"label": t.LABEL, "number": t.NUMBER, **OUTPUT_KINDS}

kernel = compiled(distance.input_distance)
largest = compiled(distance.largest)
gap_terms = compiled(distance.gap_terms)
output_distance = compiled(distance.output_distance)
outputs_agree = compiled(distance.outputs_agree)
agreement = compiled(search.agreeing_interval)
agrees = compiled(search.must_agree)

kept_state = cache(lambda metric, width, storage: state_for(lw.Rule(metric, 1.0), width, storage))


def input_distance(metric, x, y, weights, reach, storage="float64", row=5):
    """The distance from a query x to a stored row y."""
    width = len(x)
    state = kept_state(metric, width, storage)
    state.history.weights[:width] = weights
    query = state.scratch.small[t.QUERY]
    query[:width] = x
    assert not query[width:].any(), "sums in eight lanes run over the end of an input"
    state.history.rows[row] = y
    norm = 1.0
    if metric == "cosine":
        norm = lane_sum(weights * x * x)
        state.region(t.NORMS).view(float, row + 1)[row] = lane_sum(weights * y * y)
    state.scratch.small[t.PART][:] = np.nan
    return kernel(state.table, row, reach, norm)


@np.errstate(all="ignore")
def terms_twin(metric, x, y, weights):
    if metric == "cosine":
        return weights * x * y
    gaps = np.where(weights > 0, np.abs(x - y), 0.0)
    return weights * gaps * gaps if metric == "l2" else weights * gaps


@np.errstate(all="ignore")
def input_distance_twin(metric, x, y, weights, reach):
    terms = terms_twin(metric, x, y, weights)
    if metric == "linf":
        whole = np.max(terms)
    elif metric == "l1":
        whole = lane_sum(terms)
    elif metric == "l2":
        whole = np.sqrt(lane_sum(terms))
    else:
        norm, row_norm = lane_sum(weights * x * x), lane_sum(weights * y * y)
        whole = max(0.0, 1.0 - lane_sum(terms) / np.sqrt(norm * row_norm))
    return whole if whole <= reach else np.inf


def output_distance_twin(kind, z, others, at, width):
    gaps = np.abs(z[:width] - others[at : at + width])
    return {
        t.LABEL: lambda: float(gaps[0] != 0),
        t.NUMBER: lambda: gaps[0],
        t.OUT_LINF: gaps.max,
        t.OUT_L1: lambda: np.cumsum(gaps)[-1],
        t.OUT_L2: lambda: np.sqrt(np.cumsum(gaps * gaps)[-1]),
        t.OUT_TV: lambda: 0.5 * np.cumsum(gaps)[-1],
    }[kind]()


def weights_of(rng, width):
    weights = rng.choice([0.0, 1.0, 0.3, 1e-100, 1e100], size=width)
    weights[rng.integers(width)] = 1.0
    return weights


@pytest.mark.parametrize("metric", METRICS)
def test_input_distance_equals_its_twin_to_the_last_bit(metric):
    seen = {"near": 0, "far": 0}

    @prove(100, seed=SEEDS, width=WIDTHS, scale=SCALES, plain=st.booleans(), pick=st.floats(0, 2))
    @np.errstate(over="ignore", invalid="ignore")
    def holds(seed, width, scale, plain, pick):
        rng = np.random.default_rng(seed)
        if metric == "cosine":
            scale = min(max(scale, 1e-30), 1e30)
        x, y = rng.normal(size=(2, width)) * scale
        weights = np.ones(width) if plain or metric == "cosine" else weights_of(rng, width)
        whole = input_distance_twin(metric, x, y, weights, np.inf)
        for reach in (whole, np.nextafter(whole, 0.0), np.nan_to_num(whole * pick), 0.0):
            given = (metric, x, y, weights, reach)
            twin, found = input_distance_twin(*given), input_distance(*given)
            if twin == np.inf:  # beyond the reach the whole distance is as good
                assert found > reach or whole == reach == np.inf
                assert found in (whole, np.inf)
                seen["far"] += 1
            else:
                assert found == twin
                seen["near"] += 1

    assert min(seen.values()) >= 3, seen


@pytest.mark.parametrize("storage", ["float32", "int8", "uint8", "int16", "uint32", "int64"])
@pytest.mark.parametrize("metric", METRICS)
def test_input_distance_reads_every_storage_type(metric, storage):
    @prove(15, seed=SEEDS, width=WIDTHS)
    def holds(seed, width):
        rng = np.random.default_rng(seed)
        x, y = rng.integers(1, 100, (2, width)).astype(float)
        if storage == "float32":
            x, y = rng.normal(size=(2, width)).astype(np.float32).astype(float)
        weights = rng.uniform(0.1, 10, width)
        twin = input_distance_twin(metric, x, y, weights, np.inf)
        assert input_distance(metric, x, y, weights, twin, storage) == twin


@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
def test_every_coordinate_counts_and_is_added_in_its_lane(metric):
    """One gap of its own in each coordinate: none is skipped, none is taken for another."""
    for width in (1, 7, 8, 9, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5):
        x, weights = np.zeros(width), np.ones(width)
        for j in range(width):
            y = np.zeros(width)
            y[j] = 3.0
            assert input_distance(metric, x, y, weights, 3.0) == 3.0
            assert input_distance(metric, x, y, weights, 2.999) == np.inf
        y = 0.1 * 3.0 ** (np.arange(width) % 7)
        twin = input_distance_twin(metric, x, y, weights, np.inf)
        assert input_distance(metric, x, y, weights, np.inf) == twin


@pytest.mark.parametrize("metric", METRICS)
def test_input_distance_is_symmetric_and_zero_on_itself(metric):
    @prove(50, seed=SEEDS, width=WIDTHS)
    def holds(seed, width):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2, width))
        weights = rng.uniform(0.1, 10, width)
        there = input_distance(metric, x, y, weights, np.inf)
        back = input_distance(metric, y, x, weights, np.inf)
        if metric == "cosine":  # w x y and w y x round apart
            assert there == pytest.approx(back, abs=1e-12)
        else:
            assert there == back
        assert input_distance(metric, x, x, weights, 0.0) == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_gap_terms_equal_their_twin_and_a_weight_of_zero_hides_an_overflow(metric):
    @prove(60, seed=SEEDS, width=WIDTHS, scale=SCALES)
    @np.errstate(over="ignore", under="ignore")
    def holds(seed, width, scale):
        rng = np.random.default_rng(seed)
        if metric == "cosine":
            scale = min(max(scale, 1e-30), 1e30)
        x, y = rng.normal(size=(2, width)) * scale
        weights = np.ones(width) if metric == "cosine" else weights_of(rng, width)
        if metric != "cosine":
            hidden = weights == 0
            x[hidden], y[hidden] = 1.7e308, -1.7e308
        out = np.append(y, 7.0)
        gap_terms(METRICS[metric], x, out, weights, width)
        assert out.tolist() == [*terms_twin(metric, x, y, weights).tolist(), 7.0]


def test_largest_is_the_largest_of_the_first_few():
    @prove(100, values=st.lists(st.floats(0, allow_nan=False), max_size=20))
    def holds(values):
        assert largest(np.array([*values, np.inf]), len(values)) == max([0.0, *values])


def test_near_is_a_closed_ball_and_different_is_strict():
    is_near, is_different = compiled(distance.is_near), compiled(distance.is_different)
    for bound in (0.0, 1e-150, 0.1, 1e150):
        above, below = np.nextafter(bound, np.inf), np.nextafter(bound, -np.inf)
        assert is_near(bound, bound) and is_near(below, bound) and not is_near(above, bound)
        assert not is_different(bound, bound) and not is_different(below, bound)
        assert is_different(above, bound)
    for bound in (0.0, np.inf):
        assert not is_near(np.nan, bound), "a distance that is no number is not near"


def some_outputs(rng, kind, count, width):
    if kind == t.LABEL:
        return rng.integers(0, 3, (count, 1)).astype(float)
    if kind == t.NUMBER:
        return rng.normal(size=(count, 1)) * rng.choice([1.0, 1e-300, 1e200])
    return rng.dirichlet(np.full(width, 0.5), count)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_output_distance_equals_its_twin_to_the_last_bit(kind):
    @prove(100, seed=SEEDS, width=st.integers(1, 20), at=st.integers(0, 3))
    def holds(seed, width, at):
        width = width if kind >= t.OUT_LINF else 1
        z, other = some_outputs(np.random.default_rng(seed), kind, 2, width)
        others = np.concatenate([np.full(at, 7.0), other, [7.0]])
        found = output_distance(kind, z, others, at, width)
        assert found == output_distance_twin(kind, z, others, at, width)
        assert output_distance(kind, z, z, 0, width) == 0.0


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_outputs_agree_only_if_none_between_low_and_high_differs(kind):
    seen = {True: 0, False: 0}

    @prove(150, seed=SEEDS, width=st.integers(1, 6), beside=st.sampled_from((-1, 0, 1)))
    def holds(seed, width, beside):
        rng = np.random.default_rng(seed)
        width = width if kind >= t.OUT_LINF else 1
        past = some_outputs(rng, kind, rng.choice([1, 2, 5]), width)
        z = some_outputs(rng, kind, 1, width)[0]
        if rng.random() < 0.3:
            z = past[0]
        low, high = past.min(axis=0), past.max(axis=0)
        corners = [np.where(rng.random(width) < 0.5, low, high) for _ in range(20)]
        inside = [low + rng.random(width) * (high - low) for _ in range(20)]
        everything = [*past, *corners, *np.clip(inside, low, high)]
        apart = [output_distance_twin(kind, z, other, 0, width) for other in everything]
        delta = max(apart)  # the farthest corner lies exactly on the boundary, or just beyond it
        delta = float(np.nextafter(delta, np.inf * beside)) if beside else float(delta)
        delta = max(delta, 0.0)
        padded = [np.concatenate([np.full(2 * width, 9.0), side]) for side in (low, high)]
        agree = outputs_agree(kind, z, *padded, 2 * width, width, np.zeros(width), delta)
        seen[bool(agree)] += 1
        assert not agree or max(apart) <= delta
        if len(past) == 1:
            assert agree == (max(apart) <= delta), "a range of one output is that output"

    assert min(seen.values()) >= 1, seen


def test_agreement_holds_only_numbers_that_do_not_differ():
    rule = lw.Rule("linf", 1.0, output="number")
    state = state_for(rule, 1)
    given, numbers = state.scratch.small[t.GIVEN], state._settings[t.NUMBERS]

    @prove(
        300,
        z=st.floats(allow_nan=False, allow_infinity=False),
        delta=st.floats(0.0, allow_nan=False, allow_infinity=False),
        share=st.floats(0.0, 1.0),
    )
    @np.errstate(over="ignore", invalid="ignore")
    def holds(z, delta, share):
        given[0], numbers[t.DELTA] = z, delta
        lowest, highest = agreement(state.table)
        between = lowest + share * (highest - lowest)
        for value in (lowest, highest, between):
            if np.isfinite(value) and lowest <= value <= highest:
                assert output_distance(t.NUMBER, given, np.array([value]), 0, 1) <= delta
        if delta == 0.0:
            assert lowest == highest == z, "an equal output agrees"
        elif np.nextafter(abs(z), np.inf) - abs(z) < delta / 4:
            assert lowest <= z <= highest, "and so does one well within delta"


def test_agreement_of_labels_is_equality_until_delta_is_one():
    for delta in (0.0, 0.999):
        state = state_for(lw.Rule("linf", 1.0, delta=delta), 1)
        state.scratch.small[t.GIVEN][0] = 5.0
        assert agreement(state.table) == (5.0, 5.0)
    state = state_for(lw.Rule("linf", 1.0, delta=0.5), 1)
    state._settings[t.NUMBERS][t.DELTA] = 1.0  # which no rule has
    assert agreement(state.table) == (-np.inf, np.inf)


def test_a_node_agrees_as_its_outputs_do():
    """Single numbers are asked of `agreement`, vectors of their corner; without a range, no."""
    seen = {True: 0, False: 0}
    states = {
        (output, width): state_for(lw.Rule("linf", 1.0, output=output), 1, out_width=width)
        for output, width in (("number", 1), ("probabilities", 3), ("probabilities", 17))
    }

    @prove(
        150, seed=SEEDS, which=st.sampled_from(sorted(states)), beside=st.sampled_from((-1, 0, 1))
    )
    def holds(seed, which, beside):
        rng, state, node = np.random.default_rng(seed), states[which], 3
        output, width = which
        kind = t.NUMBER if output == "number" else t.OUT_LINF
        past, (z,) = some_outputs(rng, kind, 3, width), some_outputs(rng, kind, 1, width)
        if rng.random() < 0.3:
            past[:] = z = past[0]
        state.scratch.small[t.GIVEN][:] = z
        low, high = past.min(axis=0), past.max(axis=0)
        corner = np.where(np.abs(z - low) > np.abs(z - high), low, high)
        delta = output_distance_twin(kind, z, corner, 0, width)
        delta = max(0.0, float(np.nextafter(delta, np.inf * beside) if beside else delta))
        state._settings[t.NUMBERS][t.DELTA] = delta
        for slot, side in ((t.LOW, low), (t.HIGH, high)):
            if width <= 16:
                ranges = state.region(slot).view(float, 4 * width).reshape(4, width)
                ranges[:] = 9.0
                ranges[node] = side
        said = agrees(state.table, node, *agreement(state.table))
        seen[bool(said)] += 1
        if said:
            assert width <= 16, "outputs this long have no range"
            assert all(output_distance_twin(kind, z, other, 0, width) <= delta for other in past)

    assert min(seen.values()) >= 5, seen
