"""Reads the rows of one cell, in the order of all rows: all of them, or one block at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.auditing.cell_folder import AuditFolder
from likewise.auditing.job import Job
from likewise.auditing.ordering import RowOrder
from likewise.auditing.spreading import HOME, INDEX, PLACE, TIME, SpreadFile
from likewise.reports.totals import mix_words, stable_column, to_words
from likewise.sources.columnar import translate_polars_errors
from likewise.tables.array_types import Rows

RANK, FILE = "likewise:rank", "likewise:file"
OWN = (INDEX, PLACE, TIME, HOME, RANK, FILE)
"""Columns of a piece, or of a block, that are not the file's."""


@dataclass(frozen=True)
class Piece:
    """Describes the rows of a cell that came from one file."""

    number: int
    """The number of the file."""
    name: str
    rows: int
    home: int
    """How many of the rows are at home in the cell."""


@dataclass(frozen=True)
class Cell:
    """Holds all pieces of a cell."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.pieces)

    @property
    def home(self) -> int:
        return sum(one.home for one in self.pieces)


@dataclass(frozen=True, eq=False)
class CellBlock:
    """Holds rows of a cell that follow each other, in order."""

    frame: pl.DataFrame

    def __len__(self) -> int:
        return self.frame.height

    @property
    def ranks(self) -> Rows:
        return self.frame[RANK].to_numpy()

    @property
    def home(self) -> npt.NDArray[np.bool_]:
        return self.frame[HOME].to_numpy()

    @property
    def table(self) -> pl.DataFrame:
        """The columns of the file."""
        return self.frame.drop(OWN, strict=False)

    def number_values(
        self, names: Sequence[str], rows: Rows | None = None, *more: Rows
    ) -> npt.NDArray[np.uint64]:
        """Number the values of rows in some columns: the same for the same values in every cell.

        more: further columns of numbers that count
        """
        frame = self.frame if rows is None else self.frame[rows]
        return mix_words(np.column_stack([*(_to_numbers(frame[name]) for name in names), *more]))

    @property
    def times(self) -> npt.NDArray[np.datetime64] | None:
        if TIME not in self.frame.columns:
            return None
        return self.frame[TIME].to_numpy().view("datetime64[us]")

    def __getitem__(self, part: slice) -> "CellBlock":
        return CellBlock(self.frame[part])

    def select(self, chosen: npt.NDArray[np.bool_]) -> "CellBlock":
        return CellBlock(self.frame.filter(pl.Series(chosen)))

    @classmethod
    def concatenate(cls, blocks: Sequence["CellBlock"]) -> "CellBlock":
        return cls(pl.concat([one.frame for one in blocks], how="vertical_relaxed"))

    def sort_by_rank(self) -> "CellBlock":
        return CellBlock(self.frame.sort(RANK))


class CellReader:
    """Reads the cells of a job."""

    def __init__(self, job: Job, order: RowOrder) -> None:
        self._folder = AuditFolder(job.folder)
        self._order = order

    def blocks(self, cell: Cell, most: int) -> list[tuple[int, int]]:
        """Return ranges of ranks with at most `most` rows of the cell each."""
        end = self._order.rows
        if cell.rows <= most:
            return [(0, end)]
        ranks = [self._ranks(one, self._read(cell, one, [INDEX])) for one in cell.pieces]
        every = np.sort(np.concatenate(ranks))
        every = every[every >= 0]
        starts = every[::most].tolist()
        return list(zip([0, *starts[1:]], [*starts[1:], end], strict=True))

    def block(self, cell: Cell, low: int, high: int) -> CellBlock:
        """Return the rows with ranks from `low` up to, not including, `high`."""
        frames = []
        for piece in cell.pieces:
            frame = self._read(cell, piece, None)
            frame = frame.with_columns(
                pl.Series(RANK, self._ranks(piece, frame), dtype=pl.Int64),
                pl.lit(piece.number, pl.Int32).alias(FILE),
            )
            if piece.rows:
                frames.append(frame.filter((pl.col(RANK) >= low) & (pl.col(RANK) < high)))
        return CellBlock(pl.concat(frames, how="vertical_relaxed").sort(RANK))

    def _ranks(self, piece: Piece, frame: pl.DataFrame) -> Rows:
        return self._order.ranks(self._folder, piece.number, frame[INDEX].to_numpy())

    def _read(self, cell: Cell, piece: Piece, columns: list[str] | None) -> pl.DataFrame:
        path = self._folder.cell(cell.number) / piece.name
        with translate_polars_errors(str(path), "Arrow"):
            return pl.read_ipc(path, columns=columns)


def _to_numbers(column: pl.Series) -> Rows:
    if column.dtype.is_numeric():
        return to_words(column.cast(pl.Float64).fill_null(np.nan).to_numpy())[:, 0]
    return stable_column(column.to_list())


def cells_of(files: Sequence[SpreadFile]) -> list[Cell]:
    """Return all cells that have rows at home, the largest first."""
    by_cell: dict[int, list[Piece]] = {}
    for number, file in enumerate(files):
        for cell, name, rows, home in file.pieces:
            by_cell.setdefault(cell, []).append(Piece(number, name, rows, home))
    cells = [Cell(cell, tuple(pieces)) for cell, pieces in by_cell.items()]
    return sorted((one for one in cells if one.home), key=lambda one: (-one.rows, one.number))
