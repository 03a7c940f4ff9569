"""Find all pairs of near rows of a history, whatever their outputs, a chunk at a time.

Invariant: every pair of remembered rows within reach comes once, and all pairs of one later row
come in the same chunk.
Cost: one build, and one search for each row. A chunk has at most as many pairs as `most` or as the
history has rows, whichever is more; from a flat scan, up to _FEW times as many as rows.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.search.engine.chooser import BULK_BUILD_ROWS, Chooser, Index
from likewise.search.engine.wildcards import Wildcards
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.index_state import ThreadScratch
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.rotation import Rotation
from likewise.search.indexes.sketch import UNSKETCHED_WIDTH, first_coordinates
from likewise.search.indexes.workers import Threads
from likewise.search.kernels import table as t
from likewise.tables.array_types import Floats, Rows

# A second index over the same history holds its last rows only: a live tree, or a flat scan where
# the index in use is one. To it every past output is different (its delta is below every distance),
# so its witnesses are the neighbours, and the usual comparison decides what is near. It copies no
# input, so it cannot hold other values than the history does.
#
# Everything it holds follows from the history, so it is never saved or repaired: when in doubt
# (a call was interrupted, or all of its rows are too old), the next decision makes a new one.

_REST = 64  # rows that are dropped together
_PAIRS = 1 << 19  # neighbours that a batch holds at a time: 32 bytes each, some several times
_LEAST, _MOST = 16, 4096  # decisions of a batch that are counted together


# Count near inputs among the last rows of a history, whatever their output.
# Invariant: counts are exact over the remembered rows from `bounds` on; the index may hold some
# earlier ones.
# Cost: one more kernel call for each decision; codes or leading coordinates, and row numbers, of
# `last` rows and of _REST more (of some thousand more while a part of a tree is being rebuilt).


class NeighbourCount:
    """Counts near inputs among the last rows."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.leave()

    def leave(self) -> None:
        """Drop the index: there is no history any more."""
        self._chooser: Chooser | None = None
        self._index: LiveTree | FlatScan | None = None
        self._sure = False

    def enter(self, chooser: Chooser) -> None:
        """Begin with a new history; the index over its last rows is made when first needed."""
        self._chooser = chooser
        self._start = self._next = 0  # the index covers the remembered rows [_start, _next)

    def settle(self) -> None:
        """Put the index in order after a call that was interrupted."""
        if self._index is not None:
            self._index.settle()

    @property
    def history(self) -> History:
        assert self._chooser is not None
        return self._chooser.history

    def bounds(self, row: int, count: int, firsts: Rows | int) -> Rows:
        """Return the first row that counts for each of `count` rows; windows begin at `firsts`."""
        return np.maximum(np.arange(row, row + count) - self.last, firsts)

    # One decision

    def observe(self, main_index: Index, first: int) -> int:
        """Count from row `first` on for the decision that `main_index` is about to remember.

        Below zero if it is refused. Call `confirm` once it is remembered; until then the contents
        of this index are in doubt.
        """
        row = self.history.total
        index = self.index_up_to(row)
        index.given[:] = main_index.given
        if main_index.state.table[t.GIVEN_RAW] == 0:
            index.input[:] = main_index.input
            index.state.table[t.GIVEN_RAW] = 0
        self._sure = False
        found = index.observe()
        if found < 0:
            self._sure = True  # nothing was changed
            return found
        return self._count_recent(index, row, found, first)

    def confirm(self, count: int) -> None:
        """Note that the decisions counted for last are remembered now."""
        self._next += count
        self._sure = True
        if self._next - self.last - self._start >= _REST:
            self._drop_old_rows()

    def check(self, main_index: Index, first: int) -> int:
        """Count from row `first` on for the decision that `main_index` has just checked."""
        row = self.history.total
        index = self.index_up_to(row)
        index.given[:] = main_index.given
        return self._count_recent(index, row, index.check(), first)

    def _count_recent(self, index: LiveTree | FlatScan, row: int, found: int, first: int) -> int:
        """Return how many of the neighbours found are recent enough."""
        if found == 0:
            return 0
        self.history.note_touched(found)
        first = max(row - self.last, first)
        if first <= self._start:
            return found
        return found - int(index.state.scratch.found_rows(found).searchsorted(first))

    # Many decisions

    def judge(self, first: int, size: int, firsts: Rows | int, threads: Threads) -> Rows:
        """Count for written rows that an index will remember; call `confirm` when it does.

        firsts: where the window of each begins
        """
        index = self.index_up_to(first)
        self._sure = False
        bounds = self.bounds(first, size, firsts)
        counts = np.zeros(size, dtype=np.int64)
        step = min(max(_PAIRS // (self.last + _REST), _LEAST), _MOST)
        start = 0
        while start < size:
            count = min(step, index.next_batch_size(size - start))
            found, (rows, *_) = index.judge(first + start, count, threads)
            owners = np.repeat(np.arange(count), found)
            owners = owners[rows >= bounds[start + owners]]
            counts[start : start + count] = np.bincount(owners, minlength=count)
            self.history.note_touched(count + len(rows))
            start += count
            self._next = first + start
            self._drop_old_rows()
        self._next = first
        return counts

    # The index over the last rows

    def index_up_to(self, row: int) -> LiveTree | FlatScan:
        """Return the index with all rows before `row` that may be asked for."""
        index, history = self._index, self.history
        if (
            index is not None
            and self._sure
            and self._next == row == index.state.table[t.TOTAL]
            and index.state.table[t.ROW_CAPACITY] == history.table[t.ROW_CAPACITY]
        ):
            return index
        first = max(history.first, row - self.last)
        if index is None or not self._sure or not first < self._next <= row:
            index = self._index = make_near_index(history, self._choose_projection())
            self._start = self._next = min(first, row)
        index.state.follow()
        self._sure = False
        while self._next < row:
            count = min(_MOST, row - self._next)
            index.insert(self._next, count)
            history.note_touched(count)
            self._next += count
            self._drop_old_rows()
        self._sure = True
        return index

    def _drop_old_rows(self) -> None:
        """Take out what is no longer among the last rows, unless a tree is being rebuilt.

        These rows are still remembered, so a rebuild under way would bring them back.
        """
        index, stop = self._index, self._next - self.last
        assert index is not None
        if stop - self._start < _REST or index.state.table[t.JOB_PHASE] != 0:
            return
        sure, self._sure = self._sure, False
        alive = self.history.region(t.ALIVE).view(np.uint8, stop)[self._start : stop]
        index.remove(self._start + np.flatnonzero(alive))
        index.state.release_before(stop)
        self._start = stop
        # where the projection has changed, `index_up_to` makes another index
        self._sure = sure and projection_of(index) is self._choose_projection()

    def _choose_projection(self) -> Rows | Rotation | None:
        assert self._chooser is not None
        return choose_projection(self._chooser, self._index)

    @contextmanager
    def while_forgetting(self, rows: Rows) -> Iterator[None]:
        """Take rows out while the body forgets them; if that fails, the index is in doubt."""
        sure, self._sure = self._sure, False
        if sure and self._index is not None:
            self._index.state.follow()
            self._index.remove(rows[(rows >= self._start) & (rows < self._next)])
        yield
        self._sure = sure

    def __str__(self) -> str:
        if self._index is None:
            return "nothing yet"
        return f"a {self._index.shape} of its own holds {self._next - self._start:,} rows"


def projection_of(index: LiveTree | FlatScan) -> Rows | Rotation | None:
    """Return what an index holds of each row: some coordinates, a rotation, or None for all."""
    return index.rotation if isinstance(index, FlatScan) else index.coordinates


def choose_projection(
    chooser: Chooser, current: LiveTree | FlatScan | None = None
) -> Rows | Rotation | None:
    """Return what a near index should hold of each row: what the index in use holds, if known.

    current: the near index so far
    """
    if chooser.history.width <= UNSKETCHED_WIDTH:
        return None
    for index in (chooser.index, current):
        if isinstance(index, LiveTree | FlatScan):
            return projection_of(index)
    return first_coordinates(chooser.history)


def make_near_index(history: History, projection: Rows | Rotation | None) -> LiveTree | FlatScan:
    """Make an empty index to which every output is different, so that it finds all near rows."""
    if isinstance(projection, Rotation):
        return FlatScan(history, projection, any_output=True)
    return LiveTree(history, projection, any_output=True)


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
    yield from _compare_wildcard_rows(index, wildcards, most)


def _search_tree(history: History, tree: LiveTree, most: int, threads: int) -> Iterator[NearPairs]:
    """Yield the pairs that a tree finds."""
    first, total = history.first, history.total
    if total - first >= BULK_BUILD_ROWS:
        tree.build()
    else:
        tree.insert(first, total - first)
    batch = tree.sort_by_leaf(first, total - first)
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
        stop = tree.workers.run_task_on(scratch, t.SEARCH)
        rows, near, _, _ = scratch.results(int(scratch.table[t.FOUND]))
        done = order[start:stop]
        return stop, NearPairs(first + np.repeat(done, batch.counts[done]), rows, near)

    count = len(remembered)
    waiting = deque((start, min(start + _PIECE, count)) for start in range(0, count, _PIECE))
    with Threads(threads) as pool:
        while waiting:
            pieces = [waiting.popleft() for _ in range(min(threads, len(waiting)))]
            results = pool.map(search, scratches, pieces)
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
    with Threads(threads) as pool:
        while start < total:
            size = min(max(most // total, _FEW), scan.next_batch_size(total - start))
            counts, (rows, near, *_) = scan.judge(start, size, pool)
            later = start + np.repeat(np.arange(size), counts)
            history.note_touched(size + len(rows))
            yield NearPairs(later, rows, near).select(alive[later])
            start += size


def _compare_wildcard_rows(
    index: LiveTree | FlatScan, wildcards: Wildcards, most: int
) -> Iterator[NearPairs]:
    """Yield the pairs of which one row, or both, have wildcards."""
    waiting: list[NearPairs] = []
    pair_count = 0
    for row, rows, near in wildcards.near_pairs(index):
        waiting.append(NearPairs(np.full(len(rows), row), rows, near))
        pair_count += len(rows)
        if pair_count >= most:
            yield _concatenate(waiting)
            waiting, pair_count = [], 0
    if waiting:
        yield _concatenate(waiting)


def _concatenate(parts: list[NearPairs]) -> NearPairs:
    columns = ([getattr(part, name) for part in parts] for name in NearPairs.__slots__)
    return NearPairs(*map(np.concatenate, columns))
