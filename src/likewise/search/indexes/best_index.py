"""A live tree that answers with one past decision: the nearest that differs, or the steepest.

To the monitor it is a live tree like any other, whose decisions have one witness or none. The tree
is told that no outputs are different, so its own search ends at the roots; the hunt follows
(search/kernels/nearest.py), among the rows before each.

A hunt has no radius of its own, so no rule can say how long a unit of the codes should be. What
makes a good tree is that the distance at which a hunt ends is some ten units long: much more, and
codes of far points coincide; much less, and they say little. So the unit is chosen by what the last
hunts found: their median becomes half of the reach. Until the first are done it is the rule's own
epsilon. The unit changes speed, never an answer.

The tree knows no first row. Where the best of all comes before the rows that count, those are gone
through one by one (`among`).

Invariant: at most one witness for each decision, and it comes before it.
Cost: as LiveTree; choosing another unit builds the trees anew (0.2 s for a million rows), once at
some hundred rows, then at most each time the history has grown sixteenfold, if the unit is off.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from likewise.search.geometry import geometry, grid_of
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.workers import Found, KernelRunner
from likewise.search.kernels import propose as task
from likewise.search.kernels import table as t
from likewise.search.kernels.nearest import search_best
from likewise.search.kernels.propose import propose
from likewise.tables.rows import Floats, Rows
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.witnesses import Witnesses

_BATCH = -1  # instead of a row: the rows of a batch
_FIRST_LOOK = 256  # rows from which hunts say how long a unit should be
_GROWTH = 16  # times as many, before the next look
_OFF = 3.0  # times too long or too short: worth building anew
_SHARE = 0.5  # of the reach: where the median hunt should end
_LEAST, _MOST = 1e-150, 1e150  # what a rule's epsilon can be


class NearestTree(LiveTree):
    """One past decision for each: the nearest that differs, or the steepest."""

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
        self._look_at = _FIRST_LOOK
        self._found = np.full(t.RECENT_MOST, np.nan)
        self._noted = 0
        self._unit = history.rule.epsilon
        self._measure(self._unit)
        self._best_workers = KernelRunner(self.state, lambda address: search_best(address, _BATCH))
        self._batch.lay_out(self._table, 0)
        search_best(self._address, _BATCH)  # nothing to do yet, but compiled

    # One decision

    def observe(self) -> int:
        found = super().observe()
        if found < 0:
            return found
        total = self._table.item(t.TOTAL)
        if total > self._look_at:
            self._reconsider()
        answer: int = search_best(self._address, total - 1)
        return answer

    def check(self) -> int:
        found = super().check()
        return found if found < 0 else search_best(self._address, int(self._table[t.TOTAL]))

    def witnesses(self, found: int) -> Witnesses:
        answer = super().witnesses(found)
        self._found[self._noted % t.RECENT_MOST] = answer.first[1]
        self._noted += 1
        return answer

    def find_best(self, row: int, first: int) -> Witnesses:
        """The steepest of the rows from `first` on to a written row, without the tree.

        The row was judged before: it is a remembered one, or what was observed or checked last.
        """
        desk, table, history = self.state.scratch, self._table, self.state.history
        assert table[t.QUESTION] == t.STEEPEST
        width, given, numbers = history.out_width, self.given.copy(), self._numbers.copy()
        numbers[t.REACH], numbers[t.DELTA] = np.inf, 0.0
        if row < history.total:
            outputs = history.region(t.OUTPUTS).view(np.float64, (row + 1) * width)
            self.given[:] = outputs[row * width :]
        desk.set_candidates(np.arange(first, row))
        table[t.FIRST], table[t.STOP] = row, row - first
        try:  # if this is cut off, `State.settle` brings the table back
            table[t.NUMBERS], table[t.TASK] = numbers.ctypes.data, task.DECIDE
            found = propose(self._address)
        finally:
            table[t.NUMBERS], table[t.TASK] = self._numbers.ctypes.data, 0
            self.given[:] = given
        rows, near, far, _ = desk.results(found)
        slopes = SlopeQuestion(float(numbers[t.EXPONENT])).slopes(near, far)
        best = np.lexsort((rows, -far, -slopes))[: int((slopes > 0).any())]
        return Witnesses(rows[best], near[best], far[best])

    # Many decisions

    def judge(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        if first >= self._look_at:  # before rows come in that are no part of the history yet
            self._reconsider()
        return super().judge(first, size, threads, pool)

    def _search(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        batch = self._batch

        def lay_out(table: Rows) -> None:
            batch.lay_out(table, first)

        work = self._best_workers.make_task_work(
            0
        )  # which task it is, the kernel is told by the row
        parts = self._best_workers.run_in_parallel(size, threads, pool, lay_out, work)
        place = np.empty(size, dtype=np.int64)
        place[batch.order[:size]] = np.arange(size)
        rows, near, far, owners = (
            np.concatenate(column)[place] for column in zip(*parts, strict=True)
        )
        some = rows >= 0
        rows, near, far, owners = rows[some], near[some], far[some], owners[some]
        last = near[-t.RECENT_MOST :]
        self._found[: len(last)] = last
        return some.astype(np.int64), (rows, near, far, owners)

    # The unit of the codes

    def _measure(self, epsilon: float) -> None:
        """Make the codes fit radii of about epsilon."""
        history, coordinates = self.state.history, self.coordinates
        rule = replace(history.rule, epsilon=min(max(epsilon, _LEAST), _MOST))
        shape = geometry(rule, history.width, 0.0, coordinates)
        self._unit = epsilon
        self._numbers[t.TREE_REACH] = shape.tree_reach
        self._numbers[t.GRAIN] = grid_of(rule.metric) / shape.tree_reach
        self.state.layout.settings[t.CODE_SCALE][:] = shape.code_scale

    def _reconsider(self) -> None:
        """Choose another unit if the last hunts ended far from where they should."""
        self._look_at = _GROWTH * self.state.history.total
        ends = self._found[np.isfinite(self._found) & (self._found > 0)]
        if len(ends) == 0:
            return
        wanted = float(np.median(ends)) / _SHARE
        if not self._unit / _OFF <= wanted <= self._unit * _OFF:
            self.sound = False  # until all codes have the new unit
            self._measure(wanted)
            self.build()
            self.sound = True
