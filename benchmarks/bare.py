"""A bare SQLite insert of the bytes that a ledger keeps: the same rows, no search and no hashes."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from likewise.ledger.reader import LedgerReader

_TABLES = """
CREATE TABLE decision (row INTEGER PRIMARY KEY, record BLOB);
CREATE TABLE verdict (
    row INTEGER PRIMARY KEY, time INTEGER, model INTEGER, count INTEGER, distance REAL,
    witnesses BLOB, distances BLOB, salt BLOB, commitment BLOB, review TEXT
);
"""


def rows_of(reader: LedgerReader, stop: int) -> tuple[list[Any], list[Any]]:
    """What a ledger keeps of each decision, as Python values: records, verdicts with witnesses."""
    records = reader.records
    assert records is not None
    decisions: list[Any] = []
    for start in range(0, stop, 1 << 15):
        kept = records.read(start, min(start + (1 << 15), stop))
        blobs = kept.view(f"V{kept.dtype.itemsize}").tolist()
        decisions += list(zip(range(start, start + len(kept)), map(bytearray, blobs), strict=True))
    verdicts = reader.all("SELECT * FROM verdict ORDER BY row")
    return decisions, [tuple(map(_as_inserted, cells)) for cells in verdicts]


def _as_inserted(cell: Any) -> Any:
    """Python's sqlite3 takes byte arrays as they are; for `bytes` it looks for an adapter first."""
    return bytearray(cell) if isinstance(cell, bytes) else cell


def insert(path: Path, decisions: list[Any], verdicts: list[Any], chunk: int, level: str) -> float:
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
        database.executemany("INSERT INTO decision VALUES (?, ?)", part)
        stop = place
        while stop < len(verdicts) and verdicts[stop][0] <= part[-1][0]:
            stop += 1
        rows = verdicts[place:stop]
        database.executemany("INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        place = stop
        database.execute("COMMIT")
    seconds = time.perf_counter() - begin
    database.close()
    return seconds
