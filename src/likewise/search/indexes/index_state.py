"""Manage the memory of an index: its arrays, their sizes, and the table that points at them.

An index says how many bytes each of its arrays needs per row, per node and per block; `IndexState`
reserves them and extends them, and `ThreadScratch` gives each thread scratch memory.
Invariant: the table's capacities are true of every array it points at, the history's included.
Cost: what is used; capacity is only reserved (search/history/reserved_memory.py).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.history.reserved_memory import PAGE, Region, reservable
from likewise.search.history.stored_decisions import History, Table
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.tables.array_types import Floats, Rows

_RESULTS = 1 << 24  # witnesses that one thread can hold, or as many as there are rows
_FILL = 80  # rows in a block, about
_WITNESS_SLOTS = (t.RESULT_ROWS, t.RESULT_INPUT, t.RESULT_OUTPUT)
_RESULT_SLOTS = (*_WITNESS_SLOTS, t.OWNERS)
_NO_ROWS: Rows = np.empty(0, np.int64)
_NO_DISTANCES = np.empty(0)


@dataclass(frozen=True)
class TableLayout:
    """Describes the arrays of an index: bytes per row, node and block by slot; settings by slot."""

    axes: int
    rows_per_block: int
    """A lower bound on the average number of rows in a block, even in the worst case."""
    settings: dict[int, npt.NDArray[Any]]
    per_row: dict[int, int] = field(default_factory=dict)
    per_node: dict[int, int] = field(default_factory=dict)
    per_block: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    per_scratch_node: dict[int, int] = field(default_factory=dict)
    idle: tuple[int, ...] = ()
    """Arrays that only a rebuild touches."""


class IndexState:
    """Holds all arrays of one index, in memory that grows without moving."""

    def __init__(self, history: History, layout: TableLayout, trees: int) -> None:
        self.history = history
        self.layout = layout
        self.table: Table = np.zeros(t.SLOTS, dtype=np.int64)
        self.address = address_of(self.table)
        self.range_width = history.out_width if history.out_width <= 16 else 0
        self._bytes = self._bytes_per_item()
        self._regions: dict[int, Region] = {}
        self._settings = layout.settings
        self.recent: npt.NDArray[np.int64] = np.full((t.RECENT_MOST, 3), -1, dtype=np.int64)
        history.copy_to(self.table)
        for slot, array in self._settings.items():
            self.table[slot] = array.ctypes.data
        for slot, value in layout.numbers.items():
            self.table[slot] = value
        self.table[t.RECENT] = self.recent.ctypes.data
        self.table[t.AXES] = layout.axes
        self.table[t.RANGE_WIDTH] = self.range_width
        self.table[t.TREES] = trees
        self.table[t.GIVEN_RAW] = 1  # as a rule the input lies in its row
        self.rows = 0
        rows = history.reserved
        self._reserve(rows, max(rows // layout.rows_per_block, 16 + trees))
        self.scratch = ThreadScratch(self)

    # Sizes

    def _bytes_per_item(self) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """Return bytes by slot for each row, each node and each block."""
        layout = self.layout
        ranges = {t.LOW: 8 * self.range_width, t.HIGH: 8 * self.range_width}
        per_node, per_block = layout.per_node, layout.per_block
        if t.PARENT in per_node:
            per_node = per_node | ranges
        else:  # without a tree, each block has a range
            per_block = per_block | ranges
        return layout.per_row, per_node, per_block

    def _sizes(self) -> list[tuple[dict[int, int], int]]:
        """Return bytes per item, and items used: for rows, nodes and blocks."""
        (per_row, per_node, per_block), used = self._bytes, self.table
        return [
            (per_row, int(used[t.TOTAL])),
            (per_node, int(used[t.NODES])),
            (per_block, int(used[t.BLOCKS])),
        ]

    @property
    def used_bytes(self) -> int:
        """Memory in use, with the scratch of rebuilds if there has been one."""
        idle = () if self.table[t.REBUILDS] > 0 else self.layout.idle
        return sum(
            size * used
            for sizes, used in self._sizes()
            for slot, size in sizes.items()
            if slot not in idle
        )

    # Growing

    def _reserve(self, rows: int, blocks: int) -> None:
        """Reserve arrays of these lengths; until the last steps, the old lengths count."""
        for (sizes, used), items in zip(self._sizes(), (rows, 2 * blocks, blocks), strict=True):
            for slot, size in sizes.items():
                old = self._regions.get(slot)
                if old is None:
                    self._regions[slot] = Region(size * items)
                elif old.size < size * items:
                    self._regions[slot] = old.enlarge(size * items, size * used)
                self.table[slot] = self._regions[slot].address
        self._point_at_places()
        self.rows = rows
        self.table[t.NODE_CAPACITY] = 2 * blocks
        self.table[t.BLOCK_CAPACITY] = blocks

    def settle(self) -> None:
        """Point the table at every array again, after a call that was interrupted."""
        for slot, array in self._settings.items():
            self.table[slot] = array.ctypes.data
        for slot, region in self._regions.items():
            self.table[slot] = region.address
        self.table[t.RECENT] = self.recent.ctypes.data
        self.table[t.TASK], self.table[t.GIVEN_RAW] = 0, 1
        self.table[t.NODE_CAPACITY] = 2 * self.table[t.BLOCK_CAPACITY]
        self.follow()
        self.scratch.fit(self)

    def _point_at_places(self) -> None:
        if t.PLACES not in self.layout.per_row:  # the index holds whole rows
            self.table[t.PLACES] = self.table[t.ROWS]
            self.table[t.PLACE_BYTES] = self.table[t.ROW_BYTES]

    def ensure(self, more_rows: int, more_blocks: int) -> None:
        """Make room for that many more rows and blocks; double the size if need be."""
        if self.history.ensure(more_rows):
            self.follow()
        blocks = int(self.table[t.BLOCK_CAPACITY])
        needed = max(int(self.table[t.BLOCKS]), int(self.table[t.NODES]) // 2) + more_blocks + 2
        if needed > blocks:
            while blocks < needed:
                blocks *= 2
            self._reserve(self.rows, blocks)
            self.scratch.fit(self)

    def prepare(self, more_rows: int) -> None:
        """Prepare memory for that many more rows, including those written but not joined."""
        blocks = more_rows // _FILL + 2
        for (sizes, used), more in zip(self._sizes(), (more_rows, 2 * blocks, blocks), strict=True):
            for slot, size in sizes.items():
                if slot not in self.layout.idle:
                    self._regions[slot].prepare(size * used, size * (used + more))

    def follow(self) -> None:
        """Take over the history's current numbers, addresses and capacity."""
        if self.history.table is not self.table:
            self.history.copy_to(self.table)
        if self.rows != self.history.reserved:
            self._reserve(self.history.reserved, int(self.table[t.BLOCK_CAPACITY]))
            self.scratch.fit(self)
        self._point_at_places()

    def release(self, pages: list[int]) -> None:
        """Release the memory of erased rows, by pages of PAGE rows."""
        for slot, size in self.layout.per_row.items():
            if slot not in self.layout.idle:
                for page in pages:
                    self._regions[slot].release(page * PAGE * size, (page + 1) * PAGE * size)

    def release_before(self, row: int) -> None:
        """Release the memory of rows before `row`, as far as it fills whole pages."""
        for slot, size in self.layout.per_row.items():
            if slot not in self.layout.idle:
                region = self._regions[slot]
                region.release(region.begins, row // PAGE * PAGE * size)

    def region(self, slot: int) -> Any:
        return self._regions[slot] if slot in self._regions else self.history.region(slot)

    def nodes(self, slot: int) -> npt.NDArray[np.int64]:
        """Return a node array of whole numbers."""
        return self._regions[slot].view(np.int64, int(self.table[t.NODES]))

    def blocks(self, slot: int) -> npt.NDArray[np.int64]:
        """Return a block array of whole numbers."""
        return self._regions[slot].view(np.int64, int(self.table[t.BLOCKS]))

    def dismantle(self) -> list[tuple[Region, int]]:
        """Return the regions of an index no longer in use, and how much of each was used."""
        return [
            (self._regions[slot], size * used)
            for sizes, used in self._sizes()
            for slot, size in sizes.items()
        ]


class ThreadScratch:
    """Holds one thread's scratch memory, and a table that points at it."""

    def __init__(self, state: IndexState, table: Table | None = None) -> None:
        self.table = state.table if table is None else table
        self.address = address_of(self.table)
        history, axes = state.history, state.layout.axes
        padded = -(-history.width // 8) * 8
        self.small: dict[int, npt.NDArray[Any]] = {
            t.INPUT: np.zeros(history.width),
            t.GIVEN: np.zeros(history.out_width),
            t.QUERY: np.zeros(padded),
            t.PART: np.zeros(t.CHUNK),
            t.POINT: np.zeros(axes),
            t.QCODES: np.zeros(axes, dtype=np.uint8),
            t.OFFSETS: np.zeros(axes),
            t.MASK: np.zeros(t.BLOCK, dtype=np.uint8),
            t.SUMS: np.zeros(t.BLOCK, dtype=np.uint16),
            t.OTHER: np.zeros(axes),
            t.CORNER: np.zeros(history.out_width),
            t.POINTS: np.zeros((t.BLOCK + 1) * axes),
            t.KEYS: np.zeros(t.BLOCK + 1),
            t.LANES: np.zeros(8 * axes),
            t.ROTATING: np.zeros(axes),
            t.ORDER: np.zeros(t.BLOCK, dtype=np.int64),
            t.PARTED: np.zeros(t.PARTED_ROOM, dtype=np.int64),
            t.NOTES: np.zeros(8 * t.NOTES_WIDTH, dtype=np.int64),
            t.BUCKETS: np.zeros(1 << 12, dtype=np.int64),
        }
        self._large: dict[int, Region] = {}
        per_result = 8 * len(_RESULT_SLOTS)
        self._results = reservable(_RESULTS * per_result) // per_result
        self.fit(state)

    def fit(self, state: IndexState) -> None:
        """Take over the state's addresses and counters; extend the scratch memory to match."""
        if self.table is not state.table:
            self.table[:] = state.table
        nodes, blocks = int(state.table[t.NODE_CAPACITY]), int(state.table[t.BLOCK_CAPACITY])
        results = max(state.rows, self._results)
        sizes = {slot: size * (nodes + 2) for slot, size in state.layout.per_scratch_node.items()}
        sizes |= {t.FOUND_BLOCKS: 8 * blocks, t.CANDIDATES: 8 * state.rows}
        sizes |= dict.fromkeys(_RESULT_SLOTS, 8 * results)
        for slot, size in sizes.items():
            if slot not in self._large or self._large[slot].size < size:
                self._large[slot] = Region(size)
            self.table[slot] = self._large[slot].address
        for slot, array in self.small.items():
            self.table[slot] = array.ctypes.data
        self.table[t.RESULT_CAPACITY] = results

    def splits(self) -> npt.NDArray[np.int64]:
        """Return the nodes that were split since the tree was last maintained."""
        return self.small[t.PARTED][: int(self.table[t.PARTED_COUNT])].copy()

    def set_split_nodes(self, nodes: npt.NDArray[np.int64]) -> None:
        """Set the nodes that were split."""
        self.small[t.PARTED][: len(nodes)] = nodes
        self.table[t.PARTED_COUNT] = len(nodes)

    def set_candidates(self, rows: npt.NDArray[np.int64]) -> None:
        """Write candidates where the kernel reads them."""
        self._large[t.CANDIDATES].view(np.int64, len(rows))[:] = rows

    def found_rows(self, count: int) -> npt.NDArray[np.int64]:
        """Return the rows of the first `count` results; valid until the next search."""
        return self._large[t.RESULT_ROWS].view(np.int64, count)

    def result_bytes(self, count: int) -> tuple[bytes, bytes, bytes]:
        """Return copies of the first `count` results: rows and both distances."""
        rows, near, far = map(self._large.__getitem__, _WITNESS_SLOTS)
        return rows.read(8 * count), near.read(8 * count), far.read(8 * count)

    def results(self, count: int) -> tuple[Rows, Floats, Floats, Rows]:
        """Return copies of the first `count` results: rows, both distances, owners."""
        if count == 0:
            return _NO_ROWS, _NO_DISTANCES, _NO_DISTANCES, _NO_ROWS
        rows, near, far, owners = (self._large[slot] for slot in _RESULT_SLOTS)
        return (
            rows.view(np.int64, count).copy(),
            near.view(np.float64, count).copy(),
            far.view(np.float64, count).copy(),
            owners.view(np.int64, count).copy(),
        )
