"""A program that writes a small ledger without a monitor, for faults to be put in its way.

    python feeding.py FOLDER

Without a monitor there is no compiler, so it starts at once. Decisions follow from their rows, so
whoever reads the ledger knows what must be in it. Each thing that is done is announced before and
acknowledged after, on standard output; a refusal is told, and everything is tried once more, as the
message asks.

Steps: make the ledger, two transactions (rows fill one file of records and begin the next), an
erasure, a transaction, close, open, a window's end, a transaction, close.
"""

import os
import sys
from pathlib import Path

import numpy as np

from likewise.errors import BadFile
from likewise.ledger import schema
from likewise.ledger.entries import NO_STORED_WITNESSES, WITNESS, StoredWitnesses
from likewise.ledger.store import Store
from likewise.ledger.verdict_facts import facts_of_many
from likewise.ledger.write_buffer import Entries, UnwrittenDecisions
from likewise.rule.rule import Rule

RULE = Rule("linf", 0.1, output="number")
SEGMENT = 64
LAYOUT = schema.RecordLayout(1, SEGMENT, shape=(2,), storage="float64")
PARTS = (1, 69, 20, 58)
"""How many decisions each transaction holds."""
ERASED = (3, 65)
FIRST = 64
"""The first row that stays when the window ends."""


def value(row):
    """An input and an output that no other row has."""
    return np.array([(row + 3) ** 0.5, (row + 3) ** 0.3]), (row + 3) ** 0.7


def key(row):
    return f"person {row:05}" if row % 2 else 7_000_000_000 + row


def witnesses(row):
    return np.array([(row - 1, 0.0625, 1.5)], WITNESS) if row % 5 == 4 else None


def entries(first, count):
    rows = range(first, first + count)
    inputs = np.array([value(row)[0] for row in rows])
    some = [row for row in rows if witnesses(row) is not None]
    found = np.concatenate([NO_STORED_WITNESSES.records, *map(witnesses, some)])
    decisions = UnwrittenDecisions(
        times=np.array([1_700_000_000_000_000 + 1_000_000 * row for row in rows]),
        keys=[key(row) for row in rows],
        firsts=np.zeros(count, np.int64),
        counts=np.array([int(row % 5 == 4) for row in rows]),
        witnesses=StoredWitnesses(np.array(some, np.int64) - first, found),
        facts=facts_of_many(None, count),
    )
    return Entries(
        decisions,
        inputs=inputs.view(np.uint8).reshape(count, -1),
        outputs=np.array([[value(row)[1]] for row in rows]),
        words=[("", row // 40, f"label {row // 40}") for row in rows if row % 40 == 0],
    )


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def attempt(what, action):
    """Do it, once more if it was refused; acknowledge."""
    for last in (False, True):
        say("try", what)
        try:
            result = action()
        except BadFile as error:
            say("refused", what, str(error).replace("\n", " "))
            if last:
                say("gave up")
                sys.exit(3)
        else:
            say("done", what)
            return result
    return None


def append(store, rows):
    """The decisions up to `rows`, unless they came through before."""
    store.reconnect()
    if store.records is None:
        store.set_layout(LAYOUT)
    if store.rows < rows:
        store.append(entries(store.rows, rows - store.rows))


def erase(store):
    store.reconnect()
    if not set(ERASED) <= set(store.reader.erased_rows().tolist()):
        store.erase(list(ERASED), [])
    assert store.finish_erasures()


def main(folder):
    def open_store():
        return Store(Path(folder), RULE, sync=True)

    ends = np.cumsum(PARTS).tolist()
    store = attempt("open", open_store)
    for end in ends[:2]:
        attempt(f"rows {end}", lambda end=end: append(store, end))
    attempt("erase", lambda: erase(store))
    attempt(f"rows {ends[2]}", lambda: append(store, ends[2]))
    store.close()
    store = attempt("open", open_store)
    attempt("drop", lambda: (store.reconnect(), store.drop(FIRST + 5)))
    attempt(f"rows {ends[3]}", lambda: append(store, ends[3]))
    store.close()
    say("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
