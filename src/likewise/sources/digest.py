"""The checksum of what was read, so that a report can say exactly which bytes it is about.

Invariant: the digest is that of the bytes as they are stored or sent, packed if they are packed, in
their order, each once.
Cost: SHA-256 of each byte; nothing is kept.
"""

import hashlib
import io
from dataclasses import dataclass
from typing import Any, BinaryIO


@dataclass(frozen=True, slots=True)
class Digest:
    """Bytes, told by their checksum."""

    sha256: str
    size: int


class HashingStream(io.RawIOBase):
    """A binary stream that hashes what is read from it; it cannot seek, so nothing counts twice.

    closes: whether closing this closes what it reads from.
    """

    def __init__(self, raw: Any, *, closes: bool = True) -> None:
        super().__init__()
        self._raw: BinaryIO = raw
        self._closes = closes
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes read so far."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        into = getattr(self._raw, "readinto1", None) or self._raw.readinto  # type: ignore[attr-defined]
        count: int | None = into(buffer)
        if count:
            self._hash.update(memoryview(buffer)[:count])
            self.size += count
        return count

    def digest(self) -> Digest:
        """Of all that was read so far."""
        return Digest(self._hash.hexdigest(), self.size)

    def close(self) -> None:
        if self._closes and not self.closed:
            self._raw.close()
        super().close()
