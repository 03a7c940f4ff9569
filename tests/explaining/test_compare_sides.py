"""Two sides compared: which test is used, when nothing can be told, how often it claims falsely.

Answers are drawn from chances that depend on the inputs, the same for both sides unless changed.
"""

import numpy as np
import pytest

import likewise as lw
from likewise.explaining.compare_groups import like_points
from likewise.explaining.compare_sides import JointDecisions, compare_sides
from likewise.explaining.past import Points
from likewise.explaining.side_tests import Answers


def joint_of(x, second, z, *, case=None, person=None, kind="label", epsilon=1.0, delta=0.0):
    points = like_points(Points(x.astype(float), None, lw.Rule("linf", epsilon)))
    plain = z if z.ndim == 1 else np.zeros(len(z))
    return JointDecisions(
        points,
        second,
        Answers(z.astype(float), kind, delta),
        np.arange(len(x)) if case is None else case,
        person,
        "yes" if z.ndim == 1 else None,
        plain.astype(float),
        tuple(f"x{j}" for j in range(x.shape[1])),
        x / epsilon,
    )


def inputs(rng, many, shift=0.0):
    """Inputs on a grid, denser at one end."""
    return np.floor(rng.beta(1.0 + shift, 2.0, (many, 2)) * [24, 9])


def answer(rng, x, flipped=0.0):
    """1 or 0, by chances that depend on the place."""
    chance = 0.5 + 0.45 * np.sin(x[:, 0] / 3 + x[:, 1])
    chance = np.where(rng.random(len(x)) < flipped, 1 - chance, chance)
    return (rng.random(len(x)) < chance).astype(float)


def halves(seed, many=600, *, flipped=0.0, shift=0.0, persons=1):
    rng = np.random.default_rng(seed)
    second = np.arange(many) >= many // 2
    person = rng.permutation(np.arange(many) // persons)
    x = np.where(second[:, None], inputs(rng, many, shift), inputs(rng, many))
    z = answer(rng, x)
    if persons > 1:  # their decisions are the same, input and answer
        _, first = np.unique(person, return_index=True)
        x, z = x[first[person]], z[first[person]]
    z = np.where(second & (rng.random(many) < flipped), 1 - z, z)
    return joint_of(x, second, z, person=person if persons > 1 else None)


def same_cases(seed, many=300, flipped=0.0):
    rng = np.random.default_rng(seed)
    x = inputs(rng, many)
    z = np.concatenate([answer(rng, x), answer(rng, x, flipped)])
    case = np.tile(np.arange(many), 2)
    return joint_of(np.tile(x, (2, 1)), np.arange(2 * many) >= many, z, case=case)


def index_of(x, z):
    """The agreement index, by tables of all pairs."""
    near = np.abs(x[:, None] - x).max(axis=2) <= 1
    np.fill_diagonal(near, val=False)
    some = near.any(axis=1)
    differ = z[:, None] != z
    shares = (near & differ)[some].sum(axis=1) / near[some].sum(axis=1)
    return 1 - shares.mean() / (differ[np.ix_(some, some)].sum(axis=1) / (some.sum() - 1)).mean()


def test_answers_are_swapped_where_most_cases_are_on_both_sides():
    joint = same_cases(0)
    found = compare_sides(joint)
    assert (found.tested_by, found.neighbourhoods) == ("swapped answers", 0)
    x, z = joint.numbers[:300], joint.answers.ranks
    apart = index_of(x, z[300:]) - index_of(x, z[:300])
    assert found.test.difference == pytest.approx(apart)
    assert found.beyond_chance == (found.test.p <= 0.05)


def test_a_case_with_another_input_is_no_same_case():
    joint = same_cases(0)
    x = joint.numbers.copy()
    x[300:480, 0] += 1
    z = joint.answers.ranks
    found = compare_sides(joint_of(x, joint.second, z, case=joint.case))
    assert found.tested_by == "shuffled sides"


def test_probabilities_are_shuffled_and_have_no_effect():
    joint = same_cases(1)
    z = np.column_stack([joint.answers.ranks, 1 - joint.answers.ranks]) * 0.5
    probabilities = joint_of(joint.numbers, joint.second, z, case=joint.case, kind="tv", delta=0.2)
    found = compare_sides(probabilities)
    labels = joint_of(joint.numbers, joint.second, joint.answers.ranks, case=joint.case)
    assert found.tested_by == "shuffled sides"
    assert found.effect.how.code == "no-outcome" and found.effect.is_beyond_chance is None
    assert labels.answers.count == probabilities.answers.count == 2


def test_nothing_is_claimed_where_too_little_is_shared():
    rng = np.random.default_rng(0)
    x, second = inputs(rng, 400), np.arange(400) >= 200
    far = x + 100 * second[:, None]
    found = compare_sides(joint_of(far, second, answer(rng, x)))
    assert (found.beyond_chance, found.how.code) == (None, "nothing-shared")
    assert found.effect.how.code == "nothing-shared"
    few = compare_sides(joint_of(np.floor(x / 12) * 12, second, answer(rng, x)))
    assert (few.beyond_chance, few.how.code) == (None, "too-few")
    assert few.test is None and few.to_dict()["p"] is None
    person = np.where(second, 9, np.arange(400))
    one = compare_sides(joint_of(x, second, answer(rng, x), person=person))
    assert (one.beyond_chance, one.effect.adjusted, one.effect.how.code) == (None, None, "too-few")
    everything = compare_sides(joint_of(x, second, answer(rng, x)), most_pairs=100)
    assert (everything.beyond_chance, everything.how.code) == (None, "too-many-pairs")


def test_the_raw_effect_is_withheld_where_a_column_is_unbalanced():
    rng = np.random.default_rng(2)
    inside = rng.random(2_000)
    x = 3.0 * rng.integers(0, 60, 2_000) + inside
    second = rng.random(2_000) < np.where(inside < 0.5, 0.1, 0.9)
    z = (rng.random(2_000) < 0.2 + 0.6 * inside).astype(float)
    found = compare_sides(joint_of(x[:, None], second, z)).effect
    assert [one.is_unbalanced for one in found.balance] == [True]
    assert found.raw is None and found.adjusted.has_enough_people
    assert not found.is_beyond_chance
    balanced = compare_sides(joint_of(x[:, None], rng.random(2_000) < 0.5, z)).effect
    assert balanced.raw is not None and not balanced.balance[0].is_unbalanced


def test_flipped_answers_are_found_and_lower_answers_too():
    found = compare_sides(halves(1, 2_000, flipped=0.25))
    assert found.beyond_chance and found.test.difference > 0 and found.test.shuffles > 400
    assert compare_sides(same_cases(1, 1_000, flipped=0.2)).beyond_chance
    joint = halves(3, 2_000)
    z = np.where(joint.second & (np.arange(2_000) % 5 == 0), 0, joint.scores)
    effect = compare_sides(joint_of(joint.numbers, joint.second, z)).effect
    assert effect.is_beyond_chance and -0.2 < effect.adjusted.value < -0.03


def claims(kind, trials, **settings):
    """In how many trials something is claimed: of disagreement, and of different answers."""
    found = [compare_sides(kind(seed, **settings)) for seed in range(trials)]
    assert all(one.beyond_chance is not None for one in found)
    return sum(one.beyond_chance for one in found), sum(
        bool(one.effect.is_beyond_chance) for one in found
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "settings", "most"),
    [
        (halves, {}, 0.08),
        (halves, {"shift": 0.6}, 0.12),
        (halves, {"persons": 3, "many": 1_500}, 0.08),
        (same_cases, {}, 0.08),
    ],
    ids=["halves", "other inputs", "persons", "same cases"],
)
def test_chance_is_claimed_to_be_more_as_rarely_as_said(kind, settings, most):
    trials = 150
    of_test, of_effect = claims(kind, trials, **settings)
    noise = 2.6 * np.sqrt(most * (1 - most) / trials)  # one in a hundred
    assert of_test / trials <= most + noise
    assert of_effect / trials <= most + noise
