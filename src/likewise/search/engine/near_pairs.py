"""Find all pairs of near rows of a history, whatever their outputs, a chunk at a time.

Invariant: every pair of remembered rows within reach comes once, and all pairs of one later row
come in the same chunk.
Cost: one build, and one search for each row. A chunk has at most as many pairs as `most` or as the
history has rows, whichever is more; from a flat scan, up to _FEW times as many as rows.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.search.engine.chooser import BULK_BUILD_ROWS, Chooser
from likewise.search.engine.neighbour_count import choose_projection, make_near_index
from likewise.search.engine.wildcards import Wildcards
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.index_state import ThreadScratch
from likewise.search.indexes.live_tree import BatchArrays, LiveTree
from likewise.search.kernels import decide as task
from likewise.search.kernels import table as t
from likewise.tables.array_types import Floats, Rows

_PIECE = 1 << 14  # rows that a thread searches for at a time
_FEW = 24  # rows that a flat scan searches for together, at least


@dataclass(frozen=True, slots=True, eq=False)
class NearPairs:
    """Pairs of near rows, in three columns of the same length."""

    later: Rows
    earlier: Rows
    distances: Floats

    def __post_init__(self) -> None:
        for column in (self.later, self.earlier, self.distances):
            column.flags.writeable = False

    def __len__(self) -> int:
        return len(self.later)

    def select(self, chosen: npt.NDArray[np.bool_]) -> "NearPairs":
        """Return the chosen pairs in arrays of their own."""
        return NearPairs(self.later[chosen], self.earlier[chosen], self.distances[chosen])


def find_near_pairs(
    chooser: Chooser, wildcards: Wildcards, *, most: int, threads: int
) -> Iterator[NearPairs]:
    """Yield the near pairs of a history, which must not change meanwhile.

    A tree is built once over all rows and searched in the order of its leaves; a flat scan is
    filled while it is searched.
    """
    history = chooser.history
    if history.live < 2:
        return
    index = make_near_index(history, choose_projection(chooser))
    if isinstance(index, FlatScan):
        chunks = _search_flat(history, index, most, threads)
    else:
        chunks = _search_tree(history, index, most, threads)
    if len(wildcards) == 0:
        yield from chunks
        return
    is_open = wildcards.mask(history.total)
    for chunk in chunks:
        yield chunk.select(~(is_open[chunk.later] | is_open[chunk.earlier]))
    yield from _compare_wildcard_rows(history, index, wildcards, most)


def _search_tree(history: History, tree: LiveTree, most: int, threads: int) -> Iterator[NearPairs]:
    """Yield the pairs that a tree finds."""
    first, total = history.first, history.total
    if total - first >= BULK_BUILD_ROWS:
        tree.build()
    else:
        tree.insert(first, total - first, 1, None)
    batch = BatchArrays(total - first)
    table = tree.state.table
    table[t.FIRST], table[t.START], table[t.STOP] = first, 0, total - first
    batch.lay_out(table, first)
    tree.workers.run_task(task.ROUTE)
    tree.workers.run_task(task.SORT)
    alive = history.remembered_flags()[first:] != 0
    order = batch.order[: total - first]
    remembered = order[alive[order]]
    order[: len(remembered)] = remembered
    scratches = tree.workers.scratches(threads)
    for scratch in scratches:
        if scratch is not tree.state.scratch:
            scratch.fit(tree.state)
        batch.lay_out(scratch.table, first)
        # a search stops when the room for results may not suffice
        scratch.table[t.RESULT_CAPACITY] = max(most, total)

    def search(scratch: ThreadScratch, piece: tuple[int, int]) -> tuple[int, NearPairs]:
        """Return how far the work on a piece has come, and the pairs that it found."""
        start, scratch.table[t.STOP] = piece
        scratch.table[t.START] = start
        stop = tree.workers.run_task_on(scratch, task.SEARCH)
        rows, near, _, _ = scratch.results(int(scratch.table[t.FOUND]))
        done = order[start:stop]
        return stop, NearPairs(first + np.repeat(done, batch.counts[done]), rows, near)

    count = len(remembered)
    waiting = deque((start, min(start + _PIECE, count)) for start in range(0, count, _PIECE))
    with ThreadPoolExecutor(threads) as pool:
        while waiting:
            pieces = [waiting.popleft() for _ in range(min(threads, len(waiting)))]
            results = list(pool.map(search, scratches, pieces))
            for (_, stop), (reached, _) in zip(reversed(pieces), reversed(results), strict=True):
                if reached < stop:
                    waiting.appendleft((reached, stop))
            for _, pairs in results:
                history.note_touched(len(pairs))
                yield pairs


def _search_flat(history: History, scan: FlatScan, most: int, threads: int) -> Iterator[NearPairs]:
    """Yield the pairs that a flat scan finds."""
    start, total = history.first, history.total
    alive = history.remembered_flags() != 0
    with ThreadPoolExecutor(threads) as pool:
        while start < total:
            size = min(max(most // total, _FEW), scan.next_batch_size(total - start))
            counts, (rows, near, *_) = scan.judge(start, size, threads, pool)
            later = start + np.repeat(np.arange(size), counts)
            history.note_touched(size + len(rows))
            yield NearPairs(later, rows, near).select(alive[later])
            start += size


def _compare_wildcard_rows(
    history: History, index: LiveTree | FlatScan, wildcards: Wildcards, most: int
) -> Iterator[NearPairs]:
    """Yield the pairs of which one row, or both, have wildcards."""
    waiting: list[NearPairs] = []
    pair_count = 0
    for row, rows, near in wildcards.near_pairs(history, index):
        waiting.append(NearPairs(np.full(len(rows), row), rows, near))
        pair_count += len(rows)
        if pair_count >= most:
            yield _concatenate(waiting)
            waiting, pair_count = [], 0
    if waiting:
        yield _concatenate(waiting)


def _concatenate(parts: list[NearPairs]) -> NearPairs:
    return NearPairs(
        np.concatenate([part.later for part in parts]),
        np.concatenate([part.earlier for part in parts]),
        np.concatenate([part.distances for part in parts]),
    )
