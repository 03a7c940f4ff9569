"""Adapt FAISS's flat scan: the paper's first monitor, without its cap on neighbours.

FAISS stores float32 and compares in its own way, so it searches slightly beyond the radius: its
answer proposes, and never decides.
Invariant: the margin exceeds the rounding of both points to float32 and of the sums over them.
Cost: every row, for every decision.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import faiss
import numpy as np
import numpy.typing as npt

from likewise.search.indexes.protocol import GrowingPoints, Point, Points, Rows, Space

_CUT = np.float32(1e15)  # so that squares stay finite; clamping never lengthens a gap
_LARGEST = 3e38  # that FAISS takes; no square of a clamped value comes near it
_FIRST = 64  # neighbours asked for at first, where FAISS cannot be asked for a radius


@contextmanager
def _single_thread() -> Iterator[None]:
    """Search with one thread: several would wait for each other on a busy machine."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


class Brute:
    """Wraps an IndexFlat, and holds the rows in it."""

    def __init__(self, space: Space) -> None:
        kinds = {"linf": faiss.METRIC_Linf, "l1": faiss.METRIC_L1, "l2": faiss.METRIC_L2}
        self._metric = space.metric
        self._index = faiss.IndexFlat(space.width, kinds[space.metric])
        self._rows = GrowingPoints(0)
        self._asked = _FIRST
        many = {"linf": 1.0, "l1": float(space.width), "l2": float(np.sqrt(space.width))}
        self._slip = many[space.metric] * 2.0**-22
        self._relative = 1.0 + (space.width + 8) * 2.0**-22
        self._farthest = 0.0

    def _single(self, points: Points) -> npt.NDArray[np.float32]:
        single = np.clip(points, -_CUT, _CUT).astype(np.float32)
        self._farthest = max(self._farthest, float(np.abs(single).max(initial=0.0)))
        return single

    def add(self, row: int, point: Point) -> None:
        self.add_many(np.array([row]), point[None])

    def add_many(self, rows: Rows, points: Points) -> None:
        self._index.add(self._single(points))
        self._rows.add(rows, np.empty((len(rows), 0)), len(rows))

    def candidates(self, point: Point, reach: float) -> Rows:
        rows = self._rows.rows
        if len(rows) == 0:
            return rows
        query = self._single(point[None])
        wide = (reach + self._slip * self._farthest) * self._relative
        if self._metric == "l2":
            with _single_thread():
                _, _, found = self._index.range_search(query, min(wide * wide, _LARGEST))
            return np.asarray(rows[found])
        while True:
            k = min(self._asked, len(rows))
            with _single_thread():
                gaps, found = self._index.search(query, k)
            near = int(np.searchsorted(gaps[0], wide, side="right"))
            if near < k or k == len(rows):
                self._asked = max(_FIRST, self._asked // 2 if near < k // 4 else k)
                return np.asarray(rows[found[0, :near]])
            self._asked = 4 * k

    def explain(self) -> str:
        return f"{self._rows.count:,} rows, all of them looked at"
