"""Rows in order of time: a sort that is stable, whatever the chunks, and loses no row."""

import datetime
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import BadFile
from likewise.sources.file_source import open_source
from likewise.sources.time_columns import TimeOrderedSource
from tests.support.lazily import polars as pl
from tests.support.refusals import raises

START = datetime.datetime(2024, 5, 1)


@contextmanager
def opened(path):
    source = open_source(str(path))
    try:
        yield source
    finally:
        source.close()


def ordered(path, rows=7, again=None):
    """The names of rows as they come, their lines, those refused, and what was done."""
    with opened(path) as source:
        in_order = TimeOrderedSource(source, "t", reopen=again or (lambda: opened(path)))
        chunks = list(in_order.chunks({}, ["name", "t"], rows))
    names = [name for chunk in chunks if len(chunk) for name in chunk.table["name"].to_list()]
    places = [place for chunk in chunks for place in chunk.places.tolist()]
    times = [time for chunk in chunks for time in chunk.times.tolist()]
    assert times == sorted(times) and len(times) == len(names) == len(places)
    refused = sorted(one.place for chunk in chunks for one in chunk.refused)
    return names, places, refused, in_order.arrangement


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("times")


def written(folder, hours):
    times = [None if hour is None else START + datetime.timedelta(hours=hour) for hour in hours]
    frame = pl.DataFrame({"name": [f"r{i}" for i in range(len(hours))]}).with_columns(
        t=pl.Series([None if one is None else one.isoformat() for one in times], dtype=pl.String)
    )
    frame.write_csv(folder / "d.csv")
    return folder / "d.csv"


@given(data=st.data())
def test_order_is_that_of_a_stable_sort(data, folder):
    hours = data.draw(st.lists(st.none() | st.integers(0, 6), min_size=1, max_size=40))
    shape = data.draw(st.sampled_from(["as drawn", "rising", "falling"]))
    known = [hour for hour in hours if hour is not None]
    if not known:
        return
    if shape != "as drawn":
        hours = sorted(known, reverse=shape == "falling")
    falls = [hour for hour in hours if hour is not None]
    backwards = falls == sorted(falls, reverse=True) and falls != sorted(falls)
    rows = [i for i, hour in enumerate(hours) if hour is not None]
    expected = sorted(rows[::-1] if backwards else rows, key=lambda i: hours[i])
    path = written(folder, hours)
    names, places, refused, done = ordered(path, rows=data.draw(st.integers(1, 50)))
    assert names == [f"r{i}" for i in expected]
    assert places == [i + 2 for i in expected]
    assert refused == [i + 2 for i, hour in enumerate(hours) if hour is None]
    assert done == (
        "newest first" if backwards else "as it is" if falls == sorted(falls) else "sorted"
    )


def test_fractions_of_a_second_and_zones_count(folder):
    (folder / "z.csv").write_text(
        "name,t\na,2024-05-01T12:00:00.000002+02:00\nb,2024-05-01T10:00:00.000001Z\n"
        "c,2024-05-01T09:59:59\nd,2024-05-01T05:00:00-05:00\n"
    )
    names, *_ = ordered(folder / "z.csv")
    assert names == ["c", "d", "b", "a"]


def test_column_that_has_no_times_is_refused_with_an_example(folder):
    (folder / "n.csv").write_text("name,t\na,soon\nb,later\n")
    with raises(BadFile):
        ordered(folder / "n.csv")
