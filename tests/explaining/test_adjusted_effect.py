"""Group effects, adjusted in neighbourhoods: least squares with dummies give the same numbers."""

import numpy as np
import pytest

from likewise.explaining.adjusted_effect import estimate_effect
from tests.support.looping import each


def cases(seed: int, n: int = 300, columns: int = 2):
    """Cases in neighbourhoods, some of one group only; the outcome depends on all the rest."""
    rng = np.random.default_rng(seed)
    neighbourhood = rng.integers(0, n // 4, n) * 7
    second = rng.random(n) < 0.4
    x = rng.normal(size=(n, columns)) + 0.5 * second[:, None]
    y = x.sum(axis=1) * 0.3 + 0.2 * second + neighbourhood % 5 + rng.normal(size=n)
    return y, second, neighbourhood, x, rng.integers(-1, n // 3, n)


def design(second, neighbourhood, x):
    """The mixed rows, and the columns of a regression: group, x, and a dummy per neighbourhood."""
    mixed = np.array([len(set(second[neighbourhood == one])) == 2 for one in neighbourhood])
    dummies = neighbourhood[mixed, None] == np.unique(neighbourhood[mixed])
    return mixed, np.column_stack([second[mixed], x[mixed], dummies]).astype(float)


@each("columns", [0, 2])
@each("seed", range(4))
def test_effect_is_that_of_least_squares_with_dummies(seed, columns):
    y, second, neighbourhood, x, _ = cases(seed, columns=columns)
    mixed, regressors = design(second, neighbourhood, x)
    expected = np.linalg.lstsq(regressors, y[mixed], rcond=None)[0][0]
    found = estimate_effect(y, second, neighbourhood, x)
    assert found.value == pytest.approx(expected)
    assert found.neighbourhoods == len(np.unique(neighbourhood[mixed]))
    assert found.first_people == (~second[mixed]).sum()
    assert found.second_people == second[mixed].sum()


@each("persons", [False, True])
@each("seed", range(3))
def test_standard_error_is_the_formula_of_clustered_residuals(seed, persons):
    y, second, neighbourhood, x, person = cases(seed)
    mixed, regressors = design(second, neighbourhood, x)
    residual = y[mixed] - regressors @ np.linalg.lstsq(regressors, y[mixed], rcond=None)[0]
    leverage = np.diag(regressors @ np.linalg.pinv(regressors))
    others = regressors[:, 1:]
    own = regressors[:, 0] - others @ np.linalg.lstsq(others, regressors[:, 0], rcond=None)[0]
    scores = own * residual / np.sqrt(1 - leverage)
    person = np.where(person < 0, 10_000 + np.arange(len(person)), person)[mixed]
    sums = [scores[person == one].sum() for one in np.unique(person)] if persons else scores
    squares = np.square(sums)
    found = estimate_effect(y, second, neighbourhood, x, cases(seed)[-1] if persons else None)
    assert found.se == pytest.approx(np.sqrt(squares.sum()) / (own @ own))
    assert found.effective == pytest.approx(squares.sum() ** 2 / (squares**2).sum())
    assert (found.low, found.high) == pytest.approx(
        (found.value - 1.96 * found.se, found.value + 1.96 * found.se)
    )
    assert found.smallest_detectable == pytest.approx(2.8 * found.se)


@each("seed", range(3))
def test_effect_does_not_depend_on_order_or_names(seed):
    y, second, neighbourhood, x, person = cases(seed)
    x = np.round(x)
    found = estimate_effect(y, second, neighbourhood, x, person)
    order = np.random.default_rng(seed).permutation(len(y))
    renamed = -neighbourhood[order] % 1009
    people = np.where(person < 0, -1, 997 - person)[order]
    assert estimate_effect(y[order], second[order], renamed, x[order], people) == found


def test_columns_that_repeat_or_never_vary_change_nothing():
    y, second, neighbourhood, x, _ = cases(1)
    found = estimate_effect(y, second, neighbourhood, x)
    more = np.column_stack([x, x[:, 0] - 2 * x[:, 1], neighbourhood, np.full(len(y), np.nan)])
    again = estimate_effect(y, second, neighbourhood, more)
    assert (again.value, again.se) == pytest.approx((found.value, found.se))


def test_nothing_is_estimated_without_a_shared_neighbourhood_or_if_a_column_is_the_group():
    y, second, neighbourhood, x, _ = cases(2)
    assert estimate_effect(y, second, second.astype(np.int64)) is None
    assert estimate_effect(y, second, neighbourhood, second[:, None] * 3.0) is None
    assert not estimate_effect(np.ones(len(y)), second, neighbourhood).has_enough_people
    assert estimate_effect(y, second, neighbourhood, x).has_enough_people
    few = np.flatnonzero(second)[9:]
    second[few] = False
    assert not estimate_effect(y, second, neighbourhood * 0, x).has_enough_people
