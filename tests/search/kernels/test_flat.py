"""The flat scan discards, and never what is near: the claims of search/kernels/flat.py, attacked.

Rotated coordinates are compared with sixty-digit arithmetic, and pairs lie exactly on the radius.
Directions are learnt, arbitrary, those of the coordinates, or a little off from orthonormal: what
the rotation is like may cost time, and nothing else.
"""

from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import strategies as st
from numba import config

import likewise as lw
from likewise.search.indexes import rotation
from likewise.search.kernels import flat, rotate_encode
from likewise.search.kernels import table as t
from likewise.search.kernels.rotate_encode import FINER, FRONT, STEP, UNITS
from likewise.search.kernels.table import BLOCK
from tests.search.indexes.audit_flat import audit_flat
from tests.search.kernels.calling import compiled, flat_for
from tests.support.oracle import input_distances
from tests.support.strategies import prove

SEEDS = st.integers(0, 2**32 - 1)
WIDTHS = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 40, 150))
PLACES = st.sampled_from(("origin", "one", "offset", "far away", "huge", "tiny", "all sizes"))
KINDS = ("learnt", "arbitrary", "unlearnt", "askew", "far centre")
METRICS = ("l2", "cosine")
DIGITS = Context(prec=60, Emax=10**6, Emin=-(10**6))
UNSEEN = 1e-15  # of the reach, by what squares that vanish may err; ROTATED_REACH has 1e-9 to spare

turn = compiled(rotate_encode.rotate_row)
scan = compiled(flat._scan)
scan_block = compiled(flat.scan_block)
tail_sum = compiled(flat.tail_sum)


# Scanning a block


def gaps_of(codes, query):
    """Gaps of codes as signed bytes."""
    return (codes - query).astype(np.uint8).astype(np.int8).astype(np.int64)


def scan_block_twin(lanes, query, limit):
    """Sums of squared gaps up to 65,535, and how many coordinates were looked at."""
    sums = np.zeros(BLOCK, dtype=np.int64)
    for start in range(0, len(query), STEP):
        for j in range(start, start + STEP, 4):
            four = gaps_of(lanes[j : j + 4], query[j : j + 4, None]) ** 2
            sums = np.minimum(sums + four.sum(axis=0) % 65_536, 65_535)
        if (sums > limit).all():
            return sums, -(start + STEP)
    return sums, len(query)


@np.errstate(over="ignore")
def scanned(lanes, query, limit):
    """The same by the kernel."""
    sums = np.full(BLOCK, 7, dtype=np.uint16)
    looked = scan_block(lanes.ctypes.data, query, len(query), np.uint16(limit), sums)
    return sums, looked


def test_scan_block_equals_its_twin():
    seen = {"abandoned": 0, "early": 0, "kept": 0, "full": 0}

    def compare(seed, front, limit, size):
        rng = np.random.default_rng(seed)
        lanes = rng.integers(-size, size, (front, BLOCK)).astype(np.uint8)
        query = rng.integers(-size, size, front).astype(np.uint8)
        sums, looked = scanned(lanes, query, limit)
        twin, looks = scan_block_twin(lanes, query, limit)
        assert looked == looks
        assert sums.tolist() == twin.tolist()
        seen["kept"] += looks > 0
        seen["abandoned"] += looks < 0
        seen["early"] += 0 < -looks < front
        seen["full"] += bool((sums == 65_535).any())

    for seed in range(5):  # each of them, whatever is drawn below
        compare(seed, 64, 20_000, 128)
        compare(seed, 64, 65_535, 128)
    assert min(seen.values()) >= 5, seen

    @prove(
        100,
        seed=SEEDS,
        front=st.sampled_from((16, 32, 48, 64)),
        limit=st.sampled_from((0, 100, 22_500, 40_000, 65_534, 65_535)),
        size=st.sampled_from((1, 10, 40, 128)),
    )
    def holds(seed, front, limit, size):
        compare(seed, front, limit, size)


def test_scan_block_never_exceeds_the_true_sum():
    """Not even where four squares together are 65,536."""
    lanes = np.full((16, BLOCK), 128, dtype=np.uint8)
    query = np.zeros(16, dtype=np.uint8)
    sums, looked = scanned(lanes, query, 0)
    assert looked == 16 and not sums.any()
    lanes[0] = 127
    sums, looked = scanned(lanes, query, 0)
    assert looked == -16 and (sums == 127**2 + 3 * 128**2).all()


def test_scan_block_goes_on_for_a_single_point():
    lanes = np.full((48, BLOCK), 30, dtype=np.uint8)
    query = np.zeros(48, dtype=np.uint8)
    for limit, looks in ((48 * 900, 48), (32 * 900 - 1, -32), (0, -16)):
        assert scanned(lanes, query, limit)[1] == looks
    for alone in (0, 77, BLOCK - 1):
        lanes[:, alone] = 0
        sums, looked = scanned(lanes, query, 0)
        assert looked == 48
        assert sums[alone] == 0 and (np.delete(sums, alone) > 0).all()
        lanes[:, alone] = 30


@prove(30, seed=SEEDS, front=st.sampled_from((16, 64)), tail=st.sampled_from((0, 64)))
def test_tail_sum_equals_its_twin(seed, front, tail):
    rng = np.random.default_rng(seed)
    codes, query = (rng.integers(0, 256, size).astype(np.uint8) for size in (tail, front + tail))
    twin = int((gaps_of(codes, query[front:]) ** 2).sum())
    with np.errstate(over="ignore"):
        assert tail_sum(codes.ctypes.data, query, front, tail) == twin


# Rotating


def points(rng, place, count, width, metric):
    """Inputs that are awkward to rotate."""
    values = rng.normal(size=(count, width))
    if place == "one":
        values = rng.choice([-1.0, 1.0], size=(count, width))
    elif place == "offset":
        values += rng.choice([0.0, 1e3, -1e7, 1e12], size=width)
    elif place == "far away":
        values += 10.0 ** rng.integers(10, 17)
    if metric == "cosine":  # only directions matter, within what is admitted
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        return values * 10.0 ** rng.uniform(-60, 60, (count, 1))
    if place == "huge":
        values *= 10.0 ** rng.uniform(290, 307)
    elif place == "tiny":
        values *= 10.0 ** rng.uniform(-320, -140)
    elif place == "all sizes":
        values *= 10.0 ** rng.uniform(-300, 300, (count, width))
    return values


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


@np.errstate(all="ignore")
def placed(rule, values):
    """Positions in float64, for learning."""
    weighed = values * np.sqrt(1.0 if rule.weights is None else np.array(rule.weights))
    if rule.metric == "cosine":
        weighed = weighed / np.linalg.norm(weighed, axis=1, keepdims=True)
    return weighed


def rotation_for(rng, kind, rule, values):
    """Some directions for inputs like these."""
    width = values.shape[1]
    if kind == "unlearnt":
        return rotation.initial_rotation(width)
    learnt = rotation.learn(placed(rule, values), 1)
    if kind == "learnt":
        return learnt
    centre, directions = learnt.centre, learnt.directions
    if kind == "far centre":
        centre = centre + rng.normal(size=width) * 10.0 ** rng.integers(-3, 12)
    else:
        directions, _ = np.linalg.qr(rng.normal(size=directions.shape))
    if kind == "askew":
        directions = directions + rng.normal(size=directions.shape) * 10.0 ** rng.integers(-12, 0)
    return rotation.Rotation(centre, np.ascontiguousarray(directions), 1)


def write(index, values, labels):
    """Rows that become part of the history, but of no index."""
    assert index.workers.write(values, np.array(labels, dtype=float).reshape(-1, 1)) == (0, 0)
    table = index.state.table
    table[t.TOTAL] += len(values)
    table[t.LIVE] += len(values)


def exactly_turned(index, values):
    """A(p - centre) to sixty digits, for one input, and cut off as the kernel cuts it off."""
    settings, rule = index.state._settings, index.state.history.rule
    weights = np.ones(len(values)) if rule.weights is None else np.array(rule.weights)
    with localcontext(DIGITS):
        cut = Decimal(rotate_encode._CUT)
        weights = [Decimal(float(w)) for w in weights]
        stored = [Decimal(float(v)) for v in values]
        place = [w.sqrt() * v for w, v in zip(weights, stored, strict=True)]
        if rule.metric == "cosine":
            length = sum(p * p for p in place).sqrt()
            place = [p / length for p in place]
        gaps = [p - Decimal(float(c)) for p, c in zip(place, settings[t.CENTRE], strict=True)]
        turned = []
        for direction in settings[t.DIRECTIONS].T:
            exact = sum(Decimal(float(a)) * gap for a, gap in zip(direction, gaps, strict=True))
            turned.append(min(max(exact, -cut), cut))
        return turned


def decoded(codes, exact):
    """Of the positions that a code stands for, modulo 256 units, the one next to where it is."""
    with localcontext(DIGITS):
        places = []
        for i, y in enumerate(exact):
            scale = Decimal(UNITS) * (1 if i < FRONT else FINER)
            turns = ((y * scale - int(codes[i])) / 256).to_integral_value()
            places.append((256 * turns + int(codes[i])) / scale)
        return places


def straight(one, two):
    """The distance of two lists of numbers, to sixty digits."""
    with localcontext(DIGITS):
        return sum((a - b) ** 2 for a, b in zip(one, two, strict=True)).sqrt()


@pytest.mark.parametrize("metric", METRICS)
def test_a_rotated_row_lies_within_its_error_of_where_it_should(metric):
    seen = {"finite": 0, "rounded": 0}

    @prove(
        150,
        seed=SEEDS,
        width=st.sampled_from((1, 2, 3, 4, 5, 8, 19, 70)),
        place=PLACES,
        kind=st.sampled_from(("none", "random", "zeros", "extreme")),
        how=st.sampled_from(KINDS),
        epsilon=st.sampled_from((1e-150, 1e-9, 0.1, 1.0, 1e9, 1e150)),
    )
    @np.errstate(all="ignore")
    def holds(seed, width, place, kind, how, epsilon):
        rng = np.random.default_rng(seed)
        if metric == "cosine":
            kind = "random" if kind == "extreme" else kind
            epsilon = min(epsilon, 1.0)
        rule = lw.Rule(metric, epsilon, weights=weights_for(rng, kind, width), slack=0)
        values = points(rng, place, 6, width, metric)
        index = flat_for(rule, width, rotation_for(rng, how, rule, values))
        write(index, values, [0] * 6)
        turned, errors = (index._batch.others[slot] for slot in (t.ROTATED, t.ROTATED_ERROR))
        for row in range(6):
            turn(index.state.table, row, 3)
            exact = exactly_turned(index, values[row])
            assert not np.isnan(errors[3]).any()
            for part, error in zip((FRONT, len(exact)), errors[3].tolist(), strict=True):
                if error == np.inf:
                    continue
                some = exact[:part]
                missed = straight(decoded(turned[3], some), some)
                assert missed <= Decimal(error + UNSEEN), f"{missed} from there, not {error}"
                seen["finite"] += 1
                seen["rounded"] += missed > 0

    assert min(seen.values()) >= 100, seen


def test_a_rotation_makes_no_pair_longer_than_its_norm_says():
    @prove(20, seed=SEEDS, width=WIDTHS, how=st.sampled_from(KINDS))
    def holds(seed, width, how):
        rng = np.random.default_rng(seed)
        rule = lw.Rule("l2", 1.0)
        learnt = rotation_for(rng, how, rule, rng.normal(size=(30, width)))
        assert learnt.directions.shape == (width, rotation.direction_count(width))
        longest = np.linalg.norm(learnt.directions, ord=2)
        assert longest <= learnt.norm()
        if how in ("learnt", "unlearnt", "arbitrary"):
            assert learnt.norm() < 1 + 1e-6, "a good rotation costs nothing"


# The claim: nothing near is lost


def on_the_radius(rng, metric, weights, x, step, how):
    """BLOCK inputs at a weighted distance of about `step` from x: along one coordinate or many."""
    width = len(x)
    directions = rng.normal(size=(BLOCK, width))
    directions[: BLOCK // 3] = np.eye(width)[rng.integers(width, size=BLOCK // 3)]
    some = slice(BLOCK // 3, BLOCK // 2)
    directions[some] *= rng.random((BLOCK // 2 - BLOCK // 3, width)) < 0.3
    directions *= rng.choice([-1.0, 1.0], size=(BLOCK, 1))
    scale = np.sqrt(np.where(weights > 0, weights, 1.0))
    directions /= scale
    lengths = np.sqrt(np.sum(np.where(weights > 0, (directions * scale) ** 2, 0.0), axis=1))
    lengths[lengths == 0] = 1.0
    sizes = step * rng.choice([1.0, 1 - 1e-16, 1 + 1e-15, 1 - 1e-9, 0.999, 0.5], size=BLOCK)
    if how == "spread":
        sizes *= rng.uniform(0.5, 1.5, BLOCK)
    sizes[::16] *= 8.0  # some are clearly beyond it
    if metric == "cosine":
        sizes *= np.sqrt(np.sum(weights * x * x))
    others = x + directions / lengths[:, None] * sizes[:, None]
    if metric == "cosine":
        others *= 10 ** rng.uniform(-3, 3, (BLOCK, 1))
        norms = np.sum(weights * others * others, axis=1)
        others[~((norms > 1e-140) & (norms < 1e140))] = x
    return np.clip(np.nan_to_num(others), -1.7e308, 1.7e308)


@np.errstate(over="ignore")
def scanned_for(index, row, label):
    """The rows that a scan for a written row keeps."""
    table = index.state.table
    index.given[0] = label
    turn(table, row, 0)
    index.state.recent[row % t.RECENT_MOST] = 0
    kept = scan(table, row, 0, 0, int(table[t.BLOCKS]))
    return set(index.state.scratch._large[t.CANDIDATES].view(np.int64, kept).tolist())


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("metric", METRICS)
def test_neither_one_scan_nor_a_batch_rules_out_anything_near(metric, storage):
    seen = {"near": 0, "on the boundary": 0, "ruled out": 0}
    queries = 26  # more than are searched for together

    @prove(
        30 if config.DISABLE_JIT else 40,  # many pairs each
        seed=SEEDS,
        width=WIDTHS,
        place=PLACES,
        kind=st.sampled_from(("none", "none", "random", "zeros", "extreme")),
        how=st.sampled_from(KINDS),
        size=st.sampled_from((1.0, 0.1, 1e-6, 1e-149, 1e-30, 1e30, 1e149)),
        beside=st.sampled_from((0, 0, 1, -1)),
        spread=st.sampled_from(("boundary", "spread")),
    )
    @np.errstate(all="ignore")
    def holds(seed, width, place, kind, how, size, beside, spread):
        rng = np.random.default_rng(seed)
        if metric == "cosine":
            kind = "random" if kind == "extreme" else kind
            size = float(rng.choice([1e-12, 1e-8, 1e-4, 0.1, 1.0]))
        if storage == "float32":
            place = place if place in ("origin", "one", "offset") else "origin"
            size = min(max(size, 1e-30), 1e30) if metric == "l2" else size
        listed = weights_for(rng, kind, width)
        weights = np.ones(width) if listed is None else np.array(listed)
        x = points(rng, place, 1, width, metric)[0]
        if metric == "cosine" and storage == "float32":
            x /= np.linalg.norm(x)
        if metric == "cosine" and not 1e-20 < np.sum(weights * x * x) < 1e140:
            x = np.ones(width)
        others = on_the_radius(rng, metric, weights, x, size, spread)
        among = np.concatenate([[x], others[: queries - 1]])
        others, among = (v.astype(storage).astype(float) for v in (others, among))
        if not (np.isfinite(others).all() and np.isfinite(among).all()):
            return
        unit = lw.Rule(metric, 1.0, weights=listed)
        distances = np.array([input_distances(unit, others, q) for q in among])
        usable = distances[0][(distances[0] >= 1e-149) & (distances[0] <= 1e149)]
        if not usable.size:
            return
        epsilon = float(rng.choice(usable))
        if beside:
            epsilon = float(np.nextafter(epsilon, np.inf * beside))
        rule = lw.Rule(metric, epsilon, weights=listed, slack=0)
        index = flat_for(rule, width, rotation_for(rng, how, rule, others), storage)
        write(index, others, [0] * BLOCK)
        index.insert(0, BLOCK)
        write(index, among, [1] * queries)
        near = distances <= epsilon
        for query in range(0, queries, 7):
            kept = scanned_for(index, BLOCK + query, 1)
            lost = set(np.flatnonzero(near[query])) - kept
            assert not lost, f"{among[query]} and {others[min(lost)]} within {epsilon}"
            seen["ruled out"] += BLOCK - len(kept)
        counts, (rows, found, apart, *_) = index.judge(BLOCK, queries)
        assert counts.tolist() == near.sum(axis=1).tolist()
        assert rows.tolist() == np.nonzero(near)[1].tolist()
        assert found.tobytes() == distances[near].tobytes()
        assert (apart == 1.0).all()
        seen["near"] += int(near.sum())
        seen["on the boundary"] += int((found == epsilon).sum())

    assert min(seen.values()) >= 50, seen


@pytest.mark.parametrize("metric", METRICS)
def test_what_is_clearly_out_of_reach_is_ruled_out(metric):
    """A filter that keeps everything is no filter: far from the origin, or beside a giant."""
    rng, width = np.random.default_rng(4), 60
    for offset, giant in ((0.0, 1.0), (1e3, 1.0), (0.0, 1e6)):
        others = rng.normal(size=(2 * BLOCK, width)) + offset
        others[0] *= giant
        rule = lw.Rule(metric, 0.1 if metric == "l2" else 1e-9, slack=0)
        index = flat_for(rule, width, rotation_for(rng, "learnt", rule, others))
        write(index, others, [0] * 2 * BLOCK)
        index.insert(0, 2 * BLOCK)
        write(index, others[5:6], [1])
        assert scanned_for(index, 2 * BLOCK, 1) == {5}
        assert scanned_for(index, 2 * BLOCK, 0) == set(), "equal outputs are no witnesses"
        looked = index.state.recent[2 * BLOCK % t.RECENT_MOST]
        assert looked[0] == 0, "nor are their blocks looked at"


# Seats


def test_a_point_that_leaves_is_replaced_by_the_last_of_its_block():
    rng, width = np.random.default_rng(2), 9
    rule = lw.Rule("l2", 0.1)
    values = rng.normal(size=(400, width))
    index = flat_for(rule, width, rotation_for(rng, "learnt", rule, values))
    labels = rng.integers(0, 2, 400)
    write(index, values, labels)
    index.insert(0, 400)
    table, alive = index.state.table, index.state.history.remembered_flags()
    remembered = set(range(400))
    for _ in range(30):
        gone = rng.choice(sorted(remembered), int(rng.choice([1, 7, 40])) % len(remembered))
        gone = np.unique(gone)
        index.remove(gone)
        index.state.history.erase(gone)
        remembered -= set(gone.tolist())
        audit_flat(index)
        if rng.random() < 0.5 and table[t.TOTAL] < 500:
            row = int(table[t.TOTAL])
            write(index, rng.normal(size=(3, width)), rng.integers(0, 2, 3))
            index.insert(row, 3)
            remembered |= {row, row + 1, row + 2}
            audit_flat(index)
    assert table[t.BLOCKS] <= 16, "room that was left is used again"
    assert sorted(remembered) == np.flatnonzero(index.state.history.remembered_flags()).tolist()
    assert len(alive) == 400
