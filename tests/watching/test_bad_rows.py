"""With `on_bad_row="skip"` a bad row costs only itself, and is kept with its place."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import likewise as lw
from likewise.watching.watch_records import Counts
from tests.support.refusals import raises, warns
from tests.watching.models import RULE, classifier, flowers


def label(X):
    return (np.nan_to_num(X)[:, 0] > 2.5).astype(int)


def many(count=1000):
    return np.random.default_rng(5).uniform(0, 5, (count, 2))


def good_violations(X, bad):
    good = np.delete(X, bad, axis=0)
    return int(lw.Monitor(RULE).observe_many(good, label(good)).violations.sum())


def test_good_rows_of_a_batch_are_judged_and_bad_ones_are_kept_with_their_place():
    X, bad = many(), [0, 417, 999]
    X[bad, 1] = np.nan
    got = []
    watched = lw.watch(label, RULE, batched=True, on_bad_row="skip", on_failure=got.append)
    answer = watched(X)
    assert np.array_equal(answer, label(X))
    violations = good_violations(X, bad)
    assert violations > 5
    assert watched.counts == Counts(997, violations, 3)
    assert [(one.call, one.place) for one in watched.failures] == [(1, 0), (1, 417), (1, 999)]
    assert tuple(got) == watched.failures
    for failure in got:
        assert isinstance(failure.error, lw.errors.UnexpectedValue)
        assert f"row {failure.place} of its batch" in str(failure)
        assert "decision" not in str(failure.error)  # no number within a part of the batch
    assert np.array_equal(watched.monitor.past.inputs([0, 996]), X[[1, 998]])
    watched(X[1:2]), watched(X[:1])
    assert watched.counts.decisions == 998
    assert (watched.failures[-1].call, watched.failures[-1].place) == (3, 0)


def test_batch_fails_whole_unless_told_otherwise():
    X = many()
    X[3, 0] = np.nan
    watched = lw.watch(label, RULE, batched=True, on_failure="record")
    watched(X)
    assert watched.counts == Counts(0, 0, 1) and watched.failures[0].place is None


@settings(max_examples=30, deadline=None)
@given(bad=st.sets(st.integers(0, 19)), sizes=st.lists(st.integers(1, 9), min_size=1))
def test_what_is_judged_is_what_a_monitor_judges_of_the_good_rows(bad, sizes):
    X = many(20)
    X[sorted(bad), 0] = np.inf
    watched = lw.watch(
        label, RULE, batched=True, on_bad_row="skip", on_failure="record", keep=1000
    )  # fmt: skip
    for part in np.split(X, np.cumsum(np.resize(sizes, 20))):
        watched(part)
    good = [i for i in range(20) if i not in bad]
    told = lw.Monitor(RULE)
    found = [one for one in (told.observe(x, label(x[None])[0]) for x in X[good]) if one.violation]
    assert watched.counts == Counts(len(good), len(found), len(bad))
    assert [one.verdict for one in watched.violations] == found


def test_warning_of_a_batch_with_bad_rows_comes_once_and_names_the_first():
    X = many()
    X[[5, 6, 7], 0] = np.nan
    watched = lw.watch(label, RULE, batched=True, on_bad_row="skip")
    with warns(lw.errors.FailureWarning) as warned:
        watched(X)
    assert len(warned) == 1 and warned[0].filename == __file__


def test_first_error_is_raised_if_so_chosen_after_the_good_rows_are_judged():
    X = many(10)
    X[[2, 6], 0] = np.nan
    watched = lw.watch(label, RULE, batched=True, on_bad_row="skip", on_failure="raise")
    with raises(lw.errors.UnexpectedValue) as raised:
        watched(X)
    assert "row 2 of its batch" in "".join(raised.value.__notes__)
    assert watched.counts.decisions == 8 and watched.counts.failures == 2


def test_batch_of_nothing_but_bad_rows_leaves_no_trace():
    watched = lw.watch(label, RULE, batched=True, on_bad_row="skip", on_failure="record")
    watched(np.full((40, 2), np.nan))
    assert watched.counts == Counts(0, 0, 40) and len(watched.monitor) == 0


def test_batch_with_another_number_of_outputs_fails_whole():
    watched = lw.watch(
        lambda X: [1, 2], RULE, batched=True, on_bad_row="skip", on_failure="record"
    )  # fmt: skip
    watched(many(3))
    assert watched.counts == Counts(0, 0, 1) and watched.failures[0].place is None


def test_error_that_is_not_about_a_row_ends_the_batch_and_what_was_judged_counts(tmp_path):
    with lw.open(tmp_path, RULE) as ledger:
        watched = lw.watch(
            label, ledger, batched=True, on_bad_row="skip", on_failure="record"
        )  # fmt: skip
        watched(many(4))
    watched(many(4))  # the ledger is closed: no row is to blame
    assert watched.counts == Counts(4, watched.counts.violations, 1)
    assert (
        type(watched.failures[0].error) is lw.errors.BadFile and watched.failures[0].place is None
    )


def test_estimator_skips_bad_rows_of_arrays_and_frames():
    pd = pytest.importorskip("pandas")
    flower = flowers()
    flower[11, 0] = np.nan
    tree = classifier()
    watched = lw.watch(tree, RULE, on_bad_row="skip", on_failure="record")
    assert np.array_equal(watched.predict(flower), tree.predict(flower))
    assert watched.counts.decisions == 149 and watched.failures[0].place == 11

    rule = lw.Rule(
        features={
            "length": lw.Feature("number", tolerance=0.5),
            "width": lw.Feature("number", tolerance=0.5),
        },
        output_column="kind",
    )
    frame = pd.DataFrame(flower, columns=["length", "width"], index=[7] * 150)
    for table in (frame, frame.to_dict("records")):
        by_columns = lw.watch(
            lambda table: np.zeros(len(table)), rule, batched=True, on_bad_row="skip",
            on_failure="record",
        )  # fmt: skip
        by_columns(table)
        assert by_columns.counts == Counts(149, 0, 1), by_columns.failures
        assert by_columns.failures[0].place == 11
        assert "row 0" not in str(by_columns.failures[0])


def test_policy_for_bad_rows_is_checked_when_the_watch_begins():
    with raises(lw.errors.BadRule, setting="on_bad_row"):
        lw.watch(label, RULE, on_bad_row="drop")


def test_skipping_makes_no_noise_where_every_row_is_good():
    watched = lw.watch(label, RULE, batched=True, on_bad_row="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watched(many(10))
    assert watched.counts.decisions == 10
