"""Reads an Arrow IPC stream from untrusted bytes, with NumPy alone.

A message is four bytes FF, the length of a header, the header (a FlatBuffers table), and a body.
Columns are numbers, text (also views and dictionaries), flags, times, dates, or lists of numbers of
one length. Invariant: every offset is checked before it is used, so that bytes which make no sense
raise BadRecord; libraries that were tried abort the process at some of them.
Cost: numbers are not copied. A word of a dictionary is decoded once, however often it is used.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import compress
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from likewise.sources.protocol import BadRecord
from likewise.tables.normalize import require_list

SCHEMA, DICTIONARY, RECORDS = 1, 2, 3
MOST_COLUMNS = 10_000
MOST_PARTS = 1 << 14
"""How many dictionaries and batches of rows one stream may have."""
MOST_WORDS = 1 << 20
"""How many words all dictionaries of one stream may have."""
_INT, _FLOAT, _TEXT, _BOOL, _DATE, _TIMESTAMP = 2, 3, 5, 6, 8, 10
_LIST, _FIXED_LIST, _LARGE_TEXT, _LARGE_LIST, _TEXT_VIEW = 12, 16, 20, 21, 24
_NAMES = {1: "null", 4: "binary", 7: "decimal", 9: "time", 13: "struct", 14: "union", 17: "map"}
_NAMES |= {11: "interval", 15: "binary", 18: "duration", 19: "binary", 23: "binary"}
_UNITS = ("s", "ms", "us", "ns")
_INLINE_BYTES = 12  # bytes of a text that stand in its view
_LONGEST_NAME = 1 << 12  # bytes; names of many columns may be one text of the header
Array = npt.NDArray[Any]


# Codes of errors: bad-arrow, too-large, compressed, unexpected-type


def _stream_error(why: str) -> BadRecord:
    return BadRecord(f"no Arrow stream: {why}.", "bad-arrow")


# FlatBuffers


@dataclass(frozen=True, slots=True)
class FlatTable:
    """Reads a table of a FlatBuffers header: fields by number, at the offsets of its vtable."""

    data: memoryview | bytes
    offset: int

    def _locate(self, number: int) -> int | None:
        """Return where a field is; None if it has its default."""
        vtable = self.offset - _read_number(self.data, self.offset, "<i")
        slot = 4 + 2 * number
        if slot + 2 > _read_number(self.data, vtable, "<H"):
            return None
        offset = _read_number(self.data, vtable + slot, "<H")
        return self.offset + offset if offset else None

    def number(self, number: int, form: str, default: int = 0) -> int:
        place = self._locate(number)
        return default if place is None else _read_number(self.data, place, form)

    def table(self, number: int) -> "FlatTable | None":
        place = self._locate(number)
        return None if place is None else FlatTable(self.data, _follow_offset(self.data, place))

    def text(self, number: int) -> str:
        begin, length = self._locate_vector(number, 1)
        if length > _LONGEST_NAME:
            raise BadRecord(f"a name has more than {_LONGEST_NAME} bytes.", "too-large")
        return bytes(self.data[begin : begin + length]).decode()

    def tables(self, number: int, most: int) -> "list[FlatTable]":
        """Return a vector of at most `most` tables."""
        begin, length = self._locate_vector(number, 4)
        if length > most:
            raise BadRecord(
                f"the stream has {length} columns at one place; at most {most} are taken.",
                "too-large",
            )
        places = range(begin, begin + 4 * length, 4)
        return [FlatTable(self.data, _follow_offset(self.data, place)) for place in places]

    def pairs(self, number: int, width: int = 2) -> Array:
        """Return a vector of structs of `width` 64-bit numbers."""
        begin, length = self._locate_vector(number, 8 * width)
        return np.frombuffer(self.data, "<i8", length * width, begin).reshape(length, width)

    def _locate_vector(self, number: int, size: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many there are."""
        place = self._locate(number)
        if place is None:
            return 0, 0
        at = _follow_offset(self.data, place)
        length = _read_number(self.data, at, "<I")
        if length * size > len(self.data) - at - 4:
            raise _stream_error("a header points outside itself")
        return at + 4, length


def _read_number(data: memoryview | bytes, at: int, form: str) -> int:
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise _stream_error("a header points outside itself")
    number: int = struct.unpack_from(form, data, at)[0]
    return number


def _follow_offset(data: memoryview | bytes, place: int) -> int:
    return place + _read_number(data, place, "<I")


class Header(NamedTuple):
    """Holds the header of a message."""

    kind: int
    size: int
    """How many bytes the body behind it has."""
    table: FlatTable


def read_header(data: memoryview | bytes) -> Header:
    """Read the header of a message; raise BadRecord if it makes no sense."""
    message = FlatTable(data, _read_number(data, 0, "<I"))
    size, table = message.number(3, "<q"), message.table(2)
    if size < 0 or table is None:
        raise _stream_error("a header makes no sense")
    return Header(message.number(1, "<B"), size, table)


def _read_messages(data: memoryview) -> Iterator[tuple[Header, memoryview]]:
    at = 0
    while at + 4 <= len(data):
        length = _read_number(data, at, "<I")
        at += 4
        if length == 0xFFFFFFFF:
            length = _read_number(data, at, "<I")
            at += 4
        if length == 0:
            return
        if at + length > len(data):
            raise _stream_error("a header ends too soon")
        header = read_header(data[at : at + length])
        at += length
        if at + header.size > len(data):
            raise _stream_error("a part says that it is longer than what came")
        yield header, data[at : at + header.size]
        at += header.size


# Columns


@dataclass(frozen=True)
class _Field:
    """Describes a column, as the schema does."""

    name: str
    kind: int
    type: FlatTable
    child: "_Field | None" = None
    dictionary: int | None = None
    index: FlatTable | None = None

    def type_error(self) -> BadRecord:
        kind = _NAMES.get(self.kind, "nested or unknown")
        return BadRecord(
            f"the column {self.name!r} is of type {kind}; expected numbers, text, true or false,"
            " times, or lists of numbers.",
            "unexpected-type",
        )


def _read_field(table: FlatTable, *, inside: bool = False) -> _Field:
    name, kind, type_ = table.text(0), table.number(2, "<B"), table.table(3)
    if type_ is None:
        raise _stream_error("a column has no type")
    encoding, child = table.table(4), None
    if kind in (_LIST, _LARGE_LIST, _FIXED_LIST):
        children = [] if inside or encoding is not None else table.tables(5, 1)
        child = _read_field(children[0], inside=True) if len(children) == 1 else None
    column = _Field(name, kind, type_, child)
    if encoding is not None:
        column = _Field(name, kind, type_, None, encoding.number(0, "<q"), encoding.table(1))
    if (kind not in _READERS) or (inside and (kind not in (_INT, _FLOAT) or encoding is not None)):
        raise column.type_error()
    if kind in (_LIST, _LARGE_LIST, _FIXED_LIST) and child is None:
        raise column.type_error()
    return column


@dataclass
class _BatchReader:
    """Reads the nodes and buffers of a batch, in the order of the schema.

    Invariant: the buffers together are no longer than the body, though a header may place one in
    another, so no more is read of a batch than its body has.
    """

    length: int
    """How many values every column has; counted before any is read."""
    body: memoryview
    nodes: Iterator[Any]
    buffers: Iterator[Any]
    views: Iterator[Any]
    most_text: int
    bytes_read: int = 0
    """How many bytes all buffers had so far."""

    def read_node(self) -> tuple[int, Array | None]:
        """Return how many values a column has, and which are present; None if all are."""
        length, present = self.read_child()
        if length != self.length:
            raise _stream_error("a column is longer or shorter than its batch")
        return length, present

    def read_child(self) -> tuple[int, Array | None]:
        """Return how many values the lists of a column have together, and which are present."""
        length, nulls = map(int, next(self.nodes))
        if length < 0 or length > len(self.body) * 8:
            raise _stream_error("a column says that it is longer than what came")
        bits = self.read_buffer()
        if nulls == 0:
            return length, None
        return length, _unpack_bits(bits, length)

    def read_buffer(self) -> memoryview:
        offset, length = map(int, next(self.buffers))
        if offset < 0 or length < 0 or offset + length > len(self.body):
            raise _stream_error("a buffer lies outside of its part")
        self.bytes_read += length
        if self.bytes_read > len(self.body):
            raise _stream_error("the buffers are longer together than their part")
        return self.body[offset : offset + length]

    def read_array(self, dtype: Any, length: int) -> Array:
        data = self.read_buffer()
        if length * np.dtype(dtype).itemsize > len(data):
            raise _stream_error("a buffer is shorter than its column")
        return np.frombuffer(data, dtype, length)


def _unpack_bits(data: memoryview, length: int) -> Array:
    if length > 8 * len(data):
        raise _stream_error("a buffer is shorter than its column")
    bits = np.frombuffer(data, np.uint8, (length + 7) // 8)
    return np.unpackbits(bits, count=length, bitorder="little").astype(np.bool_)


def _mask_missing(values: list[Any], present: Array | None) -> list[Any]:
    if present is None:
        return values
    pairs = zip(values, present, strict=True)
    return [value if is_present else None for value, is_present in pairs]


def _read_present(
    numbers: Iterable[int], present: Array | None, read: Callable[[int], Any]
) -> list[Any]:
    """Read the values with these numbers; None where they are not present."""
    if present is None:
        return [read(number) for number in numbers]
    pairs = zip(numbers, present, strict=True)
    return [read(number) if is_present else None for number, is_present in pairs]


def _int_type(type_: FlatTable | None) -> str:
    """Return the dtype of whole numbers; int32 if an index has no type of its own."""
    if type_ is None:
        return "<i4"
    width, signed = type_.number(0, "<i"), type_.number(1, "<B")
    if width not in (8, 16, 32, 64):
        raise _stream_error("a whole number has an unknown size")
    return f"<{'i' if signed else 'u'}{width // 8}"


def _read_numbers(column: _Field, batch: _BatchReader) -> Any:
    return _read_values(column, batch, *batch.read_node())


def _read_values(column: _Field, batch: _BatchReader, length: int, present: Array | None) -> Any:
    if column.kind == _FLOAT:
        precision = column.type.number(0, "<h")
        if not 0 <= precision <= 2:
            raise _stream_error("a number has an unknown size")
        dtype = ("<f2", "<f4", "<f8")[precision]
    else:
        dtype = _int_type(column.type)
    numbers = batch.read_array(dtype, length)
    return numbers if present is None or present.all() else _mask_missing(numbers.tolist(), present)


def _read_flags(column: _Field, batch: _BatchReader) -> Any:
    length, present = batch.read_node()
    flags = _unpack_bits(batch.read_buffer(), length)
    return flags if present is None else _mask_missing(flags.tolist(), present)


def _read_times(column: _Field, batch: _BatchReader) -> Any:
    length, present = batch.read_node()
    zone = ""
    if column.kind == _DATE:
        days = column.type.number(0, "<h", 1) == 0
        unit, numbers = "D" if days else "ms", batch.read_array("<i4" if days else "<i8", length)
    else:
        number = column.type.number(0, "<h")
        if not 0 <= number <= 3:
            raise _stream_error("a time has an unknown unit")
        unit, numbers, zone = _UNITS[number], batch.read_array("<i8", length), column.type.text(1)
    moments = numbers.astype("<i8").view(f"<M8[{unit}]")
    coarse = moments.astype("<M8[D]" if column.kind == _DATE else "<M8[us]")
    same = coarse.astype(moments.dtype) == moments
    if present is not None:
        same |= ~present
    values = _mask_missing(coarse.tolist(), present)
    if not same.all() or not all(value is None or hasattr(value, "year") for value in values):
        raise BadRecord(
            f"the column {column.name!r} cannot be read: it has a time beyond the years 1 to 9999,"
            " or finer than microseconds.",
            "unexpected-type",
        )
    return [_to_zone(column.name, value, zone) for value in values] if zone else values


def _to_zone(name: str, value: datetime | None, zone: str) -> datetime | None:
    if value is None:
        return None
    value = value.replace(tzinfo=UTC)
    try:
        place = datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo
    except ValueError:
        try:
            place = UTC if zone == "UTC" else ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise BadRecord(
                f"{name!r}: {zone[:60]!r} is no time zone.", "unexpected-type"
            ) from None
    try:
        return value.astimezone(place)
    except (OverflowError, ValueError):
        return value


def _open_texts(
    column: _Field, batch: _BatchReader
) -> tuple[int, Array | None, Callable[[int], str]]:
    """Return how many texts there are, which are present, and what reads one."""
    length, present = batch.read_node()
    if column.kind == _TEXT_VIEW:
        return length, present, _view_reader(batch, length)
    dtype = "<i8" if column.kind == _LARGE_TEXT else "<i4"
    offsets = batch.read_array(dtype, length + 1) if length else np.zeros(1, dtype)
    if not length:
        batch.read_buffer()
    data = bytes(batch.read_buffer())
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] > len(data):
        raise _stream_error("the offsets of a text make no sense")
    places: list[int] = offsets.tolist()
    return length, present, lambda i: data[places[i] : places[i + 1]].decode()


def _view_reader(batch: _BatchReader, length: int) -> Callable[[int], str]:
    views = batch.read_array("<i4", 4 * length).reshape(length, 4)
    data = [batch.read_buffer() for _ in range(int(next(batch.views)[0]))]
    sizes = views[:, 0]
    if (sizes < 0).any():
        raise _stream_error("a text has fewer than no bytes")
    if int(sizes.sum(dtype=np.int64)) > batch.most_text:
        raise BadRecord("the texts of a column are longer together than is taken.", "too-large")

    def text(i: int) -> str:
        size, _, which, begin = views[i].tolist()
        if size <= _INLINE_BYTES:
            return bytes(views[i])[4 : 4 + size].decode()
        if not 0 <= which < len(data) or not 0 <= begin <= len(data[which]) - size:
            raise _stream_error("a text lies outside of its buffers")
        return bytes(data[which][begin : begin + size]).decode()

    return text


def _read_texts(column: _Field, batch: _BatchReader) -> Any:
    length, present, text = _open_texts(column, batch)
    return _read_present(range(length), present, text)


def _read_lists(column: _Field, batch: _BatchReader) -> Any:
    """Read lists of one length, as a matrix."""
    assert column.child is not None
    length, present = batch.read_node()
    width, begin = 0, 0
    if column.kind == _FIXED_LIST:
        width = column.type.number(0, "<i")
    elif length:
        offsets = batch.read_array("<i8" if column.kind == _LARGE_LIST else "<i4", length + 1)
        widths, begin = np.diff(offsets), int(offsets[0])
        width = int(widths[0])
        if (widths != width).any():
            raise BadRecord(
                f"the lists of {column.name!r} are not equally long.", "unexpected-type"
            )
    else:
        batch.read_buffer()
    values = _read_values(column.child, batch, *batch.read_child())
    if isinstance(values, list) or (present is not None and not present.all()):
        raise BadRecord(
            f"the column {column.name!r} has places without a value.", "unexpected-type"
        )
    if width < 0 or begin < 0 or begin + width * length > len(values):
        raise _stream_error("a list lies outside of its values")
    return values[begin : begin + width * length].reshape(length, width)


_READERS: dict[int, Callable[[_Field, _BatchReader], Any]] = {
    **dict.fromkeys((_INT, _FLOAT), _read_numbers),
    **dict.fromkeys((_DATE, _TIMESTAMP), _read_times),
    **dict.fromkeys((_TEXT, _LARGE_TEXT, _TEXT_VIEW), _read_texts),
    **dict.fromkeys((_LIST, _LARGE_LIST, _FIXED_LIST), _read_lists),
    _BOOL: _read_flags,
}


@dataclass
class _Dictionary:
    """Holds words by number, each decoded when it is first used."""

    count: int
    present: Array | None
    read: Callable[[int], Any]
    words: dict[int, Any] = field(default_factory=dict)

    def word(self, i: int) -> Any:
        if i not in self.words:
            self.words[i] = self.read(i) if self.present is None or self.present[i] else None
        return self.words[i]


class _StreamReader:
    """Reads the columns of a stream, batch by batch."""

    def __init__(self, most: int, most_text: int) -> None:
        self._most, self._most_text = most, most_text
        self.fields: list[_Field] | None = None
        self.rows = self.words = 0
        self._dictionaries: dict[int, _Dictionary] = {}
        self.batches: list[list[Any]] = []

    def take(self, header: Header, body: memoryview) -> None:
        if header.kind == SCHEMA and self.fields is None:
            self._take_schema(header.table)
        elif self.fields is None or header.kind not in (DICTIONARY, RECORDS):
            raise _stream_error("a part is neither a schema nor rows")
        elif header.kind == DICTIONARY:
            self._take_dictionary(header.table, body)
        else:
            batch = self._open_batch(header.table, body)
            self.rows += batch.length
            if self.rows > self._most:
                raise BadRecord(
                    f"the stream has more than {self._most} rows, the most taken at once.",
                    "too-large",
                )
            self.batches.append([self._read_column(column, batch) for column in self.fields])

    def _take_schema(self, table: FlatTable) -> None:
        if table.number(0, "<h") != 0:
            raise BadRecord("the stream is big-endian: send it little-endian.", "unexpected-type")
        fields = table.tables(1, MOST_COLUMNS)
        self.fields = [_read_field(column) for column in fields]
        if len({column.name for column in self.fields}) < len(fields):
            raise _stream_error("two columns have the same name")

    def _open_batch(self, table: FlatTable, body: memoryview) -> _BatchReader:
        if table.table(3) is not None:
            raise BadRecord(
                "the stream is compressed, and how long it is cannot be seen: send it plain.",
                "compressed",
            )
        length = table.number(0, "<q")
        if length < 0:
            raise _stream_error("a part has fewer than no rows")
        nodes, buffers, views = (table.pairs(1), table.pairs(2), table.pairs(4, 1))
        return _BatchReader(length, body, iter(nodes), iter(buffers), iter(views), self._most_text)

    def _take_dictionary(self, table: FlatTable, body: memoryview) -> None:
        number, records = table.number(0, "<q"), table.table(1)
        columns = (field for field in self.fields or () if field.dictionary == number)
        column = next(columns, None)
        if column is None or records is None:
            raise _stream_error("a dictionary belongs to no column, or has no values")
        if table.number(2, "<B"):
            raise BadRecord(
                "the stream adds words to a dictionary: send whole dictionaries.", "unexpected-type"
            )
        batch = self._open_batch(records, body)
        self.words += batch.length
        if self.words > MOST_WORDS:
            raise BadRecord(
                f"the dictionaries of the stream have more than {MOST_WORDS} words.", "too-large"
            )
        if column.kind in (_TEXT, _LARGE_TEXT, _TEXT_VIEW):
            self._dictionaries[number] = _Dictionary(*_open_texts(column, batch))
            return
        values = require_list(_READERS[column.kind](column, batch))
        self._dictionaries[number] = _Dictionary(len(values), None, values.__getitem__)

    def _read_column(self, column: _Field, batch: _BatchReader) -> Any:
        if column.dictionary is None:
            return _READERS[column.kind](column, batch)
        length, present = batch.read_node()
        numbers = batch.read_array(_int_type(column.index), length).tolist()
        words = self._dictionaries.get(column.dictionary)
        used = numbers if present is None else list(compress(numbers, present))
        if words is None or (used and not 0 <= min(used) <= max(used) < words.count):
            raise _stream_error("a dictionary has no such word")
        return _read_present(numbers, present, words.word)


def read_columns(body: bytes, most: int) -> dict[str, Any]:
    """Return the columns of a stream: arrays of numbers, matrices, or lists with None for gaps.

    most    how many rows are taken
    """
    stream = _StreamReader(most, 4 * len(body) + (1 << 20))
    try:
        for number, (header, part) in enumerate(_read_messages(memoryview(body))):
            if number > MOST_PARTS:
                raise BadRecord(f"the stream has more than {MOST_PARTS} parts.", "too-large")
            stream.take(header, part)
    except UnicodeDecodeError:
        raise _stream_error("a text is not UTF-8") from None
    except (StopIteration, struct.error, IndexError, OverflowError, ValueError) as error:
        if isinstance(error, BadRecord):
            raise
        raise _stream_error("a part makes no sense") from None
    if stream.fields is None:
        raise _stream_error("there is no schema")
    names = [column.name for column in stream.fields]
    if not stream.batches:
        return {name: np.empty(0) for name in names}
    columns = zip(*stream.batches, strict=True)
    return {name: _join_batches(name, parts) for name, parts in zip(names, columns, strict=True)}


def _join_batches(name: str, parts: tuple[Any, ...]) -> Any:
    """Join the parts of a column from all batches."""
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, list) for part in parts):
        return [value for part in parts for value in require_list(part)]
    if len({part.shape[1:] for part in parts if len(part)}) > 1:
        raise BadRecord(f"the lists of {name!r} are not equally long.", "unexpected-type")
    filled = [part for part in parts if len(part)]
    return np.concatenate(filled) if filled else parts[0]
