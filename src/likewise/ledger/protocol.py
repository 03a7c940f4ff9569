"""The contract of a ledger's format: how decisions, verdicts and events are kept in its folder.

A format is a module with these names; `formats.py` has them by version, today one. A later version
of likewise must read, verify and continue every format that a release wrote.

Invariants:
- What `append` and `add_event` wrote, `decisions` and the events' table give back.
- `walk` passes exactly what they wrote, and names the first row that is not so.
"""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from likewise.ledger.entries import Entries, EntryVerdicts
from likewise.ledger.heads import Head
from likewise.ledger.layout import RecordLayout
from likewise.ledger.notes import LedgerNote
from likewise.ledger.record_files import RecordFiles
from likewise.ledger.stored import ChainEnd, Event, LedgerState, NameTable, StoredDecisions
from likewise.rule.rule import Rule
from likewise.tables.keys import Key
from likewise.tables.rows import Rows


class FormatReader(Protocol):
    """What a format may ask of a reader."""

    path: Path

    def all(self, query: str, *values: Any) -> list[Any]: ...

    @property
    def rule(self) -> Rule: ...

    @property
    def protected_columns(self) -> tuple[str, ...]:
        """The names of protected columns."""

    @property
    def layout(self) -> RecordLayout | None: ...

    @property
    def records(self) -> RecordFiles | None: ...

    def events(self, kind: str = "", *, first: int = 0) -> list[Event]: ...

    def words(self) -> list[Any]: ...

    def erased_rows(self) -> Rows: ...

    def first_kept(self) -> int: ...

    def last_word(self) -> tuple[int, bytes]: ...

    def names(self, kind: str) -> NameTable: ...

    def state(self) -> LedgerState: ...

    def has_keys(self) -> bool: ...

    def find_flagged_where(
        self, where: str, values: tuple[Any, ...], first: int, stop: int
    ) -> list[int]: ...

    def runs_since(self, time: int | None) -> list[tuple[int, int]]: ...

    def decisions(
        self, first: int, stop: int, *, keys: bool, witnesses: bool = True
    ) -> StoredDecisions: ...

    def all_decisions(
        self, first: int, stop: int, *, witnesses: bool = False
    ) -> Iterator[StoredDecisions]: ...


class FormatWriter(Protocol):
    """What a format may use of a store, inside a transaction that the store begins and ends."""

    sync: bool
    last_time: int
    """The latest time of a decision."""
    pending_link: bytes
    """The link of the last event that was written, committed or not."""

    @property
    def reader(self) -> FormatReader: ...

    @property
    def records(self) -> RecordFiles | None: ...

    def now(self) -> int:
        """The clock's time, never before that of a decision."""

    def codes(self, kind: str) -> dict[str, int]:
        """The codes of models, or sources; new ones are added."""


class ChainWalk(Protocol):
    """One walk along a chain."""

    first: int
    rows: int
    judged: int
    """Rows before that one have verdicts."""
    events: int
    erased: int
    end: ChainEnd | None
    """The end of the chain, once the walk has come that far."""

    def chunks(self) -> Iterator[StoredDecisions]:
        """The rows of the ledger, each chunk checked before it is given; raise Altered."""


class Format(Protocol):
    VERSION: int
    EVENTS: str
    """A condition: what tells events from runs of rows in the events' table."""
    ERASED_FIELDS: list[str]
    """The fields of a record that erasure overwrites, before the salt."""

    def record_type(self, outputs: int, input_bytes: int) -> np.dtype[Any]: ...

    # Reading

    def state(self, reader: FormatReader) -> LedgerState: ...

    def decisions(
        self, reader: FormatReader, first: int, stop: int, *, keys: bool, witnesses: bool
    ) -> StoredDecisions: ...

    def has_keys(self, reader: FormatReader) -> bool: ...

    def row_of(self, reader: FormatReader, key: Key) -> int | None: ...

    def erased_keys(self, reader: FormatReader) -> Callable[[Key], bool] | None:
        """Whether a key was erased; None if none was, or nothing is left of it."""

    def key_marks(self, reader: FormatReader, rows: list[int]) -> dict[str, str]:
        """Return what is to be left of the keys of rows, by row, once these are erased."""

    def find_flagged(self, reader: FormatReader, first: int, stop: int) -> list[int]:
        """Rows with witnesses."""

    def runs_since(self, reader: FormatReader, time: int | None) -> list[tuple[int, int]]:
        """Runs of rows that have all decisions from a time on; all rows if it is None."""

    def walk(self, reader: FormatReader, head: Head | None, values: bool = True) -> ChainWalk:
        """values: whether what decisions hold is compared with its commitments"""

    # Writing, inside a transaction: `end` is how far the chain has come, and each says how far then

    def first_body(self) -> dict[str, Any]:
        """What the first event has to say beside the rule."""

    def add_event(
        self,
        store: FormatWriter,
        database: sqlite3.Connection,
        kind: str,
        body: dict[str, Any],
        end: ChainEnd,
    ) -> ChainEnd: ...

    def add_note(
        self, store: FormatWriter, database: sqlite3.Connection, note: LedgerNote, end: ChainEnd
    ) -> ChainEnd:
        """An event with words beside it that can be destroyed."""

    def append(
        self, store: FormatWriter, database: sqlite3.Connection, entries: Entries, end: ChainEnd
    ) -> ChainEnd:
        """Decisions, with their verdicts unless they are still to be judged."""

    def judge(
        self,
        store: FormatWriter,
        database: sqlite3.Connection,
        judged: EntryVerdicts,
        end: ChainEnd,
    ) -> ChainEnd:
        """Verdicts of decisions that were accepted before."""

    def erase(self, database: sqlite3.Connection, rows: list[int]) -> None:
        """Take rows' keys and outputs, and what could tell them, out of the tables."""

    def drop(self, database: sqlite3.Connection, first: int) -> None:
        """Take rows before `first` out of the tables."""

    def anchor(self, reader: FormatReader, first: int) -> tuple[int, str]:
        """Where a walk from row `first` on begins: the number of an event, the link before it."""

    def anchor_fields(self, reader: FormatReader, first: int) -> dict[str, Any]:
        """What else must be known of rows before `first` once they are dropped."""
