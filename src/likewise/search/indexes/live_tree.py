"""Drive the kernels of the live tree: a k-d tree that splits as it grows.

The tree holds all coordinates of an input, or a sketch: a few of them, since every metric's
distance over some coordinates is at most the distance over all. Whole rows decide either way.
Cost: one kernel call for a decision; for a batch a few per block, searches spread over the threads.
Not here: which coordinates (search/indexes/sketch.py), what is near (search/kernels/distance.py).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.geometry import geometry
from likewise.search.history.stored_decisions import History, Table
from likewise.search.indexes.index_state import IndexState, TableLayout, ThreadScratch
from likewise.search.indexes.workers import CHECK, PLANT, Found, KernelRunner, join_found
from likewise.search.kernels import decide as task
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.search.kernels.decide import decide
from likewise.search.kernels.maintain_tree import maintain_tree
from likewise.search.kernels.rebuild import start_bulk
from likewise.search.kernels.remove import remove_rows
from likewise.tables.array_types import Floats, Rows
from likewise.verdict.witnesses import Witnesses

_PIECES = 4  # for each thread
_LEAST_ROWS = 2048  # in a piece, else one thread is as fast
_SPLIT_ROWS = 48  # rows for which a thread gets one more leaf
_SPARE = 128  # further leaves that it gets

Piece = tuple[int, int]


# Insert a batch into a live tree with several threads. Rows are sorted by the path to their leaf
# and cut where it changes, so pieces have no leaf in common and each thread fills and splits its
# own, with nodes and blocks of its own. One thread then updates the nodes above. Invariant: the
# tree holds the same rows as after single insertions.
# Not here: one thread (live_tree.py), and trees that are being rebuilt, where one thread inserts.


def pieces_of(paths: npt.NDArray[np.uint64], threads: int) -> list[Piece]:
    """Cut ascending paths into a few parts for each thread, never between two equal ones."""
    count = len(paths)
    parts = min(threads * _PIECES, count // _LEAST_ROWS)
    cuts = {int(np.searchsorted(paths, paths[count * k // parts])) for k in range(1, parts)}
    return list(pairwise(sorted(cuts | {0, count})))


def has_spare_blocks(state: IndexState, rows: int, threads: int) -> bool:
    """Return whether many blocks are free: then one thread should insert, and use them up.

    Several threads would take new ones, and a history that forgets as much as it takes would grow.
    """
    following, block = state.blocks(t.NEXT), int(state.table[t.FREE_BLOCK])
    for _ in range(2 * _leaves_for(rows, threads)):
        if block < 0:
            return False
        block = int(following[block])
    return True


def _leaves_for(rows: int, threads: int) -> int:
    """Return how many new leaves a thread gets room for."""
    return rows // threads // _SPLIT_ROWS + _SPARE


def insert_together(
    workers: KernelRunner,
    pieces: list[Piece],
    threads: int,
    pool: ThreadPoolExecutor,
    lay_out: Callable[[Table], None],
) -> tuple[list[Piece], list[Rows]]:
    """Insert routed rows, each piece by one of the threads.

    Return the parts left over for lack of room, and the nodes that were split, for maintenance.
    """
    state = workers.state
    threads = min(threads, len(pieces))
    leaves = _leaves_for(pieces[-1][1], threads)
    state.ensure(0, threads * leaves + 256)
    scratches = workers.scratches(threads)
    for scratch in scratches[1:]:
        scratch.fit(state)
    for scratch in scratches[1:]:
        _reserve_leaves(state, scratch, leaves)
    waiting = iter(pieces)

    def work(scratch: ThreadScratch) -> list[tuple[int, int, int]]:
        """Insert pieces; return the start of each, how far the work came, and the end."""
        lay_out(scratch.table)
        scratch.table[t.PARTED_COUNT] = 0
        done = []
        for start, stop in waiting:
            scratch.table[t.START], scratch.table[t.STOP] = start, stop
            reached = workers.run_task_on(scratch, task.APART)
            done.append((start, reached, stop))
            if reached < stop:  # its room is used up
                break
        return done

    done = [piece for pieces_done in pool.map(work, scratches) for piece in pieces_done]
    for scratch in scratches[1:]:
        _free_unused(state, scratch)
    splits = [scratch.splits() for scratch in scratches]
    for nodes in splits:
        state.scratch.set_split_nodes(nodes)
        workers.run_task(task.COUNT)
    state.table[t.PARTED_COUNT] = 0
    for start, reached, _ in done:
        state.table[t.START], state.table[t.STOP] = start, reached
        workers.run_task(task.JOIN)
    left = [(reached, stop) for _, reached, stop in done if reached < stop]
    return left + list(waiting), splits


def _reserve_leaves(state: IndexState, scratch: ThreadScratch, leaves: int) -> None:
    """Reserve nodes and blocks for a thread's new leaves."""
    for used, limit, free, size in (
        (t.NODES, t.NODE_CAPACITY, t.FREE_PAIR, 2 * leaves),
        (t.BLOCKS, t.BLOCK_CAPACITY, t.FREE_BLOCK, leaves),
    ):
        first = int(state.table[used])
        scratch.table[used], scratch.table[limit] = first, first + size
        scratch.table[free] = -1
        state.table[used] = first + size


def _free_unused(state: IndexState, scratch: ThreadScratch) -> None:
    """Free what a thread did not use of its nodes and blocks."""
    table = scratch.table
    pairs = np.arange(int(table[t.NODES]), int(table[t.NODE_CAPACITY]), 2)
    axis = state.nodes(t.AXIS)
    axis[pairs] = axis[pairs + 1] = -1
    _link(state, t.FREE_PAIR, state.nodes(t.LEFT), pairs)
    blocks = np.arange(int(table[t.BLOCKS]), int(table[t.BLOCK_CAPACITY]))
    _link(state, t.FREE_BLOCK, state.blocks(t.NEXT), blocks)


def _link(state: IndexState, head: int, following: Rows, free: Rows) -> None:
    following[free[:-1]] = free[1:]
    following[free[-1]] = state.table[head]
    state.table[head] = free[0]


_BLOCK_ROWS = 1 << 16  # rows of a batch inserted, then searched, together
_RESHAPING_ROWS = 1 << 12  # instead, while the tree is being reshaped, which undoes the routing
_MAINTENANCE_BUDGET = 2048  # rows a rebuild may touch between two decisions: some 30 microseconds
_UNLIMITED = 1 << 60
_NEEDS_MAINTENANCE, _FULL = t.NEEDS_MAINTENANCE, t.FULL
_LEAST_ROUTED = 8192  # rows for each thread: finding a leaf is so fast that fewer do not pay
_LEAST_SEARCHED = 2048  # rows for each thread in a search
_LABEL_TREES = 4  # labels with a tree of their own; all further ones share one more

_PER_NODE = {t.AXIS: 8, t.SPLIT: 8, t.LEFT: 8, t.PARENT: 8, t.LEAVES: 8, t.TRIED: 8, t.BUILT: 8}
_STACKS = {t.STACK: 16, t.STACK_SUM: 16, t.STACK_AXIS: 16, t.STACK_OFFSET: 16}


def trees_for(output: int) -> int:
    """Return how many trees, or groups of blocks, an index has for this kind of output."""
    return _LABEL_TREES + 1 if output == t.LABEL else 1


def ignore_outputs(state: IndexState) -> None:
    """Make every past output count as different, for good: no distance is at most delta."""
    state.layout.settings[t.NUMBERS][t.DELTA] = -1.0
    state.table[t.RANGE_WIDTH] = 0


@contextmanager
def outputs_ignored(state: IndexState) -> Iterator[None]:
    """Make every past output count as different for the calls within.

    If this is interrupted, `IndexState.settle` restores the numbers.
    """
    numbers = state.layout.settings[t.NUMBERS].copy()
    numbers[t.DELTA] = -1.0
    try:
        state.table[t.NUMBERS] = numbers.ctypes.data
        yield
    finally:
        state.table[t.NUMBERS] = state.layout.settings[t.NUMBERS].ctypes.data


def layout_for(history: History, coordinates: Rows | None) -> TableLayout:
    """Return the arrays of a live tree over some coordinates, or over all."""
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
    """A bucket k-d tree that splits as it grows.

    Invariant: rows from TOTAL on are invisible to every query.
    """

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
        """False while an interruption may leave the tree with wrong contents."""
        self.workers.run_task(PLANT)
        maintain_tree(self._address, 0)  # so that no later decision waits for its compilation

    @property
    def shape(self) -> str:
        return "tree" if self.coordinates is None else "sketch tree"

    # One decision

    def observe(self) -> int:
        """Judge and remember the decision in row TOTAL, or `input`, and `given`.

        Return the number of witnesses, or an error code.
        """
        found: int = decide(self._address)
        if found >= _NEEDS_MAINTENANCE:
            maintain_tree(self._address, _MAINTENANCE_BUDGET)
            return found - _NEEDS_MAINTENANCE
        if found == _FULL:
            self.state.ensure(1, 256)
            return self.observe()
        return found

    def check(self) -> int:
        """Judge that decision without remembering it."""
        found = self.workers.run_task(CHECK)
        if found == _FULL:
            self.state.ensure(1, 256)
            return self.check()
        return found

    def witnesses(self, found: int) -> Witnesses:
        """Return what the last `observe` or `check` found."""
        return Witnesses(*self.state.scratch.result_bytes(found))

    def find_comparable(self, row: int, since: int) -> int:
        """Return a near row from `since` on of the row judged last; -1 for none."""
        self._table[t.FIRST], self._table[t.SINCE] = row, since
        return self.workers.run_task(task.LIKE)

    def find_near_rows(self, row: int) -> Rows:
        """Return all rows before a written one that are near it, whatever their outputs."""
        batch = BatchArrays(1)
        batch.lay_out(self._table, row)
        self._table[t.START], self._table[t.STOP] = 0, 1
        with outputs_ignored(self.state):
            self.workers.run_task(task.SEARCH)
        return self.state.scratch.found_rows(int(self._table[t.FOUND])).copy()

    def settle(self) -> None:
        """Put the table in order after a call that was interrupted between two kernels."""
        self.state.settle()
        maintain_tree(self._address, 0)  # the list of split nodes may be full

    # Many decisions

    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows to take together."""
        return min(self._most, max(2048, self.state.history.total // 2), left)

    def judge(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Insert and search written rows; return the witness counts, and all witnesses in order."""
        moves = int(self._table[t.MOVES])
        self.insert(first, size, threads, pool)
        self._most = _BLOCK_ROWS if moves == self._table[t.MOVES] else _RESHAPING_ROWS
        return self._search(first, size, threads, pool)

    def arrange_rows(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> None:
        """Find the leaves of written rows, and sort the rows by leaf."""
        table = self._table
        if len(self._batch.order) < size:
            self._batch = BatchArrays(size)
        lay_out = self._lay_out_from(first)
        lay_out(table)
        self.state.prepare(size)
        if threads > 1 and table[t.PARTED_COUNT] > 0:
            maintain_tree(self._address, _MAINTENANCE_BUDGET)
        self.workers.run_in_parallel(task.ROUTE, size, threads, pool, lay_out, _LEAST_ROUTED)
        table[t.ROUTED] = table[t.MOVES]
        table[t.STOP] = size
        self.workers.run_task(task.SORT)

    def search_unindexed(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Search for written rows without inserting them; return what `judge` returns."""
        self.arrange_rows(first, size, threads, pool)
        return self._search(first, size, threads, pool)

    def insert(self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None) -> None:
        """Put written rows into the tree; forgotten ones are left out."""
        self.arrange_rows(first, size, threads, pool)
        table, batch = self._table, self._batch
        left = [(0, size)]
        alone = threads == 1 or table[t.JOB_PHASE] != 0
        if not alone and not has_spare_blocks(self.state, size, threads):
            assert pool is not None
            pieces = pieces_of(batch.paths[batch.order[:size]], threads)
            if len(pieces) > 1:
                left, splits = insert_together(
                    self.workers, pieces, threads, pool, self._lay_out_from(first)
                )
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

    def _lay_out_from(self, first: int) -> Callable[[Rows], None]:
        """Return a function that points a table at the batch whose first row is `first`."""
        return partial(self._batch.lay_out, first=first)

    def _search(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Search for rows sorted by leaf; return the results in order of rows."""
        rows, near, far, owners = join_found(
            self.workers.run_in_parallel(
                task.SEARCH, size, threads, pool, self._lay_out_from(first), _LEAST_SEARCHED
            )
        )
        counts = self._batch.counts[:size].copy()
        if len(rows) == 0:
            return counts, (rows, near, far, owners)
        order = self._batch.order[:size]
        ends = np.cumsum(counts[order])
        starts = np.empty(size, dtype=np.int64)
        starts[order] = ends - counts[order]
        flagged = np.flatnonzero(counts)
        places = _ranges(starts[flagged], counts[flagged])
        return counts, (rows[places], near[places], far[places], owners)

    def find_comparable_many(
        self,
        first: int,
        comparable_rows: Rows,
        sinces: Rows,
        threads: int,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        """Fill in a near row for each row judged last that has none in `comparable_rows` yet.

        sinces: the first row that counts for each
        """
        batch = self._batch
        addresses = address_of(comparable_rows), address_of(sinces)

        def lay_out(table: Rows) -> None:
            batch.lay_out(table, first)
            table[t.COMPARABLE_ROWS], table[t.SINCES] = addresses

        self.workers.run_in_parallel(
            task.LIKES, len(comparable_rows), threads, pool, lay_out, _LEAST_SEARCHED
        )

    def measure_search(self, first: int, size: int) -> None:
        """Search for rows of the tree, only to measure what that costs."""
        if len(self._batch.order) < size:
            self._batch = BatchArrays(size)
        self._batch.order[:size] = np.arange(size)
        self._search(first, size, 1, None)

    def build(self) -> None:
        """Rebuild the trees from the whole history."""
        self._finish_rebuild()
        for root in range(int(self._table[t.TREES])):
            start_bulk(self._address, root)
            self._finish_rebuild()

    def _finish_rebuild(self) -> None:
        while self._table[t.JOB_PHASE] != 0:
            self.state.ensure(0, 4096 + self.state.history.total // 32)
            maintain_tree(self._address, _UNLIMITED)

    def remove(self, rows: Rows) -> None:
        """Take remembered rows out of the tree."""
        remove_rows(self._address, address_of(rows), len(rows))

    # Looking at it

    def depth(self) -> int:
        """Return the number of nodes on the longest path from a root to a leaf."""
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
        count = "all" if self.coordinates is None else f"{len(self.coordinates)}"
        return (
            f"{self.leaves():,} leaves, depth {self.depth()}, {count} coordinates,"
            f" {self._table[t.LIFTS]:,} planes lifted, {self._table[t.REBUILDS]:,} subtrees rebuilt"
        )


class BatchArrays:
    """Holds what the tasks of one batch hand each other."""

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
    """Return starts[0], starts[0] + 1, … (lengths[0] numbers), then the next range, and so on."""
    ends = np.cumsum(lengths)
    steps = np.ones(int(ends[-1]), dtype=np.int64)
    steps[0] = starts[0]
    steps[ends[:-1]] = starts[1:] - (starts[:-1] + lengths[:-1] - 1)
    return np.cumsum(steps)
