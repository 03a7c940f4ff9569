"""The output is taken by its name where that tells, with a note, and asked for elsewhere."""

import numpy as np
import pytest

from likewise.proposing.output_column import candidates, favourable_of, guess_output
from likewise.proposing.profile import Profile, profiles_of
from tests.support.looping import each

N = 100
RNG = np.random.default_rng(6)
ANSWERS = RNG.choice(["yes", "no"], N)


def table(*names, **more):
    return profiles_of({
        "x": RNG.random(N), **{name: RNG.choice(["a", "b"], N) for name in names}, **more
    })  # fmt: skip


@each(
    ("names", "output"),
    [
        (["prediction", "label"], "prediction"),
        (["label", "approved"], "approved"),
        (["target", "class", "y", "loan_decision"], "loan_decision"),
        (["income", "pred"], "pred"),
        (["approved", "score"], "approved"),
        (["outcome", "label"], "outcome"),
        (["previous_decision", "Entscheidung"], "Entscheidung"),
        (["decision_date", "approved_amount", "decision"], "decision"),
        (["label"], "label"),
        (["class"], "class"),
        (["score", "label"], "score"),
    ],
)
def test_the_best_name_is_the_output(names, output):
    guess = guess_output(table(*names))
    assert guess is not None and guess.column == output and guess.note


@each(
    "names",
    [["income"], [], ["status"], ["previous_decision"], ["approved", "prediction"], ["p0", "p1"],
     ["label", "y"], ["decision_date"]],
)  # fmt: skip
def test_in_doubt_no_column_is_the_output(names):
    assert guess_output(table(*names)) is None


@pytest.mark.parametrize("name", ["label", "target", "y", "class", "y_true"])
def test_a_truth_is_never_the_output_silently(name):
    guess = guess_output(table(name))
    assert guess is not None and "truth rather than a decision" in guess.note


def test_of_two_columns_that_say_the_same_the_good_one_is_the_output():
    both = {"declined": (ANSWERS == "no").astype(int), "approved": (ANSWERS == "yes").astype(int)}
    guess = guess_output(table(**both))
    assert guess is not None and guess.column == "approved"


def test_candidates_are_those_with_few_values_and_not_protected():
    found = table("sex", "grade", "status", code=np.arange(N) % 40)
    assert candidates(found) == ["status", "grade"]


@each(
    ("name", "values", "good"),
    [
        ("approved", ["yes", "no"], "yes"),
        ("declined", ["yes", "no"], "no"),
        ("declined", [0, 1], 0),
        ("prediction", [0, 1], 1),
        ("default", [0, 1], 0),
        ("decision", ["approved", "declined"], "approved"),
        ("Entscheidung", ["genehmigt", "abgelehnt"], "genehmigt"),
        ("grade", ["A", "B"], None),
        ("approved", list("abcd"), None),
    ],
)
def test_what_everyone_wants_is_guessed_from_words(name, values, good):
    assert favourable_of(Profile.of(name, values)) == good
