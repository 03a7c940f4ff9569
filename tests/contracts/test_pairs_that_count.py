"""Pairs of one person, too far apart in time, or of models that are not compared do not count:
verdicts, comparables, like pairs, groups; exactly.

tests/support/loan_pairs.py looks at all pairs, in NumPy.
"""

from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise.errors import BadRule
from likewise.explaining.compare_groups import compare_groups
from likewise.monitor.like_pairs import find_remembered_like_pairs, like_pairs
from tests.support.loan_pairs import (
    COUNT,
    EVERY,
    SPAN,
    Conditions,
    draw_loans,
    every_condition,
    monitor_of_loans,
    rows_in,
    rule_of_loans,
)
from tests.support.refusals import raises

outputs = pytest.mark.parametrize("output", ["label", "number"])
PERSON = Conditions(person=True)
BOTH = Conditions(person=True, within=True)


@pytest.mark.pairwise
@every_condition
@outputs
@pytest.mark.parametrize("index", ["auto", "kdtree"])
@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("support", [False, True])
def test_witnesses_and_comparables_are_those_of_pairs_that_count(
    conditions, output, index, one_by_one, support
):
    some, free = draw_loans(conditions, output), draw_loans(Conditions(), output)
    monitor = monitor_of_loans(conditions, output, index=index, support=support)
    if one_by_one:
        found = []
        for row, time, model in zip(some.rows, some.times, some.models, strict=True):
            checked = monitor.check(row, time=time, model=model)
            verdict = monitor.observe(row, time=time, model=model)
            assert checked.witnesses == verdict.witnesses
            assert checked.comparable == verdict.comparable
            assert checked.support == verdict.support
            assert checked.model == verdict.model == model
            found.append(verdict)
    else:
        found = [
            verdict
            for part in (slice(0, 1), slice(1, 150), slice(150, COUNT))
            for verdict in monitor.observe_many(
                some.rows[part], times=some.times[part], models=some.models[part]
            )
        ]
    assert [one.witnesses.rows.tolist() for one in found] == rows_in(some.contradict)
    assert [one.comparable for one in found] == some.like.any(axis=1).tolist()
    if support:
        agreeing = (some.like & ~some.contradict).sum(axis=1)
        assert [one.support.near for one in found] == some.like.sum(axis=1).tolist()
        assert [one.support.agree for one in found] == agreeing.tolist() and agreeing.max() > 1
    lost = (free.contradict & ~some.contradict).sum()
    assert lost > 20 and some.contradict.sum() > 20, "nothing was left out, or nothing is left"
    apart = some.like.any(axis=1) != free.like.any(axis=1)
    assert apart.sum() > 3, "no decision loses all its like cases"


@every_condition
@outputs
def test_like_pairs_are_those_that_count(conditions, output):
    some = draw_loans(conditions, output)
    monitor = monitor_of_loans(conditions, output)
    monitor.observe_many(some.rows, times=some.times, models=some.models)
    expected = sorted(map(tuple, np.argwhere(some.like).tolist()))
    assert pairs_of(find_remembered_like_pairs(monitor)) == expected and len(expected) > 50
    if not conditions.within:
        assert pairs_of(like_pairs(monitor.rule, some.rows, models=some.models)) == expected


def pairs_of(chunks) -> list[tuple[int, int]]:
    return sorted(
        pair
        for pairs in chunks
        for pair in zip(pairs.later.tolist(), pairs.earlier.tolist(), strict=True)
    )


@pytest.mark.parametrize("conditions", [one for one in EVERY if one.compare != "across"], ids=str)
@outputs
def test_groups_are_compared_over_pairs_that_count(conditions, output):
    some = draw_loans(conditions, output)
    order = np.lexsort((-np.arange(COUNT), some.times))
    assert (order != np.arange(COUNT)).any()
    found = []
    for chosen in (np.arange(COUNT), order):
        monitor = monitor_of_loans(conditions, output)
        monitor.observe_many(
            [some.rows[i] for i in chosen.tolist()],
            times=some.times[chosen],
            models=[some.models[i] for i in chosen.tolist()],
        )
        found.append(compare_groups(monitor.past, range(COUNT)))
    assert found[0] == found[1], "groups depend on the order of equal times"
    (compared,) = found[0][0].comparisons
    women = np.array([row["sex"] == "f" for row in some.rows])
    z = np.array([row["z"] for row in some.rows])
    good = z if output == "number" else (z == "yes").astype(float)
    better = good[None, :] - good[:, None] > (1.0 if output == "number" else 0.0)
    for side in (compared.one, compared.other):
        mine = women if side.group.name == "f" else ~women
        across = some.near & mine[:, None] & ~mine
        assert side.comparable == across.any(axis=1).sum()
        assert side.got_less == (across & better).any(axis=1).sum()
        there = across.any(axis=1)
        like = (across @ good)[there] / across.sum(axis=1)[there]
        assert side.gap == pytest.approx(np.mean(like - good[there]))
        assert side.group.decisions == mine.sum()
        if conditions.person:
            known = {row["who"] for row, one in zip(some.rows, mine, strict=True) if one}
            alone = sum(row["who"] is None for row, one in zip(some.rows, mine, strict=True) if one)
            assert side.group.people == len(known - {None}) + alone
    assert compared.pairs == (some.near & women[:, None] & ~women).sum() > 30


def test_groups_across_models_are_refused_in_words():
    conditions = Conditions("across")
    some = draw_loans(conditions)
    verdicts = monitor_of_loans(conditions).observe_many(some.rows, models=some.models)
    with raises(BadRule):
        verdicts.by_group("sex")


def test_groups_within_a_time_may_be_looked_at_in_part():
    some, monitor = draw_loans(BOTH), monitor_of_loans(BOTH)
    monitor.observe_many(some.rows, times=some.times)
    (groups,) = compare_groups(monitor.past, range(COUNT), most_pairs=100)
    assert groups.sampled < 1
    (whole,) = compare_groups(monitor.past, range(COUNT))
    assert groups.comparisons[0].pairs < whole.comparisons[0].pairs


# The boundary, and what is refused


@pytest.mark.parametrize(("later", "contradicts"), [(0, True), (0.5, False)])
def test_exactly_the_span_before_counts(later, contradicts):
    monitor = lw.Monitor(lw.Rule("linf", 1.0), within="90 days", comparable=True)
    monitor.observe([0.0], "yes", time=0)
    verdict = monitor.observe([0.0], "no", time=90 * 86_400 + later)
    assert (verdict.violation, verdict.comparable) == (contradicts, contradicts)


def test_equal_times_count_whatever_the_span():
    monitor = lw.Monitor(lw.Rule("linf", 1.0), within="1 second")
    counts = monitor.observe_many([[0.0]] * 4, [1, 2, 3, 4], times=[5.0] * 4).counts
    assert counts.tolist() == [0, 1, 2, 3]


def test_times_are_asked_for_and_may_not_go_back():
    monitor = lw.Monitor(lw.Rule("linf", 1.0), within="1 day")
    for call in (
        lambda: monitor.observe([0.0], "yes"),
        lambda: monitor.observe_many([[0.0]], ["yes"]),
        lambda: monitor.load([[0.0]], ["yes"]),
    ):
        with raises(lw.errors.MissingValue):
            call()
    monitor.observe([0.0], "yes", time="2024-05-02")
    for call in (
        lambda: monitor.observe([0.0], "no", time="2024-05-01"),
        lambda: monitor.check([0.0], "no", time="2024-05-01"),
        lambda: monitor.load([[0.0]], ["no"], times=["2024-05-01"]),
        lambda: monitor.observe_many([[0.0]] * 2, [1, 2], times=["2024-05-03", "2024-05-02"]),
    ):
        with raises(lw.errors.WrongOrder):
            call()
    assert monitor.rows == 1
    assert monitor.check([0.0], "no").violation  # as if it came with the last
    assert not monitor.check([0.0], "no", time="2024-05-04").violation


def test_loaded_decisions_are_within_reach_by_their_times():
    monitor = lw.Monitor(lw.Rule("linf", 1.0), within="1 day")
    monitor.load([[0.0], [0.0]], ["yes", "maybe"], times=["2024-05-01", "2024-05-02"])
    verdict = monitor.observe([0.0], "no", time="2024-05-02T12:00:00")
    assert verdict.witnesses.rows.tolist() == [1]


@pytest.mark.parametrize("within", ["", "90", "90 rows", "0 days", 90, "all", "-1 days"])
def test_a_span_that_is_none_is_refused(within):
    with raises(BadRule, setting="within"):
        lw.Monitor(lw.Rule("linf", 1.0), within=within)


def test_an_unknown_person_is_refused_unless_the_rule_says_otherwise():
    monitor = lw.Monitor(rule_of_loans(PERSON, missing="reject"))
    row = {"age": 30, "job": "x", "who": None, "sex": "f", "z": "yes"}
    with raises(lw.errors.MissingValue, column="who", place=0):
        monitor.observe(row)


def test_two_persons_or_one_that_matches_are_no_rule():
    with raises(BadRule):
        lw.Rule(
            features={
                "a": {"kind": "number", "tolerance": 1},
                "b": {"kind": "person"},
                "c": {"kind": "person"},
            },
            output_column="z",
        )
    with raises(BadRule):
        lw.Feature("person", missing="match")


def test_the_fingerprint_covers_the_person_and_toml_gives_it_back():
    with_person, without = rule_of_loans(PERSON), rule_of_loans(Conditions())
    assert with_person.fingerprint != without.fingerprint
    assert lw.Rule.from_toml(with_person.to_toml()) == with_person
    assert (with_person.person_column, without.person_column) == ("who", None)


def test_calibrate_refuses_a_person_and_says_what_to_do():
    some = draw_loans(PERSON)
    with raises(BadRule):
        lw.calibrate(rule_of_loans(PERSON), some.rows)


def test_a_forgotten_person_is_gone_from_memory():
    monitor = lw.Monitor(rule_of_loans(PERSON))
    rows = [
        {"age": 30, "job": "x", "who": who, "sex": "f", "z": "yes"} for who in ("ann", "bob", "ann")
    ]
    monitor.observe_many(rows[:2])
    monitor.observe(rows[2])
    monitor.forget([1])
    assert "bob" not in map(str, monitor.core.memory.words()["who"])
    monitor.forget([0])
    assert "ann" in monitor.core.memory.words()["who"]
    again = dict(rows[1], z="no")
    assert monitor.observe(again).witnesses.rows.tolist() == [2]
    assert monitor.observe(dict(again, z="yes")).witnesses.rows.tolist() == []


# Ledgers


def test_a_ledger_keeps_persons_and_says_the_same_when_it_is_opened_again(tmp_path):
    some = draw_loans(PERSON)
    rule = rule_of_loans(PERSON)
    with lw.open(tmp_path / "ledger", rule, durability="batch", comparable=True) as monitor:
        first = [list(one.witnesses.rows) for one in monitor.observe_many(some.rows[:250])]
    with lw.open(tmp_path / "ledger", comparable=True) as monitor:
        verdicts = monitor.observe_many(some.rows[250:])
        second = [list(one.witnesses.rows) for one in verdicts]
        assert verdicts.comparable.tolist() == some.like[250:].any(axis=1).tolist()
        assert monitor.ledger.verify().ok
    assert [sorted(rows) for rows in first + second] == rows_in(some.contradict)
    replayed = lw.replay(tmp_path / "ledger")
    assert replayed.ok and replayed.rows == COUNT


def test_an_erased_person_is_in_no_file_of_a_ledger(tmp_path):
    rule = rule_of_loans(PERSON)
    with lw.open(tmp_path / "ledger", rule) as monitor:
        for who in ("Wilhelmina", "Bartholomew", "Wilhelmina"):
            monitor.observe({"age": 30, "job": "x", "who": who, "sex": "f", "z": "yes"})
        assert monitor.erase(rows=[1]).complete
        again = {"age": 30, "job": "x", "who": "Bartholomew", "sex": "f", "z": "no"}
        assert monitor.check(again).witnesses.rows.tolist() == [0, 2]
    texts = b"".join(
        path.read_bytes() for path in (tmp_path / "ledger").rglob("*") if path.is_file()
    )
    assert b"Bartholomew" not in texts and b"Wilhelmina" in texts
    assert lw.replay(tmp_path / "ledger").ok


# Together with other conditions


@pytest.mark.parametrize("compare", ["all", "within", "across"])
def test_conditions_groups_that_must_differ_and_open_places_hold_together(compare):
    conditions = replace(BOTH, compare=compare)
    some = draw_loans(conditions)
    rng = np.random.default_rng(8)
    grade = np.where(rng.random(COUNT) < 0.2, np.nan, rng.integers(0, 3, COUNT))
    rows = [
        {**row, "grade": None if np.isnan(one) else float(one)}
        for row, one in zip(some.rows, grade, strict=True)
    ]
    kept = rule_of_loans(conditions)
    open_places = {"kind": "number", "tolerance": 1, "missing": "match"}
    rule = replace(
        kept, features={**kept.features, "grade": open_places}, protected_must_differ=True
    )
    monitor = lw.Monitor(rule, comparable=True, within=f"{SPAN} days")
    first = slice(0, 300)
    found = [*monitor.observe_many(rows[first], times=some.times[first], models=some.models[first])]
    for i in range(300, COUNT):
        found.append(monitor.observe(rows[i], time=some.times[i], model=some.models[i]))
    sex = np.array([row["sex"] for row in rows])
    fits = ~(np.abs(grade[:, None] - grade) > 1)  # NaN compares as not farther
    near = some.near & fits & (sex[:, None] != sex)
    like = np.tril(near, -1)
    contradict = like & some.differ
    assert [one.witnesses.rows.tolist() for one in found] == rows_in(contradict)
    assert [one.comparable for one in found] == like.any(axis=1).tolist()
    assert 5 < contradict.sum() < (some.contradict & fits).sum()
    if compare != "across":
        (groups,) = compare_groups(monitor.past, range(COUNT))
        women = sex == "f"
        assert groups.comparisons[0].pairs == (near & women[:, None] & ~women).sum()
