"""The live tree, as Python sees it: decisions in, counts of witnesses out.

Here the kernels' table meets the caller: fill the table, call a kernel, grow memory when a kernel
asks for it, share a batch among threads.

Invariant: rows from TOTAL on are invisible to every query, so a batch that turns out bad half way
leaves no trace.
Cost: one kernel call for a decision; for a batch a few per block, searches spread over the threads.
Not here: what an input or an output may be (monitors), what is near (kernels/distance.py).
"""

from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.history.memory import PAGE
from likewise.indexes.state import Desk, State
from likewise.kernels import decide as task
from likewise.kernels import table as t
from likewise.kernels.decide import decide
from likewise.kernels.grow import tend
from likewise.kernels.rebuild import start_bulk
from likewise.kernels.remove import forget_rows
from likewise.types import Floats, Rows, Witnesses

_BLOCK_ROWS = 1 << 16  # rows of a batch inserted, then searched, together
_RESTLESS_ROWS = 1 << 12  # the same while the tree is being reshaped, which undoes the routing
_CHUNK_ROWS = 1 << 13  # rows of a batch written together
_TEND_BUDGET = 2048  # rows a rebuild may touch between two decisions: some 30 microseconds
_WITHOUT_END = 1 << 60
_TEND, _FULL = t.TEND, t.FULL
_PAGE_ROWS = PAGE  # rows after which every array of rows ends on a page


_PIECES = 4  # of a block, for each thread: whoever is free takes the next
_Found: TypeAlias = tuple[Rows, Floats, Floats]


class LiveTree:
    """A bucket k-d tree that splits as it grows."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._table = state.table
        self.input: Floats = state.desk.small[t.INPUT]
        self.given: Floats = state.desk.small[t.GIVEN]
        self._desks = [state.desk]
        self._forgotten: dict[int, int] = {}
        self._do(task.PLANT)

    def _do(self, what: int) -> int:
        self._table[t.TASK] = what
        try:
            return int(decide(self._table))
        finally:
            self._table[t.TASK] = task.OBSERVE  # the standing task, so that observe need not say it

    # One decision

    def observe(self) -> int:
        """Judge and remember what is in `input` and `given`; witnesses, or an error code."""
        found: int = decide(self._table)
        if found >= _TEND:
            tend(self._table, _TEND_BUDGET)
            return found - _TEND
        if found == _FULL:
            self.state.ensure(1, 256)
            return self.observe()
        return found

    def check(self) -> int:
        """The same without remembering it."""
        return self._do(task.CHECK)

    def witnesses(self, found: int) -> Witnesses:
        """What the last `observe` or `check` found."""
        return Witnesses(*self.state.desk.results(found))

    @property
    def bad_at(self) -> int:
        """Where the last refused input or output was bad."""
        return int(self._table[t.BAD_AT])

    @property
    def total(self) -> int:
        return int(self._table[t.TOTAL])

    @property
    def live(self) -> int:
        return int(self._table[t.LIVE])

    # Many decisions

    def write(self, inputs: npt.NDArray[np.generic], outputs: Floats) -> tuple[int, int]:
        """Write a batch behind the history, unseen. (0, 0), or an error code and which was bad."""
        table = self._table
        count = len(inputs)
        self.state.ensure(count, 256)
        table[t.FIRST] = table[t.TOTAL]
        for start in range(0, count, _CHUNK_ROWS):
            stop = min(start + _CHUNK_ROWS, count)
            kept = np.float32 if inputs.dtype == np.float32 else np.float64
            chunk = np.ascontiguousarray(inputs[start:stop], dtype=kept)
            table[t.INPUTS_SINGLE] = kept is np.float32
            given = np.ascontiguousarray(outputs[start:stop])
            table[t.START], table[t.STOP] = start, stop
            table[t.INPUTS], table[t.GIVENS] = chunk.ctypes.data, given.ctypes.data
            bad = self._do(task.WRITE)
            if bad != 0:
                return bad, start + int(table[t.FOUND])
        return 0, 0

    def judge(self, count: int, threads: int) -> tuple[Rows, Witnesses]:
        """Insert and search a written batch; witnesses per decision, and all of them in order."""
        counts = np.zeros(count, dtype=np.int64)
        found: list[_Found] = []
        batch = _Batch(min(count, _BLOCK_ROWS))
        start = 0
        most = _BLOCK_ROWS
        with ThreadPoolExecutor(max(threads, 1)) as pool:
            while start < count:
                size = min(most, max(2048, self.total // 2), count - start)
                moves = int(self._table[t.MOVES])
                self._insert(batch, size, threads, pool)
                most = _BLOCK_ROWS if moves == self._table[t.MOVES] else _RESTLESS_ROWS
                found.extend(self._search(batch, size, threads, pool))
                counts[start : start + size] = batch.counts[:size]
                start += size
        columns = (np.concatenate(column) for column in zip(*found, strict=True))
        return counts, Witnesses(*columns)

    def _lay_out(self, batch: "_Batch", table: npt.NDArray[np.int64], first: int) -> None:
        table[t.FIRST] = first
        table[t.LEAF_OF] = batch.leaves.ctypes.data
        table[t.PATH_OF] = batch.paths.ctypes.data
        table[t.WORK_ORDER] = batch.order.ctypes.data
        table[t.COUNTS] = batch.counts.ctypes.data

    def _share(
        self, what: int, batch: "_Batch", size: int, threads: int, pool: ThreadPoolExecutor
    ) -> list[_Found]:
        """Let threads do a reading task on the block, piece by piece; what they found, in order."""
        threads = max(1, min(threads, size // 256))
        pieces = 1 if threads == 1 else _PIECES * threads
        bounds = [size * k // pieces for k in range(pieces + 1)]
        found: list[list[_Found]] = [[] for _ in range(pieces)]
        while len(self._desks) < threads:
            self._desks.append(Desk(self.state, self._table.copy()))
        first = int(self._table[t.FIRST])
        waiting = SimpleQueue[int]()
        for piece in range(pieces):
            waiting.put(piece)

        def work(desk: Desk) -> None:
            if desk is not self.state.desk:
                desk.fit(self.state)
                self._lay_out(batch, desk.table, first)
            while True:
                try:
                    piece = waiting.get_nowait()
                except Empty:
                    return
                found[piece] = _do_piece(desk, what, bounds[piece], bounds[piece + 1])

        if threads == 1:
            work(self.state.desk)
        else:
            list(pool.map(work, self._desks[:threads]))
        for desk in self._desks[1:threads]:
            for counter in (t.VISITED, t.SEARCHES):
                self._table[counter] += desk.table[counter]
        return [part for parts in found for part in parts]

    def _insert(self, batch: "_Batch", size: int, threads: int, pool: ThreadPoolExecutor) -> None:
        table = self._table
        first = self.total
        self._lay_out(batch, table, first)
        self._share(task.ROUTE, batch, size, threads, pool)
        table[t.STOP] = size
        self._do(task.SORT)
        done = 0
        while done < size:
            table[t.START], table[t.STOP] = done, size
            done = self._do(task.INSERT)
            self.state.ensure(size - done, 256)
            if table[t.PARTED_COUNT] == t.PARTED_MOST or table[t.JOB_PHASE] != 0:
                tend(table, _TEND_BUDGET)
        table[t.TOTAL] = first + size

    def _search(
        self, batch: "_Batch", size: int, threads: int, pool: ThreadPoolExecutor
    ) -> list[_Found]:
        """Search the block just inserted. Results come in working order, and leave in row order."""
        self._table[t.FIRST] = self.total - size
        parts = self._share(task.SEARCH, batch, size, threads, pool)
        rows, near, far = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(rows) == 0:
            return [(rows, near, far)]
        order = batch.order[:size]
        found = batch.counts[:size]
        ends = np.cumsum(found[order])
        starts = np.empty(size, dtype=np.int64)
        starts[order] = ends - found[order]
        some = np.flatnonzero(found)
        take = _ranges(starts[some], found[some])
        return [(rows[take], near[take], far[take])]

    def load(self, count: int) -> None:
        """Make a written batch part of the history without judging it."""
        table = self._table
        if self.total + count >= 4 * t.BLOCK and count >= self.total // 2:
            self._finish_rebuild()
            table[t.TOTAL] += count
            for root in range(int(table[t.TREES])):
                start_bulk(table, root)
                self._finish_rebuild()
            return
        batch = _Batch(min(count, _BLOCK_ROWS))
        with ThreadPoolExecutor(1) as pool:
            for start in range(0, count, _BLOCK_ROWS):
                self._insert(batch, min(_BLOCK_ROWS, count - start), 1, pool)

    def _finish_rebuild(self) -> None:
        while self._table[t.JOB_PHASE] != 0:
            self.state.ensure(0, 4096 + self.total // 32)
            tend(self._table, _WITHOUT_END)

    # Forgetting

    def forget(self, rows: Rows) -> int:
        """Take rows out and erase them; pages full of forgotten rows go back to the system."""
        alive = self.state.region(t.ALIVE).view(np.uint8, self.total)
        fresh = np.unique(rows[alive[rows] != 0])
        forgotten = int(forget_rows(self._table, fresh))
        pages, counts = np.unique(fresh // _PAGE_ROWS, return_counts=True)
        for page, gone in zip(pages.tolist(), counts.tolist(), strict=True):
            self._forgotten[page] = self._forgotten.get(page, 0) + gone
            if self._forgotten[page] == _PAGE_ROWS:
                self.state.release_rows(page * _PAGE_ROWS, _PAGE_ROWS)
        return forgotten

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

    def count(self, slot: int) -> int:
        """One of the table's counters."""
        return int(self._table[slot])


def _do_piece(desk: Desk, what: int, start: int, stop: int) -> list[_Found]:
    """Do a reading task on part of a block; for a search, what it found, however much that is."""
    table = desk.table
    found = []
    while start < stop:
        table[t.START], table[t.STOP] = start, stop
        table[t.TASK] = what
        reached = int(decide(table))
        table[t.TASK] = task.OBSERVE
        if what != task.SEARCH:
            break
        found.append(desk.results(int(table[t.FOUND])))
        start = reached  # short of the end where results had no more room
    return found


class _Batch:
    """What the tasks of one block hand each other."""

    def __init__(self, rows: int) -> None:
        self.leaves = np.zeros(rows, dtype=np.int64)
        self.paths = np.zeros(rows, dtype=np.uint64)
        self.order = np.zeros(rows, dtype=np.int64)
        self.counts = np.zeros(rows, dtype=np.int64)


def _ranges(starts: Rows, lengths: Rows) -> Rows:
    """starts[0], starts[0] + 1, … for lengths[0] numbers, then the same for the next."""
    ends = np.cumsum(lengths)
    steps = np.ones(int(ends[-1]), dtype=np.int64)
    steps[0] = starts[0]
    steps[ends[:-1]] = starts[1:] - (starts[:-1] + lengths[:-1] - 1)
    return np.cumsum(steps)
