"""What is read out of a ledger, as values: events, decisions, where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from likewise.errors import BadFile
from likewise.ledger.entries import StoredWitnesses
from likewise.ledger.verdict_facts import FactsArray
from likewise.tables.keys import Key
from likewise.tables.positions import PositionNumbers
from likewise.tables.rows import Floats, Rows

MOST = 1 << 62
"""No row, number or time of a ledger is that large."""
NOT_JUDGED = -1
"""Stands for the number of witnesses of a decision that was remembered without being judged."""
LASTING_KINDS = ("rule", "layout", "window", "model", "source")
"""Kinds of events that stay when the rows before them are dropped."""
REMOVING_KINDS = ("erased", "dropped")
"""Kinds of events after which rows are not there any more."""


class Altered(BadFile):
    """The ledger does not say what its hashes say."""

    code = "altered"

    def __init__(self, row: int | None, problem: str) -> None:
        super().__init__(f"{problem}. Nothing was changed: bring the ledger back from a copy.")
        self.row = row
        self.problem = problem


@dataclass(frozen=True)
class ChainEnd:
    """How far a chain has come."""

    rows: int
    events: int
    link: bytes


@dataclass(frozen=True)
class LedgerState:
    """Where a ledger stands."""

    first: int
    """The first row that is still there."""
    rows: int
    judged: int
    """Rows before that one have a verdict, or were remembered without one."""
    events: int
    words: int
    words_link: bytes
    link: bytes
    """The head of the chain."""
    last_time: int

    @property
    def end(self) -> ChainEnd:
        return ChainEnd(self.rows, self.events, self.link)


@dataclass(frozen=True)
class Event:
    number: int
    at_row: int
    """Rows that there were when it happened."""
    time: int
    kind: str
    body: dict[str, Any]
    text: str
    link: bytes

    def get_integer(self, name: str) -> int:
        """A number that its body must have."""
        value = self.body.get(name)
        if type(value) is not int or not 0 <= value < MOST:
            raise self.unreadable()
        return value

    def get_integers(self, name: str) -> list[int]:
        """Numbers that its body must have."""
        values = self.body.get(name)
        if not isinstance(values, list) or not all(
            type(value) is int and 0 <= value < MOST for value in values
        ):
            raise self.unreadable()
        return values

    def erasure_totals(self) -> dict[int, int]:
        """Of an erasure: by row, how many rows there were when it was erased.

        A ledger that was made of another one has several erasures as one event.
        """
        rows = self.get_integers("rows")
        since = self.get_integers("since") if "since" in self.body else [self.at_row] * len(rows)
        if len(since) != len(rows):
            raise self.unreadable()
        return dict(zip(rows, since, strict=True))

    def marks(self) -> dict[int, str]:
        """Return the marks of the keys that an erasure took away, by row."""
        marks = self.body.get("marks", {})
        if not isinstance(marks, dict) or not all(
            row.isdecimal() and isinstance(mark, str) for row, mark in marks.items()
        ):
            raise self.unreadable()
        return {int(row): mark for row, mark in marks.items()}

    def unreadable(self) -> BadFile:
        return BadFile(f"event {self.number} ({self.kind!r}) of the ledger was altered.")


@dataclass(frozen=True)
class StoredDecisions:
    """A run of rows as they are kept."""

    first: int
    times: Rows
    keys: Sequence[Key] | None
    outputs: Floats
    """NaN where erased."""
    firsts: Rows
    counts: Rows
    """Witnesses of each, or NOT_JUDGED."""
    witnesses: StoredWitnesses
    records: npt.NDArray[Any]
    models: Rows
    """Codes of models, NO_CODE where there is none."""
    sources: Rows
    """Codes of sources, NO_CODE where there is none."""
    positions: PositionNumbers
    """The place of each in its source."""
    facts: FactsArray
    """What each verdict says beside its witnesses."""

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class NameTable:
    """Models, or sources, by code."""

    listed: tuple[str, ...] = ()
    codes: dict[str, int] = field(default_factory=dict)

    def all_of(self, codes: Rows) -> list[str | None] | None:
        """The name of each, None where it has none; None if none of them has one."""
        if not (codes >= 0).any():
            return None
        return [self.of(code) for code in codes.tolist()]

    def of(self, code: int) -> str | None:
        if code < 0:
            return None
        if code >= len(self.listed):
            raise BadFile(f"the ledger has no name for the code {code}: it was altered.")
        return self.listed[code]
