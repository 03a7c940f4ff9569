"""Drive the kernels of the flat scan, for l2 and cosine where a tree would visit everything.

The kernel scans codes of rotated coordinates (search/kernels/flat.py): for one decision all blocks
in turn, for a batch each block for several decisions while it is in the cache.
Invariant: the blocks hold exactly the remembered rows, whatever the rotation.
Cost: every block whose outputs may differ, mostly only its first coordinates.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from likewise.search.geometry import geometry
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.index_state import IndexState, TableLayout
from likewise.search.indexes.live_tree import ignore_outputs, outputs_ignored, trees_for
from likewise.search.indexes.rotation import Rotation
from likewise.search.indexes.workers import CHECK, PLANT, Found, KernelRunner, join_found
from likewise.search.kernels import flat as task
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.search.kernels.flat import flat
from likewise.search.kernels.flat_blocks import EXTENT, unseat_rows
from likewise.search.kernels.rotate_encode import FRONT, STEP
from likewise.tables.array_types import Floats, Rows
from likewise.verdict.witnesses import Witnesses

_BATCH = 1024  # rows judged together
_TAIL = 64  # bytes: the codes behind the front fill whole cache lines


def layout_for(history: History, rotation: Rotation) -> TableLayout:
    """Return the arrays of a flat scan along a rotation's directions."""
    slack = history.rule.slack_for(history.storage)
    shape = geometry(history.rule, history.width, slack)
    width, axes = rotation.directions.shape
    norm = rotation.norm()
    numbers = np.zeros(t.NUMBERS_COUNT)
    numbers[t.REACH], numbers[t.DELTA] = shape.reach, history.rule.delta
    numbers[t.TURNED_REACH] = norm
    longer = 1.01 * norm / shape.tree_reach
    sums = (width + 4) * 2.0**-53 * np.sqrt(axes)
    numbers[t.GAP_ERROR] = longer * (2.0**-50 + sums)
    numbers[t.VALUE_ERROR] = longer * (width + 32) * 2.0**-52
    front, tail = code_bytes(axes)
    return TableLayout(
        axes=axes,
        per_row={t.SEATS: 8},
        per_node={t.LEFT: 8},
        per_block={
            t.CODES: t.BLOCK * front,
            t.TAILS: t.BLOCK * tail,
            t.IDS: 8 * t.BLOCK,
            t.COUNT: 8,
            t.NEXT: 8,
            t.ERRORS: 16,
        },
        rows_per_block=64,
        settings={
            t.NUMBERS: numbers,
            t.PRESCALE: np.sqrt(history.weights[:width]),
            t.CENTRE: rotation.centre,
            t.DIRECTIONS: rotation.directions / shape.tree_reach,
        },
        numbers={t.FRONT_AXES: front, t.TURNED_BYTES: front + tail},
    )


def code_bytes(axes: int) -> tuple[int, int]:
    """Return how many codes of a point are stored by coordinate, and how many in one piece."""
    front = -(-min(axes, FRONT) // STEP) * STEP
    return front, -(-max(0, axes - FRONT) // _TAIL) * _TAIL


class FlatScan:
    """Scans blocks of points in leading rotated coordinates."""

    name = "flat"
    shape = "flat scan"
    sound = True  # its contents are right after every kernel call

    def __init__(self, history: History, rotation: Rotation, *, any_output: bool = False) -> None:
        layout = layout_for(history, rotation)
        groups = 1 if any_output else trees_for(int(history.table[t.OUTPUT]))
        self.state = IndexState(history, layout, groups)
        if any_output:
            ignore_outputs(self.state)
        self.workers = KernelRunner(self.state, flat)
        self.rotation = rotation
        self._table, self._address = self.state.table, self.state.address
        self.input: Floats = self.state.scratch.small[t.INPUT]
        self.given: Floats = self.state.scratch.small[t.GIVEN]
        self._batch = _Batch(sum(code_bytes(self.state.layout.axes)))
        self._lay_out(self._table)
        self.workers.run_task(PLANT)

    def _lay_out(self, table: Rows, first: int = 0) -> None:
        """Point a table at the batch whose first row is `first`."""
        table[t.FIRST] = first
        for slot, array in self._batch.arrays.items():
            table[slot] = array.ctypes.data

    # One decision

    def observe(self) -> int:
        """Judge and remember the decision in row TOTAL, or `input`, and `given`."""
        found: int = flat(self._address)
        if found == t.FULL:
            self.state.ensure(1, 2 * EXTENT)
            return self.observe()
        return found

    def check(self) -> int:
        """Judge that decision without remembering it."""
        found = self.workers.run_task(CHECK)
        if found == t.FULL:
            self.state.ensure(1, 2 * EXTENT)
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
        self._batch.order[0] = 0
        self._table[t.FIRST], self._table[t.START], self._table[t.STOP] = row, 0, 1
        self.workers.run_task(task.TURN)
        with outputs_ignored(self.state):
            self.workers.run_task(task.SEARCH)
        return np.sort(self.state.scratch.found_rows(int(self._table[t.FOUND])))

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
        addresses = address_of(comparable_rows), address_of(sinces)

        def lay_out(table: Rows) -> None:
            self._lay_out(table, first)
            table[t.COMPARABLE_ROWS], table[t.SINCES] = addresses

        self.workers.run_in_parallel(task.LIKES, len(comparable_rows), threads, pool, lay_out)

    def settle(self) -> None:
        """Put the table in order after a call that was interrupted between two kernels."""
        self.state.settle()
        self._lay_out(self._table)

    # Many decisions

    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows to take together."""
        return min(left, _BATCH)

    def insert(self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None) -> None:
        """Rotate written rows and put them into blocks; forgotten ones are left out."""
        for start in range(0, size, _BATCH):
            self._insert(first + start, min(_BATCH, size - start), threads, pool)

    def arrange_rows(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> None:
        """Rotate written rows, sorted so that equal labels are side by side."""
        outputs = self.state.history.region(t.OUTPUTS)
        width = self.state.history.out_width
        given = outputs.view(np.float64, (first + size) * width)[first * width :: width]
        self._batch.order[:size] = np.argsort(given, kind="stable")
        self._table[t.FIRST] = first
        lay_out = partial(self._lay_out, first=first)
        self.workers.run_in_parallel(task.TURN, size, threads, pool, lay_out)

    def _insert(self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None) -> None:
        self.arrange_rows(first, size, threads, pool)
        table = self._table
        self.state.ensure(0, size // t.BLOCK + 16 * EXTENT)
        self.state.prepare(size)
        table[t.START], table[t.STOP] = 0, size
        self.workers.run_task(task.SEAT)

    def judge(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Insert and search written rows; return the witness counts, and all witnesses in order."""
        self._insert(first, size, threads, pool)
        return self._search(first, size, threads, pool)

    def search_unindexed(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Search for written rows without inserting them; return what `judge` returns."""
        self.arrange_rows(first, size, threads, pool)
        return self._search(first, size, threads, pool)

    def _search(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        lay_out = partial(self._lay_out, first=first)
        rows, near, far, owners = join_found(
            self.workers.run_in_parallel(task.SEARCH, size, threads, pool, lay_out)
        )
        order = np.lexsort((rows, owners))
        counts = self._batch.counts[:size].copy()
        return counts, (rows[order], near[order], far[order], owners[order])

    def build(self) -> None:
        """Put the whole history into new blocks."""
        self.workers.run_task(PLANT)
        with ThreadPoolExecutor(2) as pool:
            self.insert(0, self.state.history.total, 2, pool)

    def remove(self, rows: Rows) -> None:
        """Take remembered rows out of their blocks."""
        unseat_rows(self._address, address_of(rows), len(rows))

    def depth(self) -> int:
        return 1

    def leaves(self) -> int:
        blocks = int(self._table[t.BLOCKS])
        return int(np.count_nonzero(self.state.region(t.COUNT).view(np.int64, blocks)))

    def describe(self) -> str:
        return f"{self.leaves():,} blocks of 128, {self.state.layout.axes} rotated coordinates"


class _Batch:
    """Holds what the tasks of one batch hand each other."""

    def __init__(self, codes: int) -> None:
        self.order = np.zeros(_BATCH, dtype=np.int64)
        self.counts = np.zeros(_BATCH, dtype=np.int64)
        self.turned = np.zeros((_BATCH, codes), dtype=np.uint8)
        self.errors = np.zeros((_BATCH, 2))
        self.arrays: dict[int, Any] = {
            t.WORK_ORDER: self.order,
            t.COUNTS: self.counts,
            t.TURNED: self.turned,
            t.TURNED_ERROR: self.errors,
        }
