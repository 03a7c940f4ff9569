"""Store records, which have the same length for every decision, in files of equal length.

Each file holds `segment_rows` records and is named after its first row, so old ones can be deleted
whole. Files are written at their end only, except by erasure. They are read instead of mapped into
memory, which is faster and safe if a file is cut meanwhile.
Invariant: what lies behind the rows that the database counts means nothing, and is overwritten.
"""

import io
import os
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile, CannotRead
from likewise.runtime.private_files import NO_FILE_ERRNOS, open_private, open_to_read

SEGMENT_BYTES = 64 << 20
SUFFIX = ".rows"


def segment_rows_for(record_bytes: int) -> int:
    """Return how many records a file holds: a power of two, so that it has some 64 MB at most."""
    return max(64, min(1 << 16, 1 << (SEGMENT_BYTES // record_bytes).bit_length() - 1))


class RecordFiles:
    """Reads and writes the files in a folder, for records of one type."""

    def __init__(self, folder: Path, kind: np.dtype[Any], segment_rows: int) -> None:
        self.folder = folder
        self.segment_rows = segment_rows
        self.dtype = kind
        self._open: tuple[int, int] | None = None  # segment, descriptor

    def path(self, segment: int) -> Path:
        return self.folder / f"{segment * self.segment_rows:012}{SUFFIX}"

    # Writing

    def write(self, first: int, records: npt.NDArray[Any], *, sync: bool) -> None:
        """Write the records of rows from `first` on; raise OSError if that fails."""
        for segment, start, stop in self.spans(first, first + len(records)):
            part = records[start - first : stop - first]
            file = self._descriptor(segment)
            _write_all(file, part.view(np.uint8).data, self._offset(start))
            if sync:
                os.fdatasync(file)

    def erase(self, rows: list[int], what: str) -> None:
        """Overwrite one field of rows, such as "salt", and force that to disk."""
        kind, offset = self.dtype.fields[what][:2]  # type: ignore[index]
        for segment, segment_rows in groupby(sorted(rows), lambda row: row // self.segment_rows):
            file = self._descriptor(segment)
            for row in segment_rows:
                _write_all(file, memoryview(bytes(kind.itemsize)), self._offset(row) + offset)
            os.fdatasync(file)

    def drop(self, first: int) -> int:
        """Delete files all of whose rows come before `first`; return how many there were."""
        count = 0
        for path in self.folder.glob(f"*{SUFFIX}"):
            if path.stem.isdigit() and int(path.stem) + self.segment_rows <= first:
                path.unlink()
                count += 1
        return count

    def cut(self, rows: int) -> None:
        """Cut off what lies behind the first `rows` rows, and force that to disk."""
        self.close()  # the open file may be deleted
        for path in self.folder.glob(f"*{SUFFIX}"):
            if path.stem.isdigit() and int(path.stem) >= rows:
                path.unlink()
                sync_folder(self.folder)
        segment, size = rows // self.segment_rows, self._offset(rows)
        if size and self.path(segment).stat().st_size > size:
            file = self._descriptor(segment)
            os.ftruncate(file, size)
            os.fdatasync(file)

    def _offset(self, row: int) -> int:
        return row % self.segment_rows * self.dtype.itemsize

    def _descriptor(self, segment: int) -> int:
        if self._open is None or self._open[0] != segment:
            self.close()
            self._open = segment, open_private(self.path(segment))
            try:
                sync_folder(self.folder)  # even if the file exists: its name may not be on disk
            except OSError:
                self.close()
                raise
        return self._open[1]

    def close(self) -> None:
        opened, self._open = self._open, None  # first: a descriptor must not be used once closed
        if opened is not None:
            os.close(opened[1])

    # Reading

    def spans(self, first: int, stop: int) -> list[tuple[int, int, int]]:
        """Return for each file its number, the first row in it and the one after the last."""
        spans = []
        while first < stop:
            segment = first // self.segment_rows
            end = min(stop, (segment + 1) * self.segment_rows)
            spans.append((segment, first, end))
            first = end
        return spans

    def read(self, first: int, stop: int) -> npt.NDArray[Any]:
        """Return the records of rows; raise BadFile unless all are there."""
        parts = [self._part(*span) for span in self.spans(first, stop)]
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, self.dtype)])

    def _part(self, segment: int, first: int, stop: int) -> npt.NDArray[Any]:
        path = self.path(segment)
        try:
            with io.FileIO(open_to_read(path)) as file:
                count = os.fstat(file.fileno()).st_size // self.dtype.itemsize
                if count < stop - segment * self.segment_rows:
                    raise self._cut(segment, count, stop)
                part = np.empty(stop - first, self.dtype)
                file.seek(self._offset(first))
                done = _read_all(file, part.view(np.uint8).data)
        except OSError as error:
            if error.errno in NO_FILE_ERRNOS:
                raise BadFile(
                    f"{str(path)!r} cannot be read: {error.strerror}. It should hold rows"
                    f" {first:,} to {stop - 1:,}. Nothing was changed: bring the file back from a"
                    " copy.",
                    path=path,
                ) from None
            raise CannotRead(
                f"{str(path)!r} cannot be read: {error.strerror}. That says nothing about what is"
                " in it, and nothing was changed: make sure that it can be read, and try again.",
                path=path,
            ) from None
        if done < part.nbytes:
            raise self._cut(segment, first % self.segment_rows + done // self.dtype.itemsize, stop)
        return part

    def _cut(self, segment: int, count: int, stop: int) -> BadFile:
        last = segment * self.segment_rows + count - 1
        return BadFile(
            f"{str(self.path(segment))!r} ends after row {last:,}, but row {stop - 1:,} should be"
            " there: it was cut. Nothing was changed: bring the file back from a copy.",
            path=self.path(segment),
        )


def _write_all(file: int, data: memoryview, offset: int) -> None:
    data = data.cast("B")
    while len(data):
        done = os.pwrite(file, data, offset)
        data, offset = data[done:], offset + done


def _read_all(file: io.FileIO, into: memoryview) -> int:
    """Read until `into` is full, or the file ends; return how many bytes were read."""
    into, done = into.cast("B"), 0
    while done < len(into) and (count := file.readinto(into[done:])):
        done += count
    return done


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk, where the system does not do that by itself."""
    opened: Callable[..., int] = os.open
    try:
        file = opened(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)
