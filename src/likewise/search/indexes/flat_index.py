"""Drive the kernels of the flat scan, for l2 and cosine where a tree would visit everything.

The kernel scans codes of rotated coordinates (search/kernels/flat.py): for one decision all blocks
in turn, for a batch each block for several decisions while it is in the cache.
Invariant: the blocks hold exactly the remembered rows, whatever the rotation.
Cost: every block whose outputs may differ, mostly only its first coordinates.
"""

from typing import Any

import numpy as np

from likewise.search.geometry import geometry
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.compiled_index import BatchArrays, CompiledIndex
from likewise.search.indexes.index_state import TableLayout
from likewise.search.indexes.rotation import Rotation
from likewise.search.indexes.workers import ALONE, Found, Threads
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.search.kernels.flat import flat
from likewise.search.kernels.flat_blocks import EXTENT, take_from_blocks
from likewise.search.kernels.rotate_encode import FRONT, STEP
from likewise.tables.array_types import Rows

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
    numbers[t.ROTATED_REACH] = norm
    longer = 1.01 * norm / shape.tree_reach
    sums = (width + 4) * 2.0**-53 * np.sqrt(axes)
    numbers[t.GAP_ERROR] = longer * (2.0**-50 + sums)
    numbers[t.VALUE_ERROR] = longer * (width + 32) * 2.0**-52
    front, tail = code_bytes(axes)
    return TableLayout(
        axes=axes,
        per_row={t.BLOCK_PLACES: 8},
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
        numbers={t.FRONT_AXES: front, t.ROTATED_BYTES: front + tail},
    )


def code_bytes(axes: int) -> tuple[int, int]:
    """Return how many codes of a point are stored by coordinate, and how many in one piece."""
    front = -(-min(axes, FRONT) // STEP) * STEP
    return front, -(-max(0, axes - FRONT) // _TAIL) * _TAIL


class FlatScan(CompiledIndex):
    """Scans blocks of points in leading rotated coordinates.

    Its contents are right after every kernel call.
    """

    name = "flat"
    shape = "flat scan"
    _more_blocks = 2 * EXTENT
    _least_searched = 256

    def __init__(self, history: History, rotation: Rotation, *, any_output: bool = False) -> None:
        layout = layout_for(history, rotation)
        rotated = np.zeros((_BATCH, sum(code_bytes(layout.axes))), dtype=np.uint8)
        others: dict[int, Any] = {t.ROTATED: rotated, t.ROTATED_ERROR: np.zeros((_BATCH, 2))}
        super().__init__(history, layout, flat, BatchArrays(_BATCH, others), any_output=any_output)
        self.rotation = rotation

    # One decision

    def observe(self) -> int:
        """Judge and remember the decision in row TOTAL, or `input`, and `given`."""
        found: int = flat(self._address)
        if found == t.FULL:
            self.state.ensure(1, self._more_blocks)
            return self.observe()
        return found

    # Many decisions

    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows to take together."""
        return min(left, _BATCH)

    def arrange_rows(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Rotate written rows, sorted so that equal labels are side by side."""
        outputs = self.state.history.written_outputs(first, first + size)[:, 0]
        self._batch.order[:size] = np.argsort(outputs, kind="stable")
        self.workers.run_in_parallel(t.ROTATE, size, threads, self._lay_out_from(first))

    def insert(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Rotate written rows and put them into blocks; forgotten ones are left out."""
        for start in range(first, first + size, _BATCH):
            count = min(_BATCH, first + size - start)
            self.arrange_rows(start, count, threads)
            self.state.ensure(0, count // t.BLOCK + 16 * EXTENT)
            self.state.prepare(count)
            self._table[t.START], self._table[t.STOP] = 0, count
            self.workers.run_task(t.ADD_TO_BLOCKS)

    def _search(self, first: int, size: int, threads: Threads) -> tuple[Rows, Found]:
        rows, near, far, owners = self._search_in_parallel(first, size, threads)
        order = np.lexsort((rows, owners))
        counts = self._batch.counts[:size].copy()
        return counts, (rows[order], near[order], far[order], owners[order])

    def build(self) -> None:
        """Put the whole history into new blocks."""
        self.workers.run_task(t.PLANT)
        with Threads(2) as threads:
            self.insert(0, self.state.history.total, threads)

    def remove(self, rows: Rows) -> None:
        """Take remembered rows out of their blocks."""
        take_from_blocks(self._address, address_of(rows), len(rows))

    def depth(self) -> int:
        return 1

    def leaves(self) -> int:
        blocks = int(self._table[t.BLOCKS])
        return int(np.count_nonzero(self.state.region(t.COUNT).view(np.int64, blocks)))

    def describe(self) -> str:
        return f"{self.leaves():,} blocks of 128, {self.state.layout.axes} rotated coordinates"
