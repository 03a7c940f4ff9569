"""Drive the kernels of the live tree: a k-d tree that splits as it grows.

The tree holds all coordinates of an input, or a sketch: a few of them, since every metric's
distance over some coordinates is at most the distance over all. Whole rows decide either way.
Cost: one kernel call for a decision; for a batch a few per block, searches spread over the threads.
Not here: which coordinates (search/indexes/sketch.py), what is near (search/kernels/distance.py).
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.geometry import geometry
from likewise.search.history.stored_decisions import History, Table
from likewise.search.indexes.compiled_index import BatchArrays, CompiledIndex
from likewise.search.indexes.index_state import IndexState, TableLayout, ThreadScratch
from likewise.search.indexes.workers import ALONE, Found, KernelRunner, Threads
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.search.kernels.decide import decide
from likewise.search.kernels.maintain_tree import maintain_tree
from likewise.search.kernels.rebuild import start_bulk
from likewise.search.kernels.remove import remove_rows
from likewise.tables.array_types import Rows

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
    workers: KernelRunner, pieces: list[Piece], threads: Threads, lay_out: Callable[[Table], None]
) -> tuple[list[Piece], list[Rows]]:
    """Insert routed rows, each piece by one of the threads.

    Return the parts left over for lack of room, and the nodes that were split, for maintenance.
    """
    state = workers.state
    count = min(threads.count, len(pieces))
    leaves = _leaves_for(pieces[-1][1], count)
    state.ensure(0, count * leaves + 256)
    scratches = workers.scratches(count)
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
            reached = workers.run_task_on(scratch, t.INSERT_APART)
            done.append((start, reached, stop))
            if reached < stop:  # its room is used up
                break
        return done

    done = [piece for pieces_done in threads.map(work, scratches) for piece in pieces_done]
    for scratch in scratches[1:]:
        _free_unused(state, scratch)
    splits = [scratch.splits() for scratch in scratches]
    for nodes in splits:
        state.scratch.set_split_nodes(nodes)
        workers.run_task(t.COUNT_SPLITS)
    state.table[t.PARTED_COUNT] = 0
    for start, reached, _ in done:
        state.table[t.START], state.table[t.STOP] = start, reached
        workers.run_task(t.JOIN)
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

_PER_NODE = {t.AXIS: 8, t.SPLIT: 8, t.LEFT: 8, t.PARENT: 8, t.LEAVES: 8, t.TRIED: 8, t.BUILT: 8}
_STACKS = {t.STACK: 16, t.STACK_SUM: 16, t.STACK_AXIS: 16, t.STACK_OFFSET: 16}


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


class LiveTree(CompiledIndex):
    """A bucket k-d tree that splits as it grows.

    Invariant: rows from TOTAL on are invisible to every query.
    """

    name = "live"
    _more_blocks = 256
    _least_searched = 2048

    def __init__(
        self, history: History, coordinates: Rows | None = None, *, any_output: bool = False
    ) -> None:
        layout = layout_for(history, coordinates)
        super().__init__(history, layout, decide, make_batch(1), any_output=any_output)
        self.coordinates = coordinates
        self._most = _BLOCK_ROWS
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

    def settle(self) -> None:
        """Put the table in order after a call that was interrupted between two kernels."""
        super().settle()
        maintain_tree(self._address, 0)  # the list of split nodes may be full

    # Many decisions

    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows to take together."""
        return min(self._most, max(2048, self.state.history.total // 2), left)

    def arrange_rows(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Sort written rows by leaf; prepare memory for them."""
        self.state.prepare(size)
        if threads.count > 1 and self._table[t.PARTED_COUNT] > 0:
            maintain_tree(self._address, _MAINTENANCE_BUDGET)
        self.sort_by_leaf(first, size, threads)

    def sort_by_leaf(self, first: int, size: int, threads: Threads = ALONE) -> BatchArrays:
        """Find the leaves of written rows, and sort the rows by leaf; return the batch."""
        if len(self._batch.order) < size:
            self._batch = make_batch(size)
        table, lay_out = self._table, self._lay_out_from(first)
        lay_out(table)
        self.workers.run_in_parallel(t.ROUTE, size, threads, lay_out, _LEAST_ROUTED)
        table[t.ROUTED] = table[t.MOVES]
        table[t.STOP] = size
        self.workers.run_task(t.SORT)
        return self._batch

    def insert(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Put written rows into the tree; forgotten ones are left out."""
        moves = int(self._table[t.MOVES])
        self.arrange_rows(first, size, threads)
        table, batch = self._table, self._batch
        left = [(0, size)]
        alone = threads.count == 1 or table[t.JOB_PHASE] != 0
        if not alone and not has_spare_blocks(self.state, size, threads.count):
            pieces = pieces_of(batch.others[t.PATH_OF][batch.order[:size]], threads.count)
            if len(pieces) > 1:
                left, splits = insert_together(
                    self.workers, pieces, threads, self._lay_out_from(first)
                )
                for nodes in splits:
                    self.state.scratch.set_split_nodes(nodes)
                    maintain_tree(self._address, _MAINTENANCE_BUDGET)
        for start, stop in left:
            done = start
            while done < stop:
                table[t.START], table[t.STOP] = done, stop
                done = self.workers.run_task(t.INSERT)
                self.state.ensure(0, 256)
                if table[t.PARTED_COUNT] == t.PARTED_MOST or table[t.JOB_PHASE] != 0:
                    maintain_tree(self._address, _MAINTENANCE_BUDGET)
        self._most = _BLOCK_ROWS if moves == table[t.MOVES] else _RESHAPING_ROWS

    def _search(self, first: int, size: int, threads: Threads) -> tuple[Rows, Found]:
        rows, near, far, owners = self._search_in_parallel(first, size, threads)
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

    def measure_search(self, first: int, size: int) -> None:
        """Search for rows of the tree, only to measure what that costs."""
        if len(self._batch.order) < size:
            self._batch = make_batch(size)
        self._batch.order[:size] = np.arange(size)
        self._search(first, size, ALONE)

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


def make_batch(rows: int) -> BatchArrays:
    """Make the arrays of a batch: leaves, and the paths that lead there, besides the usual."""
    others = {t.LEAF_OF: np.zeros(rows, np.int64), t.PATH_OF: np.zeros(rows, np.uint64)}
    return BatchArrays(rows, others)


def _ranges(starts: Rows, lengths: Rows) -> Rows:
    """Return starts[0], starts[0] + 1, … (lengths[0] numbers), then the next range, and so on."""
    ends = np.cumsum(lengths)
    steps = np.ones(int(ends[-1]), dtype=np.int64)
    steps[0] = starts[0]
    steps[ends[:-1]] = starts[1:] - (starts[:-1] + lengths[:-1] - 1)
    return np.cumsum(steps)
