"""Find one past decision with a live tree: the nearest that differs, or the steepest.

Invariant: at most one witness for each decision, and it comes before it.
Cost: as LiveTree; choosing another unit of the codes rebuilds the trees (0.2 s for a million rows),
once at some hundred rows, then at most each time the history has grown sixteenfold.
Not here: the search itself (search/kernels/nearest.py).
"""

from dataclasses import replace

import numpy as np

from likewise.search.geometry import GRID, geometry
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.compiled_index import decide_among
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.workers import ALONE, Found, KernelRunner, Threads, join_found
from likewise.search.kernels import table as t
from likewise.search.kernels.nearest import search_best
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.witnesses import Witnesses

# To the monitor this is a live tree like any other, whose decisions have one witness or none. The
# tree is set so that no outputs are different, so its own search ends at the roots; then the best
# row is searched for among the rows before each.
#
# That search has no radius of its own, so no rule can say how long a unit of the codes should be.
# In a good tree, the distance at which a search ends is some ten units long: if much longer, codes
# of far points coincide; if much shorter, they exclude little. So the unit is chosen by what the
# last searches found: their median becomes half of the reach. Until then the unit follows from the
# rule's epsilon. The unit changes speed, never an answer.
#
# The tree knows no first row. Where the best of all comes before the rows that count, those are
# compared one by one (`find_best`).

_BATCH = -1  # instead of a row: the rows of a batch
_FIRST_REVIEW = 256  # rows from which results say how long a unit should be
_GROWTH = 16  # times as many rows before the next review
_OFF = 3.0  # times too long or too short: worth a rebuild
_SHARE = 0.5  # of the reach: where the median search should end
_LEAST, _MOST = 1e-150, 1e150  # what a rule's epsilon can be


class NearestTree(LiveTree):
    """Finds one past decision for each: the nearest that differs, or the steepest."""

    def __init__(
        self,
        history: History,
        coordinates: Rows | None = None,
        *,
        question: int = t.NEAREST,
        exponent: float = 1.0,
        limit: float = np.inf,
    ) -> None:
        super().__init__(history, coordinates)
        self._numbers: Floats = self.state.layout.settings[t.NUMBERS]
        self._numbers[t.DELTA] = np.inf  # for the tree's own search: nothing is different
        self._numbers[t.BEST_DELTA] = history.rule.delta
        self._numbers[t.BEST_LIMIT] = limit
        self._numbers[t.EXPONENT] = exponent
        self._table[t.QUESTION] = question
        self._next_review = _FIRST_REVIEW
        self._distances = np.full(t.RECENT_MOST, np.nan)  # of the last witnesses
        self._noted = 0
        self._unit = history.rule.epsilon
        self._measure(self._unit)
        self._best_workers = KernelRunner(self.state, lambda address: search_best(address, _BATCH))
        search_best(self._address, _BATCH)  # so that no later decision waits for its compilation

    # One decision

    def observe(self) -> int:
        found = super().observe()
        if found < 0:
            return found
        total = self._table.item(t.TOTAL)
        if total > self._next_review:
            self._review_unit()
        answer: int = search_best(self._address, total - 1)
        return answer

    def check(self) -> int:
        found = super().check()
        return found if found < 0 else search_best(self._address, int(self._table[t.TOTAL]))

    def witnesses(self, found: int) -> Witnesses:
        answer = super().witnesses(found)
        self._distances[self._noted % t.RECENT_MOST] = answer.first[1]
        self._noted += 1
        return answer

    def find_best(self, row: int, first: int) -> Witnesses:
        """Return the steepest of the rows from `first` on to a written row, without the tree.

        The row was judged before: it is a remembered one, or what was observed or checked last.
        """
        assert self._table[t.QUESTION] == t.STEEPEST
        numbers = self._numbers.copy()
        numbers[t.REACH], numbers[t.DELTA] = np.inf, 0.0
        rows = np.arange(first, row)
        rows, near, far = decide_among(self.state, row, rows, t.NUMBERS, numbers)
        slopes = SlopeQuestion(float(numbers[t.EXPONENT])).slopes(near, far)
        best = np.lexsort((rows, -far, -slopes))[: int((slopes > 0).any())]
        return Witnesses(rows[best], near[best], far[best])

    def find_near_rows(self, row: int) -> NearRows:
        """Return all rows before a written one that are near it, without the tree.

        The unit of the codes follows from what was found, so it may be less than the radius.
        """
        numbers = self._numbers.copy()
        numbers[t.DELTA] = -1.0  # every output is different
        return decide_among(self.state, row, np.arange(row), t.NUMBERS, numbers)[:2]

    # Many decisions

    def judge(self, first: int, size: int, threads: Threads = ALONE) -> tuple[Rows, Found]:
        if first >= self._next_review:  # before rows come in that are no part of the history yet
            self._review_unit()
        return super().judge(first, size, threads)

    def _search(self, first: int, size: int, threads: Threads) -> tuple[Rows, Found]:
        rows, near, far, owners = join_found(
            # task 0: this kernel takes its task from the row argument
            self._best_workers.run_in_parallel(0, size, threads, self._lay_out_from(first))
        )
        places = np.empty(size, dtype=np.int64)
        places[self._batch.order[:size]] = np.arange(size)
        answered = rows[places] >= 0
        places = places[answered]
        last = near[places][-t.RECENT_MOST :]
        self._distances[: len(last)] = last
        return answered.astype(np.int64), (rows[places], near[places], far[places], owners[places])

    # The unit of the codes

    def _measure(self, epsilon: float) -> None:
        """Set the unit of the codes for radii of about epsilon."""
        history, coordinates = self.state.history, self.coordinates
        rule = replace(history.rule, epsilon=min(max(epsilon, _LEAST), _MOST))
        shape = geometry(rule, history.width, 0.0, coordinates)
        self._unit = epsilon
        self._numbers[t.TREE_REACH] = shape.tree_reach
        self._numbers[t.GRAIN] = GRID[rule.metric] / shape.tree_reach
        self.state.layout.settings[t.CODE_SCALE][:] = shape.code_scale

    def _review_unit(self) -> None:
        """Choose another unit if the last searches ended far from where they should."""
        self._next_review = _GROWTH * self.state.history.total
        distances = self._distances[np.isfinite(self._distances) & (self._distances > 0)]
        if len(distances) == 0:
            return
        unit = float(np.median(distances)) / _SHARE
        if not self._unit / _OFF <= unit <= self._unit * _OFF:
            self.sound = False  # until all codes have the new unit
            self._measure(unit)
            self.build()
            self.sound = True
