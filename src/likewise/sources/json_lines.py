"""JSON lines: one object on each line, by Python's own reader.

A value keeps the type that JSON gives it: 1 and "1" are different categories, as they are in
Python. Polars would settle one type for a column and bend what does not fit: it has no part here.

Invariant: a line that is not one object is refused with its number; the others are read.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from likewise.errors import BadFile
from likewise.sources.chunk import Chunk, Refused, Types
from likewise.sources.records import Block, blocks
from likewise.sources.streams import Stream

_SHOWN = 60
_LOOK = 1_000  # lines from which columns are known


def object_of(line: bytes) -> dict[str, Any]:
    """The object on a line; raise ValueError, which says what is wrong with it."""
    try:
        value = json.loads(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte 0x{line[error.start]:02X} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"not JSON: {error.msg} at character {error.colno} of {_short(line)}"
        ) from None
    except RecursionError:
        raise ValueError("objects inside objects without end; expected plain values") from None
    if not isinstance(value, dict):
        raise ValueError(f'{_short(line)} is no object; expected one, such as {{"age": 41, …}}')
    for name, one in value.items():
        if isinstance(one, list | dict):
            raise ValueError(f"{name!r} is {_short(repr(one).encode())}; expected a plain value")
    return value


class JsonLines:
    """A file of objects; its columns are those of its first lines."""

    unit = "line"

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._blocks = blocks(stream, quoted=False)
        first = next((block for block in self._blocks if len(block)), None)
        if first is None:
            raise BadFile(f"{stream.name} is empty; expected a JSON object on each line.")
        self._first: Block | None = first
        begun = self._chunk(first, range(min(_LOOK, len(first))))
        self.columns = list(dict.fromkeys(name for row in begun.table for name in row))
        if not self.columns:
            one = begun.refused[0] if begun.refused else Refused(int(first.lines[0]), "no columns")
            raise BadFile(f"{stream.name}, line {one.place}: {one.why}.")

    def chunks(self, types: Types, wanted: Sequence[str], rows: int) -> Iterator[Chunk]:
        """All columns, with the types that they have; so many rows at a time at most."""
        first, self._first = self._first, None
        for block in itertools.chain([first] if first is not None else [], self._blocks):
            for start in range(0, len(block), rows):
                yield self._chunk(block, range(start, min(start + rows, len(block))))

    def _chunk(self, block: Block, which: range) -> Chunk:
        table, places, refused = [], [], []
        for i in which:
            line = int(block.lines[i])
            try:
                table.append(object_of(block.record(i)))
                places.append(line)
            except ValueError as error:
                refused.append(Refused(line, str(error)))
        return Chunk(table, np.array(places, dtype=np.int64), tuple(refused))


def _short(line: bytes) -> str:
    text = line.decode(errors="replace")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
