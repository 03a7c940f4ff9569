"""Reads Parquet and Arrow files with Polars, a few batches at a time.

Files are read by seeking, so what comes through a pipe or packed is first copied into a temporary
file; Arrow streams are read as they come. Values have types of their own, and a place is a row,
from 1.
Cost: a few batches in memory, whatever the length of the file.
"""

import io
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, cast

import numpy as np
import polars as pl

from likewise.errors import BadFile
from likewise.sources.arrow_ipc import DICTIONARY, RECORDS, SCHEMA, read_header
from likewise.sources.byte_streams import ByteStream
from likewise.sources.chunk_reader import ChunkReader
from likewise.sources.protocol import BadRecord, Chunk, ColumnTypes


class ColumnarFile(ChunkReader):
    """Reads a Parquet file, or an Arrow file (the IPC format with a footer)."""

    unit = "row"

    def __init__(self, stream: ByteStream, format: str) -> None:
        self.stream = stream
        self._format = format
        self._copy: IO[bytes] | None = None
        path = stream.path
        if stream.path == "-" or stream.is_packed:
            self._copy = tempfile.NamedTemporaryFile(suffix=".likewise")  # noqa: SIM115
            shutil.copyfileobj(cast(Any, stream), self._copy, 1 << 20)
            self._copy.flush()
            path = self._copy.name
        self.by_name = self._copy is None
        with translate_polars_errors(stream.name, format):
            scan: Any = pl.scan_parquet if format == "Parquet" else pl.scan_ipc
            self._frame: pl.LazyFrame = scan(path, glob=False, hive_partitioning=False)
            self.columns = self._frame.collect_schema().names()
            self.rows = int(self._frame.select(pl.len()).collect().item())

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        with translate_polars_errors(self.stream.name, self._format):
            batches = self._frame.select(columns).collect_batches(chunk_size=rows)
            yield from _make_chunks(batches, rows)


def _make_chunks(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[Chunk]:
    first = 1
    for frame in frames:
        for part in frame.iter_slices(rows):
            yield Chunk(part, np.arange(first, first + part.height, dtype=np.int64))
            first += part.height


@contextmanager
def translate_polars_errors(name: str, format: str) -> Iterator[None]:
    """Raise BadFile, which names the file, for what Polars raises about it."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        first_line = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise _damage_error(name, format, first_line[:200]) from None


def _damage_error(name: str, format: str, why: str) -> BadFile:
    return BadFile(
        f"{name} is damaged, or not all of it is there: as {format} it cannot be read ({why})."
        " Copy or write it again.",
        path=name,
    )


_STREAM = "an Arrow stream"
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + bytes(4)
_LONGEST = 1 << 31


class _Message(NamedTuple):
    kind: int
    data: bytes
    dictionary: int
    is_delta: bool


class ArrowStream(ChunkReader):
    """Reads a stream of record batches."""

    unit = "row"

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        first = self._read_message()
        if first is None or first.kind != SCHEMA:
            raise self._damage_error("it does not begin with a schema")
        self._schema = first.data
        self._dictionaries: dict[int, bytes] = {}
        with translate_polars_errors(stream.name, _STREAM):
            self.columns = pl.read_ipc_stream(io.BytesIO(self._schema + _END)).columns

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        yield from _make_chunks(self._read_frames(list(columns)), rows)

    def _read_frames(self, columns: list[str]) -> Iterator[pl.DataFrame]:
        while (message := self._read_message()) is not None:
            if message.kind == DICTIONARY:
                before = self._dictionaries.get(message.dictionary, b"") * message.is_delta
                self._dictionaries[message.dictionary] = before + message.data
            if message.kind != RECORDS:
                continue
            parts = (self._schema, *self._dictionaries.values(), message.data, _END)
            with translate_polars_errors(self.stream.name, _STREAM):
                frame = pl.read_ipc_stream(io.BytesIO(b"".join(parts)), columns=columns)
            yield frame

    def _read_message(self) -> _Message | None:
        """Read the next message; return None at the end of the stream."""
        start = self.stream.read(8)
        if start in (b"", _END, _CONTINUES):
            return None
        if len(start) < 8 or start[:4] != _CONTINUES:
            raise self._damage_error("a message does not begin where the last one ends")
        (size,) = struct.unpack("<i", start[4:])
        if not 0 < size < _LONGEST:
            raise self._damage_error(f"a message says that its header has {size} bytes")
        header = self._read_exactly(size)
        try:
            kind, body, table = read_header(header)
            dictionary, is_delta = 0, False
            if kind == DICTIONARY:
                dictionary, is_delta = table.number(0, "<q"), bool(table.number(2, "<B"))
        except BadRecord:
            raise self._damage_error("the header of a message makes no sense") from None
        return _Message(kind, start + header + self._read_exactly(body), dictionary, is_delta)

    def _read_exactly(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise self._damage_error(f"it ends {count - len(data):,} bytes too early")
        return data

    def _damage_error(self, why: str) -> BadFile:
        return _damage_error(self.stream.name, _STREAM, why)
