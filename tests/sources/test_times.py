"""Times as people write them: one form for a column, in UTC, and never a guess."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from likewise.errors import BadFile
from likewise.sources.time_columns import detect_form
from tests.sources.reading_times import parse_times
from tests.support.looping import each
from tests.support.refusals import raises

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 1, 31, 10, 30, tzinfo=UTC)
DAY = MOMENT.replace(hour=0, minute=0)


@each("written, moment", [
    ("2024-01-31", DAY), ("20240131", DAY), ("2024/01/31", DAY), (" 2024-01-31 ", DAY),
    ("2024-01-31T10:30", MOMENT), ("2024-01-31 10:30:00", MOMENT), ("2024-01-31T10:30:00Z", MOMENT),
    ("2024-01-31T12:30:00+02:00", MOMENT), ("2024-01-31 12:30:00 +0200", MOMENT),
    ("2024-01-31 10:30:00 UTC", MOMENT), ("2024-01-31T10:30:00.000000001Z", MOMENT),
    ("2024-01-31 05:30:00.000-05:00", MOMENT),
    ("31.01.2024", DAY), ("31.1.2024", DAY), ("31.01.2024 10:30", MOMENT),
    ("31.01.2024, 10:30:00", MOMENT), ("31.01.2024 12:30:00 +02:00", MOMENT),
    ("31/01/2024", DAY), ("31-01-2024 10:30", MOMENT), ("31/01/2024 10:30:00Z", MOMENT),
    ("01/31/2024", DAY), ("1/31/2024 10:30:00 AM", MOMENT),
    ("01/31/2024 10:30 PM", MOMENT + datetime.timedelta(hours=12)),
    ("01/31/2024 12:30 AM", MOMENT - datetime.timedelta(hours=10)),
    ("1706697000", MOMENT), ("1706697000.25", MOMENT + datetime.timedelta(seconds=0.25)),
    (1706697000, MOMENT), (1706697000.0, MOMENT), (MOMENT, MOMENT), (DAY.date(), DAY),
    (MOMENT.replace(tzinfo=None), MOMENT), (MOMENT.astimezone(ZoneInfo("Asia/Tokyo")), MOMENT),
])  # fmt: skip
def test_time_is_what_is_written(written, moment):
    (found,) = parse_times([written])
    assert found == moment and found.utcoffset() == datetime.timedelta()


def test_order_of_day_and_month_is_that_of_the_whole_column():
    mixed = ["03/04/2024", "05/04/2024", "14/04/2024"]
    assert [one.day for one in parse_times(mixed)] == [3, 5, 14]
    mixed = ["03/04/2024", "05/04/2024", "04/14/2024"]
    assert [one.day for one in parse_times(mixed)] == [4, 4, 14]


def test_order_that_no_value_tells_is_asked_for():
    with raises(BadFile):  # fmt: skip
        parse_times(["03/04/2024", "05/04/2024"], column="applied", source="d.csv")
    assert parse_times(["03/04/2024"], dates="day-first")[0].month == 4
    assert parse_times(["03/04/2024"], dates="month-first")[0].month == 3


def test_two_orders_in_one_column_are_told_with_examples():
    with raises(BadFile):
        parse_times(["03/04/2024", "14/03/2024", "03/14/2024"])


@pytest.mark.parametrize("value", ["soon", "2024", "31.01.24", "12:30", "2024-13-01x", "Q1"])
def test_column_without_times_is_told_with_an_example_and_the_forms(value):
    with raises(BadFile):
        parse_times([None, value], column="when", source="d.csv", unit="line", places=[5, 7])


@each("good, bad", [
    ("2024-01-31", "2024-02-30"), ("2024-01-31", "31.01.2024"), ("31.01.2024", "31.02.2024"),
    ("31/01/2024", "03/14/2024 10:00 XM"), ("1706697000", "1706697000000"), ("2024-01-31", "soon"),
    (1706697000, 1706697000000), (1706697000, 20240131), (1706697000, True),
    (MOMENT, [1]), ("2024-01-31", "1712010212345"),
])  # fmt: skip
def test_value_that_is_no_time_is_told_with_its_line(good, bad):
    with raises(BadFile):
        parse_times([good, good, bad], column="when", source="d.csv", unit="line", places=[2, 3, 9])


def test_milliseconds_are_told_as_such():
    with raises(BadFile):
        parse_times([1706697000, 1706697000000])


def test_missing_times_stay_missing():
    assert parse_times(["2024-01-31", None, "", " ", float("nan")])[1:] == [None] * 4
    assert parse_times([None, None]) == [None, None]
    assert parse_times([]) == []


def test_later_values_keep_the_form_of_the_first():
    """As a file is read in chunks: what the first tells holds for the rest."""
    form = detect_form(["31/01/2024"], column="when", source="d.csv")
    moments, unfit = form.parse(["03/04/2024", "2024-01-31", None, "01/31/2024"])
    assert moments[0].month == 4 and moments[1:] == [None, None, None]
    assert [one.at for one in unfit] == [1, 3]
    assert "read day first" in unfit[0].why


def test_what_is_assumed_is_remarked():
    def said(*values):
        return [str(one) for one in detect_form(values, column="when", source="d.csv").remarks]

    assert said("2024-01-31T10:00Z", "2024-01-31T10:00+02:00", "2024-01-31T10:00:00 UTC") == []
    assert said("1706697000") == [] and said(1706697000) == [] and said(MOMENT) == []
    (zone,) = said("2024-01-31T10:00Z", "2024-01-31")
    assert zone.startswith("column 'when': times without a zone are taken as UTC (such as '2024-01")
    assert "1 value)" in zone
    order, zone = said("31/01/2024", "01/02/2024")
    assert "read day first (such as '31/01/2024', 2 values). If the other order is" in order
    assert "say --dates month-first" in order
    assert said(MOMENT.replace(tzinfo=None))[0].endswith("such as +02:00.")


def test_moments_are_those_of_numpy():
    random = np.random.default_rng(3)
    seconds = np.sort(random.integers(10**8, 4 * 10**9, 500)).astype("datetime64[s]")
    for written in (
        [f"{one}Z" for one in seconds],
        [one.strftime("%d.%m.%Y %H:%M:%S") for one in seconds.tolist()],
        [one.strftime("%d/%m/%Y %H:%M:%S") for one in seconds.tolist()],
        [one.strftime("%m/%d/%Y %I:%M:%S %p") for one in seconds.tolist()],
        seconds.astype(int).tolist(),
    ):
        found = [one.replace(tzinfo=None) for one in parse_times(written)]
        assert np.array_equal(np.array(found, "datetime64[s]"), seconds)
