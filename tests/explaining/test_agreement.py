"""The agreement index and all that stands beside it: the numbers of plain recomputations."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise import Feature
from likewise.explaining import agreement as module
from likewise.explaining.agreement import (
    Agreement,
    UnitPairs,
    count_pairs,
    make_units,
    measure_agreement,
    measure_units,
    sum_over_pairs,
)
from likewise.explaining.dealing import (
    Cases,
    chance_of_most,
    deal,
    null_variance,
    t_quantile,
)
from tests.support.looping import each


def near_and_different(x, z, radius=1.0, delta=0.0, person=None, keep=None):
    """Return who is similar to whom, and whose answers differ, as matrices."""
    near = np.abs(x[:, None] - x[None]) <= radius
    np.fill_diagonal(near, False)
    if person is not None:
        near &= (person[:, None] != person[None]) | (person[:, None] < 0)
    if keep is not None:
        near &= keep
    different = np.abs(z[:, None] - z[None]) > delta if z.dtype.kind == "f" else z[:, None] != z
    return near, different


def mean_share(near, different, left=None):
    if left is not None:
        near, different = near[np.ix_(left, left)], different[np.ix_(left, left)]
    k = near.sum(axis=1)
    return ((near & different).sum(axis=1)[k > 0] / k[k > 0]).mean() if k.any() else None


def recompute(near, different, person=None, permitted=None):
    """Recompute the observed and expected shares, the index with its interval, and the rest."""
    k, b = near.sum(axis=1), (near & different).sum(axis=1)
    kept = np.flatnonzero(k)
    m = len(kept)
    permitted = np.ones(near.shape, bool) if permitted is None else permitted.copy()
    np.fill_diagonal(permitted, False)
    among, apart = permitted[np.ix_(kept, kept)], different[np.ix_(kept, kept)]
    u = np.zeros(len(k))
    u[kept] = (among & apart).sum(axis=1) / np.maximum(among.sum(axis=1), 1)
    observed, expected = mean_share(near, different), u[kept].mean()
    units = [[i] for i in kept]
    if person is not None:
        known = sorted(set(person[kept][person[kept] >= 0]))
        units = [np.flatnonzero((person == one) & (k > 0)) for one in known]
        units += [[i] for i in kept if person[i] < 0]
    influences = []
    for unit in units:
        left = np.setdiff1d(np.arange(len(k)), unit)
        without = mean_share(near, different, left)
        change = 0.0 if without is None else observed - without
        moved = sum(2 * (u[i] - expected) / m for i in unit)
        influences.append((change - observed / expected * moved) / expected)
    squares = np.array(influences) ** 2
    twice = 0.0
    r = b / np.maximum(k, 1)

    def term(i, d):
        return (d - r[i]) / (k[i] - 1) if k[i] > 1 else d - observed

    for i, j in np.argwhere(np.triu(near)):
        twice += (term(i, different[i, j]) + term(j, different[i, j])) ** 2 / (m * expected) ** 2
    second = max(squares.sum() - twice, squares.sum() / 3)
    variance = second + (squares.sum() - second) / 4
    effective = squares.sum() ** 2 / (squares**2).sum()
    ratio = observed / expected
    width = t_quantile(2 * effective) * math.sqrt(variance) / ratio
    limits = 1 - ratio * math.exp(width), 1 - ratio * math.exp(-width)
    large = k >= 5
    opposed = large & (b > k / 2)
    center = (r + 1.96**2 / 2 / np.maximum(k, 1)) / (1 + 1.96**2 / np.maximum(k, 1))
    half = (
        1.96
        * np.sqrt((r * (1 - r) + 1.96**2 / 4 / np.maximum(k, 1)) / np.maximum(k, 1))
        / (1 + 1.96**2 / np.maximum(k, 1))
    )
    return {
        "comparable": m,
        "like_pairs": near.sum() // 2,
        "disagreeing_pairs": (near & different).sum() // 2,
        "disagreement": observed,
        "expected": expected,
        "index": 1 - ratio,
        "low": limits[0],
        "high": limits[1],
        "effective": effective,
        "opposed_by_most": opposed.sum(),
        "opposed_of": large.sum(),
        "opposed_clearly": (opposed & (center - half > 0.5)).sum(),
    }


def assert_same(measured: Agreement, expected):
    assert measured.how.code == "measured"
    got = {name: getattr(measured, name) for name in expected}
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


def draw(kind, n=150, seed=0, places=60):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, places, n).astype(float)
    z = (rng.random(n) < 0.25 + 0.4 * (x > places / 2)).astype(int)
    if kind == "number":
        return x, rng.choice([0.0, 0.1, 0.3, 1.5], n)
    return x, z + (rng.random(n) < 0.1) if kind == "label" else z


def measure(x, z, *, persons=None, models=None, compare="all", delta=0.0, **settings):
    """Let a monitor take vectors, or table rows where persons are known; measure the agreement."""
    output = "number" if z.dtype.kind == "f" else "label"
    if persons is None:
        rule = lw.Rule("linf", 1.0, output=output, delta=delta, compare=compare)
        monitor = lw.Monitor(rule, **settings)
        monitor.observe_many(x[:, None], z.tolist(), models=models)
        return measure_agreement(monitor.past, range(len(x)))
    features = {
        "x": Feature("number", tolerance=1),
        "who": Feature("person", missing="mismatch"),
    }
    rule = lw.Rule(features=features, output_column="z", output=output, delta=delta)
    monitor = lw.Monitor(rule)
    monitor.observe_many(
        [
            {"x": a, "z": b, "who": None if who < 0 else f"p{who}"}
            for a, b, who in zip(x.tolist(), z.tolist(), persons.tolist(), strict=True)
        ]
    )
    return measure_agreement(monitor.past, range(len(x)))


@each("kind", ["label", "number"])
@each("places", [25, 60, 400])
def test_the_index_is_that_of_a_plain_recomputation(kind, places):
    x, z = draw(kind, places=places)
    delta = 0.2 if kind == "number" else 0.0
    assert_same(measure(x, z, delta=delta), recompute(*near_and_different(x, z, delta=delta)))


@each("kind", ["label", "number"])
@each("people", [6, 40, 120])
def test_persons_are_never_similar_to_themselves_and_are_left_out_whole(kind, people):
    x, z = draw(kind, seed=3)
    persons = np.random.default_rng(1).integers(-3, people, len(x))
    persons = np.where(persons < 0, -1, persons)
    expected = recompute(*near_and_different(x, z, person=persons), person=persons)
    if expected["effective"] < 5:
        assert measure(x, z, persons=persons).how.code == "few-decide"
    else:
        assert_same(measure(x, z, persons=persons), expected)


@each("compare", ["within", "across"])
@each("kind", ["label", "number"])
def test_answers_are_dealt_among_permitted_models(compare, kind):
    x, z = draw(kind, seed=5)
    models = np.random.default_rng(2).choice(["a", "b", "c"], len(x)).tolist()
    code = np.array(models)
    same = code[:, None] == code[None]
    keep = same if compare == "within" else ~same
    measured = measure(x, z, models=models, compare=compare)
    expected = recompute(*near_and_different(x, z, keep=keep), permitted=keep)
    if compare == "within":  # the shares of pots move, too
        assert measured.low == pytest.approx(expected.pop("low"), abs=0.02)
        assert measured.high == pytest.approx(expected.pop("high"), abs=0.02)
        assert measured.effective == pytest.approx(expected.pop("effective"), rel=0.1)
    assert_same(measured, expected)
    assert (measured.null_sd is None) == (compare == "across")


def all_pairs(near):
    """Return the near pairs of cases, each of which is a point."""
    later, earlier = np.nonzero(np.tril(near))
    return lambda: iter([(later, earlier)])


def test_the_variance_of_deals_is_that_of_all_deals():
    near = np.zeros((8, 8), bool)
    pairs = [(1, 0), (2, 0), (3, 0), (4, 3), (6, 5), (6, 4), (7, 0), (7, 6)]
    for i, j in pairs:
        near[i, j] = near[j, i] = True
    z = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    pot = np.array([0] * 5 + [1] * 3)
    for pots in (np.zeros(8, int), pot):
        keep = near & (pots[:, None] == pots[None])
        orders = [
            (*one, *other)
            for one in itertools.permutations(np.flatnonzero(pots == 0))
            for other in itertools.permutations(np.flatnonzero(pots == 1))
        ]
        orders = orders[:: max(1, len(orders) // 40_320)]
        dealt = z[np.array(orders)]
        k = keep.sum(axis=1)
        shares = np.einsum("ij,nij->ni", keep * 1.0, dealt[:, :, None] != dealt[:, None]) / k
        units = make_units(np.arange(8), z[:, None].astype(float), "label", pot=pots)
        pairs = UnitPairs(units, all_pairs(keep))
        counts = count_pairs(pairs)
        sums = sum_over_pairs(pairs, counts)
        chance = deal(units.cases)
        variance = null_variance(counts.similar, sums.nearby, units.cases.size, chance, pots)
        assert shares.mean() == pytest.approx(chance.shares.mean(), rel=1e-12)
        assert shares.mean(axis=1).var() == pytest.approx(variance, rel=1e-9)


@each("kind", ["label", "number"])
@each("pots", [1, 2])
def test_opposition_by_chance_is_that_of_shuffled_answers(kind, pots):
    rng = np.random.default_rng(0)
    x, z = draw(kind, n=120, places=30)
    pot = rng.integers(0, pots, 120)
    near, _ = near_and_different(x, z, keep=pot[:, None] == pot[None])
    units = make_units(np.arange(120), z[:, None].astype(float), kind, pot=pot)
    measured = measure_units(units, all_pairs(near))
    k, opposed, shares = near.sum(axis=1), [], []
    for _ in range(1_000):
        dealt = z.copy()
        for one in range(pots):
            dealt[(pot == one) & (k > 0)] = rng.permutation(z[(pot == one) & (k > 0)])
        b = (near & (dealt[:, None] != dealt[None])).sum(axis=1)
        opposed.append(((b > k / 2) & (k >= 5)).sum())
        shares.append((b[k > 0] / k[k > 0]).mean())
    error = 4 * np.std(opposed) / math.sqrt(1_000)
    assert measured.opposed_expected == pytest.approx(np.mean(opposed), abs=error)
    assert measured.expected == pytest.approx(np.mean(shares), abs=0.005)
    assert measured.null_sd == pytest.approx(np.std(shares) / measured.expected, rel=0.1)


def test_quantiles_and_tails_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for freedom in (10, 12.5, 31.4, 1e3, 1e8):
        assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=2e-5)
    for population, draws in ((9, 1), (40, 5), (1_000, 40), (1_000, 1_000), (100_000, 2_501)):
        marked = np.unique(np.linspace(0, population, 60).astype(int))
        expected = stats.hypergeom.sf(draws // 2, population, marked, draws)
        assert chance_of_most(population, marked, draws) == pytest.approx(expected, abs=1e-9)


def test_many_numbers_of_similar_cases_are_interpolated(monkeypatch):
    rng = np.random.default_rng(0)
    x, z = np.sort(rng.lognormal(0, 2, 1_500)), rng.normal(0, 1, 1_500)
    every = measure(x, z, delta=0.8)
    monkeypatch.setattr("likewise.explaining.dealing._MOST_DRAWS", 20)
    monkeypatch.setattr("likewise.explaining.dealing._MOST_MARKED", 50)
    few = measure(x, z, delta=0.8)
    assert few.opposed_expected != every.opposed_expected
    assert few.opposed_expected == pytest.approx(every.opposed_expected, rel=0.005)


@given(seed=st.integers(0, 1_000), places=st.sampled_from([10, 60, 900]))
def test_the_order_of_decisions_changes_no_bit(seed, places):
    rng = np.random.default_rng(seed)
    n = 90
    z = rng.choice(["yes", "no", "perhaps"], n, p=rng.dirichlet([1, 1, 1])).tolist()
    if seed % 3 == 0:
        z = [f"at {x // 30}" for x in range(n)]
    rows = [
        {"x": int(x), "c": c, "who": who, "z": answer}
        for x, c, who, answer in zip(
            rng.integers(0, places, n) if seed % 3 else np.arange(n) // 30 * 100 + np.arange(n) % 2,
            rng.choice(["u", "v"], n).tolist(),
            rng.choice(["p", "q", None], n, p=[0.02, 0.02, 0.96]).tolist(),
            z,
            strict=True,
        )
    ]
    features = {
        "x": Feature("number", tolerance=2),
        "c": Feature("category"),
        "who": Feature("person", missing="mismatch"),
    }
    rule = lw.Rule(features=features, output_column="z")
    measured = []
    for order in (np.arange(n), rng.permutation(n)):
        monitor = lw.Monitor(rule)
        monitor.observe_many([rows[i] for i in order])
        measured.append(measure_agreement(monitor.past, range(n)))
    assert measured[0] == measured[1]


def test_pairs_that_are_searched_for_again_give_the_same_numbers(monkeypatch):
    x, z = draw("label", n=400, places=50)
    kept = measure(x, z)
    monkeypatch.setattr(module, "KEPT_PAIRS", 100)
    monkeypatch.setattr(module, "_AT_ONCE", 64)
    assert measure(x, z) == kept
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    too_many = measure(x, z)
    assert too_many.how.code == "too-many-pairs" and too_many.index is None


def test_probabilities_are_compared_pair_by_pair(monkeypatch):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 50, 200).astype(float)
    z = rng.dirichlet([1, 1, 1], 200).round(1)
    z /= z.sum(axis=1, keepdims=True)
    for metric in ("linf", "l1", "l2", "tv"):
        rule = lw.Rule("linf", 1.0, output="probabilities", output_metric=metric, delta=0.3)
        monitor = lw.Monitor(rule)
        verdicts = monitor.observe_many(x[:, None], z)
        near = np.abs(x[:, None] - x[None]) <= 1
        np.fill_diagonal(near, False)
        gap = np.abs(z[:, None] - z[None])
        apart = {
            "linf": gap.max(axis=2),
            "l1": gap.sum(axis=2),
            "l2": np.sqrt((gap**2).sum(axis=2)),
            "tv": gap.sum(axis=2) / 2,
        }[metric]
        measured = measure_agreement(monitor.past, range(200))
        assert measured.disagreeing_pairs == verdicts.pairs
        assert_same(measured, recompute(near, apart > 0.3))
    monkeypatch.setattr("likewise.explaining.dealing.MOST_CASES", 150)
    monkeypatch.setattr("likewise.explaining.dealing._LEAST_PARTNERS", 20)
    sampled = measure_agreement(monitor.past, range(200))
    assert sampled.expected != measured.expected
    assert sampled.expected == pytest.approx(measured.expected, abs=0.03)
    assert "sample" in sampled.how.sentence


@each("kind", ["label", "number"])
@each("compare", ["all", "within", "across"])
def test_answers_are_dealt_within_a_span_of_time(kind, compare):
    x, z = draw(kind, n=120, places=20)
    times = np.sort(np.random.default_rng(1).integers(0, 50, 120)) * 86_400_000_000
    models = np.random.default_rng(2).choice(["a", "b"], 120)
    rule = lw.Rule("linf", 1.0, output=kind, compare=compare)
    monitor = lw.Monitor(rule, within="7 days")
    at = times.astype("datetime64[us]")
    monitor.observe_many(x[:, None], z.tolist(), times=at, models=models.tolist())
    keep = np.abs(times[:, None] - times[None]) <= 7 * 86_400_000_000
    if compare != "all":
        keep &= (models[:, None] == models[None]) == (compare == "within")
    expected = recompute(*near_and_different(x, z, keep=keep), permitted=keep)
    measured = measure_agreement(monitor.past, range(120))
    if compare == "within":
        for name in ("low", "high", "effective"):
            del expected[name]
    assert_same(measured, expected)
    assert measured.null_sd is None and "no formula" in measured.how.sentence


def test_only_pairs_that_differ_in_a_protected_column_count():
    x, z = draw("label", n=120, places=20)
    sex = np.random.default_rng(1).integers(0, 2, 120)
    features = {"x": Feature("number", tolerance=1), "sex": Feature("protected")}
    rule = lw.Rule(features=features, output_column="z", protected_must_differ=True)
    monitor = lw.Monitor(rule)
    monitor.observe_many(
        [
            {"x": a, "sex": b, "z": c}
            for a, b, c in zip(x.tolist(), sex.tolist(), z.tolist(), strict=True)
        ]
    )
    keep = sex[:, None] != sex[None]
    measured = measure_agreement(monitor.past, range(120))
    assert_same(measured, recompute(*near_and_different(x, z, keep=keep), permitted=keep))


def test_missing_values_that_match_everything_and_required_categories():
    rng = np.random.default_rng(3)
    n = 140
    x, z = draw("label", n=n, places=30)
    region, grade = rng.choice(["u", "v", "w"], n), rng.choice(["1", "2", None], n)
    features = {
        "x": Feature("number", tolerance=1),
        "region": Feature("category"),
        "grade": Feature("category", missing="match"),
    }
    monitor = lw.Monitor(lw.Rule(features=features, output_column="z"))
    columns = zip(x.tolist(), region.tolist(), grade.tolist(), z.tolist(), strict=True)
    monitor.observe_many(
        [dict(zip(["x", "region", "grade", "z"], row, strict=True)) for row in columns]
    )
    missing = np.array([one is None for one in grade])
    same = (grade[:, None] == grade[None]) | missing[:, None] | missing[None]
    cell = region[:, None] == region[None]
    near, different = near_and_different(x, z, keep=same & cell)
    measured = measure_agreement(monitor.past, range(n))
    assert_same(measured, recompute(near, different))
    kept = near.any(axis=1)
    among = (cell & ~np.eye(n, dtype=bool))[np.ix_(kept, kept)]
    expected = ((among & different[np.ix_(kept, kept)]).sum(axis=1) / among.sum(axis=1)).mean()
    within = 1 - measured.disagreement / expected
    assert measured.index_within_categories == pytest.approx(within, rel=1e-12)


def test_hubs_are_in_half_of_all_disagreeing_pairs():
    rng = np.random.default_rng(0)
    x, z = draw("label", n=200, places=40)
    near, different = near_and_different(x, z)
    pairs = np.argwhere(np.triu(near & different))
    order = np.argsort(-(near & different).sum(axis=1) + rng.random(200) / 2)
    place = np.argsort(order)
    covered = np.cumsum(np.bincount(place[pairs].min(axis=1), minlength=200))
    greedy = int(np.searchsorted(covered, len(pairs) / 2)) + 1
    measured = measure(x, z)
    assert measured.hubs == pytest.approx(greedy, abs=2) and measured.hubs < 100
    assert measured.hubs_to_dict() == {"decisions": measured.hubs, "of_pairs": 0.5}
    star = measure(np.array([0.0, *[1.0] * 20, *[-1.0] * 20]), np.array([1, *[0] * 40]))
    assert star.hubs == 1 and star.disagreeing_pairs == 40


def test_where_nothing_can_be_concluded_it_says_why():
    far = np.arange(100) * 10.0
    z = np.arange(100) % 2
    assert measure(far, z).how.code == "nothing-compared"
    assert measure(np.zeros(100), np.zeros(100, int)).how.code == "all-the-same"
    assert measure(np.zeros(20), z[:20]).how.code == "too-few"
    few = measure(
        np.r_[np.zeros(3), 50 + np.arange(200) // 100], np.r_[1, 0, 1, np.zeros(200, int)]
    )
    assert few.how.code == "few-decide" and few.index is None and few.effective < 5
    empty = lw.Monitor(lw.Rule("linf", 1.0)).past
    assert measure_agreement(empty, range(0)).how.code == "nothing-compared"
    for one in (measure(far, z), few):
        assert "hubs" not in one.to_dict() and one.to_dict()["how"]["code"] == one.how.code


def test_answers_that_never_disagree_have_a_lower_limit():
    x = np.repeat(np.arange(40) * 10.0, 3)
    measured = measure(x, (x > 200).astype(int))
    assert measured.index == measured.high == 1.0
    expected = 1 - 3.7 / 40 / measured.expected  # forty threes: one separate pair in each
    assert measured.low == pytest.approx(expected)


def test_forgotten_decisions_are_left_out():
    x, z = draw("label", n=200, places=40)
    monitor = lw.Monitor(lw.Rule("linf", 1.0))
    monitor.observe_many(x[:, None], z.tolist())
    monitor.forget(range(50))
    assert measure_agreement(monitor.past, range(200)) == measure(x[50:], z[50:])


def test_distinct_answers_are_compared_as_the_kernels_do():
    values = np.random.default_rng(0).choice([0.1, 0.2, 0.3, 0.7, 0.8], (60, 1))
    cases = Cases(values, "number", 0.1, np.ones(60, int), np.zeros(60, int))
    apart = np.abs(values - values.T) > 0.1  # 0.3 - 0.2 < 0.1 < 0.8 - 0.7
    assert deal(cases).different.tolist() == apart.sum(axis=1).tolist()


def test_numbers_as_large_as_there_are_differ_without_a_warning():
    z = np.array([1e308, -1e308, 1.7e308] * 20)
    measured = measure(np.zeros(60), z, delta=5.0)
    assert measured.disagreement == pytest.approx(40 / 59)
    assert measured.disagreement == measured.expected
