"""Format 1, written: for ledgers that were begun in it, and are gone on with."""

import json
import os
import sqlite3
from itertools import repeat
from typing import Any

import numpy as np

from likewise.ledger.entries import Entries, Judged
from likewise.ledger.format1 import chain
from likewise.ledger.hashes import DIGEST, SALT, digests, event_link
from likewise.ledger.notes import Note
from likewise.ledger.protocol import Reading, Writing
from likewise.ledger.stored import NOT_JUDGED, ChainEnd
from likewise.values.errors import BadRule
from likewise.values.verdicts import Floats

ERASED_FIELDS = ["input"]
KEEPS_MODELS = False


def first_body() -> dict[str, Any]:
    return {}


def add_event(
    store: Writing, database: sqlite3.Connection, kind: str, body: dict[str, Any], end: ChainEnd
) -> ChainEnd:
    text, now = json.dumps(body, ensure_ascii=False, separators=(",", ":")), store.now()
    link = event_link(end.link, end.events, end.rows, now, kind, text)
    database.execute(
        "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)",
        (end.events, end.rows, now, kind, text, link),
    )
    return ChainEnd(end.rows, end.events + 1, link)


def add_note(store: Writing, database: sqlite3.Connection, note: Note, end: ChainEnd) -> ChainEnd:
    raise _not_kept("what is said of decisions afterwards")


def append(
    store: Writing, database: sqlite3.Connection, entries: Entries, end: ChainEnd
) -> ChainEnd:
    _refuse_what_is_not_kept(entries)
    files, first, count = store.records, end.rows, len(entries)
    assert files is not None
    salts = np.frombuffer(os.urandom(SALT * count), np.uint8).reshape(count, -1)
    outputs = entries.outputs + 0.0  # SQLite knows no negative zero
    committed = chain.commitments(salts, outputs, entries.inputs, entries.keys)
    witnesses = entries.witnesses.nearest_first()
    links = chain.links(
        end.link,
        first,
        entries.times,
        committed,
        entries.firsts,
        entries.counts,
        witnesses,
    )
    records = np.zeros(count, files.dtype)
    records["salt"], records["input"] = salts, entries.inputs
    records["commitment"], records["link"] = digests(committed), digests(links)
    files.write(first, records, sync=store.sync)
    database.executemany(
        "INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?)",
        zip(
            range(first, first + count),
            entries.times.tolist(),
            repeat(None) if entries.keys is None else entries.keys,
            _output_cells(outputs),
            entries.firsts.tolist(),
            (None if many == NOT_JUDGED else many for many in entries.counts.tolist()),
            strict=False,
        ),
    )
    # Somebody may have put witnesses there of decisions that had yet to come.
    database.execute("DELETE FROM witness WHERE row >= ? AND row < ?", (first, first + count))
    database.executemany("INSERT INTO witness VALUES (?, ?, ?, ?, ?)", witnesses.cells(first))
    return ChainEnd(first + count, end.events, links[-DIGEST:])


def judge(store: Writing, database: sqlite3.Connection, judged: Judged, end: ChainEnd) -> ChainEnd:
    raise AssertionError("in format 1 no decision waits for its verdict")


def _refuse_what_is_not_kept(entries: Entries) -> None:
    if entries.models is not None or entries.places is not None or entries.waiting:
        raise _not_kept("models, sources and decisions without a verdict")
    if entries.notes:
        raise _not_kept("what is said of decisions afterwards")


def _not_kept(what: str) -> BadRule:
    return BadRule(
        f"this ledger has format 1, which does not keep {what}. Nothing was stored: `likewise"
        " migrate OLD NEW` makes a ledger of format 2."
    )


def _output_cells(outputs: Floats) -> list[Any]:
    """One cell each: a number, whole where it is whole, or several as bytes."""
    if outputs.shape[1] > 1:
        return [row.tobytes() for row in outputs.astype("<f8")]
    column = outputs[:, 0]
    whole = column.astype(np.int64) if np.abs(column).max() < 2**53 else column
    cells: list[Any] = (whole if np.array_equal(whole, column) else column).tolist()
    return cells


def erase(database: sqlite3.Connection, reader: Reading, rows: list[int]) -> None:
    database.executemany(
        "UPDATE decision SET key = NULL, output = NULL WHERE row = ?", ((row,) for row in rows)
    )


def drop(database: sqlite3.Connection, first: int) -> None:
    database.execute("DELETE FROM decision WHERE row < ?", (first,))
    database.execute("DELETE FROM witness WHERE row < ?", (first,))


def anchor(reader: Reading, first: int) -> tuple[int, str]:
    records = reader.records
    assert records is not None
    ((number,),) = reader.all(
        "SELECT coalesce(min(number), (SELECT max(number) + 1 FROM event)) FROM event"
        " WHERE at_row >= ?",
        first,
    )
    return number, records.read(first - 1, first)["link"].tobytes().hex()


def anchored(reader: Reading, first: int) -> dict[str, Any]:
    return {}
