"""How far a buffer has come, in a small file that outlives the process: which numbers were given,
which of them are settled, and what was being told to the monitor.

The file is mapped into memory, so that noting a number costs nothing at `submit`, and what was
noted is there after the process was killed. (After a power cut it is as old as the last `force`.)

A monitor's ledger and this file cannot change in one step. So an intention is noted first: how many
decisions, or losses, are told next, and how many rows, or missing ones, the monitor had before.
Whoever opens the file after a crash compares that with what the monitor has, and knows whether it
was told. That holds as long as nobody but the buffer observes through that monitor.

The intention and what is settled are written together, in turns to two places, each with a checksum
and a counter: a process that is killed in the middle of one leaves the other.

Invariant: of all numbers below `given`, exactly `settled` are answered, refused, or lost and told.
"""

import mmap
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from likewise.runtime.private_files import open_private
from likewise.values.errors import BadFile

NOTHING, DECISIONS, LOSSES = 0, 1, 2
"""What may be being told."""

_MARK = b"likewise spill 1"
_SIZE = 4096
_GIVEN = 64
_PLACES = (512, 1024)
_STATE = struct.Struct("<QQQBQQq?")
_CHECKSUM = struct.Struct("<I")


class Intention(NamedTuple):
    """What is being told to the monitor."""

    kind: int = NOTHING
    size: int = 0
    """How many decisions, or how many are lost."""
    stop: int = 0
    """Of decisions: one more than the number of the last."""
    before: int = 0
    """The monitor's rows before that, or how many it knew to be missing."""
    durable: bool = False
    """Whether that monitor's history outlives the process."""


class Position:
    """The file, open in one process (spill.py holds the lock)."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self._path = path
        self._fsync = fsync
        file = open_private(path)
        try:
            fresh = os.fstat(file).st_size < _SIZE
            if fresh:  # whole, so that a full disk is noticed here, and not when memory is written
                os.pwrite(file, bytes(_SIZE), 0)
                os.fsync(file)
            self._map = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        self._numbers = memoryview(self._map)[_GIVEN : _GIVEN + 8].cast("Q")
        self.done = self.settled = 0
        """Frames with smaller numbers are not to be replayed; how many numbers are settled."""
        self.intention = Intention()
        self._turn = 0
        if self._map[: len(_MARK)] == _MARK:
            self._read()
        else:
            self._write()
            self._map[: len(_MARK)] = _MARK
            self.force()

    # Numbers

    @property
    def given(self) -> int:
        """One more than the largest number that was given."""
        return self._numbers[0]

    def give(self, number: int) -> None:
        """Note that this number was given, and all before it."""
        self._numbers[0] = number + 1

    # What is settled

    def intend(self, intention: Intention) -> None:
        """Before the monitor is told."""
        self.intention = intention
        self._write()
        self.force()

    def settle(self, count: int, done: int | None = None) -> None:
        """Numbers are settled, and nothing is being told any more."""
        self.settled += count
        self.done = self.done if done is None else done
        self.intention = Intention()
        self._write()

    def force(self) -> None:
        """Have it on disk, if power cuts are to be survived."""
        if self._fsync:
            self._map.flush()

    def _write(self) -> None:
        self._turn += 1
        state = _STATE.pack(self._turn, self.done, self.settled, *self.intention)
        whole = state + _CHECKSUM.pack(zlib.crc32(state))
        place = _PLACES[self._turn % len(_PLACES)]
        self._map[place : place + len(whole)] = whole

    def _read(self) -> None:
        size = _STATE.size + _CHECKSUM.size
        found = []
        for place in _PLACES:
            whole = self._map[place : place + size]
            (checksum,) = _CHECKSUM.unpack_from(whole, _STATE.size)
            if checksum == zlib.crc32(whole[: _STATE.size]):
                found.append(_STATE.unpack_from(whole))
        if not found:
            raise BadFile(
                f"{str(self._path)!r} is damaged, so it is not known which spilled decisions were"
                " judged. Nothing was changed: move the folder away, and begin another.",
                path=self._path,
            )
        self._turn, self.done, self.settled, *intention = max(found)
        self.intention = Intention(*intention)

    def close(self) -> None:
        """Let go of the file, which stays."""
        self._numbers.release()
        self._map.close()
