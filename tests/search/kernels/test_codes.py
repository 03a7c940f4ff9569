"""Codes discard, and never what is near: the claims of search/kernels/codes.py, attacked.

Epsilon is the computed distance of a real pair (or a rounding step beside it), so that some point
lies exactly on the boundary in every example. Magnitudes, weights and places are chosen to be hard
on floor and clamp: beside cell boundaries, across zero, around the clamp, up to 1e300.
"""

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.search.geometry import METRICS as NUMBERS
from likewise.search.geometry import geometry
from likewise.search.kernels import codes
from likewise.search.kernels import table as t
from likewise.search.kernels.table import BLOCK
from tests.search.kernels.calling import compiled
from tests.search.kernels.twins import positions_of
from tests.support.oracle import input_distances, weights_of
from tests.support.strategies import METRICS, prove

SEEDS = st.integers(0, 2**32 - 1)
WIDTHS = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 9, 33, 200))
PLACES = st.sampled_from(
    (
        "origin",
        "one",
        "beside zero",
        "random",
        "boundary",
        "clamp",
        "beyond the clamp",
        "huge",
        "tiny",
    )
)

code_of = compiled(codes.code_of)
encode = compiled(codes.encode)
scan_box = compiled(codes.scan_box)
scan_sum = compiled(codes.scan_sum)


# What the kernels do, in NumPy


@np.errstate(over="ignore", under="ignore")
def codes_twin(points, scale, clamp):
    units = np.clip(points * scale, -clamp, clamp)
    return (np.floor(units).astype(np.int64) % 256).astype(np.uint8)


def gaps_twin(lanes, query):
    ahead = (lanes.astype(int) - query.astype(int)[:, None]) % 256
    return np.minimum(ahead, 256 - ahead)


def scan_box_twin(lanes, query, window, count):
    """The points kept, and how many coordinates were looked at; negative if no point is left."""
    left = np.arange(BLOCK) < count
    for j, gaps in enumerate(gaps_twin(lanes, query)):
        left &= gaps <= window
        if (j + 1) % codes._CHECK == 0 and not left.any():
            return left, -(j + 1)
    return left, len(query)


def scan_sum_twin(lanes, query, window, limit, square, count):
    sums = np.where(np.arange(BLOCK) < count, 0, limit + 1)
    gaps = np.minimum(np.maximum(gaps_twin(lanes, query) - 1, 0), window)
    for j, added in enumerate(gaps * gaps if square else gaps):
        sums += added
        last = j + 1 == len(query)
        if ((j + 1) % codes._CHECK == 0 or last) and not (sums <= limit).any():
            return sums <= limit, -(j + 1)
    return sums <= limit, len(query)


def scan(metric, lanes, query, window, limit, count):
    """The points that the kernel keeps of a block, as booleans, and what it answers."""
    width = len(query)
    lanes = np.ascontiguousarray(lanes)
    mask = np.full(BLOCK, 9, dtype=np.uint8)
    if metric == t.LINF:
        looked = scan_box(lanes.ctypes.data, query, width, window, count, mask)
    else:
        sums = np.full(BLOCK, 999, dtype=np.uint16)
        square = metric != t.L1
        looked = scan_sum(lanes.ctypes.data, query, width, window, limit, square, count, sums, mask)
    assert looked < 0 or set(np.unique(mask)) <= {0, 1}
    return (mask.astype(bool) if looked > 0 else np.zeros(BLOCK, dtype=bool)), looked


@pytest.mark.parametrize("metric", [t.LINF, t.L1, t.L2])
def test_scan_equals_its_twin(metric):
    kept, seen = [], {"abandoned": 0, "early": 0}

    @prove(
        80,
        seed=SEEDS,
        width=WIDTHS,
        window=st.sampled_from((0, 1, 17, 33, 65, 100)),
        limit=st.sampled_from((0, 16, 65, 1_025, 5_000, 60_000)),
        count=st.sampled_from((0, 1, 64, 127, BLOCK)),
        near=st.sampled_from((3, 20, 80, 256)),
    )
    def holds(seed, width, window, limit, count, near):
        most = window * window if metric == t.L2 else window
        limit = min(limit, 2**16 - 2 - codes._CHECK * most)  # so much a sum can hold
        rng = np.random.default_rng(seed)
        query = rng.integers(0, 256, width).astype(np.uint8)
        steps = rng.integers(-near, near, (width, BLOCK), endpoint=True)
        lanes = ((query[:, None] + steps) % 256).astype(np.uint8)
        if metric == t.LINF:
            twin, looks = scan_box_twin(lanes, query, window, count)
        else:
            twin, looks = scan_sum_twin(lanes, query, window, limit, metric == t.L2, count)
        found, looked = scan(metric, lanes, query, window, limit, count)
        assert found.tolist() == twin.tolist()
        assert looked == looks
        kept.append(twin.sum() / max(count, 1))
        seen["abandoned"] += looks < 0
        seen["early"] += 0 < -looks < width

    assert min(kept) < 1 and max(kept) > 0
    assert min(seen.values()) >= 3, seen


def test_encode_equals_its_twin():
    @prove(
        100, seed=SEEDS, width=WIDTHS, scale=st.sampled_from((0.0, 1e-200, 1.0, 16 / 0.3, 1e200))
    )
    def holds(seed, width, scale):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=width) * 10 ** rng.choice([-300.0, -17.0, 0.0, 15.0, 307.0], width)
        out = np.zeros(width, dtype=np.uint8)
        clamp = float(rng.choice([2.0**40, 2.0**48]))
        encode(points, np.full(width, scale), clamp, width, out)
        twin = codes_twin(points, scale, clamp)
        assert out.tolist() == twin.tolist()
        assert [code_of(p, scale, clamp) for p in points] == twin.tolist()


# The claim: nothing near is lost


def weights_for(rng, kind, width):
    if kind == "none":
        return None
    weights = 10 ** rng.uniform(-3, 3, width)
    if kind == "extreme":
        weights = rng.choice([1e-100, 1e-30, 1.0, 1e30, 1e100], size=width)
    if kind == "zeros":
        weights[rng.random(width) < 0.5] = 0.0
        weights[rng.integers(width)] = 1.5
    return weights.tolist()


def base(rng, place, width, metric, step):
    """A point that is awkward to code when the reach is about `step`."""
    signs = rng.choice([-1.0, 1.0], size=width)
    if metric == "cosine":  # positions lie on the unit sphere: only directions matter
        x = rng.normal(size=width)
        x[rng.random(width) < 0.3] = rng.choice([0.0, 1e-17, -1e-17, 1.0])
        x[rng.integers(width)] = rng.choice([1.0, -1.0])
        return x * 10.0 ** rng.choice([-60, -3, 0, 3, 60])
    if place == "origin":
        return np.zeros(width)
    if place == "one":
        return signs
    if place == "beside zero":
        return signs * rng.choice([1e-17, 5e-324, 1e-300, 0.0], size=width)
    if place == "boundary":  # whole multiples of the reach, and fractions that a grid would use
        return signs * step * rng.integers(0, 50, width) / rng.choice([1, 16, 32, 64])
    if place == "clamp":
        units = 2.0 ** rng.choice([36, 39, 40, 41, 44, 47, 48, 49], size=width)
        return signs * np.minimum(units * step / 16, 1e300) * rng.uniform(0.9, 1.1, width)
    if place == "beyond the clamp":
        return signs * np.minimum(step * 10.0 ** rng.uniform(20, 60, width), 1e300)
    if place == "huge":
        return signs * 10 ** rng.uniform(290, 300, width)
    if place == "tiny":
        return signs * step * 10 ** rng.uniform(-20, -1, width)
    return rng.normal(size=width) * 10 ** rng.uniform(-3, 3)


def offsets(rng, metric, weights, width, step, how):
    """BLOCK offsets of weighted length about `step`: in one coordinate, in a few, in all."""
    directions = rng.normal(size=(BLOCK, width))
    directions[: BLOCK // 3] = np.eye(width)[rng.integers(width, size=BLOCK // 3)]
    some = slice(BLOCK // 3, BLOCK // 2)
    directions[some] *= rng.random((BLOCK // 2 - BLOCK // 3, width)) < 0.3
    directions[BLOCK // 2 : BLOCK // 2 + 20] = rng.choice([-1.0, 1.0], size=(20, width))
    directions *= rng.choice([-1.0, 1.0], size=(BLOCK, 1))
    power = 0.5 if metric in ("l2", "cosine") else 1.0
    scale = np.where(weights > 0, np.where(weights > 0, weights, 1.0) ** power, 0.0)
    directions = np.where(scale > 0, directions / np.where(scale > 0, scale, 1.0), directions)
    lengths = np.abs(directions * scale)
    norms = {
        "linf": lengths.max(axis=1),
        "l1": lengths.sum(axis=1),
    }.get(metric, np.sqrt((lengths**2).sum(axis=1)))
    norms[norms == 0] = 1.0
    sizes = step * rng.choice([1.0, 1 - 1e-16, 1 + 1e-15, 1 - 1e-9, 0.999, 0.5], size=BLOCK)
    if how == "spread":
        sizes *= rng.uniform(0.5, 1.5, BLOCK)
    return directions / norms[:, None] * sizes[:, None]


def block_of(shape, points):
    """The block's codes, coordinate by coordinate, made by the kernel."""
    width = points.shape[1]
    lanes = np.zeros((width, BLOCK), dtype=np.uint8)
    out = np.zeros(width, dtype=np.uint8)
    for i, point in enumerate(points):
        encode(point, shape.code_scale, shape.clamp, width, out)
        lanes[:, i] = out
    return lanes


def kept_by_codes(rule, x, others, coordinates=None):
    """Which of up to BLOCK stored inputs the codes keep for the query x."""
    shape = geometry(rule, len(x), 0.0, coordinates)
    chosen = slice(None) if coordinates is None else coordinates
    weights = weights_of(rule, len(x))
    places = positions_of(rule.metric, weights, np.concatenate([x[None], others]))[:, chosen]
    places = np.ascontiguousarray(places)
    query = np.zeros(places.shape[1], dtype=np.uint8)
    encode(places[0], shape.code_scale, shape.clamp, len(query), query)
    lanes, metric = block_of(shape, places[1:]), NUMBERS[rule.metric]
    kept, _ = scan(metric, lanes, query, shape.window, shape.limit, len(others))
    return kept[: len(others)]


@pytest.mark.parametrize("metric", METRICS)
def test_codes_keep_everything_near(metric):
    seen = {"near": 0, "on the boundary": 0, "across zero": 0}

    @prove(
        150,
        seed=SEEDS,
        width=WIDTHS,
        place=PLACES,
        kind=st.sampled_from(("none", "random", "zeros", "extreme")),
        size=st.sampled_from((1.0, 0.1, 1 / 3, 1e-6, 1e-149, 1e-30, 1e30, 1e149)),
        beside=st.sampled_from((0, 0, 0, 1, -1)),
        how=st.sampled_from(("boundary", "spread")),
    )
    @np.errstate(over="ignore", under="ignore", invalid="ignore")
    def holds(seed, width, place, kind, size, beside, how):
        rng = np.random.default_rng(seed)
        if metric == "cosine":
            kind = "random" if kind == "extreme" else kind
            size = float(rng.choice([1e-12, 1e-8, 1e-4, 0.1, 1.0]))
        listed = weights_for(rng, kind, width)
        weights = np.ones(width) if listed is None else np.array(listed)
        x = base(rng, place, width, metric, size)
        if metric == "cosine":
            x[0] = x[0] if np.sum(weights * x * x) > 0 else 1.0
            length = np.sqrt(np.sum(weights * x * x))
            if length == 0:
                return
            others = x + length * offsets(rng, metric, weights, width, size, how)
            others *= 10 ** rng.uniform(-3, 3, (BLOCK, 1))
            norms = np.sum(weights * others * others, axis=1)
            others[~((norms > 1e-140) & (norms < 1e140))] = x
        else:
            others = x + offsets(rng, metric, weights, width, size, how)
            others = np.clip(np.nan_to_num(others), -1.7e308, 1.7e308)
        unit = lw.Rule(metric, 1.0, weights=listed)
        distances = input_distances(unit, others, x)
        usable = np.flatnonzero((distances >= 1e-149) & (distances <= 1e149))
        if not usable.size:
            return
        epsilon = float(distances[rng.choice(usable)])
        if beside:
            epsilon = float(np.nextafter(epsilon, np.inf * beside))
        rule = lw.Rule(metric, epsilon, weights=listed, slack=0)
        near = input_distances(rule, others, x) <= epsilon
        some = np.sort(rng.permutation(width)[: rng.integers(1, width, endpoint=True)])
        for sketched in (None, some):
            lost = np.flatnonzero(near & ~kept_by_codes(rule, x, others, sketched))
            assert not lost.size, f"{x} and {others[lost[0]]} at {distances[lost[0]]} of {epsilon}"
        seen["near"] += int(near.sum())
        seen["on the boundary"] += int((distances[near] >= epsilon * (1 - 1e-15)).sum())
        seen["across zero"] += int((near[:, None] & (others * x < 0)).any(axis=1).sum())

    assert min(seen.values()) >= 5, seen


@pytest.mark.parametrize(("metric", "grid"), [("linf", 16), ("l1", 64), ("l2", 32)])
def test_codes_keep_pairs_where_products_round_worst(metric, grid):
    """Across a power of two not far below the clamp, a reach crosses one cell too many."""
    rng, most = np.random.default_rng(0), 0
    for _ in range(1_500):
        epsilon = float(rng.integers(33, 4_096)) * 2.0 ** int(rng.integers(-26, 14))
        shape = geometry(lw.Rule(metric, epsilon, slack=0), 1, 0.0)
        scale, clamp = shape.code_scale[0], shape.clamp
        units = clamp * 2.0 ** -int(rng.integers(1, 5)) + rng.uniform(-1, grid + 1, 400)
        x = units / scale
        y = x - epsilon
        near = np.abs(x - y) <= epsilon
        a, b = codes_twin(x[near], scale, clamp), codes_twin(y[near], scale, clamp)
        gaps = np.minimum(a - b, b - a).astype(int)  # modulo 256
        most = max(most, int(gaps.max(initial=0)))
        if metric == "linf":
            assert (gaps <= shape.window).all()
        else:
            gaps = np.minimum(np.maximum(gaps - 1, 0), shape.window)
            assert (gaps ** (1 if metric == "l1" else 2) <= shape.limit).all()
    assert most == grid + 1, "the worst case did not occur"


@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
def test_codes_keep_a_pair_that_rounding_brings_within_reach(metric):
    for x, y in ((1.0, -1e-17), (-1.0, 1e-17), (-1e-17, 1.0), (1.0, -5e-324), (0.0, 1.0)):
        for scale in (1.0, 3.0, 0.1, 1e150, 1e-149):
            x_scaled, y_scaled = np.array([x * scale]), np.array([[y * scale]])
            epsilon = float(input_distances(lw.Rule(metric, 1.0), y_scaled, x_scaled)[0])
            rule = lw.Rule(metric, epsilon, slack=0)
            assert kept_by_codes(rule, x_scaled, y_scaled).all(), (x, y, scale)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("width", [1, 2, 3, 16, 200])
def test_codes_discard_what_is_clearly_out_of_reach(metric, width):
    """A filter that keeps everything is no filter."""
    if metric == "cosine" and width == 1:
        return  # two directions only
    rng = np.random.default_rng(4)
    epsilon = 1e-4 if metric == "cosine" else 0.3
    rule = lw.Rule(metric, epsilon, slack=0)
    x = rng.normal(size=width)
    reach = np.sqrt(2 * epsilon) * np.linalg.norm(x) if metric == "cosine" else epsilon
    axes = np.arange(min(width, BLOCK // 2))
    steps = np.zeros((len(axes), width))
    steps[axes, axes] = reach * rng.uniform(1.5, 2.5, len(axes))
    far = x + np.concatenate([steps, -steps])
    distances = input_distances(rule, far, x)
    kept = kept_by_codes(rule, x, far)
    clear = distances > 1.4 * epsilon
    assert clear.sum() >= len(far) / 3
    assert not kept[clear].any(), f"{kept[clear].sum()} of {clear.sum()} far points were kept"


@pytest.mark.parametrize("metric", METRICS)
def test_codes_discard_almost_all_of_a_wide_cloud(metric):
    rng = np.random.default_rng(4)
    epsilon = 1e-3 if metric == "cosine" else 0.01
    x, others = rng.normal(size=12), rng.normal(size=(BLOCK, 12))
    assert kept_by_codes(lw.Rule(metric, epsilon, slack=0), x, others).sum() <= 2
