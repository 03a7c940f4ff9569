"""Use a build-once index on a stream: rebuild it every `tau` rows (Gupta et al. 2025, Algorithm 1).

Invariant: each added row is either in the built index or among the latest rows, which are scanned.
Cost: a query pays one lookup and a scan of at most `tau` rows; a rebuild stalls one decision.
"""

import math
import time
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from likewise.errors import BadRule
from likewise.search.indexes.protocol import (
    GrowingPoints,
    MakeStatic,
    Point,
    Points,
    Rows,
    Space,
    StaticIndex,
    distances,
    rounding_error,
    rows_answered,
)

# With tau="auto" the period is the one that makes the paper's T(tau) smallest, for costs measured
# while running:
#
#     T(tau) = (f(n + tau) + tau g(n) + sum of h(i) for i = 1 … tau) / tau
#
# f is a build, taken as proportional to the number of rows; g a search of the built index; h(i) a
# scan of i rows, a constant and c per row. The best tau is then sqrt(2 f(n) / c), chosen again at
# every rebuild.

STATIC = {"kdtree": "kdtree.KDTree", "snn": "snn.SortedProjections"}
"""Module and class of each static index, by name."""


def load_index(home: str) -> Any:
    """Import the class of an index; `home` is its module and its name there."""
    module, name = home.split(".")
    return getattr(import_module(f"likewise.search.indexes.{module}"), name)


_FIRST = 64  # rows before the first build, and the shortest period that is chosen
_KEEP = 0.99  # weight of the old average when another search is measured


class Periodic:
    """Applies Algorithm 1 to a static index: `Monitor(rule, index=Periodic("kdtree", tau=500))`."""

    def __init__(self, static: str | MakeStatic, tau: int | str = "auto") -> None:
        if tau != "auto" and (not isinstance(tau, int) or isinstance(tau, bool) or tau < 1):
            raise BadRule(
                f"tau is {tau!r}; expected a whole number from 1, or 'auto'", setting="tau"
            )
        self.inner = static
        self.tau = tau

    def __repr__(self) -> str:
        return f"Periodic({getattr(self.inner, '__name__', repr(self.inner))}, tau={self.tau!r})"

    def __call__(self, space: Space) -> "PeriodicIndex":
        inner = self.inner
        make: MakeStatic = load_index(STATIC[inner]) if isinstance(inner, str) else inner
        return PeriodicIndex(space, make, self.tau)


@dataclass
class CostLine:
    """Fits a constant and a cost per row to measurements; old periods count less and less."""

    sums: Point = field(default_factory=lambda: np.zeros(5))

    def add(self, rows: int, seconds: float) -> None:
        self.sums += (1.0, rows, rows * rows, seconds, rows * seconds)

    def fade(self) -> None:
        self.sums *= 0.5

    @property
    def per_row(self) -> float:
        n, x, xx, y, xy = self.sums.tolist()
        spread = n * xx - x * x
        return max((n * xy - x * y) / spread, 0.0) if spread > 1e-9 * n * xx else 0.0

    @property
    def constant(self) -> float:
        n, x, _, y, _ = self.sums.tolist()
        return max((y - self.per_row * x) / n, 0.0) if n else 0.0


@dataclass
class Costs:
    """Holds costs in seconds, measured while running."""

    build_row: float = 0.0
    search: float = 0.0
    scan: CostLine = field(default_factory=CostLine)

    def note(self, search: float, scan: float, rows: int) -> None:
        self.search = _KEEP * (self.search or search) + (1.0 - _KEEP) * search
        self.scan.add(rows, scan)

    def note_build(self, per_row: float) -> None:
        self.build_row = 0.5 * (self.build_row or per_row) + 0.5 * per_row
        self.scan.fade()

    def predict_seconds(self, rows: int, tau: int) -> float:
        """Return T(tau), the seconds per decision at that history length."""
        scans = self.scan.constant + self.scan.per_row * (tau + 1) / 2
        return self.build_row * (rows + tau) / tau + self.search + scans

    def best_tau(self, rows: int, tau: int) -> int:
        """Return the tau with the smallest T; twice the current one while scans cost nothing."""
        if self.scan.per_row == 0.0:
            return 2 * tau
        return max(_FIRST, round(math.sqrt(2.0 * self.build_row * rows / self.scan.per_row)))


class PeriodicIndex:
    """Combines a built index with a scan of the rows added since."""

    def __init__(self, space: Space, make: MakeStatic, tau: int | str) -> None:
        self._space = space
        self._make = make
        self._fixed = tau != "auto"
        self.tau = int(tau) if self._fixed else _FIRST
        self.costs = Costs()
        self.builds = 0
        self._static: StaticIndex | None = None
        self._added = GrowingPoints(space.width)
        self._built = 0
        self._margin = 1.0 + rounding_error(space)

    def add(self, row: int, point: Point) -> None:
        self._added.add(row, point)

    def add_many(self, rows: Rows, points: Points) -> None:
        self._added.add(rows, points, len(rows))

    def _build(self) -> None:
        count = self._added.count
        start = time.perf_counter()
        self._static = self._make(self._added.points, self._space)
        self._built = count
        self.builds += 1
        self.costs.note_build((time.perf_counter() - start) / count)
        if not self._fixed:
            self.tau = self.costs.best_tau(count, self.tau)

    def candidates(self, point: Point, reach: float) -> Rows:
        if self._added.count - self._built >= self.tau:
            self._build()
        start = time.perf_counter()
        rows, points = self._added.rows, self._added.points[self._built :]
        found = np.empty(0, dtype=np.int64)
        if self._static is not None:
            found = rows[rows_answered(self._static.within(point, reach))]
        searched = time.perf_counter()
        near = distances(self._space, points, point) <= reach * self._margin
        recent = rows[self._built :][near]
        self.costs.note(searched - start, time.perf_counter() - searched, len(points))
        return np.concatenate([found, recent])

    @property
    def predicted_us(self) -> float:
        """T(tau) at this history length, in microseconds per decision."""
        return 1e6 * self.costs.predict_seconds(self._added.count, self.tau)

    def explain(self) -> str:
        origin = "given" if self._fixed else "chosen"
        return (
            f"tau {self.tau:,} ({origin}), {self.builds:,} builds;"
            f" T(tau) predicts {self.predicted_us:,.1f} µs per decision"
        )
