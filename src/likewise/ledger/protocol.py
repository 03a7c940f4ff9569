"""The contract of a ledger's format: how decisions, verdicts and events are stored in its folder.

A format is a module with the names of `Format`; reader.py lists them by version, today one. A later
version of likewise must read, verify and continue every format that a release wrote.
Invariant: `decisions` and the table of events return what `append` and `add_event` wrote; `walk`
passes exactly what they wrote, and names the first row that was altered.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Protocol

import numpy as np

from likewise.ledger.entries import EntryVerdicts
from likewise.ledger.heads import Head
from likewise.ledger.notes import LedgerNote
from likewise.ledger.record_files import RecordFiles
from likewise.ledger.schema import RecordLayout
from likewise.ledger.stored import ChainEnd, Event, LedgerState, NameTable, StoredDecisions
from likewise.ledger.write_buffer import Entries
from likewise.rule.rule import Rule
from likewise.tables.array_types import Rows
from likewise.tables.keys import Key


class FormatReader(Protocol):
    """Declares what a format may ask of a reader."""

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

    def find_flagged(
        self, first: int, stop: int, where: str = "", values: tuple[Any, ...] = ()
    ) -> list[int]: ...

    def runs_since(self, time: int | None) -> list[tuple[int, int]]: ...

    def decisions(
        self, first: int, stop: int, *, keys: bool, witnesses: bool = True
    ) -> StoredDecisions: ...


class FormatWriter(Protocol):
    """Declares what a format may use of a store, inside the store's transactions."""

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
        """Return the clock's time, never before that of a decision."""

    def codes(self, kind: str) -> dict[str, int]:
        """Return the codes of models, or sources; the format adds new ones."""


class ChainWalk(Protocol):
    """Walks along a chain once."""

    first: int
    rows: int
    judged: int
    """Rows before that one have verdicts."""
    events: int
    erased: int
    end: ChainEnd | None
    """The end of the chain, once the walk has come that far."""

    def chunks(self) -> Iterator[StoredDecisions]:
        """Yield the rows of the ledger, each chunk after its check; raise Altered."""


class Format(Protocol):
    """Reads and writes one version of the format."""

    VERSION: int
    EVENTS: str
    """A condition that distinguishes events from runs of rows in the table of events."""
    ERASED_FIELDS: list[str]
    """The fields of a record that erasure overwrites, before the salt."""

    def record_type(self, outputs: int, input_bytes: int) -> np.dtype[Any]: ...

    # Reading

    def state(self, reader: FormatReader) -> LedgerState: ...

    def decisions(
        self, reader: FormatReader, first: int, stop: int, *, keys: bool, witnesses: bool
    ) -> StoredDecisions: ...

    def has_keys(self, reader: FormatReader) -> bool: ...

    def row_of(self, reader: FormatReader, key: Key, tables: Sequence[str] = ...) -> int | None: ...

    def erased_keys(self, reader: FormatReader) -> Callable[[Key], bool] | None:
        """Return a function that tells whether a key was erased; None if no mark of one is left."""

    def key_marks(self, reader: FormatReader, rows: list[int]) -> dict[str, str]:
        """Return the marks that remain of the keys of rows, by row, once these are erased."""

    def runs_since(self, reader: FormatReader, time: int | None) -> list[tuple[int, int]]:
        """Return runs of rows that have all decisions from a time on; all rows if it is None."""

    def walk(self, reader: FormatReader, head: Head | None, values: bool = True) -> ChainWalk:
        """Return a walk along the chain.

        values: whether what decisions hold is compared with its commitments
        """

    # Writing, inside a transaction: `end` is the end of the chain; each returns the new end

    def first_body(self) -> dict[str, Any]:
        """Return what the first event says beside the rule."""

    def add_event(
        self,
        store: FormatWriter,
        database: Connection,
        kind: str,
        body: dict[str, Any],
        end: ChainEnd,
    ) -> ChainEnd: ...

    def add_note(
        self, store: FormatWriter, database: Connection, note: LedgerNote, end: ChainEnd
    ) -> ChainEnd:
        """Write an event with text beside it that can be destroyed."""

    def append(
        self, store: FormatWriter, database: Connection, entries: Entries, end: ChainEnd
    ) -> ChainEnd:
        """Write decisions, with their verdicts unless they are still to be judged."""

    def judge(
        self, store: FormatWriter, database: Connection, judged: EntryVerdicts, end: ChainEnd
    ) -> ChainEnd:
        """Write verdicts of decisions that were accepted before."""

    def erase(self, database: Connection, rows: list[int]) -> None:
        """Remove rows' keys and outputs, and all that could reveal them, from the tables."""

    def drop(self, database: Connection, first: int) -> None:
        """Remove rows before `first` from the tables."""

    def anchor(self, reader: FormatReader, first: int) -> tuple[int, str]:
        """Return the event at which a walk from row `first` on begins, and the link before it."""

    def anchor_fields(self, reader: FormatReader, first: int) -> dict[str, Any]:
        """Return what else must be known of rows before `first` once they are dropped."""
