"""The checksum of a source is that of its bytes, whatever reads them and however."""

import gzip
import hashlib
import io

import pytest

from likewise.errors import BadFile
from likewise.sources.file_source import open_source
from tests.support.lazily import polars as pl
from tests.support.refusals import raises

FRAME = pl.DataFrame({"a": range(5_000), "z": ["x", "y"] * 2_500})
WRITE = {
    "d.csv": FRAME.write_csv,
    "d.jsonl": FRAME.write_ndjson,
    "d.parquet": FRAME.write_parquet,
    "d.arrow": FRAME.write_ipc,
    "d.arrows": FRAME.write_ipc_stream,
}


def read(path):
    source = open_source(str(path))
    rows = sum(len(chunk) for chunk in source.chunks({}, source.columns))
    assert rows == FRAME.height
    return source


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("name", WRITE)
def test_digest_is_that_of_the_bytes_of_the_file(name, packed, tmp_path):
    path = tmp_path / name
    WRITE[name](path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    digest = read(path).digest()
    data = path.read_bytes()
    assert (digest.sha256, digest.size) == (hashlib.sha256(data).hexdigest(), len(data))


@pytest.mark.parametrize("name", WRITE)
def test_digest_of_standard_input_is_that_of_what_was_sent(name, tmp_path, monkeypatch):
    WRITE[name](tmp_path / name)
    data = (tmp_path / name).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    source = read("-")
    digest = source.digest()
    assert (digest.sha256, digest.size) == (hashlib.sha256(data).hexdigest(), len(data))
    assert not source.is_rereadable


def test_file_that_is_read_by_name_and_changes_meanwhile_is_refused(tmp_path):
    path = tmp_path / "d.parquet"
    FRAME.write_parquet(path)
    source = read(path)
    FRAME.head(10).write_parquet(path)
    with raises(BadFile):
        source.digest()


def test_lines_that_are_added_after_the_last_was_read_are_no_part_of_the_digest(tmp_path):
    path = tmp_path / "d.csv"
    FRAME.write_csv(path)
    before = path.read_bytes()
    source = read(path)
    with path.open("a") as file:
        file.write("1,x\n")
    assert source.digest().sha256 == hashlib.sha256(before).hexdigest()
