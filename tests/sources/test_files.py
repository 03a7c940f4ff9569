"""Whatever the format, the same rows; memory that does not grow with the file."""

import gzip
import io
import json
import os
import sys

import numpy as np
import pytest

from likewise.errors import BadFile
from likewise.sources.file_source import open_source
from likewise.sources.json_lines import LineFile, PipeLines
from likewise.tables.positions import to_position_numbers
from tests.support.lazily import polars as pl
from tests.support.lazily import pyarrow as pa
from tests.support.programs import run_python
from tests.support.refusals import raises
from tests.support.zstandard import zstd

TYPES = {"a": "number", "c": "listed"}


def frame(count=5_000):
    return pl.DataFrame(
        {
            "a": np.arange(count) / 7,
            "b": [f"x{i % 7}" if i % 11 else None for i in range(count)],
            "c": np.arange(count),
            "d": pl.Series([f"d{i % 3}" for i in range(count)], dtype=pl.Categorical),
        }
    )


def arrow_stream(path, table):
    """As another program writes it, in batches, with a dictionary."""
    whole = table.to_arrow()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, whole.schema) as writer:
        for batch in whole.to_batches(max_chunksize=700):
            writer.write_batch(batch)


WRITERS = {
    "t.csv": lambda path, table: table.write_csv(path),
    "t.tsv": lambda path, table: table.write_csv(path, separator="\t"),
    "t.jsonl": lambda path, table: table.write_ndjson(path),
    "t.parquet": lambda path, table: table.write_parquet(path, row_group_size=900),
    "t.arrow": lambda path, table: table.write_ipc(path),
    "t.arrows": arrow_stream,
    "polars.arrows": lambda path, table: table.write_ipc_stream(path),
}


def rows_of(path, **settings):
    source = open_source(str(path), **settings)
    try:
        return *_read(source), source
    finally:
        source.close()


def _read(source):
    found, places = [], []
    for chunk in source.chunks(TYPES, source.columns, 1_000):
        table = chunk.table
        found += [tuple(row.values()) for row in table] if isinstance(table, list) else table.rows()
        places += chunk.places.tolist()
        assert len(table) == len(chunk.places) <= 1_000
        assert not chunk.refused
    done, total = source.progress
    assert total is None or done == total
    return found, places


@pytest.mark.parametrize("pack", [None, gzip.compress, zstd.compress])
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_packed_or_not_gives_the_same_rows(name, pack, tmp_path):
    path = tmp_path / name
    WRITERS[name](path, frame())
    if pack is not None:
        path.write_bytes(pack(path.read_bytes()))
    found, places, source = rows_of(path)
    assert found == frame().rows()
    first = {"csv": 2, "tsv": 2}.get(source.format, 1)
    assert places == list(range(first, first + 5_000))


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_files_packed_in_several_parts_are_read_to_the_end(pack, tmp_path):
    """As parallel packers write them, or when packed files are joined."""
    text = frame().write_csv().encode()
    half = len(text) // 2
    (tmp_path / "t.csv.x").write_bytes(pack(text[:half]) + pack(text[half:]))
    assert rows_of(tmp_path / "t.csv.x")[0] == frame().rows()


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("cut", [30, 200, 5_000])
def test_packed_file_without_its_end_is_told(pack, cut, tmp_path):
    data = pack(frame().write_csv().encode())
    (tmp_path / "t.csv.x").write_bytes(data[:-cut])
    with raises(BadFile):
        rows_of(tmp_path / "t.csv.x")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.arrows"])
@pytest.mark.parametrize("cut", [1, 9, 300, 20_000])
def test_columns_without_their_end_are_told(name, cut, tmp_path):
    """A stream may end without its mark, so losing only that loses nothing."""
    path = tmp_path / name
    WRITERS[name](path, frame())
    path.write_bytes(path.read_bytes()[:-cut])
    if name == "t.arrows" and cut <= 8:
        pytest.skip("only the mark at the end is lost")
    with raises(BadFile):
        rows_of(path)


@pytest.mark.parametrize("start, format", [
    ('{"a": 1}\n', "jsonl"), ("a\tb\n1\t2\n", "tsv"), ("a,b\n1,2\n", "csv"), ("\ufeffa,b\n", "csv"),
])  # fmt: skip
def test_text_without_a_name_is_known_by_its_looks(start, format, tmp_path):
    (tmp_path / "data").write_text(start)
    source = open_source(str(tmp_path / "data"))
    source.close()
    assert source.format == format
    assert source.columns[0] == "a"


def test_json_keeps_the_types_that_it_has(tmp_path):
    rows = [{"a": 1, "b": None}, {"a": "1", "b": True}, {"a": 1.5, "b": "é"}]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    source = open_source(str(tmp_path / "t.jsonl"))
    (chunk,) = source.chunks({}, [], 10)
    source.close()
    assert chunk.table == rows
    assert [type(row["a"]) for row in chunk.table] == [int, str, float]


# Memory

PEAK = """
def peak():  # of this program alone; getrusage would begin with that of whoever started it
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
"""
READ = (
    PEAK
    + """
import sys
from likewise.sources.file_source import open_source
source = open_source(sys.argv[1])
for chunk in source.chunks({"c0": "number"}, source.columns):
    pass
print(peak())
"""
)
AUDIT = (
    PEAK
    + """
import sys
from likewise.cli import main
options = ["--epsilon", "0.001", "--output-column", "z", "--ignore", "note", "--json"]
assert main(["audit", sys.argv[1], *options]) == 0
print()
print(peak())
"""
)


def megabytes(code, path):
    """At most, of a process that does only this; Polars gives memory back at once, not by time."""
    settings = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
    done = run_python("-c", code, path, env={**os.environ, **settings})
    return float(done.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize(
    "name, times",
    [("t.csv", (4, 16)), ("t.parquet", (4, 16)), ("t.arrows", (4, 16)),
     pytest.param("t.jsonl", (3, 6), marks=pytest.mark.slow),
     pytest.param("t.csv.gz", (2, 6), marks=pytest.mark.slow)],
)  # fmt: skip
def test_memory_does_not_grow_with_the_file(name, times, tmp_path):
    """Twice to four times the file, the same peak, but for what allocators keep."""
    random = np.random.default_rng(0)
    peaks, sizes = [], []
    for many in times:
        table = pl.DataFrame({f"c{j}": random.random(60_000 * many) for j in range(12)})
        path = tmp_path / name
        text = table.write_csv().encode() if name == "t.csv.gz" else b""
        if text:
            path.write_bytes(gzip.compress(text, 1))
        elif name == "t.parquet":
            table.write_parquet(path, row_group_size=20_000)
        else:
            WRITERS[name](path, table)
        sizes.append((len(text) or path.stat().st_size) / 2**20)
        peaks.append(megabytes(READ, path))
    assert sizes[1] - sizes[0] > 30
    assert peaks[1] - peaks[0] < 0.5 * (sizes[1] - sizes[0]), (peaks, sizes)


@pytest.mark.long
def test_memory_of_an_audit_is_the_history_not_the_file(tmp_path):
    """Most of the file is a column that is not looked at."""
    peaks = []
    for count in (25_000, 75_000):
        random = np.random.default_rng(1)
        table = pl.DataFrame({"a": random.random(count), "z": random.integers(0, 2, count)})
        table = table.with_columns(note=pl.lit("n" * 2_000))
        table.write_csv(tmp_path / "t.csv")
        peaks.append(megabytes(AUDIT, tmp_path / "t.csv"))
    assert (tmp_path / "t.csv").stat().st_size > 140e6
    assert peaks[1] - peaks[0] < 40, peaks


# Lines as they come


def polled_to_the_end(lines, most=1000):
    """The records of a pipe."""
    records, ended = [], False
    while not ended:
        some = lines.poll(most)
        records += some.records
        ended = some.ended
    return records


def test_lines_come_whole_and_in_order_however_they_were_written(tmp_path):
    text = b"one\n\ntwo\nthree with more\n" * 3_000 + b"last without an end"
    (tmp_path / "t").write_bytes(text)
    with (tmp_path / "t").open("rb") as file:
        lines = PipeLines(file.fileno())
        found = polled_to_the_end(lines)
        lines.close()
    written = [(i, line) for i, line in enumerate(text.split(b"\n"), 1) if line]
    assert [(one.position, one.body) for one in found] == written


def test_lines_stop_when_told(tmp_path):
    (tmp_path / "t").write_bytes(b"x\n" * 200_000)
    with (tmp_path / "t").open("rb") as file:
        lines = PipeLines(file.fileno())
        given = len(lines.poll(1000).records)
        lines.stop()
        some = lines.poll(1000)
        assert some.ended and not some.records
        lines.close()
    assert 0 < given < 200_000


@pytest.mark.parametrize("kind", [PipeLines, LineFile])
def test_line_that_is_too_long_leaves_a_mark_and_nothing_else(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("likewise.sources.json_lines.LONGEST", 1 << 20)
    long, longest = b"x" * (1 << 22), b"y" * (1 << 20)
    parts = [b"one", long, b"", longest, longest + b"y", b"\xef\xbb\xbftwo\r", long]
    (tmp_path / "t").write_bytes(b"\n".join(parts))
    with (tmp_path / "t").open("rb") as file:
        lines = PipeLines(file.fileno()) if kind is PipeLines else LineFile(tmp_path / "t")
        records = polled_to_the_end(lines)
        lines.close()
    assert [one.body for one in records] == [b"one", b"", longest, b"", b"two", b""]
    assert [one.flaw is None for one in records] == [True, False, True, False, True, False]
    assert [to_position_numbers(one.position)[0] for one in records] == [1, 2, 4, 5, 6, 7]
    assert all("longer than 1 MB" in one.flaw for one in records if one.flaw)
    assert {one.flaw_code for one in records if one.flaw} == {"too-long"}


def test_standard_input_is_read_once_and_stays_open(monkeypatch):
    given = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a,b\n1,2\n")))
    monkeypatch.setattr(sys, "stdin", given)
    source = open_source("-")
    (chunk,) = source.chunks({}, ["a"])
    source.close()
    assert chunk.table.rows() == [("1",)] and source.name == "standard input"
    assert not given.closed
