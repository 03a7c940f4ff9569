"""Decodes messages: a JSON object, an Arrow stream of record batches, or a CloudEvent with either.

A CloudEvent is in structured mode (JSON with `data`) or in binary mode (attributes in headers).
Unless the address says a format, the first bytes and the headers do.
Invariant: what cannot be read is a `BadRecord` that says why, whatever the body holds.
Cost: JSON objects with the names of the first one of their batch take a fifth of the time of others
(`FlatObjectDecoder`). At most MOST_ROWS decisions are held together.
"""

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import numpy as np

from likewise.sources.arrow_ipc import read_columns
from likewise.sources.byte_streams import LONGEST
from likewise.sources.json_lines import check_plain_object, parse_json
from likewise.sources.judge_messages import Message, Messages
from likewise.sources.protocol import BadRecord, Record
from likewise.tables.frames import ColumnTable
from likewise.tables.normalize import require_list

Row: TypeAlias = tuple[Any, ...]
_NUMBER = int | float | None
_PLAIN = str | int | float | bool | None
_MOST_NAMES = 1000
_ESCAPED = re.compile(r'[\x00-\x1f"\\]')  # characters that no name of a decoder may have
_UNREADABLE = (msgspec.MsgspecError, ValueError)
_body = attrgetter("body")
_headers = attrgetter("headers")
_flaw = attrgetter("flaw")
_values = msgspec.structs.astuple


class FlatObjectDecoder:
    """Decodes objects that have exactly these names.

    numbers     names of columns that hold numbers; an object with anything else there is left alone
    """

    def __init__(self, names: Iterable[str], numbers: Collection[str]) -> None:
        self.names = tuple(names)
        self.numbers = tuple(numbers)
        self._decode = None
        if 0 < len(self.names) <= _MOST_NAMES and not any(map(_ESCAPED.search, self.names)):
            fields = {f"_{j}": name for j, name in enumerate(self.names)}
            kinds = [(field, _NUMBER if fields[field] in numbers else _PLAIN) for field in fields]
            struct = msgspec.defstruct(
                "PlainObject", kinds, rename=fields, forbid_unknown_fields=True, gc=False
            )
            self._decode = msgspec.json.Decoder(struct).decode

    def decode_rows(self, records: Sequence[Record]) -> list[Row | None]:
        """Return the values of each record, in the order of the names; None to decode it slowly."""
        if self._decode is None:
            return [None] * len(records)
        try:
            rows: list[Row | None] = list(map(_values, map(self._decode, map(_body, records))))
        except _UNREADABLE:
            rows = [None]
        if None in rows or not self._is_unambiguous(records):
            return [self._decode_row(record) for record in records]
        return rows

    def _decode_row(self, record: Record) -> Row | None:
        assert self._decode is not None
        try:
            row: Row = _values(self._decode(record.body))
        except _UNREADABLE:
            return None
        return row if self._is_unambiguous([record]) else None

    def _is_unambiguous(self, records: Sequence[Record]) -> bool:
        """Tell whether any other reader would read the same values from decoded bodies.

        Each has every name, and a colon follows a name: with as many colons as names in all of
        them, none is there twice. Half a character can only be written as an escape.
        """
        bodies = list(map(_body, records))
        joined = b"".join(bodies)
        return (
            joined.count(b":") == len(bodies) * len(self.names)
            and b"\\ud" not in joined
            and b"\\uD" not in joined
            and not any(map(_headers, records))
            and not any(map(_flaw, records))
            and max(map(len, bodies), default=0) <= LONGEST
        )


MOST_ROWS = 1 << 15
"""How many decisions a message may have: no more than a ledger writes as one transaction."""
_ARROW = b"\xff\xff\xff\xff"
_ARROW_TYPE = "application/vnd.apache.arrow.stream"
_EVENT_TYPE = "application/cloudevents+json"
_ATTRIBUTES = ("specversion", "id", "source", "type")


@dataclass(frozen=True, slots=True)
class UndecodedRecord:
    """Holds a record that cannot be decoded, and why."""

    record: Record
    why: str
    code: str


class Decoder:
    """Decodes the records of a source, poll by poll.

    format    json, arrow, cloudevents, or auto
    in_order  whether undecoded records come in their place; else they come first, so that they do
              not split what can be judged together
    """

    def __init__(self, format: str, *, in_order: bool = False) -> None:
        self._format = format
        self._in_order = in_order
        self._objects = FlatObjectDecoder((), ())

    def decode(
        self, records: Sequence[Record], numbers: Collection[str]
    ) -> Iterator[Messages | UndecodedRecord]:
        """Yield the messages of records, MOST_ROWS decisions at a time, and undecoded records.

        numbers     names of columns that hold numbers, in which true is not one
        """
        self._choose_names(records, numbers)
        objects = self._objects
        rows = objects.decode_rows(records)
        decoded = [row for row in rows if row is not None]
        if len(decoded) == len(records) and 0 < len(decoded) <= MOST_ROWS:
            yield Messages(records, _table(objects.names, decoded))
            return
        batch = _MessageBatch(objects)
        for record, row in zip(records, rows, strict=True):
            if row is not None:
                batch.add(record, [row])
                continue
            try:
                message = decode_message(record, self._format, numbers)
            except BadRecord as error:
                if self._in_order and batch.rows:
                    yield batch.messages()
                    batch = _MessageBatch(objects)
                yield UndecodedRecord(record, str(error), error.code)
                continue
            if len(batch.rows) + len(message.rows) > MOST_ROWS:
                yield batch.messages()
                batch = _MessageBatch(objects)
            if message.rows:
                batch.add(record, message.rows)
        if batch.rows:
            yield batch.messages()

    def _choose_names(self, records: Sequence[Record], numbers: Collection[str]) -> None:
        """Have `_objects` decode the names of the first record, if that is an object."""
        if not records or self._format not in ("auto", "json"):
            return
        if self._objects.numbers != tuple(numbers):
            self._objects = FlatObjectDecoder(self._objects.names, numbers)
        if self._objects.decode_rows(records[:1]) != [None]:
            return
        try:
            (first,) = decode_message(records[0], self._format, numbers).rows
        except ValueError:  # BadRecord, or several rows
            return
        event = self._format == "auto" and "specversion" in first
        if first.keys() != set(self._objects.names):
            self._objects = FlatObjectDecoder(() if event else first, numbers)


class _MessageBatch:
    """Gathers messages that are to be judged together."""

    def __init__(self, objects: FlatObjectDecoder) -> None:
        self._names = objects.names
        self._name_set = set(objects.names)
        self._records: list[Record] = []
        self._counts: list[int] = []
        self._same_names = bool(objects.names)  # whether each is one row with these names
        self.rows: list[Row | dict[str, Any]] = []

    def add(self, record: Record, rows: Sequence[Row | dict[str, Any]]) -> None:
        self._records.append(record)
        self._counts.append(len(rows))
        self.rows += rows
        if type(rows[0]) is dict:
            is_same = len(rows) == 1 and rows[0].keys() == self._name_set
            self._same_names = self._same_names and is_same

    def messages(self) -> Messages:
        names = self._names
        if not self._same_names:
            table = [
                row if isinstance(row, dict) else dict(zip(names, row, strict=True))
                for row in self.rows
            ]
            single = len(table) == len(self._records)
            return Messages(self._records, table, None if single else self._counts)
        rows = [tuple(map(row.get, names)) if isinstance(row, dict) else row for row in self.rows]
        return Messages(self._records, _table(names, rows))


def _table(names: Sequence[str], rows: Iterable[Row]) -> ColumnTable:
    columns = map(list, zip(*rows, strict=True))
    return ColumnTable(dict(zip(names, columns, strict=True)))


def decode_message(record: Record, format: str, numbers: Collection[str] = ()) -> Message:
    """Decode the decisions of a record; raise BadRecord.

    format   json, arrow, cloudevents, or auto
    numbers  names of columns that hold numbers, in which true is not one
    """
    if record.flaw is not None:
        raise BadRecord(record.flaw, record.flaw_code)
    if len(record.body) > LONGEST:
        raise BadRecord(
            f"the body is longer than {LONGEST >> 20} MB, which no decision is", "too-long"
        )
    try:
        return Message(record, _decode_body(record.body, record.headers, format, numbers))
    except BadRecord:
        raise
    except ValueError as error:
        raise BadRecord(str(error)) from None


def _decode_body(
    body: bytes, headers: Mapping[str, str], format: str, numbers: Collection[str]
) -> list[dict[str, Any]]:
    kind = _media_type(headers.get("content-type")) if headers else ""
    events = format in ("auto", "cloudevents")
    attributes = headers and any(name[:3] in ("ce_", "ce-") for name in headers)
    if events and attributes and kind != _EVENT_TYPE:
        _check_version(headers.get("ce_specversion", headers.get("ce-specversion")))
        return _decode_data(body, kind, numbers)
    if format == "arrow" or (format == "auto" and body.startswith(_ARROW)):
        return _decode_arrow(body)
    value = parse_json(body)
    is_event = isinstance(value, dict) and "specversion" in value and _is_event(value)
    if format == "cloudevents" or (events and (is_event or kind == _EVENT_TYPE)):
        return _decode_event(value, body, numbers)
    return [check_plain_object(value, body, numbers)]


def _media_type(text: Any) -> str:
    return str(text or "").partition(";")[0].strip().lower()


def _is_event(value: dict[str, Any]) -> bool:
    return all(isinstance(value.get(name), str) for name in _ATTRIBUTES)


def _decode_event(value: Any, body: bytes, numbers: Collection[str]) -> list[dict[str, Any]]:
    """Decode the data of an event in structured mode."""
    if not isinstance(value, dict) or not _is_event(value):
        raise BadRecord(f"no CloudEvent: expected an object with {', '.join(_ATTRIBUTES)}")
    _check_version(value["specversion"])
    kind = _media_type(value.get("datacontenttype"))
    if "data_base64" in value:
        try:
            data = base64.b64decode(str(value["data_base64"]), validate=True)
        except (binascii.Error, ValueError):
            raise BadRecord("data_base64 of the event is no base64") from None
        return _decode_data(data, kind, numbers)
    if "data" not in value:
        raise BadRecord("the event has no data")
    return [check_plain_object(value["data"], body, numbers)]


def _decode_data(data: bytes, kind: str, numbers: Collection[str]) -> list[dict[str, Any]]:
    if kind == _ARROW_TYPE or data.startswith(_ARROW):
        return _decode_arrow(data)
    return [check_plain_object(parse_json(data), data, numbers)]


def _check_version(version: str | None) -> None:
    if version != "1.0":
        raise BadRecord("the event's specversion is not 1.0")


def _decode_arrow(body: bytes) -> list[dict[str, Any]]:
    columns = read_columns(body, MOST_ROWS)
    for name, column in columns.items():
        if isinstance(column, np.ndarray) and column.ndim > 1:
            raise BadRecord(f"the column {name!r} is of lists; expected plain values")
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*map(require_list, columns.values()), strict=True)
    ]
