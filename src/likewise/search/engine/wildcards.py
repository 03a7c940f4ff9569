"""Compare rows that have wildcards: coordinates that match everything.

No index can place such a row, so every query is compared with all of them, and a query that has
wildcards itself with the whole history. The kernel compares, with the wildcards' weights set to 0.
Invariant: a pair is compared in the coordinates in which neither of its rows has a wildcard.
Cost: one distance for each row that a query is compared with.
"""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from likewise.search.engine.chooser import Index
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.live_tree import outputs_ignored
from likewise.search.kernels import propose as task
from likewise.search.kernels import table as t
from likewise.search.kernels.propose import propose
from likewise.tables.array_types import Floats, Rows
from likewise.verdict.witnesses import Witnesses

Pattern = bytes
WildcardMask = npt.NDArray[np.bool_]
"""For each coordinate of a row, or of each row of a batch: whether it matches everything."""


class Wildcards:
    """Holds the rows of a history that have wildcards, grouped by their mask."""

    def __init__(self) -> None:
        self._rows: dict[Pattern, list[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add(self, row: int, left_open: WildcardMask) -> None:
        if left_open.any():
            self._rows.setdefault(left_open.tobytes(), []).append(row)

    def open_places(self, row_count: int) -> WildcardMask:
        """Return the masks of the first rows, of which at least one has wildcards."""
        width = len(next(iter(self._rows)))
        masks = np.zeros((row_count, width), np.bool_)
        for pattern, rows in self._rows.items():
            masks[rows] = np.frombuffer(pattern, np.bool_)
        return masks

    def erase(self, rows: Rows) -> None:
        erased = set(rows.tolist())
        for pattern, held in self._rows.items():
            self._rows[pattern] = [row for row in held if row not in erased]

    def settle(self, row_count: int) -> None:
        """Roll back to the first rows after a call that was interrupted."""
        for pattern, rows in self._rows.items():
            self._rows[pattern] = [row for row in rows if row < row_count]

    def _masks_in(self, first: int, stop: int) -> list[tuple[WildcardMask, Rows]]:
        """Return each mask with its rows from `first` up to `stop`."""
        return [
            (
                np.frombuffer(pattern, np.bool_),
                np.array(rows[bisect_left(rows, first) : bisect_left(rows, stop)], np.int64),
            )
            for pattern, rows in self._rows.items()
        ]

    def judge(
        self, history: History, index: Index, row: int, left_open: WildcardMask, found: Witnesses
    ) -> Witnesses:
        """Return all witnesses of a written row; `found` are those among rows without wildcards."""
        has_wildcards = bool(left_open.any())
        if not has_wildcards and not self._rows:
            return found
        by_mask = self._masks_in(0, row)
        if has_wildcards:
            others = np.flatnonzero(~self.mask(row))
            parts = [_witnesses_among(history, index, row, others, left_open)]
        else:
            with_wildcards = np.concatenate([rows for _, rows in by_mask])
            parts = [found.select(~np.isin(found.rows, with_wildcards)).columns()]
        for mask, rows in by_mask:
            parts.append(_witnesses_among(history, index, row, rows, left_open | mask))
        rows, near, far = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(rows)
        return Witnesses(rows[order], near[order], far[order])

    def count(
        self, history: History, index: Index, row: int, left_open: WildcardMask, first: int
    ) -> int:
        """Return how many rows from `first` on are near a written row; outputs are ignored."""
        others = first + np.flatnonzero(~self.mask(row)[first:])
        count = len(_witnesses_among(history, index, row, others, left_open)[0])
        for mask, rows in self._masks_in(first, row):
            count += len(_witnesses_among(history, index, row, rows, left_open | mask)[0])
        return count

    def find_comparable(
        self,
        history: History,
        index: Index,
        row: int,
        left_open: WildcardMask,
        first: int,
        found: int,
    ) -> int:
        """Return a row from `first` on that is near a written one; -1 if there is none.

        found: the one that the index found, which ignores wildcards
        """
        has_wildcards = bool(left_open.any())
        if not has_wildcards and (not self._rows or (found >= 0 and not self._is_open(found))):
            return found
        with outputs_ignored(index.state):
            for mask, rows in self._masks_in(first, row):
                near = _witnesses_among(history, index, row, rows, left_open | mask)[0]
                if len(near):
                    return int(near[0])
            if not has_wildcards and found < 0:
                return -1
            # `found` has wildcards, or the index could not place this row: compare with all others
            others = first + np.flatnonzero(~self.mask(row)[first:])
            near = _witnesses_among(history, index, row, others, left_open)[0]
            return int(near[0]) if len(near) else -1

    def find_near(
        self, history: History, index: Index, row: int, left_open: WildcardMask, found: Rows
    ) -> Rows:
        """Return all rows near a written one; `found` are those among rows without wildcards."""
        distances = np.zeros(len(found))
        with outputs_ignored(index.state):
            return self.judge(
                history, index, row, left_open, Witnesses(found, distances, distances)
            ).rows

    def _is_open(self, row: int) -> bool:
        places = ((rows, bisect_left(rows, row)) for rows in self._rows.values())
        return any(at < len(rows) and rows[at] == row for rows, at in places)

    def mask(self, row_count: int) -> npt.NDArray[np.bool_]:
        """Return which of the first rows have wildcards."""
        mask = np.zeros(row_count, dtype=np.bool_)
        for rows in self._rows.values():
            mask[rows[: bisect_left(rows, row_count)]] = True
        return mask

    def near_pairs(self, history: History, index: Index) -> Iterator[tuple[int, Rows, Floats]]:
        """Yield rows with the earlier rows near them and their distances; outputs are ignored.

        At least one row of each pair has wildcards.
        """
        by_mask = self._masks_in(0, history.total)
        masks = {row: mask for mask, rows in by_mask for row in rows.tolist()}
        alive = np.flatnonzero(history.remembered_flags())
        others = alive[~self.mask(history.total)[alive]]
        no_wildcards = np.zeros(history.width, dtype=np.bool_)
        for row in alive.tolist():
            left_open = masks.get(row, no_wildcards)
            parts = []
            if row in masks:
                earlier = others[: others.searchsorted(row)]
                parts.append(_witnesses_among(history, index, row, earlier, left_open))
            for mask, rows in by_mask:
                earlier = rows[: rows.searchsorted(row)]
                if len(earlier):
                    both = left_open | mask
                    parts.append(_witnesses_among(history, index, row, earlier, both))
            if parts:
                near_rows, near = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
                order = np.argsort(near_rows)
                yield row, near_rows[order], near[order]


def _witnesses_among(
    history: History, index: Index, row: int, rows: Rows, left_open: WildcardMask
) -> tuple[Rows, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the witnesses of a written row among others, some coordinates left out."""
    table, scratch = index.state.table, index.state.scratch
    weights = history.weights.copy()
    weights[: history.width][left_open] = 0.0
    outputs = history.region(t.OUTPUTS).view(np.float64, (row + 1) * history.out_width)
    given = scratch.small[t.GIVEN].copy()
    if row < history.total:
        scratch.small[t.GIVEN][:] = outputs[row * history.out_width :]
    scratch.set_candidates(rows)
    table[t.FIRST], table[t.STOP], table[t.WEIGHTS] = row, len(rows), weights.ctypes.data
    table[t.TASK] = task.DECIDE
    try:
        found = propose(index.state.address)
    finally:
        table[t.WEIGHTS], table[t.TASK] = history.weights.ctypes.data, 0
        scratch.small[t.GIVEN][:] = given
    return scratch.results(found)[:3]
