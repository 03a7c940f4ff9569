"""linf at its edges, for every index that cuts coordinates into cells, labels or parts.

Pairs exactly on the radius across a cell's border, values beyond the range seen so far, columns of
few values, and columns that stop being such.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import likewise as lw
from tests.support.index_cases import groups
from tests.support.lazily import faiss
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts


def random(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def far_apart(n: int = 20) -> np.ndarray:
    """So many distinct values that they become cells."""
    return 1e3 + 100.0 * np.arange(n)


def a_hair_below_zero() -> np.ndarray:
    """At distance 1 as computed, yet two cells of width 1 apart; and just too far."""
    return np.array([[0.25], [1.0], [-1e-17], [-1e-15], [2.0], [1.0], [0.0], [-1.0]])


def a_hair_below_zero_in_cells() -> np.ndarray:
    return np.concatenate([far_apart()[:, None], a_hair_below_zero()])


def a_hair_below_zero_in_the_last_column() -> np.ndarray:
    last = a_hair_below_zero_in_cells()
    return np.hstack([np.zeros((len(last), 3)), last])


def negative_steps_of_a_tenth() -> np.ndarray:
    return -0.1 * random().integers(0, 40, (60, 1))


def both_signs() -> np.ndarray:
    return 0.1 * random().integers(-3, 4, (60, 4))


def growing_by_powers_of_ten() -> np.ndarray:
    """Each value outside the range so far, twice, and one step on where a step can be told."""
    values = [0.0]
    for power in (*range(0, 16, 3), 20, 80, 140, 300):
        for sign in (1, -1):
            values += [sign * 10.0**power, sign * (10.0**power + 1), sign * 10.0**power]
    return np.array(values)[:, None] * [1.0, -1.0]


def shrinking_by_powers_of_ten() -> np.ndarray:
    return growing_by_powers_of_ten()[::-1].copy()


def so_large_that_rounding_takes_over() -> np.ndarray:
    """Neighbours among the numbers there are, exactly one radius apart, and small ones between."""
    large = 3e13 + 2.0**-8 * random().integers(0, 5, (25, 2))
    small = 2.0**-8 * random(2).integers(0, 5, (25, 2))
    return np.stack([small, large, -large], axis=1).reshape(-1, 2)


def codes() -> np.ndarray:
    return random().integers(0, 3, (80, 4)).astype(np.float64)


def few_values_closer_than_epsilon() -> np.ndarray:
    """0 and 0.16, 0.16 and 0.32 lie exactly on the radius; 0.1 is near both 0 and 0.16."""
    return random().choice([0.0, 0.1, 0.16, 0.32, 1.0, -0.16], (60, 3))


def a_seventeenth_value() -> np.ndarray:
    """The columns have 15, 16, 17 and 18 values, and the last ones come late."""
    X = np.stack([0.1 * (np.arange(80) % count) for count in (15, 16, 16, 16)], axis=1)
    X[40::5, 2] = 1.65
    X[50::7, 3] = -0.1
    X[65::7, 3] = 0.05
    return X


def real_and_categories() -> np.ndarray:
    """The second half repeats the first, a step or two away in the real columns."""
    rng = random()
    real, kinds = rng.integers(0, 30, (40, 3)), rng.integers(0, 3, (40, 3))
    real = 0.04 * np.concatenate([real, real + rng.integers(-2, 3, real.shape)])
    return np.hstack([real, np.concatenate([kinds, kinds]), np.full((80, 1), 7.0)])


def grey_values() -> np.ndarray:
    return random().integers(0, 4, (60, 6)).astype(np.uint8)


def halves_then_signed_zeros() -> np.ndarray:
    """0.0 and -0.0 are one value."""
    return random().choice([0.0, -0.0, 0.5], (60, 3))


@dataclass(frozen=True)
class Case:
    """Inputs, and the rule; some pair lies on the radius, or inside if nothing can lie on it."""

    inputs: Callable[[], np.ndarray]
    epsilon: float
    on_the_edge: bool = True
    options: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case(a_hair_below_zero, 1.0),
    Case(a_hair_below_zero_in_cells, 1.0),
    Case(a_hair_below_zero_in_the_last_column, 1.0),
    Case(negative_steps_of_a_tenth, 0.1),
    Case(both_signs, 0.1),
    Case(growing_by_powers_of_ten, 1.0),
    Case(shrinking_by_powers_of_ten, 1.0),
    Case(so_large_that_rounding_takes_over, 2.0**-8),
    Case(codes, 0.16, on_the_edge=False),
    Case(few_values_closer_than_epsilon, 0.16),
    Case(a_seventeenth_value, 0.1),
    Case(real_and_categories, 0.08),
    Case(real_and_categories, 0.08, options={"weights": [1, 1, 0, 0, 0.08, 1, 1]}),
    Case(grey_values, 1.0, options={"storage": "uint8"}),
    Case(halves_then_signed_zeros, 0.5),
]


def name(case: Case) -> str:
    return case.inputs.__name__.replace("_", " ") + (", weighted" * ("weights" in case.options))


@pytest.fixture(autouse=True)
def one_thread_for_faiss():
    """On a busy machine its threads wait milliseconds for each other, for every decision."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


PARTS = ("1 part", "2 parts", "a part each")


@pytest.mark.parametrize("group", groups("linf"))
@pytest.mark.parametrize("case", CASES, ids=name)
def test_no_witness_is_lost_on_a_boundary(case, group):
    X = case.inputs()
    Z = np.arange(len(X)).tolist()  # every output differs
    rule = lw.Rule("linf", case.epsilon, slack=0, **case.options)
    expected = Oracle(rule).observe_many(X, Z)
    assert sum(len(one.rows) for one in expected) > 4
    edge = any((one.input_distances == rule.epsilon).any() for one in expected)
    assert edge == case.on_the_edge
    for setting, make in groups("linf")[group].items():
        if "part" in setting and setting not in PARTS:
            continue
        monitor = lw.Monitor(rule, index=make(X.shape[1]))
        half = len(X) // 2
        for x, z, one in zip(X[:half], Z[:half], expected[:half], strict=True):
            assert_same_verdict(monitor.observe(x, z), one)
        assert_same_verdicts(monitor.observe_many(X[half:], Z[half:]), expected[half:])
        assert len(monitor) == len(X), setting


@pytest.mark.parametrize("group", groups("linf"))
@pytest.mark.parametrize("past", [[], far_apart()], ids=["few values", "cells"])
def test_one_and_a_hair_below_zero_are_one_apart(group, past):
    for make in groups("linf")[group].values():
        for first, second in ((1.0, -1e-17), (-1e-17, 1.0), (-1.0, 1e-17), (1e-17, -1.0)):
            monitor = lw.Monitor(lw.Rule("linf", 1.0, slack=0), index=make(1))
            for value in past:
                monitor.observe([value], "far away")
            row = monitor.observe([first], "yes").row
            verdict = monitor.observe([second], "no")
            assert verdict.witnesses.rows.tolist() == [row]
            assert verdict.witnesses.input_distances.tolist() == [1.0]


@pytest.mark.parametrize("group", groups("linf"))
def test_a_value_never_seen_is_near_the_values_around_it(group):
    """Asked for only: it is not one of the few values of its column, and does not become one."""
    for make in groups("linf")[group].values():
        monitor = lw.Monitor(lw.Rule("linf", 0.16, slack=0), index=make(2))
        for row, value in enumerate((0.0, 1.0, 2.0, 0.32)):
            monitor.observe([value, 5.0], row)
        for value, near in ((0.16, [0, 3]), (0.1, [0]), (-0.16, [0]), (1.5, []), (2.16, [])):
            assert monitor.check([value, 5.0], "new").witnesses.rows.tolist() == near
            assert monitor.check([value, 5.2], "new").witnesses.rows.tolist() == []
        assert monitor.check([1.9, 5.125], "new").witnesses.rows.tolist() == [2]
