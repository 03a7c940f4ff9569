"""Read a ledger's database and records into arrays: for the writer, verification and views.

What differs between formats is delegated to `format` (protocol.py). Nothing here writes.
Invariant: a row is read as it was committed; what cannot be read raises a BadFile that names it.
Not here: whether it was altered (verification.py).
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from likewise.embedders.model_mark import ModelMark
from likewise.errors import BadFile, BadRow, BadRule
from likewise.ledger import folder, format2
from likewise.ledger.hashes import DIGEST, GENESIS
from likewise.ledger.protocol import Format
from likewise.ledger.record_files import RecordFiles
from likewise.ledger.retention import RetentionWindow
from likewise.ledger.schema import RecordLayout, check_schema
from likewise.ledger.stored import MOST, Event, LedgerState, NameTable, StoredDecisions
from likewise.rule.rule import Rule
from likewise.tables.array_types import Rows
from likewise.tables.keys import Key
from likewise.verdict.slope import SlopeQuestion

FORMATS: dict[int, Format] = {2: format2}
"""The formats that this version of likewise reads and writes, by version."""
Word = tuple[int, str, int, str | None, bytes | None, bytes, bytes]
"""Number, column, code, value as text, salt, commitment and link."""
CHUNK = 1 << 15
"""Rows that are read together."""
_DECISIVE = ("event", "word", "note")
"""Tables whose indexes a monitor uses to find rows: what is missing there changes its verdicts."""


def format_of(version: int) -> Format:
    """Return the format with this version; raise BadFile if there is none."""
    try:
        return FORMATS[version]
    except KeyError:
        raise BadFile(f"there is no format {version!r} of a ledger: it was altered.") from None


class LedgerReader:
    """Reads one database and its records.

    looks_only: whether it reads only committed data, so that what it has read stays valid
    """

    def __init__(
        self, path: Path, database: sqlite3.Connection, *, looks_only: bool = False
    ) -> None:
        self.path = path
        self._looks_only = looks_only
        self._erased: tuple[int | None, Rows] | None = None  # up to an event
        self.database = database
        self._using = RLock()  # held by the thread that reads ahead, and by `close`
        self._layout: RecordLayout | None = None
        self._rule: tuple[Event, Rule] | None = None  # with the event that holds it
        self.format = format_of(self.all("PRAGMA user_version")[0][0])

    def close(self) -> None:
        """Close the database, once a thread that still reads ahead has its answer.

        An interrupted call leaves such a thread behind, and SQLite crashes if a connection is
        closed while it is used.
        """
        with self._using:
            self.database.close()

    def all(self, query: str, *values: Any) -> list[Any]:
        try:
            with self._using:
                return self.database.execute(query, values).fetchall()
        except folder.FAILURES as error:
            raise folder.unreadable(self.path, error) from None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read the database as it is at one moment, even if it is written meanwhile."""
        self.all("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(*folder.FAILURES):
                self.database.execute("ROLLBACK")

    @contextlib.contextmanager
    def structure_checked(self, *, every_index: bool) -> Iterator[None]:
        """Check the database's pages and indexes, which no hash covers, while the body runs.

        The check has a connection of its own, so that SQLite works while the body does.

        every_index: compare all indexes with their tables, even those that only people's searches
            use; they take microseconds for each verdict
        """
        with ThreadPoolExecutor(1) as pool:
            check = pool.submit(self._check_structure, every_index)
            yield
            check.result()

    def _check_structure(self, every_index: bool) -> None:
        with contextlib.closing(folder.connect(self.path, write=False)) as database:
            reader = LedgerReader(self.path, database)
            checks = ["integrity_check(1)"]
            if not every_index:  # "quick" leaves out what indexes hold
                checks = ["quick_check(1)", *(f"integrity_check({name})" for name in _DECISIVE)]
            results = [str(reader.all(f"PRAGMA {check}")[0][0]) for check in checks]
        for result in results:
            if result != "ok":
                raise BadFile(
                    f"{str(self.path / folder.DATABASE)!r} is damaged: {' '.join(result.split())}."
                    " Nothing was changed: bring it back from a copy.",
                    path=self.path / folder.DATABASE,
                )

    def check_schema(self) -> None:
        """Raise BadFile unless the database has exactly the tables of its format."""
        try:
            check_schema(self.path, self.database)
        except folder.FAILURES as error:
            raise folder.unreadable(self.path, error) from None

    # Events

    def events(self, kind: str = "", *, first: int = 0) -> list[Event]:
        """Return the events of a kind, or all; without runs of decisions and verdicts.

        first: the lowest event number to return
        """
        where = f"WHERE {self.format.EVENTS} AND number >= ?{' AND kind = ?' if kind else ''}"
        query = f"SELECT number, at_row, time, kind, body, link FROM event {where} ORDER BY number"
        return [event_of(*row) for row in self.all(query, first, *([kind] if kind else []))]

    def reviews_of(self, row: int) -> list[Event]:
        """Return the reviews of a row, in order."""
        query = (
            "SELECT number, at_row, time, kind, body, link FROM event WHERE kind = 'review' AND"
            " number IN (SELECT event FROM note WHERE row = ?) ORDER BY number"
        )
        return [event_of(*cells) for cells in self.all(query, row)]

    def supersessions_by(self, row: int) -> list[Event]:
        """Return the events in which a row took the place of another, in order."""
        query = (
            "SELECT number, at_row, time, kind, body, link FROM event WHERE kind = 'superseded'"
            " AND number IN (SELECT event FROM note WHERE other = ?) ORDER BY number"
        )
        return [event_of(*cells) for cells in self.all(query, row)]

    def note_text(self, event: Event) -> str | None:
        """Return the text of a note; None if it was destroyed."""
        rows = self.all("SELECT text FROM note WHERE event = ?", event.number)
        return rows[0][0] if rows else None

    def _last(self, kind: str) -> Event | None:
        events = self.events(kind)
        return events[-1] if events else None

    @property
    def rule(self) -> Rule:
        event = self._last("rule")
        cached = self._rule
        if cached is not None and cached[0] == event:
            return cached[1]
        text = None if event is None else event.body.get("rule")
        try:
            if isinstance(text, str) and event is not None:
                rule = Rule.from_toml(text)
                for column, embedder in rule.embedders().items():
                    embedder.record(ModelMark.of(event.body["embedders"][column]))
                self._rule = event, rule
                return rule
        except (BadRule, KeyError, TypeError, ValueError):
            pass
        raise BadFile(f"the ledger {str(self.path)!r} has no rule: it was altered.", path=self.path)

    @cached_property
    def protected_columns(self) -> tuple[str, ...]:
        """The names of protected columns, which no later rule of a ledger changes."""
        features = (self.rule.features or {}).items()
        return tuple(name for name, feature in features if feature.kind == "protected")

    @property
    def question(self) -> SlopeQuestion | None:
        """What its verdicts answer; None: the rule's own question."""
        event = self._last("rule")
        question = None if event is None else event.body.get("question")
        try:
            return None if question is None else SlopeQuestion.of(question)
        except BadRule as error:
            raise BadFile(
                f"the ledger {str(self.path)!r} answers a question that this version of likewise"
                f" does not know: {error}. Nothing was changed: install a newer likewise.",
                path=self.path,
            ) from None

    @property
    def layout(self) -> RecordLayout | None:
        """How inputs are laid out; None before the first decision."""
        if self._layout is None:
            event = self._last("layout")
            self._layout = None if event is None else RecordLayout.of(event.body, self.rule)
        return self._layout

    def forget_layout(self) -> None:
        self._layout = None

    @property
    def records(self) -> RecordFiles | None:
        layout = self.layout
        if layout is None:
            return None
        kind = self.format.record_type(layout.outputs, layout.dtype.itemsize)
        return RecordFiles(self.path, kind, layout.segment_rows)

    @property
    def window(self) -> str:
        event = self._last("window")
        if event is None:
            return "all"
        try:
            return RetentionWindow.of(event.body.get("keep")).text
        except BadRule:
            raise event.unreadable() from None

    def erased_rows(self) -> Rows:
        """Return the rows that were erased, in order; some may have left the window since."""
        if not self._looks_only:
            return self._read_erased()
        kinds = "kind IN ('erased', 'dropped')"
        query = f"SELECT max(number) FROM event WHERE {self.format.EVENTS} AND {kinds}"
        last = self.all(query)[0][0]
        if self._erased is None or self._erased[0] != last:
            self._erased = last, self._read_erased()
        return self._erased[1]

    def _read_erased(self) -> Rows:
        rows = [row for event in self.events("erased") for row in event.get_integers("rows")]
        dropped = self._last("dropped")
        if dropped is not None and "erased" in dropped.body:
            rows += dropped.get_integers("erased")
        return np.unique(np.array(rows, np.int64))

    def words(self) -> list[Word]:
        """Return all words, in order."""
        return [_word(row) for row in self.all("SELECT * FROM word ORDER BY number")]

    def words_left(self) -> list[tuple[int, str, int]]:
        """Return number, column and code of the words that were not erased."""
        query = 'SELECT number, "column", code FROM word WHERE value IS NOT NULL ORDER BY number'
        return self.all(query)

    def superseded_rows(self) -> Rows:
        """Return the rows that were overruled, in order: they stay, but no longer count."""
        rows = [event.get_integer("row") for event in self.events("superseded")]
        return np.unique(np.array(rows, np.int64))

    def with_successors(self, rows: Rows) -> Rows:
        """Return rows and those that replaced them, which are about the same people."""
        related = set(rows.tolist())
        for event in self.events("superseded"):  # in order, so chains are followed
            if event.get_integer("row") in related:
                related.add(event.get_integer("by_row"))
        return np.array(sorted(related), np.int64)

    # Decisions

    def state(self) -> LedgerState:
        return self.format.state(self)

    def last_word(self) -> tuple[int, bytes]:
        """Return how many words there are, and the link of the last."""
        cells = self.all("SELECT * FROM word ORDER BY number DESC LIMIT 1")
        return (_word(cells[0])[0] + 1, _word(cells[0])[-1]) if cells else (0, GENESIS)

    def first_kept(self) -> int:
        """Return the first row that is still there."""
        dropped = self._last("dropped")
        return 0 if dropped is None else dropped.get_integer("first")

    def has_keys(self) -> bool:
        return self.format.has_keys(self)

    def row_of(self, key: Key) -> int | None:
        return self.format.row_of(self, key)

    def row_by_index(self, key: Key) -> int | None:
        """Return the row of a key that the index has, if the table agrees; else None."""
        return self.format.row_of(self, key, tables=("key",))

    def find_flagged(
        self, first: int, stop: int, where: str = "", values: tuple[Any, ...] = ()
    ) -> list[int]:
        """Return rows with witnesses, in order; those whose verdicts meet a condition."""
        query = f"SELECT row FROM verdict WHERE row >= ? AND row < ?{where} ORDER BY row"
        return [row for (row,) in self.all(query, first, stop, *values)]

    def runs_since(self, time: int | None) -> list[tuple[int, int]]:
        """Return runs of rows that have all decisions from a time on; all rows if it is None."""
        return self.format.runs_since(self, time)

    def names(self, kind: str) -> NameTable:
        """Return models, or sources, by code: from events "model" or "source"."""
        events = self.events(kind)
        listed = tuple(str(event.body.get("name")) for event in events)
        are_texts = all(isinstance(event.body.get("name"), str) for event in events)
        if not are_texts or len(set(listed)) != len(listed):
            raise BadFile(
                f"the {kind}s of the ledger {str(self.path)!r} were altered.", path=self.path
            )
        return NameTable(listed, {name: code for code, name in enumerate(listed)})

    def decisions(
        self, first: int, stop: int, *, keys: bool, witnesses: bool = True
    ) -> StoredDecisions:
        """Return rows from `first` up to `stop`; raise BadRow if they have left the window."""
        if self.layout is None:
            raise BadFile(
                f"the ledger {str(self.path)!r} has no layout: it was altered.", path=self.path
            )
        try:
            return self.format.decisions(self, first, stop, keys=keys, witnesses=witnesses)
        except BadFile:
            self.check_window(first)
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise BadFile(
                f"a value in rows {first:,} to {stop - 1:,} of the ledger {str(self.path)!r}"
                f" cannot be read: {error}. It was altered."
            ) from None

    def check_window(self, first: int) -> None:
        """Raise BadRow if row `first` was dropped, perhaps while it was being read."""
        since = self.first_kept()
        if first < since:
            raise BadRow(
                f"row {first:,} has left the window of the ledger {str(self.path)!r}, which begins"
                f" with row {since:,} now. Open it again to see which rows there are.",
                row=first,
            ) from None

    def all_decisions(
        self, first: int, stop: int, *, witnesses: bool = False
    ) -> Iterator[StoredDecisions]:
        """Yield rows in chunks; the next is read while one is processed."""
        runs = [(start, min(start + CHUNK, stop)) for start in range(first, stop, CHUNK)]
        keys = self.has_keys()

        def read(run: tuple[int, int]) -> StoredDecisions:
            return self.decisions(*run, keys=keys, witnesses=witnesses)

        reads = map(read, runs)
        yield from reads if len(runs) < 2 else _one_ahead(reads)  # one is not worth a thread


def _one_ahead(chunks: Iterator[StoredDecisions]) -> Iterator[StoredDecisions]:
    """Yield chunks; another thread makes the next while one is processed."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, chunks, None)
        while (chunk := future.result()) is not None:
            future = pool.submit(next, chunks, None)
            yield chunk


def close_runs(rows: Iterable[int], gap: int, longest: int) -> Iterator[list[int]]:
    """Yield ascending rows in runs: a gap of a few rows is read faster than it is skipped."""
    run: list[int] = []
    for row in rows:
        if run and (row - run[-1] > gap or row - run[0] >= longest):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def event_of(number: int, at_row: Any, time: Any, kind: Any, text: Any, link: Any) -> Event:
    """Return an event; raise BadFile unless its columns are what they should be."""
    body = None
    if isinstance(text, str):
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(text)
    integers = {type(number), type(at_row), type(time)} == {int}
    readable = isinstance(kind, str) and isinstance(body, dict) and _is_digest(link)
    if not integers or not readable or not 0 <= at_row < MOST or not 0 <= number < MOST:
        raise BadFile(f"event {number} of the ledger cannot be read: it was altered.")
    return Event(number, at_row, time, kind, body or {}, text, link)


def _word(row: tuple[Any, ...]) -> Word:
    number, column, code, value, salt, commitment, link = row
    is_present = isinstance(value, str) and isinstance(salt, bytes)
    if (
        not (is_present or (value is None and salt is None))
        or not isinstance(column, str)
        or {type(number), type(code)} != {int}
        or not 0 <= code < MOST
        or not _is_digest(commitment)
        or not _is_digest(link)
        or not 0 <= number < MOST
    ):
        raise BadFile(f"word {number} of the ledger cannot be read: it was altered.")
    return number, column, code, value, salt, commitment, link


def _is_digest(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == DIGEST
