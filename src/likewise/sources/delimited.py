"""Reads CSV and TSV: records as in byte_streams.py and file_layout.py, values with Polars.

A column is a number only if the rule says so. Delimiter and decimal sign are detected from the
first lines, and so is Windows-1252 (cp1252), which has no mark: the first block with more than
ASCII is Windows-1252 if it is no UTF-8 and has no character of UTF-8 at all.
Invariant: a record with the wrong number of fields, or which is not text, or has no number where
one is expected, is refused with its line; the others are read, and nothing is replaced.
"""

import io
import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.sources.byte_streams import ByteStream, RecordBlock, read_blocks
from likewise.sources.chunk_reader import ChunkReader
from likewise.sources.file_layout import detect_layout, without_spaces
from likewise.sources.number_text import Decimal
from likewise.sources.protocol import Chunk, ColumnTypes, RefusedRow
from likewise.sources.remarks import Remark
from likewise.sources.text_columns import SAMPLE, TextColumns

_LEFT_OUT = "\x00"  # begins the name of a field that is no column
_WINDOWS = "cp1252"
_UTF8_CHARACTER = re.compile(  # one that is not ASCII
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_WORD_ENDS = b' ,;|"\t\r\n'
_WORD = re.compile(rb'[^ ,;|"\t\r\n]{1,40}')
_UNDEFINED = np.isin(np.arange(256), [0x81, 0x8D, 0x8F, 0x90, 0x9D])
_SIZES = np.array(
    [len(bytes([byte]).decode(_WINDOWS, "replace").encode()) for byte in range(256)], np.int64
)


class DelimitedFile(ChunkReader):
    """Reads a file of records."""

    unit = "line"
    text: TextColumns

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
        """Read the first block of a file.

        preferred   what separates fields, unless `delimiter` says or the file shows another
        """
        self.stream = stream
        self._missing = list(missing)
        self._detect = None if stream.encoding else _EncodingDetector()
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
        encoding = [] if self._detect is None else self._detect.remarks
        return (*encoding, *self._layout.remarks, *self.text.remarks)

    def _read_first_block(self) -> RecordBlock:
        """Return the first block, which has the header; raise BadFile if it is not text."""
        first = next((block for block in self._blocks if len(block)), None)
        if first is None:
            raise self.stream.make_error(
                " is empty; expected a header and one decision on each line."
            )
        record, line = first.record(0), int(first.lines[0])
        if b"\x00" in record:
            raise self.stream.make_error(
                " is not text; expected CSV, TSV, JSON lines, Parquet, Arrow or Excel. If it is"
                " UTF-16 without a mark, say --encoding utf-16-le."
            )
        if b"\r" in record:
            raise self.stream.make_error(
                f", line {line}: lines end in a carriage return alone; convert the file:"
                " tr '\\r' '\\n'."
            )
        try:
            record.decode()
        except UnicodeDecodeError as error:
            raise self.stream.make_error(f", line {line}: {_not_utf8(error)}") from None
        return first

    def _read_sample(self) -> pl.DataFrame:
        """Return the first readable rows, as text, with all columns."""
        assert self._first is not None
        refused: list[RefusedRow] = []
        names = [name for name in self._layout.names if name is not None]
        block = self._drop_unreadable(self._first.part(0, SAMPLE), refused)
        frames = [frame for frame, _ in self._parse(block, names, refused)]
        return pl.concat(frames) if frames else pl.DataFrame()

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        assert self._first is not None
        self.text.prepare(types, columns, self.stream.name)
        yield from self._read_chunks(self._first, types, columns, rows)
        self._first = None
        for block in self._blocks:
            yield from self._read_chunks(block, types, columns, rows)
        if self._undefined:  # of a last block that has nothing else
            yield self.text.make_chunk((), types, self._undefined)

    def _read_chunks(
        self, block: RecordBlock, types: ColumnTypes, columns: Sequence[str], rows: int
    ) -> Iterator[Chunk]:
        for start in range(0, len(block), rows):
            refused, self._undefined = self._undefined, []
            part = self._drop_unreadable(block.part(start, start + rows), refused)
            yield self.text.make_chunk(self._parse(part, columns, refused), types, refused)

    def _drop_unreadable(self, block: RecordBlock, refused: list[RefusedRow]) -> RecordBlock:
        if self._layout.spaced:
            block = without_spaces(block, self._layout.delimiter)
        return self._drop_undecodable(self._drop_ragged(block, refused), refused)

    def _drop_ragged(self, block: RecordBlock, refused: list[RefusedRow]) -> RecordBlock:
        fields = block.fields(self._layout.delimiter.encode())
        expected = len(self._layout.names)
        complete = fields == expected
        for i in np.flatnonzero(~complete).tolist():
            why = (
                f"{int(fields[i])} fields, but the header has {expected}; check for a delimiter too"
                " many or too few, or a value that needs quotation marks"
            )
            refused.append(RefusedRow(int(block.lines[i]), why, "wrong-field-count"))
        return block.select(complete)

    def _to_utf8(self, block: RecordBlock) -> RecordBlock:
        """Return a block in UTF-8, whatever the file is in."""
        if self._detect is None:
            return block
        decoded, undefined = self._detect(block)
        why = "a byte of it is not defined in Windows-1252; say --encoding"
        for line in undefined.lines.tolist():
            self._undefined.append(RefusedRow(line, why, "bad-encoding"))
        return decoded

    def _drop_undecodable(self, block: RecordBlock, refused: list[RefusedRow]) -> RecordBlock:
        try:
            block.data.decode()
        except UnicodeDecodeError:
            good = np.ones(len(block), dtype=np.bool_)
            for i in range(len(block)):
                try:
                    block.record(i).decode()
                except UnicodeDecodeError as error:
                    good[i] = False
                    why = _not_utf8(error)
                    refused.append(RefusedRow(int(block.lines[i]), why, "bad-encoding"))
            return block.select(good)
        return block

    def _parse(
        self, block: RecordBlock, columns: Sequence[str], refused: list[RefusedRow]
    ) -> Iterator[tuple[pl.DataFrame, npt.NDArray[np.int64]]]:
        """Yield frames of text with their lines; what Polars cannot parse is halved."""
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
            why = (
                "its quotation marks do not close at the end of a field; a mark inside a quoted"
                " field is doubled"
            )
            refused.append(RefusedRow(int(block.lines[0]), why, "bad-quotes"))
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
        """Drop the empty fields, and the rows where they are not empty."""
        good = np.ones(frame.height, dtype=np.bool_)
        for name in empty:
            good &= (frame[name].is_null() | (frame[name].str.strip_chars() == "")).to_numpy()
        for i in np.flatnonzero(~good).tolist():
            refused.append(
                RefusedRow(int(lines[i]), "a value stands behind the last column", "extra-value")
            )
        frame = frame.drop(empty)
        return (frame, lines) if good.all() else (frame.filter(pl.Series(good)), lines[good])


class _EncodingDetector:
    """Decides whether the blocks of a file are UTF-8 or Windows-1252, and recodes these."""

    def __init__(self) -> None:
        self._encoding: str | None = None  # None as long as everything is ASCII
        self._example: str | None = None  # a word that shows that it is Windows-1252

    def __call__(self, block: RecordBlock) -> tuple[RecordBlock, RecordBlock]:
        """Return a block in UTF-8, and those of its records that are not defined."""
        if self._encoding is None and not block.data.isascii():
            self._decide(block.data)
        if self._encoding != _WINDOWS or len(block) == 0:
            return block, block.part(0, 0)
        values = np.frombuffer(block.data, np.uint8)
        undefined = np.logical_or.reduceat(_UNDEFINED[values], block.starts)
        sizes = np.add.reduceat(_SIZES[values], block.starts)
        recoded = block.with_data(block.data.decode(_WINDOWS, "replace").encode(), sizes)
        return recoded.select(~undefined), block.select(undefined)

    def _decide(self, data: bytes) -> None:
        self._encoding = "utf-8"
        try:
            data.decode()
        except UnicodeDecodeError as error:
            if not _UTF8_CHARACTER.search(data):
                self._encoding = _WINDOWS
                start = max(data.rfind(end, 0, error.start) for end in _WORD_ENDS) + 1
                word = _WORD.match(data, max(start, error.start - 20))
                self._example = word[0].decode(_WINDOWS, "replace") if word else None

    @property
    def remarks(self) -> tuple[Remark, ...]:
        if self._encoding != _WINDOWS:
            return ()
        what, do = "the text is no UTF-8 and is read as Windows-1252", "say --encoding"
        return (Remark(what, example=self._example, do=f"If letters are wrong, {do}"),)


def _not_utf8(error: UnicodeDecodeError) -> str:
    byte = error.object[error.start]
    around = error.object[max(0, error.start - 12) : error.start + 12].decode("latin-1")
    return (
        f"byte 0x{byte:02X} (near {around!r}) is not UTF-8. If the file is Latin-1, as that"
        " reading of it suggests, say --encoding latin-1"
    )
