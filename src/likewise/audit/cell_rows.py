"""The rows of one cell, in the order of all rows: whole, or a block of them at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.audit.cell_folder import AuditFolder
from likewise.audit.job import Job
from likewise.audit.ordering import RowOrder
from likewise.audit.spreading import HOME, INDEX, PLACE, TIME
from likewise.sources.columnar import translate_polars_errors
from likewise.tables.rows import Rows

RANK, FILE = "likewise:rank", "likewise:file"
OWN = (INDEX, PLACE, TIME, HOME, RANK, FILE)
"""Columns of a piece, or of a block, that are not the file's."""


@dataclass(frozen=True)
class Piece:
    """Rows of a cell that came from one file."""

    number: int
    """Of the file."""
    name: str
    rows: int
    home: int


@dataclass(frozen=True)
class Cell:
    """All pieces of a cell."""

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
    """Rows of a cell that follow each other, in order."""

    frame: pl.DataFrame

    def __len__(self) -> int:
        return self.frame.height

    @property
    def ranks(self) -> Rows:
        ranks: Rows = self.frame[RANK].to_numpy()
        return ranks

    @property
    def home(self) -> npt.NDArray[np.bool_]:
        home: npt.NDArray[np.bool_] = self.frame[HOME].to_numpy()
        return home

    @property
    def table(self) -> pl.DataFrame:
        """The columns of the file."""
        return self.frame.drop(OWN, strict=False)

    @property
    def times(self) -> npt.NDArray[np.datetime64] | None:
        if TIME not in self.frame.columns:
            return None
        moments: npt.NDArray[np.datetime64] = self.frame[TIME].to_numpy().view("datetime64[us]")
        return moments

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
    """Reads cells of a job."""

    def __init__(self, job: Job, order: RowOrder) -> None:
        self._folder = AuditFolder(job.folder)
        self._order = order

    def blocks(self, cell: Cell, most: int) -> list[tuple[int, int]]:
        """Ranges of ranks with at most so many rows of the cell each; one, if it has no more."""
        end = self._order.rows
        if cell.rows <= most:
            return [(0, end)]
        ranks = [self._ranks(one, self._read(cell, one, [INDEX])) for one in cell.pieces]
        every = np.sort(np.concatenate(ranks))
        every = every[every >= 0]
        starts = every[::most].tolist()
        return list(zip([0, *starts[1:]], [*starts[1:], end], strict=True))

    def block(self, cell: Cell, low: int, high: int) -> CellBlock:
        """The rows with ranks from `low` up to, not including, `high`."""
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
        return self._order.ranks(piece.number, frame[INDEX].to_numpy())

    def _read(self, cell: Cell, piece: Piece, columns: list[str] | None) -> pl.DataFrame:
        path = self._folder.cell(cell.number) / piece.name
        with translate_polars_errors(str(path), "Arrow"):
            return pl.read_ipc(path, columns=columns)


def cells_of(pieces: Sequence[Sequence[tuple[int, str, int, int]]]) -> list[Cell]:
    """All cells that have rows at home, the largest first; by file, what was written of it."""
    by_cell: dict[int, list[Piece]] = {}
    for number, written in enumerate(pieces):
        for cell, name, rows, home in written:
            by_cell.setdefault(cell, []).append(Piece(number, name, rows, home))
    cells = [Cell(cell, tuple(some)) for cell, some in by_cell.items()]
    return sorted((one for one in cells if one.home), key=lambda one: (-one.rows, one.number))
