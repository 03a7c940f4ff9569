"""Reads a sheet of a workbook with fastexcel: .xlsx, .xlsm, .xlsb, .xls and .ods.

Cells have types of their own. A column of text is read as in a CSV file (text_columns.py), and so
are an index or a missing header (file_layout.py).
Invariant: a place is the row's number in the sheet, as Excel shows it. Blank rows are no decisions.
Cost: the whole sheet in memory. A column that mixes numbers and words comes as text, its numbers
rounded to nine decimals, so it is loaded once more, as numbers.
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import polars as pl

from likewise.sources.byte_streams import ByteStream
from likewise.sources.chunk_reader import ChunkReader
from likewise.sources.file_layout import LOOKED_AT, detect_layout_of_records
from likewise.sources.number_text import Decimal
from likewise.sources.protocol import Chunk, ColumnTypes
from likewise.sources.remarks import Remark
from likewise.sources.text_columns import SAMPLE, TextColumns
from likewise.tables.normalize import MAX_EXACT_INT

_ERROR = re.compile(rb'<c [^>]*\bt="e"')  # a cell that holds an error, such as #DIV/0!
_PIECE = 1 << 20
_ROUNDING = 1e-9  # of numbers that fastexcel gives as text
_TAIL = 200  # longer than what `_ERROR` matches


class ExcelSheet(ChunkReader):
    """Reads one sheet of a workbook."""

    unit = "row"
    text: TextColumns

    def __init__(
        self,
        stream: ByteStream,
        sheet: str | None,
        *,
        missing: Sequence[str] = (),
        decimal: Decimal | None = None,
        header: bool | None = None,
    ) -> None:
        self.stream = stream
        self._remarks: list[Remark] = []
        workbook = self._open_workbook()
        self._sheet = self._choose_sheet(list(workbook.sheet_names), sheet)
        beginning = self._load(workbook, skip_rows=0, n_rows=LOOKED_AT, dtypes="string")
        filled = [i for i, row in enumerate(beginning.rows()) if any(map(_has_text, row))]
        if not filled:
            raise stream.make_error(
                f": the sheet {self._sheet!r} is empty; expected a header and one decision in each"
                " row. For another sheet, say --sheet."
            )
        records = [[cell or "" for cell in beginning.row(i)] for i in filled]
        layout = detect_layout_of_records(
            records, source=stream.name, where=f"row {filled[0] + 1}", header=header
        )
        self._remarks += layout.remarks
        self.columns, self.left_out = layout.columns, layout.left_out
        first = filled[layout.first] if layout.first < len(filled) else beginning.height
        self._frame = self._load_table(workbook, layout.names, first, missing)
        self.rows = self._frame.height
        self.text = TextColumns(self._frame.head(SAMPLE), decimal)
        self._remark_errors()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed so far."""
        return (*self._remarks, *self.text.remarks)

    def _open_workbook(self) -> Any:
        try:
            import fastexcel
        except ModuleNotFoundError:
            raise self.stream.make_error(
                " is a workbook, which fastexcel reads: pip install '.[excel]' in the clone of"
                " likewise; or save the sheet as CSV."
            ) from None
        whole = self.stream.path == "-" or self.stream.is_packed
        self.by_name = not whole
        try:
            if whole:
                return fastexcel.read_excel(self.stream.read(1 << 31))
            return fastexcel.read_excel(self.stream.path)
        except fastexcel.FastExcelError:
            raise self.stream.make_error(
                " is a zip archive, or a workbook that is damaged or locked; expected decisions."
                " Unpack it, or open it in Excel and save the sheet as CSV."
            ) from None

    def _choose_sheet(self, sheets: list[str], sheet: str | None) -> str:
        if sheet is None and len(sheets) > 1:
            others = ", ".join(map(repr, sheets[1:6])) + ", …" * (len(sheets) > 6)
            what = f"the first sheet, {sheets[0]!r}, is read; there are {others} as well"
            self._remarks.append(Remark(what, do="For another, say --sheet"))
        if sheet is not None and sheet not in sheets:
            raise self.stream.make_error(
                f" has no sheet {sheet!r}; it has {', '.join(map(repr, sheets))}."
            )
        return sheets[0] if sheet is None else sheet

    def _load(self, workbook: Any, **settings: Any) -> pl.DataFrame:
        import fastexcel

        try:
            sheet = workbook.load_sheet(self._sheet, header_row=None, **settings)
        except fastexcel.FastExcelError as error:
            first = str(error).splitlines()[0]
            raise self.stream.make_error(
                f": the sheet {self._sheet!r} cannot be read ({first}). Open the workbook in Excel"
                " and save it again."
            ) from None
        return cast(pl.DataFrame, sheet.to_polars())

    def _load_table(
        self, workbook: Any, names: Sequence[str | None], first: int, missing: Sequence[str]
    ) -> pl.DataFrame:
        """Load all rows with a value, and keep the place of each."""
        whole = self._load(workbook, skip_rows=first, schema_sample_rows=None)
        text = self._load(workbook, skip_rows=first, dtypes="string")
        floats = self._load_floats(workbook, whole, first)
        columns = []
        for i, name in enumerate(names):
            if name is None or i >= whole.width:
                continue
            column = whole[:, i].alias(name)
            if column.dtype == pl.String:
                columns.append(_clear_missing(_restore_digits(column, floats.get(i)), missing))
            elif bool((column.is_null() & _is_present(text[:, i], missing)).any()):
                # fastexcel takes words of its own for missing values: read them as words.
                words = _restore_digits(text[:, i].alias(name), column)
                columns.append(_clear_missing(words, missing))
            else:
                columns.append(_to_integers(column))
        frame = pl.DataFrame(columns)
        self._places = np.arange(first + 1, first + 1 + frame.height, dtype=np.int64)
        filled = ~frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        self._places = self._places[filled.to_numpy()]
        return frame.filter(filled)

    def _load_floats(self, workbook: Any, whole: pl.DataFrame, first: int) -> dict[int, pl.Series]:
        """Load the exact numbers of columns in which there are words as well."""
        mixed = [
            i
            for i, column in enumerate(whole.get_columns())
            if column.dtype == pl.String
            and column.cast(pl.Float64, strict=False).null_count() < column.len()
        ]
        if not mixed:
            return {}
        frame = self._load(workbook, skip_rows=first, dtypes=dict.fromkeys(mixed, "float"))
        return {i: frame[:, i] for i in mixed}

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        self.text.prepare(types, columns, self.stream.name)
        for start in range(0, self._frame.height, rows):
            places = self._places[start : start + rows]
            frame = self._frame[start : start + rows].select(columns)
            yield self.text.make_chunk([(frame, places)], types, [])

    def _remark_errors(self) -> None:
        """Remark how many cells hold an error, since these come as missing."""
        path = self.stream.path
        if path == "-" or self.stream.is_packed or not zipfile.is_zipfile(path):
            return
        count = 0
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not re.fullmatch(r"xl/worksheets/[^/]+\.xml", name):
                    continue
                with archive.open(name) as file:
                    tail = b""
                    while piece := file.read(_PIECE):
                        data = tail + piece
                        keep = max(0, len(data) - _TAIL)
                        count += sum(match.start() < keep for match in _ERROR.finditer(data))
                        tail = data[keep:]
                    count += len(_ERROR.findall(tail))
        if count:
            what = "cells hold an error, such as #DIV/0!, and are taken as missing"
            self._remarks.append(Remark(what, count=count))


def _has_text(cell: str | None) -> bool:
    return cell is not None and bool(cell.strip())


def _is_present(text: pl.Series, missing: Sequence[str]) -> pl.Series:
    """Say where a column of text has a value that is not missing."""
    is_missing = text.is_in(pl.Series([*missing, ""], dtype=pl.String).implode())
    return text.is_not_null() & ~is_missing.fill_null(True)


def _clear_missing(text: pl.Series, missing: Sequence[str]) -> pl.Series:
    """Set the missing values of a column of text to null."""
    frame = pl.DataFrame({"text": text, "present": _is_present(text, missing)})
    return frame.select(pl.when("present").then("text")).to_series().alias(text.name)


def _restore_digits(text: pl.Series, numbers: pl.Series | None) -> pl.Series:
    """Give the numbers in a column of text, which fastexcel has rounded, all their digits."""
    if numbers is None or numbers.dtype not in (pl.Float64, pl.Int64):
        return text
    numbers = numbers.cast(pl.Float64)
    rounded = text.cast(pl.Float64, strict=False)
    same = ((numbers - rounded).abs() < _ROUNDING).fill_null(False)
    exact = pl.Series([None if one is None else repr(one) for one in numbers], dtype=pl.String)
    frame = pl.DataFrame({"text": text, "same": same, "exact": exact.str.strip_suffix(".0")})
    restored = frame.select(pl.when("same").then("exact").otherwise("text"))
    return restored.to_series().alias(text.name)


def _to_integers(column: pl.Series) -> pl.Series:
    """Return whole numbers as integers, so that a code is 1 and not 1.0."""
    if column.dtype != pl.Float64:
        return column
    numbers = column.drop_nulls()
    is_whole = bool(len(numbers)) and bool((numbers == numbers.round()).all())
    is_exact = bool((numbers.abs() < MAX_EXACT_INT).all())
    return column.cast(pl.Int64) if is_whole and is_exact else column
