"""Lines as a source (protocol.py): of a pipe, as they come, or of a file from any position.

Unlike record_cutting.py it does not wait for a full block. A slow reader makes the writer of a pipe
wait; nothing grows here.
Invariant: every line that is not blank is one record, in order, each once. One that is too long has
no body, and says why. Cost: one piece of a pipe, or one line of a file, of bounded length.
Not here: packed files and other formats (file_source.py), which cannot be entered in the middle.
"""

import io
import math
import os
import select
import time as clock
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from likewise.errors import BadFile
from likewise.sources.byte_streams import open_file
from likewise.sources.protocol import PollResult, Record, make_poll_result
from likewise.sources.record_cutting import LONGEST
from likewise.tables.positions import Position

STANDARD_INPUT = "standard input"
_PIECE = 1 << 16
_BATCH_BYTES = 1 << 24
_MARK = b"\xef\xbb\xbf"


def _make_record(source: str, position: Position, line: bytes | None) -> Record | None:
    """Make the record of a line; None for a blank line. A line that is None was too long."""
    if line is None:
        flaw = (
            f"the line is longer than {LONGEST >> 20} MB, which no decision is; expected one JSON"
            " object on each line"
        )
        return Record(source, position, b"", flaw=flaw, flaw_code="too-long")
    body = line.removeprefix(_MARK).rstrip(b"\r\n")
    return Record(source, position, body) if body.strip() else None


class PipeLines:
    """Reads the lines of a pipe, until it ends or somebody calls `stop`.

    A position is the number of a line. A pipe cannot be read again, so `seek` says how many lines
    came before it, and counting goes on from there. After `stop` no further line is read.
    """

    name = STANDARD_INPUT

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._wake_reader, self._wake_writer = os.pipe()
        self._stopped = False
        self._line_pieces: list[bytes] = []  # pieces of the line that has not ended yet
        self._size = 0  # bytes in these pieces
        self._skipping = False  # whether the rest of a line that is too long is still to come
        self._number = 0  # of the last line that was returned
        self._waiting: deque[bytes | None] = deque()  # lines that were read, not returned yet
        self._ended = False

    def stop(self) -> None:
        """Return no more lines; signal handlers and other threads may call it."""
        self._stopped = True
        os.write(self._wake_writer, b"x")

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def owns(self, source: str) -> bool:
        return source == self.name

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Set how many lines came before this pipe."""
        before = positions.get(self.name, 0)
        assert isinstance(before, int)
        self._number = before

    def poll(self, most: int, seconds: float = math.inf) -> PollResult:
        """Return the lines that are there; wait for the first of them."""
        until = clock.monotonic() + seconds
        while not (self._waiting or self._ended or self._stopped):
            left = None if seconds == math.inf else max(0.0, until - clock.monotonic())
            ready, _, _ = select.select([self._descriptor, self._wake_reader], [], [], left)
            if self._stopped or self._wake_reader in ready or not ready:
                break
            piece = os.read(self._descriptor, _PIECE)
            self._waiting += self._split_lines(piece) if piece else self._take_last_line()
            self._ended = not piece
        records: list[Record] = []
        while self._waiting and len(records) < most and not self._stopped:
            self._number += 1
            record = _make_record(self.name, self._number, self._waiting.popleft())
            if record is not None:
                records.append(record)
        return make_poll_result(records, ended=self._stopped or (self._ended and not self._waiting))

    def _split_lines(self, piece: bytes) -> list[bytes | None]:
        """Return the lines that end in a piece, and None as soon as a line is too long."""
        *ends, rest = piece.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            lines += self._extend_line(end)
            lines += [] if self._skipping else [b"".join(self._line_pieces)]
            self._line_pieces, self._size, self._skipping = [], 0, False
        return lines + (self._extend_line(rest) if rest else [])

    def _extend_line(self, piece: bytes) -> list[None]:
        """Add a piece to the current line; the pieces are joined once, at its end."""
        if self._skipping:
            return []
        self._line_pieces.append(piece)
        self._size += len(piece)
        if self._size <= LONGEST:
            return []
        self._line_pieces, self._size, self._skipping = [], 0, True
        return [None]

    def _take_last_line(self) -> list[bytes | None]:
        """Return the line without an end when the pipe ends; none if it was too long."""
        return [b"".join(self._line_pieces)] if self._line_pieces else []

    def close(self) -> None:
        os.close(self._wake_reader)
        os.close(self._wake_writer)


class LineFile:
    """Reads the lines of a file, in batches; the name of its sequence is the whole path.

    A position is a pair: the number of the line, and the byte behind it. So going on takes one
    seek, and lines keep their numbers. A file that was cut, or changed before that place, is
    noticed because no line feed is there. The last line counts even without a line feed; if it
    grows afterwards, going on behind it is refused.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._source = str(path.resolve())
        self._file = io.BufferedReader(open_file(self.name))
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

    def poll(self, most: int, seconds: float = 0.0) -> PollResult:
        """Return the next lines, without waiting: a file does not grow at its end."""
        records: list[Record] = []
        size = 0
        while len(records) < most and size < _BATCH_BYTES:
            line = self._read_line()
            if line == b"":
                return make_poll_result(records, ended=True)
            size += LONGEST if line is None else len(line)
            record = _make_record(self._source, (self._line, self._byte), line)
            if record is not None:
                records.append(record)
        return make_poll_result(records)

    def _read_line(self) -> bytes | None:
        """Return the next line with its line feed; None if too long, b"" at the end."""
        line = piece = self._file.readline(LONGEST + 1)
        self._byte += len(piece)
        while len(piece) == LONGEST + 1 and not piece.endswith(b"\n"):
            piece = self._file.readline(LONGEST + 1)
            self._byte += len(piece)
        self._line += bool(line)
        return line if len(line) <= LONGEST or line.endswith(b"\n") else None

    def close(self) -> None:
        self._file.close()
