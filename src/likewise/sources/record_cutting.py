"""Cuts a stream of text into blocks of whole records.

A line feed is inside a quoted field, and ends no record, where the number of quotation marks before
it is odd; arrays do the counting.
Invariant: every byte of the stream, except a mark at its beginning, is in exactly one block; each
block is whole records, and each record ends in a line feed.
Cost: a block of some megabytes at a time, and the longest record, which is bounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile
from likewise.sources.byte_streams import ByteStream

BLOCK = 1 << 23
LONGEST = 1 << 25
_MARK = b"\xef\xbb\xbf"  # some programs put this before UTF-8
_FEED, _RETURN, _QUOTE = 10, 13, 34
Positions = npt.NDArray[np.int64]


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
            raise BadFile(
                f"{stream.name}, line {opened}: a quotation mark is opened and never closed. Close"
                " it; a mark inside a quoted field is doubled.",
                path=stream.name,
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
    return BadFile(
        f"{stream.name}, line {line} is longer than {LONGEST >> 20} MB, which no decision is.{why}"
        " Check that this is a text file with one decision on each line.",
        path=stream.name,
    )
