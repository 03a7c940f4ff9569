"""The live tree, as Python sees it: decisions in, counts of witnesses out.

The tree holds all coordinates of an input, or a sketch: a few of them, since every metric's
distance over some coordinates is at most the distance over all. Whole rows decide either way.

Invariant: rows from TOTAL on are invisible to every query.
Cost: one kernel call for a decision; for a batch a few per block, searches spread over the threads.
Not here: which coordinates (search/indexes/sketch.py), what is near (search/kernels/distance.py).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.geometry import geometry
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.index_state import IndexState, TableLayout
from likewise.search.indexes.insertion import has_spare_blocks, insert_together, pieces_of
from likewise.search.indexes.workers import CHECK, PLANT, Found, KernelRunner
from likewise.search.kernels import decide as task
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.search.kernels.decide import decide
from likewise.search.kernels.maintain_tree import maintain_tree
from likewise.search.kernels.rebuild import start_bulk
from likewise.search.kernels.remove import remove_rows
from likewise.tables.rows import Floats, Rows
from likewise.verdict.witnesses import Witnesses

_BLOCK_ROWS = 1 << 16  # rows of a batch inserted, then searched, together
_RESHAPING_ROWS = 1 << 12  # the same while the tree is being reshaped, which undoes the routing
_MAINTENANCE_BUDGET = 2048  # rows a rebuild may touch between two decisions: some 30 microseconds
_WITHOUT_END = 1 << 60
_TEND, _FULL = t.NEEDS_MAINTENANCE, t.FULL
_LEAST_ROUTED = 8192  # rows for each thread: finding a leaf takes so little that fewer do not pay
_LEAST_SEARCHED = 2048  # the same for searching
_LABEL_TREES = 4  # labels with a tree of their own; all further ones share one more

_PER_NODE = {t.AXIS: 8, t.SPLIT: 8, t.LEFT: 8, t.PARENT: 8, t.LEAVES: 8, t.TRIED: 8, t.BUILT: 8}
_STACKS = {t.STACK: 16, t.STACK_SUM: 16, t.STACK_AXIS: 16, t.STACK_OFFSET: 16}


def trees_for(output: int) -> int:
    """How many trees, or groups of blocks, a forest has."""
    return _LABEL_TREES + 1 if output == t.LABEL else 1


def ignore_outputs(state: IndexState) -> None:
    """Let every past output be different: each distance is above delta, and no range says no."""
    state.layout.settings[t.NUMBERS][t.DELTA] = -1.0
    state.table[t.RANGE_WIDTH] = 0


@contextmanager
def outputs_ignored(state: IndexState) -> Iterator[None]:
    """Let every output be different for the calls within.

    If this is cut off, `State.settle` brings the numbers back.
    """
    numbers = state.layout.settings[t.NUMBERS].copy()
    numbers[t.DELTA] = -1.0
    try:
        state.table[t.NUMBERS] = numbers.ctypes.data
        yield
    finally:
        state.table[t.NUMBERS] = state.layout.settings[t.NUMBERS].ctypes.data


def layout_for(history: History, coordinates: Rows | None) -> TableLayout:
    """The arrays of a live tree over some coordinates, or over all."""
    slack = history.rule.slack_for(history.storage)
    shape = geometry(history.rule, history.width, slack, coordinates)
    axes = history.width if coordinates is None else len(coordinates)
    numbers = np.zeros(t.NUMBERS_COUNT)
    numbers[t.REACH], numbers[t.DELTA] = shape.reach, history.rule.delta
    numbers[t.TREE_REACH], numbers[t.CLAMP] = shape.tree_reach, shape.clamp
    settings: dict[int, npt.NDArray[Any]] = {
        t.NUMBERS: numbers,
        t.PRESCALE: shape.prescale,
        t.GAP_SCALE: shape.gap_scale,
        t.CODE_SCALE: shape.code_scale,
    }
    per_row = {t.JOB_IDS: 8, t.JOB_LOG: 8, t.JOB_MARKS: 1}
    values = {t.WINDOW: shape.window, t.LIMIT: shape.limit}
    if coordinates is not None:
        settings[t.COORDINATES] = coordinates
        per_row[t.PLACES] = values[t.PLACE_BYTES] = axes * history.dtype.itemsize
    return TableLayout(
        axes=axes,
        per_row=per_row,
        per_node=_PER_NODE | {t.BOX: 8 * axes, t.JOB_STACK: 24},
        per_block={t.CODES: t.BLOCK * axes, t.IDS: 8 * t.BLOCK, t.COUNT: 8, t.NEXT: 8},
        rows_per_block=16,
        settings=settings,
        numbers=values,
        per_scratch_node=_STACKS,
        idle=(t.JOB_IDS, t.JOB_LOG, t.JOB_MARKS, t.JOB_STACK),
    )


class LiveTree:
    """A bucket k-d tree that splits as it grows."""

    name = "live"

    def __init__(
        self, history: History, coordinates: Rows | None = None, *, any_output: bool = False
    ) -> None:
        layout = layout_for(history, coordinates)
        trees = 1 if any_output else trees_for(int(history.table[t.OUTPUT]))
        self.state = IndexState(history, layout, trees)
        if any_output:
            ignore_outputs(self.state)
        self.workers = KernelRunner(self.state, decide)
        self.coordinates = coordinates
        self._table, self._address = self.state.table, self.state.address
        self.input: Floats = self.state.scratch.small[t.INPUT]
        self.given: Floats = self.state.scratch.small[t.GIVEN]
        self._most = _BLOCK_ROWS
        self._batch = BatchArrays(0)
        self.sound = True
        """False while what it holds may be wrong if the work on it is cut off."""
        self.workers.run_task(PLANT)
        maintain_tree(
            self._address, 0
        )  # nothing to do yet, but compiled: no later decision waits for that

    @property
    def shape(self) -> str:
        return "tree" if self.coordinates is None else "sketch tree"

    # One decision

    def observe(self) -> int:
        """Judge and remember what is in row TOTAL, or `input`, and `given`.

        The number of witnesses, or an error code.
        """
        found: int = decide(self._address)
        if found >= _TEND:
            maintain_tree(self._address, _MAINTENANCE_BUDGET)
            return found - _TEND
        if found == _FULL:
            self.state.ensure(1, 256)
            return self.observe()
        return found

    def check(self) -> int:
        """The same without remembering it."""
        found = self.workers.run_task(CHECK)
        if found == _FULL:
            self.state.ensure(1, 256)
            return self.check()
        return found

    def witnesses(self, found: int) -> Witnesses:
        """What the last `observe` or `check` found."""
        return Witnesses(*self.state.scratch.result_bytes(found))

    def find_comparable(self, row: int, since: int) -> int:
        """A like case, from `since` on, of the row that was judged last; -1 for none."""
        self._table[t.FIRST], self._table[t.SINCE] = row, since
        return self.workers.run_task(task.LIKE)

    def find_near_rows(self, row: int) -> Rows:
        """All rows before a written one that are near it, whatever their outputs."""
        batch = BatchArrays(1)
        batch.lay_out(self._table, row)
        self._table[t.START], self._table[t.STOP] = 0, 1
        with outputs_ignored(self.state):
            self.workers.run_task(task.SEARCH)
        return self.state.scratch.found_rows(int(self._table[t.FOUND])).copy()

    def settle(self) -> None:
        """After a call that was cut off between two kernels: the next finds the table in order."""
        self.state.settle()
        maintain_tree(self._address, 0)  # the nodes noted for it may fill their list

    # Many decisions

    def next_batch_size(self, left: int) -> int:
        """How many of the next rows to take together."""
        return min(self._most, max(2048, self.state.history.total // 2), left)

    def judge(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Insert and search written rows; witnesses of each, and all of them in order."""
        moves = int(self._table[t.MOVES])
        self.insert(first, size, threads, pool)
        self._most = _BLOCK_ROWS if moves == self._table[t.MOVES] else _RESHAPING_ROWS
        return self._search(first, size, threads, pool)

    def arrange_rows(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> None:
        """Lead written rows to their leaves, and put them in the order of these."""
        table = self._table
        if len(self._batch.order) < size:
            self._batch = BatchArrays(size)
        batch = self._batch

        def lay_out(table: Rows) -> None:
            batch.lay_out(table, first)

        lay_out(table)
        self.state.prepare(size)
        if threads > 1 and table[t.PARTED_COUNT] > 0:
            maintain_tree(self._address, _MAINTENANCE_BUDGET)
        route = self.workers.make_task_work(task.ROUTE)
        self.workers.run_in_parallel(size, threads, pool, lay_out, route, least=_LEAST_ROUTED)
        table[t.ROUTED] = table[t.MOVES]
        table[t.STOP] = size
        self.workers.run_task(task.SORT)

    def search_unindexed(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Search for written rows that are not to be inserted; as `judge` answers."""
        self.arrange_rows(first, size, threads, pool)
        return self._search(first, size, threads, pool)

    def insert(self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None) -> None:
        """Put written rows into the tree; forgotten ones are left out."""
        self.arrange_rows(first, size, threads, pool)
        table, batch = self._table, self._batch

        def lay_out(table: Rows) -> None:
            batch.lay_out(table, first)

        left = [(0, size)]
        alone = threads == 1 or table[t.JOB_PHASE] != 0
        if not alone and not has_spare_blocks(self.state, size, threads):
            assert pool is not None
            pieces = pieces_of(batch.paths[batch.order[:size]], threads)
            if len(pieces) > 1:
                left, splits = insert_together(self.workers, pieces, threads, pool, lay_out)
                for nodes in splits:
                    self.state.scratch.set_split_nodes(nodes)
                    maintain_tree(self._address, _MAINTENANCE_BUDGET)
        for start, stop in left:
            done = start
            while done < stop:
                table[t.START], table[t.STOP] = done, stop
                done = self.workers.run_task(task.INSERT)
                self.state.ensure(0, 256)
                if table[t.PARTED_COUNT] == t.PARTED_MOST or table[t.JOB_PHASE] != 0:
                    maintain_tree(self._address, _MAINTENANCE_BUDGET)

    def _search(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Search for rows just inserted. Results come in working order, and leave in row order."""
        batch = self._batch

        def lay_out(table: Rows) -> None:
            batch.lay_out(table, first)

        search = self.workers.make_task_work(task.SEARCH)
        parts = self.workers.run_in_parallel(
            size, threads, pool, lay_out, search, least=_LEAST_SEARCHED
        )
        rows, near, far, owners = (np.concatenate(column) for column in zip(*parts, strict=True))
        found = batch.counts[:size].copy()
        if len(rows) == 0:
            return found, (rows, near, far, owners)
        order = batch.order[:size]
        ends = np.cumsum(found[order])
        starts = np.empty(size, dtype=np.int64)
        starts[order] = ends - found[order]
        some = np.flatnonzero(found)
        take = _ranges(starts[some], found[some])
        return found, (rows[take], near[take], far[take], owners)

    def find_comparable_many(
        self,
        first: int,
        likes: Rows,
        sinces: Rows,
        threads: int,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        """A like case of each row that was judged last, where there is none in `likes` yet.

        sinces: the first row that counts for each
        """
        batch = self._batch
        found, since = address_of(likes), address_of(sinces)

        def lay_out(table: Rows) -> None:
            batch.lay_out(table, first)
            table[t.COMPARABLE_ROWS], table[t.SINCES] = found, since

        work = self.workers.make_task_work(task.LIKES)
        self.workers.run_in_parallel(
            len(likes), threads, pool, lay_out, work, least=_LEAST_SEARCHED
        )

    def measure_search(self, first: int, size: int) -> None:
        """Search for rows of the tree, only to see what that costs."""
        if len(self._batch.order) < size:
            self._batch = BatchArrays(size)
        self._batch.order[:size] = np.arange(size)
        self._search(first, size, 1, None)

    def build(self) -> None:
        """Make the trees anew from the whole history."""
        self._finish_rebuild()
        for root in range(int(self._table[t.TREES])):
            start_bulk(self._address, root)
            self._finish_rebuild()

    def _finish_rebuild(self) -> None:
        while self._table[t.JOB_PHASE] != 0:
            self.state.ensure(0, 4096 + self.state.history.total // 32)
            maintain_tree(self._address, _WITHOUT_END)

    def remove(self, rows: Rows) -> None:
        """Take remembered rows out."""
        remove_rows(self._address, address_of(rows), len(rows))

    # Looking at it

    def depth(self) -> int:
        """Nodes on the longest way from a root to a leaf."""
        axis, left = self.state.nodes(t.AXIS), self.state.nodes(t.LEFT)
        level = np.arange(int(self._table[t.TREES]))
        depth = 0
        while len(level):
            depth += 1
            children = left[level[axis[level] >= 0]]
            level = np.concatenate([children, children + 1])
        return depth

    def leaves(self) -> int:
        return int(self.state.nodes(t.LEAVES)[: int(self._table[t.TREES])].sum())

    def describe(self) -> str:
        held = "all" if self.coordinates is None else f"{len(self.coordinates)}"
        return (
            f"{self.leaves():,} leaves, depth {self.depth()}, {held} coordinates,"
            f" {self._table[t.LIFTS]:,} planes lifted, {self._table[t.REBUILDS]:,} subtrees rebuilt"
        )


class BatchArrays:
    """What the tasks of one block hand each other."""

    def __init__(self, rows: int) -> None:
        self.leaves = np.zeros(rows, dtype=np.int64)
        self.paths = np.zeros(rows, dtype=np.uint64)
        self.order = np.zeros(rows, dtype=np.int64)
        self.counts = np.zeros(rows, dtype=np.int64)
        self._addresses = (
            (t.LEAF_OF, address_of(self.leaves)),
            (t.PATH_OF, address_of(self.paths)),
            (t.WORK_ORDER, address_of(self.order)),
            (t.COUNTS, address_of(self.counts)),
        )

    def lay_out(self, table: Rows, first: int) -> None:
        table[t.FIRST] = first
        for slot, address in self._addresses:
            table[slot] = address


def _ranges(starts: Rows, lengths: Rows) -> Rows:
    """starts[0], starts[0] + 1, … for lengths[0] numbers, then the same for the next."""
    ends = np.cumsum(lengths)
    steps = np.ones(int(ends[-1]), dtype=np.int64)
    steps[0] = starts[0]
    steps[ends[:-1]] = starts[1:] - (starts[:-1] + lengths[:-1] - 1)
    return np.cumsum(steps)
