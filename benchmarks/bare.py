"""A bare SQLite insert of the bytes that a ledger keeps: the same rows, no search and no hashes."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from likewise.ledger.reader import LedgerReader

_TABLES = """
CREATE TABLE decision (
    row INTEGER PRIMARY KEY, time INTEGER, key, output, first INTEGER, count INTEGER,
    salt BLOB, commitment BLOB, link BLOB, input BLOB
);
CREATE TABLE witness (
    row INTEGER, place INTEGER, witness INTEGER, input_distance REAL, output_distance REAL,
    PRIMARY KEY (row, place)
) WITHOUT ROWID;
"""


def rows_of(reader: LedgerReader, stop: int) -> tuple[list[Any], list[Any]]:
    """What a ledger keeps, as Python values."""
    decisions, witnesses = [], []
    records = reader.records
    assert records is not None
    for start in range(0, stop, 1 << 15):
        end = min(start + (1 << 15), stop)
        kept = records.read(start, end)
        blobs = [
            [bytes(one) for one in kept[name]] for name in ("salt", "commitment", "link", "input")
        ]
        span = (start, end)
        rows = reader.all("SELECT * FROM decision WHERE row >= ? AND row < ? ORDER BY row", *span)
        decisions += [
            (*row, *blob) for row, blob in zip(rows, zip(*blobs, strict=True), strict=True)
        ]
        witnesses += reader.all("SELECT * FROM witness WHERE row >= ? AND row < ?", *span)
    return decisions, witnesses


def insert(path: Path, decisions: list[Any], witnesses: list[Any], chunk: int, level: str) -> float:
    """Seconds to insert all of it, `chunk` decisions to a transaction."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {level}")
    database.execute("PRAGMA wal_autocheckpoint = 4096")
    database.executescript(_TABLES)
    begin, place = time.perf_counter(), 0
    for start in range(0, len(decisions), chunk):
        part = decisions[start : start + chunk]
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", part)
        stop = place
        while stop < len(witnesses) and witnesses[stop][0] <= part[-1][0]:
            stop += 1
        database.executemany("INSERT INTO witness VALUES (?, ?, ?, ?, ?)", witnesses[place:stop])
        place = stop
        database.execute("COMMIT")
    seconds = time.perf_counter() - begin
    database.close()
    return seconds
