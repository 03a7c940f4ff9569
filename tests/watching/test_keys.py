"""What is flagged carries keys; a decision that comes again under its key is known."""

import warnings

import numpy as np
import pytest

import likewise as lw
from likewise.watching.watch_records import Counts
from tests.support.refusals import raises
from tests.support.slopes import slope_monitor
from tests.watching.models import RULE

TABLE = lw.Rule(
    features={"case": lw.Feature("key"), "age": lw.Feature("number", tolerance=5)},
    output_column="ok",
)


def decide(x, case=None):
    return "yes" if x[0] > 1 else "no"


def decide_many(X, cases=None):
    return ["yes" if x[0] > 1 else "no" for x in X]


def by_case(x, case):
    return case


def test_verdict_of_a_ledger_has_its_key_and_those_of_its_witnesses(tmp_path):
    with lw.open(tmp_path / "one", RULE) as ledger:
        assert ledger.observe([1.2], "yes", key="a").key == "a"
        ledger.observe([1.3], "yes")
        verdict = ledger.observe([0.9], "no", key=17)
        assert verdict.key == 17 and verdict.witness_keys == ("a", None)
        checked = ledger.check([0.9], "other")
        assert checked.key is None and checked.witness_keys == ("a", None, 17)
        many = ledger.observe_many([[0.9], [7.0]], ["other", "other"], keys=["x", "y"])
        assert many[0].key == "x" and many[0].witness_keys == ("a", None, 17)
        assert many[1].key == "y" and many[1].witness_keys == ()
        ledger.erase(key="a")
        assert ledger.observe([0.9], "more").witness_keys == (None, 17, "x")
    with lw.open(tmp_path / "one") as again:  # keys are read again
        assert again.check([0.9], "new").witness_keys == (None, 17, "x", None)


def test_witness_keys_are_those_of_the_window(tmp_path):
    with lw.open(tmp_path, RULE, window="2 rows") as ledger:
        for i, case in enumerate("abcd"):
            verdict = ledger.observe([1.0], str(i), key=case)
        assert verdict.witness_keys == ("b", "c")
        many = ledger.observe_many([[1.0]] * 3, ["x", "y", "z"], keys=["e", "f", "g"])
        assert [one.witness_keys for one in many] == [("c", "d"), ("d", "e"), ("e", "f")]
        assert [len(one.witnesses) for one in many] == [2, 2, 2]


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "ledger"])
def test_verdict_of_a_table_has_the_keys_of_its_column(kept, tmp_path):
    with lw.open(tmp_path, TABLE) if kept else lw.Monitor(TABLE) as monitor:
        assert monitor.observe({"case": "a", "age": 40, "ok": "no"}).key == "a"
        verdict = monitor.observe({"case": "b", "age": 41, "ok": "yes"})
        assert verdict.key == "b" and verdict.witness_keys == ("a",)
        (one,) = monitor.observe_many([{"case": "c", "age": 42, "ok": "no"}])
        assert one.key == "c" and one.witness_keys == ("b",)
        checked = monitor.check({"case": "d", "age": 42, "ok": "no"})
        assert checked.witness_keys == ("b",)


def test_verdict_without_keys_says_none():
    monitor = lw.Monitor(RULE)
    monitor.observe([1.2], "yes")
    verdict = monitor.observe([0.9], "no")
    assert verdict.key is None and verdict.witness_keys == (None,)
    assert monitor.observe_many([[0.9]], ["yes"])[0].witness_keys == (None,)


def test_flagged_decision_carries_its_key_and_those_of_its_witnesses(tmp_path):
    with lw.open(tmp_path, RULE) as ledger:
        watched = lw.watch(decide, ledger, key=by_case)
        watched([1.2], "a"), watched([0.9], "b")
        (flagged,) = watched.violations
        assert flagged.key == "b" and flagged.witness_keys == ("a",)
        many = lw.watch(decide_many, ledger, key=by_case, batched=True)
        many([[1.1], [0.8]], ["c", "d"])
        assert [one.key for one in many.violations] == ["c", "d"]
        assert [one.witness_keys for one in many.violations] == [("b",), ("a", "c")]


def test_flagged_decision_of_a_slope_names_its_witness():
    rule = lw.Rule("l2", 1, output="number")
    watched = lw.watch(lambda x: x[0] ** 2, slope_monitor(rule, slope_limit=3))
    watched([1.0]), watched([3.0])
    assert watched.violations[0].key is None and watched.violations[0].witness_keys == (None,)


# Keys that come again


def test_decision_that_comes_again_under_its_key_is_known_and_no_failure(tmp_path):
    with lw.open(tmp_path, RULE) as ledger:
        watched = lw.watch(decide, ledger, key=by_case)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for case in ("a", "b", "b", "a", "c"):
                assert watched([1.2], case) == "yes"
        assert watched.counts == Counts(3, 0, 0, repeated=2)
        assert ledger.rows == 3
        assert repr(watched.counts) == "Counts(decisions=3, violations=0, failures=0, repeated=2)"
        assert "2 repeated" in repr(watched)


@pytest.mark.parametrize("on_bad_row", ["fail", "skip"])
def test_rows_of_a_batch_that_come_again_are_known_and_the_others_are_judged(tmp_path, on_bad_row):
    with lw.open(tmp_path, RULE) as ledger:
        watched = lw.watch(
            decide_many, ledger, key=by_case, batched=True, on_failure="raise",
            on_bad_row=on_bad_row,
        )  # fmt: skip
        X = np.array([[1.2], [0.9], [5.0]])
        watched(X, ["a", "b", "c"]), watched(X, ["a", "b", "c"])
        assert watched.counts == Counts(3, 1, 0, repeated=3)
        watched(X, ["d", "b", "d"])
        assert watched.counts == Counts(4, 2, 0, repeated=5)
        assert watched.violations[-1].key == "d" and ledger.row_of("d") == 3
        watched(X[:1], ["a"])
        assert watched.counts.repeated == 6 and ledger.rows == 4


@pytest.mark.parametrize("batched", [False, True])
def test_keys_of_a_column_that_come_again_are_known(batched):
    rows = [{"case": case, "age": 40} for case in ("a", "b", "a")]
    if batched:
        watched = lw.watch(lambda rows: ["no"] * len(rows), TABLE, batched=True)
        watched(rows), watched(rows[:1])
    else:
        watched = lw.watch(lambda row: "no", TABLE)
        for row in [*rows, rows[0]]:
            watched(row)
    assert watched.counts == Counts(2, 0, 0, repeated=2), watched.failures


def test_bad_row_beside_a_repeated_key_fails_or_is_skipped(tmp_path):
    with lw.open(tmp_path, RULE) as ledger:
        X, cases = np.array([[1.2], [np.nan], [5.0]]), ["a", "b", "c"]
        ledger.observe([9.0], "no", key="c")
        watched = lw.watch(decide_many, ledger, key=by_case, batched=True, on_failure="record")
        watched(X, cases)
        assert watched.counts == Counts(0, 0, 1) and ledger.rows == 1
        skipping = lw.watch(
            decide_many, ledger, key=by_case, batched=True, on_failure="record", on_bad_row="skip"
        )
        skipping(X, cases)
        assert skipping.counts == Counts(1, 0, 1, repeated=1)
        assert skipping.failures[0].place == 1


def test_repeated_key_is_an_error_of_its_own(tmp_path):
    with lw.open(tmp_path, RULE) as ledger:
        ledger.observe([1.0], "yes", key="a")
        with raises(lw.errors.RepeatedKey, key="a", row=0) as raised:
            ledger.observe([1.0], "no", key="a")
        assert isinstance(raised.value, lw.errors.BadDecision) and raised.value.row == 0
