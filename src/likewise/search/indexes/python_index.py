"""Adapt an index written in Python to the contract of the compiled ones.

Turns rows into points (protocol.py), asks the index for candidates, lets the kernel decide.
Invariant: the index holds every remembered row, or there is none and the next decision makes one:
after forgetting, since an index may keep copies, and after one of its calls was interrupted.
Cost: some Python for each decision, and what the index itself costs.
"""

import numpy as np

from likewise.search.geometry import geometry
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.compiled_index import outputs_ignored
from likewise.search.indexes.index_state import IndexState, TableLayout
from likewise.search.indexes.protocol import (
    ExplainableIndex,
    Index,
    MakeIndex,
    Point,
    Points,
    Space,
    add_all,
    rows_answered,
)
from likewise.search.indexes.workers import ALONE, Found, KernelRunner, Threads, join_found
from likewise.search.kernels import table as t
from likewise.search.kernels.propose import propose
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.verdict.witnesses import Witnesses

_CUT = 1e150  # coordinates are clamped here, which never lengthens a gap; squares stay finite
_BATCH = 1024  # rows made into points together


def state_over(history: History) -> IndexState:
    """Return the table and scratch memory of an index that has no arrays of its own."""
    rule = history.rule
    numbers = np.zeros(t.NUMBERS_COUNT)
    numbers[t.REACH] = geometry(rule, history.width, rule.slack_for(history.storage)).reach
    numbers[t.DELTA] = rule.delta
    layout = TableLayout(axes=1, rows_per_block=1 << 20, settings={t.NUMBERS: numbers})
    return IndexState(history, layout, 1)


class PythonIndex:
    """Asks an index for candidates and decides them."""

    def __init__(
        self, history: History, make: MakeIndex, name: str, *, wants_comparable: bool = False
    ) -> None:
        rule = history.rule
        shape = geometry(rule, history.width, rule.slack_for(history.storage))
        self.name = self.shape = name
        self.state = state_over(history)
        self.workers = KernelRunner(self.state, propose)
        self.input: Floats = self.state.scratch.small[t.INPUT]
        self.given: Floats = self.state.scratch.small[t.GIVEN]
        self._table = self.state.table
        self._table[t.WANTS_LATEST], self._table[t.LATEST] = wants_comparable, -1
        self._latest: Rows = np.empty(0, np.int64)
        """The latest row near each of the rows judged last, -1 for none."""
        self._make = make
        weights = history.weights[: history.width]
        self._scale = weights if rule.metric in ("linf", "l1") else np.sqrt(weights)
        self._unit = shape.tree_reach
        self.space = Space("l2" if history.cosine else rule.metric, history.width)
        self._origin: Point | None = None
        self._farthest = 0.0
        self.index: Index | None = None
        self._added = 0  # rows before this one are in the index, unless forgotten
        self.sound = True
        """False during calls of the index: if interrupted there, it may be in any state."""

    # Points

    def points(self, first: int, count: int) -> Points:
        """Return written rows as points; the first row of all is the origin."""
        history = self.state.history
        rows = history.rows[first : first + count].reshape(count, -1).astype(np.float64)
        history.note_touched(count)
        with np.errstate(all="ignore"):
            rows *= self._scale
            if history.cosine:
                norms = history.region(t.NORMS).view(np.float64, first + count)[first:]
                rows /= np.sqrt(np.where(norms > 0, norms, 1.0))[:, None]
            rows /= self._unit
            if self._origin is None:
                self._origin = np.clip(rows[0], -_CUT, _CUT)
            np.clip(rows, -_CUT, _CUT, out=rows)
            self._farthest = max(self._farthest, float(np.abs(rows).max(initial=0.0)))
            rows -= self._origin
        return rows

    def _reach(self) -> float:
        """Return the radius plus what the roundings of both points may add to a distance."""
        width = self.space.width
        factor = {"linf": 1.0, "l1": float(width), "l2": float(np.sqrt(width))}[self.space.metric]
        return 1.0 + 2.0**-40 + self._farthest * factor * (width + 8) * 2.0**-50

    # The index

    def _complete_index(self) -> Index:
        """Return the index over the whole history; make and fill it if need be."""
        if self.index is None:
            self._added = self.state.history.first
            self.index = self._make(self.space)
        if self._added < self.state.history.total:
            self._add(self._added, self.state.history.total)
        return self.index

    def _add(self, first: int, stop: int) -> None:
        assert self.index is not None
        alive = self.state.history.region(t.ALIVE).view(np.uint8, stop)
        self.sound = False
        for start in range(first, stop, _BATCH):
            rows = np.arange(start, min(start + _BATCH, stop))
            remembered = alive[rows] != 0
            points = self.points(start, len(rows))
            add_all(self.index, rows[remembered], points[remembered])
        self._added = stop
        self.sound = True

    def insert(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Add written rows."""
        self._complete_index()
        self._add(first, first + size)

    def remove(self, rows: Rows) -> None:
        """Replace the index, which may keep copies of what is to be forgotten."""
        if self.index is None:
            return
        another = self._make(self.space)  # raises if the index was given as an object
        self.index, self._added = None, self.state.history.first
        self.index = another

    def settle(self) -> None:
        """Put the table in order after an interruption; drop the index if it has too many rows."""
        self.state.settle()
        if self._added > self.state.history.total:
            self.index = None

    def renew(self) -> None:
        """Drop the index, whose contents are in doubt; the next decision makes another."""
        self.index = None
        self.state.settle()
        self.sound = True

    # One decision

    def observe(self) -> int:
        """Judge and remember the decision in row TOTAL, or `input`, and `given`."""
        found, point = self._judge_given()
        if point is not None:
            row = int(self._table[t.TOTAL])
            index = self._complete_index()
            self.sound = False
            index.add(row, point)
            self._added = row + 1
            self.sound = True
            self.workers.run_task(t.REMEMBER)
        return found

    def check(self) -> int:
        """Judge that decision without remembering it."""
        return self._judge_given()[0]

    def _judge_given(self) -> tuple[int, Point | None]:
        bad = self.workers.run_task(t.ADMIT)
        if bad == t.FULL:
            self.state.ensure(1, 0)
            return self._judge_given()
        if bad != 0:
            return bad, None
        row = int(self._table[t.TOTAL])
        point = self.points(row, 1)[0]
        self._table[t.LATEST] = -1
        return (self._decide(row, point) if row else 0), point

    def _decide(self, row: int, point: Point) -> int:
        self._propose(row, point)
        return self.workers.run_task(t.DECIDE)

    def _propose(self, row: int, point: Point) -> None:
        """Write the rows that the index proposes for a point where the kernel reads them."""
        table = self._table
        index = self._complete_index()
        self.sound = False
        rows = rows_answered(index.candidates(point, self._reach()))
        self.sound = True
        if len(rows) > row:
            rows = np.unique(rows)
            rows = rows[(rows >= 0) & (rows < row)]
        self.state.scratch.set_candidates(rows)
        table[t.FIRST], table[t.STOP] = row, len(rows)

    def witnesses(self, found: int) -> Witnesses:
        """Return what the last `observe` or `check` found."""
        return Witnesses(*self.state.scratch.result_bytes(found))

    def find_comparable(self, row: int, since: int) -> int:
        """Return a near row from `since` on of the row judged last; -1 for none."""
        latest = int(self._table[t.LATEST])
        return latest if latest >= since else -1

    def count_agreeing(self, row: int, since: int) -> int:
        """Count the rows from `since` on that are near the row judged last and do not differ.

        The index is asked for candidates again.
        """
        if row == 0:
            return 0
        self._propose(row, self.points(row, 1)[0])
        self._table[t.SINCE] = since
        return self.workers.run_task(t.COUNT_AGREEING)

    def find_near_rows(self, row: int) -> NearRows:
        """Return all rows before a written one that are near it, whatever their outputs."""
        with outputs_ignored(self.state):
            found = self._decide(row, self.points(row, 1)[0]) if row else 0
        return self.state.scratch.results(found)[:2]

    # Many decisions

    def find_comparable_many(
        self, first: int, comparable_rows: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Fill in a near row for each row judged last that has none in `comparable_rows` yet.

        sinces: the first row that counts for each
        """
        found = (comparable_rows < 0) & (self._latest >= sinces)
        comparable_rows[found] = self._latest[found]

    def count_agreeing_many(
        self, first: int, agreeing: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Add to `agreeing` what `count_agreeing` returns for each row judged last."""
        outputs = self.state.history.written_outputs(first, first + len(agreeing))
        for k, since in enumerate(sinces.tolist()):
            self.given[:] = outputs[k]
            agreeing[k] += self.count_agreeing(first + k, since)

    def find_near_rows_of_many(
        self, first: int, size: int, threads: Threads = ALONE
    ) -> tuple[Rows, Rows]:
        """Return how many rows `find_near_rows` finds for each of some rows, and all of these."""
        found = [self.find_near_rows(row)[0] for row in range(first, first + size)]
        return np.array([len(rows) for rows in found]), np.concatenate(found)

    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows to take: all, so that all or none are remembered."""
        return left

    def judge(self, first: int, size: int, threads: Threads = ALONE) -> tuple[Rows, Found]:
        """Search for written rows and add them, one after the other."""
        counts = np.zeros(size, dtype=np.int64)
        self._latest = np.full(size, -1, np.int64)
        parts = [self.state.scratch.results(0)]
        index = self._complete_index()
        for start in range(0, size, _BATCH):
            stop = min(start + _BATCH, size)
            outputs = self.state.history.written_outputs(first + start, first + stop)
            for k, point in enumerate(self.points(first + start, stop - start), start):
                self.given[:] = outputs[k - start]
                if first + k:
                    counts[k] = self._decide(first + k, point)
                    self._latest[k] = self._table[t.LATEST]
                if counts[k]:
                    parts.append(self.state.scratch.results(int(counts[k])))
                index.add(first + k, point)
                self._added = first + k + 1
        return counts, join_found(parts)

    # Looking at it

    def depth(self) -> int:
        return 1

    def leaves(self) -> int:
        """Return the number of rows: each counts as a leaf of its own."""
        return self.state.history.total

    def describe(self) -> str:
        if self.index is None or self._added < self.state.history.total:
            return "rebuilt with the next decision"
        return self.index.explain() if isinstance(self.index, ExplainableIndex) else "as given"
