"""Write a ledger: decisions, words and events, one transaction at a time.

Invariant: after any failure, memory agrees with the disk; nothing is written by half.
Cost: for each transaction one wait for the disk for the records, one for the database.
Not here: what inputs mean, verdicts (monitor/journal.py); reading (reader.py); what is written
where (format2/writing.py).
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
from likewise.ledger.entries import EntryVerdicts, Word
from likewise.ledger.hashes import SALT, word_commitment, word_link
from likewise.ledger.notes import LedgerNote
from likewise.ledger.reader import LedgerReader
from likewise.ledger.record_files import RecordFiles
from likewise.ledger.schema import RecordLayout, check_schema, empty_internal_tables
from likewise.ledger.source_positions import POSITIONS, last_positions, positions_body
from likewise.ledger.stored import LASTING_KINDS, ChainEnd
from likewise.ledger.write_buffer import Entries
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.tables.codec import write_word
from likewise.tables.positions import Position
from likewise.verdict.slope import SlopeQuestion

# Records are written and forced to disk first, then the database commits and thereby says how many
# of them count. Everything else (rows, head of the chain, words) follows from what was committed.
#
# An exception may arrive in the middle of a transaction, or right after its COMMIT succeeded. So
# from the beginning of a transaction until all its changes have been noted here, `is_in_sync` is
# false; then the next call drops the connection and reads the disk again. If the disk itself
# failed, even that is not reliable: what SQLite reads back may be in the system's memory only. Then
# nothing is acknowledged until the log has been written into the database and forced to disk.

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
        """Open a ledger, or create one under `rule`.

        wait        seconds to wait for a process that writes it, before that is an error
        origin      of a new ledger: what it was made from
        marks       a rule with the same models as `rule`, so that they need not be loaded for it
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
        """The last position on disk, by source."""
        self.pinned_events: dict[str, dict[str, Any]] = {}
        """By kind, the body of the event that is repeated whenever earlier ones are dropped."""
        self.end: ChainEnd
        self.pending_link = b""
        """The link of the last event that was written, committed or not."""
        self.is_in_sync = False
        """Whether memory agrees with the disk; false in a forked process, and if the disk could
        not be read since an interruption."""
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
        """Check, before even SQLite writes, that this is a ledger and that its end is not lost."""
        mark = folder.mark_of(self.path)
        with contextlib.closing(folder.connect(self.path, write=False)) as database:
            if mark is not None:
                folder.check_end(self.path, mark, LedgerReader(self.path, database).state().end)

    def _drop(self) -> None:
        """Close the connection, and with it a transaction that was not committed."""
        self.is_in_sync = False
        if self._records is not None:
            self._records.close()
        if self._database is not None:
            with contextlib.suppress(*folder.FAILURES):
                self.reader.close()
        self._database = self._records = None

    def _connect(self) -> None:
        """Connect and take over what is committed."""
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
        self.positions, self._positions_row = positions
        self._codes: dict[str, dict[str, int]] = {}
        self._database = database
        self.connections += 1
        self.is_in_sync = True

    def reconnect(self) -> None:
        """Read the disk again, unless memory agrees with it."""
        self._lock.check_process(self.path)
        if not self.is_in_sync:
            self._connect()

    def _after_fork(self) -> None:
        # so that the next call checks, and finds that the lock is the parent's
        self.is_in_sync = False

    def distrust_memory(self) -> None:
        """Read the disk again before anything else, since a call was interrupted."""
        self.is_in_sync = False

    @property
    def rows(self) -> int:
        """Decisions that are on disk, those that have left the window since included."""
        return self.end.rows

    def now(self) -> int:
        """Return the clock's time, never before that of a decision."""
        return max(clock.time_ns() // 1000, self.last_time)

    def codes(self, kind: str) -> dict[str, int]:
        """Return the codes of models, or sources; a transaction adds new ones."""
        if kind not in self._codes:
            self._codes[kind] = dict(self.reader.names(kind).codes)
        return self._codes[kind]

    @property
    def records(self) -> RecordFiles | None:
        """The files of records; None before the first decision."""
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
        """False in a forked process."""
        return self._lock.is_own_process

    def check_process(self) -> None:
        """Raise BadFile in a forked process."""
        self._lock.check_process(self.path)

    @property
    def is_open(self) -> bool:
        return self._lock.is_held

    def close(self) -> None:
        """Release the folder; if this is interrupted, a second call does the rest."""
        try:
            self._drop()
        finally:
            self._lock.release()

    # Transactions

    @contextlib.contextmanager
    def _transaction(self, what: str) -> Iterator[sqlite3.Connection]:
        """Commit all that the body writes, or, with BadFile, nothing; memory follows the disk."""
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
        """Raise LostLock, now and later, if another process may have written since this store."""
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
        """Write all that the log holds into the database, and force that to disk.

        After a failed fsync the system treats what it could not write as written, and reports
        success next time. So everything is written once more, to another place. (On a full disk
        this also empties the log, which may take most of the room there is.)
        """
        _, waiting, done = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if waiting != done:
            raise sqlite3.OperationalError("a reader holds back what has to be written again")
        self._suspect = False

    def _recover_from(self, what: str, error: Exception) -> BadFile:
        """Read the disk again after a failed write, whose commit may have succeeded all the same.

        Return the error to raise.
        """
        self._suspect = True
        reason = getattr(error, "strerror", None) or str(error)
        try:
            self._connect()
        except folder.LostLock as lost:
            return lost
        except BadFile as again:
            reason = f"{reason}; then {again}"
        advice = (
            "then send it again" if self.is_in_sync else "then see by `rows` whether it was stored"
        )
        return BadFile(
            f"the ledger {str(self.path)!r} could not store {what}: {reason}. Make room or repair"
            f" the disk, {advice}.",
            path=self.path,
        )

    def append(self, entries: Entries) -> None:
        """Append decisions and their source positions in one transaction.

        If that fails, raise BadFile and append none of them.
        """
        if not self.is_in_sync:
            self.reconnect()
        decisions, first = entries.decisions, self.end.rows
        count = len(decisions.times)
        if count == 0:
            return
        what = f"decision {first}" if count == 1 else f"decisions {first} to {first + count - 1}"
        end, words, positions = self.end, (self.words, self.words_link), self.positions
        if decisions.places is not None:
            positions = positions | decisions.places.last_positions()
        repeat = bool(positions) and self._are_positions_due(first + count)
        try:
            with self._transaction(what) as database:
                if entries.words:
                    end, words = self._add_words(database, entries.words, end)
                end = self.reader.format.append(self, database, entries, end)
                for note in decisions.notes:
                    end = self.reader.format.add_note(self, database, note, end)
                if repeat:
                    end = self._add_positions(database, positions, end)
        except BadFile:
            if not self.is_in_sync or self.end.rows != first + count:
                raise
            try:  # the disk reported an error, but all is there, if it can be forced to disk
                self._force_to_disk(self.database)
            except (*folder.FAILURES, OSError) as error:
                raise self._recover_from(what, error) from None
            return
        self.words, self.words_link = words
        if not entries.waiting:
            self.judged = end.rows
        self.last_time = max(self.last_time, int(decisions.times.max()))
        if repeat:
            self._positions_row = end.rows
        elif not self.positions:
            self._positions_row = first
        self.positions = positions
        self._advance(end)

    def _are_positions_due(self, rows: int) -> bool:
        """Return whether an event should repeat the last positions once there are so many rows."""
        assert self.records is not None
        since = self._positions_row if self.positions else self.end.rows
        return rows - since >= self.records.segment_rows

    def _add_positions(
        self, database: sqlite3.Connection, positions: dict[str, Position], end: ChainEnd
    ) -> ChainEnd:
        """Write an event with the last position of each source; return the new end."""
        body = positions_body(positions)
        return self.reader.format.add_event(self, database, POSITIONS, body, end)

    def judge(self, judged: EntryVerdicts) -> None:
        """Write verdicts of decisions that wait for them, the next ones in order."""
        assert judged.first == self.judged
        stop = judged.first + len(judged)
        what = f"the verdicts of decisions {judged.first} to {stop - 1}"
        with self._transaction(what) as database:
            end = self.reader.format.judge(self, database, judged, self.end)
        self.judged = stop
        self._advance(end)

    def event(
        self, kind: str, body: dict[str, Any] | None, positions: dict[str, Position] | None = None
    ) -> None:
        """Write an event of any other kind, chained as decisions are.

        body        None to write positions alone
        positions   where sources stand after it, written in the same transaction
        """
        with self._transaction(kind if body is None else f"the event {kind!r}") as database:
            end = self.end
            if body is not None:
                end = self.reader.format.add_event(self, database, kind, body, end)
            if positions:
                end = self._add_positions(database, self.positions | positions, end)
        if positions:
            self.positions = self.positions | positions
            self._positions_row = self.rows
        self._advance(end)

    def pin_event(self, kind: str, body: dict[str, Any]) -> None:
        """Write an event; the last of its kind stays in the ledger when earlier rows leave it."""
        self.event(kind, body)
        self.pinned_events[kind] = body

    def note(self, note: LedgerNote) -> None:
        """Write a note about a decision, chained; its text can be destroyed."""
        with self._transaction(f"the event {note.kind!r}") as database:
            end = self.reader.format.add_note(self, database, note, self.end)
        self._advance(end)

    def tell_positions(self, positions: dict[str, Position]) -> None:
        """Record positions that no row here has, so that sources continue behind them."""
        if positions:
            self.event(POSITIONS, None, positions)

    def begin_at(self, first: int) -> None:
        """Begin an empty ledger at row `first`, with an event that says so."""
        assert self.rows == 0
        body = anchor_body(self.reader, first)
        start = ChainEnd(first, self.end.events, self.end.link)
        with self._transaction("its beginning") as database:
            end = self.reader.format.add_event(self, database, "dropped", body, start)
        self.first = self.judged = first
        self._advance(end)

    def set_layout(self, layout: RecordLayout) -> None:
        """Write the layout of a record's input, which the first decision fixes."""
        self.event("layout", layout.to_dict())
        self.reader.forget_layout()

    def _advance(self, end: ChainEnd) -> None:
        """Note the new end of the chain after a commit, without reading anything."""
        self.end = end
        self.is_in_sync = True
        self._lock.mark(end)

    def _add_words(
        self, database: sqlite3.Connection, words: list[Word], end: ChainEnd
    ) -> tuple[ChainEnd, tuple[int, bytes]]:
        """Write words; return the end of the chain, and the number and link of the last word."""
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

        Return whether all of it is gone; what a reader still uses stays in the log until it is
        done. `finish_erasures` completes what fails or is interrupted.

        since: for rows that were erased in another ledger, how many rows there were at that time
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
        """Remove all that is left of erased rows from every file; return whether that succeeded.

        The database is rewritten: SQLite's `secure_delete` leaves copies, whole or in part, of keys
        that once moved to another page. Salts come last: an erasure whose salts are still there is
        unfinished, because of a crash or of a reader that still uses an old state.
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
            self.records.cut(self.rows)  # an interrupted transaction may have left a copy there
            if not busy:
                self.records.erase(self._unfinished, "salt")
                self._unfinished = []
        except (*folder.FAILURES, OSError) as error:
            raise self._recover_from(
                "the end of an erasure, which is retried automatically", error
            ) from None
        return not busy

    def rewrite(self) -> None:
        """Rewrite the database after rows have left, so that no copy remains in unused space."""
        try:
            self.database.execute("VACUUM")
        except (*folder.FAILURES, OSError) as error:
            raise self._recover_from("the end of a window", error) from None

    def empty_log(self) -> bool:
        """Empty the log, unless a reader still needs it; return whether that succeeded."""
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
        """Return erased rows whose salts are still there."""
        if self.records is None:
            return []
        erased = [row for row in self.reader.erased_rows().tolist() if row >= first]
        return [row for row in erased if self.records.read(row, row + 1)["salt"].any()]

    def erase_words(self, numbers: list[int]) -> None:
        """Overwrite words that no row has; the database's unused space may still hold copies."""
        self._erase("the end of a window", [], numbers)

    def drop(self, first: int) -> None:
        """Drop rows before `first`, in whole files of records."""
        self.reconnect()
        assert self.records is not None
        first -= first % self.records.segment_rows
        if first <= self.first:
            return
        body = anchor_body(self.reader, first)
        with self._transaction("the end of a window") as database:
            end = self.end
            if self.positions:  # because the rows and events that hold them may leave
                end = self._add_positions(database, self.positions, end)
            for kind, pinned in self.pinned_events.items():
                end = self.reader.format.add_event(self, database, kind, pinned, end)
            end = self.reader.format.add_event(self, database, "dropped", body, end)
            self.reader.format.drop(database, first)
            database.execute(
                f"DELETE FROM event WHERE number < ? AND kind NOT IN {LASTING_KINDS}",
                (body["event"],),
            )
        self.first = first
        self._positions_row = self.rows
        self._advance(end)
        self.drop_files()

    def drop_files(self) -> int:
        """Delete files of records whose rows have left; return how many there were."""
        if self.records is None:
            return 0
        try:
            return self.records.drop(self.first)
        except OSError as error:
            raise self._recover_from("the end of a window", error) from None
