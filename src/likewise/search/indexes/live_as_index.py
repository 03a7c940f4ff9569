"""Adapt the live tree to the contract of an index, for wrappers that index parts of the inputs.

All rows get one output and every query another, so that a query finds all near rows. Adding a row
searches with the rows' output, from which no row differs: that search ends at the root.
Invariant: the tree's radius is at least every reach that was asked for.
"""

from likewise.rule.rule import Rule
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.protocol import GrowingPoints, Point, Rows, Space
from likewise.search.outputs import outputs_of

_RADIUS = 1.0 + 2.0**-20
_ADDED, _ASKED = 0.0, 1.0


class LiveTreeIndex:
    """Wraps a live tree over points in units of the radius."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._added = GrowingPoints(space.width)
        self._start(_RADIUS)

    def _start(self, radius: float) -> None:
        self._radius = radius
        rule = Rule(self._space.metric, radius, output="number", slack=0.0)
        shape = (self._space.width,)
        self._history = History(rule, shape, "float64", outputs_of(rule, _ADDED))
        self._tree = LiveTree(self._history)
        self._history.table = self._tree.state.table

    def _lay_out(self, point: Point, output: float) -> None:
        self._tree.state.ensure(2, 0)
        self._history.rows[self._history.total] = point
        self._tree.given[0] = output

    def add(self, row: int, point: Point) -> None:
        self._added.add(row, point)
        self._insert(point)

    def _insert(self, point: Point) -> None:
        self._lay_out(point, _ADDED)
        found = self._tree.observe()
        assert found == 0, f"a row was not added: {found}"

    def candidates(self, point: Point, reach: float) -> Rows:
        if reach > self._radius:  # values have become so large that rounding matters
            self._start(2.0 * reach)
            for added in self._added.points:
                self._insert(added)
        self._lay_out(point, _ASKED)
        return self._added.rows[self._tree.witnesses(self._tree.check()).rows]

    def explain(self) -> str:
        return f"{self._tree.leaves():,} leaves, depth {self._tree.depth()}"
