"""Split coordinates among several indexes; candidates are the rows that all of them propose.

For linf two points are near if they are near in every coordinate, so also in every part of them:
the rows proposed by all parts include every near one. (Gupta et al. 2025, Algorithm 2.)
Invariant: every row is in every part.
Cost: one search per part, in parallel threads; SciPy and the kernels release the interpreter lock.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from likewise.errors import BadRule
from likewise.runtime.forking import register_after_fork
from likewise.search.indexes.protocol import (
    ExplainableIndex,
    Index,
    MakeIndex,
    Point,
    Points,
    Rows,
    Space,
    add_all,
    rows_answered,
)

_PART_WIDTH = 1024  # coordinates below which another part is not worth its thread


class Split:
    """Applies Algorithm 2 to any index: `Monitor(rule, index=Split("kdtree", parts=4))`."""

    metrics = ("linf",)

    def __init__(self, index: Any, parts: int | str = "auto") -> None:
        if parts != "auto" and (not isinstance(parts, int) or isinstance(parts, bool) or parts < 1):
            raise BadRule(
                f"parts is {parts!r}; expected a whole number from 1, or 'auto'", setting="parts"
            )
        self.inner = index
        self.parts = parts
        self._make: MakeIndex | None = None

    def __repr__(self) -> str:
        return f"Split({self.inner!r}, parts={self.parts!r})"

    def __call__(self, space: Space) -> "SplitIndex":
        from likewise.search.indexes.registry import maker_of

        make = self._make = self._make or maker_of(self.inner)
        parts = self.parts
        if parts == "auto":
            parts = min(-(-space.width // _PART_WIDTH), os.cpu_count() or 1)
        bounds = np.linspace(0, space.width, min(int(parts), space.width) + 1).astype(int).tolist()
        return SplitIndex(
            [(slice(a, b), make(Space(space.metric, b - a))) for a, b in pairwise(bounds)]
        )


class SplitIndex:
    """Searches several indexes, each over a part of the coordinates."""

    def __init__(self, parts: list[tuple[slice, Index]]) -> None:
        self._parts = parts
        self._threads = min(len(parts) - 1, os.cpu_count() or 1)  # the caller searches one part
        self._start()
        register_after_fork(self)

    def _start(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads) if self._threads else None

    _after_fork = _start

    def add(self, row: int, point: Point) -> None:
        for part, index in self._parts:
            index.add(row, point[part])

    def add_many(self, rows: Rows, points: Points) -> None:
        for part, index in self._parts:
            add_all(index, rows, np.ascontiguousarray(points[:, part]))

    def candidates(self, point: Point, reach: float) -> Rows:
        def search(part: tuple[slice, Index]) -> Rows:
            return rows_answered(part[1].candidates(point[part[0]], reach))

        if self._pool is None:
            return search(self._parts[0])
        others = self._pool.map(search, self._parts[1:])
        proposals = sorted([search(self._parts[0]), *others], key=len)
        common = np.unique(proposals[0])
        for rows in proposals[1:]:
            if len(common) == 0:
                break
            common = common[np.isin(common, rows)]
        return common

    def explain(self) -> str:
        first = self._parts[0][1]
        inner = f"; the first has {first.explain()}" if isinstance(first, ExplainableIndex) else ""
        return f"{len(self._parts)} parts of the coordinates, searched side by side{inner}"
