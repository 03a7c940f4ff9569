"""Shuffles within blocks: what every arrangement gives, in whatever order people come."""

from itertools import combinations, product

import numpy as np
import pytest

from likewise.explaining.permutation import ShuffleBlocks, blocks_of, holm, run_shuffle_test
from tests.support.looping import each


def plain_difference(block, outcomes, second) -> float:
    """Second minus first in each block, weighted by n m / (n + m)."""
    total = weights = 0.0
    for one in np.unique(block):
        here = block == one
        a, b = outcomes[here & ~second], outcomes[here & second]
        if len(a) and len(b):
            weight = len(a) * len(b) / (len(a) + len(b))
            total += weight * (b.mean() - a.mean())
            weights += weight
    return total / weights


def every_arrangement(block, outcomes, second) -> np.ndarray:
    """The difference for every way to hand out the groups within blocks."""
    ways = []
    for one in np.unique(block):
        here = np.flatnonzero(block == one)
        ways.append([list(some) for some in combinations(here, int(second[here].sum()))])
    found = []
    for chosen in product(*ways):
        given = np.zeros(len(block), bool)
        given[[i for some in chosen for i in some]] = True
        found.append(plain_difference(block, outcomes, given))
    return np.array(found)


def stream(seed: int, kind: str, n: int = 18):
    rng = np.random.default_rng(seed)
    block = np.sort(rng.integers(0, 4, n))
    outcomes = rng.integers(0, 2, n).astype(float) if kind == "label" else rng.normal(size=n)
    return block, outcomes, rng.random(n) < 0.4


@each("kind", ["label", "number"])
@each("seed", range(4))
def test_p_value_is_that_of_all_arrangements(kind, seed):
    block, outcomes, second = stream(seed, kind)
    every = every_arrangement(block, outcomes, second)
    observed = plain_difference(block, outcomes, second)
    drawn = run_shuffle_test(blocks_of(block, outcomes, second), 6_000, seed=1)
    assert drawn.difference == pytest.approx(observed)
    assert every.mean() == pytest.approx(0.0, abs=1e-12)  # chance favours nobody
    exact = (np.abs(every) >= abs(observed) - 1e-9).mean()
    assert drawn.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 6_000) + 2e-4)
    low, high = np.quantile(every, [0.025, 0.975])
    beyond = (every < drawn.low - 1e-9).mean() + (every > drawn.high + 1e-9).mean()
    assert beyond < 0.06 and drawn.low <= 0 <= drawn.high
    assert low - 0.2 < drawn.low and drawn.high < high + 0.2


@pytest.mark.parametrize("kind", ["label", "number"])
def test_shuffles_do_not_depend_on_order_or_names_of_blocks(kind):
    block, outcomes, second = stream(7, kind, n=60)
    told = run_shuffle_test(blocks_of(block, outcomes, second), 500, seed=3)
    order = np.random.default_rng(0).permutation(60)
    renamed = np.array([5, 3, 9, 1])[block]
    again = run_shuffle_test(blocks_of(renamed[order], outcomes[order], second[order]), 500, seed=3)
    assert told == again
    assert told != run_shuffle_test(blocks_of(block, outcomes, second), 500, seed=4)


def test_blocks_of_one_group_say_nothing_and_blocks_of_one_outcome_say_no_difference():
    block = np.array([0, 0, 1, 1, 2, 2])
    outcomes = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    second = np.array([True, True, False, True, False, True])
    blocks = blocks_of(block, outcomes, second)
    assert blocks.sizes.tolist() == [2, 2]
    drawn = run_shuffle_test(blocks, 100, seed=0)
    assert (drawn.difference, drawn.neighbourhoods) == (0.5, 2)  # 1 in one block, 0 in the other
    assert drawn.p == 1.0  # the other arrangement is as large


def test_nothing_that_can_change_has_no_difference():
    blocks = blocks_of(np.zeros(4, np.int64), np.ones(4), np.array([True, True, False, False]))
    drawn = run_shuffle_test(blocks, 50, seed=0)
    assert (drawn.difference, drawn.low, drawn.high, drawn.p) == (0.0, 0.0, 0.0, 1.0)


def test_no_blocks_are_no_people():
    none = blocks_of(np.empty(0, np.int64), np.empty(0), np.empty(0, bool))
    assert isinstance(none, ShuffleBlocks) and len(none.outcomes) == len(none.sums) == 0


def test_fewer_shuffles_are_made_where_they_would_take_minutes(monkeypatch):
    monkeypatch.setattr("likewise.explaining.permutation._MOST_DRAWS", 5_000)
    block, outcomes, second = stream(1, "number", n=100)
    assert run_shuffle_test(blocks_of(block, outcomes, second), 10_000, seed=0).shuffles == 200


def test_holm_corrects_in_order():
    assert holm([]) == []
    assert holm([0.5]) == [0.5]
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.001, 0.9]) == pytest.approx([1.0, 0.003, 1.0])
