"""The memory behind a live tree: its arrays, their sizes, and the table that points at them.

Invariant: the table's capacities are true of every array it points at.
Cost: what is used; capacity is only reserved (history/memory.py).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.history.memory import Region, fits
from likewise.kernels import table as t
from likewise.metrics.geometry import Geometry

_RESERVE = 1 << 38  # bytes of address space one monitor asks for at first
_ROWS_PER_BLOCK = 16  # blocks are on average more than half full; this leaves room for the worst
_RESULTS = 1 << 24  # witnesses one thread can hold before they are taken away

STORAGES = {
    "float64": t.FLOAT64,
    "float32": t.FLOAT32,
    "int8": t.INT8,
    "uint8": t.UINT8,
    "int16": t.INT16,
    "uint16": t.UINT16,
    "int32": t.INT32,
    "uint32": t.UINT32,
    "int64": t.INT64,
    "uint64": t.UINT64,
}

_PER_NODE = {t.AXIS: 8, t.SPLIT: 8, t.LEFT: 8, t.PARENT: 8, t.LEAVES: 8, t.TRIED: 8, t.BUILT: 8}
_STACKS = {t.STACK: 16, t.STACK_SUM: 16, t.STACK_AXIS: 16, t.STACK_OFFSET: 16}
_RESULT_SLOTS = (t.RESULT_ROWS, t.RESULT_INPUT, t.RESULT_OUTPUT)


class State:
    """All arrays of one live tree, in memory that grows without moving."""

    def __init__(
        self,
        geometry: Geometry,
        *,
        width: int,
        storage: str,
        output: int,
        out_width: int,
        trees: int,
        delta: float,
        capacity: int | None = None,
    ) -> None:
        self.width = width
        self.out_width = out_width
        self.item_bytes = 8 if storage in ("int64", "uint64") else np.dtype(storage).itemsize
        self.range_width = out_width if out_width <= 16 else 0
        self.cosine = geometry.metric == t.COSINE
        self.table: npt.NDArray[np.int64] = np.zeros(t.SLOTS, dtype=np.int64)
        self._regions: dict[int, Region] = {}
        self._settings = {
            t.NUMBERS: np.array(
                [geometry.reach, delta, geometry.tree_reach, geometry.clamp, 0.0], dtype=np.float64
            ),
            t.WEIGHTS: geometry.weights,
            t.PRESCALE: geometry.prescale,
            t.GAP_SCALE: geometry.gap_scale,
            t.CODE_SCALE: geometry.code_scale,
        }
        for slot, array in self._settings.items():
            self.table[slot] = array.ctypes.data
        for slot, value in (
            (t.WIDTH, width),
            (t.ROW_BYTES, width * self.item_bytes),
            (t.OUT_WIDTH, out_width),
            (t.RANGE_WIDTH, self.range_width),
            (t.STORAGE, STORAGES[storage]),
            (t.METRIC, geometry.metric),
            (t.OUTPUT, output),
            (t.TREES, trees),
            (t.WINDOW, geometry.window),
            (t.LIMIT, geometry.limit),
        ):
            self.table[slot] = value
        rows = capacity or self._affordable_rows()
        self._reserve(rows, max(rows // _ROWS_PER_BLOCK, 16 + trees))
        self.desk = Desk(self)

    # Sizes

    def _row_bytes(self) -> dict[int, int]:
        sizes = {t.ROWS: self.width * self.item_bytes, t.OUTPUTS: 8 * self.out_width, t.ALIVE: 1}
        sizes |= {t.JOB_IDS: 8, t.JOB_LOG: 8}  # touched by rebuilds only
        return sizes | ({t.NORMS: 8} if self.cosine else {})

    def _node_bytes(self) -> dict[int, int]:
        ranges = {t.LOW: 8 * self.range_width, t.HIGH: 8 * self.range_width}
        return _PER_NODE | ranges | {t.BOX: 8 * self.width, t.JOB_STACK: 24}

    def _block_bytes(self) -> dict[int, int]:
        return {t.CODES: t.BLOCK * self.width, t.IDS: 8 * t.BLOCK, t.COUNT: 8, t.NEXT: 8}

    def _arrays(self, rows: int, blocks: int) -> Iterator[tuple[int, int]]:
        for per_item, items in (
            (self._row_bytes(), rows),
            (self._node_bytes(), 2 * blocks),
            (self._block_bytes(), blocks),
        ):
            for slot, size in per_item.items():
                yield slot, size * items

    def _affordable_rows(self) -> int:
        """As many rows as a large reservation holds; fewer where the system refuses it."""
        reserve = _RESERVE
        while True:
            one = sum(size for _, size in self._arrays(1024, 64)) / 1024
            rows = max(1024, int(reserve / one))
            sizes = [size for _, size in self._arrays(rows, rows // _ROWS_PER_BLOCK)]
            if rows == 1024 or fits([max(size, 1) for size in sizes]):
                return rows
            reserve //= 2

    def _used(self, slot: int) -> int:
        """Bytes of an array that hold something."""
        rows, nodes, blocks = (int(self.table[c]) for c in (t.TOTAL, t.NODES, t.BLOCKS))
        for sizes, items in (
            (self._row_bytes(), rows),
            (self._node_bytes(), nodes),
            (self._block_bytes(), blocks),
        ):
            if slot in sizes:
                return sizes[slot] * items
        raise KeyError(slot)

    @property
    def used_bytes(self) -> int:
        """Memory in use, scratch for a rebuild included where there has been one."""
        rebuilt = self.table[t.REBUILDS] > 0
        return sum(
            self._used(slot)
            for slot in self._regions
            if rebuilt or slot not in (t.JOB_IDS, t.JOB_LOG, t.JOB_STACK)
        )

    # Growing

    def _reserve(self, rows: int, blocks: int) -> None:
        for slot, size in self._arrays(rows, blocks):
            old = self._regions.get(slot)
            if old is not None and old.size >= size:
                continue
            region = Region(size) if old is None else old.grown(size, self._used(slot))
            self._regions[slot] = region
            self.table[slot] = region.address
        self.table[t.ROW_CAPACITY] = rows
        self.table[t.NODE_CAPACITY] = 2 * blocks
        self.table[t.BLOCK_CAPACITY] = blocks

    def ensure(self, more_rows: int, more_blocks: int) -> None:
        """Have room for that many more rows and blocks, at twice the size if need be."""
        rows, blocks = int(self.table[t.ROW_CAPACITY]), int(self.table[t.BLOCK_CAPACITY])
        want_rows = int(self.table[t.TOTAL]) + more_rows
        want_blocks = (
            max(int(self.table[t.BLOCKS]), int(self.table[t.NODES]) // 2) + more_blocks + 2
        )
        if want_rows <= rows and want_blocks <= blocks:
            return
        while rows < want_rows:
            rows *= 2
        while blocks < want_blocks:
            blocks *= 2
        self._reserve(rows, blocks)
        self.desk.fit(self)

    def region(self, slot: int) -> Region:
        return self._regions[slot]

    def nodes(self, slot: int) -> npt.NDArray[np.int64]:
        """A node array of whole numbers."""
        return self._regions[slot].view(np.int64, int(self.table[t.NODES]))

    def release_rows(self, first: int, count: int) -> None:
        """Give the memory of erased rows back; both ends lie on pages of every array of rows."""
        for slot, size in self._row_bytes().items():
            if slot not in (t.ALIVE, t.JOB_IDS, t.JOB_LOG):
                self._regions[slot].release(first * size, (first + count) * size)


class Desk:
    """One thread's scratch memory, and a table of its own that points at it."""

    def __init__(self, state: State, table: npt.NDArray[np.int64] | None = None) -> None:
        self.table = state.table if table is None else table
        width, out_width = state.width, state.out_width
        self.small: dict[int, npt.NDArray[Any]] = {
            t.INPUT: np.zeros(width),
            t.GIVEN: np.zeros(out_width),
            t.QUERY: np.zeros(width),
            t.POINT: np.zeros(width),
            t.QCODES: np.zeros(width, dtype=np.uint8),
            t.OFFSETS: np.zeros(width),
            t.MASK: np.zeros(t.BLOCK, dtype=np.uint8),
            t.SUMS: np.zeros(t.BLOCK, dtype=np.uint16),
            t.OTHER: np.zeros(width),
            t.CORNER: np.zeros(out_width),
            t.POINTS: np.zeros((t.BLOCK + 1) * width),
            t.KEYS: np.zeros(t.BLOCK + 1),
            t.LANES: np.zeros(8 * width),
            t.ORDER: np.zeros(t.BLOCK, dtype=np.int64),
            t.PARTED: np.zeros(t.PARTED_MOST, dtype=np.int64),
            t.NOTES: np.zeros(8 * t.NOTES_WIDTH, dtype=np.int64),
            t.BUCKETS: np.zeros(1 << 12, dtype=np.int64),
        }
        if not state.cosine:  # an input lies in the tree where it is
            self.small[t.POINT] = self.small[t.QUERY]
        self._large: dict[int, Region] = {}
        self.fit(state)

    def fit(self, state: State) -> None:
        """Take over the state's addresses and counters; make the scratch as long as they need."""
        if self.table is not state.table:
            self.table[:] = state.table
            self.table[[t.VISITED, t.SEARCHES]] = 0  # counted here, then added to the state's own
        rows, nodes, blocks = (
            int(state.table[c]) for c in (t.ROW_CAPACITY, t.NODE_CAPACITY, t.BLOCK_CAPACITY)
        )
        results = max(_RESULTS, rows)
        sizes = {slot: size * (nodes + 2) for slot, size in _STACKS.items()}
        sizes |= {t.FOUND_BLOCKS: 8 * blocks, t.CANDIDATES: 8 * rows}
        sizes |= dict.fromkeys(_RESULT_SLOTS, 8 * results)
        for slot, size in sizes.items():
            if slot not in self._large or self._large[slot].size < size:
                self._large[slot] = Region(size)
            self.table[slot] = self._large[slot].address
        for slot, array in self.small.items():
            self.table[slot] = array.ctypes.data
        self.table[t.RESULT_CAPACITY] = results

    def results(
        self, count: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Copies of the first `count` results."""
        rows, near, far = (self._large[slot] for slot in _RESULT_SLOTS)
        return (
            rows.view(np.int64, count).copy(),
            near.view(np.float64, count).copy(),
            far.view(np.float64, count).copy(),
        )
