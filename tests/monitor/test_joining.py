"""Decisions that come together are judged as a batch, and answered as one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise.errors import LikewiseError
from likewise.monitor.batching import FEW_DECISIONS, MOST_JOINED, join_decisions, make_batch
from likewise.monitor.readers.protocol import FROM_ROW, Decision

pytestmark = pytest.mark.pairwise

RULE = lw.Rule("linf", 0.25)


def one_by_one(monitor, decisions):
    return [answer for decision in decisions for answer in monitor.core.observe_each([decision])]


def same(answers, expected):
    assert len(answers) == len(expected)
    for answer, other in zip(answers, expected, strict=True):
        if isinstance(other, LikewiseError):
            assert type(answer) is type(other) and str(answer) == str(other)
        else:
            assert answer == other
            assert answer.context._replace(past=None) == other.context._replace(past=None)


numbers = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1, 2**53, 2**53 + 1, True, None, "a"])
inputs = st.lists(st.one_of(st.sampled_from([0.0, 0.25, 0.5]), numbers), min_size=0, max_size=2)
plain = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1]), min_size=2, max_size=2)
decisions = st.builds(
    lambda x, z, key, model: Decision(x, z, key, None, model),
    st.one_of(plain, plain, plain, inputs),
    st.sampled_from(["a", "b", "c", 1, True]),
    st.sampled_from([None, None, "k1", "k2", "k3"]),
    st.sampled_from([None, None, "m"]),
)


kinds = st.sampled_from([None, None, np.float64, np.float32, np.int64, np.uint8])


def as_array(decision, kind):
    """The same decision with an array for its list, where there are numbers in it."""
    plain = kind is not None and all(type(value) in (int, float) for value in decision.x)
    if not plain or (kind is not np.float64 and any(value > 2 for value in decision.x)):
        return decision
    return decision._replace(x=np.array(decision.x, kind))


@given(st.lists(st.lists(decisions, max_size=6), max_size=4), kinds, kinds)
def test_arrays_that_come_together_are_answered_as_one_by_one(groups, kind, other):
    together, alone = (lw.Monitor(RULE) for _ in range(2))
    for plain_group in groups:
        group = [as_array(one, (kind, other)[i % 2]) for i, one in enumerate(plain_group)]
        same(together.core.observe_each(group), one_by_one(alone, group))
    assert together.rows == alone.rows


@given(st.lists(st.lists(decisions, max_size=6), max_size=4), st.booleans())
def test_what_comes_together_is_answered_as_one_by_one(groups, comparable):
    together, alone = (lw.Monitor(RULE, comparable=comparable) for _ in range(2))
    for group in groups:
        same(together.core.observe_each(group), one_by_one(alone, group))
    assert together.rows == alone.rows


@pytest.mark.parametrize(
    ("keyed", "bad", "count", "window"),
    [
        (False, None, 40, None),
        (False, 3, 40, "30 rows"),
        (False, 3, 40, "1 hour"),
        (False, None, FEW_DECISIONS + 10, "30 rows"),
        (True, None, 40, None),
        (True, 3, FEW_DECISIONS + 10, None),
    ],
)
def test_the_same_holds_with_a_ledger(tmp_path, keyed, bad, count, window):
    rng = np.random.default_rng(5)
    group = [
        Decision(rng.random(3).tolist(), "ab"[i % 2], key=f"k{i}" if keyed else None)
        for i in range(count)
    ]
    if bad is not None:
        group[bad] = Decision([1.0, "x", 2.0], "a")
        group[bad + 1] = Decision([1.0, 2.0, 3.0], float("nan"))
    burst = lw.Burst(last=10, alarm=2)
    ledgers = [
        lw.open(tmp_path / name, RULE, comparable=True, burst=burst, window=window, witnesses=2)
        for name in ("a", "b")
    ]
    with ledgers[0] as together, ledgers[1] as alone:
        for _ in range(2):  # the second time keys are known, or decisions come again
            same(together.core.observe_each(group), one_by_one(alone, group))
        assert together.rows == alone.rows
        changed = [decision._replace(z="other") for decision in group]
        same(together.core.observe_each(changed), one_by_one(alone, changed))
    with lw.Ledger(tmp_path / "a") as mine, lw.Ledger(tmp_path / "b") as other:
        assert mine.verify() and other.verify() and mine.rows == other.rows > 0
        for row in range(max(0, mine.rows - 25), mine.rows):
            entries = [ledger.entry(row) for ledger in (mine, other)]
            assert replace(entries[0], time=None) == replace(entries[1], time=None)


def test_one_that_is_refused_in_a_group_leaves_no_trace_and_the_others_are_taken():
    monitor = lw.Monitor(RULE)
    good = [Decision([float(i), 0.0], "a") for i in range(8)]
    wrong = [Decision([0.0, 0.0], float("nan")), Decision([1.0, 0.0], "b")]
    answers = monitor.core.observe_each([*good[:4], *wrong, *good[4:]])
    assert [answer.row for i, answer in enumerate(answers) if i != 4] == list(range(9))
    assert isinstance(answers[4], lw.errors.BadDecision)
    assert [witness.row for witness in answers[5].witnesses] == [1]
    assert monitor.rows == 9 and monitor.observe([1.0, 0.0], "c").count == 2


class FailsFarAway:
    """An index in Python that breaks when it is asked about a far point."""

    def __init__(self):
        self.rows = 0

    def add(self, row, point):
        self.rows = row + 1

    def candidates(self, point, reach):
        if np.abs(point).max() > 30:
            raise ZeroDivisionError("too far")
        return np.arange(self.rows)


@pytest.mark.parametrize("ledger", [False, True])
def test_what_an_index_of_the_caller_raises_refuses_no_other(tmp_path, ledger):
    def make(space):
        return FailsFarAway()

    opened = lw.open(tmp_path / "l", RULE, index=make) if ledger else lw.Monitor(RULE, index=make)
    with opened as monitor:
        monitor.observe([0.0, 0.0], "a")
        group = [Decision([float(i), 0.0], "a") for i in range(1, 4)]
        group.insert(2, Decision([9.0, 0.0], "a"))
        answers = monitor.core.observe_each(group)
        assert isinstance(answers[2], lw.errors.BadDecision)
        assert "ZeroDivisionError: too far" in str(answers[2])
        assert isinstance(answers[2].__cause__, ZeroDivisionError)
        assert [answer.row for i, answer in enumerate(answers) if i != 2] == [1, 2, 3]
        assert monitor.rows == 4 and monitor.observe([1.0, 0.0], "b").witnesses.rows.tolist() == [1]
        submitted = [monitor.submit(one.x, one.z) for one in group]
        with pytest.raises(ZeroDivisionError, match="too far"):
            submitted[2].result(30)
        assert [submitted[i].result(30).row for i in (0, 1, 3)] == [5, 6, 7]


def test_most_groups_are_joined_and_odd_ones_are_not():
    group = [Decision([0.0, 1], "a"), Decision([0.5, 0.5], "b")]
    assert join_decisions(group).inputs.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    arrays = [Decision(np.array(one.x, np.float32), one.z) for one in group]
    assert join_decisions(arrays).inputs.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert join_decisions(arrays).inputs.dtype == np.float32
    others = [
        [*arrays, Decision(np.zeros(2), "a")],
        [*arrays, Decision(np.zeros(3, np.float32), "a")],
        [*arrays, Decision(np.zeros(2, np.float32))],
        [Decision(np.array([True, False]), "a")] * 2,
        group[:1],
        [*group, Decision([0.0], "a")],
        [*group, Decision([0.0, 2**53 + 1], "a")],
        [*group, Decision([0.0, True], "a")],
        [*group, Decision([0.0, 1.0], "a", key="k")],
        [*group, Decision([0.0, 1.0], "a", model="m")],
        [*group, Decision([0.0, 1.0], "a", time=5)],
        [*group, Decision([0.0, 1.0], "a", source="s", position=1)],
        [*group, Decision(np.zeros(2), "a")],
        group * MOST_JOINED,
        [],
    ]
    assert [join_decisions(one) for one in others] == [None] * len(others)


times = st.one_of(st.none(), st.just(1.7e9))


@given(st.lists(st.tuples(decisions, times), min_size=1, max_size=6), st.booleans())
def test_batch_of_decisions_is_answered_as_they_are_one_by_one(several, rows):
    rule = RULE
    if rows:
        column = {"a": lw.Feature("number", tolerance=0.25)}
        rule = lw.Rule(epsilon=1, features=column, output_column="z")
    group = [
        replace_row(one._replace(time=time)) if rows else one._replace(time=time)
        for one, time in several
    ]
    batch = make_batch(group)
    if batch is None:
        return
    together, alone = lw.Monitor(rule), lw.Monitor(rule)
    expected = one_by_one(alone, group)
    said = {name: one for name, one in batch.raw_metadata._asdict().items() if one is not None}
    given = () if rows else (batch.outputs,)
    if any(isinstance(one, LikewiseError) for one in expected):
        with pytest.raises(LikewiseError):
            together.observe_many(batch.inputs, *given, **said)
    else:
        same([*together.observe_many(batch.inputs, *given, **said)], expected)


def replace_row(decision):
    """The same decision as a row of a table, its output in it."""
    return decision._replace(x={"a": (decision.x or [None])[0], "z": decision.z}, z=FROM_ROW)
