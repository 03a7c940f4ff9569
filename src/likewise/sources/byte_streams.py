"""Bytes in: a file or standard input, unpacked if it is packed, and never without its name.

Text that says it is UTF-16, or that the caller says is in another encoding, comes out as UTF-8.

gzip and Zstandard are known by their first bytes, not by the end of the name, so a pipe may be
packed too. Packed files may have several members, as parallel packers write them.

Invariant: whatever goes wrong while reading is a BadFile that names the file.
Cost: a few buffers; nothing is read that is not asked for, but for `digest`, which reads to the
end. Bytes are hashed as they are read (digest.py).
"""

import gzip
import io
import signal
import sys
from pathlib import Path
from typing import BinaryIO, cast

from likewise.errors import BadFile
from likewise.sources.digest import Digest, HashingStream
from likewise.sources.remarks import Remark
from likewise.sources.text_encodings import MARKS, find_encoding, recode

_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_BUFFER = 1 << 18
_FOREIGN = {
    b"BZh": "packed with bzip2; unpack it, or pack it with gzip or zstd",
    b"\xfd7zXZ\x00": "packed with xz; unpack it, or pack it with gzip or zstd",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"%PDF": "a PDF; expected a table",
}


class ByteStream:
    """Unpacked bytes of a file, or of standard input where the path is "-"."""

    def __init__(self, path: str, encoding: str | None = None) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else path
        self.encoding = None if encoding is None else find_encoding(encoding)
        """What the caller says the text is in."""
        self.remarks: tuple[Remark, ...] = ()
        self.size: int | None = None
        self._raw = self._open()
        self._bytes: BinaryIO = self._raw
        try:
            self._unpack()
        except BaseException:
            self.close()
            raise

    def _unpack(self) -> None:
        for _ in range(2):  # packed, or packed twice by mistake
            packed = _open_unpacked(self._bytes, self.peek(len(_ZSTANDARD)))
            if packed is None:
                break
            self._bytes = packed
        self.is_packed = self._bytes is not self._raw
        for magic, what in _FOREIGN.items():
            if self.peek(len(magic)) == magic:
                raise BadFile(f"{self.name} is {what}.", path=self.name)
        self._recode()

    def _recode(self) -> None:
        marked = MARKS.get(self.peek(2))
        encoding = self.encoding or marked
        if encoding is None or encoding == "utf-8":
            return
        self._bytes = cast(BinaryIO, recode(self._bytes, encoding))
        self.encoding = encoding
        if marked is not None:
            self.remarks = (Remark(f"the text is {marked}, as its first bytes say"),)

    def _open(self) -> BinaryIO:
        if self.path == "-":
            self._hashed = HashingStream(sys.stdin.buffer, closes=False)
            return cast(BinaryIO, io.BufferedReader(self._hashed, _BUFFER))
        path = Path(self.path)
        raw = open_file(self.path)
        self.size = path.stat().st_size if path.is_file() else None
        self._opened = _file_identity(path)
        self._hashed = HashingStream(raw)
        return cast(BinaryIO, io.BufferedReader(self._hashed, _BUFFER))

    @property
    def is_rereadable(self) -> bool:
        """Whether the same bytes can be read once more: a file, not a pipe."""
        return self.size is not None

    def digest(self, *, by_name: bool = False) -> Digest:
        """The checksum of what was read, packed as it is; call it once everything is read.

        by_name: whether something else has opened the file by its name and read it. Then it is read
        here now, and must still be the file that it was.
        """
        try:
            while by_name and self._raw.read(_BUFFER):
                pass
            changed = by_name and self._opened != _file_identity(Path(self.path))
        except Exception as error:
            raise self._read_error(error) from None
        if changed:
            raise BadFile(
                f"{self.name} was changed while it was read. Copy it; read the copy.",
                path=self.name,
            )
        return self._hashed.digest()

    @property
    def position(self) -> int:
        """Bytes read so far, packed as they are; of `size`, where that is known."""
        return self._hashed.size

    def peek(self, count: int) -> bytes:
        """The next bytes, which stay to be read; fewer at the end."""
        try:
            return cast(io.BufferedReader, self._bytes).peek(count)[:count]
        except Exception as error:  # each packer has errors of its own
            raise self._read_error(error) from None

    def read(self, count: int) -> bytes:
        """As many bytes as asked for; fewer at the end."""
        if self.path == "-":  # Polars leaves it such that an interrupt would wait for the pipe
            signal.siginterrupt(signal.SIGINT, True)
        try:
            return self._bytes.read(count)
        except Exception as error:
            raise self._read_error(error) from None

    def _read_error(self, error: Exception) -> BadFile:
        if isinstance(error, EOFError):
            return BadFile(
                f"{self.name} ends too early: it is packed, and its end is missing. Copy or"
                " download it again.",
                path=self.name,
            )
        if isinstance(error, UnicodeError):
            return BadFile(
                f"{self.name} is not {self.encoding} ({error}). Say another --encoding, such as"
                " cp1252, or copy the file again.",
                path=self.name,
            )
        if isinstance(error, OSError) and error.strerror:
            return BadFile(f"{self.name} cannot be read: {error.strerror}.", path=self.name)
        return BadFile(
            f"{self.name} is damaged and cannot be unpacked ({error}). Copy or download it again.",
            path=self.name,
        )

    def close(self) -> None:
        """Let go of the file; standard input stays open."""
        if self.path != "-":
            self._raw.close()


def open_file(name: str) -> io.FileIO:
    """Open a file to read its bytes; BadFile says why if that cannot be done."""
    if Path(name).is_dir():
        raise BadFile(f"{name} is a folder; expected a file of decisions.", path=name)
    try:
        return io.FileIO(name)
    except FileNotFoundError:
        raise BadFile(
            f"{name} is not there; expected a file of decisions. Check the path"
            f" (this is {Path.cwd()}).",
            path=name,
        ) from None
    except OSError as error:
        raise BadFile(f"{name} cannot be opened: {error.strerror}.", path=name) from None


def _file_identity(path: Path) -> tuple[int, int, int]:
    """What differs once a file is written to, or another one has taken its place."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _open_unpacked(raw: BinaryIO, start: bytes) -> BinaryIO | None:
    if start[: len(_GZIP)] == _GZIP:
        return cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER))
    if start == _ZSTANDARD:
        if sys.version_info >= (3, 14):
            from compression.zstd import ZstdFile
        else:
            from backports.zstd import ZstdFile
        return cast(BinaryIO, io.BufferedReader(ZstdFile(raw), _BUFFER))
    return None
