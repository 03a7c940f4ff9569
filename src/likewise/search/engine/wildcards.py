"""Rows with places that match everything, compared with those places left out.

No index can place such a row, so every query looks at all of them, and a query that has such places
itself looks at the whole history. The comparison is the kernel's own, with the weights of the
places left out set to 0.

Invariant: a pair is compared in the coordinates that neither of its rows leaves open.
Cost: as many distances as there are rows that a look takes in.
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
from likewise.tables.rows import Floats, Rows
from likewise.verdict.witnesses import Witnesses

Pattern = bytes
WildcardMask = npt.NDArray[np.bool_]
"""For each coordinate of a row: whether it matches everything."""
WildcardMasks = npt.NDArray[np.bool_]
"""The same for each row of a batch."""


class Wildcards:
    """The rows of a history by what they leave open; those that leave nothing open aside."""

    def __init__(self) -> None:
        self._rows: dict[Pattern, list[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add(self, row: int, left_open: WildcardMask) -> None:
        if left_open.any():
            self._rows.setdefault(left_open.tobytes(), []).append(row)

    def open_places(self, rows: int) -> WildcardMasks:
        """What each of the first rows leaves open; there is one that does."""
        width = len(next(iter(self._rows)))
        places = np.zeros((rows, width), np.bool_)
        for pattern, known in self._rows.items():
            places[known] = np.frombuffer(pattern, np.bool_)
        return places

    def erase(self, rows: Rows) -> None:
        gone = set(rows.tolist())
        for pattern, known in self._rows.items():
            self._rows[pattern] = [row for row in known if row not in gone]

    def settle(self, rows: int) -> None:
        """After a call that was cut off: have the first `rows` rows and no others."""
        for pattern, known in self._rows.items():
            self._rows[pattern] = [row for row in known if row < rows]

    def judge(
        self, history: History, index: Index, row: int, left_open: WildcardMask, found: Witnesses
    ) -> Witnesses:
        """All witnesses of a written row, given those that an index found among whole rows."""
        mine = bool(left_open.any())
        if not mine and not self._rows:
            return found
        apart = {pattern: np.array(rows, np.int64) for pattern, rows in self._rows.items()}
        parts = []
        every = np.concatenate([*apart.values(), np.empty(0, np.int64)])
        if mine:
            whole = np.setdiff1d(np.arange(row), every, assume_unique=True)
            parts.append(_witnesses_among(history, index, row, whole, left_open))
        else:
            kept = ~np.isin(found.rows, every)
            parts.append(
                (found.rows[kept], found.input_distances[kept], found.output_distances[kept])
            )
        for pattern, rows in apart.items():
            both = left_open | np.frombuffer(pattern, np.bool_)
            parts.append(_witnesses_among(history, index, row, rows[rows < row], both))
        rows, near, far = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(rows)
        return Witnesses(rows[order], near[order], far[order])

    def count(
        self, history: History, index: Index, row: int, left_open: WildcardMask, first: int
    ) -> int:
        """How many rows from `first` on are near a written row; the index takes any output."""
        apart = {
            pattern: np.array(rows[bisect_left(rows, first) : bisect_left(rows, row)], np.int64)
            for pattern, rows in self._rows.items()
        }
        every = np.concatenate([*apart.values(), np.empty(0, np.int64)])
        whole = np.setdiff1d(np.arange(first, row), every, assume_unique=True)
        found = len(_witnesses_among(history, index, row, whole, left_open)[0])
        for pattern, rows in apart.items():
            both = left_open | np.frombuffer(pattern, np.bool_)
            found += len(_witnesses_among(history, index, row, rows, both)[0])
        return found

    def find_comparable(
        self,
        history: History,
        index: Index,
        row: int,
        left_open: WildcardMask,
        first: int,
        found: int,
    ) -> int:
        """A row from `first` on that is near a written one, or -1.

        found: one that an index found, to which no place is open
        """
        mine = bool(left_open.any())
        if not mine and (not self._rows or (found >= 0 and not self._is_open(found))):
            return found
        with outputs_ignored(index.state):
            for pattern, known in self._rows.items():
                rows = np.array(
                    known[bisect_left(known, first) : bisect_left(known, row)], np.int64
                )
                both = left_open | np.frombuffer(pattern, np.bool_)
                near = _witnesses_among(history, index, row, rows, both)[0]
                if len(near):
                    return int(near[0])
            if not mine and found < 0:
                return -1
            # What the index found is open, or it could not look for this row: compare with all.
            rows = np.arange(first, row)
            rows = rows[~self.mask(row)[first:]]
            near = _witnesses_among(history, index, row, rows, left_open)[0]
            return int(near[0]) if len(near) else -1

    def find_near(
        self, history: History, index: Index, row: int, left_open: WildcardMask, found: Rows
    ) -> Rows:
        """All rows near a written one, given those that an index found among whole rows."""
        distances = np.zeros(len(found))
        with outputs_ignored(index.state):
            return self.judge(
                history, index, row, left_open, Witnesses(found, distances, distances)
            ).rows

    def _is_open(self, row: int) -> bool:
        places = ((known, bisect_left(known, row)) for known in self._rows.values())
        return any(at < len(known) and known[at] == row for known, at in places)

    def mask(self, rows: int) -> npt.NDArray[np.bool_]:
        """Which of the first `rows` rows leave something open."""
        mask = np.zeros(rows, dtype=np.bool_)
        for known in self._rows.values():
            mask[known[: bisect_left(known, rows)]] = True
        return mask

    def near_pairs(self, history: History, index: Index) -> Iterator[tuple[int, Rows, Floats]]:
        """Remembered rows with the earlier ones near them, and how near; one of two is open.

        The index takes any output.
        """
        apart = {pattern: np.array(rows, np.int64) for pattern, rows in self._rows.items()}
        patterns = {row: pattern for pattern, rows in self._rows.items() for row in rows}
        alive = np.flatnonzero(history.remembered_flags())
        whole = alive[~self.mask(history.total)[alive]]
        nothing = np.zeros(history.width, dtype=np.bool_)
        for row in alive.tolist():
            left_open = nothing
            parts = []
            if row in patterns:
                left_open = np.frombuffer(patterns[row], np.bool_)
                earlier = whole[: whole.searchsorted(row)]
                parts.append(_witnesses_among(history, index, row, earlier, left_open))
            for pattern, rows in apart.items():
                earlier = rows[: rows.searchsorted(row)]
                if len(earlier):
                    both = left_open | np.frombuffer(pattern, np.bool_)
                    parts.append(_witnesses_among(history, index, row, earlier, both))
            if parts:
                found, near = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
                order = np.argsort(found)
                yield row, found[order], near[order]


def _witnesses_among(
    history: History, index: Index, row: int, rows: Rows, left_open: WildcardMask
) -> tuple[Rows, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The witnesses of a written row among others, some coordinates left out."""
    table, desk = index.state.table, index.state.scratch
    weights = history.weights.copy()
    weights[: history.width][left_open] = 0.0
    outputs = history.region(t.OUTPUTS).view(np.float64, (row + 1) * history.out_width)
    given = desk.small[t.GIVEN].copy()
    if row < history.total:
        desk.small[t.GIVEN][:] = outputs[row * history.out_width :]
    desk.set_candidates(rows)
    table[t.FIRST], table[t.STOP], table[t.WEIGHTS] = row, len(rows), weights.ctypes.data
    table[t.TASK] = task.DECIDE
    try:
        found = propose(index.state.address)
    finally:
        table[t.WEIGHTS], table[t.TASK] = history.weights.ctypes.data, 0
        desk.small[t.GIVEN][:] = given
    return desk.results(found)[:3]
