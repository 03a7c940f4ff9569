"""Lines from a pipe as they come, until it ends or someone says stop.

Unlike records.py, nothing waits for a block to fill: whatever is there is given at once, and only
then is more read. Whoever is slow to take lines makes the writer of the pipe wait, not this grow.

Invariant: lines come whole, in their order, each once; after `stop`, none that was not read yet.
Cost: one piece of the pipe, and the longest line, which is bounded.
"""

import os
import select
from collections.abc import Iterator

from likewise.errors import BadFile
from likewise.sources.records import LONGEST

_PIECE = 1 << 16


class Lines:
    """The lines of a file descriptor."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._woken, self._wake = os.pipe()
        self._stopped = False
        self.number = 0
        """Of lines given so far."""

    def stop(self) -> None:
        """Give no more; may be called by a signal's handler, or another thread."""
        self._stopped = True
        os.write(self._wake, b"x")

    @property
    def stopped(self) -> bool:
        return self._stopped

    def __iter__(self) -> Iterator[list[bytes]]:
        """Those that are there, together."""
        rest = b""
        while not self._stopped:
            ready, _, _ = select.select([self._descriptor, self._woken], [], [])
            if self._stopped or self._woken in ready:
                return
            piece = os.read(self._descriptor, _PIECE)
            *lines, rest = (
                (rest + piece).split(b"\n") if piece else ([rest] if rest else []) + [b""]
            )
            if len(rest) > LONGEST:
                raise BadFile(
                    f"{self._name}, line {self.number + len(lines) + 1} is longer than"
                    f" {LONGEST >> 20} MB, which no decision is; expected one JSON object a line."
                )
            if lines:
                yield lines
                self.number += len(lines)
            if not piece:
                return

    def close(self) -> None:
        os.close(self._woken)
        os.close(self._wake)
