"""Sifting: good rows are judged in their order, bad ones are named, as one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise.errors import BadDecision, RepeatedKey
from likewise.monitor.batching import JudgedRows, RejectedRow, describe_refusal, isolate_bad_rows
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.5)
GOOD = st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from(["a", "b"]))
BAD = st.sampled_from([(float("nan"), "a"), (float("inf"), "b"), (0.0, ["unhashable"])])


def judge_with(monitor):
    return lambda rows: monitor.observe_many([[x] for x, _ in rows], [z for _, z in rows])


def one_by_one(rows):
    """The oracle: verdicts of good rows, and which rows are bad."""
    monitor = lw.Monitor(RULE)
    verdicts, bad = [], []
    for i, (x, z) in enumerate(rows):
        try:
            verdicts.append(monitor.observe([x], z))
        except BadDecision:
            bad.append(i)
    return verdicts, bad


@given(rows=st.lists(st.one_of(GOOD, GOOD, BAD), max_size=40))
def test_sifted_rows_are_those_that_are_judged_one_by_one(rows):
    verdicts, bad = [], []
    monitor, place = lw.Monitor(RULE), 0
    for outcome in isolate_bad_rows(rows, judge_with(monitor)):
        assert outcome.rows == rows[place : place + len(outcome.rows)]  # in their order, none left
        if isinstance(outcome, RejectedRow):
            assert len(outcome.rows) == 1
            bad.append(place)
        else:
            verdicts += list(outcome.answer)
        place += len(outcome.rows)
    assert place == len(rows)
    assert (verdicts, bad) == one_by_one(rows)


@given(good=st.lists(st.booleans(), max_size=64))
def test_judging_takes_no_more_parts_than_promised(good):
    calls = []

    def judge(rows):
        calls.append(rows)
        if not all(rows):
            raise BadDecision("no")

    outcomes = list(isolate_bad_rows(good, judge))
    bad = good.count(False)
    assert len(calls) <= max(1, 2 * bad * (len(good).bit_length() + 1))
    assert len(calls) <= max(1, 2 * len(good))
    assert len(outcomes) >= bad


def test_batch_without_a_bad_row_is_judged_once_and_whole():
    assert list(isolate_bad_rows([1, 2, 3], sum)) == [JudgedRows([1, 2, 3], 6)]
    assert list(isolate_bad_rows([], sum)) == []


def test_nothing_is_judged_that_nobody_asks_for():
    calls = []

    def judge(rows):
        calls.append(rows)
        if 0 in rows:
            raise BadDecision("a zero")

    outcomes = isolate_bad_rows([0, 1, 2, 3], judge)
    assert isinstance(next(outcomes), RejectedRow)
    assert calls == [[0, 1, 2, 3], [0, 1], [0]]


def test_only_the_refusal_that_is_named_is_about_a_row():
    def judge(rows):
        if 0 in rows:
            raise RepeatedKey("again.", key="a", row=0)
        if 9 in rows:
            raise BadDecision("a nine")
        return rows

    outcomes = isolate_bad_rows([1, 0, 2, 9], judge, RepeatedKey)
    assert next(outcomes) == JudgedRows([1], [1])
    assert isinstance(next(outcomes), RejectedRow)
    with raises(BadDecision):
        list(outcomes)


def test_other_errors_end_the_sifting():
    def judge(rows):
        raise RuntimeError("the disk")

    with pytest.raises(RuntimeError, match="the disk"):
        list(isolate_bad_rows([1, 2], judge))


def test_reason_names_no_row_of_a_part_and_is_short():
    told = BadDecision("the output is missing.", place=0, advice="Say what it is.")
    assert str(told) == "row 0: the output is missing. Nothing was stored. Say what it is."
    assert describe_refusal(told) == "the output is missing. Say what it is."
    assert describe_refusal(BadDecision("no output.")) == "no output."
    assert len(describe_refusal(BadDecision("x" * 100_000))) < 600
