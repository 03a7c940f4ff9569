"""Where a block is parted: the median, the plane, the coordinate; and boxes rounded outwards."""

import numpy as np
from hypothesis import strategies as st

from likewise.search.kernels import split
from likewise.search.kernels.table import BLOCK
from tests.search.kernels.calling import compiled
from tests.support.strategies import prove

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = st.sampled_from((2, 3, 5, 64, BLOCK, BLOCK + 1))
FINITE = st.floats(allow_nan=False, allow_infinity=False)

median = compiled(split.median)
choose_split = compiled(split.choose_split)
choose_axis = compiled(split.choose_axis)
round_down = compiled(split.round_down)
round_up = compiled(split.round_up)


def some_keys(rng, count):
    """Keys with few or many ties, of ordinary or extreme size."""
    kinds = rng.choice([2, 3, 10, 1_000])
    values = rng.normal(size=kinds) * rng.choice([1.0, 1e-310, 1e300])
    shares = rng.dirichlet(np.full(kinds, rng.choice([0.05, 1.0])))
    return rng.choice(values, size=count, p=shares)


def test_median_is_the_value_in_the_middle_and_keeps_all_keys():
    @prove(200, seed=SEEDS, count=st.integers(1, BLOCK + 1), order=st.sampled_from((1, -1, 0)))
    def holds(seed, count, order):
        keys = some_keys(np.random.default_rng(seed), count)
        if order:
            keys = np.sort(keys)[::order].copy()
        given = np.append(keys, np.nan)
        assert median(given, count) == np.sort(keys)[count // 2]
        assert np.sort(given[:count]).tolist() == np.sort(keys).tolist()


def assert_parts_well(keys):
    """Both sides have points, and no other plane parts them more evenly."""
    count = len(keys)
    split = choose_split(keys.copy(), count)
    below = int(np.sum(keys < split))
    assert split in keys
    assert 0 < below < count, f"{below} of {count} keys lie below {split}"
    planes = np.unique(keys)[1:]
    best = min(abs(int(np.sum(keys < plane)) - count // 2) for plane in planes)
    assert abs(below - count // 2) == best


def test_choose_split_has_points_on_both_sides_as_evenly_as_possible():
    @prove(200, seed=SEEDS, count=COUNTS)
    def holds(seed, count):
        keys = some_keys(np.random.default_rng(seed), count)
        if keys.min() < keys.max():
            assert_parts_well(keys)


def test_choose_split_parts_a_single_odd_one_out():
    for count in (2, 3, 64, BLOCK, BLOCK + 1):
        for odd in (-1.0, 1.0):
            for at in (0, count // 2, count - 1):
                keys = np.zeros(count)
                keys[at] = odd
                assert_parts_well(keys)


def choose_axis_twin(points, gap_scale, unit):
    """Variances as the metric weighs them, and which coordinates can be parted at all."""
    parted = (gap_scale > 0) & (points.min(axis=0) < points.max(axis=0))
    with np.errstate(all="ignore"):
        return np.var(points * (gap_scale / unit), axis=0), parted


def test_choose_axis_takes_the_largest_weighted_variance():
    seen = {"none": 0, "some": 0}

    @prove(
        200,
        seed=SEEDS,
        count=COUNTS,
        width=st.sampled_from((1, 2, 3, 8, 40)),
        constant=st.sampled_from((0.0, 0.5, 1.0)),
    )
    def holds(seed, count, width, constant):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(count, width)) * 10 ** rng.uniform(-3, 3, width)
        points += rng.choice([0.0, 1e3], size=width)
        still = rng.random(width) < constant
        points[:, still] = points[0, still]
        gap_scale = rng.choice([0.0, 1.0, 0.01, 30.0], size=width)
        given = np.concatenate([points.ravel(), np.full(width, np.nan)])
        axis = choose_axis(given, count, width, gap_scale, 0.3)
        variances, parted = choose_axis_twin(points, gap_scale, 0.3)
        seen["some" if parted.any() else "none"] += 1
        if not parted.any():
            assert axis == -1
        else:
            assert parted[axis], "the chosen coordinate counts, and its values differ"
            assert variances[axis] >= np.max(variances[parted]) * (1 - 1e-9)

    assert min(seen.values()) >= 1, seen


def test_choose_axis_finds_a_coordinate_that_differs_at_any_magnitude():
    @prove(
        200,
        seed=SEEDS,
        width=st.sampled_from((1, 2, 8)),
        unit=st.sampled_from((1.0, 1e-150, 1e150)),
        size=st.sampled_from((1e-310, 1e-300, 1e-150, 1.0, 1e150, 1e307, 1.7e308)),
    )
    def holds(seed, width, unit, size):
        rng = np.random.default_rng(seed)
        points = rng.uniform(-1, 1, (BLOCK, width)) * size
        still = rng.random(width) < 0.5
        points[:, still] = points[0, still]
        gap_scale = rng.choice([0.0, 1.0, 1e-100, 1e100], size=width)
        axis = choose_axis(points.ravel(), BLOCK, width, gap_scale, unit)
        _, parted = choose_axis_twin(points, gap_scale, unit)
        assert parted[axis] if parted.any() else axis == -1


def test_choose_axis_finds_a_difference_of_one_rounding_step():
    for big in (1.0, 1e150, 1e308):
        points = np.full((BLOCK, 3), big)
        points[77, 1] = np.nextafter(big, 0)
        for unit in (1e-150, 1.0, 1e150):
            assert choose_axis(points.ravel(), BLOCK, 3, np.ones(3), unit) == 1
            assert choose_axis(points.ravel(), BLOCK, 3, np.array([1.0, 0, 1]), unit) == -1


def test_boxes_are_rounded_outwards_by_at_most_one_step():
    @prove(300, value=FINITE | st.floats(width=32, allow_nan=False, allow_infinity=False))
    @np.errstate(over="ignore")
    def holds(value):
        value = np.float64(value)
        low, high = np.float32(round_down(value)), np.float32(round_up(value))
        assert np.float64(low) <= value <= np.float64(high)
        assert np.float64(np.nextafter(low, np.float32(np.inf))) > value
        assert np.float64(np.nextafter(high, np.float32(-np.inf))) < value


def test_values_that_a_box_can_hold_are_kept_as_they_are():
    for value in (0.0, -0.0, 1.0, -2.5, 3.4028234663852886e38, 1e-45):
        single = np.float64(np.float32(value))
        assert round_down(single) == single == round_up(single)
