"""CSV as Python's own reader has it, with the line of each record; what is bad is refused alone."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.sources import byte_streams
from likewise.sources.byte_streams import ByteStream
from likewise.sources.delimited import DelimitedFile
from tests.support.strategies import examples

VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=6)
TABLES = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(VALUES, min_size=width, max_size=width), max_size=12)
)


def read(path, types=None, rows=65_536, **settings):
    """All rows of a file, their lines, and what was refused."""
    stream = ByteStream(str(path))
    try:
        source = DelimitedFile(stream, **{"delimiter": ",", **settings})
        chunks = list(source.chunks(types or {}, source.columns, rows))
    finally:
        stream.close()
    found = [row for chunk in chunks for row in chunk.table.rows()]
    lines = [line for chunk in chunks for line in chunk.places.tolist()]
    refused = [one for chunk in chunks for one in chunk.refused]
    assert len(found) == len(lines)
    return found, lines, refused


@pytest.fixture(params=[1 << 23, 64])
def block(request, monkeypatch):
    """Blocks of the usual size, and such that every record crosses the end of one."""
    monkeypatch.setattr(byte_streams, "BLOCK", request.param)
    return request.param


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@settings(max_examples=examples(60))
@given(table=TABLES)
def test_records_are_those_of_pythons_reader(table, delimiter, end, tmp_path_factory):
    width = len(table[0]) if table else 2
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow([f"c{j}" for j in range(width)])
    starts = []
    for row in table:
        starts.append(written.getvalue().count("\n") + 1)
        writer.writerow(row)
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(written.getvalue().encode())
    for size in (1 << 23, 50):
        before, byte_streams.BLOCK = byte_streams.BLOCK, size
        try:
            found, lines, refused = read(path, delimiter=delimiter)
        finally:
            byte_streams.BLOCK = before
        assert found == [tuple(row) for row in table]
        assert lines == starts
        assert not refused


def test_bad_records_are_refused_with_their_lines_and_the_rest_is_read(block, tmp_path):
    lines = ["a,b,c"] + [f"{i},xé{i},0.5" for i in range(200)]  # UTF-8, beyond doubt
    bad = {
        11: "1,2",
        50: "1,2,3,4",
        51: '1,"a\nb",no number',  # goes on in line 52
        90: "1,caf\udce9,3",
        120: '1,"x"y,3',
    }
    for at, line in bad.items():
        lines.insert(at - 1 - (at > 51), line)
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    found, places, refused = read(tmp_path / "t.csv", {"c": "number"})
    assert [one.place for one in refused] == list(bad)
    assert len(found) == 200
    physical = "\n".join(lines).split("\n")
    for row, place in zip(found, places, strict=True):
        assert physical[place - 1].startswith(f"{row[0]},{row[1]},")


def test_blank_lines_are_no_rows_but_count_as_lines(block, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\n\na,b\n\n1,2\r\n\r\n\n3,4\n\n")
    found, lines, refused = read(tmp_path / "t.csv")
    assert (found, lines, refused) == ([("1", "2"), ("3", "4")], [5, 8], [])


@pytest.mark.parametrize("kind, text, value", [
    ("number", " 1.5 ", 1.5), ("number", "1e3", 1000.0), ("number", "", None),
    ("number", "-0", 0.0), ("listed", "2", 2), ("listed", "2.0", 2), ("listed", "2.5", 2.5),
    ("flag", "True", True), ("flag", "false", False), ("text", " 1.5 ", " 1.5 "),
    ("text", "NA", "NA"), ("text", "", None), ("number", "?", None), ("text", "?", None),
])  # fmt: skip
def test_types_are_those_asked_for(kind, text, value, tmp_path):
    (tmp_path / "t.csv").write_text(f"a,b\n{text},1\n")
    found, _, refused = read(tmp_path / "t.csv", {"a": kind}, missing=["?"])
    assert not refused
    assert found[0][0] == value and type(found[0][0]) is type(value)


@pytest.mark.parametrize("kind", ["number", "listed", "flag"])
@pytest.mark.parametrize("text", ["x", "1_000", "0x10", "1.2.3", "yes", "−3", "1,5"])
def test_what_is_no_number_is_refused(kind, text, tmp_path):
    (tmp_path / "t.csv").write_text(f'a,b\n1,1\n"{text}",1\ntrue,1\n')
    _, _, refused = read(tmp_path / "t.csv", {"a": kind})
    assert 3 in [one.place for one in refused]
    assert repr(text) in next(one.why for one in refused if one.place == 3)


def test_chunks_have_at_most_as_many_rows_as_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 1_000)
    stream = ByteStream(str(tmp_path / "t.csv"))
    source = DelimitedFile(stream, delimiter=",")
    sizes = [len(chunk) for chunk in source.chunks({}, ["b"], 300)]
    stream.close()
    assert sizes == [300, 300, 300, 100]


def test_places_are_of_the_whole_file_however_it_is_cut(block, tmp_path):
    rows = [f'{i},"{"x" * (i % 40)}\n{i}"' for i in range(500)]
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    found, lines, _ = read(tmp_path / "t.csv", rows=7)
    assert lines == np.arange(2, 1_002, 2).tolist()
    assert [int(row[0]) for row in found] == list(range(500))
