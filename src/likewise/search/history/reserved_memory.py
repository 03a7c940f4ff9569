"""Reserve memory that grows without moving.

Invariant: a region reads as zero where nothing was written.
Cost: what was written; the reservation itself is free. Doubling an array of a million rows would
stall for 20 ms, a fresh page costs microseconds.
Not here: what is stored in it (search/indexes/index_state.py).
"""

import contextlib
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

# Address space is reserved once and becomes real page by page as it is written, so growth never
# copies. Where the system refuses to reserve that much, less is reserved, and `Region.enlarge`
# copies.

PAGE = mmap.PAGESIZE
_SMALLEST = 1 << 16
_RESERVE = 1 << 32  # bytes of address space for one value of each row
_SHARE = 8  # reserve only what is available so many times: others need address space too
_AHEAD = 1 << 17  # bytes prepared together in long regions: single pages cost twice as much
_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # in mmap from Python 3.13 on
_POPULATE = 23 if sys.platform == "linux" else None  # MADV_POPULATE_WRITE, missing in mmap


def _map(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        flags |= getattr(mmap, "MAP_NORESERVE", _NORESERVE)
        return mmap.mmap(-1, size, flags=flags)
    return mmap.mmap(-1, size)


def reservable(most: int) -> int:
    """Return how many bytes to reserve for one purpose: `most`, or what the system allows."""
    size = most
    while size > _SMALLEST and not can_reserve([_SHARE * size]):
        size //= 2
    return max(size, _SMALLEST)


class Region:
    """A block of zeroed memory, reserved at a length and replaceable by a longer one."""

    def __init__(self, size: int) -> None:
        self.size = -(-max(size, _SMALLEST) // PAGE) * PAGE
        try:
            self._map = _map(self.size)
        except OSError as error:
            raise MemoryError(
                f"the system refuses {self.size:,} bytes more ({error.strerror}). Nothing was"
                " stored: allow this process more memory, or keep a shorter history."
            ) from None
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.address: int = self.memory.ctypes.data
        self._prepared = 0
        self.begins = 0  # nothing lies before

    def enlarge(self, size: int, used: int) -> "Region":
        """Return a longer region that begins with the first `used` bytes of this one."""
        longer = Region(size)
        longer.begins = self.begins
        part = slice(self.begins, min(used, self.size))
        longer.memory[part] = self.memory[part]
        return longer

    def prepare(self, start: int, stop: int) -> None:
        """Prepare bytes for writing: in one go they cost a fraction of page by page.

        This is a hint: without it, pages become ready when they are written.
        """
        if stop <= self._prepared:
            return
        start = max(start // PAGE * PAGE, self._prepared)
        stop = max(stop, start + min(start // 16, _AHEAD))
        stop = min(-(-stop // PAGE) * PAGE, self.size)
        if stop > start and _POPULATE is not None:
            with contextlib.suppress(OSError):
                self._map.madvise(_POPULATE, start, stop - start)
            self._prepared = stop

    def read(self, count: int) -> bytes:
        """Return a copy of the first `count` bytes."""
        return self._map[:count]

    def view(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        """Return the first `count` items."""
        return self.memory[: count * np.dtype(dtype).itemsize].view(dtype)

    def release(self, start: int, stop: int) -> None:
        """Return whole pages to the system; they read as zero then. start and stop lie on pages."""
        if stop <= start:
            return
        if start <= self.begins:
            self.begins = max(self.begins, stop)
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)
        else:
            self.memory[start:stop] = 0


def can_reserve(sizes: list[int]) -> bool:
    """Return whether the system lets us reserve all of these sizes at once."""
    maps = []
    try:
        for size in sizes:
            maps.append(_map(size))
    except (OSError, ValueError, OverflowError):
        return False
    return True


class GrowingRows:
    """Holds a few numbers for each row of a history, in memory that grows without moving."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype = np.dtype(dtype)
        self.width = width
        self._row_bytes = self.dtype.itemsize * width
        self._region = Region(reservable(_RESERVE * max(1, width)) if width else PAGE)
        self._view = self._view_rows(self._region)

    def _view_rows(self, region: Region) -> npt.NDArray[Any]:
        if self.width == 0:
            return np.empty((0, 0), self.dtype)
        rows = region.size // self._row_bytes
        return region.view(self.dtype, rows * self.width).reshape(rows, self.width)

    def room(self, first: int, count: int) -> npt.NDArray[Any]:
        """Return the part to which rows from `first` on are to be written."""
        if first + count > len(self._view):
            size, used = (first + count) * self._row_bytes, first * self._row_bytes
            self._region = self._region.enlarge(max(size, 2 * self._region.size), used)
            # if this is interrupted, the next call grows again
            self._view = self._view_rows(self._region)
        return self._view[first : first + count]

    def first(self, count: int) -> npt.NDArray[Any]:
        """Return the first `count` rows."""
        return self._view[:count]

    def release(self, row: int) -> None:
        """Return the memory of rows before `row` to the system."""
        size = row * self._row_bytes // PAGE * PAGE
        self._region.release(self._region.begins, size)


class Growing(GrowingRows):
    """Holds one number for each row of a history, in memory that grows without moving."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(dtype, 1)

    def put(self, first: int, values: Any, count: int) -> None:
        """Write the values of rows from `first` on."""
        self.room(first, count)[:, 0] = values

    def first(self, count: int) -> npt.NDArray[Any]:
        """Return the values of the first `count` rows."""
        return self._view[:count, 0]
