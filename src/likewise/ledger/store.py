"""The writer of a ledger: decisions, words and events become one transaction at a time.

Records are written and forced to disk first, then the database commits and thereby says how many of
them count. Everything else (rows, head of the chain, words) follows from what was committed.

An exception may arrive in the middle of a transaction, or right after its COMMIT came through. So
from the beginning of one until all that it changes here has been noted, `sure` is false; whoever
finds it so drops the connection and reads the disk again. Where the disk itself failed, it must not
be believed either: what SQLite reads back may be in the system's memory only. Then nothing is
acknowledged until the log has been written into the database and that was forced to disk.

Invariant: after any failure, memory says what the disk says; nothing is half there.
Cost: for each transaction one wait for the disk for the records, one for the database.
Not here: what inputs mean, verdicts (monitor/journal.py); reading back (reader.py); what is written
where (the format's own `writing.py`).
"""

import contextlib
import os
import sqlite3
import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from likewise.errors import BadFile
from likewise.ledger import folder
from likewise.ledger.anchors import anchor_body
from likewise.ledger.create import create_ledger, first_body
from likewise.ledger.entries import Entries, EntryVerdicts, Word
from likewise.ledger.hashes import SALT, word_commitment, word_link
from likewise.ledger.layout import RecordLayout
from likewise.ledger.notes import LedgerNote
from likewise.ledger.reader import LedgerReader
from likewise.ledger.record_files import RecordFiles
from likewise.ledger.schema import check_schema, empty_internal_tables
from likewise.ledger.source_positions import POSITIONS, last_positions, positions_body
from likewise.ledger.stored import LASTING_KINDS, ChainEnd
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.tables.codec import write_word
from likewise.tables.positions import Position
from likewise.verdict.slope import SlopeQuestion

_CHECKPOINT_PAGES = 4096
_LAST = "SELECT number, link FROM event ORDER BY number DESC LIMIT 1"


class Store:
    """Appends to a ledger; holds its lock."""

    def __init__(
        self,
        path: Path,
        rule: Rule | None,
        *,
        sync: bool,
        wait: float = 0.0,
        origin: dict[str, Any] | None = None,
        marks: Rule | None = None,
        question: SlopeQuestion | None = None,
    ) -> None:
        """A new ledger under `rule`, or one that is there.

        wait    seconds to wait for a process that writes it, before that is an error
        origin  of a new ledger: what it was made of
        marks   whose models are those of `rule`, where they are not to be loaded for it
        question    of a new ledger: what its verdicts answer, if not the rule's own question
        """
        self.path = path
        self._database_path = path / folder.DATABASE
        self.sync = sync
        if not folder.exists(path):
            if rule is None:
                raise BadFile(
                    f"{str(path)!r} holds no ledger yet: give the rule of a new one.", path=path
                )
            folder.prepare(path)
        self._database: sqlite3.Connection | None = None
        self._records: RecordFiles | None = None
        self.last_time = 0
        self.positions: dict[str, Position] = {}
        """By source, the last position that is on disk."""
        self.pinned_events: dict[str, dict[str, Any]] = {}
        """By kind, the body of the event that is told again whenever earlier ones leave."""
        self.end: ChainEnd
        self.pending_link = b""
        """The link of the last event that was written, committed or not."""
        self.is_in_sync = False
        """Whether memory says what the disk says; not in a forked process, nor if the disk could
        not be read since something was cut off."""
        self._suspect = False  # whether something failed to reach the disk since it last did
        self.connections = 0
        """How often the disk was read since this store was opened."""
        self._lock = folder.WriterLock(path, wait)
        register_after_fork(self)
        try:
            if folder.exists(path):  # perhaps made just now, by another process
                self._look()
            else:
                assert rule is not None
                create_ledger(self, path, first_body(rule, origin, marks, question))
            self._connect()
            self.finish_erasures()
        except BaseException:
            self.close()
            raise

    def _look(self) -> None:
        """Before anything is written, even by SQLite: is it ours, is all there that was said?"""
        known = folder.mark_of(self.path)
        with contextlib.closing(folder.connect(self.path, write=False)) as database:
            if known is not None:
                folder.check_end(self.path, known, LedgerReader(self.path, database).state().end)

    def _drop(self) -> None:
        """Let go of the connection, and with it of a transaction that was not committed."""
        self.is_in_sync = False
        if self._records is not None:
            self._records.close()
        if self._database is not None:
            with contextlib.suppress(*folder.FAILURES):
                self.reader.close()
        self._database = self._records = None

    def _connect(self) -> None:
        """Take over what is committed."""
        self._drop()
        try:
            database = folder.connect(self.path, write=True)
            level = "FULL" if self.sync else "OFF"
            database.execute(f"PRAGMA synchronous = {level}")
            database.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        except folder.FAILURES as error:
            raise folder.unreadable(self.path, error) from None
        try:
            self.reader = LedgerReader(self.path, database)
            state = self.reader.state()
            self._unfinished = self._find_unfinished_erasures(state.first)
            positions = last_positions(self.reader)
        except BaseException:
            database.close()
            raise
        if self.connections and state.link not in (self.end.link, self.pending_link):
            database.close()
            raise self._lose("another process has written to it")
        self.first, self.judged, self.end = state.first, state.judged, state.end
        self._file = self._database_path.stat()
        self.words, self.words_link = state.words, state.words_link
        self.last_time = state.last_time
        self.positions, self._positions_told = positions
        self._codes: dict[str, dict[str, int]] = {}
        self._database = database
        self.connections += 1
        self.is_in_sync = True

    def reconnect(self) -> None:
        """Read the disk again, unless what is known of it is sure."""
        self._lock.check_process(self.path)
        if not self.is_in_sync:
            self._connect()

    def _after_fork(self) -> None:
        self.is_in_sync = (
            False  # so that the next call looks, and finds that the lock is the parent's
        )

    def distrust_memory(self) -> None:
        """Something was cut off: read the disk again before anything else."""
        self.is_in_sync = False

    @property
    def rows(self) -> int:
        """Decisions that are on disk, those that have left the window since included."""
        return self.end.rows

    def now(self) -> int:
        """The clock's time, never before that of a decision."""
        return max(clock.time_ns() // 1000, self.last_time)

    def codes(self, kind: str) -> dict[str, int]:
        """The codes of models, or sources; a transaction adds new ones."""
        if kind not in self._codes:
            self._codes[kind] = dict(self.reader.names(kind).codes)
        return self._codes[kind]

    @property
    def records(self) -> RecordFiles | None:
        """None before the first decision."""
        if self._records is None:
            self._records = self.reader.records
        return self._records

    @property
    def database(self) -> sqlite3.Connection:
        self.reconnect()
        assert self._database is not None
        return self._database

    @property
    def is_own_process(self) -> bool:
        """Not so in a process that was forked off."""
        return self._lock.is_own_process

    def check_process(self) -> None:
        """Raise BadFile in a process that was forked off."""
        self._lock.check_process(self.path)

    @property
    def is_open(self) -> bool:
        return self._lock.is_held

    def close(self) -> None:
        """Let go of the folder; of a call that was cut off, a second one does the rest."""
        try:
            self._drop()
        finally:
            self._lock.release()

    # Transactions

    @contextlib.contextmanager
    def _transaction(self, what: str) -> Iterator[sqlite3.Connection]:
        """All of it, or, with BadFile, nothing of it; memory follows the disk either way."""
        if not self.is_in_sync:
            self.reconnect()
        database = self._database
        assert database is not None
        try:
            if self._suspect:
                self._force_to_disk(database)
            self.is_in_sync = False  # until `_advance` has noted what was committed
            database.execute("BEGIN IMMEDIATE")
            self._check_ownership(database)
            yield database
            database.execute("COMMIT")
        except (*folder.FAILURES, OSError) as error:
            raise self._recover_from(what, error) from None
        except BaseException:
            self._drop()
            raise

    def _check_ownership(self, database: sqlite3.Connection) -> None:
        """Raise LostLock, for good, unless nobody else can have written since this store did."""
        last = database.execute(_LAST).fetchone()
        if last != (self.end.events - 1, self.end.link):
            raise self._lose("another process has written to it")
        if not self._lock.is_own():
            raise self._lose("its lock was deleted or replaced")
        if not os.path.samestat(self._database_path.stat(), self._file):
            raise self._lose("its database was replaced")

    def _lose(self, why: str) -> folder.LostLock:
        self._lock.lost = why
        return folder.LostLock(self.path, why)

    def _force_to_disk(self, database: sqlite3.Connection) -> None:
        """Have all that the log holds in the database, and that on disk.

        After a failed fsync the system takes what it could not write for written, and says so when
        asked again. So everything is written once more, to another place. (On a full disk this also
        empties the log, which may hold most of what room there is.)
        """
        _, waiting, done = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if waiting != done:
            raise sqlite3.OperationalError("a reader holds back what has to be written again")
        self._suspect = False

    def _recover_from(self, what: str, error: Exception) -> BadFile:
        """After a failure to write: a commit may have come through all the same, so look."""
        self._suspect = True
        reason = getattr(error, "strerror", None) or str(error)
        try:
            self._connect()
        except folder.LostLock as lost:
            return lost
        except BadFile as again:
            reason = f"{reason}; then {again}"
        advice = (
            "then send it again" if self.is_in_sync else "then see by `rows` whether it was taken"
        )
        return BadFile(
            f"the ledger {str(self.path)!r} could not take {what}: {reason}. Make room or mend the"
            f" disk, {advice}.",
            path=self.path,
        )

    def append(self, entries: Entries) -> None:
        """Decisions behind those that are there; BadFile, and none of them, if that fails."""
        if not self.is_in_sync:
            self.reconnect()
        count, first = len(entries.times), self.end.rows
        if count == 0:
            return
        what = f"decision {first}" if count == 1 else f"decisions {first} to {first + count - 1}"
        end, words, last = self.end, (self.words, self.words_link), self.positions
        if entries.places is not None:
            last = last | entries.places.last_positions()
        tell = bool(last) and self._is_time_to_tell(first + count)
        try:
            with self._transaction(what) as database:
                if entries.words:
                    end, words = self._add_words(database, entries.words, end)
                end = self.reader.format.append(self, database, entries, end)
                for note in entries.notes:
                    end = self.reader.format.add_note(self, database, note, end)
                if tell:
                    told = positions_body(last)
                    end = self.reader.format.add_event(self, database, POSITIONS, told, end)
        except BadFile:
            if not self.is_in_sync or self.end.rows != first + count:
                raise
            try:  # the disk complained, but all of it is there, if it can be made sure of
                self._force_to_disk(self.database)
            except (*folder.FAILURES, OSError) as error:
                raise self._recover_from(what, error) from None
            return
        self.words, self.words_link = words
        if not entries.waiting:
            self.judged = end.rows
        self.last_time = max(self.last_time, int(entries.times.max()))
        if tell:
            self._positions_told = end.rows
        elif not self.positions:
            self._positions_told = first
        self.positions = last
        self._advance(end)

    def _is_time_to_tell(self, rows: int) -> bool:
        """Whether an event is to repeat the last positions, once there are so many rows."""
        assert self.records is not None
        since = self._positions_told if self.positions else self.end.rows
        return rows - since >= self.records.segment_rows

    def judge(self, judged: EntryVerdicts) -> None:
        """Verdicts of decisions that wait for them, the next ones in order."""
        assert judged.first == self.judged
        stop = judged.first + len(judged)
        what = f"the verdicts of decisions {judged.first} to {stop - 1}"
        with self._transaction(what) as database:
            end = self.reader.format.judge(self, database, judged, self.end)
        self.judged = stop
        self._advance(end)

    def event(
        self, kind: str, body: dict[str, Any], positions: dict[str, Position] | None = None
    ) -> None:
        """Something else that happened, chained as decisions are.

        positions: where sources stand after it, told in the same transaction
        """
        with self._transaction(f"the event {kind!r}") as database:
            end = self.reader.format.add_event(self, database, kind, body, self.end)
            if positions:
                told = positions_body(self.positions | positions)
                end = self.reader.format.add_event(self, database, POSITIONS, told, end)
        if positions:
            self.positions = self.positions | positions
            self._positions_told = self.rows
        self._advance(end)

    def pin_event(self, kind: str, body: dict[str, Any]) -> None:
        """An event of which the last is to be in the ledger, whatever leaves a window."""
        self.event(kind, body)
        self.pinned_events[kind] = body

    def note(self, note: LedgerNote) -> None:
        """What somebody says of a decision, chained; its words can be destroyed."""
        with self._transaction(f"the event {note.kind!r}") as database:
            end = self.reader.format.add_note(self, database, note, self.end)
        self._advance(end)

    def tell_positions(self, positions: dict[str, Position]) -> None:
        """Go on behind these positions, though no row here has them."""
        last = self.positions | positions
        if not last:
            return
        with self._transaction("positions") as database:
            told = positions_body(last)
            end = self.reader.format.add_event(self, database, POSITIONS, told, self.end)
        self.positions = last
        self._positions_told = self.rows
        self._advance(end)

    def begin_at(self, first: int, body: dict[str, Any]) -> None:
        """Of a ledger without rows: the next is row `first`, and an event says so."""
        assert self.rows == 0
        start = ChainEnd(first, self.end.events, self.end.link)
        with self._transaction("its beginning") as database:
            end = self.reader.format.add_event(self, database, "dropped", body, start)
        self.first = self.judged = first
        self._advance(end)

    def set_layout(self, layout: RecordLayout) -> None:
        """What a record's input holds; settled by the first decision."""
        self.event("layout", layout.to_dict())
        self.reader.forget_layout()

    def _advance(self, end: ChainEnd) -> None:
        """A transaction came through: so far is the chain now. Nothing is read for it."""
        self.end = end
        self.is_in_sync = True
        self._lock.mark(end)

    def _add_words(
        self, database: sqlite3.Connection, words: list[Word], end: ChainEnd
    ) -> tuple[ChainEnd, tuple[int, bytes]]:
        """The chain after it, and how many words there are then, and their chain."""
        number, link = self.words, self.words_link
        for column, code, value in words:
            text = write_word(value, f"a value of {column!r}" if column else "the output")
            salt = os.urandom(SALT)
            committed = word_commitment(salt, text)
            link = word_link(link, number, column, code, committed)
            database.execute(
                "INSERT INTO word VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, column, code, text, salt, committed, link),
            )
            number += 1
        body = {"words": number, "link": link.hex()}
        end = self.reader.format.add_event(self, database, "words", body, end)
        return end, (number, link)

    # Taking away

    def erase(self, rows: list[int], words: list[int], since: list[int] | None = None) -> bool:
        """Destroy values and salts of rows, and words that no other row has.

        Whether all of it is gone; what a reader still looks at stays in the log until it is done.
        What fails or is cut short half way is finished by `finish_erasures`.

        since: of rows that were erased in another ledger, how many rows there were then
        """
        self._erase("an erasure", rows, words, since)
        self._unfinished += [row for row in rows if row >= self.first]
        return self.finish_erasures()

    def _erase(
        self, what: str, rows: list[int], words: list[int], since: list[int] | None = None
    ) -> None:
        with self._transaction(what) as database:
            check_schema(self.path, database)
            empty_internal_tables(database)
            body: dict[str, Any] = {"rows": rows, "words": words}
            if since is not None:
                body["since"] = since
            if rows and (marks := self.reader.format.key_marks(self.reader, rows)):
                body["marks"] = marks
            end = self.reader.format.add_event(self, database, "erased", body, self.end)
            if rows:
                self.reader.format.erase(database, rows)
            database.executemany(
                "UPDATE word SET value = NULL, salt = NULL WHERE number = ?",
                ((word,) for word in words),
            )
        self._advance(end)

    def finish_erasures(self) -> bool:
        """Leave nothing of erased rows in any file; whether that is so.

        The database is written anew: SQLite's `secure_delete` leaves copies, whole or in part, of
        keys that once moved to another page. Salts come last: an erasure whose salts are there is
        known not to be finished, by a crash or by a reader that looks at an old state.
        """
        if not self._unfinished:
            return True
        assert self.records is not None
        try:
            self._check_ownership(self.database)
            self.database.execute("VACUUM")
            busy = not self._empty_log()
            for field in self.reader.format.ERASED_FIELDS:
                self.records.erase(self._unfinished, field)
            self.records.cut(self.rows)  # a transaction that was cut off may have left a copy there
            if not busy:
                self.records.erase(self._unfinished, "salt")
                self._unfinished = []
        except (*folder.FAILURES, OSError) as error:
            raise self._recover_from(
                "the end of an erasure, which goes on by itself", error
            ) from None
        return not busy

    def rewrite(self) -> None:
        """After rows have left: have the database hold no copy of them in its unused space."""
        try:
            self.database.execute("VACUUM")
        except (*folder.FAILURES, OSError) as error:
            raise self._recover_from("the end of a window", error) from None

    def empty_log(self) -> bool:
        """Have the log hold nothing, unless a reader still needs it; whether that is so."""
        database = self.database
        try:
            database.execute("PRAGMA busy_timeout = 0")  # a decision is waiting
            return self._empty_log()
        except folder.FAILURES:
            return False
        finally:
            with contextlib.suppress(*folder.FAILURES):
                database.execute(f"PRAGMA busy_timeout = {round(1000 * folder.BUSY_SECONDS)}")

    def _empty_log(self) -> bool:
        ((busy, *_),) = self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy

    def _find_unfinished_erasures(self, first: int) -> list[int]:
        """Erased rows whose salts are still there."""
        if self.records is None:
            return []
        erased = [row for row in self.reader.erased_rows().tolist() if row >= first]
        return [row for row in erased if self.records.read(row, row + 1)["salt"].any()]

    def erase_words(self, numbers: list[int]) -> None:
        """Overwrite words that no row has; the database's unused space may hold copies."""
        self._erase("the end of a window", [], numbers)

    def drop(self, first: int) -> None:
        """Rows before `first` leave, in whole files of records."""
        self.reconnect()
        assert self.records is not None
        first -= first % self.records.segment_rows
        if first <= self.first:
            return
        body = anchor_body(self.reader, first)
        with self._transaction("the end of a window") as database:
            end = self.end
            if self.positions:  # those of sources whose rows leave, and of events that do
                told = positions_body(self.positions)
                end = self.reader.format.add_event(self, database, POSITIONS, told, end)
            for kind, standing in self.pinned_events.items():
                end = self.reader.format.add_event(self, database, kind, standing, end)
            end = self.reader.format.add_event(self, database, "dropped", body, end)
            self.reader.format.drop(database, first)
            database.execute(
                f"DELETE FROM event WHERE number < ? AND kind NOT IN {LASTING_KINDS}",
                (body["event"],),
            )
        self.first = first
        self._positions_told = self.rows
        self._advance(end)
        self.drop_files()

    def drop_files(self) -> int:
        """Delete files of records whose rows have left; how many there were."""
        if self.records is None:
            return 0
        try:
            return self.records.drop(self.first)
        except OSError as error:
            raise self._recover_from("the end of a window", error) from None
