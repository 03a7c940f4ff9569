"""The contract of a source of records, which tests/contracts/test_sources.py checks.

A source stores no positions; its reader stores them with the verdicts and passes them to `seek`.
Invariant: records of one sequence come in order, each once, with growing positions; after `seek`
they begin behind its positions. Lost records come as a `Gap` before the first record behind them.
`Unreachable` says that the server is away, and nothing was skipped: `seek`, then poll again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from likewise.tables.positions import Position

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
