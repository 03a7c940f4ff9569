"""Truth that was planted is found, and nothing else: each case states its truth first."""

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from likewise.explaining.compare_groups import compare_groups
from likewise.reports.group_section import group_sentences

RULE = lw.Rule(
    features={
        "x": Feature("number", tolerance=1),
        "group": Feature("protected"),
        "who": Feature("protected"),
    },
    output_column="z",
    favourable="yes",
)


def compared(x, group, good, *, person=None, rule=RULE, shuffles=1000):
    who = np.arange(len(x)) if person is None else person
    monitor = lw.Monitor(rule)
    outputs = np.where(good, "yes", "no").tolist() if rule.output == "label" else good
    rows = zip(x, group, who, outputs, strict=True)
    monitor.observe_many(
        [{"x": float(a), "group": str(g), "who": str(w), "z": z} for a, g, w, z in rows]
    )
    return compare_groups(
        monitor.past,
        range(len(x)),
        ["group"],
        person=None if person is None else "who",
        shuffles=shuffles,
    )[0]


def test_many_pairs_of_few_people_are_told_as_few_people():
    """26 of a got less in 566 pairs: 25 beside 22 favoured of b, one beside 16; b never."""
    x = [0.0] * 25 + [50.0] + [0.0] * 22 + [50.0] * 16
    group = ["a"] * 26 + ["b"] * 38
    groups = compared(x, group, [False] * 26 + [True] * 38)
    pair = groups.find_comparison("a", "b")
    assert (pair.one.group.value, pair.pairs, pair.one_less, pair.other_less) == ("a", 566, 566, 0)
    assert (pair.one.got_less, pair.other.got_less) == (26, 0)
    assert pair.is_supported and pair.test.difference == pytest.approx(1.0)


def test_many_pairs_of_one_person_are_no_finding():
    """One decision of a was refused beside 566 of b, of whom half were refused, too."""
    good = np.arange(566) % 2 == 0
    groups = compared([0.0] * 567, ["a"] + ["b"] * 566, np.append(False, good))
    pair = groups.find_comparison("a", "b")
    assert (pair.one_less, pair.other_less, pair.one.got_less) == (283, 0, 1)
    assert pair.test is None and not pair.is_supported
    assert group_sentences([groups]) == [
        "By group: too few similar cases across groups to conclude anything."
    ]


def planted(seed: int, n: int, share: float, gap: float):
    """x decides how likely a favourable answer is; group a gets it less often, by `gap`."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 30, n).astype(float) * 5
    group = np.where(rng.random(n) < share, "a", "b")
    chance = 0.3 + 0.4 * x / 150 - gap * (group == "a")
    return x, group, rng.random(n) < chance


def test_planted_gap_is_found_in_its_direction():
    """Members of a get the favourable answer 15 points less often than similar members of b."""
    for seed, share in ((1, 0.5), (2, 0.1)):
        groups = compared(*planted(seed, 3_000, share, 0.15))
        pair = groups.comparisons[0]
        assert pair.is_supported and pair.one.group.value == "a"
        assert pair.test.difference == pytest.approx(0.15, abs=0.06)
        assert pair.one.gap > 0 > pair.other.gap
        assert pair.test.difference > pair.test.high
        (said,) = group_sentences([groups])
        start = "By group: a got the favourable answer less often than similar b, by 1"
        assert said.startswith(start)


def test_size_of_the_other_group_does_not_turn_the_direction():
    """b got less, and is 50 times as large: a is in as many pairs, and gets less in none."""
    for share in (1 / 51, 0.5, 50 / 51):
        x, group, good = planted(3, 6_000, share, 0.0)
        rng = np.random.default_rng(4)
        good &= (group == "a") | (rng.random(len(good)) < 0.6)
        pair = compared(x, group, good).comparisons[0]
        assert (pair.one.group.value, pair.is_supported) == ("b", True)
        assert pair.one.gap > 0.1 and pair.test.difference > 0.1


def test_groups_that_differ_in_inputs_alone_are_no_finding():
    """a and b get different answers because of x, which is a reason; similar cases fare alike."""
    rng = np.random.default_rng(5)
    group = np.where(rng.random(4_000) < 0.4, "a", "b")
    x = 5.0 * rng.integers(0, 20, 4_000) + 50 * (group == "b")
    groups = compared(x, group, rng.random(4_000) < x / 150)
    pair = groups.comparisons[0]
    low, high = sorted(one.favourable for one in groups.groups)
    assert high - low > 0.25  # in general
    assert not pair.is_supported and abs(pair.test.difference) < 0.06  # among similar cases
    assert group_sentences([groups]) == [
        "By group: no difference between similar cases of two groups goes beyond chance."
    ]


def test_planted_gap_of_numbers_is_found():
    """Low outputs are wanted; a gets 0.5 more than similar members of b."""
    rule = lw.Rule(
        features=RULE.features, output_column="z", output="number", delta=0.1, favourable="low"
    )
    rng = np.random.default_rng(6)
    x = 5.0 * rng.integers(0, 20, 1_000)
    group = np.where(rng.random(1_000) < 0.3, "a", "b")
    z = x / 10 + rng.normal(0, 1, 1_000) + 0.5 * (group == "a")
    groups = compared(x, group, z.tolist(), rule=rule)
    pair = groups.comparisons[0]
    assert pair.is_supported and pair.one.group.value == "a" and not groups.higher_is_better
    assert pair.test.difference == pytest.approx(0.5, abs=0.2)
    assert pair.one.favourable > pair.other.favourable  # as they are in the data
    (said,) = group_sentences([groups])
    assert said.startswith("By group: a got a worse output than similar b, on average by 0.")


def test_opposite_differences_in_two_places_are_not_told_as_one_direction():
    """a gets less in one crowd and more in many small places: no sentence says that a got less."""
    rng = np.random.default_rng(8)
    crowd = np.where(rng.random(3_000) < 0.5, "a", "b")
    x = np.concatenate([np.zeros(3_000), 5.0 * rng.integers(1, 300, 3_000)])
    small = np.where(rng.random(3_000) < 0.9, "a", "b")
    good = np.concatenate(
        [
            rng.random(3_000) < np.where(crowd == "a", 0.4, 0.6),
            rng.random(3_000) < np.where(small == "a", 0.8, 0.5),
        ]
    )
    groups = compared(x, np.concatenate([crowd, small]), good)
    pair = groups.comparisons[0]
    assert pair.test.is_beyond_chance and not pair.is_one_directional and not pair.is_supported
    assert pair.conclusion == "beyond chance, but in no one direction"
    assert group_sentences([groups])[0].endswith("beyond chance, but in no one direction.")


@pytest.mark.long
def test_shuffled_groups_are_beyond_chance_as_often_as_said():
    """Of 200 shuffles of the labels 4 to 17 have p < .05; outcomes depend on x, and x is lumpy."""
    rng = np.random.default_rng(9)
    x, group, good = planted(9, 500, 0.3, 0.15)
    found = [
        compared(x, rng.permutation(group), good, shuffles=300).comparisons[0].test.p
        for _ in range(200)
    ]
    assert 4 <= sum(p < 0.05 for p in found) <= 17
    assert 0.4 < np.mean(found) < 0.65


# People


def test_people_are_counted_once_however_many_decisions_they_have():
    """Four people of a with 5 refusals each beside three of b with 2 favourable answers each."""
    person = np.concatenate([np.repeat(np.arange(4), 5), 10 + np.repeat(np.arange(3), 2)])
    group = ["a"] * 20 + ["b"] * 6
    pair = compared([0.0] * 26, group, [False] * 20 + [True] * 6, person=person).comparisons[0]
    assert (pair.pairs, pair.one_less) == (120, 120)
    assert (pair.one.got_less, pair.one.got_less_people) == (20, 4)
    assert (pair.one.comparable_people, pair.other.comparable_people) == (4, 3)
    assert (pair.one.group.people, pair.other.group.people) == (4, 3)
    assert pair.test is None  # 26 decisions, and 7 people


def test_people_of_several_groups_take_no_part():
    person = np.array([0, 0, 1, 2, 2])
    groups = compared([0.0] * 5, ["a", "b", "a", "b", "b"], [True] * 5, person=person)
    assert groups.inconsistent == 1
    assert sum(one.decisions for one in groups.groups) == 3
    assert "1 person is in several groups and takes no part" in str(groups)


@pytest.mark.long
def test_decisions_of_one_person_do_not_pass_for_many_people():
    """Answers depend on the person alone; 20 decisions each, taken for people, look like proof."""
    rng = np.random.default_rng(10)
    as_people, as_decisions = [], []
    for _ in range(60):
        lucky = rng.random(40) < 0.5
        a = rng.permutation(40) < 20
        person = np.repeat(np.arange(40), 20)
        group = np.where(a[person], "a", "b")
        for told, who in ((as_people, person), (as_decisions, None)):
            pair = compared(np.zeros(800), group, lucky[person], person=who, shuffles=100)
            told.append(pair.comparisons[0].test.p < 0.05)
    assert sum(as_people) <= 8
    assert sum(as_decisions) > 30
