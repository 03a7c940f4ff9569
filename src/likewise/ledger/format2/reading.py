"""Read format 2: records hold what every decision has, the database what is looked up.

The database has one event for each run of rows, keys by row, and the verdicts with witnesses.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from likewise.errors import BadFile
from likewise.ledger.entries import NO_STORED_WITNESSES, WITNESS, StoredWitnesses
from likewise.ledger.format2.chain import SECRET, key_mark
from likewise.ledger.protocol import FormatReader
from likewise.ledger.stored import MOST, LedgerState, StoredDecisions
from likewise.tables.array_types import Floats, Rows
from likewise.tables.keys import Key

EVENTS = "first IS NULL"
"""A condition that distinguishes events from runs of rows."""

_SPAN = "row >= ? AND row < ? ORDER BY row"
_KEYS = f"SELECT row, key FROM key WHERE {_SPAN}"
_VERDICTS = f"SELECT row, witnesses, distances FROM verdict WHERE {_SPAN}"


def state(reader: FormatReader) -> LedgerState:
    events = reader.all("SELECT number, at_row, link FROM event ORDER BY number DESC LIMIT 1")
    if not events:
        raise BadFile(
            f"the ledger {str(reader.path)!r} has no events: it was altered.", path=reader.path
        )
    number, rows, link = events[0]
    first = reader.first_kept()
    judged = reader.all(
        "SELECT stop FROM event WHERE kind IN ('judged', 'verdicts') ORDER BY number DESC LIMIT 1"
    )
    upto = judged[0][0] if judged else first
    times = reader.all(
        "SELECT latest FROM event WHERE latest IS NOT NULL ORDER BY number DESC LIMIT 1"
    )
    latest = times[0][0] if times else 0
    whole = {type(number), type(rows), type(upto), type(latest)} == {int}
    if not whole or not isinstance(link, bytes) or not first <= rows < MOST or upto > rows:
        raise BadFile(
            f"the last event of the ledger {str(reader.path)!r} was altered.", path=reader.path
        )
    words, words_link = reader.last_word()
    records = reader.records
    if rows > first:  # is the file there, and as long as that?
        if records is None:
            raise BadFile(
                f"the ledger {str(reader.path)!r} has no layout: it was altered.", path=reader.path
            )
        records.read(rows - 1, rows)
    return LedgerState(
        first=first,
        rows=rows,
        judged=max(first, upto),
        events=number + 1,
        words=words,
        words_link=words_link,
        link=link,
        last_time=latest,
    )


def has_keys(reader: FormatReader) -> bool:
    return bool(reader.all("SELECT EXISTS (SELECT 1 FROM key)")[0][0])


def row_of(
    reader: FormatReader, key: Key, tables: Sequence[str] = ("key", "key NOT INDEXED")
) -> int | None:
    """Return the row of a key; the table decides, since no hash covers its index."""
    for source in tables:
        for (row,) in reader.all(f"SELECT row FROM {source} WHERE key = ?", key):
            if reader.all("SELECT 1 FROM key NOT INDEXED WHERE row = ? AND key = ?", row, key):
                return int(row)
    return None


def erased_keys(reader: FormatReader) -> Callable[[Key], bool] | None:
    """Return a function that tells whether a row's key was erased; None if none was."""
    first, events = reader.first_kept(), reader.events("erased")
    marks = {mark for event in events for row, mark in event.marks().items() if row >= first}
    if not marks:
        return None
    secret = key_secret(reader)
    return lambda key: key_mark(secret, key) in marks


def key_secret(reader: FormatReader) -> bytes:
    """Return the secret that marks of erased keys are made with."""
    event = reader.events("rule")[0]
    try:
        return bytes.fromhex(event.body[SECRET])
    except (KeyError, TypeError, ValueError):
        raise event.unreadable() from None


def key_marks(reader: FormatReader, rows: list[int]) -> dict[str, str]:
    """Return the marks that remain of the keys of rows, by row, once these are erased."""
    secret = key_secret(reader)
    query = "SELECT row, key FROM key WHERE row IN (SELECT value FROM json_each(?))"
    cells = reader.all(query, json.dumps(rows))
    return {str(row): key_mark(secret, key) for row, key in cells}


def groups(reader: FormatReader, inputs: Any) -> dict[str, Rows]:
    """Return the codes of inputs in each protected column, as the table `member` has them."""
    layout = reader.layout
    if layout is None or not reader.protected_columns:
        return {}
    columns = np.ascontiguousarray(inputs).view(layout.dtype).reshape(-1)
    return {name: columns[name].astype(np.int64) for name in reader.protected_columns}


def decisions(
    reader: FormatReader, first: int, stop: int, *, keys: bool, witnesses: bool
) -> StoredDecisions:
    records = reader.records
    assert records is not None
    chunk = records.read(first, stop)
    verdicts, decided = chunk["verdict"], chunk["decision"]
    return StoredDecisions(
        first=first,
        times=decided["time"].copy(),
        keys=keys_of(reader, first, stop) if keys else None,
        outputs=_outputs(reader, first, chunk["output"]),
        firsts=verdicts["first"].copy(),
        counts=verdicts["count"].copy(),
        witnesses=_witnesses(reader, first, stop) if witnesses else NO_STORED_WITNESSES,
        records=chunk,
        models=decided["model"].astype(np.int64),
        sources=decided["source"].astype(np.int64),
        positions=decided["position"].copy(),
        facts=verdicts["facts"].copy(),
    )


def keys_of(reader: FormatReader, first: int, stop: int) -> list[Key]:
    """Return the key of each row, None for none."""
    cells = reader.all(_KEYS, first, stop)
    stored = [key for _, key in cells]
    if not set(map(type, stored)) <= {str, int}:
        raise ValueError("a key is neither text nor a whole number")
    if [row for row, _ in cells] == list(range(first, stop)):
        return stored
    keys: list[Key] = [None] * (stop - first)
    for row, key in cells:
        keys[row - first] = key
    return keys


def _outputs(reader: FormatReader, first: int, numbers: Floats) -> Floats:
    outputs = numbers.reshape(len(numbers), -1).astype(np.float64)
    erased = reader.erased_rows() - first
    outputs[erased[(erased >= 0) & (erased < len(outputs))]] = np.nan
    return outputs


def _witnesses(reader: FormatReader, first: int, stop: int) -> StoredWitnesses:
    """Return the stored witnesses of a run of rows; destroyed distances are NaN."""
    cells = reader.all(_VERDICTS, first, stop)
    if not cells:
        return NO_STORED_WITNESSES
    rows, row_blobs, distance_blobs = zip(*cells, strict=True)
    sizes = np.array([len(blob) // 8 for blob in row_blobs], np.int64)
    complete = [
        np.full(len(blob) // 4, np.nan).tobytes() if distances is None else distances
        for blob, distances in zip(row_blobs, distance_blobs, strict=True)
    ]
    if any(len(two) != 2 * len(blob) for blob, two in zip(row_blobs, complete, strict=True)):
        raise ValueError("there are not two distances for each witness")
    owner = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.cumsum(sizes) - sizes
    near = 2 * starts[owner] + np.arange(len(owner)) - starts[owner]
    numbers = np.frombuffer(b"".join(complete), "<f8")
    records = np.zeros(len(owner), WITNESS)
    records["row"] = np.frombuffer(b"".join(row_blobs), "<i8")
    records["input_distance"] = numbers[near]
    records["output_distance"] = numbers[near + sizes[owner]]
    return StoredWitnesses(np.array(rows, np.int64)[owner] - first, records)


def runs_since(reader: FormatReader, time: int | None) -> list[tuple[int, int]]:
    """Return one run: `latest` only grows, so all rows from the first that reaches that time."""
    first, state = reader.first_kept(), reader.state()
    if time is None or state.rows == first:
        return [(first, state.rows)]
    low, high = 0, state.events
    while low < high:  # halve the events that may be the first
        middle = (low + high) // 2
        cells = reader.all(
            "SELECT latest, number FROM event WHERE number >= ? AND latest IS NOT NULL"
            " ORDER BY number LIMIT 1",
            middle,
        )
        if not cells or cells[0][0] >= time:
            high = middle
        else:
            low = cells[0][1] + 1
    cells = reader.all(
        "SELECT first FROM event WHERE number >= ? AND latest IS NOT NULL ORDER BY number LIMIT 1",
        low,
    )
    return [(max(first, cells[0][0]), state.rows)] if cells else []
