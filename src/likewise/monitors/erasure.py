"""Erase people from a ledger: values, salts and words, in memory and in every file.

Invariant: afterwards nothing in the folder holds an erased input, output or key, in use or free.
What stays: the row's number, its time, its commitment, and verdicts that name the row.
Cost: the database is written anew, a second for a million rows, so name many people at once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.monitors.keys import plain_key, unknown_key
from likewise.monitors.refusal import rows_of
from likewise.types import Rows

if TYPE_CHECKING:
    from likewise.monitors.ledgered import LedgerMonitor


@dataclass(frozen=True)
class Erasure:
    """What was erased."""

    rows: tuple[int, ...]
    """Rows that were there until now."""
    complete: bool
    """False while a reader looks at an old state of the database. When it is done, erase the same
    rows again, or close and open the ledger."""


def erase(ledgered: "LedgerMonitor", key: Any, rows: Any) -> Erasure:
    """Erase by key, or keys, or by row."""
    wanted = _rows(ledgered, key, rows)
    monitor, cargo, store = ledgered._monitor, ledgered._cargo, ledgered._store
    history = monitor._history
    if history is not None:
        wanted = wanted[history.alive()[wanted] != 0]
    if history is None or len(wanted) == 0:
        return Erasure((), store.finish_erasures())
    orphans = cargo.orphans(wanted)
    numbers = [
        number
        for number, column, code, *_ in store.reader.words()
        if code in orphans.get(column, ())
    ]
    try:
        complete = store.erase(wanted.tolist(), numbers)
    except BaseException:
        ledgered._stale = True  # on disk it may be erased
        raise
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
