"""Reads JSON lines: one object on each line.

A value keeps the type that JSON gives it: 1 and "1" are different categories, as they are in
Python. What JSON leaves open is refused: a name that an object has twice, half a character (a lone
surrogate, which UTF-8 cannot hold), and true or false in a column of numbers.
Invariant: a line that is not one object is refused with its number; the others are read.
"""

import itertools
import json
import reprlib
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from likewise.errors import BadFile
from likewise.sources.byte_streams import ByteStream
from likewise.sources.chunk import BadLine, Chunk, ColumnTypes, RefusedRow
from likewise.sources.chunk_reader import ChunkReader
from likewise.sources.record_cutting import RecordBlock, read_blocks
from likewise.sources.remarks import shorten
from likewise.tables.frames import BOOLEAN_ADVICE
from likewise.tables.strict_json import BadJson, decode_strictly

_SHOWN = 60
_SAMPLE = 1_000  # lines from which columns are known


def _refuse_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise BadLine(f"{_quote(twice)} is given twice; expected every name once", "repeated-name")
    return value


_decode = msgspec.json.Decoder().decode
_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated_names)
"""Reads NaN, and says what is wrong with a line that msgspec does not read."""


def parse_object(line: bytes, numbers: Collection[str] = ()) -> dict[str, Any]:
    """Return the object on a line; raise BadLine, which says what is wrong with it.

    numbers     names of columns that hold numbers, in which true is not one
    """
    return check_plain_object(parse_json(line), line, numbers)


def check_plain_object(value: Any, line: bytes, numbers: Collection[str] = ()) -> dict[str, Any]:
    """Return a parsed value if it is an object of plain values; raise BadLine if not."""
    if not isinstance(value, dict):
        raise BadLine(
            f'{_shorten(line)} is no object; expected one, such as {{"age": 41, …}}', "bad-json"
        )
    kinds = set(map(type, value.values()))
    if list in kinds or dict in kinds:
        name = next(name for name, one in value.items() if isinstance(one, list | dict))
        raise BadLine(
            f"{_quote(name)} is {reprlib.repr(value[name])}; expected a plain value",
            "unexpected-value",
            name,
        )
    if b"\\u" in line:  # in strict UTF-8, the only way to write half a character
        _refuse_lone_surrogates(value)
    for name in numbers if bool in kinds else ():
        if isinstance(value.get(name), bool):
            text = "true" if value[name] else "false"
            raise BadLine(
                f"{_quote(name)} is {text}; expected a number. {BOOLEAN_ADVICE}",
                "unexpected-value",
                name,
            )
    return value


def number_columns(types: ColumnTypes) -> list[str]:
    """Return the columns in which a rule expects numbers."""
    return [name for name, kind in types.items() if kind in ("number", "listed")]


def parse_json(line: bytes) -> Any:
    """Parse JSON; raise BadLine if it is none, or gives a name twice."""
    with suppress(BadJson, msgspec.ValidationError):
        return decode_strictly(_decode, line)
    try:
        return _DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise BadLine(f"byte 0x{line[error.start]:02X} is not UTF-8", "bad-encoding") from None
    except json.JSONDecodeError as error:
        raise BadLine(
            f"not JSON: {error.msg} at character {error.colno} of {_shorten(line)}", "bad-json"
        ) from None
    except BadLine:
        raise
    except ValueError:  # Python reads whole numbers up to a limit, since that takes long
        limit = sys.get_int_max_str_digits()
        raise BadLine(f"a whole number has more than {limit:,} digits", "bad-json") from None
    except RecursionError:
        raise BadLine(
            "objects inside objects without end; expected plain values", "bad-json"
        ) from None


def _refuse_lone_surrogates(value: dict[str, Any]) -> None:
    for name, one in value.items():
        try:
            f"{name}{one}".encode()
        except UnicodeEncodeError:
            raise BadLine(
                f"{_quote(name)} is {_quote(one)}, which holds half a character (a lone"
                " surrogate); expected Unicode text",
                "bad-encoding",
                name,
            ) from None


class JsonLinesFile(ChunkReader):
    """Reads a file of objects; its columns are those of its first lines."""

    unit = "line"

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._blocks = read_blocks(stream, quoted=False)
        first = next((block for block in self._blocks if len(block)), None)
        if first is None:
            raise BadFile(
                f"{stream.name} is empty; expected a JSON object on each line.", path=stream.name
            )
        self._first: RecordBlock | None = first
        sample = self._read_chunk(first, range(min(_SAMPLE, len(first))))
        self.columns = list(dict.fromkeys(name for row in sample.table for name in row))
        if not self.columns:
            no_columns = RefusedRow(int(first.lines[0]), "no columns", "no-columns")
            refused = (*sample.refused, no_columns)[0]
            raise BadFile(f"{stream.name}, line {refused.place}: {refused.why}.", path=stream.name)

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield all columns, with the types that they have."""
        first, self._first = self._first, None
        numbers = number_columns(types)
        for block in itertools.chain([first] if first is not None else [], self._blocks):
            for start in range(0, len(block), rows):
                yield self._read_chunk(block, range(start, min(start + rows, len(block))), numbers)

    def _read_chunk(self, block: RecordBlock, which: range, numbers: Collection[str] = ()) -> Chunk:
        table, places, refused = [], [], []
        for i in which:
            line = int(block.lines[i])
            try:
                table.append(parse_object(block.record(i), numbers))
                places.append(line)
            except BadLine as error:
                refused.append(RefusedRow(line, str(error), error.code, error.column))
        return Chunk(table, np.array(places, dtype=np.int64), tuple(refused))


def _shorten(line: bytes) -> str:
    text = line[: 4 * _SHOWN].decode(errors="replace")  # a character has at most four bytes
    return text if len(text) <= _SHOWN and len(line) <= 4 * _SHOWN else text[: _SHOWN - 1] + "…"


def _quote(value: Any) -> str:
    return shorten(value, _SHOWN) if isinstance(value, str) else repr(value)
