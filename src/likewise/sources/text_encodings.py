"""Text in other encodings than UTF-8, made UTF-8 before anything looks at it.

UTF-16 is known by its mark; any other encoding is named by the caller.

Invariant: nothing is replaced: bytes that the encoding does not define end the reading.
Cost: one piece of the stream.
Not here: Windows-1252 that nobody named (windows_text.py).
"""

import codecs
import io
from typing import IO, Any, cast

from likewise.errors import BadFile

MARKS = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}
_PIECE = 1 << 18


def find_encoding(name: str) -> str:
    """An encoding's own name; raise BadFile if there is none of this name."""
    try:
        found = codecs.lookup(name)
        "a".encode(found.name)
    except (LookupError, TypeError, ValueError):
        raise BadFile(
            f"the encoding {name!r} is unknown; expected one such as utf-8, utf-16, cp1252 or"
            " latin-1."
        ) from None
    return found.name


class RecodingStream(io.RawIOBase):
    """Bytes in one encoding, given as UTF-8."""

    def __init__(self, raw: IO[bytes], encoding: str) -> None:
        self._raw = raw
        self._decode: Any = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            piece = self._raw.read(_PIECE)
            self._ended = not piece
            self._ready = self._decode.decode(piece, self._ended).encode()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def recode(raw: IO[bytes], encoding: str) -> IO[bytes]:
    """A stream in UTF-8, of one in another encoding."""
    return cast(IO[bytes], io.BufferedReader(RecodingStream(raw, encoding), _PIECE))
