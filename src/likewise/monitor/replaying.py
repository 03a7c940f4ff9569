"""Recompute every verdict of a ledger, and say where one differs.

Verdicts that may have rested on rows that are gone (erased, or outside the window) are compared
only in part, and are counted separately.
Invariant: rows, counts and the nearest witnesses are compared to the last bit.
Cost: that of monitoring the whole ledger again, in memory.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.ledger.ledger import Ledger, StoredColumns
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.write_buffer import select_nearest
from likewise.monitor.best_match import make_slope_engine
from likewise.monitor.factory import make_reader
from likewise.monitor.monitor import Monitor, assemble_monitor
from likewise.monitor.readers.embedded_reader import pair_embedded
from likewise.monitor.readers.vector_reader import VectorReader
from likewise.rule.without_models import without_models
from likewise.search.engine.engine import Engine
from likewise.tables.array_types import Rows
from likewise.tables.frames import ColumnTable
from likewise.tables.printing import with_bounded_repr
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdicts import Verdicts


def make_monitor(
    ledger: Ledger, index: Any = "auto", *, comparable: bool = False, support: bool = False
) -> Monitor:
    """Make an empty monitor for the decisions of a ledger of contradictions."""
    ledger.require_contradictions()
    reader = make_reader(without_models(ledger.rule, ledger.vector_types()))
    reader.rule = ledger.rule
    engine = Engine(reader.vector_rule, index=index, comparable=comparable, support=support)
    return assemble_monitor(reader, engine)


def make_slope_monitor(ledger: Ledger, question: SlopeQuestion) -> Monitor:
    """Make an empty monitor for the decisions of a ledger of slopes."""
    return assemble_monitor(VectorReader(ledger.rule), make_slope_engine(ledger.rule, question))


def rejudge_slopes(
    monitor: Monitor, columns: StoredColumns, places: Rows, firsts: Rows
) -> Verdicts:
    """Find the steepest past pairs of rows of a ledger, each from its first row on.

    places  which decisions of the chunk
    firsts  rows of the monitor. A first row decides which pair is the steepest, so rows before it
            cannot be left out afterwards, as they can if all witnesses are named
    """
    outputs = [columns.outputs[i] for i in places.tolist()]
    batch = monitor.core.memory.reader.read_many(columns.inputs["input"][places], outputs)
    return monitor.core.memory.observe_many(batch, firsts, None)


def rejudge(
    monitor: Monitor, columns: StoredColumns, places: Rows, keys: Sequence[Any] | None = None
) -> Verdicts:
    """Judge rows of a ledger again.

    places  which decisions of the chunk
    keys    for a rule that takes them from a column
    """
    outputs = [columns.outputs[i] for i in places.tolist()]
    models = None if columns.models is None else [columns.models[i] for i in places.tolist()]
    if monitor.rule.features is None:
        return monitor.observe_many(columns.inputs["input"][places], outputs, models=models)
    table = {name: column[places].tolist() for name, column in columns.inputs.items()}
    for name, vectors in columns.vectors.items():
        table[name] = pair_embedded(table[name], vectors[places])
    key = monitor.rule.key_column
    if key is not None and keys is not None:
        table[key] = list(keys)
    return monitor.observe_many(ColumnTable(table), outputs, models=models)


@with_bounded_repr
@dataclass(frozen=True)
class Replay:
    """Says what a replay found."""

    rows: int
    """How many decisions were judged again."""
    partly_compared: int
    """How many of them were compared only in part, since rows that they rested on are gone."""
    skipped: int
    """How many decisions were erased, or never judged."""
    row: int | None = None
    """The first row whose verdict differs."""
    difference: str | None = None
    """How it differs."""

    @property
    def ok(self) -> bool:
        """Whether all verdicts are as they were written."""
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is not None:
            return f"row {self.row:,} differs: {self.difference}"
        part = f", {self.partly_compared:,} of them in part" if self.partly_compared else ""
        return f"{self.rows:,} verdicts recomputed{part}, all as they were written"


def replay(path: str | os.PathLike[str], *, index: Any = "auto") -> Replay:
    """Judge everything in a ledger again, and compare the verdicts with the stored ones.

    index: as for Monitor; slopes are always searched with a tree
    """
    with Ledger(path) as ledger:
        return _ReplayRun(ledger, index).run()


class _ReplayRun:
    def __init__(self, ledger: Ledger, index: Any) -> None:
        self._ledger = ledger
        question = ledger.question
        self._slopes = question is not None
        if question is None:
            self._monitor = make_monitor(ledger, index)
        else:
            self._monitor = make_slope_monitor(ledger, question)
        self._ledger_rows = np.empty(0, np.int64)  # the ledger's row for each of the monitor's
        self._gone: dict[int, int] = {  # by erased row: the row from which on it was missing
            row: since
            for event in ledger.events()
            if event.kind == "erased"
            for row, since in event.erasure_totals().items()
        }
        self._by_row = {  # by overruled row: the row that took its place
            event.get_integer("row"): event.get_integer("by_row")
            for event in ledger.events()
            if event.kind == "superseded"
        }
        self._judged = self._in_part = self._skipped = 0

    def run(self) -> Replay:
        difference: tuple[int, str] | None = None
        for columns in self._ledger.columns():
            difference = self._judge(columns)
            if difference is not None:
                break
        return Replay(self._judged, self._in_part, self._skipped, *(difference or ()))

    def _judge(self, columns: StoredColumns) -> tuple[int, str] | None:
        """Judge a chunk again; return the first row that differs, and how."""
        places = np.flatnonzero(~columns.erased)
        self._skipped += int(columns.erased.sum())
        if len(places) == 0:
            return None
        rows = columns.first + places
        self._ledger_rows = np.concatenate([self._ledger_rows, rows])
        if self._slopes:
            firsts = np.searchsorted(self._ledger_rows, columns.decisions.firsts[places])
            verdicts = rejudge_slopes(self._monitor, columns, places, firsts)
        else:
            # A key does not affect a verdict, and may have been erased: the row's number will do.
            verdicts = rejudge(self._monitor, columns, places, rows.tolist())
        return self._compare(columns, places, verdicts)

    def _compare(
        self, columns: StoredColumns, places: Rows, verdicts: Verdicts
    ) -> tuple[int, str] | None:
        decisions = columns.decisions
        firsts = decisions.firsts[places]
        named, owners = self._ledger_rows[verdicts.witnesses.rows], verdicts.owners
        within = (named >= firsts[owners]) & ~self._mask_superseded(
            named, columns.first + places[owners]
        )
        again = verdicts.select_witnesses(within)
        written = decisions.witnesses.nearest_first()
        nearest = select_nearest(again, max(1, len(again.witnesses))).nearest_first()
        counts = again.counts.tolist()
        for k, i in enumerate(places.tolist()):
            row, count = columns.first + i, int(decisions.counts[i])
            if count == NOT_JUDGED:
                self._skipped += 1
                continue
            self._judged += 1
            lost = self._count_gone(int(firsts[k]), row)
            self._in_part += lost > 0
            recomputed = nearest.of(k).copy()
            recomputed["row"] = self._ledger_rows[recomputed["row"]]
            difference = _describe_difference(
                count, written.of(i), counts[k], recomputed, lost, self._ledger.first, self._gone
            )
            if difference:
                return row, difference
        return None

    def _mask_superseded(self, named: Rows, rows: Rows) -> "np.ndarray[Any, Any]":
        """Mark the named rows that had been overruled when the other rows were judged."""
        since = np.array([self._by_row.get(row, 1 << 62) for row in named.tolist()], np.int64)
        return since <= rows

    def _count_gone(self, first: int, row: int) -> int:
        """Count the rows that a verdict was about and that are gone since."""
        dropped = max(0, min(self._ledger.first, row) - first)
        erased = sum(first <= one < row < since for one, since in self._gone.items())
        return dropped + erased


def _describe_difference(
    count: int,
    stored: Any,
    again: int,
    recomputed: Any,
    lost: int,
    first_kept: int,
    gone: dict[int, int],
) -> str | None:
    """Say how a verdict differs from the one made again; None if it does not.

    count, stored       how many witnesses were written, and the nearest of them
    again, recomputed   likewise, now
    lost                how many rows are gone that the verdict was about
    """
    if not again <= count <= again + lost:
        witnesses_were = "1 witness was" if count == 1 else f"{count} witnesses were"
        is_are = "is" if again == 1 else "are"
        return f"{witnesses_were} written, and there {is_are} {again}"
    left = [one for one in stored.tolist() if one[0] >= first_kept and one[0] not in gone]
    nearest = recomputed.tolist()[: len(left)]
    if not _are_same(left, nearest):
        return f"its nearest witnesses were written as {left}, and are {nearest}"
    return None


def _are_same(
    stored: list[tuple[int, float, float]], again: list[tuple[int, float, float]]
) -> bool:
    """Whether rows and distances are the same; if an erasure destroyed those, the rows alone."""
    if any(math.isnan(near) for _, near, _ in stored):
        return sorted(row for row, *_ in stored) == sorted(row for row, *_ in again)
    return stored == again
