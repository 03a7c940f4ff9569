"""Find the distinct inputs of a history (points), and which of them are near each other.

Invariant: two rows are near exactly if they have the same point, or their points come as a pair; a
pair comes once, its later point in ascending order, all pairs of a later point in one chunk.
Cost: sorting the rows, and an index over the points; a chunk has about _PAIRS pairs, or those of
_LEAST points.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from likewise.explaining.past import Points
from likewise.search.engine.engine import Engine
from likewise.tables.array_types import Rows
from likewise.verdict.past_rows import CodedColumn, ComparisonSpan

_PAIRS = 1 << 20
_LEAST, _MOST = 16, 1 << 16  # points in a chunk


@dataclass(frozen=True, eq=False)
class LikePoints:
    """Holds distinct inputs, and the point of each row.

    Many decisions have exactly the same input, and whatever is near one is near all of them. So
    near pairs are searched among distinct inputs: of 207,546 people of a census, 69,104 points with
    137,269 near pairs remain, instead of tens of millions.

    If decisions are compared only within some time, equal inputs at different times are different
    points; if only within models, so are equal inputs of different models. Points are in the order
    of time, of coordinates and of models' names, as far as these count, whatever the order of rows.
    """

    points: Points
    point_of: Rows
    """The point of each row; -1 for none."""
    firsts: Rows | None = None
    """The first point that each is compared with, if that is limited in time."""
    models: Rows | None = None
    """A number for the model of each, if only points of one model are compared."""

    @property
    def count(self) -> int:
        """How many points there are."""
        return len(self.points.vectors)

    def pairs(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield the later and the earlier points of near pairs, in chunks."""
        vectors, left_open = self.points.vectors, self.points.left_open
        rule = replace(self.points.rule, output="number", delta=0.0, favourable=None)
        engine = Engine(rule)
        start, size = 0, 1024
        while start < self.count:
            stop = min(start + size, self.count)
            verdicts = engine.observe_many(
                vectors[start:stop],
                np.arange(start, stop, dtype=np.float64),  # no two are the same, so all differ
                None if self.firsts is None else self.firsts[start:stop],
                None if left_open is None else left_open[start:stop],
            )
            if verdicts.pairs:
                later, earlier = start + verdicts.owners, verdicts.witnesses.rows
                if self.models is not None:
                    same = self.models[later] == self.models[earlier]
                    later, earlier = later[same], earlier[same]
                if len(later):
                    yield later, earlier
            start = stop
            size = int(size * _PAIRS / max(verdicts.pairs, 1) / 2)
            size = min(max(size, _LEAST), _MOST)

    def select(self, chosen: npt.NDArray[np.bool_]) -> "LikePoints":
        """Keep only these points; rows of other points get the point -1."""
        renumbered = np.where(chosen, np.cumsum(chosen) - 1, -1)
        left_open = self.points.left_open
        points = Points(
            self.points.vectors[chosen],
            None if left_open is None else left_open[chosen],
            self.points.rule,
        )
        point_of = np.where(self.point_of >= 0, renumbered[self.point_of], -1)
        models = None if self.models is None else self.models[chosen]
        if self.firsts is None:
            return LikePoints(points, point_of, models=models)
        before = np.concatenate([[0], np.cumsum(chosen)])  # chosen points before each
        return LikePoints(points, point_of, before[self.firsts[chosen]], models)


def like_points(
    points: Points, span: ComparisonSpan | None = None, models: CodedColumn | None = None
) -> LikePoints:
    """Find the distinct inputs of rows.

    span    how far apart in time rows may be, and when they were; then times count, too
    models  the models of rows, if only rows of one model are compared; then models count, too
    """
    vectors = np.ascontiguousarray(points.vectors).reshape(len(points.vectors), -1)
    left_open = points.left_open
    if left_open is not None:
        left_open = left_open.reshape(len(vectors), -1)
        vectors = np.where(left_open, 0, vectors)  # values that match everything mean nothing
        both = np.hstack([vectors, left_open.astype(vectors.dtype)])
    else:
        both = vectors
    model = None if models is None else _ranks_by_name(models)
    if span is not None:
        _, rank = np.unique(span.times, return_inverse=True)  # float64 holds ranks, not all times
        both = np.hstack([rank.reshape(-1, 1).astype(np.float64), both.astype(np.float64)])
    if model is not None:
        both = np.hstack([both.astype(np.float64), model.reshape(-1, 1).astype(np.float64)])
    _, first, point_of = np.unique(both, axis=0, return_index=True, return_inverse=True)
    firsts = None
    if span is not None:
        times = span.times[first]
        firsts = np.searchsorted(times, times - span.microseconds, side="left").astype(np.int64)
    distinct = Points(vectors[first], None if left_open is None else left_open[first], points.rule)
    of_point = None if model is None else model[first]
    return LikePoints(distinct, point_of.reshape(-1).astype(np.int64), firsts, of_point)


def _ranks_by_name(models: CodedColumn) -> Rows:
    """Number the models of rows by name, so that the order of rows does not matter."""
    order = sorted(range(len(models.values)), key=lambda code: models.values[code] or "")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[models.codes]
