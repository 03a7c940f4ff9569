"""Rows with places that match everything, compared with those places left out.

No index can place such a row, so every query looks at all of them, and a query that has such places
itself looks at the whole history. The comparison is the kernel's own, with the weights of the
places left out set to 0.

Invariant: a pair is compared in the coordinates that neither of its rows leaves open.
Cost: as many distances as there are rows that a look takes in.
"""

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from likewise.engine.chooser import Index
from likewise.history.decisions import History
from likewise.kernels import propose as task
from likewise.kernels import table as t
from likewise.kernels.propose import propose
from likewise.values.verdicts import Rows, Witnesses

Pattern = bytes
Open = npt.NDArray[np.bool_]
"""For each coordinate of a row: whether it matches everything."""
Opens = npt.NDArray[np.bool_]
"""The same for each row of a batch."""


class Wildcards:
    """The rows of a history by what they leave open; those that leave nothing open aside."""

    def __init__(self) -> None:
        self._rows: dict[Pattern, list[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add(self, row: int, left_open: Open) -> None:
        if left_open.any():
            self._rows.setdefault(left_open.tobytes(), []).append(row)

    def erase(self, rows: Rows) -> None:
        gone = set(rows.tolist())
        for pattern, known in self._rows.items():
            self._rows[pattern] = [row for row in known if row not in gone]

    def settle(self, rows: int) -> None:
        """After a call that was cut off: have the first `rows` rows and no others."""
        for pattern, known in self._rows.items():
            self._rows[pattern] = [row for row in known if row < rows]

    def judge(
        self, history: History, index: Index, row: int, left_open: Open, found: Witnesses
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
            parts.append(_among(history, index, row, whole, left_open))
        else:
            kept = ~np.isin(found.rows, every)
            parts.append(
                (found.rows[kept], found.input_distances[kept], found.output_distances[kept])
            )
        for pattern, rows in apart.items():
            both = left_open | np.frombuffer(pattern, np.bool_)
            parts.append(_among(history, index, row, rows[rows < row], both))
        rows, near, far = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(rows)
        return Witnesses(rows[order], near[order], far[order])

    def count(self, history: History, index: Index, row: int, left_open: Open, first: int) -> int:
        """How many rows from `first` on are near a written row; the index takes any output."""
        apart = {
            pattern: np.array(rows[bisect_left(rows, first) : bisect_left(rows, row)], np.int64)
            for pattern, rows in self._rows.items()
        }
        every = np.concatenate([*apart.values(), np.empty(0, np.int64)])
        whole = np.setdiff1d(np.arange(first, row), every, assume_unique=True)
        found = len(_among(history, index, row, whole, left_open)[0])
        for pattern, rows in apart.items():
            both = left_open | np.frombuffer(pattern, np.bool_)
            found += len(_among(history, index, row, rows, both)[0])
        return found


def _among(
    history: History, index: Index, row: int, rows: Rows, left_open: Open
) -> tuple[Rows, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The witnesses of a written row among others, some coordinates left out."""
    table, desk = index.state.table, index.state.desk
    weights = history.weights.copy()
    weights[: history.width][left_open] = 0.0
    outputs = history.region(t.OUTPUTS).view(np.float64, (row + 1) * history.out_width)
    given = desk.small[t.GIVEN].copy()
    if row < history.total:
        desk.small[t.GIVEN][:] = outputs[row * history.out_width :]
    desk.propose(rows)
    table[t.FIRST], table[t.STOP], table[t.WEIGHTS] = row, len(rows), weights.ctypes.data
    table[t.TASK] = task.DECIDE
    try:
        found = propose(index.state.address)
    finally:
        table[t.WEIGHTS], table[t.TASK] = history.weights.ctypes.data, 0
        desk.small[t.GIVEN][:] = given
    return desk.results(found)[:3]
