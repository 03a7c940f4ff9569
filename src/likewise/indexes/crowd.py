"""Near inputs among the last rows of a history, whatever their output: counted, not named.

A second live tree stands over the same history and holds its last rows only. To it every past
output is different (its delta is below every distance), so its witnesses are the neighbours: what
is near is decided where it always is. It copies no input, so it cannot hold other values than the
history does.

The tree follows from the history. So it never has to be saved or mended: when in doubt (something
failed half-way, rows were loaded or restored), the next decision makes it anew from the last rows.

Invariant: counts range over the remembered rows from `bounds` on, exactly; the tree may hold some
earlier ones.
Cost: one more call of the kernel for each decision; codes and numbers of `last` rows and of _REST
more, or, while a part of the tree is being rebuilt, of some thousand. A batch holds _PAIRS
neighbours at a time, or those of _LEAST decisions, if these are more (32 bytes each).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from likewise.history.decisions import History
from likewise.indexes.chooser import Chooser, Index
from likewise.indexes.live import LiveTree
from likewise.indexes.sketch import WHOLE, first_coordinates
from likewise.kernels import table as t
from likewise.types import Rows

_REST = 64  # rows that are let go of together
_PAIRS = 1 << 19
_LEAST, _MOST = 16, 4096  # decisions of a batch that are counted together

Since: TypeAlias = Callable[[int, int], Rows]
"""For the next rows, given the first and how many: the first row that each is compared with."""


class Crowd:
    """Counts near inputs among the last rows."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.since: Since | None = None
        """From which row on rows count, where some leave the past before they leave the last."""
        self.leave()

    def leave(self) -> None:
        """There is no history any more."""
        self._chooser: Chooser | None = None
        self._tree: LiveTree | None = None
        self._sure = False

    def enter(self, chooser: Chooser) -> None:
        """A history begins. The tree is made when it is first needed."""
        self._chooser = chooser
        self._start = self._next = 0  # the tree holds what is remembered of rows from here to there

    @property
    def history(self) -> History:
        assert self._chooser is not None
        return self._chooser.history

    def bounds(self, row: int, count: int) -> Rows:
        """The first row that counts for each of `count` rows."""
        first = np.maximum(np.arange(row, row + count) - self.last, 0)
        return first if self.since is None else np.maximum(first, self.since(row, count))

    # One decision

    def observe(self, index: Index) -> int:
        """Count for the decision laid out for an index that will remember it; below zero: refused.

        When it is remembered, say so (`joined`); until then the tree is in doubt.
        """
        row = self.history.total
        tree = self._ready(row)
        tree.given[:] = index.given
        if index.state.table[t.GIVEN_RAW] == 0:
            tree.input[:] = index.input
            tree.state.table[t.GIVEN_RAW] = 0
        self._sure = False
        found = tree.observe()
        if found < 0:
            self._sure = True  # nothing was changed
            return found
        return self._counted(tree, row, found)

    def joined(self, count: int) -> None:
        """What was counted for last is remembered now."""
        self._next += count
        self._sure = True
        if self._next - self.last - self._start >= _REST:
            self._let_go()

    def check(self) -> int:
        """Count for the decision that an index has just checked."""
        row = self.history.total
        tree = self._ready(row)
        tree.given[:] = self._chooser.index.given  # type: ignore[union-attr]
        return self._counted(tree, row, tree.check())

    def _counted(self, tree: LiveTree, row: int, found: int) -> int:
        """How many of those found are recent enough."""
        if found == 0:
            return 0
        self.history.touched(found)
        first = row - self.last if self.since is None else int(self.bounds(row, 1)[0])
        if first <= self._start:
            return found
        return found - int(tree.state.desk.found_rows(found).searchsorted(first))

    # Many decisions

    def judge(self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None) -> Rows:
        """Count for written rows that an index will remember; then, say so (`joined`)."""
        tree = self._ready(first)
        self._sure = False
        bounds = self.bounds(first, size)
        counts = np.zeros(size, dtype=np.int64)
        step = min(max(_PAIRS // (self.last + _REST), _LEAST), _MOST)
        for start in range(0, size, step):
            some = min(step, size - start)
            found, (rows, *_) = tree.judge(first + start, some, threads, pool)
            owners = np.repeat(np.arange(start, start + some), found)
            owners = owners[rows >= bounds[owners]]
            counts[start : start + some] = np.bincount(owners - start, minlength=some)
            self.history.touched(some + len(rows))
            self._next += some
            self._let_go()
        self._next -= size
        return counts

    # The tree

    def tree(self) -> LiveTree:
        """The tree over the rows that the history has, for whoever compares otherwise."""
        return self._ready(self.history.total)

    def _ready(self, row: int) -> LiveTree:
        """The tree, with all rows before this one that may be asked for."""
        tree = self._tree
        history = self.history
        if (
            tree is not None
            and self._sure
            and self._next == row == tree.state.table[t.TOTAL]
            and tree.state.table[t.ROW_CAPACITY] == history.table[t.ROW_CAPACITY]
        ):
            return tree
        first = max(history.first, row - self.last)
        if tree is None or not self._sure or not first < self._next <= row:
            tree = self._tree = LiveTree(history, self._coordinates(), any_output=True)
            self._start = self._next = min(first, row)
        tree.state.follow()
        self._sure = False
        while self._next < row:
            some = min(_MOST, row - self._next)
            tree.insert(self._next, some, 1, None)
            history.touched(some)
            self._next += some
            self._let_go()
        self._sure = True
        return tree

    def _let_go(self) -> None:
        """Take out what is no longer among the last rows; put off while the tree is being mended.

        Since these rows are still remembered, a rebuild under way would bring them back.
        """
        tree, stop = self._tree, self._next - self.last
        assert tree is not None
        if stop - self._start < _REST or tree.state.table[t.JOB_PHASE] != 0:
            return
        alive = self.history.region(t.ALIVE).view(np.uint8, stop)[self._start : stop]
        tree.remove(self._start + np.flatnonzero(alive))
        self._start = stop
        tree.state.release_before(stop)
        if self._coordinates() is not tree.coordinates:
            self._sure = False  # a better sketch is known: the next decision makes a tree over it

    def _coordinates(self) -> Rows | None:
        """What the tree holds of long inputs: the same as the index in use, if that is a tree."""
        assert self._chooser is not None
        index = self._chooser.index
        if self.history.width <= WHOLE:
            return None
        if isinstance(index, LiveTree):
            return index.coordinates
        return first_coordinates(self.history) if self._tree is None else self._tree.coordinates

    @contextmanager
    def without(self, rows: Rows) -> Iterator[None]:
        """These rows are forgotten within; if that fails, the tree is in doubt."""
        sure, self._sure = self._sure, False
        if sure and self._tree is not None:
            self._tree.state.follow()
            self._tree.remove(rows[(rows >= self._start) & (rows < self._next)])
        yield
        self._sure = sure

    def __str__(self) -> str:
        if self._tree is None:
            return "none yet"
        return f"{self._next - self._start:,} rows in a tree of their own"
