"""Manage the folder of a ledger: its files, the version of its format, and its lock.

Invariant: the lock is released when its process ends, however it ends. The chain was never shorter
than the lock says; if it is now, acknowledged decisions are lost. Only their owner may read the
files, whatever the umask, and nothing is written through a link.
"""

import contextlib
import gc
import hashlib
import os
import sqlite3
import time as clock
import weakref
from collections.abc import Iterator
from pathlib import Path

from likewise.errors import BadFile, CannotRead
from likewise.ledger.record_files import SUFFIX, sync_folder
from likewise.ledger.schema import FORMAT, SCHEMAS, check_schema
from likewise.ledger.stored import ChainEnd
from likewise.runtime import private_files as private

# ledger.sqlite         rule, events, keys, contradictions, words (SQLite, in WAL mode)
# 000000000000.rows …   what has the same length for every decision, its input included
# lock                  locked, by the operating system, by the one process that writes; says which
#                       process that is, and the end of the chain at the last write

_APPLICATION = 0x6C696B65  # "like", so that `file` and other tools can tell
DATABASE, LOCK = "ledger.sqlite", "lock"
_OWN = (LOCK, DATABASE, *(f"{DATABASE}-{end}" for end in ("wal", "shm", "journal")))
_PAGE_CACHE_KIB = 16 << 10
BUSY_SECONDS = 5.0
"""How long the database waits for another connection."""
FAILURES = (sqlite3.Error, UnicodeError, OverflowError)
"""What Python's sqlite3 raises if a file is damaged; even its message may not be text."""
_DAMAGED = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
}
"""SQLite's codes for a damaged database; other codes mean that it could not be read."""


class BeingWritten(BadFile):
    """Says that another process, `holder`, writes the ledger."""

    code = "being-written"

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(
            f"the ledger {str(path)!r} is being written by process {holder}; one writes at a time."
            " Wait until it is done; to look at it meanwhile, use likewise.Ledger(path).",
            path=path,
        )
        self.holder = holder


class LostLock(BadFile):
    """Says that the ledger may have another writer: its lock or its contents changed."""

    code = "lost-lock"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the ledger {str(path)!r} is no longer this process's to write: {why}. Nothing was"
            " written. Close it, make sure that one process writes at a time, and open it again.",
            path=path,
        )


def exists(folder: Path) -> bool:
    """Return whether a ledger was created here; an interrupted creation does not count."""
    try:
        has_database = private.is_there(folder / DATABASE) and (folder / DATABASE).is_file()
        if not has_database or private.is_there(folder / f"{DATABASE}-journal"):
            return False  # there is a journal only during creation, before there is a log
    except OSError as error:
        raise CannotRead(
            f"{str(folder)!r} cannot be read: {error.strerror}. Nothing was changed: make sure that"
            " you may read it.",
            path=folder,
        ) from None
    try:
        with contextlib.closing(_connect(folder, "ro")) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except FAILURES:
        return True  # `connect` will say what is wrong with it
    return bool(version or tables)


def foreign_files(folder: Path) -> list[str]:
    """Return the names in a folder that are no part of a ledger."""
    names = (path.name for path in folder.iterdir())
    return sorted(name for name in names if name not in _OWN and not name.endswith(SUFFIX))


def prepare(folder: Path) -> None:
    """Make a folder for a new ledger, or accept an empty one."""
    try:
        private.make_folder(folder)
        others = [path.name for path in folder.iterdir() if path.name not in _OWN]
        if others:
            raise BadFile(
                f"{str(folder)!r} has files in it ({', '.join(sorted(others)[:3])}) but no ledger;"
                " expected a new or empty folder, or one with a ledger. Nothing was changed.",
                path=folder,
            )
        _make_files_private(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise BadFile(
            f"{str(folder)!r} cannot become a ledger: {error.strerror}. Nothing was changed.",
            path=folder,
        ) from None


def _make_files_private(folder: Path) -> None:
    """Make our files readable by their owner only, before writing; refuse links."""
    for path in folder.iterdir():
        if path.name in _OWN or path.suffix == SUFFIX:
            try:
                private.make_private(path)
            except FileNotFoundError:
                continue  # a reader's log, which went with the reader
            except OSError as error:
                raise BadFile(
                    f"the ledger {str(folder)!r} cannot be written:"
                    f" {private.explain_os_error(error)}. Nothing was changed.",
                    path=folder,
                ) from None


def create(folder: Path) -> sqlite3.Connection:
    """Connect to a new database; `create_tables` must follow."""
    os.close(private.open_private(folder / DATABASE))  # SQLite makes its other files as private
    return _connect(folder, "rwc")


def create_tables(folder: Path, database: sqlite3.Connection) -> None:
    """Begin a transaction, which the caller ends, and create the tables in it."""
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables:
        raise _foreign(folder)
    database.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION};"
        f" PRAGMA user_version = {FORMAT}; {SCHEMAS[FORMAT]}"
    )


def connect(folder: Path, *, write: bool, schema: bool = True) -> sqlite3.Connection:
    """Connect to the database of a folder; check its format and, with `schema`, its tables."""
    if not exists(folder):
        raise BadFile(f"{str(folder)!r} holds no ledger. Name the folder of one.", path=folder)
    if write:
        _make_files_private(folder)
    try:
        try:
            return _connect_checked(folder, "rw" if write else "ro", schema)
        except FAILURES:
            if write or (folder / f"{DATABASE}-wal").exists():
                raise
            # for a folder in which not even a reader may write
            return _connect_checked(folder, "ro&immutable=1", schema)
    except FAILURES as error:
        raise unreadable(folder, error) from None


def unreadable(folder: Path, error: Exception) -> BadFile:
    """Return the error for a failure of SQLite: the database is damaged, or cannot be read."""
    code = getattr(error, "sqlite_errorcode", None)
    short = code == sqlite3.SQLITE_IOERR_SHORT_READ  # it ends too early
    if isinstance(error, sqlite3.ProgrammingError) or not (
        code is None or short or code & 0xFF in _DAMAGED
    ):
        return CannotRead(
            f"{str(folder / DATABASE)!r} cannot be used: {error}. That says nothing about what is"
            " in it, and nothing was changed: make sure that it can be read and written, and try"
            " again.",
            path=folder / DATABASE,
        )
    return BadFile(
        f"{str(folder / DATABASE)!r} cannot be used: {error}. Nothing was changed: make sure that"
        " it can be read and written, or bring it back from a copy.",
        path=folder / DATABASE,
    )


def _foreign(folder: Path) -> BadFile:
    return BadFile(
        f"{str(folder / DATABASE)!r} is a database, but not a ledger's. Nothing was changed.",
        path=folder / DATABASE,
    )


def _connect_checked(folder: Path, mode: str, schema: bool) -> sqlite3.Connection:
    database = _connect(folder, mode)
    with _closed_on_error(database):
        _check(folder, database, schema)
    return database


def _check(folder: Path, database: sqlite3.Connection, schema: bool) -> None:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise _foreign(folder)
    if version not in SCHEMAS:
        advice = "install a newer likewise" if version > FORMAT else "bring it back from a copy"
        raise BadFile(
            f"the ledger {str(folder)!r} has format {version}, and this version of likewise knows"
            f" format {FORMAT} only. Nothing was changed: {advice}.",
            path=folder,
        )
    if schema:
        check_schema(folder, database)


def _connect(folder: Path, mode: str) -> sqlite3.Connection:
    database = sqlite3.connect(
        f"{(folder / DATABASE).absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_SECONDS,
    )
    with _closed_on_error(database):
        database.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
        if mode.startswith("rw"):
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA secure_delete = ON")  # freed pages keep nothing
            database.execute("PRAGMA temp_store = MEMORY")
    return database


@contextlib.contextmanager
def _closed_on_error(database: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def check_end(folder: Path, known: ChainEnd, now: ChainEnd) -> None:
    """Raise BadFile if a chain is shorter now than it was known to be, or another one."""
    shorter = now.rows < known.rows or now.events < known.events
    same_length = (now.rows, now.events) == (known.rows, known.events)
    if shorter or (same_length and known != now):
        raise BadFile(
            f"the ledger {str(folder)!r} had {known.rows:,} decisions and {known.events:,} events"
            f" when it was last written, and has {now.rows:,} and {now.events:,} now"
            f"{'' if shorter else ', which are others'}: its database, or the log beside it,"
            " was damaged or cut. Nothing was changed: bring the folder back from a copy. If"
            f" this is a copy made during writing, delete its file {LOCK!r} and open it again.",
            path=folder,
        )


def mark_of(folder: Path) -> ChainEnd | None:
    """Return the end of the chain that the lock names; None if it names none reliably."""
    try:
        file = private.open_to_read(folder / LOCK)
        try:
            content = os.read(file, 1 << 12)
        finally:
            os.close(file)
    except OSError as error:
        # on Windows a lock keeps readers out
        if error.errno in private.NO_FILE_ERRNOS or os.name == "nt":
            return None
        raise CannotRead(
            f"{str(folder / LOCK)!r} cannot be read: {error.strerror}. That says nothing about the"
            " ledger: make sure that it can be read, and try again.",
            path=folder / LOCK,
        ) from None
    with contextlib.suppress(ValueError):
        _, line, digest = content.splitlines()
        rows, events, link = line.split()
        if _digest(line) == digest:
            return ChainEnd(int(rows), int(events), bytes.fromhex(link.decode()))
    return None


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).hexdigest()[:16].encode()


class WriterLock:
    """Locks a ledger for one process at a time, at most as long as this object lives.

    wait: seconds to wait for another process that holds the lock
    """

    _file = -1

    def __init__(self, folder: Path, wait: float = 0.0) -> None:
        self._pid = os.getpid()
        self._path = path = folder / LOCK
        self.lost: str | None = None
        """Why the ledger may not be written any more, once that was found."""
        try:
            self._file = private.open_private(path)
        except OSError as error:
            raise BadFile(
                f"the ledger {str(folder)!r} cannot be written:"
                f" {private.explain_os_error(error)}. To read it without writing, use"
                " likewise.Ledger(path).",
                path=folder,
            ) from None
        self._named = f"{self._pid:<20}\n".encode()
        try:
            self._take(folder, wait)
            self._own = os.fstat(self._file)
            if not self.is_own():
                raise LostLock(folder, "its lock was deleted or replaced meanwhile")
            with contextlib.suppress(OSError):  # on a full disk it holds without a name on it
                os.pwrite(self._file, self._named, 0)
            _held_locks.add(self)
        except BaseException:
            self.release()
            raise

    def _take(self, folder: Path, wait: float) -> None:
        try:
            _lock_within(self._file, wait)
        except OSError:
            holder = os.read(self._file, 32).decode(errors="replace").split("\n")[0].strip() or "?"
            if holder != str(self._pid):
                raise BeingWritten(folder, holder) from None
            gc.collect()  # an `open` interrupted right at its end left its monitor as garbage
            try:
                _lock(self._file)
            except OSError:
                raise BeingWritten(folder, holder) from None

    def mark(self, mark: ChainEnd) -> None:
        """Write the end of the chain to the lock, after it is on disk: never more than there is.

        This is not forced to disk: it outlives the process, and lags behind after a power cut.
        """
        line = f"{mark.rows:020} {mark.events:020} {mark.link.hex()}".encode()
        with contextlib.suppress(OSError):
            os.pwrite(self._file, b"%b%b\n%b\n" % (self._named, line, _digest(line)), 0)

    @property
    def is_held(self) -> bool:
        return self._file >= 0

    def is_own(self) -> bool:
        """Return whether the file of that name is still the one that is locked."""
        try:
            return os.path.samestat(self._path.stat(), self._own)
        except OSError:
            return False

    @property
    def is_own_process(self) -> bool:
        """False in a forked process, which has no part in the lock."""
        return os.getpid() == self._pid

    def check_process(self, folder: Path) -> None:
        if self.lost is not None:
            raise LostLock(folder, self.lost)
        if not self.is_own_process:
            raise BadFile(
                f"the ledger {str(folder)!r} was opened by process {self._pid}, which this process"
                " was forked from; one writes at a time. Write there, or close it there and open it"
                " here.",
                path=folder,
            )

    def release(self) -> None:
        # A signal can arrive after the call, but not before it: a descriptor is closed once.
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        self.release()


_held_locks: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


def _release_all() -> None:
    for lock in list(_held_locks):
        lock.release()  # closes the child's copy; the parent keeps its own


if hasattr(os, "register_at_fork"):  # else a child would keep the lock of a parent that was killed
    os.register_at_fork(after_in_child=_release_all)


def _lock_within(file: int, seconds: float) -> None:
    """Lock a file as soon as no other process does; raise OSError if that takes longer."""
    until = clock.monotonic() + seconds
    while True:
        try:
            return _lock(file)
        except OSError:
            if clock.monotonic() >= until:
                raise
            clock.sleep(0.05)


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
