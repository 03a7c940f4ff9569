"""Chunks, rows of a file with the place of each, and the contract of what reads them.

Invariant: `places` has one entry for each row of `table`, ascending unless rows were put in order
of time. Every row of the file is in exactly one chunk: in its table, or among the refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl


ColumnType: TypeAlias = Literal["number", "listed", "flag", "text"]
"""How a column of a text file is read: "listed" are numbers that a rule lists by value, such as
codes of categories, "flag" is true or false. Other formats bring types of their own."""
ColumnTypes: TypeAlias = Mapping[str, ColumnType]
Table: TypeAlias = "pl.DataFrame | list[dict[str, Any]]"
Places: TypeAlias = npt.NDArray[np.int64]


class BadLine(ValueError):
    """Says why a line cannot be read as a decision."""

    def __init__(self, why: str, code: str, column: str = "") -> None:
        super().__init__(why)
        self.code = code
        self.column = column


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Names a row that could not be read, or not be judged."""

    place: int
    """The row's line in a text file (from 1, header included), else its number (from 1)."""
    why: str
    code: str
    """The kind of reason; rows with the same code and column are counted together."""
    column: str = ""
    """The column that the reason is about, if it is about one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Holds rows of a file, in its order or in order of time (time_order.py)."""

    table: Table
    places: Places
    refused: tuple[RefusedRow, ...] = ()
    times: npt.NDArray[np.datetime64] | None = None
    """When each decision was made, in UTC, where a column of times is read."""

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, part: slice) -> "Chunk":
        """Return some of its rows, without those that were refused."""
        times = None if self.times is None else self.times[part]
        return Chunk(self.table[part], self.places[part], times=times)


def join_tables(tables: list[Table]) -> Table:
    """Join tables of one file, one after the other."""
    import polars as pl

    frames = [table for table in tables if isinstance(table, pl.DataFrame)]
    if frames:
        return pl.concat(frames, how="vertical_relaxed")
    return [row for table in tables if isinstance(table, list) for row in table]
