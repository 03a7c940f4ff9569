"""Decisions that found no room in memory, in a folder: frames in files, and a position beside them.

Frames are appended to the last file and read from the first one; a file whose decisions are all
settled is deleted. So the folder takes little more than what waits in it, and what it takes is
bounded.

An exception may arrive in the middle of `append`. A frame counts once the file's `mark` says so,
which changes in one step; what lies behind the mark is written over by the next frame.

Invariant: what is read is what was appended, in that order. After a crash every whole frame is read
again that is not settled (position.py); a frame that was cut off is not there.
Cost: `append` writes a frame to the system, and to the disk if `fsync`. Opening reads everything
that waits.
Not here: when to spill (buffered.py).
"""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from likewise.buffering.decisions import SubmittedDecision, Waiting
from likewise.buffering.frames import HEAD_BYTES, decision_of, frame, length_of, next_frame
from likewise.buffering.position import Position
from likewise.ledger.folder import WriterLock
from likewise.runtime.log import logger
from likewise.runtime.private_files import make_folder, open_private, why
from likewise.values.errors import BadFile

NO_MEMORY = 0
"""Bytes that a spilled decision takes in a queue: by this it is known in a batch."""
_SUFFIX = ".frames"
_PARTS = 16  # files that a full folder has, about: the last of them may be read and not deleted yet
_LEAST = 1 << 16  # bytes of a file before another is begun
_READ = 1 << 20  # bytes that are read together


class _File:
    """Frames of rising numbers.

    mark    where the last whole frame ends, how many frames there are, and the number after the
            last: replaced in one step
    read    where the next frame to be read begins, and how many were taken before it
    grows   whether frames are appended to it: not to one that was found
    """

    def __init__(self, path: Path, number: int, *, grows: bool) -> None:
        self.path = path
        self.grows = grows
        self.descriptor = open_private(path)
        self.mark = (0, 0, number)
        self.read = (0, 0)

    @property
    def waiting(self) -> int:
        return self.mark[1] - self.read[1]

    def frames(self, start: int, end: int | None = None) -> Iterator[tuple[int, bytes, int]]:
        """Whole frames from `start` on: number, body, and where the frame ends.

        Ends at the first that is not whole.
        """
        data, place = b"", start  # what was read, and where in the file it ends
        begin = 0  # of the next frame, in `data`
        while True:
            found = next_frame(data, begin)
            if found is not None:
                number, body, begin = found
                yield number, body, place - len(data) + begin
                continue
            data, begin = data[begin:], 0
            length = length_of(data)
            if (length is None and len(data) >= HEAD_BYTES) or (length and len(data) >= length):
                return  # it is damaged
            most = _READ if end is None else min(_READ, end - place)
            more = os.pread(self.descriptor, most, place)
            if not more:
                return
            data += more
            place += len(more)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Spill:
    """A folder of decisions that wait, for one process at a time.

    most_bytes  that the folder may take
    fsync       whether what waits there is to survive a power cut
    """

    def __init__(self, folder: Path, *, most_bytes: int, fsync: bool) -> None:
        self.folder = folder
        self._most_bytes = most_bytes
        self._fsync = fsync
        self._file_bytes = max(_LEAST, most_bytes // _PARTS)
        self._files: list[_File] = []
        """In order. The last may grow; another one is added in one step."""
        self._next = 0
        self._taken_to = 0
        self._progress: list[tuple[_File, tuple[int, int]]] = []
        self._damaged = 0  # frames that the last `read` could not read
        self.unreadable = 0
        """Decisions whose frames turned out to be damaged; whoever takes them tells."""
        try:
            make_folder(folder)
            self._lock = WriterLock(folder)
        except (BadFile, OSError) as error:
            raise BadFile(
                f"the spill folder {str(folder)!r} cannot be used: another process has it, or it"
                f" cannot be written ({error}). One process spills at a time: name another folder.",
                path=folder,
            ) from None
        try:
            self.position = Position(folder / "position", fsync=fsync)
        except OSError as error:
            self._lock.release()
            raise self._unusable(error) from None
        except BaseException:
            self._lock.release()
            raise

    def _unusable(self, error: OSError) -> BadFile:
        return BadFile(
            f"the spill folder {str(self.folder)!r} cannot be used: {why(error)}. Make room or mend"
            " the disk, or name another folder.",
            path=self.folder,
        )

    # What is there from before

    def find(self) -> None:
        """Find what waits there: whole frames whose numbers are not settled."""
        self._taken_to = self._next = self.position.done
        try:
            for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
                file = _File(path, self._next, grows=False)
                self._files.append(file)
                self._find_in(file)
        except OSError as error:
            raise self._unusable(error) from None

    def _find_in(self, file: _File) -> None:
        start = skipped = 0
        end = count = 0
        for number, _, stop in file.frames(0):
            if number >= self._next:
                self._next = number + 1
            elif count == skipped:  # it is settled
                start, skipped = stop, skipped + 1
            else:
                break  # numbers rise, so it is a leftover
            end, count = stop, count + 1
        file.mark, file.read = (end, count, self._next), (start, skipped)
        if file.waiting == 0:
            self._delete(file)

    # Looking

    @property
    def waiting(self) -> int:
        """Frames that were not taken."""
        return sum(file.waiting for file in self._files)

    @property
    def bytes(self) -> int:
        """What the folder takes on disk."""
        return sum(file.mark[0] for file in self._files)

    @property
    def first_number(self) -> int:
        """No frame that waits has a smaller number."""
        return self._taken_to

    @property
    def next_number(self) -> int:
        """One more than the number of the last frame that was ever appended; 0 if none was."""
        return max([self._next, *(file.mark[2] for file in self._files)])

    # Appending

    def append(self, number: int, decision: SubmittedDecision) -> bool:
        """Have a decision wait there; whether there was room for it."""
        data = frame(number, decision)
        if self.bytes + len(data) > self._most_bytes:
            return False
        try:
            file = self._file_for(number)
            end, count, _ = file.mark
            _write(file.descriptor, data, end)
            if self._fsync:
                os.fsync(file.descriptor)
        except OSError as error:
            logger.debug("a decision could not be spilled: %s", type(error).__name__)
            return False
        file.mark = (end + len(data), count + 1, number + 1)  # from here on it waits
        return True

    def _file_for(self, number: int) -> _File:
        """The file that the next frame goes to."""
        last = self._files[-1] if self._files else None
        if last is not None and last.grows and last.mark[0] < self._file_bytes:
            return last
        file = _File(self.folder / f"{number:020}{_SUFFIX}", number, grows=True)
        if self._fsync:
            _force_folder(self.folder)
        self._files = [*self._files, file]
        return file

    # Taking

    def read(self, most: int) -> list[Waiting]:
        """The first decisions that wait, in order; `took` takes them."""
        batch: list[Waiting] = []
        self._progress, self._damaged = [], 0
        for file in list(self._files):
            (end, count, _), (start, have) = file.mark, file.read
            wanted = min(count - have, most - len(batch))
            if wanted == 0:
                continue
            try:
                for number, body, stop in file.frames(start, end):
                    batch.append((number, NO_MEMORY, decision_of(body)))
                    start, have, wanted = stop, have + 1, wanted - 1
                    if wanted == 0:
                        break
            except (BadFile, OSError) as error:
                logger.error("a spilled decision cannot be read: %s", type(error).__name__)
            if wanted:  # a frame that was whole is damaged, and what follows cannot be found
                self._damaged += count - have
                start, have = end, count
            self._progress.append((file, (start, have)))
        return batch

    def took(self, batch: list[Waiting]) -> None:
        """These, which were read last, wait no more."""
        for file, read in self._progress:
            file.read = read
        self._progress = []
        if batch:
            self._taken_to = batch[-1][0] + 1
        if self._damaged:
            logger.error("%d spilled decisions are damaged, and lost", self._damaged)
            self.unreadable += self._damaged
            self._damaged = 0

    def rewind(self) -> None:
        """Have everything wait again that was taken and is not settled."""
        for file in self._files:
            start = have = 0
            for number, _, stop in file.frames(0, file.mark[0]):
                if number >= self.position.done:
                    break
                start, have = stop, have + 1
            file.read = (start, have)
        self._taken_to = self.position.done

    def release(self) -> None:
        """Delete files whose decisions are all settled."""
        for file in list(self._files):
            if file.waiting == 0 and file.mark[2] <= self.position.done:
                self._delete(file)

    def _delete(self, file: _File) -> None:
        self._next = max(self._next, file.mark[2])
        self._files.remove(file)
        file.close()
        with suppress(OSError):  # else it is found, and deleted, when the folder is opened again
            file.path.unlink()

    def close(self) -> None:
        """Let go of the folder; what waits there is found again."""
        for file in self._files:
            file.close()
        self._files = []
        self.position.close()
        self._lock.release()


def _write(descriptor: int, data: bytes, start: int) -> None:
    """All of it; OSError if the disk is full."""
    done = 0
    while done < len(data):
        some = os.pwrite(descriptor, memoryview(data)[done:], start + done)
        if some == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += some


def _force_folder(folder: Path) -> None:
    """Have a new name in the folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
