"""Cuts space into cells: which cell a row is at home in, and to which others it is copied.

Rows are points with coordinates, and a cut divides the points of a cell at a value of one
coordinate. A cell holds every row near the rows at home there, so their verdicts are complete. Cuts
are chosen by a sample: as few copies as possible, and halves that are not too unequal. A cell that
cannot be cut without too many copies is judged in blocks of time (cells.py).

Invariant: two rows that are near are both in the home of either; bounds are rounded outwards, so no
rounding loses a pair. A row has one home.
Cost: sorting the sample once for each coordinate and cut; then two comparisons for each row and cut
that it passes.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.monitor.factory import make_time_span
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.encoding import Encoder
from likewise.reports.totals import mix_words, stable_codes, stable_column
from likewise.rule.rule import Rule
from likewise.search.geometry import geometry
from likewise.tables.array_types import Floats, Rows

Flags = npt.NDArray[np.bool_]

COPIED = 0.6
"""A cell of which a larger share would be copied is not cut."""
COPIES = 2.0
"""The most copies in all cells, as a multiple of the number of rows: a share that is copied with
every cut would multiply."""
_SMALLEST = 0.1  # the least share of the points on the smaller side
_LARGEST = 0.95  # the largest share of the points in the larger cell, copies included
_BALANCE = 0.3  # what unequal sides cost, beside copies
_CANDIDATES = 256  # cuts that are tried for each coordinate


@dataclass(frozen=True)
class Reach:
    """Says how far from a cut rows may be near to rows of the other side, in one coordinate.

    below   rows at most this far below the cut are copied to the upper side
    above   rows at most this far above the cut are copied to the lower side

    None: nothing is near across the cut, so nothing is copied.
    """

    below: float | None
    above: float | None

    def bounds(self, cut: float) -> tuple[float, float]:
        """Return the least value in the upper cell, the largest in the lower, rounded outwards."""
        low = np.nextafter(cut, np.inf)
        high = cut
        if self.below is not None:
            low = np.nextafter(cut - self.below, -np.inf)
        if self.above is not None:
            high = np.nextafter(cut + self.above, np.inf)
        return float(np.nan_to_num(low)), float(np.nan_to_num(high))  # JSON has no infinity


@dataclass(frozen=True)
class Cut:
    """Divides a cell: values up to `cut` are at home below; the lower side holds values up to
    `high`, the upper side values from `low` on."""

    coordinate: int
    cut: float
    low: float
    high: float
    lower: int
    """The next cut on the lower side; -1 - c stands for cell c."""
    upper: int


@dataclass(frozen=True)
class CutTree:
    """Holds a tree of cuts; without cuts there is one cell."""

    cuts: tuple[Cut, ...] = ()

    @property
    def cells(self) -> int:
        return len(self.cuts) + 1

    def cells_of(self, points: Floats) -> Iterator[tuple[int, Rows, Flags]]:
        """Yield for each cell the rows in it, in order, and whether each is at home there."""
        every = np.arange(len(points), dtype=np.int64)
        waiting = [(0 if self.cuts else -1, every, np.ones(len(points), np.bool_))]
        while waiting:
            at, rows, home = waiting.pop()
            if len(rows) == 0:
                continue
            if at < 0:
                yield -1 - at, rows, home
                continue
            cut = self.cuts[at]
            values = points[rows, cut.coordinate]
            below = values <= cut.cut
            for side, inside, mine in (
                (cut.lower, values <= cut.high, below),
                (cut.upper, values >= cut.low, ~below),
            ):
                waiting.append((side, rows[inside], home[inside] & mine[inside]))


def choose_cuts(sample: Floats, reaches: Sequence[Reach | None], most: float) -> CutTree:
    """Choose cuts after which no cell has more than `most` points of the sample, if possible.

    reaches: for each coordinate; None where it cannot be cut

    The largest cell is cut first: once no more copies are allowed, only small cells stay whole.
    """
    cuts: list[Cut] = []
    cells, copies = 0, 0
    every = np.arange(len(sample), dtype=np.int64)
    # Cells that may be cut: their size, a number that breaks ties, their points, which of these
    # are at home there, and of which cut they are which side.
    waiting: list[_Waiting] = [(-len(sample), 0, every, np.ones(len(sample), np.bool_), None)]
    pushed = 1
    while waiting:
        _, _, rows, home, side_of = heapq.heappop(waiting)
        sides = None
        if len(rows) > most:
            sides = _sides(sample[rows], home, reaches)
        if sides is not None:
            more = sum(len(points) for points, _ in sides[1]) - len(rows)
            if copies + more > COPIES * len(sample):
                sides = None
        if sides is None:
            cells += 1
            number = -cells
        else:
            copies += more
            number = len(cuts)
            cuts.append(sides[0])
            for which, (points, at_home) in zip(("lower", "upper"), sides[1], strict=True):
                one = (-len(points), pushed, rows[points], at_home, (number, which))
                heapq.heappush(waiting, one)
                pushed += 1
        if side_of is not None:
            cut, which = side_of
            cuts[cut] = replace(cuts[cut], **{which: number})
    return CutTree(tuple(cuts))


_Waiting = tuple[int, int, Rows, Flags, tuple[int, str] | None]


def _sides(
    points: Floats, home: Flags, reaches: Sequence[Reach | None]
) -> tuple[Cut, list[tuple[Rows, Flags]]] | None:
    """Return the best cut, without its sides, and the points of both sides; None: no cut."""
    chosen = best_cut(points, home, reaches)
    if chosen is None:
        return None
    coordinate, cut = chosen
    reach = reaches[coordinate]
    assert reach is not None
    low, high = reach.bounds(cut)
    values = points[:, coordinate]
    below = values <= cut
    lower, upper = np.flatnonzero(values <= high), np.flatnonzero(values >= low)
    sides = [(lower, (home & below)[lower]), (upper, (home & ~below)[upper])]
    return Cut(coordinate, cut, low, high, 0, 0), sides


def best_cut(
    points: Floats, home: Flags, reaches: Sequence[Reach | None]
) -> tuple[int, float] | None:
    """Return the coordinate and value that cost least; None where too much would be copied."""
    best: tuple[float, int, float] | None = None
    for coordinate, reach in enumerate(reaches):
        if reach is None:
            continue
        for cost, cut in _cost(points[:, coordinate], home, reach):
            if best is None or (cost, coordinate) < best[:2]:
                best = cost, coordinate, cut
    return None if best is None else (best[1], best[2])


def _cost(values: Floats, home: Flags, reach: Reach) -> Iterator[tuple[float, float]]:
    """Yield the cost and the value of the best cut of one coordinate, if there is one."""
    every = np.sort(values)
    steps = np.flatnonzero(every[1:] > every[:-1])  # a cut lies between two different values
    count = len(every)
    share = (steps + 1) / count
    steps = steps[(share >= _SMALLEST) & (share <= 1 - _SMALLEST)]
    if len(steps) > _CANDIDATES:
        steps = steps[np.linspace(0, len(steps) - 1, _CANDIDATES).astype(np.int64)]
    if len(steps) == 0:
        return
    cuts = every[steps] + (every[steps + 1] - every[steps]) / 2
    cuts = np.where(cuts < every[steps + 1], cuts, every[steps])
    bounds = [reach.bounds(cut) for cut in cuts.tolist()]
    lower = np.searchsorted(every, [high for _, high in bounds], side="right") / count
    upper = 1 - np.searchsorted(every, [low for low, _ in bounds], side="left") / count
    copied = lower + upper - 1
    homes = np.sort(values[home])
    below = np.searchsorted(homes, cuts, side="right") / max(len(homes), 1)
    costs = copied + _BALANCE * np.abs(2 * below - 1)
    costs[(copied > COPIED) | (np.maximum(lower, upper) > _LARGEST)] = np.inf
    least = int(np.argmin(costs))
    if np.isfinite(costs[least]):
        yield float(costs[least]), float(cuts[least])


_FREE = Reach(None, None)
_SHIFT = np.uint64(11)  # leaves 53 bits, which a float holds


@dataclass(frozen=True)
class CellSpace:
    """Makes points of rows.

    within: how far back decisions are compared; None: no limit
    """

    rule: Rule
    within: str | None = None

    @property
    def matching_categories(self) -> tuple[str, ...]:
        """Categories that must be the same, and whose missing values do not match everything."""
        return tuple(
            name
            for name, one in (self.rule.features or {}).items()
            if one.kind == "category" and one.mismatch is None and one.missing != "match"
        )

    def points(
        self, probe: Monitor, times: npt.NDArray[Any] | None, models: Sequence[Any] | None
    ) -> Floats:
        """Return the coordinates of all rows of a monitor that has loaded them."""
        rows = np.arange(len(probe))
        columns = []
        if self.matching_categories:
            codes = [
                stable_codes(probe.past.codes(name, rows)) for name in self.matching_categories
            ]
            columns.append(_as_floats(np.column_stack(codes)))
        if self.rule.compare == "within":
            assert models is not None
            columns.append(_as_floats(stable_column(models)[:, None]))
        if self.within is not None:
            assert times is not None
            columns.append(times.astype("datetime64[us]").astype(np.int64).astype(np.float64))
        vectors = probe.past.points(rows).vectors.reshape(len(rows), -1).astype(np.float64)
        return np.column_stack([*columns, self._positions(vectors)])

    def _positions(self, vectors: Floats) -> Floats:
        if self.rule.metric != "cosine":
            return vectors
        weights = 1.0 if self.rule.weights is None else np.sqrt(np.array(self.rule.weights))
        scaled = vectors * weights
        scaled = scaled / np.abs(scaled).max(axis=1, keepdims=True)  # so that no square overflows
        return np.asarray(scaled / np.sqrt((scaled * scaled).sum(axis=1, keepdims=True)))

    def reaches(self, probe: Monitor) -> list[Reach | None]:
        """Return how far is near in each coordinate, as the monitor compares; None: no cuts."""
        reaches: list[Reach | None] = []
        if self.matching_categories:
            reaches.append(_FREE)
        if self.rule.compare == "within":
            reaches.append(_FREE)
        if self.within is not None:
            reaches.append(Reach(float(make_time_span(self.within).microseconds), None))
        plain = probe.past.points(np.zeros(1, np.int64)).rule
        explained = probe.explain()
        assert explained.width is not None and explained.slack is not None
        space = geometry(plain, explained.width, explained.slack)
        uncuttable = self._find_uncuttable()
        for j, scale in enumerate(space.gap_scale.tolist()):
            far = space.tree_reach / scale if scale > 0 else np.inf
            can_cut = np.isfinite(far) and j not in uncuttable
            reaches.append(Reach(far, far) if can_cut else None)
        return reaches

    def _find_uncuttable(self) -> set[int]:
        """Return the coordinates that no cut may use: where a missing value is near everything,
        and numbers for combinations of categories, which differ from monitor to monitor."""
        if self.rule.features is None:
            return set()
        encoder = Encoder(self.rule)
        return set(encoder.must_match_coordinates).union(
            j
            for name, one in self.rule.features.items()
            if one.missing == "match"
            for j in range(encoder.places[name].start, encoder.places[name].stop)
        )


def _as_floats(words: Rows) -> Floats:
    return (mix_words(words) >> _SHIFT).astype(np.float64)
