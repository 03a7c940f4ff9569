"""The Arrow stream format, which has no footer: batch after batch, so that pipes need no copy.

Polars reads such a stream whole. Here it is cut into messages (a length, a FlatBuffers header, a
body, as the Arrow columnar format lays down), and Polars gets the schema, the dictionaries so far
and one batch at a time.

Cost: one batch and the dictionaries.
"""

import io
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from likewise.sources.arrow_ipc import DICTIONARY, RECORDS, SCHEMA, BadArrow, read_header
from likewise.sources.chunk import Chunk, Types
from likewise.sources.columnar import told
from likewise.sources.remarks import Remark
from likewise.sources.streams import Stream
from likewise.values.errors import BadFile

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

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        first = self._message()
        if first is None or first.kind != SCHEMA:
            raise self._damaged("it does not begin with a schema")
        self._schema = first.data
        self._dictionaries: dict[int, bytes] = {}
        with told(stream.name, "an Arrow stream"):
            self.columns = pl.read_ipc_stream(io.BytesIO(self._schema + _END)).columns

    def chunks(self, types: Types, wanted: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The wanted columns, so many rows at a time at most."""
        first = 1
        while (message := self._message()) is not None:
            if message.kind == DICTIONARY:
                before = self._dictionaries.get(message.dictionary, b"") * message.is_delta
                self._dictionaries[message.dictionary] = before + message.data
            if message.kind != RECORDS:
                continue
            parts = (self._schema, *self._dictionaries.values(), message.data, _END)
            with told(self.stream.name, "an Arrow stream"):
                frame = pl.read_ipc_stream(io.BytesIO(b"".join(parts)), columns=list(wanted))
            for some in frame.iter_slices(rows):
                yield Chunk(some, np.arange(first, first + some.height, dtype=np.int64))
                first += some.height

    def _message(self) -> _Message | None:
        """The next message; None at the end of the stream."""
        start = self.stream.read(8)
        if start in (b"", _END, CONTINUES):
            return None
        if len(start) < 8 or start[:4] != CONTINUES:
            raise self._damaged("a message does not begin where the last one ends")
        (size,) = struct.unpack("<i", start[4:])
        if not 0 < size < _LONGEST:
            raise self._damaged(f"a message says that its header has {size} bytes")
        header = self._exactly(size)
        try:
            kind, body, table = read_header(header)
            dictionary, is_delta = 0, False
            if kind == DICTIONARY:
                dictionary, is_delta = table.number(0, "<q"), bool(table.number(2, "<B"))
        except BadArrow:
            raise self._damaged("the header of a message makes no sense") from None
        return _Message(kind, start + header + self._exactly(body), dictionary, is_delta)

    def _exactly(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise self._damaged(f"it ends {count - len(data):,} bytes too early")
        return data

    def _damaged(self, why: str) -> BadFile:
        return BadFile(
            f"{self.stream.name} is damaged, or not all of it is there: as an Arrow stream it"
            f" cannot be read ({why}). Copy or write it again.",
            path=self.stream.name,
        )
