"""CSV and TSV: structure by records.py, values by Polars, types by what the rule says of a column.

Nothing is guessed from values, since a guess from the first chunk may not hold for the last: what a
rule calls a number is a number, everything else is text as it stands. An empty field is missing,
and so is whatever the caller lists as such.

Invariant: a record that does not have the header's number of fields, is not UTF-8, or has no number
where one is expected, is refused with its line; the others are read.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.sources.chunk import Chunk, Refused, Type, Types
from likewise.sources.records import Block, blocks
from likewise.sources.streams import Stream
from likewise.values.errors import BadFile
from likewise.values.plain import EXACT

_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
_WHOLE = re.compile(r"\s*[-+]?0*(\d+)(\.0*)?\s*")
_SHOWN = 60


class Delimited:
    """A file of records with a header."""

    unit = "line"

    def __init__(self, stream: Stream, *, delimiter: str, missing: Sequence[str] = ()) -> None:
        self.stream = stream
        self._delimiter = delimiter
        self._missing = list(missing)
        self._blocks = blocks(stream, quoted=True)
        self._first: Block | None = None
        self.columns = self._header()

    def _header(self) -> list[str]:
        name = self.stream.name
        first = next((block for block in self._blocks if len(block)), None)
        if first is None:
            raise BadFile(f"{name} is empty; expected a header and one decision on each line.")
        record, line = first.record(0), int(first.lines[0])
        if b"\x00" in record:
            raise BadFile(f"{name} is not text; expected CSV, TSV, JSON lines, Parquet or Arrow.")
        if b"\r" in record:
            raise BadFile(
                f"{name}, line {line}: lines end in a carriage return alone; convert the file:"
                " tr '\\r' '\\n'."
            )
        try:
            text = record.decode()
        except UnicodeDecodeError as error:
            raise BadFile(f"{name}, line {line}: {_not_utf8(error)}") from None
        columns = next(csv.reader([text], delimiter=self._delimiter, strict=False))
        self._check(columns, line)
        self._first = first.part(1, len(first))
        return columns

    def _check(self, columns: list[str], line: int) -> None:
        name, mine = self.stream.name, _DELIMITERS.get(self._delimiter, repr(self._delimiter))
        for other, word in _DELIMITERS.items():
            if len(columns) == 1 and other != self._delimiter and other in columns[0]:
                raise BadFile(
                    f"{name}, line {line}: the header is one column, {_short(columns[0])}. It is"
                    f" split at {mine}, and it seems {word} is meant: say --delimiter"
                    f" {'tab' if other == chr(9) else repr(other)}."
                )
        for at, column in enumerate(columns):
            if not column.strip():
                raise BadFile(
                    f"{name}, line {line}: column {at + 1} of the header has no name; give it one."
                )
            if column in columns[:at]:
                raise BadFile(
                    f"{name}, line {line}: two columns are called {column!r}, columns"
                    f" {columns.index(column) + 1} and {at + 1}; rename one of them."
                )

    def chunks(self, types: Types, wanted: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The wanted columns, so many rows at a time at most."""
        assert self._first is not None
        yield from self._of(self._first, types, wanted, rows)
        self._first = None
        for block in self._blocks:
            yield from self._of(block, types, wanted, rows)

    def _of(self, block: Block, types: Types, wanted: Sequence[str], rows: int) -> Iterator[Chunk]:
        for start in range(0, len(block), rows):
            refused: list[Refused] = []
            some = block.part(start, start + rows)
            some = self._decodable(self._with_all_fields(some, refused), refused)
            frames, lines = [], []
            for frame, where in self._parsed(some, wanted, refused):
                typed, good = _typed(frame, where, types, refused)
                frames.append(typed)
                lines.append(where[good])
            refused.sort(key=lambda one: one.place)
            places = np.concatenate(lines) if lines else np.empty(0, dtype=np.int64)
            table = pl.concat(frames, how="vertical_relaxed") if frames else pl.DataFrame()
            yield Chunk(table, places, tuple(refused))

    def _with_all_fields(self, block: Block, refused: list[Refused]) -> Block:
        fields = block.fields(self._delimiter.encode())
        right = fields == len(self.columns)
        for i in np.flatnonzero(~right).tolist():
            refused.append(
                Refused(
                    int(block.lines[i]),
                    f"{int(fields[i])} fields, but the header has {len(self.columns)}; check for a"
                    " delimiter too many or too few, or a value that needs quotation marks",
                )
            )
        return block.some(right)

    def _decodable(self, block: Block, refused: list[Refused]) -> Block:
        try:
            block.data.decode()
        except UnicodeDecodeError:
            right = np.ones(len(block), dtype=np.bool_)
            for i in range(len(block)):
                try:
                    block.record(i).decode()
                except UnicodeDecodeError as error:
                    right[i] = False
                    refused.append(Refused(int(block.lines[i]), _not_utf8(error)))
            return block.some(right)
        return block

    def _parsed(
        self, block: Block, wanted: Sequence[str], refused: list[Refused]
    ) -> Iterator[tuple[pl.DataFrame, npt.NDArray[np.int64]]]:
        """Frames of text; what cannot be parsed is narrowed down by halves."""
        if len(block) == 0:
            return
        try:
            frame = pl.read_csv(
                io.BytesIO(block.data),
                has_header=False,
                schema=dict.fromkeys(self.columns, pl.String),
                columns=[self.columns.index(name) for name in wanted],
                separator=self._delimiter,
                null_values=self._missing or None,
            )
        except pl.exceptions.PolarsError:
            frame = None
        if frame is not None and frame.height == len(block):
            yield frame, block.lines
        elif len(block) == 1:
            refused.append(
                Refused(
                    int(block.lines[0]),
                    "its quotation marks do not close at the end of a field; a mark inside a quoted"
                    " field is doubled",
                )
            )
        else:
            half = len(block) // 2
            yield from self._parsed(block.part(0, half), wanted, refused)
            yield from self._parsed(block.part(half, len(block)), wanted, refused)


def _typed(
    frame: pl.DataFrame, lines: npt.NDArray[np.int64], types: Types, refused: list[Refused]
) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
    """The frame with columns as the rule wants them, without the rows where that fails."""
    good = np.ones(frame.height, dtype=np.bool_)
    columns = []
    for name in frame.columns:
        text = frame[name]
        kind = types.get(name, "text")
        values = text if kind == "text" else _converted(text, kind)
        if kind != "text" and values.null_count() > text.null_count():
            bad = (
                values.is_null() & text.is_not_null() & (text.str.strip_chars() != "")
            ).to_numpy()
            for i in np.flatnonzero(bad & good).tolist():
                refused.append(Refused(int(lines[i]), _not_a(kind, name, text[i])))
            good &= ~bad
        for i in rounded(text, values) if kind in ("number", "listed") else ():
            if good[i]:
                refused.append(Refused(int(lines[i]), _too_large(name, text[i])))
                good[i] = False
        columns.append(values)
    typed = pl.DataFrame(columns)
    return (typed if good.all() else typed.filter(pl.Series(good))), good


def _converted(text: pl.Series, kind: Type) -> pl.Series:
    if kind == "flag":
        lower = text.str.strip_chars().str.to_lowercase()
        known = pl.Series(["true", "false"])
        return (
            pl.select(pl.when(lower.is_in(known.implode())).then(lower == "true"))
            .to_series()
            .alias(text.name)
        )
    numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count() > text.null_count():
        numbers = text.str.strip_chars().cast(pl.Float64, strict=False)
    if kind == "listed":
        whole = numbers.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == numbers).all() and whole.null_count() == numbers.null_count():
            return whole
    return numbers


def rounded(text: pl.Series, values: pl.Series) -> Iterator[int]:
    """Where a whole number in the text has become another one."""
    for i in np.flatnonzero((values.abs() >= EXACT).fill_null(False).to_numpy()).tolist():
        whole = _WHOLE.fullmatch(text[i])
        if whole and (len(whole[1]) > 16 or int(whole[1]) > EXACT):
            yield i


def _too_large(name: str, value: str) -> str:
    return (
        f"{name!r} is {_short(value.strip())[1:-1]}, a whole number beyond 2**53, which float64"
        " rounds to another; subtract an offset from such numbers, or name such codes as text in"
        " the rule"
    )


def _not_a(kind: Type, name: str, value: Any) -> str:
    expected = "true or false" if kind == "flag" else "a number"
    hint = ""
    if _DECIMAL_COMMA.fullmatch(value):
        hint = f" (with a decimal point: {value.strip().replace(',', '.')})"
    elif len(value.strip()) <= 12:
        hint = f". If it means that nothing is known, say --missing {value.strip()!r}"
    return f"{name!r} is {_short(value)}; expected {expected}{hint}"


def _not_utf8(error: UnicodeDecodeError) -> str:
    byte = error.object[error.start]
    around = error.object[max(0, error.start - 12) : error.start + 12].decode("latin-1")
    return (
        f"byte 0x{byte:02X} (near {around!r}) is not UTF-8. If the file is Latin-1, as that"
        " reading of it suggests, convert it: iconv -f LATIN1 -t UTF-8"
    )


def _short(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…")
