"""The contract of a source of records, which tests/contracts/test_sources.py checks.

A source stores no positions; its reader stores them with the verdicts and passes them to `seek`.
Invariant: records of one sequence come in order, each once, with growing positions; after `seek`
they begin behind its positions. Lost records come as a `Gap` before the first record behind them.
`Unreachable` says that the server is away, and nothing was skipped: `seek`, then poll again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile
from likewise.tables.positions import Position

if TYPE_CHECKING:
    import polars as pl


ColumnType: TypeAlias = Literal["number", "listed", "flag", "text"]
"""How a column of a text file is read: "listed" are numbers that a rule lists by value, such as
codes of categories, "flag" is true or false. Other formats bring types of their own."""
ColumnTypes: TypeAlias = Mapping[str, ColumnType]
Table: TypeAlias = "pl.DataFrame | list[dict[str, Any]]"
Places: TypeAlias = npt.NDArray[np.int64]


# Chunks, rows of a file with the place of each, and the contract of what reads them.
# Invariant: `places` has one entry for each row of `table`, ascending unless rows were put in order
# of time. Every row of the file is in exactly one chunk: in its table, or among the refused.


class BadRecord(ValueError):
    """Says why a line or a message cannot be read as decisions."""

    def __init__(self, why: str, code: str = "bad-message", column: str = "") -> None:
        super().__init__(why)
        self.code = code
        self.column = column


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Names a row that could not be read, or not be judged."""

    place: int
    """The row's line in a text file (from 1, header included), else its number (from 1)."""
    why: str
    code: str
    """The kind of reason; rows with the same code and column are counted together."""
    column: str = ""
    """The column that the reason is about, if it is about one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Holds rows of a file, in its order or in order of time (time_columns.py)."""

    table: Table
    places: Places
    refused: tuple[RefusedRow, ...] = ()
    times: npt.NDArray[np.datetime64] | None = None
    """When each decision was made, in UTC, where a column of times is read."""

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, part: slice) -> "Chunk":
        """Return some of its rows, without those that were refused."""
        times = None if self.times is None else self.times[part]
        return Chunk(self.table[part], self.places[part], times=times)

    def take(self, rows: Places) -> "Chunk":
        """Return these rows, in this order, with those that were refused."""
        table = self.table
        taken = [table[i] for i in rows.tolist()] if isinstance(table, list) else table[rows]
        times = None if self.times is None else self.times[rows]
        return Chunk(taken, self.places[rows], self.refused, times)


def column_values(table: Table, column: str) -> list[Any]:
    """Return the values of a column; None where a row of JSON lines lacks it."""
    if isinstance(table, list):
        return [row.get(column) for row in table]
    return table[column].to_list() if len(table) else []


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Join chunks of one file, one after the other."""
    import polars as pl

    frames = [chunk.table for chunk in chunks if isinstance(chunk.table, pl.DataFrame)]
    if frames:
        table: Table = pl.concat(frames, how="vertical_relaxed")
    else:
        table = [row for chunk in chunks if isinstance(chunk.table, list) for row in chunk.table]
    places = [np.empty(0, np.int64), *[chunk.places for chunk in chunks]]
    refused = [row for chunk in chunks for row in chunk.refused]
    times = [chunk.times for chunk in chunks if chunk.times is not None]
    every_time = np.concatenate(times) if times else None
    return Chunk(table, np.concatenate(places), tuple(refused), every_time)


_NONE: Mapping[str, str] = MappingProxyType({})


class Record(NamedTuple):
    """Holds one message, entry or line, as bytes."""

    source: str
    """The name of its sequence: a stream, "topic/3", a file."""
    position: Position
    body: bytes
    headers: Mapping[str, str] = _NONE
    """Headers of the message; names in lower case."""
    flaw: str | None = None
    """Why there is no readable body, such as a line that is too long."""
    flaw_code: str = "bad-message"


@dataclass(frozen=True, slots=True)
class Gap:
    """Says that records were trimmed, expired or deleted before they were read."""

    source: str
    after: Position
    """The last position that was read."""
    before: Position
    """The first position behind the gap."""
    count: int | None
    """How many records are gone; None if that is not known, and it may be none."""
    why: str


@dataclass(frozen=True, slots=True)
class PollResult:
    """Holds what a poll found; nothing, if nothing came in time."""

    records: Sequence[Record] = ()
    positions: Mapping[str, Position] = field(default_factory=dict)
    """By sequence, the last position once these records are taken; and where a sequence begins that
    starts with new records."""
    gaps: tuple[Gap, ...] = ()
    """Gaps before these records."""
    ended: bool = False
    """Whether no more records will come."""


class Source(Protocol):
    """Reads records of decisions from a stream, a file or a pipe."""

    @property
    def name(self) -> str:
        """Its name for people, without anything secret."""

    def owns(self, source: str) -> bool:
        """Tell whether a sequence of this name is one of its own."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Connect, and go on behind these positions.

        A sequence without a position begins where the address says.
        """

    def poll(self, most: int, seconds: float) -> PollResult:
        """Return the next records: at most `most`, after at most about `seconds`."""

    def close(self) -> None: ...


def check_position(source: str, position: Position | None, kind: type, what: str) -> Any:
    """Return a position that the ledger has; raise BadFile if it is not of a source's own kind."""
    if position is not None and not isinstance(position, kind):
        raise BadFile(
            f"the ledger's position in {source!r} is {position}, which is no {what}. It was read"
            " from something else of that name: begin another ledger.",
            path=source,
        )
    return position


def just_before(position: Position) -> Position:
    """Return the position right before one.

    >>> just_before(17), just_before((1700, 3)), just_before((1700, 0))
    (16, (1700, 2), (1699, 18446744073709551615))
    """
    if isinstance(position, int):
        return position - 1
    first, second = position
    return (first, second - 1) if second else (first - 1, (1 << 64) - 1)


def make_poll_result(
    records: Sequence[Record],
    gaps: tuple[Gap, ...] = (),
    *,
    ended: bool = False,
    starts: Mapping[str, Position] | None = None,
) -> PollResult:
    """Return records with the positions of their sequences.

    starts  positions behind which sequences begin

    >>> make_poll_result([Record("a", 1, b""), Record("b", 7, b""), Record("a", 2, b"")]).positions
    {'a': 2, 'b': 7}
    """
    positions = dict(starts or {}) | {record.source: record.position for record in records}
    return PollResult(records, positions, gaps, ended)
