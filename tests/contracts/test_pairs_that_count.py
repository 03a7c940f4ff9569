"""Pairs of one person, and pairs too far apart in time, do not count: verdicts, comparables, like
pairs, groups; exactly.

The oracle looks at all pairs, in NumPy. Ages are whole numbers and the tolerance is one of their
differences, times are whole days and the span is one of theirs, so pairs lie on both boundaries.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import likewise as lw
from likewise.errors import BadRule
from likewise.explaining.compare_groups import compare_groups
from likewise.monitor.like_pairs import find_remembered_like_pairs, like_pairs
from tests.support.refusals import raises

DAY = 86_400_000_000
SPAN = 9
COUNT = 400


@dataclass(frozen=True)
class Case:
    """Decisions, and which of two count for each other."""

    rows: list[dict]
    times: np.ndarray
    near: np.ndarray
    differ: np.ndarray

    @property
    def like(self) -> np.ndarray:
        """[later, earlier]"""
        return np.tril(self.near, -1)

    @property
    def contradict(self) -> np.ndarray:
        return self.like & self.differ


def case(output: str, *, person: bool, within: bool, seed: int = 1) -> Case:
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 220, COUNT)
    job = rng.integers(0, 3, COUNT)
    who = rng.integers(0, 60, COUNT).astype(object)
    age = np.where(rng.random(COUNT) < 0.7, 20 + who * 3, age).astype(int)
    job = np.where(rng.random(COUNT) < 0.8, who % 3, job).astype(int)
    who[rng.random(COUNT) < 0.15] = None
    sex = np.array([(one if one is not None else i) % 2 for i, one in enumerate(who)])
    days = np.sort(rng.integers(0, 60, COUNT))
    score = rng.integers(0, 4, COUNT)
    rows = [
        {
            "age": int(age[i]),
            "job": f"job {job[i]}",
            "who": who[i],
            "sex": "f" if sex[i] else "m",
            "z": float(score[i]) if output == "number" else "yes" if score[i] > 1 else "no",
        }
        for i in range(COUNT)
    ]
    near = (np.abs(age[:, None] - age) <= 3) & (job[:, None] == job)
    if person:
        known = np.array([one is not None for one in who])
        near &= ~((who[:, None] == who) & known[:, None] & known)
    if within:
        near &= np.abs(days[:, None] - days) <= SPAN
    z = np.array([row["z"] for row in rows])
    differ = np.abs(z[:, None] - z) > 1 if output == "number" else z[:, None] != z
    return Case(rows, days * DAY, near, differ)


def rule_of(output: str, *, person: bool, missing: str = "mismatch") -> lw.Rule:
    who = {"kind": "person", "missing": missing} if person else {"kind": "ignore"}
    numbers = output == "number"
    return lw.Rule(
        features={
            "age": {"kind": "number", "tolerance": 3},
            "job": {"kind": "category"},
            "who": who,
            "sex": {"kind": "protected"},
        },
        output_column="z",
        output=output,
        delta=1.0 if numbers else 0.0,
        favourable="high" if numbers else "yes",
    )


def monitor_of(output: str, *, person: bool, within: bool, **settings) -> lw.Monitor:
    span = f"{SPAN} days" if within else None
    return lw.Monitor(rule_of(output, person=person), comparable=True, within=span, **settings)


def instants(times: np.ndarray) -> np.ndarray:
    return times.astype("datetime64[us]")


WAYS = [(True, False), (False, True), (True, True)]
ways = pytest.mark.parametrize(("person", "within"), WAYS, ids=["person", "within", "both"])
outputs = pytest.mark.parametrize("output", ["label", "number"])


@ways
@outputs
@pytest.mark.parametrize("index", ["auto", "kdtree"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_witnesses_and_comparables_are_those_of_pairs_that_count(
    output, person, within, index, one_by_one
):
    some = case(output, person=person, within=within)
    free = case(output, person=False, within=False)
    monitor = monitor_of(output, person=person, within=within, index=index)
    if one_by_one:
        found = []
        for row, time in zip(some.rows, instants(some.times), strict=True):
            checked = monitor.check(row, time=time)
            verdict = monitor.observe(row, time=time)
            assert checked.witnesses.rows.tolist() == verdict.witnesses.rows.tolist()
            assert checked.comparable == verdict.comparable
            found.append(verdict)
    else:
        parts = (slice(0, 1), slice(1, 150), slice(150, COUNT))
        found = [
            verdict
            for part in parts
            for verdict in monitor.observe_many(some.rows[part], times=instants(some.times)[part])
        ]
    for i, verdict in enumerate(found):
        assert (
            sorted(verdict.witnesses.rows.tolist()) == np.flatnonzero(some.contradict[i]).tolist()
        )
        assert verdict.comparable == some.like[i].any()
    lost = (free.contradict & ~some.contradict).sum()
    assert lost > 20 and some.contradict.sum() > 20, "nothing was left out, or nothing is left"
    apart = some.like.any(axis=1) != free.like.any(axis=1)
    assert apart.sum() > 3, "no decision loses all its like cases"


@ways
@outputs
def test_like_pairs_are_those_that_count(output, person, within):
    some = case(output, person=person, within=within)
    monitor = monitor_of(output, person=person, within=within)
    monitor.observe_many(some.rows, times=instants(some.times))
    found = {
        (int(later), int(earlier))
        for pairs in find_remembered_like_pairs(monitor)
        for later, earlier in zip(pairs.later, pairs.earlier, strict=True)
    }
    assert found == set(map(tuple, np.argwhere(some.like).tolist()))
    if not within:
        again = like_pairs(rule_of(output, person=person), some.rows)
        assert sum(len(pairs) for pairs in again) == some.like.sum()


@ways
@outputs
def test_groups_are_compared_over_pairs_that_count(output, person, within):
    some = case(output, person=person, within=within)
    monitor = monitor_of(output, person=person, within=within)
    monitor.observe_many(some.rows, times=instants(some.times))
    (groups,) = compare_groups(monitor.past, range(COUNT))
    (compared,) = groups.comparisons
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
        if person:
            known = {row["who"] for row, one in zip(some.rows, mine, strict=True) if one}
            alone = sum(row["who"] is None for row, one in zip(some.rows, mine, strict=True) if one)
            assert side.group.people == len(known - {None}) + alone
    assert compared.pairs == (some.near & women[:, None] & ~women).sum()
    assert compared.pairs > 100


def test_groups_within_a_time_do_not_depend_on_the_order_of_equal_times():
    some = case("label", person=False, within=True)
    order = np.lexsort((np.random.default_rng(2).random(COUNT), some.times))
    assert (order != np.arange(COUNT)).any()
    found = []
    for chosen in (np.arange(COUNT), order):
        monitor = monitor_of("label", person=False, within=True)
        rows = [some.rows[i] for i in chosen.tolist()]
        monitor.observe_many(rows, times=instants(some.times[chosen]))
        found.append(compare_groups(monitor.past, range(COUNT)))
    assert found[0] == found[1]


def test_groups_within_a_time_may_be_looked_at_in_part():
    some = case("label", person=True, within=True)
    monitor = monitor_of("label", person=True, within=True)
    monitor.observe_many(some.rows, times=instants(some.times))
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
    monitor = lw.Monitor(rule_of("label", person=True, missing="reject"))
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
    with_person, without = rule_of("label", person=True), rule_of("label", person=False)
    assert with_person.fingerprint != without.fingerprint
    assert lw.Rule.from_toml(with_person.to_toml()) == with_person
    assert (with_person.person_column, without.person_column) == ("who", None)


def test_calibrate_refuses_a_person_and_says_what_to_do():
    some = case("label", person=True, within=False)
    with raises(BadRule):
        lw.calibrate(rule_of("label", person=True), some.rows)


def test_a_forgotten_person_is_gone_from_memory():
    monitor = lw.Monitor(rule_of("label", person=True))
    rows = [
        {"age": 30, "job": "x", "who": who, "sex": "f", "z": "yes"} for who in ("ann", "bob", "ann")
    ]
    monitor.observe_many(rows[:2])
    monitor.observe(rows[2])
    monitor.forget([1])
    assert "bob" not in map(str, monitor.memory.words()["who"])
    monitor.forget([0])
    assert "ann" in monitor.memory.words()["who"]
    again = dict(rows[1], z="no")
    assert monitor.observe(again).witnesses.rows.tolist() == [2]
    assert monitor.observe(dict(again, z="yes")).witnesses.rows.tolist() == []


# Ledgers


def test_a_ledger_keeps_persons_and_says_the_same_when_it_is_opened_again(tmp_path):
    some = case("label", person=True, within=False)
    rule = rule_of("label", person=True)
    with lw.open(tmp_path / "ledger", rule, durability="batch", comparable=True) as monitor:
        first = [list(one.witnesses.rows) for one in monitor.observe_many(some.rows[:250])]
    with lw.open(tmp_path / "ledger", comparable=True) as monitor:
        verdicts = monitor.observe_many(some.rows[250:])
        second = [list(one.witnesses.rows) for one in verdicts]
        assert verdicts.comparable.tolist() == some.like[250:].any(axis=1).tolist()
        assert monitor.verify().ok
    expected = [np.flatnonzero(some.contradict[i]).tolist() for i in range(COUNT)]
    assert [sorted(rows) for rows in first + second] == expected
    replayed = lw.replay(tmp_path / "ledger")
    assert replayed.ok and replayed.rows == COUNT


def test_an_erased_person_is_in_no_file_of_a_ledger(tmp_path):
    rule = rule_of("label", person=True)
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


def test_persons_spans_groups_that_must_differ_and_open_places_hold_together():
    some = case("label", person=True, within=True)
    rng = np.random.default_rng(8)
    grade = np.where(rng.random(COUNT) < 0.2, np.nan, rng.integers(0, 3, COUNT))
    rows = [
        {**row, "grade": None if np.isnan(one) else float(one)}
        for row, one in zip(some.rows, grade, strict=True)
    ]
    kept = rule_of("label", person=True)
    rule = lw.Rule(
        features={**kept.features, "grade": {"kind": "number", "tolerance": 1, "missing": "match"}},
        output_column="z",
        favourable="yes",
        protected_must_differ=True,
    )
    monitor = lw.Monitor(rule, comparable=True, within=f"{SPAN} days")
    verdicts = monitor.observe_many(rows, times=instants(some.times))
    sex = np.array([row["sex"] for row in rows])
    fits = ~(np.abs(grade[:, None] - grade) > 1)  # NaN compares as not farther
    near = some.near & fits & (sex[:, None] != sex)
    like = np.tril(near, -1)
    contradict = like & some.differ
    assert [sorted(one.witnesses.rows.tolist()) for one in verdicts] == [
        np.flatnonzero(line).tolist() for line in contradict
    ]
    assert verdicts.comparable.tolist() == like.any(axis=1).tolist()
    assert 10 < contradict.sum() < (some.contradict & fits).sum()
    (groups,) = compare_groups(monitor.past, range(COUNT))
    women = sex == "f"
    assert groups.comparisons[0].pairs == (near & women[:, None] & ~women).sum()
