"""Distances and the two comparisons, each against a NumPy twin."""

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from kernels.calling import OUTPUT_KINDS, compiled, state_for
from likewise.kernels import distance, search
from likewise.kernels import table as t
from strategies import prove

SEEDS = st.integers(0, 2**32 - 1)
WIDTHS = st.sampled_from((1, 2, 3, 4, 5, 8, 31, 200))
SCALES = st.sampled_from((1.0, 1e-160, 1e-20, 1e20, 1e150, 1e300))
METRICS = {"linf": t.LINF, "l1": t.L1, "l2": t.L2, "cosine": t.COSINE}
KINDS = {"label": t.LABEL, "number": t.NUMBER, **OUTPUT_KINDS}

input_distance = compiled(distance.input_distance)
output_distance = compiled(distance.output_distance)
outputs_agree = compiled(distance.outputs_agree)
agreement = compiled(search._agreement)


@np.errstate(all="ignore")
def input_distance_twin(metric, x, y, weights, width, reach, x_norm, y_norm):
    counts = weights > 0
    x, y, weights = x[counts], y[counts], weights[counts]
    gaps = np.abs(x - y)
    if metric == t.LINF:
        whole = np.max(weights * gaps)
    elif metric == t.L1:
        whole = np.cumsum(weights * gaps)[-1]
    elif metric == t.L2:
        whole = np.sqrt(np.cumsum(weights * gaps * gaps)[-1])
    else:
        whole = max(0.0, 1.0 - np.cumsum(weights * x * y)[-1] / np.sqrt(x_norm * y_norm))
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
        norms = [np.cumsum(weights * v * v)[-1] if metric == "cosine" else 1.0 for v in (x, y)]
        whole = input_distance_twin(METRICS[metric], x, y, weights, width, np.inf, *norms)
        for reach in (whole, np.nextafter(whole, 0.0), np.nan_to_num(whole * pick), 0.0):
            given = (METRICS[metric], x, y, weights, width, reach, *norms)
            twin, found = input_distance_twin(*given), input_distance(*given)
            if twin == np.inf:  # beyond the reach the whole distance is as good
                assert found > reach or whole == reach == np.inf
                assert found in (whole, np.inf)
                seen["far"] += 1
            else:
                assert found == twin
                seen["near"] += 1

    assert min(seen.values()) >= 3, seen


@pytest.mark.parametrize("metric", METRICS)
def test_input_distance_is_symmetric_and_zero_on_itself(metric):
    @prove(50, seed=SEEDS, width=WIDTHS)
    def holds(seed, width):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2, width))
        weights = rng.uniform(0.1, 10, width)
        x_norm, y_norm = (np.cumsum(weights * v * v)[-1] for v in (x, y))
        measure = METRICS[metric]
        there = input_distance(measure, x, y, weights, width, np.inf, x_norm, y_norm)
        back = input_distance(measure, y, x, weights, width, np.inf, y_norm, x_norm)
        if metric == "cosine":  # w x y and w y x round apart
            assert there == pytest.approx(back, abs=1e-12)
        else:
            assert there == back
        assert input_distance(measure, x, x, weights, width, 0.0, x_norm, x_norm) == 0.0


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
    given, numbers = state.desk.small[t.GIVEN], state._settings[t.NUMBERS]

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
        state.desk.small[t.GIVEN][0] = 5.0
        assert agreement(state.table) == (5.0, 5.0)
    state = state_for(lw.Rule("linf", 1.0, delta=1.0), 1)
    assert agreement(state.table) == (-np.inf, np.inf)
