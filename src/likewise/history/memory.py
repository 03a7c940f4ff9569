"""Memory that grows without moving.

Address space is reserved once and becomes real page by page as it is written, so growth never
copies: doubling an array of a million rows stalls for 20 ms, a fresh page costs microseconds.
Where the system refuses to reserve that much, less is asked for, and `Region.grow` copies.

Invariant: a region reads as zero where nothing was written.
Cost: what was written; the reservation itself is free.
Not here: what is kept in it (indexes/state.py).
"""

import contextlib
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
_SMALLEST = 1 << 16
_POPULATE = 23 if sys.platform == "linux" else None  # MADV_POPULATE_WRITE, which mmap does not name


def _map(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        return mmap.mmap(-1, size, flags=flags)
    return mmap.mmap(-1, size)


class Region:
    """A stretch of zeroed memory, reserved at a length and replaceable by a longer one."""

    def __init__(self, size: int) -> None:
        self.size = -(-max(size, _SMALLEST) // PAGE) * PAGE
        self._map = _map(self.size)
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.address: int = self.memory.ctypes.data
        self._prepared = 0

    def grown(self, size: int, used: int) -> "Region":
        """A longer region that begins with the first `used` bytes of this one."""
        longer = Region(size)
        used = min(used, self.size)
        longer.memory[:used] = self.memory[:used]
        return longer

    def prepare(self, size: int) -> None:
        """Have the first `size` bytes ready: in one go they cost a fraction of page by page.

        A hint: where the system does not know it, pages become ready when they are written.
        """
        stop = min(-(-size // PAGE) * PAGE, self.size)
        if stop > self._prepared and _POPULATE is not None:
            with contextlib.suppress(OSError):
                self._map.madvise(_POPULATE, self._prepared, stop - self._prepared)
            self._prepared = stop

    def view(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        """The first `count` items."""
        return self.memory[: count * np.dtype(dtype).itemsize].view(dtype)

    def release(self, start: int, stop: int) -> None:
        """Give whole pages back; they read as zero afterwards. start and stop lie on pages."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)
        else:
            self.memory[start:stop] = 0


def fits(sizes: list[int]) -> bool:
    """Whether the system lets us reserve all of these at once."""
    held = []
    try:
        for size in sizes:
            held.append(_map(size))
    except (OSError, ValueError, OverflowError):
        return False
    return True
