"""Text that is no UTF-8: Windows-1252 (cp1252), which Excel and older programs write.

It has no mark, so it is known by what it is not. As long as all is ASCII the two are the same. The
first block that has more decides: if it is no UTF-8 and has no character of UTF-8 at all, the file
is Windows-1252 from there on. If it has some, the file is UTF-8 with broken lines, and each of them
is refused.

Invariant: a record is read as it was written or refused; nothing is replaced.
Cost: ASCII costs a look; Windows-1252 is recoded once, by vectors.
"""

import re

import numpy as np

from likewise.sources.record_cutting import RecordBlock

_WINDOWS = "cp1252"
_SEQUENCE = re.compile(  # a character of UTF-8 that is not ASCII
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_ENDS = b' ,;|"\t\r\n'
_WORD = re.compile(rb'[^ ,;|"\t\r\n]{1,40}')
_UNDEFINED = np.isin(np.arange(256), [0x81, 0x8D, 0x8F, 0x90, 0x9D])
_SIZES = np.array(
    [len(bytes([byte]).decode(_WINDOWS, "replace").encode()) for byte in range(256)], np.int64
)


class EncodingDetector:
    """Whether the blocks of a file are UTF-8 or Windows-1252."""

    def __init__(self) -> None:
        self.encoding: str | None = None
        """None as long as nothing tells."""
        self.example: str | None = None
        """A word that shows it, of Windows-1252."""

    def __call__(self, block: RecordBlock) -> tuple[RecordBlock, RecordBlock]:
        """A block in UTF-8, and those of its records that are not defined."""
        if self.encoding is None and not block.data.isascii():
            self._decide(block.data)
        if self.encoding != _WINDOWS or len(block) == 0:
            return block, block.part(0, 0)
        values = np.frombuffer(block.data, np.uint8)
        undefined = np.logical_or.reduceat(_UNDEFINED[values], block.starts)
        sizes = np.add.reduceat(_SIZES[values], block.starts)
        made = block.with_data(block.data.decode(_WINDOWS, "replace").encode(), sizes)
        return made.select(~undefined), block.select(undefined)

    def _decide(self, data: bytes) -> None:
        try:
            data.decode()
            self.encoding = "utf-8"
        except UnicodeDecodeError as error:
            self.encoding = "utf-8" if _SEQUENCE.search(data) else _WINDOWS
            if self.encoding == _WINDOWS:
                start = max(data.rfind(one, 0, error.start) for one in _ENDS) + 1
                word = _WORD.match(data, max(start, error.start - 20))
                self.example = word[0].decode(_WINDOWS, "replace") if word else None
