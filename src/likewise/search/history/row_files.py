"""Store rows in a file that is mapped into memory: only what is read or written is resident.

Invariant: mapped pages stay below RESIDENT, plus what one call touches; the file keeps everything.
It is locked from the first open on, so all later contents are this process's to undo. Space on disk
is reserved before a decision is taken, so a full disk never interrupts one.
Not here: what the rows mean, and durability (nothing is forced to disk).
"""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile
from likewise.runtime.private_files import explain_os_error, open_private

try:
    import fcntl
except ImportError:  # a system that has no such locks
    fcntl = None  # type: ignore[assignment]

RESIDENT = 16 << 20
_STEP = 64 << 20  # bytes reserved at a time, or an eighth of the file where that is more


class RowFile:
    """A growing file that holds rows of equal length and nothing else, in the storage type.

    Anything that can read raw arrays can read it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.row_bytes = 1
        self.rows = 0  # rows for which there is room
        self._touched = 0
        self._file = -1
        self._map: mmap.mmap | None = None
        self.memory: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        if self.path.is_dir():
            raise self._in_use()
        try:
            self._file = open_private(self.path)
        except OSError as error:
            raise BadFile(
                f"row_file is {str(path)!r}, which cannot be written: {explain_os_error(error)}."
                " Nothing was stored.",
                path=path,
            ) from None
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadFile(
                f"row_file is {str(self.path)!r}, which another monitor uses for its rows; expected"
                " the name of a new file. Nothing was changed.",
                path=self.path,
            ) from None
        if os.fstat(self._file).st_size > 0:
            raise self._in_use()

    def _in_use(self) -> BadFile:
        return BadFile(
            f"row_file is {str(self.path)!r}, which exists already and is not empty;"
            " expected the name of a new file. Nothing was changed.",
            path=self.path,
        )

    def begin(self, row_bytes: int) -> None:
        """Empty the file; from now on its rows have `row_bytes` bytes."""
        self.empty()
        self.row_bytes = row_bytes

    def empty(self) -> None:
        """Drop all rows."""
        self.memory = np.empty(0, dtype=np.uint8)
        self._map = None
        self.rows = self._touched = 0
        if self._file >= 0:
            os.ftruncate(self._file, 0)

    @property
    def address(self) -> int:
        return int(self.memory.ctypes.data)

    def grow(self, rows: int) -> None:
        """Make room for that many rows; release mapped pages."""
        size = max(rows * self.row_bytes, self.size + max(_STEP, self.size // 8))
        size = -(-size // self.row_bytes) * self.row_bytes
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file, self.size, size - self.size)
            else:
                os.ftruncate(self._file, size)
            fresh = mmap.mmap(self._file, size)
        except OSError as error:
            os.ftruncate(self._file, self.size)
            raise BadFile(
                f"{str(self.path)!r} cannot grow to {size:,} bytes: {error.strerror}."
                " Nothing was stored: make room, then send the decision again.",
                path=self.path,
            ) from None
        self.memory = np.frombuffer(fresh, dtype=np.uint8)
        self._map = fresh
        self.rows = size // self.row_bytes
        self._touched = 0

    @property
    def size(self) -> int:
        return self.rows * self.row_bytes

    def note_touched(self, rows: int) -> None:
        """Count rows that were read or written; release mapped pages once they are too many."""
        self._touched += rows * self.row_bytes
        if self._touched > RESIDENT:
            self._touched = 0
            if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
                self._map.madvise(mmap.MADV_DONTNEED)

    def close(self, rows: int) -> None:
        """Cut the file to its first rows, and close it."""
        if self._file < 0:
            return
        self.memory = np.empty(0, dtype=np.uint8)
        self._map = None
        os.ftruncate(self._file, rows * self.row_bytes)
        self.release()

    def release(self) -> None:
        """Close the file and leave it as it is."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            self.release()

    def view(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        """Return the first `count` items."""
        return self.memory[: count * np.dtype(dtype).itemsize].view(dtype)
