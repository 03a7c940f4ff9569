"""Arrow streams are read as PyArrow reads them; bytes that make no sense are refused, no more."""

import datetime
import io
import random
import struct
import tracemalloc

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import likewise as lw
from likewise.service.decision_bodies import read_arrow_batch
from likewise.sources import arrow_ipc
from likewise.sources.arrow_ipc import read_columns
from likewise.sources.protocol import BadRecord
from likewise.tables.normalize import require_list

MOST = 10_000
NOW = datetime.datetime(2026, 1, 31, 12, 30, 5, 123456)
WORDS = ["", "a", "twelve bytes", "more than twelve bytes", "日本", None]
COLUMNS = {
    **{f"i{n}": pa.array([0, 1, -(2 ** (n - 1))], f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": pa.array([0, 1, 2**n - 1], f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"f{n}": pa.array(np.array([0.1, -2, 3e4], f"f{n // 8}")) for n in (16, 32, 64)},
    "gaps": pa.array([1, None, 2**60], "int64"),
    "no gaps": pa.array([0.5, None, 1.5]).fill_null(2.0),
    "flags": pa.array([True, None, False]),
    "date32": pa.array([NOW.date(), None, datetime.date(1, 1, 1)]),
    "date64": pa.array([NOW.date(), None, datetime.date(1, 1, 1)], pa.date64()),
    **{
        f"{unit} {zone}": pa.array([NOW.replace(microsecond=0), None, NOW.replace(microsecond=0)])
        .cast(pa.timestamp(unit))
        .cast(pa.timestamp(unit, zone), safe=False)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+01:30")
    },
    **{str(kind): pa.array(WORDS[-3:], kind) for kind in (pa.string(), pa.large_string())},
    "words": pa.array(WORDS[-3:]).dictionary_encode(),
    "numbers": pa.array([5, None, 5]).dictionary_encode(),
    "list": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "large list": pa.array([[1], [2], [3]], pa.large_list(pa.int32())),
    "fixed": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(9, dtype="f4")), 3),
}


def written(table, rows=None):
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return stream.getvalue()


@pytest.mark.parametrize("rows", [None, 1, 2])
def test_every_column_is_read_as_pyarrow_reads_it(rows):
    for name, column in COLUMNS.items():
        for table in (pa.table({"c": column}), pa.table({"c": column}).slice(1, 1)):
            read = read_columns(written(table, rows), MOST)["c"]
            expected = table["c"].to_pylist()
            assert require_list(read) == expected, name
            if not name.startswith("ns"):  # of which PyArrow makes pandas's own
                assert list(map(type, require_list(read))) == list(map(type, expected)), name
            if pa.types.is_primitive(column.type) and name[0] in "iuf" and name[1:].isdigit():
                assert read.dtype == column.to_numpy(zero_copy_only=False).dtype, name


def test_all_columns_together_and_none():
    table = pa.table(COLUMNS)
    read = read_columns(written(table, 2), MOST)
    assert {name: require_list(one) for name, one in read.items()} == table.to_pydict()
    assert [len(one) for one in read_columns(written(table.slice(0, 0)), MOST).values()] == [
        0 for _ in COLUMNS
    ]


def test_what_polars_writes_is_read():
    frame = pl.DataFrame({"s": WORDS * 20, "x": [1.5] * 120, "z": ["a"] * 120})
    for categorical in (False, True):
        if categorical:
            frame = frame.with_columns(pl.col("s").cast(pl.Categorical))
        stream = io.BytesIO()
        frame.write_ipc_stream(stream, compression="uncompressed")
        read = read_columns(stream.getvalue(), MOST)
        assert {name: require_list(one) for name, one in read.items()} == frame.to_dict(
            as_series=False
        )


def test_word_of_a_dictionary_is_decoded_once_however_often_it_is_used():
    words = pa.array(["x" * 5_000_000, "y" * 5_000_000])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 100), words)
    for rows in (None, 1):
        body = written(pa.table({"z": column}), rows)
        tracemalloc.start()
        read = read_columns(body, MOST)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len({id(one) for one in read["z"]}) == 2
        assert peak < 5 * 10_000_000


def test_views_that_share_their_bytes_do_not_grow_beyond_a_bound():
    view = np.array([1_000_000, 0, 0, 0], "<i4").tobytes() * 200
    buffers = [None, pa.py_buffer(view), pa.py_buffer(b"\0\0\0\0" + b"\0" * 1_000_000)]
    shared = pa.Array.from_buffers(pa.string_view(), 200, buffers)
    with pytest.raises(BadRecord) as error:
        read_columns(written(pa.table({"z": shared})), MOST)
    assert error.value.code == "too-large"


def test_stream_of_more_parts_than_are_taken_is_refused(monkeypatch):
    monkeypatch.setattr(arrow_ipc, "MOST_PARTS", 3)
    table = pa.table({"z": [1, 2, 3, 4]})
    assert read_columns(written(table, 2), MOST)["z"].tolist() == [1, 2, 3, 4]
    with pytest.raises(BadRecord) as error:
        read_columns(written(table, 1), MOST)
    assert error.value.code == "too-large"


def test_whole_numbers_beside_floats_are_not_rounded():
    rule = lw.Rule(metric="linf", epsilon=0.5)
    big = 2**53 + 1
    for kind, other in (("int64", 0.5), ("uint64", 0.5), ("uint64", -1)):
        columns = {"a": pa.array([big], kind), "b": pa.array([other]), "z": ["y"]}
        with pytest.raises(lw.errors.UnexpectedValue):
            read_arrow_batch(written(pa.table(columns)), rule, MOST)


@pytest.mark.parametrize(
    ("column", "code"),
    [
        (pa.array([b"a"]), "unexpected-type"),
        (pa.array([{"a": 1}]), "unexpected-type"),
        (pa.array([[["a"]]]), "unexpected-type"),
        (pa.array([["a"]]), "unexpected-type"),
        (pa.nulls(1), "unexpected-type"),
        (pa.array([1], pa.decimal128(5)), "unexpected-type"),
        (pa.array([1], pa.timestamp("ns")), "unexpected-type"),
        (pa.array([2**62], pa.timestamp("s")), "unexpected-type"),
        (pa.array([[1.0], [2.0, 3.0]]), "unexpected-type"),
        (pa.array([[1.0], None]), "unexpected-type"),
        (pa.array(range(MOST + 1)), "too-large"),
    ],
)
def test_other_columns_are_refused(column, code):
    with pytest.raises(BadRecord) as error:
        read_columns(written(pa.table({"c": column})), MOST)
    assert error.value.code == code


def test_words_of_a_dictionary_are_no_rows(monkeypatch):
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(list("abcdefgh")))
    body = written(pa.table({"z": words}))
    assert read_columns(body, 2)["z"] == ["a", "b"]
    monkeypatch.setattr(arrow_ipc, "MOST_WORDS", 7)
    with pytest.raises(BadRecord) as error:
        read_columns(body, 2)
    assert error.value.code == "too-large"


def changed(body, before, after):
    """A body in which one run of numbers of 64 bits is another."""
    before, after = (struct.pack(f"<{len(one)}q", *one) for one in (before, after))
    assert body.count(before) == 1
    return body.replace(before, after)


@pytest.mark.parametrize("in_dictionary", [False, True])
def test_column_that_says_it_is_longer_than_its_batch_is_not_read(in_dictionary):
    flags = pa.array([True, False, True] * 1_000_000)
    column = pa.DictionaryArray.from_arrays(pa.array([0]), flags) if in_dictionary else flags
    body = written(pa.table({"z": column}))
    body = changed(body, [3_000_000, 0], [2_999_999, 0])
    tracemalloc.start()
    with pytest.raises(BadRecord) as error:
        read_columns(body, 4_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.value.code in ("bad-arrow", "too-large") and peak < 1_000_000


def test_columns_that_share_their_bytes_are_refused():
    body = written(pa.table({"a": ["x" * 1000], "b": ["y" * 1024]}))
    body = changed(body, [1016, 1024], [8, 2032])  # the place and length of the second text
    with pytest.raises(BadRecord) as error:
        read_columns(body, MOST)
    assert error.value.code == "bad-arrow"


def test_long_name_of_a_column_is_refused():
    for length, code in ((4096, None), (4097, "too-large")):
        body = written(pa.table({"n" * length: [1]}))
        if code is None:
            assert list(read_columns(body, MOST)) == ["n" * length]
            continue
        with pytest.raises(BadRecord) as error:
            read_columns(body, MOST)
        assert error.value.code == code


def test_bytes_that_make_no_sense_are_refused():
    bodies = [written(pa.table(COLUMNS), 2), written(pa.table({"z": COLUMNS["words"]}))]
    stream = io.BytesIO()
    pl.DataFrame({"s": WORDS * 5}).write_ipc_stream(stream, compression="uncompressed")
    bodies.append(stream.getvalue())
    random_ = random.Random(0)
    taken = 0
    for _ in range(3000):
        body = bytearray(random_.choice(bodies))
        for _ in range(random_.randrange(1, 4)):
            at = random_.randrange(len(body))
            body[at] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
        if random_.random() < 0.2:
            del body[random_.randrange(len(body)) :]
        try:
            read_columns(bytes(body), MOST)
            taken += 1
        except BadRecord:
            pass
    assert 100 < taken < 2900
