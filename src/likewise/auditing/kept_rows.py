"""Keeps rows of a file as they were read, to show both sides of a pair.

A monitor remembers what is compared. Someone who reviews a pair needs the rest, too: where it stood
in the file, when it was decided, and the columns that the rule ignores.

Invariant: `take(rows)` has the values of those rows of the history as the file has them, each
column under its name with ": " before it, `_row`, `_line` and, with times, `_time_utc`.
Cost: the chosen columns of the file in memory, as Polars stores them.
Not here: what is made of pairs (pair_files.py).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from likewise.explaining.pairs import DecisionOrigin
from likewise.reports.findings import Findings
from likewise.reports.selected_pairs import WorstPair
from likewise.sources.protocol import Chunk, Table
from likewise.tables.array_types import Rows
from likewise.tables.codec import json_value
from likewise.tables.times import readable_time

LINE, ROW, TIME = "_line", "_row", "_time_utc"
_TOGETHER = 1 << 16  # the fewest rows in a frame, except the last one
_EXACT = 2**53  # floats hold every whole number up to here


class KeptRows:
    """Keeps rows of the history, in their order.

    columns   the columns of the file to keep
    ignored   those of them that the rule ignores, to be shown with a pair
    unit      what a place counts: lines of a file, or rows
    """

    def __init__(self, columns: Sequence[str], ignored: Sequence[str], unit: str) -> None:
        self.columns = tuple(columns)
        self._ignored = tuple(ignored)
        self._unit = unit
        self._frames: list[pl.DataFrame] = []
        self._starts: list[int] = []
        self._last: list[pl.DataFrame] = []
        self._rows = 0

    def add(self, rows: Chunk) -> None:
        """Add the next rows."""
        columns = [pl.Series(LINE, rows.places, dtype=pl.Int64)]
        if rows.times is not None:
            columns.append(pl.Series(TIME, rows.times, dtype=pl.Datetime("us")))
        columns += [_column(rows.table, name).alias(f": {name}") for name in self.columns]
        if sum(one.height for one in self._last) >= _TOGETHER:
            self._last = []
        if not self._last:
            self._starts.append(self._rows)
            self._frames.append(pl.DataFrame())
        self._last.append(pl.DataFrame(columns))
        self._rows += len(rows)

    def take(self, rows: Rows) -> pl.DataFrame:
        """Return these rows, in this order."""
        if len(self._last) > 1 or (self._last and self._frames[-1].height == 0):
            self._last = [stack_frames(self._last)]
        if self._last:
            self._frames[-1] = self._last[0]
        which = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(which, kind="stable")
        parts = [
            self._frames[frame][rows[which == frame] - self._starts[frame]]
            for frame in np.unique(which).tolist()
        ]
        if not parts:
            parts = [self._frames[0][:0]] if self._frames else [pl.DataFrame()]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        taken = stack_frames(parts)
        taken = taken[back] if len(parts) > 1 else taken
        return taken.with_columns(pl.Series(ROW, rows, dtype=pl.Int64))

    def add_origins(self, worst: WorstPair) -> WorstPair:
        """Add where the decisions of a pair stood, when they were made, and ignored columns."""
        pair = worst.pair
        taken = self.take(np.array([pair.row, pair.witness.row])).to_dicts()
        later, earlier = (
            DecisionOrigin(
                row[LINE],
                self._unit,
                readable_time(row[TIME]) if TIME in row else None,
                tuple((name, row[f": {name}"]) for name in self._ignored),
            )
            for row in taken
        )
        return WorstPair(pair, worst.omitted_columns, later, earlier)

    def add_all_origins(self, findings: Findings) -> Findings:
        """Add what `add_origins` adds to all pairs of findings; nothing where they have it."""
        if all(one.later is not None for one in findings.worst):
            return findings
        return replace(findings, worst=tuple(map(self.add_origins, findings.worst)))


def stack_frames(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Stack frames with the same columns; columns whose types do not agree become text."""
    if len(frames) == 1:
        return frames[0]
    types = common_types([frame.schema for frame in frames])
    exact = [name for name, kind in types.items() if kind == pl.Float64 and _rounds(frames, name)]
    types |= dict.fromkeys(exact, pl.String())
    return pl.concat([frame.cast(dict(types)) for frame in frames], rechunk=True)  # type: ignore[arg-type]


def common_types(schemas: Sequence[Any]) -> dict[str, pl.DataType]:
    """Return a type for each column that fits all these frames; text where there is no other."""
    types = {}
    for name in schemas[0]:
        seen = {schema[name] for schema in schemas} - {pl.Null()}
        kind = seen.pop() if seen else pl.Null()
        if seen:
            kind = pl.Float64() if all(one.is_numeric() for one in {kind, *seen}) else pl.String()
        types[name] = kind
    return types


def _rounds(frames: Sequence[pl.DataFrame], name: str) -> bool:
    """Tell whether whole numbers of this column are too large to be floats."""
    whole = [frame[name] for frame in frames if frame[name].dtype.is_integer()]
    return any(bool(((one > _EXACT) | (one < -_EXACT)).any()) for one in whole)


def _column(table: Table, name: str) -> pl.Series:
    """Return a column as the file has it; in JSON lines, other than text and numbers stays JSON."""
    if not isinstance(table, list):
        return table[name]
    values = [row.get(name) for row in table]
    kinds = {type(value) for value in values} - {type(None)}
    whole = [value for value in values if type(value) is int]
    largest = max(map(abs, whole), default=0)
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds == {int} and largest < 2**63:
        return pl.Series(values, dtype=pl.Int64)
    if kinds and kinds <= {int, float} and largest <= _EXACT:
        return pl.Series([None if value is None else float(value) for value in values])
    return pl.Series([_text(value) for value in values], dtype=pl.String if kinds else pl.Null)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(json_value(value) if isinstance(value, float) else value)
