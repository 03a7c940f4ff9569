"""Define what is read from a ledger: events, decisions, and its state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from likewise.errors import BadFile
from likewise.ledger.entries import StoredWitnesses
from likewise.ledger.verdict_facts import FactsArray
from likewise.tables.array_types import Floats, Rows
from likewise.tables.keys import Key
from likewise.tables.positions import PositionNumbers

MOST = 1 << 62
"""Every row, number and time of a ledger is below this."""
NOT_JUDGED = -1
"""Stands for the number of witnesses of a decision that was remembered without being judged."""
LASTING_KINDS = ("rule", "layout", "window", "model", "source")
"""Kinds of events that stay when the rows before them are dropped."""
REMOVING_KINDS = ("erased", "dropped")
"""Kinds of events after which rows are not there any more."""


class Altered(BadFile):
    """Says that the contents of a ledger do not match its hashes."""

    code = "altered"

    def __init__(self, row: int | None, problem: str) -> None:
        super().__init__(f"{problem}. Nothing was changed: bring the ledger back from a copy.")
        self.row = row
        self.problem = problem


@dataclass(frozen=True)
class ChainEnd:
    """The end of a chain."""

    rows: int
    events: int
    link: bytes


@dataclass(frozen=True)
class LedgerState:
    """The state of a ledger."""

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
    """An event of the chain."""

    number: int
    at_row: int
    """How many rows there were when it happened."""
    time: int
    kind: str
    body: dict[str, Any]
    text: str
    link: bytes

    def get_integer(self, name: str) -> int:
        """Return a number that the body must have."""
        value = self.body.get(name)
        if type(value) is not int or not 0 <= value < MOST:
            raise self.unreadable()
        return value

    def get_integers(self, name: str) -> list[int]:
        """Return numbers that the body must have."""
        values = self.body.get(name)
        if not isinstance(values, list) or not all(
            type(value) is int and 0 <= value < MOST for value in values
        ):
            raise self.unreadable()
        return values

    def erasure_totals(self) -> dict[int, int]:
        """Return for each row of an erasure how many rows there were when it was erased.

        A ledger that was made from another one has several erasures as one event.
        """
        rows = self.get_integers("rows")
        since = self.get_integers("since") if "since" in self.body else [self.at_row] * len(rows)
        if len(since) != len(rows):
            raise self.unreadable()
        return dict(zip(rows, since, strict=True))

    def marks(self) -> dict[int, str]:
        """Return the marks of the keys that an erasure removed, by row."""
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
    """A run of rows as they are stored."""

    first: int
    times: Rows
    keys: Sequence[Key] | None
    outputs: Floats
    """NaN where erased."""
    firsts: Rows
    counts: Rows
    """How many witnesses each has, or NOT_JUDGED."""
    witnesses: StoredWitnesses
    records: npt.NDArray[Any]
    models: Rows
    """Codes of models, NO_CODE for none."""
    sources: Rows
    """Codes of sources, NO_CODE for none."""
    positions: PositionNumbers
    """The place of each in its source."""
    facts: FactsArray
    """Further facts of each verdict."""

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class NameTable:
    """Models, or sources, by code."""

    listed: tuple[str, ...] = ()
    codes: dict[str, int] = field(default_factory=dict)

    def all_of(self, codes: Rows) -> list[str | None] | None:
        """Return the name for each code, None for no code; None instead of a list of Nones."""
        if not (codes >= 0).any():
            return None
        return [self.of(code) for code in codes.tolist()]

    def of(self, code: int) -> str | None:
        if code < 0:
            return None
        if code >= len(self.listed):
            raise BadFile(f"the ledger has no name for the code {code}: it was altered.")
        return self.listed[code]
