"""Opens a file of decisions, whatever its format.

The first bytes decide where they can (Parquet, Arrow, packed files), then the name, then what the
text looks like: an object is JSON lines, a tab in the first line TSV, anything else CSV. So a pipe
needs no name. The columns of JSON lines are those of the first lines.
Invariant: memory does not grow with the file, except for Excel.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

from likewise.errors import BadRule
from likewise.sources.address import Address, is_address, parse_address
from likewise.sources.byte_streams import ByteStream, Digest
from likewise.sources.chunk_reader import ChunkReader
from likewise.sources.json_lines import JsonLinesFile, LineFile
from likewise.sources.number_text import Decimal
from likewise.sources.protocol import Chunk, ColumnTypes, Source
from likewise.sources.remarks import Remark
from likewise.sources.sinks import LineTarget

if TYPE_CHECKING:
    from likewise.sources.text_columns import TextColumns


def make_source(text: str) -> tuple[Source, str]:
    """Return the source of an address or a file of JSON lines, and the format of its records.

    Nothing is connected yet: `seek` does that.
    """
    if not is_address(text):
        return LineFile(Path(text)), "json"
    address = parse_address(text)
    return _load_client(address, "Source")(address), address.format


def make_target(text: str, field: str) -> LineTarget:
    """Return the target of an address.

    field   the name of a line in an entry of a Redis stream
    """
    if not is_address(text):
        raise BadRule(f"{text!r} is no address; expected redis://…, nats://… or kafka://…")
    address = parse_address(text)
    settings = (field,) if address.kind == "redis" else ()
    target: LineTarget = _load_client(address, "Target")(address, *settings)
    return target


def _load_client(address: Address, role: str) -> Any:
    """Import the class for an address, such as RedisSource in redis.py."""
    module = import_module(f"likewise.sources.{address.kind}")
    return getattr(module, f"{address.kind.capitalize()}{role}")


ROWS = 65_536
"""Rows in a chunk, at most: as many as a monitor works on together."""
_SUFFIXES = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".arrows", ".ipc", ".feather"),
    "excel": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
}
FORMATS = tuple(_SUFFIXES)
BY_NAME = {suffix: format for format, suffixes in _SUFFIXES.items() for suffix in suffixes}
PACKED = (".gz", ".zst", ".gzip", ".zstd")
_PEEK_BYTES = 4096
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # a zip archive; the older format of Excel


class StoredBytes(Protocol):
    """Says what a file knows of its bytes; a table in memory has none."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int | None: ...

    @property
    def position(self) -> int: ...

    @property
    def is_rereadable(self) -> bool: ...

    @property
    def remarks(self) -> tuple[Remark, ...]: ...

    def digest(self, *, by_name: bool = False) -> Digest | None: ...

    def close(self) -> None: ...


class DecisionFile:
    """Reads a file of decisions once, from beginning to end."""

    def __init__(self, stream: StoredBytes, reader: ChunkReader, format: str) -> None:
        self._stream = stream
        self._reader = reader
        self.format = format
        self.name = stream.name
        self.unit = reader.unit
        """What a place counts: "line" or "row"."""
        self.columns = reader.columns
        self.left_out = reader.left_out
        """Columns such as an index, which count only if a rule names them."""
        self._added: list[Remark] = []
        self._row = 0

    def chunks(
        self, types: ColumnTypes, columns: Sequence[str], rows: int = ROWS
    ) -> Iterator[Chunk]:
        """Yield these columns; text is read by its type, or stays text without one."""
        for chunk in self._reader.chunks(types, columns, rows):
            self._row += len(chunk)
            yield chunk

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed so far; complete once the last chunk was read."""
        return (*self._stream.remarks, *self._reader.remarks, *self._added)

    def add_remarks(self, remarks: Sequence[Remark]) -> None:
        """Add remarks of others about this file, such as how its times are written."""
        self._added += [remark for remark in remarks if remark not in self._added]

    @property
    def text(self) -> "TextColumns | None":
        """How the columns of text are written; None where the format has types of its own."""
        return self._reader.text

    @property
    def progress(self) -> tuple[int, int | None]:
        """How much is done, and of how much, if that is known."""
        rows = self._reader.rows
        return (self._row, rows) if rows else (self._stream.position, self._stream.size)

    def describe_place(self, number: int) -> str:
        """Say where a row stands, for people."""
        return f"{self.name}, {self.unit} {number:,}"

    @property
    def is_rereadable(self) -> bool:
        """Whether it can be opened again and read from the beginning."""
        return self._stream.is_rereadable

    def digest(self) -> Digest | None:
        """Return the checksum of what was read, once all is read; None for a table in memory."""
        return self._stream.digest(by_name=self._reader.by_name)

    def close(self) -> None:
        self._stream.close()


def open_source(
    path: str,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    missing: Sequence[str] = (),
    decimal: Decimal | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    sheet: str | None = None,
) -> DecisionFile:
    """Open a path, or standard input where that is "-"; raise BadFile.

    format      one of FORMATS, where the file does not say
    delimiter   of a CSV file; detected unless given, and a comma where nothing else fits
    missing     text that means a missing value, in CSV, TSV and Excel
    decimal     the decimal sign of numbers, in CSV, TSV and Excel; detected unless given
    encoding    of text; UTF-8, or Windows-1252 where it is no UTF-8, unless given
    header      whether the first line has the names of columns; None: refuse where it seems not to
    sheet       of an Excel workbook; the first unless given
    """
    stream = ByteStream(path, encoding)
    as_text: dict[str, Any] = {"missing": missing, "decimal": decimal, "header": header}
    try:
        detected = format if format in ("csv", "tsv", "jsonl") else _detect_format(stream, format)
        reader = _open_reader(stream, detected, delimiter, sheet, as_text)
        return DecisionFile(stream, reader, detected)
    except BaseException:
        stream.close()
        raise


def _detect_format(stream: ByteStream, requested: str | None) -> str:
    start = stream.peek(_PEEK_BYTES)
    if not start:
        raise stream.make_error(" is empty; expected decisions.")
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if start.startswith(_WORKBOOKS):
        return "excel"
    if requested is not None:
        raise stream.make_error(
            f" is not {requested}, which --format says; leave that out, or mend it."
        )
    path = PurePath(stream.path)
    suffix = path.suffix.lower()
    if suffix in PACKED:
        suffix = PurePath(path.stem).suffix.lower()
    named = BY_NAME.get(suffix)
    if named in ("parquet", "arrow", "excel"):
        raise stream.make_error(
            f" is not {named}, though it is called so: it begins with {start[:8]!r}. Copy or write"
            " it again, or give it the name of what it is."
        )
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if suffix == ".json" and text.startswith(b"["):
        raise stream.make_error(
            " is one JSON array; expected an object on each line. Convert it: jq -c '.[]'"
        )
    if named is not None:
        return named
    if text.startswith(b"{"):
        return "jsonl"
    return "tsv" if b"\t" in text.split(b"\n")[0] else "csv"


def _open_reader(
    stream: ByteStream,
    format: str,
    delimiter: str | None,
    sheet: str | None,
    as_text: dict[str, Any],
) -> ChunkReader:
    if format == "excel":
        from likewise.sources.excel import ExcelSheet

        return ExcelSheet(stream, sheet, **as_text)
    if format in ("csv", "tsv"):
        from likewise.sources.delimited import DelimitedFile

        preferred = "\t" if format == "tsv" else ","
        return DelimitedFile(stream, preferred=preferred, delimiter=delimiter, **as_text)
    if format == "jsonl":
        return JsonLinesFile(stream)
    from likewise.sources.columnar import ArrowStream, ColumnarFile

    if format == "arrow" and not stream.peek(6).startswith(b"ARROW1"):
        return ArrowStream(stream)
    return ColumnarFile(stream, "Parquet" if format == "parquet" else "Arrow")
