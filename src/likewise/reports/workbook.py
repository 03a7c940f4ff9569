"""Writes pairs as an Excel workbook: a sheet for review, and one that says what it is.

Invariant: each cell is written with its type, so nothing from the data becomes a formula, a link or
a number. Pairs that a sheet has no room for are counted and left out; longer text is cut and says
so. Numbers of more than 15 digits, which Excel would round, and times before 1900 are text.
Cost: rows go to a file as they come (xlsxwriter's constant memory); about 5 microseconds a cell, so
150,000 pairs of 70 columns take a minute.
"""

import datetime
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from likewise.errors import BadFile

ROWS = 1_048_576
"""How many rows a sheet has, the header included."""
COLUMNS = 16_384
_CHARACTERS = 32_767
_DIGITS = 10**15
_WIDTHS = (8, 32)


class Workbook:
    """Writes an .xlsx file."""

    def __init__(self, file: IO[bytes], folder: Path, about: str) -> None:
        import xlsxwriter

        self.left_out = 0
        self._about = about
        self._book = xlsxwriter.Workbook(
            file,
            {
                "constant_memory": True,
                "tmpdir": str(folder),
                "strings_to_formulas": False,
                "strings_to_urls": False,
                "strings_to_numbers": False,
            },
        )
        self._sheet = self._book.add_worksheet("pairs")
        self._bold = self._book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
        self._time = self._book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        self._day = self._book.add_format({"num_format": "yyyy-mm-dd"})
        self._rows = 0
        self._columns = 0
        self._finished = False

    def add(self, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows; with the first ones also the header."""
        if self._rows == 0:
            self._header(names)
        for row in rows:
            if self._rows >= ROWS:
                self.left_out += 1
                continue
            for column, value in enumerate(row):
                if value is not None:
                    self._write(self._rows, column, value)
            self._rows += 1

    def _header(self, names: Sequence[str]) -> None:
        if len(names) > COLUMNS:
            raise BadFile(
                f"a sheet of Excel has {COLUMNS:,} columns, and the pairs have {len(names):,}. Name"
                " a file that ends in .parquet or .csv."
            )
        for column, name in enumerate(names):
            width = min(max(len(name) + 2, _WIDTHS[0]), _WIDTHS[1])
            self._sheet.set_column(column, column, width)
            self._sheet.write_string(0, column, _cut(name), self._bold)
        self._sheet.freeze_panes(1, 1)
        self._rows, self._columns = 1, len(names)

    def _write(self, row: int, column: int, value: Any) -> None:
        sheet = self._sheet
        if isinstance(value, bool):
            sheet.write_boolean(row, column, value)
        elif isinstance(value, datetime.datetime) and value.tzinfo is None and value.year >= 1900:
            sheet.write_datetime(row, column, value, self._time)
        elif type(value) is datetime.date and value.year >= 1900:
            sheet.write_datetime(row, column, value, self._day)
        elif isinstance(value, int | float) and _is_plain(value):
            sheet.write_number(row, column, value)
        else:
            sheet.write_string(row, column, _cut(str(value)))

    def finish(self) -> None:
        """Add filters and the other sheet, and write the file."""
        if self._columns and self._rows > 1:
            self._sheet.autofilter(0, 0, self._rows - 1, self._columns - 1)
        sheet = self._book.add_worksheet("about")
        sheet.set_column(0, 0, 100)
        left_out = (
            f"{self.left_out:,} further pairs are not here: a sheet holds {ROWS:,} rows. Write them"
            " with --out pairs.parquet or pairs.csv."
        )
        written = f"{max(0, self._rows - 1):,} pairs, each a line of the sheet “pairs”."
        lines = [self._about, written, *([left_out] if self.left_out else [])]
        for row, line in enumerate(line for line in lines if line):
            sheet.write_string(row, 0, _cut(line))
        self._book.close()
        self._finished = True

    def close(self) -> None:
        """Release the files that hold rows, if the workbook was not finished."""
        if not self._finished:
            with suppress(Exception):  # what this writes is thrown away
                self._book.close()


def _is_plain(value: float) -> bool:
    """Tell whether Excel holds a number exactly."""
    return math.isfinite(value) and (isinstance(value, float) or abs(value) < _DIGITS)


def _cut(text: str) -> str:
    """Cut a text so that it fits into a cell."""
    if len(text) <= _CHARACTERS:
        return text
    note = f"… ({len(text):,} characters)"
    return text[: _CHARACTERS - len(note)] + note
