"""Columns that give the output away are found, and those that only go with it are not."""

import numpy as np
import pytest

from likewise.proposing.output_column import leak_of
from likewise.proposing.profile import Profile
from tests.support.looping import each

N = 300
RNG = np.random.default_rng(11)
P = RNG.random(N)
PRED = P > 0.5
NOISE = RNG.random(N)


def profile(name, values):
    return Profile.of(name, values if isinstance(values, list) else np.asarray(values))


APPROVED = profile("approved", np.where(PRED, "yes", "no"))
GIVES_AWAY = {
    "copy": PRED.astype(int),
    "declined": (~PRED).astype(int),
    "in words": np.where(PRED, "granted", "refused"),
    "reason": [None if one else RNG.choice(["debt", "age"]) for one in PRED],
    "probability": P,
    "complement": 1 - P,
    "logit": np.log(P / (1 - P)),
    "points": np.round(1000 * P + PRED),
    "rate, once approved": [float(x) if one else None for x, one in zip(NOISE, PRED, strict=True)],
    "a score that nearly does": P + 0.05 * RNG.normal(size=N),
}
KEEPS = {
    "noise": NOISE,
    "goes with it": P + 0.3 * RNG.normal(size=N),
    "nearly, but not called a score": P + 0.05 * RNG.normal(size=N),
    "category": RNG.choice(["a", "b", "c"], N),
    "one value tells, the other not": np.where(PRED & (NOISE > 0.5), "x", "y"),
    "missing now and then": [None if x > 0.9 else float(x) for x in NOISE],
}


@each("name", GIVES_AWAY)
def test_what_gives_a_label_away_is_found(name):
    assert leak_of(profile(name, GIVES_AWAY[name]), APPROVED, numeric=False)


@pytest.mark.parametrize("name", KEEPS)
def test_what_only_goes_with_a_label_is_kept(name):
    column = profile(name.replace("score", "grade"), KEEPS[name])
    assert leak_of(column, APPROVED, numeric=False) is None


def test_three_outputs_are_separated_by_two_thresholds():
    level = profile("level", np.select([P < 0.3, P < 0.7], ["low", "middle"], "high"))
    assert leak_of(profile("points", P), level, numeric=False)
    assert leak_of(profile("points", P + 0.1 * NOISE), level, numeric=False) is None


def test_what_gives_a_number_away_is_found():
    p1 = profile("p1", P)
    for values in (1 - P, 3 * P + 2, np.exp(P), np.round(P, 3), PRED, np.where(PRED, "yes", "no")):
        assert leak_of(profile("c", values), p1, numeric=True)
    for values in (NOISE, P + 0.01 * NOISE, NOISE > 0.5, RNG.choice(["a", "b"], N)):
        assert leak_of(profile("c", values), p1, numeric=True) is None


@pytest.mark.parametrize("rows", [3, 7, 15])
def test_few_rows_of_one_output_prove_nothing(rows):
    few = profile("approved", ["yes"] * 200 + ["no"] * min(rows, 7))
    column = profile("score", np.arange(len(few)))
    assert leak_of(column, few, numeric=False) is None


def test_chance_gives_nothing_away():
    """Of 2,000 columns of noise beside 8 and 12 rows of two outputs none separates them."""
    output = profile("z", ["a"] * 8 + ["b"] * 12)
    noise = np.random.default_rng(2).random((2_000, 20))
    assert not any(leak_of(profile("x", one), output, numeric=False) for one in noise)
