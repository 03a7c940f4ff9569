"""CSV and TSV: structure by record_cutting.py and file_layout.py, values by Polars, types by the
rule.

What a column holds is not guessed from values: what a rule calls a number is a number, everything
else is text as it stands. How a file is written is: its delimiter, its encoding, its decimal sign,
each known from its first lines and remarked (text_columns.py, windows_text.py). An empty field is
missing, and so is whatever the caller lists as such.

Invariant: a record that does not have the header's number of fields, is not text, or has no number
where one is expected, is refused with its line; the others are read.
"""

import io
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.errors import BadFile
from likewise.sources.byte_streams import ByteStream
from likewise.sources.chunk import Chunk, ColumnTypes, RefusedRow
from likewise.sources.file_layout import detect_layout, without_spaces
from likewise.sources.number_text import Decimal
from likewise.sources.record_cutting import RecordBlock, read_blocks
from likewise.sources.remarks import Remark
from likewise.sources.text_columns import SAMPLE, TextColumns
from likewise.sources.windows_text import EncodingDetector

_LEFT_OUT = "\x00"  # begins the name of a field that is no column


class DelimitedFile:
    """A file of records."""

    unit = "line"

    def __init__(
        self,
        stream: ByteStream,
        *,
        preferred: str = ",",
        delimiter: str | None = None,
        missing: Sequence[str] = (),
        decimal: Decimal | None = None,
        header: bool | None = None,
    ) -> None:
        """preferred: what separates fields, unless `delimiter` says or the file shows another"""
        self.stream = stream
        self._missing = list(missing)
        self._detect = None if stream.encoding else EncodingDetector()
        self._undefined: list[RefusedRow] = []
        self._blocks = (self._to_utf8(block) for block in read_blocks(stream, quoted=True))
        first = self._read_first_block()
        self._layout = detect_layout(
            first, source=stream.name, preferred=preferred, delimiter=delimiter, header=header
        )
        self._first: RecordBlock | None = first.part(self._layout.first, len(first))
        self.columns = self._layout.columns
        self.left_out = self._layout.left_out
        self.text = TextColumns(self._read_sample(), decimal)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed so far."""
        return (*self._encoding_remark(), *self._layout.remarks, *self.text.remarks)

    def _encoding_remark(self) -> tuple[Remark, ...]:
        if self._detect is None or self._detect.encoding != "cp1252":
            return ()
        return (
            Remark(
                "the text is no UTF-8 and is read as Windows-1252",
                None,
                self._detect.example,
                None,
                "If letters are wrong, say --encoding",
            ),
        )

    def _read_first_block(self) -> RecordBlock:
        """The first block, in which the header is; raise BadFile if it is none of text."""
        name = self.stream.name
        first = next((block for block in self._blocks if len(block)), None)
        if first is None:
            raise BadFile(
                f"{name} is empty; expected a header and one decision on each line.", path=name
            )
        record, line = first.record(0), int(first.lines[0])
        if b"\x00" in record:
            raise BadFile(
                f"{name} is not text; expected CSV, TSV, JSON lines, Parquet, Arrow or Excel. If it"
                " is UTF-16 without a mark, say --encoding utf-16-le.",
                path=name,
            )
        if b"\r" in record:
            raise BadFile(
                f"{name}, line {line}: lines end in a carriage return alone; convert the file:"
                " tr '\\r' '\\n'.",
                path=name,
            )
        try:
            record.decode()
        except UnicodeDecodeError as error:
            raise BadFile(f"{name}, line {line}: {_not_utf8(error)}", path=name) from None
        return first

    def _read_sample(self) -> pl.DataFrame:
        """The first rows that can be read, as text, with all columns."""
        assert self._first is not None
        refused: list[RefusedRow] = []
        names = [name for name in self._layout.names if name is not None]
        some = self._drop_unreadable(self._first.part(0, SAMPLE), refused)
        frames = [frame for frame, _ in self._parse(some, names, refused)]
        return pl.concat(frames) if frames else pl.DataFrame()

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The wanted columns, so many rows at a time at most."""
        assert self._first is not None
        self.text.prepare(
            {name: types[name] for name in columns if name in types}, self.stream.name
        )
        yield from self._read_chunks(self._first, types, columns, rows)
        self._first = None
        for block in self._blocks:
            yield from self._read_chunks(block, types, columns, rows)
        if self._undefined:  # of a last block that has nothing else
            refused = sorted(self._undefined, key=lambda one: one.place)
            yield Chunk(pl.DataFrame(), np.empty(0, dtype=np.int64), tuple(refused))

    def _read_chunks(
        self, block: RecordBlock, types: ColumnTypes, columns: Sequence[str], rows: int
    ) -> Iterator[Chunk]:
        for start in range(0, len(block), rows):
            refused, self._undefined = self._undefined, []
            some = self._drop_unreadable(block.part(start, start + rows), refused)
            frames, lines = [], []
            for frame, where in self._parse(some, columns, refused):
                typed, good = self.text.convert(frame, where, types, refused)
                frames.append(typed)
                lines.append(where[good])
            refused.sort(key=lambda one: one.place)
            places = np.concatenate(lines) if lines else np.empty(0, dtype=np.int64)
            table = pl.concat(frames, how="vertical_relaxed") if frames else pl.DataFrame()
            yield Chunk(table, places, tuple(refused))

    def _drop_unreadable(self, block: RecordBlock, refused: list[RefusedRow]) -> RecordBlock:
        if self._layout.spaced:
            block = without_spaces(block, self._layout.delimiter)
        return self._drop_undecodable(self._drop_ragged(block, refused), refused)

    def _drop_ragged(self, block: RecordBlock, refused: list[RefusedRow]) -> RecordBlock:
        fields = block.fields(self._layout.delimiter.encode())
        expected = len(self._layout.names)
        right = fields == expected
        for i in np.flatnonzero(~right).tolist():
            refused.append(
                RefusedRow(
                    int(block.lines[i]),
                    f"{int(fields[i])} fields, but the header has {expected}; check for a"
                    " delimiter too many or too few, or a value that needs quotation marks",
                    "wrong-field-count",
                )
            )
        return block.select(right)

    def _to_utf8(self, block: RecordBlock) -> RecordBlock:
        """A block in UTF-8, whatever the file is in."""
        if self._detect is None:
            return block
        made, undefined = self._detect(block)
        for line in undefined.lines.tolist():
            self._undefined.append(
                RefusedRow(
                    line,
                    "a byte of it is not defined in Windows-1252; say --encoding",
                    "bad-encoding",
                )
            )
        return made

    def _drop_undecodable(self, block: RecordBlock, refused: list[RefusedRow]) -> RecordBlock:
        try:
            block.data.decode()
        except UnicodeDecodeError:
            right = np.ones(len(block), dtype=np.bool_)
            for i in range(len(block)):
                try:
                    block.record(i).decode()
                except UnicodeDecodeError as error:
                    right[i] = False
                    refused.append(
                        RefusedRow(int(block.lines[i]), _not_utf8(error), "bad-encoding")
                    )
            return block.select(right)
        return block

    def _parse(
        self, block: RecordBlock, columns: Sequence[str], refused: list[RefusedRow]
    ) -> Iterator[tuple[pl.DataFrame, npt.NDArray[np.int64]]]:
        """Frames of text; what cannot be parsed is narrowed down by halves."""
        if len(block) == 0:
            return
        names = [
            f"{_LEFT_OUT}{i}" if name is None else name for i, name in enumerate(self._layout.names)
        ]
        empty = [f"{_LEFT_OUT}{i}" for i in self._layout.empty]
        try:
            frame = pl.read_csv(
                io.BytesIO(block.data),
                has_header=False,
                schema=dict.fromkeys(names, pl.String),
                columns=[names.index(name) for name in (*columns, *empty)],
                separator=self._layout.delimiter,
                null_values=self._missing or None,
            )
        except pl.exceptions.PolarsError:
            frame = None
        if frame is not None and frame.height == len(block):
            yield self._drop_empty_fields(frame, empty, block.lines, refused)
        elif len(block) == 1:
            refused.append(
                RefusedRow(
                    int(block.lines[0]),
                    "its quotation marks do not close at the end of a field; a mark inside a quoted"
                    " field is doubled",
                    "bad-quotes",
                )
            )
        else:
            half = len(block) // 2
            yield from self._parse(block.part(0, half), columns, refused)
            yield from self._parse(block.part(half, len(block)), columns, refused)

    def _drop_empty_fields(
        self,
        frame: pl.DataFrame,
        empty: Sequence[str],
        lines: npt.NDArray[np.int64],
        refused: list[RefusedRow],
    ) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """The frame without the empty fields, and without rows where they are not empty."""
        good = np.ones(frame.height, dtype=np.bool_)
        for name in empty:
            good &= (frame[name].is_null() | (frame[name].str.strip_chars() == "")).to_numpy()
        for i in np.flatnonzero(~good).tolist():
            refused.append(
                RefusedRow(int(lines[i]), "a value stands behind the last column", "extra-value")
            )
        frame = frame.drop(empty)
        return (frame, lines) if good.all() else (frame.filter(pl.Series(good)), lines[good])


def _not_utf8(error: UnicodeDecodeError) -> str:
    byte = error.object[error.start]
    around = error.object[max(0, error.start - 12) : error.start + 12].decode("latin-1")
    return (
        f"byte 0x{byte:02X} (near {around!r}) is not UTF-8. If the file is Latin-1, as that"
        " reading of it suggests, say --encoding latin-1"
    )
