"""JSON objects with given names, read several times as fast as any object is.

A decoder is made for the names. It takes a body only if Python's own reader, as used in
sources/json_lines.py, would surely read the same: every name once, plain values, and no half
character. Whatever else there is (other names, nested values, NaN, a colon in a text) is left to
that reader, which also says what is wrong.

Invariant: a row that is read has the values that `object_of` would read.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from likewise.sources.protocol import Record
from likewise.sources.records import LONGEST

Row: TypeAlias = tuple[Any, ...]
_NUMBER = int | float | None
_PLAIN = str | int | float | bool | None
_MOST_NAMES = 1000
_ESCAPED = re.compile(r'[\x00-\x1f"\\]')  # which no name of a decoder may have
_UNREADABLE = (msgspec.MsgspecError, ValueError)
_body = attrgetter("body")
_headers = attrgetter("headers")
_flaw = attrgetter("flaw")
_values = msgspec.structs.astuple


class PlainObjects:
    """Reads objects that have exactly these names.

    numbers: those of columns that hold numbers; an object with anything else there is left alone
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

    def rows(self, records: Sequence[Record]) -> list[Row | None]:
        """Of each record its values, in the order of the names; None if it is to be read slowly."""
        if self._decode is None:
            return [None] * len(records)
        try:
            rows: list[Row | None] = list(map(_values, map(self._decode, map(_body, records))))
        except _UNREADABLE:
            rows = [None]
        if None in rows or not self._surely(records):
            return [self._row(record) for record in records]
        return rows

    def _row(self, record: Record) -> Row | None:
        assert self._decode is not None
        try:
            row: Row = _values(self._decode(record.body))
        except _UNREADABLE:
            return None
        return row if self._surely([record]) else None

    def _surely(self, records: Sequence[Record]) -> bool:
        """Whether any other reader would read the same values of bodies that were decoded.

        Each has every name. A name is followed by a colon: with as many colons as names in all of
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
