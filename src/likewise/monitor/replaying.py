"""Recompute every verdict of a ledger, and say where one differs.

What was erased, or has left the window, cannot be compared with again. A verdict that may have
rested on such rows is compared in what is left of it, and counted apart.

Invariant: rows, counts and the nearest witnesses are compared to the last bit.
Cost: that of monitoring the whole ledger again, in memory.
"""

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.ledger.ledger import Ledger, StoredColumns
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.write_buffer import select_nearest
from likewise.monitor.rejudge import make_monitor, make_slope_monitor, rejudge, rejudge_slopes
from likewise.tables.printing import with_bounded_repr
from likewise.tables.rows import Rows
from likewise.verdict.verdicts import Verdicts


@with_bounded_repr
@dataclass(frozen=True)
class Replay:
    """What a replay found."""

    rows: int
    """Decisions that were judged again."""
    in_part: int
    """Of them, those compared only in part: rows that they rested on are gone."""
    skipped: int
    """Decisions that were erased, or never judged."""
    row: int | None = None
    """The first whose verdict differs."""
    difference: str | None = None

    @property
    def ok(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is not None:
            return f"row {self.row:,} differs: {self.difference}"
        part = f", {self.in_part:,} of them in part" if self.in_part else ""
        return f"{self.rows:,} verdicts recomputed{part}, all as they were written"


def replay(path: str | os.PathLike[str], *, index: Any = "auto") -> Replay:
    """Judge everything in a ledger again.

    index: as for Monitor; slopes are always looked for in a tree
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
        self._ledger_rows = np.empty(0, np.int64)  # by row of the monitor: the ledger's
        self._gone: dict[int, int] = {  # by erased row: from which row on it was missing
            row: since
            for event in ledger.events()
            if event.kind == "erased"
            for row, since in event.erasure_totals().items()
        }
        self._by_row = {  # by overruled row: the one that took its place
            event.get_integer("row"): event.get_integer("by_row")
            for event in ledger.events()
            if event.kind == "superseded"
        }
        self._judged = self._in_part = self._skipped = 0

    def run(self) -> Replay:
        for columns in self._ledger.columns():
            found = self._judge(columns)
            if found is not None:
                return Replay(self._judged, self._in_part, self._skipped, *found)
        return Replay(self._judged, self._in_part, self._skipped)

    def _judge(self, columns: StoredColumns) -> tuple[int, str] | None:
        """Judge a chunk again; the first row that differs, and how."""
        there = np.flatnonzero(~columns.erased)
        self._skipped += int(columns.erased.sum())
        if len(there) == 0:
            return None
        self._ledger_rows = np.concatenate([self._ledger_rows, columns.first + there])
        return self._compare(columns, there, self._verdicts(columns, there))

    def _verdicts(self, columns: StoredColumns, there: Rows) -> Verdicts:
        if self._slopes:
            firsts = np.searchsorted(self._ledger_rows, columns.decisions.firsts[there])
            return rejudge_slopes(self._monitor, columns, there, firsts)
        # A key takes no part in a verdict, and was perhaps erased: a row's number will do.
        return rejudge(self._monitor, columns, there, (columns.first + there).tolist())

    def _compare(
        self, columns: StoredColumns, there: Rows, verdicts: Verdicts
    ) -> tuple[int, str] | None:
        some = columns.decisions
        firsts = some.firsts[there]
        named, owners = self._ledger_rows[verdicts.witnesses.rows], verdicts.owners
        within = (named >= firsts[owners]) & ~self._mask_superseded(
            named, columns.first + there[owners]
        )
        again = verdicts.select_witnesses(within)
        written = some.witnesses.nearest_first()
        kept = select_nearest(again, max(1, len(again.witnesses))).nearest_first()
        counts = again.counts.tolist()
        for k, i in enumerate(there.tolist()):
            row, count = columns.first + i, int(some.counts[i])
            if count == NOT_JUDGED:
                self._skipped += 1
                continue
            self._judged += 1
            lost = self._count_gone(int(firsts[k]), row)
            self._in_part += lost > 0
            stored = written.of(i)
            mine = kept.of(k).copy()
            mine["row"] = self._ledger_rows[mine["row"]]
            found = _difference(
                count, stored, counts[k], mine, lost, self._ledger.first, self._gone
            )
            if found:
                return row, found
        return None

    def _mask_superseded(self, named: Rows, rows: Rows) -> "np.ndarray[Any, Any]":
        """Which rows that are named had been overruled when the others were judged."""
        since = np.array([self._by_row.get(row, 1 << 62) for row in named.tolist()], np.int64)
        return since <= rows

    def _count_gone(self, first: int, row: int) -> int:
        """Rows that a verdict ranged over and that are gone since."""
        dropped = max(0, min(self._ledger.first, row) - first)
        erased = sum(first <= one < row < since for one, since in self._gone.items())
        return dropped + erased


def _difference(
    count: int, stored: Any, again: int, mine: Any, lost: int, dropped: int, gone: dict[int, int]
) -> str | None:
    """How a verdict differs from the one made again; None if it does not."""
    if not again <= count <= again + lost:
        some = "1 witness was" if count == 1 else f"{count} witnesses were"
        is_are = "is" if again == 1 else "are"
        return f"{some} written, and there {is_are} {again}"
    left = [one for one in stored.tolist() if one[0] >= dropped and one[0] not in gone]
    nearest = mine.tolist()[: len(left)]
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
