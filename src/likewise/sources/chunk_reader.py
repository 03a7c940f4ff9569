"""The contract of a reader of one file format: its columns, and its rows in chunks."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from likewise.sources.protocol import Chunk, ColumnTypes
from likewise.sources.remarks import Remark
from likewise.sources.text_columns import TextColumns


class ChunkReader(Protocol):
    """Reads one format, in chunks; the defaults are those of formats with types of their own."""

    unit: str
    """What a place counts: "line" or "row"."""
    columns: list[str]
    left_out: tuple[str, ...] = ()
    """Columns such as an index, which count only if a rule names them."""
    text: TextColumns | None = None
    """How columns of text are written; None where there are none."""
    rows: int | None = None
    """How many rows there are, if that is known."""
    by_name: bool = False
    """Whether the file is read by its name, and not through the stream."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed so far."""
        return ()

    def chunks(self, types: ColumnTypes, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield these columns, at most `rows` rows at a time."""
        ...
