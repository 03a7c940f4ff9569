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

from likewise.sources.chunk import Chunk, Types
from likewise.sources.columnar import told
from likewise.sources.remarks import Remark
from likewise.sources.streams import Stream
from likewise.values.errors import BadFile

CONTINUES = b"\xff\xff\xff\xff"
_END = CONTINUES + bytes(4)
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
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
        if first is None or first.kind != _SCHEMA:
            raise self._damaged("it does not begin with a schema")
        self._schema = first.data
        self._dictionaries: dict[int, bytes] = {}
        with told(stream.name, "an Arrow stream"):
            self.columns = pl.read_ipc_stream(io.BytesIO(self._schema + _END)).columns

    def chunks(self, types: Types, wanted: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The wanted columns, so many rows at a time at most."""
        first = 1
        while (message := self._message()) is not None:
            if message.kind == _DICTIONARY:
                before = self._dictionaries.get(message.dictionary, b"") * message.is_delta
                self._dictionaries[message.dictionary] = before + message.data
            if message.kind != _BATCH:
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
            kind, body, dictionary, is_delta = _read_header(header)
        except (struct.error, IndexError):
            raise self._damaged("the header of a message makes no sense") from None
        if not body >= 0:
            raise self._damaged(f"a message says that it has {body} bytes")
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


def _read_header(header: bytes) -> tuple[int, int, int, bool]:
    """A message's kind and the size of its body; of a dictionary, which, and if it is a delta."""
    message = struct.unpack_from("<I", header)[0]
    at = _field(header, message, 1)
    kind = header[at] if at else 0
    at = _field(header, message, 3)
    body = struct.unpack_from("<q", header, at)[0] if at else 0
    if kind != _DICTIONARY:
        return kind, body, 0, False
    at = _field(header, message, 2)
    table = at + struct.unpack_from("<I", header, at)[0]
    which, delta = _field(header, table, 0), _field(header, table, 2)
    number = struct.unpack_from("<q", header, which)[0] if which else 0
    return kind, body, number, bool(delta and header[delta])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a FlatBuffers table lies; 0 if it is left out."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, offsets)[0]
    if 4 + 2 * number >= size:
        return 0
    offset: int = struct.unpack_from("<H", data, offsets + 4 + 2 * number)[0]
    return table + offset if offset else 0
