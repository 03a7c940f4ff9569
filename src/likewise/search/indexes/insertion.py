"""Insertion into a live tree by several threads at once.

Rows of a batch are sorted by the way that leads to their leaf. Cut where that way changes, the
pieces have no leaf in common, so each thread may fill and split its own; nodes and blocks for that
it takes from a stretch of its own. What lies above is told afterwards, by one thread.

Invariant: the tree holds what inserting one by one would have put there, if in other leaves.
Not here: one thread (live_tree.py), and trees that are being rebuilt, which one thread inserts
into.
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
from likewise.tables.rows import Rows

_PIECES = 4  # for each thread
_LEAST_ROWS = 2048  # in a piece, else one thread is as fast
_SPLIT_ROWS = 48  # rows for which a thread is given one more leaf
_SPARE = 128  # leaves that it is given besides

Piece = tuple[int, int]


def pieces_of(paths: npt.NDArray[np.uint64], threads: int) -> list[Piece]:
    """Cut ascending paths into a few parts for each thread, never between two equal ones."""
    count = len(paths)
    cuts = {0, count}
    parts = min(threads * _PIECES, count // _LEAST_ROWS)
    for k in range(1, parts):
        cuts.add(int(np.searchsorted(paths, paths[count * k // parts])))
    ordered = sorted(cuts)
    return list(pairwise(ordered))


def has_spare_blocks(state: IndexState, rows: int, threads: int) -> bool:
    """Whether many blocks are free: then one thread inserts, and uses them up.

    Several would take new ones, and a history that forgets as much as it takes would grow.
    """
    following, block = state.blocks(t.NEXT), int(state.table[t.FREE_BLOCK])
    for _ in range(2 * _leaves_for(rows, threads)):
        if block < 0:
            return False
        block = int(following[block])
    return True


def _leaves_for(rows: int, threads: int) -> int:
    """For how many new leaves a thread is given room."""
    return rows // threads // _SPLIT_ROWS + _SPARE


def insert_together(
    workers: KernelRunner,
    pieces: list[Piece],
    threads: int,
    pool: ThreadPoolExecutor,
    lay_out: Callable[[Table], None],
) -> tuple[list[Piece], list[Rows]]:
    """Insert routed rows, each piece by one of the threads.

    The parts that are left, for want of room, and the nodes that were split: they are to be tended.
    """
    state = workers.state
    threads = min(threads, len(pieces))
    leaves = _leaves_for(pieces[-1][1], threads)
    state.ensure(0, threads * leaves + 256)
    desks = workers.scratches(threads)
    for desk in desks[1:]:
        desk.fit(state)
    for desk in desks[1:]:
        _give(state, desk, leaves)
    waiting = iter(pieces)

    def work(desk: ThreadScratch) -> list[tuple[int, int, int]]:
        """Insert pieces: of each its start, how far that came, and its end."""
        lay_out(desk.table)
        desk.table[t.PARTED_COUNT] = 0
        done = []
        for start, stop in waiting:
            desk.table[t.START], desk.table[t.STOP] = start, stop
            reached = workers.run_task_on(desk, task.APART)
            done.append((start, reached, stop))
            if reached < stop:  # its room is used up
                break
        return done

    done = [piece for found in pool.map(work, desks) for piece in found]
    for desk in desks[1:]:
        _take_back(state, desk)
    splits = [desk.splits() for desk in desks]
    for nodes in splits:
        state.scratch.set_split_nodes(nodes)
        workers.run_task(task.COUNT)
    state.table[t.PARTED_COUNT] = 0
    for start, reached, _ in done:
        state.table[t.START], state.table[t.STOP] = start, reached
        workers.run_task(task.JOIN)
    left = [(reached, stop) for _, reached, stop in done if reached < stop]
    return left + list(waiting), splits


def _give(state: IndexState, desk: ThreadScratch, leaves: int) -> None:
    """Let a thread have nodes and blocks for so many new leaves."""
    for used, limit, free, size in (
        (t.NODES, t.NODE_CAPACITY, t.FREE_PAIR, 2 * leaves),
        (t.BLOCKS, t.BLOCK_CAPACITY, t.FREE_BLOCK, leaves),
    ):
        first = int(state.table[used])
        desk.table[used], desk.table[limit] = first, first + size
        desk.table[free] = -1
        state.table[used] = first + size


def _take_back(state: IndexState, desk: ThreadScratch) -> None:
    """Free what a thread did not use of its nodes and blocks."""
    table = desk.table
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
