"""Erase people from a ledger: values, salts and words, in memory and in every file.

Invariant: afterwards nothing in the folder holds an erased input, output or key, in use or free.
What stays: the row's number, its time, its commitment, and verdicts that name the row.
Cost: the database is written anew, a second for a million rows, so name many people at once.
"""

from dataclasses import dataclass

from likewise.monitors.following import Following
from likewise.types import Rows


@dataclass(frozen=True)
class Erasure:
    """What was erased."""

    rows: tuple[int, ...]
    """Rows that were there until now."""
    complete: bool
    """False while a reader looks at an old state of the database. When it is done, erase the same
    rows again, or close and open the ledger."""


def erase(following: Following, wanted: Rows) -> Erasure:
    """Erase rows, in memory and on disk."""
    monitor, cargo, store = following.monitor, following.cargo, following.store
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
    complete = store.erase(wanted.tolist(), numbers)
    monitor.forget(wanted)
    cargo.drop_words(orphans)
    following.past.erase(wanted)
    return Erasure(tuple(wanted.tolist()), complete)
