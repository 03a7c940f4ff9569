"""Stretches: every decision in one of them, few of them, and readable times of every form."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.reports.timeline import SHOWN, RowStretches, TimeStretches, read_times
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.looping import each


@given(sizes=st.lists(st.integers(0, 5_000), max_size=12), seed=st.integers(0, 99))
def test_stretches_by_row_hold_every_decision_once(sizes, seed):
    rng = np.random.default_rng(seed)
    violations = rng.random(sum(sizes)) < 0.2
    by_row = RowStretches()
    for part in np.split(violations, np.cumsum(sizes)[:-1]) if sizes else ():
        by_row.add(part)
    stretches = by_row.stretches(7)
    assert len(stretches) <= SHOWN
    at = 7
    for one in stretches:
        assert one.start == at
        part = violations[one.start - 7 : one.stop - 7]
        assert (one.decisions, one.violations) == (len(part), part.sum())
        at = one.stop
    assert at == 7 + len(violations)


@each("count", [1, 49, 50, 51, 999, 1_000, 1_001, 10_001, 123_456, 3_000_000])
def test_stretches_by_row_are_of_a_round_size(count):
    by_row = RowStretches()
    by_row.add(np.ones(count, dtype=bool))
    stretches = by_row.stretches(0)
    assert len(stretches) <= SHOWN
    assert str(stretches[0].decisions).rstrip("0") in ("1", "2", "5") or len(stretches) == 1
    assert all(one.violations == one.decisions for one in stretches)


TIMES = st.lists(
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2199, 12, 31)) | st.none(),
    min_size=1,
    max_size=60,
)


@given(times=TIMES, cut=st.integers(0, 60), seed=st.integers(0, 99))
def test_stretches_by_time_hold_every_decision_in_its_time(times, cut, seed):
    violations = np.random.default_rng(seed).random(len(times)) < 0.5
    whole, parts = TimeStretches(), TimeStretches()
    whole.add(times, violations)
    parts.add(times[:cut], violations[:cut])
    parts.add(times[cut:], violations[cut:])
    stretches = whole.stretches()
    assert parts.stretches() == stretches
    assert len(stretches) <= SHOWN + 1
    assert whole.untimed == times.count(None)
    known = [(np.datetime64(t, "s"), bad) for t, bad in zip(times, violations) if t]  # noqa: B905
    for one in stretches:
        start, stop = np.datetime64(one.start, "s"), np.datetime64(one.stop, "s")
        inside = [bad for when, bad in known if start <= when < stop]
        assert (one.decisions, one.violations) == (len(inside), sum(inside))
    assert sum(one.decisions for one in stretches) == len(known)


@pytest.mark.parametrize(
    ("apart", "first", "second"),
    [
        (datetime.timedelta(seconds=0.2), "2026-03-02T08:30:00", "2026-03-02T08:30:01"),
        (datetime.timedelta(minutes=1), "2026-03-02T08:30", "2026-03-02T08:35"),
        (datetime.timedelta(hours=2), "2026-03-02T00", "2026-03-02T12"),
        (datetime.timedelta(days=1), "2026-03-02", "2026-03-09"),
        (datetime.timedelta(days=30), "2026-01", "2026-07"),
        (datetime.timedelta(days=250), "2025", "2030"),
    ],
)
def test_stretches_by_time_are_as_long_as_a_calendar_has_them(apart, first, second):
    start = datetime.datetime(2026, 3, 2, 8, 30)
    by_time = TimeStretches()
    by_time.add([start + i * apart for i in range(240)], np.zeros(240, dtype=bool))
    stretches = by_time.stretches()
    assert [one.start for one in stretches[:2]] == [first, second]


def test_times_may_come_in_any_order():
    days = [datetime.date(2026, 1, 1 + i) for i in range(20)]
    forth, back = TimeStretches(), TimeStretches()
    violations = np.arange(20) % 3 == 0
    forth.add(days, violations)
    for i in reversed(range(20)):
        back.add(days[i : i + 1], violations[i : i + 1])
    assert back.stretches() == forth.stretches()


MOMENT = datetime.datetime(2026, 3, 2, 8, 30, 5, 250_000)
SECOND = np.datetime64("2026-03-02T08:30:05", "s")


@each(
    "given",
    [
        [MOMENT],
        [MOMENT.replace(tzinfo=datetime.UTC)],
        [MOMENT.replace(hour=9, tzinfo=ZoneInfo("Europe/Vienna"))],
        ["2026-03-02T08:30:05.25"],
        [" 2026-03-02 08:30:05 "],
        ["2026-03-02T08:30:05Z"],
        ["2026-03-02T09:30:05+01:00"],
        [SECOND],
        np.array([SECOND.astype("datetime64[ns]")]),
        [1772440205],
        [1772440205.25],
        np.array([1772440205]),
        pd.Series([pd.Timestamp(MOMENT)]),
        pd.Series([pd.Timestamp(MOMENT, tz="UTC")]),
        pl.Series([MOMENT]),
        pl.Series(["2026-03-02T08:30:05"]),
    ],
    ids=str,
)
def test_times_are_read_in_every_form(given):
    assert read_times(given).tolist() == [SECOND.item()]


@pytest.mark.parametrize("given", [datetime.date(2026, 3, 2), "2026-03-02"])
def test_days_are_times(given):
    assert read_times([given])[0] == np.datetime64("2026-03-02", "s")


@each(
    "given",
    [None, "", "yesterday", "2026-13-45", "2026", 17, -1.0, float("nan"), 1e300, True, object()],
)
def test_what_is_no_time_is_left_out(given):
    assert np.isnat(read_times([given])).all()


@pytest.mark.parametrize("given", ["0001-01-01", "9999-12-31", "30000-01-01", "-0100-01-01"])
def test_years_that_only_stand_for_no_time_are_left_out(given):
    assert np.isnat(read_times(np.array([given], "datetime64[s]"))).all()
