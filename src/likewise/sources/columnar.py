"""Parquet and Arrow files, a few batches at a time, by Polars.

Such files are read by seeking, so what comes through a pipe or packed is first copied into a
temporary file. They bring types of their own and rows have no lines: a place is a row, from 1.

Cost: a few batches, whatever the length of the file.
"""

import io
import shutil
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, cast

import numpy as np
import polars as pl

from likewise.errors import BadFile
from likewise.sources.arrow_ipc import DICTIONARY, RECORDS, SCHEMA, BadArrow, read_header
from likewise.sources.byte_streams import ByteStream
from likewise.sources.chunk import Chunk, ColumnTypes
from likewise.sources.remarks import Remark


class ColumnarFile:
    """A Parquet file, or an Arrow file (the IPC format with a footer)."""

    unit = "row"
    remarks: tuple[Remark, ...] = ()  # it brings types of its own

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
        """Whether Polars reads the file by its name, beside the stream."""
        with translate_polars_errors(stream.name, format):
            if format == "Parquet":
                self._frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            else:
                self._frame = pl.scan_ipc(path, glob=False, hive_partitioning=False)
            self.columns = self._frame.collect_schema().names()
            self.rows = int(self._frame.select(pl.len()).collect().item())

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The wanted columns, so many rows at a time at most."""
        first = 1
        with translate_polars_errors(self.stream.name, self._format):
            batches = iter(self._frame.select(columns).collect_batches(chunk_size=rows))
            while (frame := next(batches, None)) is not None:
                for some in frame.iter_slices(rows):
                    yield Chunk(some, np.arange(first, first + some.height, dtype=np.int64))
                    first += some.height


@contextmanager
def translate_polars_errors(name: str, format: str) -> Iterator[None]:
    """What Polars says of a file that it cannot read, with the name of the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        first = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise BadFile(
            f"{name} is damaged, or not all of it is there: as {format} it cannot be read"
            f" ({first[:200]}). Copy or write it again.",
            path=name,
        ) from None


CONTINUES = b"\xff\xff\xff\xff"
_END = CONTINUES + bytes(4)
_LONGEST = 1 << 31


class _Message(NamedTuple):
    kind: int
    data: bytes
    dictionary: int
    is_delta: bool


class ArrowStream:
    """A stream of record batches."""

    unit = "row"
    remarks: tuple[Remark, ...] = ()  # it brings types of its own

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        first = self._read_message()
        if first is None or first.kind != SCHEMA:
            raise self._damage_error("it does not begin with a schema")
        self._schema = first.data
        self._dictionaries: dict[int, bytes] = {}
        with translate_polars_errors(stream.name, "an Arrow stream"):
            self.columns = pl.read_ipc_stream(io.BytesIO(self._schema + _END)).columns

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The wanted columns, so many rows at a time at most."""
        first = 1
        while (message := self._read_message()) is not None:
            if message.kind == DICTIONARY:
                before = self._dictionaries.get(message.dictionary, b"") * message.is_delta
                self._dictionaries[message.dictionary] = before + message.data
            if message.kind != RECORDS:
                continue
            parts = (self._schema, *self._dictionaries.values(), message.data, _END)
            with translate_polars_errors(self.stream.name, "an Arrow stream"):
                frame = pl.read_ipc_stream(io.BytesIO(b"".join(parts)), columns=list(columns))
            for some in frame.iter_slices(rows):
                yield Chunk(some, np.arange(first, first + some.height, dtype=np.int64))
                first += some.height

    def _read_message(self) -> _Message | None:
        """The next message; None at the end of the stream."""
        start = self.stream.read(8)
        if start in (b"", _END, CONTINUES):
            return None
        if len(start) < 8 or start[:4] != CONTINUES:
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
        except BadArrow:
            raise self._damage_error("the header of a message makes no sense") from None
        return _Message(kind, start + header + self._read_exactly(body), dictionary, is_delta)

    def _read_exactly(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise self._damage_error(f"it ends {count - len(data):,} bytes too early")
        return data

    def _damage_error(self, why: str) -> BadFile:
        return BadFile(
            f"{self.stream.name} is damaged, or not all of it is there: as an Arrow stream it"
            f" cannot be read ({why}). Copy or write it again.",
            path=self.stream.name,
        )
