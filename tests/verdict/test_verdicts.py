"""Verdicts and witnesses: plain values that can be read in every usual way and changed in none."""

import contextlib
import dataclasses
import pickle

import numpy as np
import pytest

import likewise as lw
from likewise.verdict.losses import Explanation
from tests.support.refusals import raises


@pytest.fixture
def monitor():
    """Four decisions on a line, a tenth apart; epsilon reaches two steps."""
    monitor = lw.Monitor(lw.Rule("linf", 0.25))
    monitor.load([[0.0], [0.1], [0.2], [0.3]], ["a", "b", "a", "b"])
    return monitor


@pytest.fixture
def verdict(monitor):
    return monitor.observe([0.1], "a")


@pytest.fixture
def verdicts():
    rule = lw.Rule("linf", 0.25, output="number", delta=0.5)
    monitor = lw.Monitor(rule)
    monitor.load([[0.0]], [0.0])
    return monitor.observe_many([[0.125], [9.0], [0.25]], [1.0, 1.0, 3.0])


def test_verdict_names_row_and_witnesses(verdict):
    assert verdict.row == 4
    assert type(verdict.row) is int
    assert verdict.violation is True
    assert verdict.witnesses.rows.tolist() == [1, 3]
    assert verdict.witnesses.input_distances.tolist() == [0.0, 0.3 - 0.1]
    assert verdict.witnesses.output_distances.tolist() == [1.0, 1.0]


def test_verdict_without_witnesses_is_no_violation(monitor):
    verdict = monitor.observe([50.0], "a")
    assert verdict.violation is False
    assert len(verdict.witnesses) == 0
    assert list(verdict.witnesses) == []
    assert verdict.witnesses.rows.dtype == np.int64
    assert verdict.witnesses.input_distances.dtype == np.float64
    with pytest.raises(IndexError):
        verdict.witnesses[0]


def test_checked_verdict_has_no_row(monitor):
    verdict = monitor.check([0.1], "a")
    assert verdict.row is None
    assert verdict.violation is True
    assert len(monitor) == 4


def test_witnesses_iterate_as_plain_values(verdict):
    first, second = verdict.witnesses
    assert first == lw.Witness(1, 0.0, 1.0)
    assert (second.row, second.input_distance, second.output_distance) == (3, 0.3 - 0.1, 1.0)
    assert isinstance(first, lw.Witness)
    assert type(second.row) is int
    assert type(second.input_distance) is type(second.output_distance) is float
    assert list(verdict.witnesses) == list(verdict.witnesses), "can be iterated again"


def test_witnesses_are_indexed_like_a_sequence(verdict):
    witnesses = verdict.witnesses
    assert len(witnesses) == 2
    assert [witnesses[0], witnesses[1]] == list(witnesses)
    assert [witnesses[-2], witnesses[-1]] == list(witnesses)
    assert witnesses[np.int64(1)] == witnesses[1]
    for beyond in (2, -3, 10**9):
        with pytest.raises(IndexError):
            witnesses[beyond]


ARRAYS = ["rows", "input_distances", "output_distances"]


@pytest.mark.parametrize("name", ARRAYS)
def test_witness_arrays_have_fixed_types_and_are_read_only(verdict, verdicts, name):
    for witnesses in (verdict.witnesses, verdicts.witnesses, verdicts[0].witnesses):
        array = getattr(witnesses, name)
        assert len(array) > 0
        assert array.dtype == (np.int64 if name == "rows" else np.float64)
        assert array.ndim == 1
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("rows", np.int64), ("violations", np.bool_), ("counts", np.int64), ("offsets", np.int64)],
)
def test_batch_arrays_have_fixed_types_and_cannot_change_the_batch(verdicts, name, dtype):
    array = getattr(verdicts, name)
    assert array.dtype == dtype
    assert array.ndim == 1
    before = array.tolist()
    with contextlib.suppress(ValueError):  # read only, or a copy
        array[:] = array == 0
    assert getattr(verdicts, name).tolist() == before


def test_results_never_change(verdict, verdicts):
    witness = verdict.witnesses[0]
    for thing, name in (
        (verdict, "row"),
        (verdict, "witnesses"),
        (verdict, "violation"),
        (verdict.witnesses, "rows"),
        (verdicts, "rows"),
        (verdicts, "witnesses"),
        (witness, "row"),
        (witness, "input_distance"),
    ):
        with pytest.raises((AttributeError, TypeError)):  # what frozen slots raise varies
            setattr(thing, name, 1)


def test_batch_holds_one_verdict_per_decision(verdicts):
    assert len(verdicts) == 3
    assert verdicts.rows.tolist() == [1, 2, 3]
    assert verdicts.violations.tolist() == [True, False, True]
    assert verdicts.counts.tolist() == [1, 0, 2]
    assert verdicts.offsets.tolist() == [0, 1, 1, 3]
    assert verdicts.pairs == 3
    assert type(verdicts.pairs) is int
    assert verdicts.witnesses.rows.tolist() == [0, 0, 1]
    assert verdicts.witnesses.input_distances.tolist() == [0.125, 0.25, 0.125]
    assert verdicts.witnesses.output_distances.tolist() == [1.0, 3.0, 2.0]


def test_batch_is_indexed_and_iterated_like_a_sequence(verdicts):
    assert [verdict.row for verdict in verdicts] == [1, 2, 3]
    assert [verdict.row for verdict in verdicts] == [1, 2, 3], "can be iterated again"
    assert [verdicts[i].row for i in (0, 1, 2, -1, -2, -3)] == [1, 2, 3, 3, 2, 1]
    assert verdicts[np.int64(2)].row == 3
    assert verdicts[-1].witnesses.rows.tolist() == [0, 1]
    assert isinstance(verdicts[0], lw.Verdict)
    assert type(verdicts[0].row) is int
    assert isinstance(verdicts[0].witnesses, lw.Witnesses)
    assert (verdicts[0].violation, verdicts[1].violation) == (True, False)
    for beyond in (3, -4, 10**9):
        with pytest.raises(IndexError):
            verdicts[beyond]


def test_results_are_of_the_public_types(verdict, verdicts, monitor):
    assert isinstance(verdict, lw.Verdict)
    assert isinstance(verdict.witnesses, lw.Witnesses)
    assert isinstance(verdicts, lw.Verdicts)
    assert isinstance(monitor.explain(), Explanation)


def test_verdicts_stay_as_they_were_said(monitor):
    early = monitor.observe([0.1], "a")
    before = early.witnesses.rows.tolist(), early.witnesses.input_distances.tolist()
    monitor.forget([1, 3])
    for _ in range(500):
        monitor.observe([0.1], "b")
    assert (early.witnesses.rows.tolist(), early.witnesses.input_distances.tolist()) == before


def test_load_returns_the_range_of_its_rows(monitor):
    rows = monitor.load([[1.0], [2.0]], ["a", "b"])
    assert rows == range(4, 6)
    assert monitor.load([[1.0]], ["a"]) == range(6, 7)


def test_rows_are_dense_and_never_reused(monitor):
    assert monitor.forget(range(4)) == 4
    assert len(monitor) == 0
    assert monitor.observe([0.1], "a").row == 4
    assert monitor.load([[0.1]], ["a"]) == range(5, 6)
    assert monitor.observe_many([[0.1], [0.2]], ["a", "b"]).rows.tolist() == [6, 7]
    assert len(monitor) == 4


def test_explanation_is_a_frozen_value_that_reads_as_text(monitor):
    for explained in (monitor, lw.Monitor(lw.Rule("l2", 1.0))):
        explanation = explained.explain()
        assert len(str(explanation)) > 20
        assert dataclasses.is_dataclass(explanation)
        name = dataclasses.fields(explanation)[0].name
        with pytest.raises(AttributeError):
            setattr(explanation, name, None)


def test_a_pickled_verdict_says_the_same_without_its_monitor():
    monitor = lw.Monitor(lw.Rule("linf", 0.2), burst=lw.Burst(5, alarm=1))
    verdicts = monitor.observe_many([[0.1], [0.2], [0.25]], ["a", "b", "a"], keys=[1, 2, 3])
    one = verdicts[2]
    for copy in (pickle.loads(pickle.dumps(one)), pickle.loads(pickle.dumps(verdicts))[2]):
        assert copy == one and copy.key == 3 and copy.witness_keys == one.witness_keys
        assert (copy.neighbours, copy.alarm) == (2, True)
        with raises(lw.errors.BadRow):
            copy.explain()
    assert "contradicts" in str(one.explain())
