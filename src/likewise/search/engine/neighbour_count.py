"""Near inputs among the last rows of a history, whatever their output: counted, not named.

A second index stands over the same history and holds its last rows only: a live tree, or a flat
scan where the index in use is one. To it every past output is different (its delta is below every
distance), so its witnesses are the neighbours: what is near is decided where it always is. It
copies no input, so it cannot hold other values than the history does.

Everything it holds follows from the history. So it never has to be saved or mended: when in doubt
(something failed half-way, or all of it is too old), the next decision makes it anew.

Invariant: counts range over the remembered rows from `bounds` on, exactly; the index may hold some
earlier ones.
Cost: one more call of a kernel for each decision; codes or leading coordinates, and numbers, of
`last` rows and of _REST more, or, while a part of a tree is being rebuilt, of some thousand. A
batch holds _PAIRS neighbours at a time, or those of _LEAST decisions, if these are more (32 bytes
each, some of it several times).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from likewise.search.engine.chooser import Chooser, Index
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.rotation import Rotation
from likewise.search.indexes.sketch import UNSKETCHED_WIDTH, first_coordinates
from likewise.search.kernels import table as t
from likewise.tables.rows import Rows

_REST = 64  # rows that are let go of together
_PAIRS = 1 << 19
_LEAST, _MOST = 16, 4096  # decisions of a batch that are counted together


class NeighbourCount:
    """Counts near inputs among the last rows."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.leave()

    def leave(self) -> None:
        """There is no history any more."""
        self._chooser: Chooser | None = None
        self._index: LiveTree | FlatScan | None = None
        self._sure = False

    def enter(self, chooser: Chooser) -> None:
        """A history begins. The index over its last rows is made when it is first needed."""
        self._chooser = chooser
        self._start = self._next = 0  # the index covers the remembered rows [_start, _next)

    def settle(self) -> None:
        """After a call that was cut off, where this may have been asked."""
        if self._index is not None:
            self._index.settle()

    @property
    def history(self) -> History:
        assert self._chooser is not None
        return self._chooser.history

    def bounds(self, row: int, count: int, firsts: Rows | int) -> Rows:
        """The first row that counts for each of `count` rows, given where its window begins."""
        return np.maximum(np.arange(row, row + count) - self.last, firsts)

    # One decision

    def observe(self, asked: Index, first: int) -> int:
        """Count, from row `first` on, for the decision laid out for an index that will remember it.

        Below zero: refused. When it is remembered, say so (`joined`); until then all this is in
        doubt.
        """
        row = self.history.total
        index = self.index_up_to(row)
        index.given[:] = asked.given
        if asked.state.table[t.GIVEN_RAW] == 0:
            index.input[:] = asked.input
            index.state.table[t.GIVEN_RAW] = 0
        self._sure = False
        found = index.observe()
        if found < 0:
            self._sure = True  # nothing was changed
            return found
        return self._count_recent(index, row, found, first)

    def confirm(self, count: int) -> None:
        """What was counted for last is remembered now."""
        self._next += count
        self._sure = True
        if self._next - self.last - self._start >= _REST:
            self._drop_old_rows()

    def check(self, asked: Index, first: int) -> int:
        """Count, from row `first` on, for the decision that an index has just checked."""
        row = self.history.total
        index = self.index_up_to(row)
        index.given[:] = asked.given
        return self._count_recent(index, row, index.check(), first)

    def _count_recent(self, index: LiveTree | FlatScan, row: int, found: int, first: int) -> int:
        """How many of those found are recent enough."""
        if found == 0:
            return 0
        self.history.note_touched(found)
        first = max(row - self.last, first)
        if first <= self._start:
            return found
        return found - int(index.state.scratch.found_rows(found).searchsorted(first))

    # Many decisions

    def judge(
        self,
        first: int,
        size: int,
        firsts: Rows | int,
        threads: int,
        pool: ThreadPoolExecutor | None,
    ) -> Rows:
        """Count for written rows that an index will remember; then, say so (`joined`).

        firsts: where the window of each begins
        """
        index = self.index_up_to(first)
        self._sure = False
        bounds = self.bounds(first, size, firsts)
        counts = np.zeros(size, dtype=np.int64)
        step = min(max(_PAIRS // (self.last + _REST), _LEAST), _MOST)
        start = 0
        while start < size:
            some = min(step, index.next_batch_size(size - start))
            found, (rows, *_) = index.judge(first + start, some, threads, pool)
            owners = np.repeat(np.arange(some), found)
            owners = owners[rows >= bounds[start + owners]]
            counts[start : start + some] = np.bincount(owners, minlength=some)
            self.history.note_touched(some + len(rows))
            start += some
            self._next = first + start
            self._drop_old_rows()
        self._next = first
        return counts

    # The index over the last rows

    def index_up_to(self, row: int) -> LiveTree | FlatScan:
        """The index, with all rows before this one that may be asked for."""
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
            index = self._index = self._make_index()
            self._start = self._next = min(first, row)
        index.state.follow()
        self._sure = False
        while self._next < row:
            some = min(_MOST, row - self._next)
            index.insert(self._next, some, 1, None)
            history.note_touched(some)
            self._next += some
            self._drop_old_rows()
        self._sure = True
        return index

    def _drop_old_rows(self) -> None:
        """Take out what is no longer among the last rows; put off while a tree is being mended.

        Since these rows are still remembered, a rebuild under way would bring them back.
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
        self._sure = (
            sure and projection_of(index) is self._choose_projection()
        )  # else `ready` builds another

    def _choose_projection(self) -> Rows | Rotation | None:
        """What is to be kept of long inputs: the same as by the index in use, if that knows."""
        assert self._chooser is not None
        if self.history.width <= UNSKETCHED_WIDTH:
            return None
        asked = self._chooser.index
        if isinstance(asked, LiveTree | FlatScan):
            return projection_of(asked)
        return (
            first_coordinates(self.history) if self._index is None else projection_of(self._index)
        )

    def _make_index(self) -> LiveTree | FlatScan:
        kept = self._choose_projection()
        if isinstance(kept, Rotation):
            return FlatScan(self.history, kept, any_output=True)
        return LiveTree(self.history, kept, any_output=True)

    @contextmanager
    def while_forgetting(self, rows: Rows) -> Iterator[None]:
        """These rows are forgotten within; if that fails, all this is in doubt."""
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
    """What an index holds of each row: some coordinates, a rotation of them, or None for all."""
    return index.rotation if isinstance(index, FlatScan) else index.coordinates
