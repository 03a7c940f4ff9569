"""JSON objects with given names, read several times as fast as any object is.

A decoder is made for the names. It takes a body only if Python's own reader, as used in
sources/json_lines.py, would surely read the same: every name once, plain values, and no half
character. Whatever else there is (other names, nested values, NaN, a colon in a text) is left to
that reader, which also says what is wrong.

Invariant: a row that is read has the values that `object_of` would read.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from likewise.sources.protocol import Record
from likewise.sources.records import LONGEST

Row: TypeAlias = tuple[Any, ...]
_NUMBER = int | float | None
_PLAIN = str | int | float | bool | None
_MOST_NAMES = 1000


class PlainObjects:
    """Reads objects that have exactly these names.

    numbers: those of columns that hold numbers; an object with anything else there is left alone
    """

    def __init__(self, names: Iterable[str], numbers: Collection[str]) -> None:
        self.names = tuple(names)
        self.numbers = tuple(numbers)
        self._decode = None
        if 0 < len(self.names) <= _MOST_NAMES:
            fields = {f"_{j}": name for j, name in enumerate(self.names)}
            kinds = [(field, _NUMBER if fields[field] in numbers else _PLAIN) for field in fields]
            struct = msgspec.defstruct(
                "PlainObject", kinds, rename=fields, forbid_unknown_fields=True, gc=False
            )
            self._decode = msgspec.json.Decoder(struct).decode

    def rows(self, records: Iterable[Record]) -> Iterator[Row | None]:
        """Of each record its values, in the order of the names; None if it is to be read slowly."""
        decode, many = self._decode, len(self.names)
        values = msgspec.structs.astuple
        for _, _, body, headers, flaw in records:
            # Every name is followed by a colon: with as many colons as names, none is there twice.
            if decode is None or headers or flaw is not None or body.count(b":") != many:
                yield None
            elif len(body) > LONGEST or b"\\ud" in body or b"\\uD" in body:
                yield None
            else:
                try:
                    yield values(decode(body))
                except (msgspec.MsgspecError, ValueError):
                    yield None
