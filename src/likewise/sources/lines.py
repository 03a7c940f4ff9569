"""Lines from a pipe as they come, until it ends or someone says stop: a source (protocol.py).

Unlike records.py, nothing waits for a block to fill: whatever is there is given at once, and only
then is more read. Whoever is slow to take lines makes the writer of the pipe wait, not this grow.

A position is the number of a line. A pipe cannot be read again, so `seek` says how many lines came
before this pipe, and counting goes on from there.

Invariant: lines come whole, in their order, each once; after `stop`, none that was not read yet. In
the place of a line that is too long stands a record without a body, and why.
Cost: one piece of the pipe, and the longest line, which is bounded. Time is linear in the length of
a line: its pieces are joined once, at its end.
"""

import math
import os
import select
import time as clock
from collections import deque
from collections.abc import Mapping
from typing import Final, TypeAlias

from likewise.sources.protocol import Polled, Record, polled
from likewise.sources.records import LONGEST
from likewise.values.positions import Position

STANDARD_INPUT = "standard input"
_PIECE = 1 << 16


class TooLong:
    """Stands for a line of more than LONGEST bytes. Nothing of it is kept."""

    def __str__(self) -> str:
        return (
            f"the line is longer than {LONGEST >> 20} MB, which no decision is; expected one JSON"
            " object on each line"
        )


TOO_LONG: Final = TooLong()
Line: TypeAlias = bytes | TooLong


class Lines:
    """The lines of a file descriptor."""

    name = STANDARD_INPUT

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._woken, self._wake = os.pipe()
        self._stopped = False
        self._begun: list[bytes] = []  # the pieces of the line that has not ended yet
        self._size = 0  # bytes in these pieces
        self._skipping = False  # whether the rest of a line that is too long is still to come
        self._number = 0  # of lines given so far
        self._waiting: deque[Line] = deque()  # lines of the last piece that were not given yet
        self._ended = False

    def stop(self) -> None:
        """Give no more; may be called by a signal's handler, or another thread."""
        self._stopped = True
        os.write(self._wake, b"x")

    @property
    def stopped(self) -> bool:
        return self._stopped

    def owns(self, source: str) -> bool:
        return source == self.name

    def seek(self, positions: Mapping[str, Position]) -> None:
        """So many lines came before this pipe."""
        before = positions.get(self.name, 0)
        assert isinstance(before, int)
        self._number = before

    def poll(self, most: int, seconds: float = math.inf) -> Polled:
        """Lines that are there, together; it waits for the first of them."""
        until = clock.monotonic() + seconds
        while not (self._waiting or self._ended or self._stopped):
            left = None if seconds == math.inf else max(0.0, until - clock.monotonic())
            ready, _, _ = select.select([self._descriptor, self._woken], [], [], left)
            if self._stopped or self._woken in ready or not ready:
                break
            piece = os.read(self._descriptor, _PIECE)
            self._waiting += self._ended_in(piece) if piece else self._last()
            self._ended = not piece
        given: list[Line] = []
        while self._waiting and len(given) < most and not self._stopped:
            given.append(self._waiting.popleft())
        records = [self._record(line) for line in given]
        return polled(records, ended=self._stopped or (self._ended and not self._waiting))

    def _record(self, line: Line) -> Record:
        self._number += 1
        if isinstance(line, TooLong):
            return Record(self.name, self._number, b"", flaw=str(line))
        return Record(self.name, self._number, line)

    def _ended_in(self, piece: bytes) -> list[Line]:
        """The lines that end in a piece, and TOO_LONG as soon as a line is."""
        *ends, rest = piece.split(b"\n")
        lines: list[Line] = []
        for end in ends:
            lines += self._add(end)
            lines += self._last()
            self._skipping = False
        return lines + (self._add(rest) if rest else [])

    def _add(self, piece: bytes) -> list[Line]:
        """Go on with the line that has begun."""
        if self._skipping:
            return []
        self._begun.append(piece)
        self._size += len(piece)
        if self._size <= LONGEST:
            return []
        self._begun, self._size, self._skipping = [], 0, True
        return [TOO_LONG]

    def _last(self) -> list[Line]:
        """The line that has begun, whole; none if it was too long."""
        lines: list[Line] = [b"".join(self._begun)] if self._begun else []
        self._begun, self._size = [], 0
        return lines

    def close(self) -> None:
        os.close(self._woken)
        os.close(self._wake)
