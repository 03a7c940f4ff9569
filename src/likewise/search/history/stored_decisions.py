"""Store the history: inputs, outputs, and which of them are still remembered.

Invariant: rows from `total` on are no part of the history, whatever is written there.
Cost: what was written; capacity is only reserved (reserved_memory.py), or in a file
(row_files.py).
Not here: how neighbours are found (search/indexes).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.rule.rule import Rule
from likewise.search.geometry import METRICS
from likewise.search.history.reserved_memory import PAGE, Region, reservable
from likewise.search.history.row_files import RowFile
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.search.kernels.remove import erase_rows
from likewise.search.outputs import OutputCodec

_RESERVE = 1 << 38  # bytes of address space that one monitor reserves at first
_LEAST = 1024  # rows
_INDEX_BYTES = 2048  # that indexes may need for each row

STORAGES = {
    "float64": t.FLOAT64, "float32": t.FLOAT32, "int8": t.INT8, "uint8": t.UINT8,
    "int16": t.INT16, "uint16": t.UINT16, "int32": t.INT32, "uint32": t.UINT32,
    "int64": t.INT64, "uint64": t.UINT64,
}  # fmt: skip

Table = npt.NDArray[np.int64]


class History:
    """Holds decisions in order of arrival, under one rule.

    Its numbers and addresses are the first slots of a table (search/kernels/table.py): `table` is
    that of the index in use, whose kernels count the rows; `copy_to` copies them to another's.
    """

    def __init__(
        self,
        rule: Rule,
        shape: tuple[int, ...],
        storage: str,
        outputs: OutputCodec,
        *,
        file: RowFile | None = None,
        capacity: int | None = None,
    ) -> None:
        self.rule = rule
        self.shape = shape
        self.storage = storage
        self.width = int(np.prod(shape))
        self.dtype = np.dtype(np.float64 if storage in ("int64", "uint64") else storage)
        self.out_width = outputs.width
        self.cosine = rule.metric == "cosine"
        padded = -(-self.width // 8) * 8  # sums run in eight lanes
        self.weights: npt.NDArray[np.float64] = np.zeros(padded)
        self.weights[: self.width] = 1.0 if rule.weights is None else rule.weights
        self.table: Table = np.zeros(t.SLOTS, dtype=np.int64)
        for slot, value in (
            (t.WIDTH, self.width),
            (t.OUT_WIDTH, self.out_width),
            (t.STORAGE, STORAGES[storage]),
            (t.METRIC, METRICS[rule.metric]),
            (t.OUTPUT, outputs.kind),
            (t.ROW_BYTES, self.row_bytes),
            (t.WEIGHTS, self.weights.ctypes.data),
        ):
            self.table[slot] = value
        self.file = file
        if file is not None:
            file.begin(self.row_bytes)
        self._regions: dict[int, Region] = {}
        # by page of rows, how many are forgotten, until all of them are
        self._forgotten_by_page: dict[int, int] = {}
        self.first = 0  # every row before is forgotten
        self.reserved = 0
        self.rows: npt.NDArray[Any] = np.empty((0, *shape), dtype=self.dtype)
        self._reserve(capacity or self._affordable())
        self._map_rows()

    @property
    def row_bytes(self) -> int:
        return self.width * self.dtype.itemsize

    @property
    def total(self) -> int:
        return int(self.table[t.TOTAL])

    @property
    def live(self) -> int:
        return int(self.table[t.LIVE])

    @property
    def capacity(self) -> int:
        return int(self.table[t.ROW_CAPACITY])

    # Memory

    def sizes(self) -> dict[int, int]:
        """Return the bytes per row of each array in memory."""
        sizes = {t.OUTPUTS: 8 * self.out_width, t.ALIVE: 1}
        if self.cosine:
            sizes[t.NORMS] = 8
        if self.file is None:
            sizes[t.ROWS] = self.row_bytes
        return sizes

    def _affordable(self) -> int:
        """Return how many rows a large reservation holds, or a smaller one if that is refused."""
        return max(_LEAST, reservable(_RESERVE) // (sum(self.sizes().values()) + _INDEX_BYTES))

    def _reserve(self, rows: int) -> None:
        """Reserve arrays for so many rows; until the last step, the old length counts."""
        for slot, size in self.sizes().items():
            old = self._regions.get(slot)
            self._regions[slot] = (
                Region(size * rows) if old is None else old.enlarge(size * rows, size * self.total)
            )
            self.table[slot] = self._regions[slot].address
        self.reserved = rows

    def restore_addresses(self) -> None:
        """Point the table at the arrays again, after a call that was interrupted."""
        self.table[t.WEIGHTS] = self.weights.ctypes.data
        for slot, region in self._regions.items():
            self.table[slot] = region.address
        self._map_rows()

    def _map_rows(self) -> None:
        memory = self._regions[t.ROWS] if self.file is None else self.file
        rows = self.reserved if self.file is None else min(self.reserved, self.file.rows)
        self.table[t.ROWS] = memory.address
        self.table[t.ROW_CAPACITY] = rows
        self.rows = memory.view(self.dtype, rows * self.width).reshape(rows, *self.shape)

    def ensure(self, more: int) -> bool:
        """Make room for that many more rows; return whether anything moved."""
        rows = self.total + more
        if rows <= self.capacity:
            return False
        if rows > self.reserved:
            self._reserve(max(rows, 2 * self.reserved))
        if self.file is not None and rows > self.file.rows:
            self.file.grow(rows)
        self._map_rows()
        return True

    def prepare(self, more: int) -> None:
        """Prepare memory for that many more rows."""
        for slot, size in self.sizes().items():
            self._regions[slot].prepare(size * self.total, size * (self.total + more))

    def copy_to(self, table: Table) -> None:
        """Copy the slots of this history to an index's table."""
        table[: t.HISTORY] = self.table[: t.HISTORY]

    def region(self, slot: int) -> Any:
        return self.file if slot == t.ROWS and self.file is not None else self._regions[slot]

    @property
    def used_bytes(self) -> int:
        """Memory in use, in bytes."""
        return sum(self.sizes().values()) * self.total

    @property
    def disk_bytes(self) -> int:
        return 0 if self.file is None else self.total * self.row_bytes

    def note_touched(self, rows: int) -> None:
        """Count rows that were read or written, where they lie in a file."""
        if self.file is not None:
            self.file.note_touched(rows)

    # Rows

    def can_store(self, dtype: np.dtype[Any]) -> bool:
        """Return whether every value of that type fits the storage as it is."""
        return self.storage not in ("int64", "uint64") and np.can_cast(dtype, self.dtype, "safe")

    def outputs(self, staged: int = 0) -> npt.NDArray[np.float64]:
        """Return the outputs of all rows, as numbers, and of `staged` rows written behind them."""
        return self.written_outputs(0, self.total + staged)

    def written_outputs(self, first: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the outputs of written rows, as numbers; they may lie behind the history."""
        numbers = self._regions[t.OUTPUTS].view(np.float64, stop * self.out_width)
        return numbers.reshape(stop, self.out_width)[first:]

    def remembered_flags(self) -> npt.NDArray[np.uint8]:
        """Return 1 for each remembered row, 0 for forgotten ones."""
        return self._regions[t.ALIVE].view(np.uint8, self.total)

    def sample(self, most: int) -> npt.NDArray[np.int64]:
        """Return at most so many remembered rows, evenly spread over the history."""
        alive, first = self.remembered_flags(), self.first
        rows = np.linspace(first, self.total - 1, min(most, self.total - first)).astype(np.int64)
        rows = rows[alive[rows] != 0]
        if len(rows) < most // 2:  # many are forgotten: choose among all remembered ones
            remembered = first + np.flatnonzero(alive[first:])
            places = np.linspace(0, len(remembered) - 1, min(most, len(remembered)))
            rows = remembered[places.astype(np.int64)]
        return rows

    def erase(self, rows: npt.NDArray[np.int64]) -> list[int]:
        """Overwrite rows that no index holds; return whole pages of them to the system.

        Return the numbers of the pages that are gone now, each PAGE rows long.
        """
        erase_rows(address_of(self.table), address_of(rows), len(rows))
        self.table[t.LIVE] -= len(rows)
        pages, counts = np.unique(rows // PAGE, return_counts=True)
        for page, count in zip(pages.tolist(), counts.tolist(), strict=True):
            self._forgotten_by_page[page] = self._forgotten_by_page.get(page, 0) + count
        whole = [page for page in pages.tolist() if self._forgotten_by_page[page] == PAGE]
        for page in whole:  # after so many rows, every array of rows ends on a page
            del self._forgotten_by_page[page]
            for slot, size in self.sizes().items():
                self._regions[slot].release(page * PAGE * size, (page + 1) * PAGE * size)
        alive = self.remembered_flags()[self.first :].view(np.bool_)
        next_alive = int(alive.argmax()) if len(alive) else 0
        self.first += next_alive if alive[next_alive : next_alive + 1].any() else len(alive)
        return whole

    def join(self, count: int) -> None:
        """Make written rows part of the history."""
        self.table[t.TOTAL] += count
        self.table[t.LIVE] += count

    def settle(self, rows: int, forgetting: npt.NDArray[np.int64]) -> None:
        """Roll back to the first rows, and erase those that are being forgotten.

        Everything else that an interrupted call left behind is derived from the rows themselves.
        """
        self.restore_addresses()
        self.table[t.TOTAL] = rows
        erase_rows(address_of(self.table), address_of(forgetting), len(forgetting))
        alive = self.remembered_flags().view(np.bool_)
        self.table[t.LIVE] = np.count_nonzero(alive)
        self.first = int(alive.argmax()) if alive.any() else rows
        pages, counts = np.unique(np.flatnonzero(~alive) // PAGE, return_counts=True)
        by_page = zip(pages.tolist(), counts.tolist(), strict=True)
        self._forgotten_by_page = {page: count for page, count in by_page if count < PAGE}

    def begin_at(self, row: int) -> None:
        """Begin an empty history at `row`: the rows before it count as forgotten."""
        page = row // PAGE
        for slot, size in self.sizes().items():
            self._regions[slot].release(0, page * PAGE * size)
        if row % PAGE:
            self._forgotten_by_page[page] = row % PAGE
        self.table[t.TOTAL] = self.first = row
