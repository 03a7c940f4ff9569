"""Reads the bytes of a file or of standard input: unpacks gzip and Zstandard, and recodes text.

Packed files are known by their first bytes, so a pipe may be packed too; they may have several
members. UTF-16 is known by its mark, any other encoding is named by the caller; both become UTF-8.
Invariant: whatever goes wrong while reading is a BadFile that names the file.
Cost: a few buffers, and SHA-256 of each byte. Only `digest` reads further than asked, to the end.
Not here: Windows-1252 that nobody named (delimited.py).
"""

import codecs
import gzip
import hashlib
import io
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile
from likewise.sources.remarks import Remark

_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_BUFFER = 1 << 18
_MARKS = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}
_FOREIGN = {
    b"BZh": "packed with bzip2; unpack it, or pack it with gzip or zstd",
    b"\xfd7zXZ\x00": "packed with xz; unpack it, or pack it with gzip or zstd",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"%PDF": "a PDF; expected a table",
}


@dataclass(frozen=True, slots=True)
class Digest:
    """Identifies bytes by their checksum and size."""

    sha256: str
    size: int


class _HashingStream(io.RawIOBase):
    """Hashes what is read from a binary stream, so that a report can say which bytes it is about.

    The bytes are those that are stored or sent, packed if they are packed, in their order. It
    cannot seek, so nothing counts twice.

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


class ByteStream:
    """Reads a file, or standard input where the path is "-", unpacked and in UTF-8."""

    def __init__(self, path: str, encoding: str | None = None) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else path
        self.encoding = None if encoding is None else _find_encoding(encoding)
        """The encoding of the text, if the caller or a mark says it."""
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
                raise self.make_error(f" is {what}.")
        self._recode()

    def _recode(self) -> None:
        marked = _MARKS.get(self.peek(2))
        encoding = self.encoding or marked
        if encoding is None or encoding == "utf-8":
            return
        recoding = _RecodingStream(self._bytes, encoding)
        self._bytes = cast(BinaryIO, io.BufferedReader(recoding, _BUFFER))
        self.encoding = encoding
        if marked is not None:
            self.remarks = (Remark(f"the text is {marked}, as its first bytes say"),)

    def _open(self) -> BinaryIO:
        if self.path == "-":
            self._hashed = _HashingStream(sys.stdin.buffer, closes=False)
            return cast(BinaryIO, io.BufferedReader(self._hashed, _BUFFER))
        path = Path(self.path)
        raw = open_file(self.path)
        self.size = path.stat().st_size if path.is_file() else None
        self._opened = _file_identity(path)
        self._hashed = _HashingStream(raw)
        return cast(BinaryIO, io.BufferedReader(self._hashed, _BUFFER))

    @property
    def is_rereadable(self) -> bool:
        """Whether the same bytes can be read again: from a file, not from a pipe."""
        return self.size is not None

    def digest(self, *, by_name: bool = False) -> Digest:
        """Return the checksum of the stored bytes; call it once everything is read.

        by_name     whether something else has opened the file by its name and read it. Then it is
                    read here now, and must still be the file that it was.
        """
        try:
            while by_name and self._raw.read(_BUFFER):
                pass
            changed = by_name and self._opened != _file_identity(Path(self.path))
        except Exception as error:
            raise self._read_error(error) from None
        if changed:
            raise self.make_error(" was changed while it was read. Copy it; read the copy.")
        return self._hashed.digest()

    @property
    def position(self) -> int:
        """How many stored bytes were read so far, of `size` where that is known."""
        return self._hashed.size

    def peek(self, count: int) -> bytes:
        """Return the next bytes without consuming them; fewer at the end."""
        try:
            return cast(io.BufferedReader, self._bytes).peek(count)[:count]
        except Exception as error:  # each packer has errors of its own
            raise self._read_error(error) from None

    def read(self, count: int) -> bytes:
        """Read as many bytes as asked for; fewer at the end."""
        if self.path == "-":  # after Polars, an interrupt would wait for the pipe
            signal.siginterrupt(signal.SIGINT, True)
        try:
            return self._bytes.read(count)
        except Exception as error:
            raise self._read_error(error) from None

    def _read_error(self, error: Exception) -> BadFile:
        if isinstance(error, EOFError):
            return self.make_error(
                " ends too early: it is packed, and its end is missing. Copy or download it again."
            )
        if isinstance(error, UnicodeError):
            return self.make_error(
                f" is not {self.encoding} ({error}). Say another --encoding, such as cp1252, or"
                " copy the file again."
            )
        if isinstance(error, OSError) and error.strerror:
            return self.make_error(f" cannot be read: {error.strerror}.")
        return self.make_error(
            f" is damaged and cannot be unpacked ({error}). Copy or download it again."
        )

    def make_error(self, text: str) -> BadFile:
        """Return an error about this file; `text` follows its name."""
        return BadFile(f"{self.name}{text}", path=self.name)

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
    """Return what changes when a file is written to, or another one takes its place."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _find_encoding(name: str) -> str:
    """Return an encoding's own name; raise BadFile if there is none of this name."""
    try:
        encoding = codecs.lookup(name).name
        "a".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise BadFile(
            f"the encoding {name!r} is unknown; expected one such as utf-8, utf-16, cp1252 or"
            " latin-1."
        ) from None
    return encoding


class _RecodingStream(io.RawIOBase):
    """Reads bytes in one encoding, and returns UTF-8; undefined bytes raise UnicodeError."""

    def __init__(self, raw: BinaryIO, encoding: str) -> None:
        self._raw = raw
        self._decode: Any = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            piece = self._raw.read(_BUFFER)
            self._ended = not piece
            self._ready = self._decode.decode(piece, self._ended).encode()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


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


BLOCK = 1 << 23
LONGEST = 1 << 25
_MARK = b"\xef\xbb\xbf"  # some programs put this before UTF-8
_FEED, _RETURN, _QUOTE = 10, 13, 34
Positions = npt.NDArray[np.int64]


# Cuts a stream of text into blocks of whole records. A line feed is inside a quoted field, and ends
# no record, where the number of quotation marks before it is odd; arrays do the counting.
# Invariant: every byte of the stream, except a mark at its beginning, is in exactly one block; each
# block is whole records, and each record ends in a line feed.
# Cost: a block of some megabytes at a time, and the longest record, which is bounded.


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Holds whole records of a file."""

    data: bytes
    starts: Positions
    stops: Positions
    """Where each ends, behind its line feed."""
    lines: Positions
    """The line of the file on which each begins, from 1."""
    quotes: Positions

    def __len__(self) -> int:
        return len(self.starts)

    def record(self, i: int) -> bytes:
        return self.data[self.starts[i] : self.stops[i]].rstrip(b"\r\n")

    def records(self) -> list[bytes]:
        spans = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return [self.data[start:stop].rstrip(b"\r\n") for start, stop in spans]

    def delimiters(self, delimiter: bytes) -> Positions:
        """Find the delimiters outside quotation marks."""
        at = np.flatnonzero(np.frombuffer(self.data, np.uint8) == delimiter[0])
        if len(self.quotes):
            at = at[np.searchsorted(self.quotes, at) & 1 == 0]
        return at

    def fields(self, delimiter: bytes) -> Positions:
        """Count the fields of each record."""
        at = self.delimiters(delimiter)
        return np.searchsorted(at, self.stops) - np.searchsorted(at, self.starts) + 1

    def select(self, chosen: npt.NDArray[np.bool_]) -> "RecordBlock":
        """Return a block of the chosen records."""
        if chosen.all():
            return self
        sizes = self.stops - self.starts
        begin = int(self.starts[0]) if len(self) else 0
        data = np.frombuffer(self.data, np.uint8)[begin : begin + int(sizes.sum())]
        return _make_block(
            data[np.repeat(chosen, sizes)].tobytes(), sizes[chosen], self.lines[chosen]
        )

    def with_data(self, data: bytes, sizes: Positions) -> "RecordBlock":
        """Return the records with other bytes, `sizes` of them for each record."""
        return _make_block(data, sizes, self.lines)

    def part(self, start: int, stop: int) -> "RecordBlock":
        """Return the records from `start` up to `stop`."""
        stop = min(stop, len(self))
        if start >= stop:
            return _make_block(b"", self.starts[:0], self.lines[:0])
        begin, end = int(self.starts[start]), int(self.stops[stop - 1])
        sizes = (self.stops - self.starts)[start:stop]
        return _make_block(self.data[begin:end], sizes, self.lines[start:stop])


def _make_block(data: bytes, sizes: Positions, lines: Positions) -> RecordBlock:
    stops = np.cumsum(sizes)
    return RecordBlock(data, stops - sizes, stops, lines, _find_byte(data, _QUOTE))


def _find_byte(data: bytes, byte: int) -> Positions:
    if bytes([byte]) not in data:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.frombuffer(data, np.uint8) == byte)


def read_blocks(stream: ByteStream, *, quoted: bool) -> Iterator[RecordBlock]:
    """Yield the records of a stream that are not blank, in blocks."""
    line, rest = 1, b""
    while True:
        more = stream.read(BLOCK)
        last = len(more) < BLOCK
        data = rest + more
        if line == 1:
            data = data.removeprefix(_MARK)
        if last and data and not data.endswith(b"\n"):
            data += b"\n"
        feeds = _find_byte(data, _FEED)
        quotes = _find_byte(data, _QUOTE) if quoted else np.empty(0, dtype=np.int64)
        ends = feeds[np.searchsorted(quotes, feeds) & 1 == 0] if len(quotes) else feeds
        stop = int(ends[-1]) + 1 if len(ends) else 0
        if last and stop < len(data):
            opened = line + int(np.searchsorted(feeds, stop))
            raise stream.make_error(
                f", line {opened}: a quotation mark is opened and never closed. Close it; a mark"
                " inside a quoted field is doubled."
            )
        if len(data) - stop > LONGEST:
            raise _too_long_error(stream, line + int(np.searchsorted(feeds, stop)), len(quotes) > 0)
        if stop:
            starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
            lines = line + np.searchsorted(feeds, starts)
            long = np.flatnonzero(ends - starts > LONGEST)
            if len(long):
                raise _too_long_error(stream, int(lines[long[0]]), len(quotes) > 0)
            block = RecordBlock(data[:stop], starts, ends + 1, lines, quotes[quotes < stop])
            yield block.select(~_is_blank(block))
            line += int(np.searchsorted(feeds, stop))
        rest = data[stop:]
        if last:
            return


def _is_blank(block: RecordBlock) -> npt.NDArray[np.bool_]:
    first = np.frombuffer(block.data, np.uint8)[block.starts]
    sizes = block.stops - block.starts
    return np.asarray((sizes == 1) | ((sizes == 2) & (first == _RETURN)))


def _too_long_error(stream: ByteStream, line: int, quotes: bool) -> BadFile:
    why = " Perhaps a quotation mark is opened there and never closed." if quotes else ""
    return stream.make_error(
        f", line {line} is longer than {LONGEST >> 20} MB, which no decision is.{why} Check that"
        " this is a text file with one decision on each line."
    )
