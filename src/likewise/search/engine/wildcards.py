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
from likewise.search.indexes.compiled_index import WitnessColumns, decide_among, outputs_ignored
from likewise.search.kernels import table as t
from likewise.tables.array_types import Floats, NearRows, Rows
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

    def judge(self, index: Index, row: int, left_open: WildcardMask, found: Witnesses) -> Witnesses:
        """Return all witnesses of a written row; `found` are those among rows without wildcards."""
        has_wildcards = bool(left_open.any())
        if not has_wildcards and not self._rows:
            return found
        parts = list(self._compare(index, row, left_open, 0, others=has_wildcards))
        if not has_wildcards:
            with_wildcards = np.concatenate([rows for _, rows in self._masks_in(0, row)])
            parts.append(found.select(~np.isin(found.rows, with_wildcards)).columns())
        rows, near, far = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(rows)
        return Witnesses(rows[order], near[order], far[order])

    def _compare(
        self, index: Index, row: int, left_open: WildcardMask, first: int, *, others: bool = True
    ) -> Iterator[WitnessColumns]:
        """Yield the witnesses of a written row among the rows from `first` on, in several parts.

        others: whether rows without wildcards are compared, too, after those with wildcards
        """
        for mask, rows in self._masks_in(first, row):
            yield _witnesses_among(index, row, rows, left_open | mask)
        if others:
            rows = first + np.flatnonzero(~self.mask(row)[first:])
            yield _witnesses_among(index, row, rows, left_open)

    def count(self, index: Index, row: int, left_open: WildcardMask, first: int) -> int:
        """Return how many rows from `first` on are near a written row; outputs are ignored."""
        return sum(len(rows) for rows, _, _ in self._compare(index, row, left_open, first))

    def count_near(
        self, index: Index, row: int, left_open: WildcardMask, first: int, found: int
    ) -> int:
        """Return how many rows from `first` on are near a written one, whatever their outputs.

        found: how many the index found, which takes no coordinate for a wildcard
        """
        with outputs_ignored(index.state):
            if left_open.any():
                return self.count(index, row, left_open, first)
            for mask, rows in self._masks_in(first, row):
                found += len(_witnesses_among(index, row, rows, mask)[0])
                found -= len(_witnesses_among(index, row, rows, left_open)[0])
        return found

    def find_comparable(
        self, index: Index, row: int, left_open: WildcardMask, first: int, found: int
    ) -> int:
        """Return a row from `first` on that is near a written one; -1 if there is none.

        found: the one that the index found, which ignores wildcards
        """
        has_wildcards = bool(left_open.any())
        if not has_wildcards and (not self._rows or (found >= 0 and not self._is_open(found))):
            return found
        # If `found` has wildcards, or the index could not place this row, all are compared.
        others = has_wildcards or found >= 0
        with outputs_ignored(index.state):
            for rows, _, _ in self._compare(index, row, left_open, first, others=others):
                if len(rows):
                    return int(rows[0])
        return -1

    def find_near(
        self, index: Index, row: int, left_open: WildcardMask, found: NearRows
    ) -> NearRows:
        """Return all rows near a written one; `found` are those among rows without wildcards."""
        rows, distances = found
        with outputs_ignored(index.state):
            near = self.judge(index, row, left_open, Witnesses(rows, distances, distances))
        return near.rows, near.input_distances

    def _is_open(self, row: int) -> bool:
        places = ((rows, bisect_left(rows, row)) for rows in self._rows.values())
        return any(at < len(rows) and rows[at] == row for rows, at in places)

    def mask(self, row_count: int) -> npt.NDArray[np.bool_]:
        """Return which of the first rows have wildcards."""
        mask = np.zeros(row_count, dtype=np.bool_)
        for rows in self._rows.values():
            mask[rows[: bisect_left(rows, row_count)]] = True
        return mask

    def near_pairs(self, index: Index) -> Iterator[tuple[int, Rows, Floats]]:
        """Yield rows with the earlier rows near them and their distances; outputs are ignored.

        At least one row of each pair has wildcards.
        """
        history = index.state.history
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
                parts.append(_witnesses_among(index, row, earlier, left_open))
            for mask, rows in by_mask:
                earlier = rows[: rows.searchsorted(row)]
                if len(earlier):
                    both = left_open | mask
                    parts.append(_witnesses_among(index, row, earlier, both))
            if parts:
                near_rows, near = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
                order = np.argsort(near_rows)
                yield row, near_rows[order], near[order]


def _witnesses_among(index: Index, row: int, rows: Rows, left_open: WildcardMask) -> WitnessColumns:
    """Return the witnesses of a written row among others, some coordinates left out."""
    history = index.state.history
    weights = history.weights.copy()
    weights[: history.width][left_open] = 0.0
    return decide_among(index.state, row, rows, t.WEIGHTS, weights)
