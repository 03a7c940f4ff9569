"""Shuffled sides, swapped answers: what every arrangement gives, in whatever order cases come."""

from itertools import combinations, product

import numpy as np
import pytest

from likewise.explaining import side_tests
from likewise.explaining.side_tests import (
    Answers,
    order_values,
    run_side_test,
    run_swap_test,
    share_neighbourhoods,
)
from tests.support.looping import each

DELTA = {"label": 0.0, "labels": 0.0, "number": 0.7, "linf": 0.7}


def answers_of(kind, n, rng):
    if kind in ("number", "linf"):
        return np.round(rng.normal(size=n), 1)
    return rng.integers(0, {"label": 2, "labels": 4}[kind], n).astype(float)


def made_answers(values, kind):
    """The answers; as rows of one probability each, they differ where the numbers do."""
    return Answers(values[:, None] if kind == "linf" else values, kind, DELTA[kind])


def plain_difference(block, values, second, delta):
    """Sum w (U1 - U0) / sum w over blocks with two of each side, from all pairs."""
    total = weights = 0.0
    for one in np.unique(block):
        shares, counts = [], []
        for side in (False, True):
            own = values[(block == one) & (second == side)]
            pairs = [abs(a - b) > delta for a, b in combinations(own, 2)]
            shares.append(np.mean(pairs) if pairs else np.nan)
            counts.append(len(own))
        if min(counts) >= 2:
            weight = counts[0] * counts[1] / sum(counts)
            total += weight * (shares[1] - shares[0])
            weights += weight
    return total / weights


def every_arrangement(block, second):
    """All ways to hand out the sides within blocks."""
    ways = []
    for one in np.unique(block):
        here = np.flatnonzero(block == one)
        ways.append([list(some) for some in combinations(here, int(second[here].sum()))])
    for chosen in product(*ways):
        sides = np.zeros(len(block), bool)
        sides[[i for some in chosen for i in some]] = True
        yield sides


def within(exact, p, shuffles):
    """Whether a p-value from shuffles is that of all arrangements, but for chance."""
    return p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / shuffles) + 2 / shuffles)


@each("kind", list(DELTA))
@each("seed", range(3))
def test_p_value_of_sides_is_that_of_all_arrangements(kind, seed):
    rng = np.random.default_rng(seed)
    block, second = np.repeat([3, 1, 8], [4, 5, 4]), np.arange(13) % 2 == 0
    values = answers_of(kind, 13, rng)

    observed = plain_difference(block, values, second, DELTA[kind])
    ways = every_arrangement(block, second)
    every = np.array([plain_difference(block, values, sides, DELTA[kind]) for sides in ways])
    assert every.mean() == pytest.approx(0.0, abs=1e-12)
    answers = made_answers(values, kind)
    shared = share_neighbourhoods(answers.ranks, second, block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_tests, "_ENOUGH", 10**6)
        found = run_side_test(shared, answers, seed=seed, most=2_000)
    assert found.difference == pytest.approx(observed)
    assert within((np.abs(every) >= abs(observed) - 1e-9).mean(), found.p, 2_000)


@each("kind", list(DELTA))
def test_difference_is_that_of_all_pairs_and_order_and_names_do_not_matter(kind):
    rng = np.random.default_rng(5)
    block, second, values = (
        rng.integers(0, 60, 700),
        rng.random(700) < 0.3,
        answers_of(kind, 700, rng),
    )
    person = rng.integers(-1, 400, 700)
    answers = made_answers(values, kind)
    shared = share_neighbourhoods(answers.ranks, second, block)
    found = run_side_test(shared, answers, most=300)
    assert found.difference == pytest.approx(plain_difference(block, values, second, DELTA[kind]))
    order = rng.permutation(700)
    results = []
    for rows, names in ((np.arange(700), np.arange(60)), (order, rng.permutation(60))):
        answers = made_answers(values[rows], kind)
        parts = answers.ranks, second[rows], names[block[rows]]
        assert run_side_test(share_neighbourhoods(*parts), answers, most=300) == found
        shared = share_neighbourhoods(*parts, person[rows], seed=2)
        results.append((run_side_test(shared, answers, most=300), shared.second_people))
    assert results[0] == results[1]


def test_neighbourhoods_have_two_of_each_side_and_one_decision_of_each_person():
    second = np.array([0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 1], bool)
    block = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2])
    person = np.array([1, 2, 3, 4, 1, 2, 3, 5, 5, 6, 7, -1])
    ranks = np.zeros(12, np.int64)
    shared = share_neighbourhoods(ranks, second, block)
    assert (shared.sizes.tolist(), shared.first_people, shared.second_people) == ([4, 5], 4, 5)
    for seed in range(5):
        shared = share_neighbourhoods(ranks, second, block, person, seed)
        assert (shared.sizes.tolist(), shared.first_people, shared.second_people) == ([4], 2, 2)
    assert not shared.has_enough
    many = np.repeat(np.arange(20), 4)
    shared = share_neighbourhoods(
        np.zeros(80, np.int64), np.tile([True, True, False, False], 20), many
    )
    assert shared.has_enough
    one_person = np.tile([1, 2, 3, 4], 20)
    shared = share_neighbourhoods(
        np.zeros(80, np.int64), np.tile([True, True, False, False], 20), many, one_person
    )
    assert not shared.has_enough


def test_every_decision_of_a_person_is_drawn_as_often():
    ranks, second = np.array([0, 1, 2, 0, 0, 0]), np.array([0, 0, 1, 0, 1, 1], bool)
    person, block = np.array([1, 1, 1, 2, 3, 4]), np.zeros(6, np.int64)
    drawn = [share_neighbourhoods(ranks, second, block, person, seed) for seed in range(600)]
    kept = [len(one.starts) for one in drawn]
    assert 350 < sum(kept) < 450  # two of three draws leave two of each side
    both = [set(one.ranks.tolist()) for one in drawn if len(one.starts)]
    assert 150 < both.count({0, 1}) < 250


def plain_index(near, values, delta):
    """The agreement index by two tables: who is near whom, and who differs from whom."""
    differs = np.abs(values[:, None] - values) > delta
    some = near.any(axis=1)
    shares = (near & differs)[some].sum(axis=1) / near[some].sum(axis=1)
    others = differs[np.ix_(some, some)].sum(axis=1) / (some.sum() - 1)
    return 1 - shares.mean() / others.mean() if others.any() else 1.0


@each("kind", ["label", "labels", "number"])
@each("units", [False, True])
@each("seed", range(2))
def test_p_value_of_swaps_is_that_of_all_ways_to_swap(kind, units, seed):
    rng = np.random.default_rng(seed)
    n = 7
    upper = np.triu(rng.random((n, n)) < 0.3, 1)
    near = upper | upper.T
    first, second = answers_of(kind, n, rng), answers_of(kind, n, rng)
    unit = rng.integers(0, 6, n) if units else np.arange(n)
    delta = DELTA[kind]
    observed = plain_index(near, second, delta) - plain_index(near, first, delta)
    every = []
    for swapped in product([False, True], repeat=len(np.unique(unit))):
        swap = np.array(swapped)[np.unique(unit, return_inverse=True)[1]]
        two = np.where(swap, second, first), np.where(swap, first, second)
        every.append(plain_index(near, two[1], delta) - plain_index(near, two[0], delta))
    exact = (np.abs(every) >= abs(observed) - 1e-9).mean()
    answers = Answers(np.concatenate([first, second]), kind, delta)
    sides = answers.ranks[:n], answers.ranks[n:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_tests, "_ENOUGH", 10**6)
        found = run_swap_test(np.nonzero(upper), *sides, answers, unit, seed=seed, most=2_000)
    assert found.difference == pytest.approx(observed)
    assert within(exact, found.p, 2_000)


def test_nothing_is_swapped_without_pairs_or_if_a_side_always_answers_the_same():
    answers = Answers(np.array([0.0, 1.0]))
    none, same, mixed = np.zeros(0, np.int64), np.zeros(3, np.int64), np.array([0, 1, 0])
    pairs = np.array([0, 1]), np.array([1, 2])
    assert run_swap_test((none, none), mixed, mixed, answers) is None
    assert run_swap_test(pairs, mixed, same, answers) is None
    found = run_swap_test(pairs, mixed, mixed, answers)
    assert (found.difference, found.p) == (0.0, 1.0)


def test_a_test_stops_when_chance_has_done_as_much_twenty_times():
    rng = np.random.default_rng(0)
    block, second = rng.integers(0, 30, 400), rng.random(400) < 0.5
    same = Answers(rng.integers(0, 2, 400).astype(float))
    found = run_side_test(share_neighbourhoods(same.ranks, second, block), same)
    assert found.p == pytest.approx(20 / found.shuffles) and found.shuffles < 4_999
    odd = Answers(np.where(second, rng.integers(0, 2, 400), 0).astype(float))
    found = run_side_test(share_neighbourhoods(odd.ranks, second, block), odd)
    assert (found.shuffles, found.p) == (4_999, 1 / 5_000) and found.difference > 0.3


def test_order_of_labels_does_not_matter():
    one = order_values(np.array([0, 2, 1, -1, 0]), ["b", 3, "a"])
    other = order_values(np.array([1, 0, 2, -1, 1]), ["a", "b", 3])
    assert one.tolist() == other.tolist() == [1, 0, 2, -1, 1]
