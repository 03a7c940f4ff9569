"""Which model decided each row: the column that says it."""

from typing import Any

from likewise.sources.chunk import Table
from likewise.values.frames import ColumnTable


def models_in(table: "Table | ColumnTable", column: str) -> list[str | None]:
    """The models of rows; None for a row without one."""
    if isinstance(table, ColumnTable):
        values: Any = table.columns.get(column, [None] * len(table))
    else:
        values = [row.get(column) for row in table] if isinstance(table, list) else table[column]
    return [None if value is None or value == "" else str(value) for value in values]
