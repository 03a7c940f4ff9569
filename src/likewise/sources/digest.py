"""Hashes what is read, so that a report can say exactly which bytes it is about.

Invariant: the digest covers the bytes as they are stored or sent, packed if they are packed, in
their order, each once.
Cost: SHA-256 of each byte; nothing is kept in memory.
"""

import hashlib
import io
from dataclasses import dataclass
from typing import Any, BinaryIO


@dataclass(frozen=True, slots=True)
class Digest:
    """Identifies bytes by their checksum and size."""

    sha256: str
    size: int


class HashingStream(io.RawIOBase):
    """Hashes what is read from a binary stream; it cannot seek, so nothing counts twice.

    closes      whether closing this closes what it reads from
    """

    def __init__(self, raw: Any, *, closes: bool = True) -> None:
        super().__init__()
        self._raw: BinaryIO = raw
        self._closes = closes
        self._hash = hashlib.sha256()
        self.size = 0
        """How many bytes were read so far."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        read = getattr(self._raw, "readinto1", None) or self._raw.readinto  # type: ignore[attr-defined]
        count: int | None = read(buffer)
        if count:
            self._hash.update(memoryview(buffer)[:count])
            self.size += count
        return count

    def digest(self) -> Digest:
        """Return the digest of all that was read so far."""
        return Digest(self._hash.hexdigest(), self.size)

    def close(self) -> None:
        if self._closes and not self.closed:
            self._raw.close()
        super().close()
