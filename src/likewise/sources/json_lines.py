"""Reads JSON lines: one object on each line.

A value keeps the type that JSON gives it: 1 and "1" are different categories, as they are in
Python. What JSON leaves open is refused: a name that an object has twice, half a character (a lone
surrogate, which UTF-8 cannot hold), and true or false in a column of numbers.
Invariant: a line that is not one object is refused with its number; the others are read.
"""

import io
import itertools
import json
import math
import os
import reprlib
import select
import sys
import time as clock
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from likewise.errors import BadFile
from likewise.sources.byte_streams import LONGEST, ByteStream, RecordBlock, open_file, read_blocks
from likewise.sources.chunk_reader import ChunkReader
from likewise.sources.protocol import (
    BadRecord,
    Chunk,
    ColumnTypes,
    PollResult,
    Record,
    RefusedRow,
    check_position,
    make_poll_result,
)
from likewise.sources.remarks import shorten
from likewise.tables.frames import BOOLEAN_ADVICE
from likewise.tables.positions import Position
from likewise.tables.strict_json import BadJson, decode_strictly

STANDARD_INPUT = "standard input"
_PIECE = 1 << 16
_BATCH_BYTES = 1 << 24
_MARK = b"\xef\xbb\xbf"


# Lines as a source (protocol.py): of a pipe, as they come, or of a file from any position.
# Unlike byte_streams.py it does not wait for a full block. A slow reader makes the writer of a pipe
# wait; nothing grows here.
# Invariant: every line that is not blank is one record, in order, each once. One that is too long
# has no body, and says why. Cost: one piece of a pipe, or one line of a file, of bounded length.
# Not here: packed files and other formats (file_source.py), which cannot be entered in the middle.


def _make_record(source: str, position: Position, line: bytes | None) -> Record | None:
    """Make the record of a line; None for a blank line. A line that is None was too long."""
    if line is None:
        flaw = (
            f"the line is longer than {LONGEST >> 20} MB, which no decision is; expected one JSON"
            " object on each line"
        )
        return Record(source, position, b"", flaw=flaw, flaw_code="too-long")
    body = line.removeprefix(_MARK).rstrip(b"\r\n")
    return Record(source, position, body) if body.strip() else None


class LineSplitter:
    """Splits pieces of a text into its lines; a line that is too long becomes None."""

    def __init__(self, most: int) -> None:
        """most: bytes of a line"""
        self._most = most
        self._pieces: list[bytes] = []  # of the line that has not ended yet
        self._size = 0  # bytes in these pieces
        self._skipping = False  # whether the rest of a line that is too long is still to come

    def feed(self, piece: bytes) -> list[bytes | None]:
        """Return the lines that end in a piece, and None as soon as a line is too long."""
        *ends, rest = piece.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            lines += self._extend(end)
            lines += [] if self._skipping else [b"".join(self._pieces)]
            self._pieces, self._size, self._skipping = [], 0, False
        return lines + (self._extend(rest) if rest else [])

    def _extend(self, piece: bytes) -> list[None]:
        """Add a piece to the current line; the pieces are joined once, at its end."""
        if self._skipping:
            return []
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size <= self._most:
            return []
        self._pieces, self._size, self._skipping = [], 0, True
        return [None]

    def end(self) -> list[bytes | None]:
        """Return the last line, if it has no line break and is not too long."""
        return [b"".join(self._pieces)] if self._pieces else []


class PipeLines:
    """Reads the lines of a pipe, until it ends or somebody calls `stop`.

    A position is the number of a line. A pipe cannot be read again, so `seek` says how many lines
    came before it, and counting goes on from there. After `stop` no further line is read.
    """

    name = STANDARD_INPUT

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._wake_reader, self._wake_writer = os.pipe()
        self._stopped = False
        self._lines = LineSplitter(LONGEST)
        self._number = 0  # of the last line that was returned
        self._waiting: deque[bytes | None] = deque()  # lines that were read, not returned yet
        self._ended = False

    def stop(self) -> None:
        """Return no more lines; signal handlers and other threads may call it."""
        self._stopped = True
        os.write(self._wake_writer, b"x")

    def owns(self, source: str) -> bool:
        return source == self.name

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Set how many lines came before this pipe."""
        before = positions.get(self.name, 0)
        assert isinstance(before, int)
        self._number = before

    def poll(self, most: int, seconds: float = math.inf) -> PollResult:
        """Return the lines that are there; wait for the first of them."""
        until = clock.monotonic() + seconds
        while not (self._waiting or self._ended or self._stopped):
            left = None if seconds == math.inf else max(0.0, until - clock.monotonic())
            ready, _, _ = select.select([self._descriptor, self._wake_reader], [], [], left)
            if self._stopped or self._wake_reader in ready or not ready:
                break
            piece = os.read(self._descriptor, _PIECE)
            self._waiting += self._lines.feed(piece) if piece else self._lines.end()
            self._ended = not piece
        records: list[Record] = []
        while self._waiting and len(records) < most and not self._stopped:
            self._number += 1
            record = _make_record(self.name, self._number, self._waiting.popleft())
            if record is not None:
                records.append(record)
        return make_poll_result(records, ended=self._stopped or (self._ended and not self._waiting))

    def close(self) -> None:
        os.close(self._wake_reader)
        os.close(self._wake_writer)


class LineFile:
    """Reads the lines of a file, in batches; the name of its sequence is the whole path.

    A position is a pair: the number of the line, and the byte behind it. So going on takes one
    seek, and lines keep their numbers. A file that was cut, or changed before that place, is
    noticed because no line feed is there. The last line counts even without a line feed; if it
    grows afterwards, going on behind it is refused.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._source = str(path.resolve())
        self._file = io.BufferedReader(open_file(self.name))
        self._line = self._byte = 0

    def owns(self, source: str) -> bool:
        return source == self._source

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Go on behind the line at this position; BadFile if it does not end there."""
        at = positions.get(self._source, (0, 0))
        self._line, self._byte = check_position(self.name, at, tuple, "line of a file")
        self._file.seek(max(0, self._byte - 1))
        before = self._file.read(min(1, self._byte))
        size = self._file.seek(0, 2)
        grown = size > self._byte > 0
        if size < self._byte or (before != b"\n" and grown):
            raise BadFile(
                f"{self.name} was read up to line {self._line:,}, byte {self._byte:,}, and has no"
                " end of a line there now: it was cut or changed. Give the file as it was with"
                " lines added, or another name.",
                path=self.name,
            )
        self._file.seek(self._byte)

    def poll(self, most: int, seconds: float = 0.0) -> PollResult:
        """Return the next lines, without waiting: a file does not grow at its end."""
        records: list[Record] = []
        size = 0
        while len(records) < most and size < _BATCH_BYTES:
            line = self._read_line()
            if line == b"":
                return make_poll_result(records, ended=True)
            size += LONGEST if line is None else len(line)
            record = _make_record(self._source, (self._line, self._byte), line)
            if record is not None:
                records.append(record)
        return make_poll_result(records)

    def _read_line(self) -> bytes | None:
        """Return the next line with its line feed; None if too long, b"" at the end."""
        line = piece = self._file.readline(LONGEST + 1)
        self._byte += len(piece)
        while len(piece) == LONGEST + 1 and not piece.endswith(b"\n"):
            piece = self._file.readline(LONGEST + 1)
            self._byte += len(piece)
        self._line += bool(line)
        return line if len(line) <= LONGEST or line.endswith(b"\n") else None

    def close(self) -> None:
        self._file.close()


_SHOWN = 60
_SAMPLE = 1_000  # lines from which columns are known


def _refuse_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise BadRecord(
            f"{_quote(twice)} is given twice; expected every name once", "repeated-name"
        )
    return value


_decode = msgspec.json.Decoder().decode
_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated_names)
"""Reads NaN, and says what is wrong with a line that msgspec does not read."""


def parse_object(line: bytes, numbers: Collection[str] = ()) -> dict[str, Any]:
    """Return the object on a line; raise BadRecord, which says what is wrong with it.

    numbers     names of columns that hold numbers, in which true is not one
    """
    return check_plain_object(parse_json(line), line, numbers)


def check_plain_object(value: Any, line: bytes, numbers: Collection[str] = ()) -> dict[str, Any]:
    """Return a parsed value if it is an object of plain values; raise BadRecord if not."""
    if not isinstance(value, dict):
        raise BadRecord(
            f'{_shorten(line)} is no object; expected one, such as {{"age": 41, …}}', "bad-json"
        )
    kinds = set(map(type, value.values()))
    if list in kinds or dict in kinds:
        name = next(name for name, one in value.items() if isinstance(one, list | dict))
        raise BadRecord(
            f"{_quote(name)} is {reprlib.repr(value[name])}; expected a plain value",
            "unexpected-value",
            name,
        )
    if b"\\u" in line:  # in strict UTF-8, the only way to write half a character
        _refuse_lone_surrogates(value)
    for name in numbers if bool in kinds else ():
        if isinstance(value.get(name), bool):
            text = "true" if value[name] else "false"
            raise BadRecord(
                f"{_quote(name)} is {text}; expected a number. {BOOLEAN_ADVICE}",
                "unexpected-value",
                name,
            )
    return value


def number_columns(types: ColumnTypes) -> list[str]:
    """Return the columns in which a rule expects numbers."""
    return [name for name, kind in types.items() if kind in ("number", "listed")]


def parse_json(line: bytes) -> Any:
    """Parse JSON; raise BadRecord if it is none, or gives a name twice."""
    with suppress(BadJson, msgspec.ValidationError):
        return decode_strictly(_decode, line)
    try:
        return _DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise BadRecord(f"byte 0x{line[error.start]:02X} is not UTF-8", "bad-encoding") from None
    except json.JSONDecodeError as error:
        raise BadRecord(
            f"not JSON: {error.msg} at character {error.colno} of {_shorten(line)}", "bad-json"
        ) from None
    except BadRecord:
        raise
    except ValueError:  # Python reads whole numbers up to a limit, since that takes long
        limit = sys.get_int_max_str_digits()
        raise BadRecord(f"a whole number has more than {limit:,} digits", "bad-json") from None
    except RecursionError:
        raise BadRecord(
            "objects inside objects without end; expected plain values", "bad-json"
        ) from None


def _refuse_lone_surrogates(value: dict[str, Any]) -> None:
    for name, one in value.items():
        try:
            f"{name}{one}".encode()
        except UnicodeEncodeError:
            raise BadRecord(
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
            raise stream.make_error(" is empty; expected a JSON object on each line.")
        self._first: RecordBlock | None = first
        sample = self._read_chunk(first, range(min(_SAMPLE, len(first))))
        self.columns = list(dict.fromkeys(name for row in sample.table for name in row))
        if not self.columns:
            no_columns = RefusedRow(int(first.lines[0]), "no columns", "no-columns")
            refused = (*sample.refused, no_columns)[0]
            raise stream.make_error(f", line {refused.place}: {refused.why}.")

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
            except BadRecord as error:
                refused.append(RefusedRow(line, str(error), error.code, error.column))
        return Chunk(table, np.array(places, dtype=np.int64), tuple(refused))


def _shorten(line: bytes) -> str:
    text = line[: 4 * _SHOWN].decode(errors="replace")  # a character has at most four bytes
    return text if len(text) <= _SHOWN and len(line) <= 4 * _SHOWN else text[: _SHOWN - 1] + "…"


def _quote(value: Any) -> str:
    return shorten(value, _SHOWN) if isinstance(value, str) else repr(value)
