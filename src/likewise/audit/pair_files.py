"""Files of pairs: CSV, JSON lines and Parquet, written as pairs come.

A spreadsheet takes some cells of a CSV file for formulas: such text is marked (values/cells.py).
JSON lines and Parquet hold text as it is. An Excel workbook does so, too, in cells that are
declared as text (reports/workbook.py).

Cost: memory holds the pairs that came together; of Parquet, _PART at least.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import polars as pl

from likewise.audit.kept_rows import common_types, stacked
from likewise.values.cells import FORMULA, NUMBER
from likewise.values.errors import BadFile

if TYPE_CHECKING:
    from likewise.reports.workbook import Workbook

_PART = 1 << 18  # pairs in a part of a Parquet file, at least


class PairFile(Protocol):
    """A file of pairs while it is written."""

    @property
    def left_out(self) -> int:
        """Pairs for which it has no room."""

    def add(self, pairs: pl.DataFrame) -> None: ...

    def finish(self) -> None: ...


@contextmanager
def pair_file(path: Path, file: IO[bytes], about: str) -> Iterator[PairFile]:
    """A writer of the kind that the name says; `about` says what the pairs are, if it can.

    What it needs for its time is beside the file, for its owner alone, and gone afterwards.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        yield Csv(file)
    elif suffix == ".jsonl":
        yield JsonLines(file)
    else:
        folder = tempfile.mkdtemp(prefix=".likewise-", dir=path.parent)
        try:
            if suffix == ".parquet":
                yield Parquet(file, Path(folder))
            else:
                from likewise.reports.workbook import Workbook

                with closing(Workbook(file, Path(folder), about)) as book:
                    yield Excel(book, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def no_formulas(cells: pl.Series) -> pl.Series:
    """Cells that a spreadsheet takes for what they are: text that looks like a formula is marked.

    >>> no_formulas(pl.Series(["=1+1", "-1.5", "p7"])).to_list()
    ["'=1+1", '-1.5', 'p7']
    """
    if cells.dtype != pl.String:
        return cells
    formula = cells.str.contains(FORMULA) & ~cells.str.contains(NUMBER)
    marked = pl.select(pl.when(formula).then("'" + cells).otherwise(cells)).to_series()
    return marked.alias(cells.name)


def flat(cells: pl.Series) -> pl.Series:
    """Cells as text where they are neither text, numbers, flags nor times, such as lists."""
    kind = cells.dtype
    if kind in (pl.String, pl.Boolean, pl.Null) or kind.is_numeric() or kind.is_temporal():
        return cells
    texts = [None if value is None else str(value) for value in cells.to_list()]
    return pl.Series(cells.name, texts, dtype=pl.String)


class Csv:
    """Comma-separated, with a header."""

    left_out = 0

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._begun = False

    def add(self, pairs: pl.DataFrame) -> None:
        cells = pl.DataFrame([no_formulas(flat(column)) for column in pairs.iter_columns()])
        cells.write_csv(self._file, include_header=not self._begun)
        self._begun = True

    def finish(self) -> None:
        """All is written."""


class Excel:
    """A workbook."""

    def __init__(self, book: "Workbook", path: Path) -> None:
        self._book = book
        self._path = path

    @property
    def left_out(self) -> int:
        return self._book.left_out

    def add(self, pairs: pl.DataFrame) -> None:
        cells = pl.DataFrame([flat(column) for column in pairs.iter_columns()])
        try:
            self._book.add(cells.columns, cells.iter_rows())
        except BadFile as error:  # a sheet has fewer columns than that
            raise BadFile(str(error), path=self._path) from None

    def finish(self) -> None:
        self._book.finish()


class JsonLines:
    """An object for each pair."""

    left_out = 0

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, pairs: pl.DataFrame) -> None:
        raw = [flat(one) for one in pairs.iter_columns() if "Binary" in str(one.dtype)]
        pairs.with_columns(raw).write_ndjson(self._file)

    def finish(self) -> None:
        """All is written."""


class Parquet:
    """Parts in a folder, which become one file in the end."""

    left_out = 0

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        self._file = file
        self._folder = folder
        self._held: list[pl.DataFrame] = []
        self._schemas: list[Any] = []

    def add(self, pairs: pl.DataFrame) -> None:
        self._held.append(pairs)
        if sum(one.height for one in self._held) >= _PART:
            self._spill()

    def _spill(self) -> None:
        if self._held:
            part = stacked(self._held)
            part.write_parquet(self._folder / f"{len(self._schemas):09}.parquet")
            self._schemas.append(part.schema)
            self._held = []

    def finish(self) -> None:
        self._spill()
        types: Any = common_types(self._schemas)
        parts = [pl.scan_parquet(part).cast(types) for part in sorted(self._folder.iterdir())]
        pl.concat(parts).sink_parquet(self._file)
