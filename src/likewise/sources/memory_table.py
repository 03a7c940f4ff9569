"""Reads a table in memory as files are read: a frame of pandas, Polars or Arrow, or a list of rows.

Invariant: a place is the position of a row, from 0, as `frame.iloc` counts.
Cost: Polars frames and Arrow tables are not copied; others become a Polars frame, or rows where a
column has values of several types.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from likewise.errors import BadTable
from likewise.sources.chunk_reader import ChunkReader
from likewise.sources.file_source import DecisionFile
from likewise.sources.protocol import Chunk, ColumnTypes, Table
from likewise.sources.remarks import Remark
from likewise.tables.frames import as_row, is_missing, table_columns
from likewise.tables.normalize import to_python_scalar

NAME = "the table"


class _NoBytes:
    """Stands for the bytes of a file: a table in memory has none."""

    name = NAME
    size = None
    position = 0
    is_rereadable = True
    remarks: tuple[Remark, ...] = ()

    def digest(self, *, by_name: bool = False) -> None:
        """Return no checksum."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class MemoryTable(ChunkReader):
    """Reads the rows of a table."""

    unit = "row"

    def __init__(self, table: Table) -> None:
        self._table = table
        if isinstance(table, list):
            self.columns = list(dict.fromkeys(name for row in table for name in row))
        else:
            self.columns = table.columns
        self.rows = len(table)

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        table = self._table if isinstance(self._table, list) else self._table.select(columns)
        for start in range(0, len(table), rows):
            part = table[start : start + rows]
            yield Chunk(part, np.arange(start, start + len(part), dtype=np.int64))


def open_table(table: Any) -> DecisionFile:
    """Open a table in memory, to be read once; raise BadTable or BadDecision."""
    reader = MemoryTable(_read_table(table))
    if not reader.columns:
        raise BadTable(f"{NAME} has no rows; expected decisions.", path=NAME)
    return DecisionFile(_NoBytes(), reader, "table")


def _read_table(table: Any) -> Table:
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        return [dict(row) for row in table]
    if type(table).__module__.partition(".")[0] == "pyarrow":
        return pl.DataFrame(table)
    columns = table_columns([as_row(row) for row in table] if isinstance(table, list) else table)
    try:
        return pl.DataFrame([_make_series(name, values) for name, values in columns.items()])
    except (TypeError, OverflowError, pl.exceptions.PolarsError):  # values of several types
        rows = zip(*(_list_values(values) for values in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _make_series(name: Any, values: Any) -> pl.Series:
    return pl.Series(name, values if isinstance(values, np.ndarray) else _list_values(values))


def _list_values(values: Any) -> list[Any]:
    return [None if is_missing(value) else to_python_scalar(value) for value in list(values)]
