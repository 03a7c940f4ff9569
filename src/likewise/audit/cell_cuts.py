"""Cuts of space: which cell a row is at home in, and to which other cells it is copied.

Rows are points with coordinates. A cut divides the points of a cell at a value of one coordinate.
A row is at home in exactly one cell, and is copied to every cell that has, or could have, a row
that is near it. So a cell holds every row near the rows at home there, and their verdicts can be
made there, whole.

A cut is chosen by a sample: the coordinate and value with the fewest points to be copied, and
halves that are not too unequal. Where more than COPIED of the points would be copied, or all cells
together would have more than COPIES copies of each row, a cell is left as it is: it is then judged
in blocks of time (judge_cell.py).

Invariant: two rows that are near are both in the home of either; bounds are rounded outwards, so no
rounding loses a pair. A row has one home.
Cost: sorting the sample once for each coordinate and cut; then two comparisons for each row and cut
that it passes.
Not here: what coordinates are, and how near is near in each (cell_cuts.py).
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.audit.sides import mix_columns, stable_codes, stable_column
from likewise.monitor.factory import make_time_span
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.encoding import Encoder
from likewise.rule.rule import Rule
from likewise.search.geometry import geometry

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

COPIED = 0.6
"""A cell of which a larger share would be copied is not cut."""
COPIES = 2.0
"""Copies in all cells, as a multiple of the rows that there are, at most: a share that is copied
with every cut would multiply."""
_SMALLEST = 0.1  # share of the points on the smaller side, at least
_LARGEST = 0.95  # share of the points in the larger cell, copies included, at most
_BALANCE = 0.3  # what unequal sides cost, beside copies
_CANDIDATES = 256  # cuts that are looked at for each coordinate


@dataclass(frozen=True)
class Reach:
    """How far from a cut rows of the other side may be near, in one coordinate.

    below   rows at most so far below the cut are copied to the upper side
    above   rows at most so far above the cut are copied to the lower side

    None: nothing is near across the cut, so nothing is copied.
    """

    below: float | None
    above: float | None

    def bounds(self, cut: float) -> tuple[float, float]:
        """The least value in the upper cell, and the largest in the lower, rounded outwards."""
        low = np.nextafter(cut, np.inf)
        high = cut
        if self.below is not None:
            low = np.nextafter(cut - self.below, -np.inf)
        if self.above is not None:
            high = np.nextafter(cut + self.above, np.inf)
        return float(low), float(high)


@dataclass(frozen=True)
class Cut:
    """One cut: values up to `cut` are at home below; the lower side takes up to `high` as well, the
    upper side from `low` on."""

    coordinate: int
    cut: float
    low: float
    high: float
    lower: int
    """The next cut on the lower side; a cell c is -1 - c."""
    upper: int


@dataclass(frozen=True)
class CutTree:
    """A tree of cuts; without any, one cell."""

    cuts: tuple[Cut, ...] = ()

    @property
    def cells(self) -> int:
        return len(self.cuts) + 1

    def cells_of(self, points: Floats) -> Iterator[tuple[int, Rows, Flags]]:
        """By cell: the rows that are in it, in their order, and whether each is at home there."""
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
            for side, there, mine in (
                (cut.lower, values <= cut.high, below),
                (cut.upper, values >= cut.low, ~below),
            ):
                waiting.append((side, rows[there], home[there] & mine[there]))

    def to_list(self) -> list[dict[str, Any]]:
        """For JSON; floats come back as they were."""
        return [asdict(one) for one in self.cuts]

    @classmethod
    def from_list(cls, told: Sequence[dict[str, Any]]) -> "CutTree":
        return cls(tuple(Cut(**one) for one in told))


def choose_cuts(sample: Floats, reaches: Sequence[Reach | None], most: float) -> CutTree:
    """Cuts after which no cell has more than `most` points of the sample, as far as that goes.

    reaches: for each coordinate; None where it cannot be cut

    The largest cell is cut first, so where copies come to an end it is small cells that stay whole.
    """
    cuts: list[Cut] = []
    cells, copies = 0, 0
    every = np.arange(len(sample), dtype=np.int64)
    # Cells that may be cut: their size, a number that tells equal ones apart, their points, which
    # of these are at home there, and of which cut they are which side.
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
    """The best cut, whose sides are not known yet, and the points of both sides; None: no cut."""
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
    """The coordinate and value that cost least; None where too much would be copied."""
    best: tuple[float, int, float] | None = None
    for coordinate, reach in enumerate(reaches):
        if reach is None:
            continue
        for cost, cut in _cost(points[:, coordinate], home, reach):
            if best is None or (cost, coordinate) < best[:2]:
                best = cost, coordinate, cut
    return None if best is None else (best[1], best[2])


def _cost(values: Floats, home: Flags, reach: Reach) -> Iterator[tuple[float, float]]:
    """The best cut of one coordinate, and what it costs; nothing if there is none."""
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
_SHIFT = np.uint64(11)  # 53 bits are left, which a float holds


@dataclass(frozen=True)
class CellSpace:
    """How rows of a rule become points.

    within   how long before a decision the past begins that it is compared with, if limited
    """

    rule: Rule
    within: str | None = None

    @property
    def matching_categories(self) -> tuple[str, ...]:
        """The categories that must match, and whose missing places do not match everything."""
        return tuple(
            name
            for name, one in (self.rule.features or {}).items()
            if one.kind == "category" and one.mismatch is None and one.missing != "match"
        )

    def points(
        self, probe: Monitor, times: npt.NDArray[Any] | None, models: Sequence[Any] | None
    ) -> Floats:
        """The coordinates of all rows of a monitor that has loaded them."""
        rows = np.arange(len(probe))
        columns = []
        if self.matching_categories:
            codes = [
                stable_codes(probe.past.codes(name, rows)) for name in self.matching_categories
            ]
            columns.append(_as_floats(mix_columns(codes, len(rows))))
        if self.rule.compare == "within":
            assert models is not None
            columns.append(_as_floats(mix_columns([stable_column(models)], len(rows))))
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
        positions: Floats = scaled / np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
        return positions

    def reaches(self, probe: Monitor) -> list[Reach | None]:
        """For each coordinate how far is near, as the monitor compares; None: it cannot be cut."""
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
        found = geometry(plain, explained.width, explained.slack)
        left_open = self._find_uncuttable()
        for j, scale in enumerate(found.gap_scale.tolist()):
            far = found.tree_reach / scale if scale > 0 else np.inf
            near = np.isfinite(far) and j not in left_open
            reaches.append(Reach(far, far) if near else None)
        return reaches

    def _find_uncuttable(self) -> set[int]:
        """Coordinates that no cut may use: where a missing place is near everything, and numbers
        for combinations of categories, which differ from monitor to monitor."""
        if self.rule.features is None:
            return set()
        encoder = Encoder(self.rule)
        return set(encoder.must_match_coordinates).union(
            j
            for name, one in self.rule.features.items()
            if one.missing == "match"
            for j in range(encoder.places[name].start, encoder.places[name].stop)
        )


def _as_floats(numbers: npt.NDArray[np.uint64]) -> Floats:
    return (numbers >> _SHIFT).astype(np.float64)
