"""Define the tables of a ledger's database by version of the format, and check them.

Not here: what they mean (docs/ledger-format.md).
"""

import contextlib
import sqlite3
from functools import cache
from pathlib import Path

from likewise.errors import BadFile

FORMAT = 2
"""Version of the format in which new ledgers are written."""

_FORMAT_2 = """
CREATE TABLE event (
    number INTEGER PRIMARY KEY, at_row INTEGER NOT NULL, time INTEGER NOT NULL,
    kind TEXT NOT NULL, first INTEGER, stop INTEGER, latest INTEGER, body NOT NULL,
    link BLOB NOT NULL
);
CREATE INDEX event_kind ON event (kind, number) WHERE first IS NULL;
CREATE TABLE key (row INTEGER PRIMARY KEY, key NOT NULL);
CREATE UNIQUE INDEX key_key ON key (key);
CREATE TABLE verdict (
    row INTEGER PRIMARY KEY, time INTEGER NOT NULL, model INTEGER NOT NULL,
    count INTEGER NOT NULL, distance REAL, witnesses BLOB NOT NULL, distances BLOB, salt BLOB,
    commitment BLOB NOT NULL, review TEXT
);
CREATE INDEX verdict_model ON verdict (model, time) WHERE model >= 0;
CREATE INDEX verdict_distance ON verdict (distance);
CREATE INDEX verdict_review ON verdict (review, row) WHERE review IS NOT NULL;
CREATE TABLE member (
    "column" TEXT NOT NULL, code INTEGER NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY ("column", code, row)
) WITHOUT ROWID;
CREATE TABLE note (
    event INTEGER PRIMARY KEY, row INTEGER NOT NULL, other INTEGER, text TEXT, salt BLOB
);
CREATE INDEX note_row ON note (row);
CREATE INDEX note_other ON note (other) WHERE other IS NOT NULL;
CREATE TABLE word (
    number INTEGER PRIMARY KEY, "column" TEXT NOT NULL, code INTEGER NOT NULL, value TEXT,
    salt BLOB, commitment BLOB NOT NULL, link BLOB NOT NULL
);
CREATE INDEX word_code ON word ("column", code);
CREATE VIEW violations AS
SELECT verdict.row, strftime('%Y-%m-%dT%H:%M:%fZ', verdict.time / 1e6, 'unixepoch') AS time,
    key.key, verdict.count, verdict.distance, verdict.review
FROM verdict LEFT JOIN key ON key.row = verdict.row;
"""

SCHEMAS = {FORMAT: _FORMAT_2}
"""The schema of each format, by version. The schema of a released format is never changed."""

_PARTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_INTERNAL = {
    "sqlite_sequence": "name,seq",
    "sqlite_stat1": "tbl,idx,stat",
    "sqlite_stat2": "tbl,idx,sampleno,sample",
    "sqlite_stat3": "tbl,idx,neq,nlt,ndlt,sample",
    "sqlite_stat4": "tbl,idx,neq,nlt,ndlt,sample",
}
"""Tables that SQLite makes for itself, and their columns."""


def check_schema(folder: Path, database: sqlite3.Connection) -> None:
    """Raise BadFile unless the database has the tables, indexes and views of its format, no others.

    A trigger could keep what is erased; a view or an index could stand in for a table.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    expected = _parts_of_schema(version)
    parts = set(database.execute(_PARTS)) - _internal_parts()
    if parts == expected:
        return
    more = [f"the {part[0]} {part[1]}" for part in parts - expected]
    missing = [f"no {part[0]} {part[1]} as it should be" for part in expected - parts]
    raise BadFile(
        f"the tables of the ledger {str(folder)!r} are not those of its format (it has"
        f" {', '.join(sorted(more + missing)[:3])}): they were altered. Nothing was changed: bring"
        " it back from a copy."
    )


def empty_internal_tables(database: sqlite3.Connection) -> None:
    """Empty SQLite's own tables: its statistics may hold samples of keys."""
    for _, name, *_ in _internal_parts().intersection(database.execute(_PARTS)):
        database.execute(f"DELETE FROM {name}")


@cache
def _internal_parts() -> frozenset[tuple[str, str, str, str | None]]:
    return frozenset(
        ("table", name, name, f"CREATE TABLE {name}({columns})")
        for name, columns in _INTERNAL.items()
    )


@cache
def _parts_of_schema(version: int) -> frozenset[tuple[str, str, str, str | None]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMAS.get(version, ""))
        return frozenset(database.execute(_PARTS))
