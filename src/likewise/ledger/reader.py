"""What a ledger's database and records say, read and put into arrays.

Used by the writer, by verification and by those who only look. Nothing here writes. What differs
from format to format is asked of `format` (protocol.py).

Invariant: a row is read as it was committed; what cannot be read is a BadFile that names it.
Not here: whether it was altered (verification.py).
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from likewise.embedders.model_mark import ModelMark
from likewise.errors import BadFile, BadRow, BadRule
from likewise.ledger import folder
from likewise.ledger.formats import format_of
from likewise.ledger.hashes import DIGEST, GENESIS
from likewise.ledger.layout import RecordLayout
from likewise.ledger.record_files import RecordFiles
from likewise.ledger.schema import check_schema
from likewise.ledger.stored import MOST, Event, LedgerState, NameTable, StoredDecisions
from likewise.ledger.window import RetentionWindow
from likewise.rule.rule import Rule
from likewise.tables.keys import Key
from likewise.tables.rows import Rows
from likewise.verdict.slope import SlopeQuestion

Word = tuple[int, str, int, str | None, bytes | None, bytes, bytes]
"""Number, column, code, value as text, salt, commitment and link."""
CHUNK = 1 << 15
"""Rows that are read together."""
_DECISIVE = ("event", "word", "note")
"""Tables whose indexes a monitor reads by: what is not found there changes what it does."""


class LedgerReader:
    """Reads one database and its records."""

    def __init__(
        self, path: Path, database: sqlite3.Connection, *, looks_only: bool = False
    ) -> None:
        """looks_only: whether it sees nothing but what is committed, and so stays for good"""
        self.path = path
        self._looks_only = looks_only
        self._erased: tuple[int | None, Rows] | None = None  # up to an event
        self.database = database
        self._using = RLock()  # held by the thread that reads ahead, and by whoever closes
        self._layout: RecordLayout | None = None
        self._rule: tuple[Event, Rule] | None = None  # and the event that says so
        self.format = format_of(self.all("PRAGMA user_version")[0][0])

    def close(self) -> None:
        """Let go of the database, once a thread that still reads ahead has its answer.

        A call that was cut off leaves such a thread behind, and SQLite crashes if a connection is
        closed under it.
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
        """The database as it is at one moment, whoever writes meanwhile."""
        self.all("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(*folder.FAILURES):
                self.database.execute("ROLLBACK")

    @contextlib.contextmanager
    def structure_checked(self, *, every_index: bool) -> Iterator[None]:
        """Meanwhile see what no hash covers: are the database's pages and indexes whole?

        On a connection of its own, so that SQLite looks while something else is done.

        every_index: compare all indexes with their tables, also those by which only people look
            things up; they take microseconds for each verdict
        """
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(self._check_structure, every_index)
            yield
            looking.result()

    def _check_structure(self, every_index: bool) -> None:
        with contextlib.closing(folder.connect(self.path, write=False)) as database:
            reader = LedgerReader(self.path, database)
            checks = ["integrity_check(1)"]
            if not every_index:  # "quick" leaves out what indexes hold
                checks = ["quick_check(1)", *(f"integrity_check({name})" for name in _DECISIVE)]
            found = [str(reader.all(f"PRAGMA {check}")[0][0]) for check in checks]
        for told in found:
            if told != "ok":
                raise BadFile(
                    f"{str(self.path / folder.DATABASE)!r} is damaged: {' '.join(told.split())}."
                    " Nothing was changed: bring it back from a copy.",
                    path=self.path / folder.DATABASE,
                )

    def check_schema(self) -> None:
        """Raise BadFile if the database has more or other tables than its format."""
        try:
            check_schema(self.path, self.database)
        except folder.FAILURES as error:
            raise folder.unreadable(self.path, error) from None

    # Events

    def events(self, kind: str = "", *, first: int = 0) -> list[Event]:
        """Those of a kind, or all; runs of decisions and verdicts are not among them.

        first: the lowest number of an event that is wanted
        """
        where = f"WHERE {self.format.EVENTS} AND number >= ?{' AND kind = ?' if kind else ''}"
        query = f"SELECT number, at_row, time, kind, body, link FROM event {where} ORDER BY number"
        return [event_of(*row) for row in self.all(query, first, *([kind] if kind else []))]

    def noted_events(self, kind: str, row: int) -> list[Event]:
        """Those of a kind that people wrote of a row, in order; a few, found by their row."""
        query = (
            "SELECT number, at_row, time, kind, body, link FROM event WHERE kind = ? AND number IN"
            " (SELECT event FROM note WHERE row = ?) ORDER BY number"
        )
        return [event_of(*found) for found in self.all(query, kind, row)]

    def _last(self, kind: str) -> Event | None:
        found = self.events(kind)
        return found[-1] if found else None

    @property
    def rule(self) -> Rule:
        event = self._last("rule")
        known = self._rule
        if known is not None and known[0] == event:
            return known[1]
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
        told = None if event is None else event.body.get("question")
        try:
            return None if told is None else SlopeQuestion.of(told)
        except BadRule as error:
            raise BadFile(
                f"the ledger {str(self.path)!r} answers what this version of likewise does not"
                f" know: {error}. Nothing was changed: install a newer likewise.",
                path=self.path,
            ) from None

    @property
    def layout(self) -> RecordLayout | None:
        """None before the first decision."""
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
        """Rows that were erased, in order; some may have left the window since."""
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
        """All, in order."""
        return [_word(row) for row in self.all("SELECT * FROM word ORDER BY number")]

    def words_left(self) -> list[tuple[int, str, int]]:
        """Number, column and code of those that were not erased."""
        query = 'SELECT number, "column", code FROM word WHERE value IS NOT NULL ORDER BY number'
        return self.all(query)

    def superseded_rows(self) -> Rows:
        """Rows that were overruled, in order: they stay, and are compared with no more."""
        rows = [event.get_integer("row") for event in self.events("superseded")]
        return np.unique(np.array(rows, np.int64))

    def with_successors(self, rows: Rows) -> Rows:
        """Rows, and those that took their place: they are about the same people."""
        found = set(rows.tolist())
        for event in self.events("superseded"):  # in order, so one after another
            if event.get_integer("row") in found:
                found.add(event.get_integer("by_row"))
        return np.array(sorted(found), np.int64)

    # Decisions

    def state(self) -> LedgerState:
        return self.format.state(self)

    def last_word(self) -> tuple[int, bytes]:
        """How many words there are, and the link of the last."""
        found = self.all("SELECT * FROM word ORDER BY number DESC LIMIT 1")
        return (_word(found[0])[0] + 1, _word(found[0])[-1]) if found else (0, GENESIS)

    def first_kept(self) -> int:
        """The first row that is still there."""
        dropped = self._last("dropped")
        return 0 if dropped is None else dropped.get_integer("first")

    def has_keys(self) -> bool:
        return self.format.has_keys(self)

    def row_of(self, key: Key) -> int | None:
        return self.format.row_of(self, key)

    def row_by_index(self, key: Key) -> int | None:
        """The row of a key that the index knows, if the table agrees; no walk if it knows none."""
        for (row,) in self.all("SELECT row FROM key WHERE key = ?", key):
            if self.all("SELECT 1 FROM key NOT INDEXED WHERE row = ? AND key = ?", row, key):
                return int(row)
        return None

    def find_flagged_where(
        self, where: str, values: tuple[Any, ...], first: int, stop: int
    ) -> list[int]:
        """Rows with witnesses, in order, of which a condition on their verdicts holds."""
        if not where:
            return self.format.find_flagged(self, first, stop)
        query = f"SELECT row FROM verdict WHERE row >= ? AND row < ?{where} ORDER BY row"
        return [row for (row,) in self.all(query, first, stop, *values)]

    def runs_since(self, time: int | None) -> list[tuple[int, int]]:
        """Runs of rows that have all decisions from a time on; all rows if it is None."""
        return self.format.runs_since(self, time)

    def names(self, kind: str) -> NameTable:
        """Models, or sources, by code: of events "model" or "source"."""
        events = self.events(kind)
        listed = tuple(str(event.body.get("name")) for event in events)
        as_told = all(isinstance(event.body.get("name"), str) for event in events)
        if not as_told or len(set(listed)) != len(listed):
            raise BadFile(
                f"the {kind}s of the ledger {str(self.path)!r} were altered.", path=self.path
            )
        return NameTable(listed, {name: code for code, name in enumerate(listed)})

    def decisions(
        self, first: int, stop: int, *, keys: bool, witnesses: bool = True
    ) -> StoredDecisions:
        """Rows from `first` up to `stop`; BadRow if they have left the window since."""
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
                f"something in rows {first:,} to {stop - 1:,} of the ledger {str(self.path)!r}"
                f" cannot be read: {error}. It was altered."
            ) from None

    def check_window(self, first: int) -> None:
        """Raise BadRow if row `first` was dropped, maybe while it was being read."""
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
        """Rows in chunks; the next is read while one is worked on."""
        runs = [(start, min(start + CHUNK, stop)) for start in range(first, stop, CHUNK)]
        keys = self.has_keys()

        def read(run: tuple[int, int]) -> StoredDecisions:
            return self.decisions(*run, keys=keys, witnesses=witnesses)

        reads = map(read, runs)
        yield from reads if len(runs) < 2 else _one_ahead(reads)  # one is not worth a thread


def _one_ahead(chunks: Iterator[StoredDecisions]) -> Iterator[StoredDecisions]:
    """The same, the next made by another thread while one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = pool.submit(next, chunks, None)
            yield chunk


def event_of(number: int, at_row: Any, time: Any, kind: Any, text: Any, link: Any) -> Event:
    """An event, if its columns are what they should be."""
    body = None
    if isinstance(text, str):
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(text)
    whole = {type(number), type(at_row), type(time)} == {int}
    told = isinstance(kind, str) and isinstance(body, dict) and _is_digest(link)
    if not whole or not told or not 0 <= at_row < MOST or not 0 <= number < MOST:
        raise BadFile(f"event {number} of the ledger cannot be read: it was altered.")
    return Event(number, at_row, time, kind, body or {}, text, link)


def _word(row: tuple[Any, ...]) -> Word:
    number, column, code, value, salt, commitment, link = row
    there = isinstance(value, str) and isinstance(salt, bytes)
    if (
        not (there or (value is None and salt is None))
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
