"""Erase people from a ledger: values, salts and words, in memory and in every file.

Invariant: afterwards nothing in the folder holds an erased input, output or key, in use or free.
What stays: the row's number, its time, its commitment, and verdicts that name the row.
Cost: the database is searched for what was erased, and written anew if any of it is left.
"""

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.history.ledger.folder import DATABASE
from likewise.history.ledger.words import written
from likewise.monitors.keys import plain_key, unknown_key
from likewise.monitors.refusal import rows_of
from likewise.types import Rows

if TYPE_CHECKING:
    from likewise.monitors.ledgered import LedgerMonitor

_SHORT = 4  # bytes that may be anywhere by chance


@dataclass(frozen=True)
class Erasure:
    """What was erased."""

    rows: tuple[int, ...]
    """Rows that were there until now."""
    complete: bool
    """False while a reader holds an old state of the database open: erase again when it is done."""


def erase(ledgered: "LedgerMonitor", key: Any, rows: Any) -> Erasure:
    """Erase by key, or keys, or by row."""
    wanted = _rows(ledgered, key, rows)
    monitor, cargo, store = ledgered._monitor, ledgered._cargo, ledgered._store
    history = monitor._history
    if history is None or len(wanted) == 0:
        return Erasure((), True)
    wanted = wanted[history.alive()[wanted] != 0]
    if len(wanted) == 0:
        return Erasure((), True)
    orphans = cargo.orphans(wanted)
    known = cargo.words()
    needles = [
        written(known[column][code], "a word")
        for column, codes in orphans.items()
        for code in codes
    ]
    needles += [str(one) for one in (ledgered._key_of(int(row)) for row in wanted) if one]
    numbers = [
        number
        for number, column, code, *_ in store.reader.words()
        if code in orphans.get(column, ())
    ]
    complete = store.erase(wanted.tolist(), numbers)
    if _traces(store.path / DATABASE, needles):
        store.vacuum()
    monitor.forget(wanted)
    cargo.drop_words(orphans)
    ledgered._past.erase(wanted)
    return Erasure(tuple(wanted.tolist()), complete)


def _rows(ledgered: "LedgerMonitor", key: Any, rows: Any) -> Rows:
    if (key is None) == (rows is None):
        raise TypeError("erase takes a key, or keys, or rows")
    if rows is not None:
        return np.unique(rows_of(rows, ledgered.rows, "Nothing was erased."))
    found = []
    for one in key if isinstance(key, list | tuple | set) else [key]:
        row = ledgered.row_of(plain_key(one))
        if row is None:
            raise unknown_key(one)
        found.append(row)
    return np.unique(np.array(found, np.int64))


def _traces(path: Path, needles: list[str]) -> bool:
    """Whether any of these is left in a file."""
    wanted = [needle.encode() for needle in needles if len(needle) >= _SHORT]
    if not wanted or path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(needle) >= 0 for needle in wanted)
