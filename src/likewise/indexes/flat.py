"""The flat scan, as Python sees it: for l2 and cosine where a tree would visit everything.

One decision is scanned for alone (kernels/flat.py). A batch is multiplied with the blocks, whole
matrices at a time, and only what the products cannot rule out is decided row by row.

Invariant: what sits in the blocks is what is remembered, whatever the rotation.
Cost: every block whose outputs may differ, mostly only its first coordinates; for a batch all of
its leading coordinates, at the speed of a matrix product.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.history.decisions import History
from likewise.indexes.live import take_any_output, trees_for
from likewise.indexes.rotation import Rotation
from likewise.indexes.state import Desk, State, TableLayout
from likewise.indexes.workers import CHECK, OBSERVE, PLANT, Found, Workers
from likewise.kernels import flat as task
from likewise.kernels import table as t
from likewise.kernels.compile import address_of
from likewise.kernels.flat import flat, unseat_rows
from likewise.metrics.geometry import geometry
from likewise.values.verdicts import Floats, Rows, Witnesses

_BATCH = 1024  # rows judged together
_FEW = 24  # fewer are scanned one by one
_GROUP = 64  # queries, and
_STACK = 8  # blocks, multiplied before their products are looked at: they stay in the cache
_LANES = 32  # points of a block multiplied at a time


def layout_for(history: History, rotation: Rotation) -> TableLayout:
    slack = history.rule.slack_for(history.storage)
    shape = geometry(history.rule, history.width, slack)
    width, axes = rotation.directions.shape
    norm = rotation.norm()
    numbers = np.zeros(t.NUMBERS_COUNT)
    numbers[t.REACH], numbers[t.DELTA] = shape.reach, history.rule.delta
    numbers[t.TURNED_REACH] = norm
    longer = 1.01 * norm / shape.tree_reach
    sums = (width + 4) * 2.0**-53 * np.sqrt(axes)
    numbers[t.GAP_ERROR] = longer * (2.0**-24 + 2.0**-52 + sums)
    numbers[t.VALUE_ERROR] = longer * (width + 32) * 2.0**-52
    numbers[t.SUM_ERROR] = (axes + 8) * 2.0**-23
    numbers[t.PRODUCT_ERROR] = (axes + 16) * 2.0**-23
    return TableLayout(
        axes=axes,
        per_row={t.SEATS: 8},
        per_node={t.LEFT: 8},
        per_block={
            t.LEADING: 4 * t.BLOCK * axes,
            t.IDS: 8 * t.BLOCK,
            t.LENGTHS: 4 * t.BLOCK,
            t.COUNT: 8,
            t.NEXT: 8,
            t.ERRORS: 8,
            t.LONGEST: 8,
        },
        rows_per_block=64,
        settings={
            t.NUMBERS: numbers,
            t.PRESCALE: np.sqrt(history.weights[:width]),
            t.CENTRE: rotation.centre,
            t.DIRECTIONS: rotation.directions / shape.tree_reach,
        },
        numbers={},
    )


class FlatScan:
    """Blocks of points in leading rotated coordinates."""

    name = "flat"
    shape = "flat scan"
    sound = True  # between two kernels it always is

    def __init__(self, history: History, rotation: Rotation, *, any_output: bool = False) -> None:
        layout = layout_for(history, rotation)
        groups = 1 if any_output else trees_for(int(history.table[t.OUTPUT]))
        self.state = State(history, layout, groups)
        if any_output:
            take_any_output(self.state)
        self.workers = Workers(self.state, flat)
        self.rotation = rotation
        self._table, self._address = self.state.table, self.state.address
        self.input: Floats = self.state.desk.small[t.INPUT]
        self.given: Floats = self.state.desk.small[t.GIVEN]
        self._batch = _Batch(self.state.layout.axes)
        self._lay_out(self._table)
        self.workers.do(PLANT)

    def _lay_out(self, table: Rows) -> None:
        for slot, array in self._batch.arrays.items():
            table[slot] = array.ctypes.data
        table[t.PRODUCT_ROWS] = _GROUP

    # One decision

    def observe(self) -> int:
        """Judge and remember what is in row TOTAL, or `input`, and `given`."""
        found: int = flat(self._address)
        if found == t.FULL:
            self.state.ensure(1, 2 * task.EXTENT)
            return self.observe()
        return found

    def check(self) -> int:
        """The same without remembering it."""
        found = self.workers.do(CHECK)
        if found == t.FULL:
            self.state.ensure(1, 2 * task.EXTENT)
            return self.check()
        return found

    def witnesses(self, found: int) -> Witnesses:
        """What the last `observe` or `check` found."""
        return Witnesses(*self.state.desk.result_bytes(found))

    def settle(self) -> None:
        """After a call that was cut off between two kernels: the next finds the table in order."""
        self.state.settle()
        self._lay_out(self._table)

    # Many decisions

    def block(self, left: int) -> int:
        """How many of the next rows to take together."""
        return min(left, _BATCH)

    def insert(self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None) -> None:
        """Rotate and seat written rows; forgotten ones are left out."""
        for start in range(0, size, _BATCH):
            self._insert(first + start, min(_BATCH, size - start), threads, pool)

    def _insert(self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None) -> None:
        table, batch = self._table, self._batch
        outputs = self.state.history.region(t.OUTPUTS)
        width = self.state.history.out_width
        given = outputs.view(np.float64, (first + size) * width)[first * width :: width]
        batch.order[:size] = np.argsort(given, kind="stable")  # equal labels side by side
        table[t.FIRST] = first

        def lay_out(table: Rows) -> None:
            self._lay_out(table)
            table[t.FIRST] = first

        self.workers.share(size, threads, pool, lay_out, self.workers.call(task.TURN))
        self.state.ensure(0, size // t.BLOCK + 16 * task.EXTENT)
        self.state.prepare(size)
        table[t.START], table[t.STOP] = 0, size
        self.workers.do(task.SEAT)

    def judge(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Seat and search written rows; witnesses of each, and all of them in order."""
        self._insert(first, size, threads, pool)
        counts = self._batch.counts[:size]
        counts[:] = 0

        def lay_out(table: Rows) -> None:
            self._lay_out(table)
            table[t.FIRST] = first

        work = self.workers.call(task.SEARCH)
        if size >= _FEW:
            self.state.recent[(first + np.arange(size)) % t.RECENT_MOST] = 0
            work = self._sifting(first, size)
        parts = self.workers.share(size, threads, pool, lay_out, work)
        rows, near, far, owners = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((rows, owners))
        return counts.copy(), (rows[order], near[order], far[order], owners[order])

    def _sifting(self, first: int, size: int) -> Callable[[Desk, int, int], list[Found]]:
        """Multiply a few queries with a few blocks at a time, then look at the products.

        Products this small are made by the calling thread alone, whatever library makes them, so
        that threads share the work here and not there.
        """
        state, batch = self.state, self._batch
        blocks, axes = int(state.table[t.BLOCKS]), state.layout.axes
        points = state.region(t.LEADING).view(np.float32, blocks * axes * t.BLOCK)
        points = points.reshape(blocks, axes, t.BLOCK)
        filled = state.region(t.COUNT).view(np.int64, blocks) > 0
        lowest = highest = given = np.empty(0)
        labels = state.table[t.OUTPUT] == t.LABEL and state.table[t.RANGE_WIDTH] != 0
        if labels:
            lowest, highest = (
                state.region(slot).view(np.float64, blocks) for slot in (t.LOW, t.HIGH)
            )
            outputs = state.history.region(t.OUTPUTS).view(np.float64, first + size)
            given = outputs[first + batch.order[:size]]

        def alike(start: int, stop: int) -> list[tuple[int, int, npt.NDArray[np.bool_]]]:
            """Queries with the same label, from and to, and the blocks that may differ from it."""
            if not labels:
                return [(start, stop, filled)]
            edges = np.flatnonzero(np.diff(given[start:stop], prepend=np.nan, append=np.nan))
            return [
                (
                    start + int(a),
                    start + int(b),
                    filled & ((lowest != given[start + a]) | (highest != given[start + a])),
                )
                for a, b in pairwise(edges)
            ]

        def work(desk: Desk, start: int, stop: int) -> list[Found]:
            table = desk.table
            found = [desk.results(0)]
            products = np.empty((_STACK, _GROUP, t.BLOCK), dtype=np.float32)
            table[t.PRODUCTS] = products.ctypes.data
            table[t.TASK] = task.SIFT
            for since, until, wanted in alike(start, stop):
                for low, high in _stacks(wanted):
                    table[t.FIRST_BLOCK], table[t.LAST_BLOCK] = low, high
                    for at in range(since, until, _GROUP):
                        end = min(at + _GROUP, until)
                        queries = batch.turned[None, at:end]
                        for lane in range(0, t.BLOCK, _LANES):
                            lanes = slice(lane, lane + _LANES)
                            np.matmul(
                                queries,
                                points[low:high, :, lanes],
                                out=products[: high - low, : end - at, lanes],
                            )
                        table[t.START], table[t.STOP] = at, end
                        self.workers.kernel(desk.address)
                        if table[t.FOUND]:
                            found.append(desk.results(int(table[t.FOUND])))
            table[t.TASK] = OBSERVE
            return found

        return work

    def build(self) -> None:
        """Seat the whole history anew."""
        self.workers.do(PLANT)
        with ThreadPoolExecutor(2) as pool:
            self.insert(0, self.state.history.total, 2, pool)

    def remove(self, rows: Rows) -> None:
        """Take remembered rows out."""
        unseat_rows(self._address, address_of(rows), len(rows))

    def depth(self) -> int:
        return 1

    def leaves(self) -> int:
        blocks = int(self._table[t.BLOCKS])
        return int(np.count_nonzero(self.state.region(t.COUNT).view(np.int64, blocks)))

    def form(self) -> str:
        return f"{self.leaves():,} blocks of 128, {self.state.layout.axes} rotated coordinates"


def _stacks(wanted: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs of wanted blocks, from and to, none longer than a stack."""
    edges = np.flatnonzero(np.diff(wanted.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    return [
        (start, min(start + _STACK, int(stop)))
        for first, stop in edges
        for start in range(int(first), int(stop), _STACK)
    ]


class _Batch:
    """What the tasks of one batch hand each other."""

    def __init__(self, axes: int) -> None:
        self.order = np.zeros(_BATCH, dtype=np.int64)
        self.counts = np.zeros(_BATCH, dtype=np.int64)
        self.turned = np.zeros((_BATCH, axes), dtype=np.float32)
        self.errors = np.zeros(_BATCH)
        self.lengths = np.zeros(_BATCH)
        self.arrays: dict[int, Any] = {
            t.WORK_ORDER: self.order,
            t.COUNTS: self.counts,
            t.TURNED: self.turned,
            t.TURNED_ERROR: self.errors,
            t.TURNED_LENGTH: self.lengths,
        }
