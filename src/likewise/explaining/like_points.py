"""The distinct inputs of a history, and which of them are near each other.

Many decisions have the very same input. They are like each other, and whatever is near one is near
all of them. So nearness is asked of each distinct input once, here called a point: of 207,546
people of a census 69,104 points with 137,269 near pairs remain of tens of millions.

Where decisions are compared only within some time, inputs of different times are different points;
where only those of one model are compared, so are inputs of different models.

Invariant: two rows are near exactly if they are of one point, or their points come as a pair; a
pair comes once, its later point in ascending order, all pairs of a later point in one chunk. Points
are in the order of time, where that counts, of their coordinates, and of models' names, where these
count, whatever the order of rows.
Cost: sorting the rows, and an index over the points; a chunk has about _PAIRS pairs, or those of
_LEAST points.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from likewise.explaining.past import Points
from likewise.search.engine.engine import Engine
from likewise.tables.rows import Rows
from likewise.verdict.past_rows import CodedColumn, ComparisonSpan

_PAIRS = 1 << 20
_LEAST, _MOST = 16, 1 << 16  # points that are asked for together


@dataclass(frozen=True, eq=False)
class LikePoints:
    """Distinct inputs, and the point of each row."""

    points: Points
    point_of: Rows
    firsts: Rows | None = None
    """The first point that each is compared with, where that is limited in time."""
    models: Rows | None = None
    """A number for the model of each, where only points of one model are compared."""

    @property
    def count(self) -> int:
        return len(self.points.vectors)

    def pairs(self) -> Iterator[tuple[Rows, Rows]]:
        """The later and the earlier points of pairs that are near, in chunks."""
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
        """These points only; -1 is the point of rows that have none of them."""
        renumbered = np.where(chosen, np.cumsum(chosen) - 1, -1)
        left_open = self.points.left_open
        kept = Points(
            self.points.vectors[chosen],
            None if left_open is None else left_open[chosen],
            self.points.rule,
        )
        point_of = np.where(self.point_of >= 0, renumbered[self.point_of], -1)
        models = None if self.models is None else self.models[chosen]
        if self.firsts is None:
            return LikePoints(kept, point_of, models=models)
        before = np.concatenate([[0], np.cumsum(chosen)])  # chosen points before each
        return LikePoints(kept, point_of, before[self.firsts[chosen]], models)


def like_points(
    points: Points, span: ComparisonSpan | None = None, models: CodedColumn | None = None
) -> LikePoints:
    """The distinct ones among the inputs of rows.

    span    how far apart in time rows may be, and when they were: then among inputs and times
    models  of rows, where only those of one model are compared: then among these, too
    """
    vectors = np.ascontiguousarray(points.vectors).reshape(len(points.vectors), -1)
    left_open = points.left_open
    if left_open is not None:
        left_open = left_open.reshape(len(vectors), -1)
        vectors = np.where(left_open, 0, vectors)  # what stands in an open place says nothing
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
    """A number for the model of each row, which does not depend on the order of rows."""
    order = sorted(range(len(models.values)), key=lambda code: models.values[code] or "")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[models.codes]
