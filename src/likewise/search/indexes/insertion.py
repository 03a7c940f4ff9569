"""Insert a batch into a live tree with several threads.

Rows are sorted by the path to their leaf and cut where it changes, so pieces have no leaf in common
and each thread fills and splits its own, with nodes and blocks of its own. One thread then updates
the nodes above. Invariant: the tree holds the same rows as after single insertions.
Not here: one thread (live_tree.py), and trees that are being rebuilt, where one thread inserts.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import Table
from likewise.search.indexes.index_state import IndexState, ThreadScratch
from likewise.search.indexes.workers import KernelRunner
from likewise.search.kernels import decide as task
from likewise.search.kernels import table as t
from likewise.tables.array_types import Rows

_PIECES = 4  # for each thread
_LEAST_ROWS = 2048  # in a piece, else one thread is as fast
_SPLIT_ROWS = 48  # rows for which a thread gets one more leaf
_SPARE = 128  # further leaves that it gets

Piece = tuple[int, int]


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
