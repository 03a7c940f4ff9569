"""The contract of an index written in Python: it proposes neighbours, the kernels decide.

Points come to an index prepared: weights are multiplied in, cosine has become l2 on the unit
sphere, the origin lies at the first point, and lengths are in units of the radius. So there are
three metrics (linf, l1, l2) and one radius slightly above 1, which makes up for every rounding on
the way: an index may compare in any way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRule
from likewise.rule.rule import Metric
from likewise.tables.normalize import type_name

Point: TypeAlias = npt.NDArray[np.float64]
Points: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Space:
    """Says how many coordinates points have, and how their distance is measured."""

    metric: Metric
    width: int


@runtime_checkable
class Index(Protocol):
    """An index whose `candidates(point, reach)` include every added row within `reach` of a point.

    Outputs play no part: rows with the same answer belong to the candidates, too, since a verdict
    may have to say whether anything at all was near. A needless row costs time. A missing row is a
    missed violation. `add` never refuses a point.
    """

    def add(self, row: int, point: Point) -> None: ...

    def candidates(self, point: Point, reach: float) -> Rows: ...


@runtime_checkable
class BulkIndex(Protocol):
    """An index that adds many rows at once faster than one by one."""

    def add_many(self, rows: Rows, points: Points) -> None: ...


@runtime_checkable
class ExplainableIndex(Protocol):
    """An index that can describe its state in one line."""

    def explain(self) -> str: ...


@runtime_checkable
class RebuiltIndex(Protocol):
    """An index that is rebuilt every `tau` rows."""

    tau: int

    @property
    def predicted_us(self) -> float: ...


class StaticIndex(Protocol):
    """An index that is built once over a matrix of points.

    `within` keeps the promise of `Index.candidates` for positions in that matrix.
    """

    def within(self, point: Point, reach: float) -> Rows: ...


@runtime_checkable
class LimitedIndex(Protocol):
    """A factory of indexes that serves some metrics only."""

    metrics: tuple[str, ...]


@runtime_checkable
class WrappingIndex(Protocol):
    """A factory of indexes that works through another index."""

    inner: Any


MakeIndex: TypeAlias = Callable[[Space], Index]
MakeStatic: TypeAlias = Callable[[Points, Space], StaticIndex]


def add_all(index: Index, rows: Rows, points: Points) -> None:
    """Add many rows, all at once where the index can."""
    if isinstance(index, BulkIndex):
        index.add_many(rows, points)
        return
    for row, point in zip(rows.tolist(), points, strict=True):
        index.add(row, point)


def rows_answered(answer: Any) -> Rows:
    """Return an index's answer as row numbers; raise BadRule if it is anything else.

    A mask in particular is refused: read as numbers, its values would be the rows 0 and 1.
    """
    rows = np.asarray(answer)
    if rows.size == 0 and rows.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise BadRule(
            f"the index answered with a {type(answer).__name__} of type {type_name(rows.dtype)} and"
            f" shape {rows.shape}; expected row numbers, in one dimension. Nothing was stored:"
            " instead of a mask, let it return the rows that the mask selects."
        )
    return rows.astype(np.int64, copy=False)


def distances(space: Space, points: Points, point: Point) -> Point:
    """Return distances from one point to many, good enough to propose, not to decide."""
    gaps = np.abs(points - point)
    if space.metric == "linf":
        return np.asarray(gaps.max(axis=1, initial=0.0))
    if space.metric == "l1":
        return np.asarray(gaps.sum(axis=1))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)))


def rounding_error(space: Space) -> float:
    """Return a bound on the relative error of a distance computed in float64, in any order."""
    return (space.width + 16) * 2.0**-50


class GrowingPoints:
    """Holds rows and their points, in arrays that double when they are full."""

    def __init__(self, width: int) -> None:
        self._rows: Rows = np.empty(64, dtype=np.int64)
        self._points: Points = np.empty((64, width))
        self.count = 0

    @property
    def rows(self) -> Rows:
        return self._rows[: self.count]

    @property
    def points(self) -> Points:
        return self._points[: self.count]

    def add(self, rows: int | Rows, points: Points, many: int = 1) -> None:
        size = len(self._rows)
        if self.count + many > size:
            while self.count + many > size:
                size *= 2
            longer = np.empty(size, dtype=np.int64), np.empty((size, self._points.shape[1]))
            longer[0][: self.count], longer[1][: self.count] = self.rows, self.points
            self._rows, self._points = longer
        self._rows[self.count : self.count + many] = rows
        self._points[self.count : self.count + many] = points
        self.count += many
