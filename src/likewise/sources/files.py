"""Which format a file has, and a source that reads it.

The first bytes decide where they can (Parquet, Arrow, packed files), then the name, then what the
text looks like: an object is JSON lines, a tab in the first line TSV, anything else CSV. So a pipe
needs no name.

    source = open_source("decisions.csv.gz")
    source.columns                    # their names; of JSON lines, those of the first lines
    for chunk in source.chunks(types, wanted):
        chunk.table, chunk.places, chunk.refused

Invariant: memory does not grow with the file.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Protocol

from likewise.sources.chunk import Chunk, Types
from likewise.sources.streams import Stream
from likewise.values.errors import BadFile

ROWS = 65_536
"""Rows in a chunk, at most: as many as a monitor works on together."""
FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
_BY_NAME = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_PACKED = (".gz", ".zst", ".gzip", ".zstd")
_LOOK = 4096


class ChunkReader(Protocol):
    """One format."""

    unit: str
    columns: list[str]

    def chunks(self, types: Types, wanted: Sequence[str], rows: int) -> Iterator[Chunk]: ...


class Source:
    """A file of decisions, read once from beginning to end."""

    def __init__(self, stream: Stream, reader: ChunkReader, format: str) -> None:
        self._stream = stream
        self._reader = reader
        self.format = format
        self.name = stream.name
        self.unit = reader.unit
        """What a place counts: "line" or "row"."""
        self.columns = reader.columns
        self._row = 0

    def chunks(self, types: Types, wanted: Sequence[str], rows: int = ROWS) -> Iterator[Chunk]:
        """The wanted columns; text by the types given, columns without one as text."""
        for chunk in self._reader.chunks(types, wanted, rows):
            self._row += len(chunk)
            yield chunk

    @property
    def progress(self) -> tuple[int, int | None]:
        """How much is done, of how much if that is known."""
        rows = getattr(self._reader, "rows", None)
        return (self._row, rows) if rows else (self._stream.position, self._stream.size)

    def place(self, number: int) -> str:
        """Where a row stood, for people."""
        return f"{self.name}, {self.unit} {number:,}"

    def close(self) -> None:
        self._stream.close()


def open_source(
    path: str,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    missing: Sequence[str] = (),
) -> Source:
    """A source for a path, or for standard input where that is "-"; raise BadFile.

    format      one of FORMATS, where the file does not tell.
    delimiter   of a CSV file; a comma unless given.
    missing     text that stands for nothing known, in CSV and TSV.
    """
    stream = Stream(path)
    try:
        found = format if format in ("csv", "tsv", "jsonl") else _format(stream, format)
        return Source(stream, _reader(stream, found, delimiter, missing), found)
    except BaseException:
        stream.close()
        raise


def _format(stream: Stream, told: str | None) -> str:
    start = stream.peek(_LOOK)
    if not start:
        raise BadFile(f"{stream.name} is empty; expected decisions.")
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if told is not None:
        raise BadFile(
            f"{stream.name} is not {told}, which --format says; leave that out, or mend it."
        )
    path = PurePath(stream.path)
    suffix = path.suffix.lower()
    if suffix in _PACKED:
        suffix = PurePath(path.stem).suffix.lower()
    named = _BY_NAME.get(suffix)
    if named in ("parquet", "arrow"):
        raise BadFile(
            f"{stream.name} is not {named}, though it is called so: it begins with"
            f" {start[:8]!r}. Copy or write it again, or give it the name of what it is."
        )
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if suffix == ".json" and text.startswith(b"["):
        raise BadFile(
            f"{stream.name} is one JSON array; expected an object on each line. Convert it:"
            " jq -c '.[]'"
        )
    if named is not None:
        return named
    if text.startswith(b"{"):
        return "jsonl"
    return "tsv" if b"\t" in text.split(b"\n")[0] else "csv"


def _reader(
    stream: Stream, format: str, delimiter: str | None, missing: Sequence[str]
) -> ChunkReader:
    if format == "jsonl":
        from likewise.sources.json_lines import JsonLines

        return JsonLines(stream)
    if format in ("csv", "tsv"):
        from likewise.sources.delimited import Delimited

        by_default = "\t" if format == "tsv" else ","
        return Delimited(stream, delimiter=delimiter or by_default, missing=missing)
    if format == "arrow" and not stream.peek(6).startswith(b"ARROW1"):
        from likewise.sources.arrow_stream import ArrowStream

        return ArrowStream(stream)
    from likewise.sources.columnar import Columnar

    return Columnar(stream, "Parquet" if format == "parquet" else "Arrow")
