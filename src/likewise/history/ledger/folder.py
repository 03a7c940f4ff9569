"""The folder of a ledger: its files, its database's schema and version, and its lock.

    ledger.sqlite         rule, events, decisions, verdicts, words (SQLite, in WAL mode)
    000000000000.rows …   salts, commitments, links and inputs
    lock                  held, by the system's own means, by the one process that writes

Invariant: the lock is gone when its process is, however that ended.
"""

import contextlib
import os
import sqlite3
from pathlib import Path

from likewise.errors import BadFile
from likewise.history.ledger.records import sync_folder

FORMAT = 1
"""Version of the format; docs/ledger-format.md describes it."""
_APPLICATION = 0x6C696B65  # "like", so that `file` and other tools can tell
DATABASE, LOCK = "ledger.sqlite", "lock"
_PAGE_CACHE_KIB = 16 << 10

_SCHEMA = """
CREATE TABLE event (
    number INTEGER PRIMARY KEY, at_row INTEGER NOT NULL, time INTEGER NOT NULL,
    kind TEXT NOT NULL, body TEXT NOT NULL, link BLOB NOT NULL
);
CREATE TABLE decision (
    row INTEGER PRIMARY KEY, time INTEGER NOT NULL, key, output,
    first INTEGER NOT NULL, count INTEGER
);
CREATE UNIQUE INDEX decision_key ON decision (key) WHERE key IS NOT NULL;
CREATE TABLE witness (
    row INTEGER NOT NULL, place INTEGER NOT NULL, witness INTEGER NOT NULL,
    input_distance REAL NOT NULL, output_distance REAL NOT NULL, PRIMARY KEY (row, place)
) WITHOUT ROWID;
CREATE TABLE word (
    number INTEGER PRIMARY KEY, "column" TEXT NOT NULL, code INTEGER NOT NULL, value TEXT,
    salt BLOB, commitment BLOB NOT NULL, link BLOB NOT NULL
);
CREATE VIEW decisions AS
SELECT decision.row, strftime('%Y-%m-%dT%H:%M:%fZ', decision.time / 1e6, 'unixepoch') AS time,
    decision.key, coalesce(word.value, decision.output) AS output, decision.first,
    decision.count, decision.output IS NULL AS erased
FROM decision LEFT JOIN word ON word."column" = '' AND word.code = decision.output;
CREATE INDEX word_code ON word ("column", code);
"""


def exists(folder: Path) -> bool:
    """Whether a ledger was made here; one whose making was cut short was not."""
    if not (folder / DATABASE).is_file():
        return False
    try:
        database = _connect(folder, "ro")
        with contextlib.closing(database):
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        return True  # and `connect` will say what is wrong with it
    return bool(version or tables)


def prepare(folder: Path) -> None:
    """Have a folder that a new ledger may go into."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own = (LOCK, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")
        others = [path.name for path in folder.iterdir() if path.name not in own]
        if others:
            raise BadFile(
                f"{str(folder)!r} has files in it ({', '.join(sorted(others)[:3])}) but no ledger;"
                " expected a new or empty folder, or one with a ledger. Nothing was changed."
            )
        sync_folder(folder.parent)
    except OSError as error:
        raise BadFile(
            f"{str(folder)!r} cannot become a ledger: {error.strerror}. Nothing was changed."
        ) from None


def create(folder: Path) -> sqlite3.Connection:
    """A new database, as one transaction that the caller ends."""
    database = _connect(folder, "rwc")
    database.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION};"
        f" PRAGMA user_version = {FORMAT}; {_SCHEMA}"
    )
    return database


def connect(folder: Path, *, write: bool) -> sqlite3.Connection:
    """The database of a folder, its format checked."""
    if not exists(folder):
        raise BadFile(f"{str(folder)!r} holds no ledger. Name the folder of one.")
    try:
        database = _connect(folder, "rw" if write else "ro")
        _check(folder, database)
    except sqlite3.Error as error:
        if write or (folder / f"{DATABASE}-wal").exists():
            raise unreadable(folder, error) from None
        database = _connect(folder, "ro&immutable=1")  # where not even a reader may write
        _check(folder, database)
    return database


def unreadable(folder: Path, error: sqlite3.Error) -> BadFile:
    return BadFile(
        f"{str(folder / DATABASE)!r} cannot be used: {error}. Nothing was changed: see that it can"
        " be read and written, or bring it back from a copy."
    )


def _check(folder: Path, database: sqlite3.Connection) -> None:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise BadFile(
            f"{str(folder / DATABASE)!r} is a database, but not a ledger's. Nothing was changed."
        )
    if version > FORMAT:
        raise BadFile(
            f"the ledger {str(folder)!r} has format {version}, and this version of likewise knows"
            f" formats up to {FORMAT}. Nothing was changed: install a newer likewise."
        )


def _connect(folder: Path, mode: str) -> sqlite3.Connection:
    database = sqlite3.connect(
        f"{(folder / DATABASE).absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=5.0,
    )
    database.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
    if mode.startswith("rw"):
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA secure_delete = ON")  # freed pages keep nothing
        database.execute("PRAGMA temp_store = MEMORY")
    return database


class WriterLock:
    """Held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise BadFile(
                f"the ledger {str(folder)!r} cannot be written: {error.strerror}. To look at it"
                " without writing, use likewise.Ledger(path)."
            ) from None
        try:
            _lock(self._file)
        except OSError:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "?"
            os.close(self._file)
            raise BadFile(
                f"the ledger {str(folder)!r} is being written by process {holder}; one writes at a"
                " time. Wait until it is done; to look at it meanwhile, use likewise.Ledger(path)."
            ) from None
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a name on it
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
