"""The contract of a source: a sequence of records that can be read on from where a ledger ends.

A source may consist of several sequences (partitions of a topic), each with a name. A record has
its place in one of them (tables/positions.py). Whoever reads keeps the positions with what was made
of the records, in one transaction, and after a restart says where to go on (`seek`). A source keeps
no positions of its own, and tells its server of none.

Invariants:
- Records of one sequence come in order, each once, with positions that grow. Records of several
  come in the order in which they were read; whoever keeps them freezes that order.
- After `seek(positions)` the next records are those behind these positions.
- Records that are gone are told as a `Gap`, before the first record behind it.
- A poll holds at most `most` records, and waits at most about as long as it was told.
- `Unreachable` says that the other side is away. Nothing was skipped: `seek`, then poll again.

`tests/contracts/test_sources.py` runs over all that keep it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from likewise.tables.positions import Position

_NONE: Mapping[str, str] = MappingProxyType({})


class Record(NamedTuple):
    """One message, entry or line, as bytes."""

    source: str
    """The sequence that it is in: a stream, "topic/3", a file."""
    position: Position
    body: bytes
    headers: Mapping[str, str] = _NONE
    """What the sender said beside it; names in small letters."""
    flaw: str | None = None
    """Why there is no body that could be read, such as a line that is too long."""
    flaw_code: str = "bad-message"


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that were there and are gone: trimmed, expired or deleted before they were read."""

    source: str
    after: Position
    """The last position that was read."""
    before: Position
    """The first position behind the gap."""
    count: int | None
    """How many records are gone; None if nobody can tell, and it may be none."""
    why: str


@dataclass(frozen=True, slots=True)
class PollResult:
    """What a poll gave; nothing, if nothing came in time."""

    records: Sequence[Record] = ()
    positions: Mapping[str, Position] = field(default_factory=dict)
    """By sequence the last position, once these records are taken. Also where a sequence begins
    that was told to begin with new records: from then on that is where it stands."""
    gaps: tuple[Gap, ...] = ()
    """Before these records, those that are gone."""
    ended: bool = False
    """Whether nothing will come any more."""


class Source(Protocol):
    """Where decisions come from."""

    @property
    def name(self) -> str:
        """What people call it, without anything secret."""

    def owns(self, source: str) -> bool:
        """Whether a sequence of this name is one of its own."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Go on behind these positions; a sequence without one begins where the source was told.

        Connects where there is something to connect to.
        """

    def poll(self, most: int, seconds: float) -> PollResult:
        """The next records, as soon as there are any; at most so many, after at most so long."""

    def close(self) -> None: ...


def just_before(position: Position) -> Position:
    """The position right before one that is there.

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
    begun: Mapping[str, Position] | None = None,
) -> PollResult:
    """Records with the positions behind them.

    begun: positions behind which sequences begin

    >>> polled([Record("a", 1, b""), Record("b", 7, b""), Record("a", 2, b"")]).positions
    {'a': 2, 'b': 7}
    """
    positions = dict(begun or {}) | {record.source: record.position for record in records}
    return PollResult(records, positions, gaps, ended)
