"""Walks an Arrow IPC stream before a library reads it: what it holds is bounded and plain.

A stream is a run of messages: four bytes FF, the length of a header, the header (a flatbuffer), and
a body as long as the header says. The headers say everything that could grow on reading: how many
rows, whether buffers are compressed, which kinds of columns there are. So a stream whose buffers
are not all in the bytes that came, or that has more rows than are taken, is refused here; only then
is it given to PyArrow or Polars.

Invariant: what passes is uncompressed, has at most `most` rows, and ends within the body.
Not here: values (arrow_columns.py).
"""

import struct
from dataclasses import dataclass

from likewise.service.refusals import Refusal

_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer: fields by number, each at an offset that its vtable has."""

    data: memoryview
    at: int

    def place(self, number: int) -> int | None:
        """Where a field is; None if it has its default."""
        vtable = self.at - _signed(self.data, self.at)
        size = _number(self.data, vtable, "<H", 2)
        slot = 4 + 2 * number
        if slot + 2 > size:
            return None
        offset = _number(self.data, vtable + slot, "<H", 2)
        return self.at + offset if offset else None

    def table(self, number: int) -> "_Table | None":
        place = self.place(number)
        if place is None:
            return None
        return _Table(self.data, place + _number(self.data, place, "<I", 4))

    def whole(self, number: int, form: str, size: int) -> int:
        place = self.place(number)
        return 0 if place is None else _number(self.data, place, form, size)


def check_stream(body: bytes, most: int) -> int:
    """How many rows a stream has; Refusal if it has too many, or is none that is taken."""
    try:
        return _walked(memoryview(body), most)
    except (struct.error, IndexError, OverflowError):
        raise _broken("a header ends too soon") from None


def _walked(data: memoryview, most: int) -> int:
    at, rows, begun = 0, 0, False
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if length == 0xFFFFFFFF:
            (length,) = struct.unpack_from("<I", data, at)
            at += 4
        if length == 0:
            break
        header = data[at : at + length]
        if len(header) < length or length < 8:
            raise _broken("a header ends too soon")
        message = _Table(header, _number(header, 0, "<I", 4))
        kind, size = message.whole(1, "<B", 1), message.whole(3, "<q", 8)
        at += length
        if size < 0 or at + size > len(data):
            raise _broken("a part says that it is longer than what came")
        at += size
        table = message.table(2)
        if table is None or kind not in (_SCHEMA, _DICTIONARY, _RECORDS):
            raise _broken("a part is neither a schema nor rows")
        begun = begun or kind == _SCHEMA
        if kind != _SCHEMA:
            rows += _rows_of(table, kind)
            if rows > most:
                raise Refusal(413, f"the stream has more than {most} rows, the most taken at once.")
    if not begun:
        raise _broken("there is no schema")
    return rows


def _rows_of(table: _Table, kind: int) -> int:
    """The rows of a message; Refusal if it is compressed."""
    records = table.table(1) if kind == _DICTIONARY else table
    if records is None:
        raise _broken("a dictionary has no values")
    if records.place(3) is not None:
        raise Refusal(
            415, "the stream is compressed, and how long it is cannot be seen: send it plain."
        )
    rows = records.whole(0, "<q", 8)
    if rows < 0:
        raise _broken("a part has fewer than no rows")
    return rows


def _number(data: memoryview, at: int, form: str, size: int) -> int:
    if at < 0 or at + size > len(data):
        raise _broken("a header points outside itself")
    number: int = struct.unpack_from(form, data, at)[0]
    return number


def _signed(data: memoryview, at: int) -> int:
    return _number(data, at, "<i", 4)


def _broken(why: str) -> Refusal:
    return Refusal(400, f"the body is no Arrow stream: {why}.")
