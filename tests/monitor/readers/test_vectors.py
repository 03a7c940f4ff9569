"""Under a rule for vectors the columns of tables keep their order, or are refused."""

import contextlib
import datetime
import io
import warnings
from decimal import Decimal

import numpy as np
import pytest

import likewise as lw
from likewise.service.decision_bodies import read_arrow_batch
from likewise.tables.exact_values import pack, unpack
from likewise.tables.named_array import named_array_of, names_of
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.lazily import pyarrow as pa
from tests.support.refusals import raises
from tests.support.served_monitors import connected
from tests.support.slopes import slope_monitor

RULE = lw.Rule("linf", 0.1)
X = np.array([[0.1, 0.9], [0.3, 0.2], [0.8, 0.5], [0.6, 0.0], [0.4, 0.7]])


def table(library, x=X, names="ab"):
    columns = {name: x[:, j].tolist() for j, name in enumerate(names)}
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[library](columns)


def reordered(library):
    return table(library, X[:, ::-1], "ba")


@pytest.fixture(params=["memory", "ledger", "client"])
def monitor(request, tmp_path):
    with contextlib.ExitStack() as stack:
        if request.param == "ledger":
            yield stack.enter_context(lw.open(tmp_path / "ledger", RULE))
        elif request.param == "memory":
            yield lw.Monitor(RULE)
        else:
            yield stack.enter_context(connected(lw.Monitor(RULE)))


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_columns_in_another_order_are_refused_in_every_call(monitor, library):
    with raises(lw.errors.WrongShape, text=False):
        monitor.observe_many(table(library), ["yes"] * 4)
    monitor.check_many(reordered(library), ["yes"] * 5)  # what was only checked sets nothing
    monitor.observe_many(table(library), ["yes"] * 5)
    for call in (monitor.observe_many, monitor.check_many, monitor.load):
        with raises(lw.errors.WrongShape):
            call(reordered(library), ["no"] * 5)
    assert monitor.rows == 5
    assert monitor.observe_many(table(library), ["no"] * 5).violations.all()
    assert monitor.check_many(X, ["maybe"] * 5).violations.all()  # an array has no names


def test_rows_of_a_frame_have_its_names(monitor):
    frame = table("pandas")
    assert not monitor.observe(frame.iloc[0], "yes").violation
    with raises(lw.errors.WrongShape):
        monitor.observe(reordered("pandas").iloc[0], "no")
    with raises(lw.errors.WrongShape):
        monitor.check(reordered("pandas").iloc[0], "no")
    with raises(lw.errors.MissingColumn, column="b"):
        monitor.observe(table("pandas", names="ac").iloc[0], "no")
    assert monitor.observe(frame.iloc[0], "no").violation
    assert monitor.observe(X[0].tolist(), "maybe").violation


def test_names_of_what_was_refused_are_not_kept(monitor):
    bad = table("pandas", np.where(X > 0.8, np.nan, X), "ba")
    with raises(lw.errors.UnexpectedValue, text=False):
        monitor.observe_many(bad, ["yes"] * 5)
    monitor.observe_many(table("pandas"), ["yes"] * 5)
    with raises(lw.errors.WrongShape):
        monitor.observe_many(reordered("pandas"), ["no"] * 5)


def test_names_that_are_numbers_are_none(monitor):
    monitor.observe_many(pd.DataFrame(X), ["yes"] * 5)
    assert monitor.observe_many(pd.DataFrame(X, columns=[1, 0]), ["no"] * 5).violations.all()
    assert monitor.observe_many(table("pandas"), ["maybe"] * 5).violations.all()
    with raises(lw.errors.WrongShape):
        monitor.observe_many(reordered("pandas"), ["no"] * 5)


def test_slopes_have_names_of_columns():
    slopes = slope_monitor(lw.Rule("linf", 0.1, output="number", delta=0.1))
    slopes.observe_many(table("polars"), np.arange(5.0))
    with raises(lw.errors.WrongShape):
        slopes.observe_many(reordered("polars"), np.arange(5.0))


@pytest.mark.parametrize("background", [False, True])
def test_a_watched_model_is_not_judged_on_other_columns(background):
    monitor = lw.Monitor(RULE)
    watched = lw.watch(
        lambda x: ["yes"] * len(x),
        monitor,
        on_failure="record",
        batched=True,
        background=background,
    )
    with watched:
        watched(table("pandas"))
        watched(reordered("pandas"))
        watched(table("pandas").iloc[:1])
        watched(reordered("pandas").iloc[:1])
    assert monitor.rows == 6
    assert [type(one.error) for one in watched.failures] == [lw.errors.WrongShape] * 2


@pytest.mark.parametrize("capacity", [2, 100])
def test_a_buffer_that_accepts_keeps_names(tmp_path, capacity):
    rows = [table("pandas").iloc[i] for i in range(5)]
    rows += [reordered("pandas").iloc[0], X[0], table("pandas").iloc[0]]
    with (
        lw.open(tmp_path, RULE) as monitor,
        lw.buffered(monitor, capacity, when_full="accept") as buffer,
    ):
        for x in rows:
            buffer.submit(x, "yes")
        assert buffer.flush(60)
        answers = list(buffer.results())
        assert monitor.rows == 7
    refused = [i for i, one in enumerate(answers) if one.refusal is not None]
    assert refused == [5] and answers[5].refusal.code == lw.errors.WrongShape.code


def test_a_cut_off_call_leaves_no_names(monkeypatch):
    """Names go with the rows that brought them."""
    monitor = lw.Monitor(RULE)
    monitor.observe(X[0], "yes")

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(monitor.core.memory.models), "add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            monitor.observe_many(reordered("pandas"), ["yes"] * 5)
    assert monitor.rows == 1
    monitor.observe_many(table("pandas"), ["yes"] * 5)
    with raises(lw.errors.WrongShape):
        monitor.observe_many(reordered("pandas"), ["yes"] * 5)


def test_an_arrow_stream_to_the_service_keeps_names():
    def sent(some):
        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, some.schema) as writer:
            writer.write_table(some)
        return read_arrow_batch(stream.getvalue(), RULE, 1 << 20)

    monitor = lw.Monitor(RULE)
    monitor.observe_many(**sent(table("arrow").append_column("z", [["yes"] * 5])))
    with raises(lw.errors.WrongShape):
        monitor.observe_many(**sent(reordered("arrow").append_column("z", [["no"] * 5])))


def test_a_watched_estimator_is_not_judged_on_other_columns():
    from sklearn.tree import DecisionTreeClassifier

    fitted = DecisionTreeClassifier(random_state=0).fit(X, [0, 1, 0, 1, 0])
    monitor = lw.Monitor(RULE)
    watched = lw.watch(fitted, monitor, on_failure="record")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tree was fitted without names
        watched.predict(table("pandas"))
        watched.predict(reordered("pandas"))
    assert monitor.rows == 5
    assert [type(one.error) for one in watched.failures] == [lw.errors.WrongShape]


def test_names_come_back_from_what_a_client_packs():
    for x in (named_array_of(table("polars"), "x"), X):
        back = unpack(pack(x))
        assert np.array_equal(back, x) and names_of(back) == names_of(x)


@pytest.mark.parametrize("odd", ["date", "duration", "decimal", "128 bits"])
def test_frame_of_polars_with_a_column_that_is_not_of_numbers_is_refused(odd):
    """Polars itself makes numbers of them, rounded ones beyond 2**53."""
    day = datetime.date(2024, 1, 1)
    column = {
        "date": day,
        "duration": datetime.timedelta(1),
        "decimal": Decimal(2**53 + 1),
        "128 bits": 2**70,
    }[odd]
    with pytest.raises(lw.errors.UnexpectedValue):
        lw.Monitor(RULE).observe_many(pl.DataFrame({"a": [0.5], "b": [column]}), ["yes"])
