"""A file of JSON lines as a source (protocol.py): read on from where a ledger ends.

A position is a pair: the number of the line, and the byte behind it. So going on takes one seek,
whatever is before, and lines keep their numbers. A file that was cut, or changed before that
place, is noticed by the line feed that is missing there.

Invariant: every line that is not blank is one record. The last line counts even without a line
feed; if it grows afterwards, going on behind it is refused.
Cost: one line at a time, at most LONGEST bytes of it.
Not here: packed files and other formats (files.py), which cannot be entered in the middle.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from likewise.sources.lines import TOO_LONG
from likewise.sources.protocol import Polled, Record, polled
from likewise.sources.records import LONGEST
from likewise.values.errors import BadFile
from likewise.values.positions import Position

_MARK = b"\xef\xbb\xbf"
_BATCH_BYTES = 1 << 24


class LineFile:
    """The lines of a file, in batches; the sequence has the file's whole path for a name."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._source = str(path.resolve())
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise BadFile(
                f"{self.name} cannot be opened: {error.strerror}.", path=self.name
            ) from None
        self._line = self._byte = 0

    def owns(self, source: str) -> bool:
        return source == self._source

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Go on behind the line at this position; BadFile if it does not end there."""
        at = positions.get(self._source, (0, 0))
        if not isinstance(at, tuple):
            raise BadFile(
                f"{self.name}: the ledger's position in it is {at}; expected a pair.",
                path=self.name,
            )
        self._line, self._byte = at
        self._file.seek(max(0, self._byte - 1))
        before = self._file.read(min(1, self._byte))
        size = self._file.seek(0, 2)
        grown = size > self._byte > 0
        if size < self._byte or (before != b"\n" and grown):
            raise BadFile(
                f"{self.name} was read up to line {self._line:,}, byte {self._byte:,}, and has no"
                " end of a line there now: it was cut or changed. Give the file as it was with"
                " lines added, or another name.",
                path=self.name,
            )
        self._file.seek(self._byte)

    def poll(self, most: int, seconds: float = 0.0) -> Polled:
        """The next lines; it does not wait, since the end of a file is its end."""
        records: list[Record] = []
        size = 0
        while len(records) < most and size < _BATCH_BYTES:
            line, too_long = self._next()
            if not line:
                return polled(records, ended=True)
            size += len(line)
            body = line.removeprefix(_MARK) if self._line == 1 else line
            if too_long:
                records.append(Record(self._source, self._at, b"", flaw=str(TOO_LONG)))
            elif body.strip():
                records.append(Record(self._source, self._at, body.rstrip(b"\r\n")))
        return polled(records)

    @property
    def _at(self) -> tuple[int, int]:
        return self._line, self._byte

    def _next(self) -> tuple[bytes, bool]:
        """The next line with its line feed, or the beginning of one that is too long."""
        line = piece = self._file.readline(LONGEST + 1)
        self._byte += len(piece)
        while len(piece) == LONGEST + 1 and not piece.endswith(b"\n"):
            piece = self._file.readline(LONGEST + 1)
            self._byte += len(piece)
        self._line += bool(line)
        return line, len(line) > LONGEST

    def close(self) -> None:
        self._file.close()
