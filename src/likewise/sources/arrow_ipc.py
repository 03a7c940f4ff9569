"""Reads an Arrow IPC stream from bytes that anybody may have sent, with NumPy alone.

A stream is a run of messages: four bytes FF, the length of a header, the header (a FlatBuffers
table), and a body as long as the header says. Plain columns are taken: numbers, text (also views
and dictionaries), true and false, times, dates, and lists of numbers that are equally long.

Invariant: every offset is checked before it is used, so that bytes which make no sense raise
BadArrow, and nothing else happens. Libraries that were tried abort the process at some of them.
Cost: numbers are not copied. A word of a dictionary is decoded once, however often it is used.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from likewise.tables.normalize import require_list

SCHEMA, DICTIONARY, RECORDS = 1, 2, 3
MOST_COLUMNS = 10_000
MOST_PARTS = 1 << 14
"""Dictionaries and batches of rows of one stream."""
MOST_WORDS = 1 << 20
"""Words of all dictionaries of one stream."""
_INT, _FLOAT, _TEXT, _BOOL, _DATE, _TIMESTAMP = 2, 3, 5, 6, 8, 10
_LIST, _FIXED_LIST, _LARGE_TEXT, _LARGE_LIST, _TEXT_VIEW = 12, 16, 20, 21, 24
_NAMES = {1: "null", 4: "binary", 7: "decimal", 9: "time", 13: "struct", 14: "union", 17: "map"}
_NAMES |= {11: "interval", 15: "binary", 18: "duration", 19: "binary", 23: "binary"}
_UNITS = ("s", "ms", "us", "ns")
_INLINE_BYTES = 12  # bytes of a text that stand in its view
_LONGEST_NAME = 1 << 12  # bytes; names of many columns may be one text of the header
Array = npt.NDArray[Any]


class BadArrow(ValueError):
    """Bytes are no Arrow stream, or one that is not taken.

    code: bad-arrow, too-large, compressed, or unexpected-type
    """

    def __init__(self, message: str, code: str = "bad-arrow") -> None:
        super().__init__(message)
        self.code = code


def _stream_error(why: str) -> BadArrow:
    return BadArrow(f"no Arrow stream: {why}.")


# FlatBuffers


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table of a FlatBuffers header: fields by number, each at an offset that its vtable has."""

    data: memoryview | bytes
    offset: int

    def _locate(self, number: int) -> int | None:
        """Where a field is; None if it has its default."""
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
            raise BadArrow(f"a name has more than {_LONGEST_NAME} bytes.", "too-large")
        return bytes(self.data[begin : begin + length]).decode()

    def tables(self, number: int, most: int) -> "list[FlatTable]":
        """A vector of tables, of which there are so many at most."""
        begin, length = self._locate_vector(number, 4)
        if length > most:
            raise BadArrow(
                f"the stream has {length} columns at one place; at most {most} are taken.",
                "too-large",
            )
        places = range(begin, begin + 4 * length, 4)
        return [FlatTable(self.data, _follow_offset(self.data, place)) for place in places]

    def pairs(self, number: int, width: int = 2) -> Array:
        """A vector of structs of so many 64-bit numbers."""
        begin, length = self._locate_vector(number, 8 * width)
        return np.frombuffer(self.data, "<i8", length * width, begin).reshape(length, width)

    def _locate_vector(self, number: int, size: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
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
    """What the header of a message says."""

    kind: int
    size: int
    """Bytes of the body behind it."""
    table: FlatTable


def read_header(data: memoryview | bytes) -> Header:
    """Read the header of a message; raise BadArrow if it makes no sense."""
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
    """A column as the schema describes it."""

    name: str
    kind: int
    type: FlatTable
    child: "_Field | None" = None
    dictionary: int | None = None
    index: FlatTable | None = None

    def type_error(self) -> BadArrow:
        kind = _NAMES.get(self.kind, "nested or unknown")
        return BadArrow(
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
    made = _Field(name, kind, type_, child)
    if encoding is not None:
        made = _Field(name, kind, type_, None, encoding.number(0, "<q"), encoding.table(1))
    if (kind not in _READERS) or (inside and (kind not in (_INT, _FLOAT) or encoding is not None)):
        raise made.type_error()
    if kind in (_LIST, _LARGE_LIST, _FIXED_LIST) and child is None:
        raise made.type_error()
    return made


@dataclass
class _BatchReader:
    """The nodes and buffers of a batch, taken in the order of the schema.

    Invariant: the buffers together are no longer than the body, though a header may place one in
    another: what is read of a batch has the size of its body.
    """

    length: int
    """Values of every column, which are counted before any is read."""
    body: memoryview
    nodes: Iterator[Any]
    buffers: Iterator[Any]
    views: Iterator[Any]
    most_text: int
    bytes_read: int = 0
    """Bytes of all buffers until now."""

    def read_node(self) -> tuple[int, Array | None]:
        """How many values a column has, and which are there; None if all are."""
        length, there = self.read_child()
        if length != self.length:
            raise _stream_error("a column is longer or shorter than its batch")
        return length, there

    def read_child(self) -> tuple[int, Array | None]:
        """How many values the lists of a column have together, and which are there."""
        length, nulls = (int(one) for one in next(self.nodes))
        if length < 0 or length > len(self.body) * 8:
            raise _stream_error("a column says that it is longer than what came")
        bits = self.read_buffer()
        if nulls == 0:
            return length, None
        return length, _unpack_bits(bits, length)

    def read_buffer(self) -> memoryview:
        offset, length = (int(one) for one in next(self.buffers))
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


def _mask_missing(values: list[Any], there: Array | None) -> list[Any]:
    if there is None:
        return values
    return [value if is_there else None for value, is_there in zip(values, there, strict=True)]


def _int_type(type_: FlatTable | None) -> str:
    """The dtype of whole numbers; int32 if an index has no type of its own."""
    if type_ is None:
        return "<i4"
    width, signed = type_.number(0, "<i"), type_.number(1, "<B")
    if width not in (8, 16, 32, 64):
        raise _stream_error("a whole number has an unknown size")
    return f"<{'i' if signed else 'u'}{width // 8}"


def _read_numbers(one: _Field, parts: _BatchReader) -> Any:
    return _read_values(one, parts, *parts.read_node())


def _read_values(one: _Field, parts: _BatchReader, length: int, there: Array | None) -> Any:
    if one.kind == _FLOAT:
        precision = one.type.number(0, "<h")
        if not 0 <= precision <= 2:
            raise _stream_error("a number has an unknown size")
        dtype = ("<f2", "<f4", "<f8")[precision]
    else:
        dtype = _int_type(one.type)
    numbers = parts.read_array(dtype, length)
    return numbers if there is None or there.all() else _mask_missing(numbers.tolist(), there)


def _read_flags(one: _Field, parts: _BatchReader) -> Any:
    length, there = parts.read_node()
    flags = _unpack_bits(parts.read_buffer(), length)
    return flags if there is None else _mask_missing(flags.tolist(), there)


def _read_times(one: _Field, parts: _BatchReader) -> Any:
    length, there = parts.read_node()
    zone = ""
    if one.kind == _DATE:
        days = one.type.number(0, "<h", 1) == 0
        unit, numbers = "D" if days else "ms", parts.read_array("<i4" if days else "<i8", length)
    else:
        number = one.type.number(0, "<h")
        if not 0 <= number <= 3:
            raise _stream_error("a time has an unknown unit")
        unit, numbers, zone = _UNITS[number], parts.read_array("<i8", length), one.type.text(1)
    moments = numbers.astype("<i8").view(f"<M8[{unit}]")
    coarse = moments.astype("<M8[D]" if one.kind == _DATE else "<M8[us]")
    same = coarse.astype(moments.dtype) == moments
    if there is not None:
        same |= ~there
    values = _mask_missing(coarse.tolist(), there)
    if not same.all() or not all(value is None or hasattr(value, "year") for value in values):
        raise BadArrow(
            f"the column {one.name!r} cannot be read: it has a time beyond the years 1 to 9999, or"
            " finer than microseconds.",
            "unexpected-type",
        )
    return [_to_zone(one.name, value, zone) for value in values] if zone else values


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
            raise BadArrow(f"{name!r}: {zone[:60]!r} is no time zone.", "unexpected-type") from None
    try:
        return value.astimezone(place)
    except (OverflowError, ValueError):
        return value


def _open_texts(one: _Field, parts: _BatchReader) -> tuple[int, Array | None, Callable[[int], str]]:
    """How many texts there are, which of them, and what reads one."""
    length, there = parts.read_node()
    if one.kind == _TEXT_VIEW:
        return length, there, _view_reader(parts, length)
    dtype = "<i8" if one.kind == _LARGE_TEXT else "<i4"
    offsets = parts.read_array(dtype, length + 1) if length else np.zeros(1, dtype)
    if not length:
        parts.read_buffer()
    data = bytes(parts.read_buffer())
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] > len(data):
        raise _stream_error("the offsets of a text make no sense")
    places: list[int] = offsets.tolist()
    return length, there, lambda i: data[places[i] : places[i + 1]].decode()


def _view_reader(parts: _BatchReader, length: int) -> Callable[[int], str]:
    views = parts.read_array("<i4", 4 * length).reshape(length, 4)
    data = [parts.read_buffer() for _ in range(int(next(parts.views)[0]))]
    sizes = views[:, 0]
    if (sizes < 0).any():
        raise _stream_error("a text has fewer than no bytes")
    if int(sizes.sum(dtype=np.int64)) > parts.most_text:
        raise BadArrow("the texts of a column are longer together than is taken.", "too-large")

    def text(i: int) -> str:
        size, _, which, begin = views[i].tolist()
        if size <= _INLINE_BYTES:
            return bytes(views[i])[4 : 4 + size].decode()
        if not 0 <= which < len(data) or not 0 <= begin <= len(data[which]) - size:
            raise _stream_error("a text lies outside of its buffers")
        return bytes(data[which][begin : begin + size]).decode()

    return text


def _read_texts(one: _Field, parts: _BatchReader) -> Any:
    length, there, text = _open_texts(one, parts)
    rows = range(length)
    if there is None:
        return [text(i) for i in rows]
    return [text(i) if is_there else None for i, is_there in zip(rows, there, strict=True)]


def _read_lists(one: _Field, parts: _BatchReader) -> Any:
    """Lists of one length, as a matrix."""
    assert one.child is not None
    length, there = parts.read_node()
    width, begin = 0, 0
    if one.kind == _FIXED_LIST:
        width = one.type.number(0, "<i")
    elif length:
        offsets = parts.read_array("<i8" if one.kind == _LARGE_LIST else "<i4", length + 1)
        widths, begin = np.diff(offsets), int(offsets[0])
        width = int(widths[0])
        if (widths != width).any():
            raise BadArrow(f"the lists of {one.name!r} are not equally long.", "unexpected-type")
    else:
        parts.read_buffer()
    values = _read_values(one.child, parts, *parts.read_child())
    if isinstance(values, list) or (there is not None and not there.all()):
        raise BadArrow(f"the column {one.name!r} has places without a value.", "unexpected-type")
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
    """Words by number, each decoded when it is first used."""

    count: int
    there: Array | None
    read: Callable[[int], Any]
    words: dict[int, Any] = field(default_factory=dict)

    def word(self, i: int) -> Any:
        if i not in self.words:
            self.words[i] = self.read(i) if self.there is None or self.there[i] else None
        return self.words[i]


class _StreamReader:
    """The columns of a stream, batch by batch."""

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
            parts = self._open_batch(header.table, body)
            self.rows += parts.length
            if self.rows > self._most:
                raise BadArrow(
                    f"the stream has more than {self._most} rows, the most taken at once.",
                    "too-large",
                )
            self.batches.append([self._read_column(one, parts) for one in self.fields])

    def _take_schema(self, table: FlatTable) -> None:
        if table.number(0, "<h") != 0:
            raise BadArrow("the stream is big-endian: send it little-endian.", "unexpected-type")
        fields = table.tables(1, MOST_COLUMNS)
        self.fields = [_read_field(one) for one in fields]
        if len({one.name for one in self.fields}) < len(fields):
            raise _stream_error("two columns have the same name")

    def _open_batch(self, table: FlatTable, body: memoryview) -> _BatchReader:
        if table.table(3) is not None:
            raise BadArrow(
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
        one = next((one for one in self.fields or () if one.dictionary == number), None)
        if one is None or records is None:
            raise _stream_error("a dictionary belongs to no column, or has no values")
        if table.number(2, "<B"):
            raise BadArrow(
                "the stream adds words to a dictionary: send whole dictionaries.", "unexpected-type"
            )
        parts = self._open_batch(records, body)
        self.words += parts.length
        if self.words > MOST_WORDS:
            raise BadArrow(
                f"the dictionaries of the stream have more than {MOST_WORDS} words.", "too-large"
            )
        if one.kind in (_TEXT, _LARGE_TEXT, _TEXT_VIEW):
            self._dictionaries[number] = _Dictionary(*_open_texts(one, parts))
            return
        values = _READERS[one.kind](one, parts)
        values = require_list(values)
        self._dictionaries[number] = _Dictionary(len(values), None, values.__getitem__)

    def _read_column(self, one: _Field, parts: _BatchReader) -> Any:
        if one.dictionary is None:
            return _READERS[one.kind](one, parts)
        length, there = parts.read_node()
        numbers = parts.read_array(_int_type(one.index), length).tolist()
        words = self._dictionaries.get(one.dictionary)
        used = (
            [i for i in numbers if i is not None]
            if there is None
            else _select_present(numbers, there)
        )
        if words is None or (used and not 0 <= min(used) <= max(used) < words.count):
            raise _stream_error("a dictionary has no such word")
        if there is None:
            return [words.word(i) for i in numbers]
        pairs = zip(numbers, there, strict=True)
        return [words.word(i) if is_there else None for i, is_there in pairs]


def _select_present(values: list[Any], there: Array) -> list[Any]:
    return [value for value, is_there in zip(values, there, strict=True) if is_there]


def read_columns(body: bytes, most: int) -> dict[str, Any]:
    """The columns of a stream by name: arrays of numbers, matrices, or lists with None for gaps.

    most: rows that are taken
    """
    stream = _StreamReader(most, 4 * len(body) + (1 << 20))
    try:
        for number, (header, part) in enumerate(_read_messages(memoryview(body))):
            if number > MOST_PARTS:
                raise BadArrow(f"the stream has more than {MOST_PARTS} parts.", "too-large")
            stream.take(header, part)
    except UnicodeDecodeError:
        raise _stream_error("a text is not UTF-8") from None
    except (StopIteration, struct.error, IndexError, OverflowError, ValueError) as error:
        if isinstance(error, BadArrow):
            raise
        raise _stream_error("a part makes no sense") from None
    if stream.fields is None:
        raise _stream_error("there is no schema")
    names = [one.name for one in stream.fields]
    if not stream.batches:
        return {name: np.empty(0) for name in names}
    columns = zip(*stream.batches, strict=True)
    return {name: _join_batches(name, parts) for name, parts in zip(names, columns, strict=True)}


def _join_batches(name: str, parts: tuple[Any, ...]) -> Any:
    """A column of all batches."""
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, list) for part in parts):
        return [value for part in parts for value in require_list(part)]
    if len({part.shape[1:] for part in parts if len(part)}) > 1:
        raise BadArrow(f"the lists of {name!r} are not equally long.", "unexpected-type")
    filled = [part for part in parts if len(part)]
    return np.concatenate(filled) if filled else parts[0]
