"""What a ledger's database and records say, read and put into arrays.

Used by the writer, by verification and by those who only look. Nothing here writes.

Invariant: a row is read as it was committed; what cannot be read is a BadFile that names it.
Not here: whether it was altered (verify.py).
"""

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger import chain, folder
from likewise.ledger.layout import Layout
from likewise.ledger.records import Records
from likewise.ledger.stored_witnesses import WITNESS, Kept
from likewise.ledger.window import Window
from likewise.rules.embedder import Mark
from likewise.rules.rule import Rule
from likewise.values.errors import BadFile, BadRow, BadRule
from likewise.values.keys import Key
from likewise.values.verdicts import Floats, Rows

Word = tuple[int, str, int, str | None, bytes | None, bytes, bytes]
"""Number, column, code, value as text, salt, commitment and link."""
CHUNK = 1 << 15
"""Rows that are read together."""
KEPT = ("rule", "layout", "window")
"""Kinds of events that stay when the rows before them are dropped."""
TAKING = ("erased", "dropped")
"""Kinds of events after which rows are not there any more."""
_MOST = 1 << 62

_SPAN = "FROM decision WHERE row >= ? AND row < ? ORDER BY row"
_NUMBERS = f"""
SELECT count(*), group_concat(time), group_concat(first), group_concat(ifnull(count, -1))
FROM (SELECT time, first, count {_SPAN})"""
_LABELS = f"SELECT group_concat(output) FROM (SELECT output {_SPAN})"
_DIGITS = b"0123456789,-"


class Altered(BadFile):
    """The ledger does not say what its hashes say."""

    def __init__(self, row: int | None, problem: str) -> None:
        super().__init__(f"{problem}. Nothing was changed: bring the ledger back from a copy.")
        self.row = row
        self.problem = problem


@dataclass(frozen=True)
class LedgerState:
    """Where a ledger stands."""

    first: int
    """The first row that is still there."""
    rows: int
    events: int
    words: int
    words_link: bytes
    link: bytes
    """The head of the chain."""
    last_time: int

    @property
    def mark(self) -> folder.LockMark:
        return folder.LockMark(self.rows, self.events, self.link)


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

    def whole(self, name: str) -> int:
        """A number that its body must have."""
        value = self.body.get(name)
        if type(value) is not int or not 0 <= value < _MOST:
            raise self.unreadable()
        return value

    def listed(self, name: str) -> list[int]:
        """Numbers that its body must have."""
        values = self.body.get(name)
        if not isinstance(values, list) or not all(
            type(value) is int and 0 <= value < _MOST for value in values
        ):
            raise self.unreadable()
        return values

    def unreadable(self) -> BadFile:
        return BadFile(f"event {self.number} ({self.kind!r}) of the ledger was altered.")


@dataclass(frozen=True)
class Decisions:
    """A run of rows as they are kept."""

    first: int
    times: Rows
    keys: Sequence[Key] | None
    outputs: Floats
    """NaN where erased."""
    firsts: Rows
    counts: npt.NDArray[np.uint64]
    witnesses: Kept
    records: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.times)


class LedgerReader:
    """Reads one database and its records."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self.database = database
        self._using = RLock()  # held by the thread that reads ahead, and by whoever closes
        self._layout: Layout | None = None
        self._labels = False

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
    def structure_checked(self) -> Iterator[None]:
        """Meanwhile see what no hash covers: are the database's pages and indexes whole?

        On a connection of its own, so that SQLite looks while something else is done.
        """
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(self._check_structure)
            yield
            looking.result()

    def _check_structure(self) -> None:
        with contextlib.closing(folder.connect(self.path, write=False)) as database:
            ((found,), *_) = LedgerReader(self.path, database).all("PRAGMA quick_check(1)")
        if found != "ok":
            raise BadFile(
                f"{str(self.path / folder.DATABASE)!r} is damaged: {' '.join(str(found).split())}."
                " Nothing was changed: bring it back from a copy."
            )

    def check_schema(self) -> None:
        """Raise BadFile if the database has more or other tables than its format."""
        try:
            folder.check_schema(self.path, self.database)
        except folder.FAILURES as error:
            raise folder.unreadable(self.path, error) from None

    def counts(self) -> tuple[int, int]:
        """How many decisions and witnesses the tables hold, whatever their rows are."""
        ((decisions, witnesses),) = self.all(
            "SELECT (SELECT count(*) FROM decision), (SELECT count(*) FROM witness)"
        )
        return decisions, witnesses

    # Events

    def events(self, kind: str = "") -> list[Event]:
        rows = self.all("SELECT * FROM event WHERE kind = ?1 OR ?1 = '' ORDER BY number", kind)
        return [_event(*row) for row in rows]

    def _last(self, kind: str) -> Event | None:
        found = self.events(kind)
        return found[-1] if found else None

    @property
    def rule(self) -> Rule:
        event = self._last("rule")
        text = None if event is None else event.body.get("rule")
        try:
            if isinstance(text, str) and event is not None:
                rule = Rule.from_toml(text)
                for column, embedder in rule.embedders().items():
                    embedder.record(Mark.of(event.body["embedders"][column]))
                return rule
        except (BadRule, KeyError, TypeError, ValueError):
            pass
        raise BadFile(f"the ledger {str(self.path)!r} has no rule: it was altered.")

    @property
    def layout(self) -> Layout | None:
        """None before the first decision."""
        if self._layout is None:
            event, rule = self._last("layout"), self.rule
            self._layout = None if event is None else Layout.of(event.body, rule)
            self._labels = rule.output == "label"
        return self._layout

    def forget_layout(self) -> None:
        self._layout = None

    @property
    def records(self) -> Records | None:
        layout = self.layout
        if layout is None:
            return None
        return Records(self.path, layout.dtype.itemsize, layout.segment_rows)

    @property
    def window(self) -> str:
        event = self._last("window")
        if event is None:
            return "all"
        try:
            return Window.of(event.body.get("keep")).text
        except BadRule:
            raise event.unreadable() from None

    def erased(self) -> Rows:
        """Rows that were erased, in order; some may have left the window since."""
        rows = [row for event in self.events("erased") for row in event.listed("rows")]
        return np.unique(np.array(rows, np.int64))

    # The whole

    def state(self) -> LedgerState:
        dropped = self._last("dropped")
        first = 0 if dropped is None else dropped.whole("first")
        decisions = self.all("SELECT row, time FROM decision ORDER BY row DESC LIMIT 1")
        events = self.all("SELECT * FROM event ORDER BY number DESC LIMIT 1")
        words = self.all("SELECT * FROM word ORDER BY number DESC LIMIT 1")
        if not events:
            raise BadFile(f"the ledger {str(self.path)!r} has no events: it was altered.")
        last_row, last_time = decisions[0] if decisions else (first - 1, 0)
        if {type(last_time), type(last_row)} != {int} or not first - 1 <= last_row < _MOST:
            raise BadFile(f"the last row of the ledger {str(self.path)!r} was altered.")
        last = _event(*events[0])
        number, at_row, link = last.number, last.at_row, last.link
        last_word = _word(words[0]) if words else None
        records = self.records
        if at_row <= last_row:
            if records is None:
                raise BadFile(f"the ledger {str(self.path)!r} has no layout: it was altered.")
            link = records.read(last_row, last_row + 1)["link"].tobytes()
        return LedgerState(
            first=first,
            rows=last_row + 1,
            events=number + 1,
            words=0 if last_word is None else last_word[0] + 1,
            words_link=chain.GENESIS if last_word is None else last_word[-1],
            link=link,
            last_time=last_time,
        )

    def anchor(self, first: int) -> dict[str, Any]:
        """What an event must say so that the chain can be walked from row `first` on."""
        records, state = self.records, self.state()
        assert records is not None
        ((event,),) = self.all(
            "SELECT coalesce(min(number), ?2) FROM event WHERE at_row >= ?1", first, state.events
        )
        return {
            "first": first,
            "link": records.read(first - 1, first)["link"].tobytes().hex(),
            "event": event,
            "words": state.words,
            "words_link": state.words_link.hex(),
            "erased_words": [
                number for (number,) in self.all("SELECT number FROM word WHERE value IS NULL")
            ],
            "kept": {
                str(one.number): digest(one)
                for one in self.events()
                if one.number < event and one.kind in KEPT
            },
        }

    def words(self) -> list[Word]:
        """All, in order."""
        return [_word(row) for row in self.all("SELECT * FROM word ORDER BY number")]

    def words_left(self) -> list[tuple[int, str, int]]:
        """Number, column and code of those that were not erased."""
        query = 'SELECT number, "column", code FROM word WHERE value IS NOT NULL ORDER BY number'
        return self.all(query)

    # Decisions

    def has_keys(self) -> bool:
        return bool(self.all("SELECT EXISTS (SELECT 1 FROM decision WHERE key IS NOT NULL)")[0][0])

    def decisions(self, first: int, stop: int, *, keys: bool, witnesses: bool = True) -> Decisions:
        """Rows from `first` up to `stop`; BadRow if they have left the window since."""
        try:
            return self._decisions(first, stop, keys=keys, witnesses=witnesses)
        except BadFile:
            self._check_window(first)
            raise

    def _decisions(self, first: int, stop: int, *, keys: bool, witnesses: bool) -> Decisions:
        layout, records = self.layout, self.records
        if layout is None or records is None:
            raise BadFile(f"the ledger {str(self.path)!r} has no layout: it was altered.")
        span = (first, stop)
        ((there, times, firsts, counts),) = self.all(_NUMBERS, *span)
        if there != stop - first:
            rows = {row for (row,) in self.all(f"SELECT row {_SPAN}", *span)}
            gone = next((row for row in range(first, stop) if row not in rows), first)
            raise BadFile(f"row {gone:,} of the ledger {str(self.path)!r} is missing or twice.")
        try:
            found = Decisions(
                first=first,
                times=_integers(times, there),
                keys=_keys(self.all(f"SELECT key {_SPAN}", *span)) if keys else None,
                outputs=self._outputs(span, layout.outputs),
                firsts=_integers(firsts, there),
                counts=_integers(counts, there).astype(np.uint64),
                witnesses=self._witnesses(first, stop) if witnesses else Kept.none(),
                records=records.read(first, stop),
            )
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, BadFile):
                raise
            raise BadFile(
                f"something between rows {first:,} and {stop:,} of the ledger {str(self.path)!r}"
                f" cannot be read: {error}. It was altered."
            ) from None
        return found

    def _check_window(self, first: int) -> None:
        """Raise BadRow if row `first` was dropped, maybe while it was being read."""
        dropped = self._last("dropped")
        since = 0 if dropped is None else dropped.whole("first")
        if first < since:
            raise BadRow(
                f"row {first:,} has left the window of the ledger {str(self.path)!r}, which begins"
                f" with row {since:,} now. Open it again to see which rows there are."
            ) from None

    def _outputs(self, span: tuple[int, int], width: int) -> Floats:
        if self._labels and width == 1:
            ((listed,),) = self.all(_LABELS, *span)
            with contextlib.suppress(ValueError):  # else some are erased, and NULL
                return _integers(listed, span[1] - span[0]).astype(np.float64).reshape(-1, 1)
        return _outputs(self.all(f"SELECT output {_SPAN}", *span), width)

    def all_decisions(
        self, first: int, stop: int, *, witnesses: bool = False
    ) -> Iterator[Decisions]:
        """Rows in chunks; the next is read, by SQLite mostly, while one is worked on."""
        keys = self.has_keys()

        def read(start: int) -> Decisions:
            end = min(start + CHUNK, stop)
            return self.decisions(start, end, keys=keys, witnesses=witnesses)

        with ThreadPoolExecutor(1) as pool:
            starts = range(first, stop, CHUNK)
            reading = [pool.submit(read, start) for start in starts[:1]]
            for start in starts[1:]:
                chunk = reading.pop().result()
                reading.append(pool.submit(read, start))
                yield chunk
            for last in reading:
                yield last.result()

    def _witnesses(self, first: int, stop: int) -> Kept:
        """The kept witnesses of a run of rows."""
        rows = self.all(
            "SELECT row, place, witness, input_distance, output_distance FROM witness"
            " WHERE row >= ? AND row < ? ORDER BY row, place",
            first,
            stop,
        )
        if not rows:
            return Kept.none()
        columns = list(zip(*rows, strict=True))
        if {type(number) for column in columns[:3] for number in column} != {int}:
            raise ValueError("a witness is no whole number, or has no place")
        owners = np.array(columns[0], np.int64) - first
        if owners[0] < 0 or owners[-1] >= stop - first or (np.diff(owners) < 0).any():
            raise ValueError("witnesses are not in order")
        found = np.zeros(len(rows), WITNESS)
        for name, column in zip(WITNESS.names or (), columns[2:], strict=True):
            found[name] = column
        kept = Kept(owners, found)
        astray = np.flatnonzero(kept.places != np.array(columns[1], np.int64))
        if len(astray):
            row = first + int(owners[astray[0]])
            raise Altered(row, f"row {row:,}: a witness is not in its place")
        return kept


def digest(event: Event) -> str:
    """Of an event that stays when the chain through it is dropped."""
    return hashlib.sha256(f"{event.kind}\0{event.text}".encode()).hexdigest()


def _event(number: int, at_row: Any, time: Any, kind: Any, text: Any, link: Any) -> Event:
    """An event, if its columns are what they should be."""
    body = None
    if isinstance(text, str):
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(text)
    whole = {type(number), type(at_row), type(time)} == {int}
    told = isinstance(kind, str) and isinstance(body, dict) and _is_digest(link)
    if not whole or not told or not 0 <= at_row < _MOST or not 0 <= number < _MOST:
        raise BadFile(f"event {number} of the ledger cannot be read: it was altered.")
    return Event(number, at_row, time, kind, body or {}, text, link)


def _word(row: tuple[Any, ...]) -> Word:
    number, column, code, value, salt, commitment, link = row
    there = isinstance(value, str) and isinstance(salt, bytes)
    if (
        not (there or (value is None and salt is None))
        or not isinstance(column, str)
        or {type(number), type(code)} != {int}
        or not 0 <= code < _MOST
        or not _is_digest(commitment)
        or not _is_digest(link)
        or not 0 <= number < _MOST
    ):
        raise BadFile(f"word {number} of the ledger cannot be read: it was altered.")
    return number, column, code, value, salt, commitment, link


def _is_digest(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == chain.DIGEST


def _integers(listed: Any, count: int) -> Rows:
    """A column that SQLite wrote as one text: a fifth of the time of a value at a time."""
    text = str(listed or "").encode()
    if text.translate(None, _DIGITS) or text.count(b",") != max(0, count - 1):
        raise ValueError("a time or a count is no whole number")
    numbers = np.fromstring(text, np.int64, sep=",")
    if len(numbers) != count:
        raise ValueError("a time or a count is missing")
    return numbers


def _keys(cells: Sequence[tuple[Any]]) -> list[Key]:
    keys = [key for (key,) in cells]
    if not {str, int, type(None)}.issuperset(map(type, keys)):
        raise ValueError("a key is neither text nor a whole number")
    return keys


def _outputs(cells: Sequence[tuple[Any]], width: int) -> Floats:
    if width == 1:
        return np.array(cells, np.float64).reshape(-1, 1)
    missing = np.full(width, np.nan).astype("<f8").tobytes()
    joined = b"".join(missing if cell is None else cell for (cell,) in cells)
    return np.frombuffer(joined, "<f8").astype(np.float64).reshape(-1, width)
