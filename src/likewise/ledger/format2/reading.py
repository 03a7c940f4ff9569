"""Format 2: what every decision has stands in its record, what is looked up in the database.

The database has one event for each run of rows, keys by row, and the verdicts with witnesses.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from likewise.errors import BadFile
from likewise.ledger.entries import NO_STORED_WITNESSES, WITNESS, StoredWitnesses
from likewise.ledger.format2.chain import SECRET, key_mark
from likewise.ledger.protocol import FormatReader
from likewise.ledger.stored import MOST, LedgerState, StoredDecisions
from likewise.tables.keys import Key
from likewise.tables.rows import Floats, Rows

EVENTS = "first IS NULL"
"""What tells events from runs of rows."""

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


def row_of(reader: FormatReader, key: Key) -> int | None:
    """No hash covers the database's index of keys, so the table decides."""
    for source in ("key", "key NOT INDEXED"):
        for (row,) in reader.all(f"SELECT row FROM {source} WHERE key = ?", key):
            if reader.all("SELECT 1 FROM key NOT INDEXED WHERE row = ? AND key = ?", row, key):
                return int(row)
    return None


def erased_keys(reader: FormatReader) -> Callable[[Key], bool] | None:
    """Whether a key of a row that is still there was erased; None if none was."""
    first, events = reader.first_kept(), reader.events("erased")
    marks = {mark for event in events for row, mark in event.marks().items() if row >= first}
    if not marks:
        return None
    secret = key_secret(reader)
    return lambda key: key_mark(secret, key) in marks


def key_secret(reader: FormatReader) -> bytes:
    """What marks of erased keys are made with."""
    event = reader.events("rule")[0]
    try:
        return bytes.fromhex(event.body[SECRET])
    except (KeyError, TypeError, ValueError):
        raise event.unreadable() from None


def key_marks(reader: FormatReader, rows: list[int]) -> dict[str, str]:
    """Return what is to be left of the keys of rows, by row, once these are erased."""
    secret = key_secret(reader)
    query = "SELECT row, key FROM key WHERE row IN (SELECT value FROM json_each(?))"
    found = reader.all(query, json.dumps(rows))
    return {str(row): key_mark(secret, key) for row, key in found}


def groups(reader: FormatReader, inputs: Any) -> dict[str, Rows]:
    """Return the codes of inputs in each protected column, as the table `member` has them."""
    layout, found = reader.layout, {}
    if layout is not None and reader.protected_columns:
        columns = np.ascontiguousarray(inputs).view(layout.dtype).reshape(-1)
        for name in reader.protected_columns:
            found[name] = columns[name].astype(np.int64)
    return found


def find_flagged(reader: FormatReader, first: int, stop: int) -> list[int]:
    return [row for (row,) in reader.all(f"SELECT row FROM verdict WHERE {_SPAN}", first, stop)]


def decisions(
    reader: FormatReader, first: int, stop: int, *, keys: bool, witnesses: bool
) -> StoredDecisions:
    records = reader.records
    assert records is not None
    some = records.read(first, stop)
    verdicts, decided = some["verdict"], some["decision"]
    return StoredDecisions(
        first=first,
        times=decided["time"].copy(),
        keys=keys_of(reader, first, stop) if keys else None,
        outputs=_outputs(reader, first, some["output"]),
        firsts=verdicts["first"].copy(),
        counts=verdicts["count"].copy(),
        witnesses=_witnesses(reader, first, stop) if witnesses else NO_STORED_WITNESSES,
        records=some,
        models=decided["model"].astype(np.int64),
        sources=decided["source"].astype(np.int64),
        positions=decided["position"].copy(),
        facts=verdicts["facts"].copy(),
    )


def keys_of(reader: FormatReader, first: int, stop: int) -> list[Key]:
    """The key of each row, None where it has none."""
    cells = reader.all(_KEYS, first, stop)
    given = [key for _, key in cells]
    if not set(map(type, given)) <= {str, int}:
        raise ValueError("a key is neither text nor a whole number")
    if [row for row, _ in cells] == list(range(first, stop)):
        return given
    keys: list[Key] = [None] * (stop - first)
    for row, key in cells:
        keys[row - first] = key
    return keys


def _outputs(reader: FormatReader, first: int, numbers: Floats) -> Floats:
    outputs = numbers.reshape(len(numbers), -1).astype(np.float64)
    gone = reader.erased_rows() - first
    outputs[gone[(gone >= 0) & (gone < len(outputs))]] = np.nan
    return outputs


def _witnesses(reader: FormatReader, first: int, stop: int) -> StoredWitnesses:
    """The kept witnesses of a run of rows; those whose distances were destroyed have NaN."""
    cells = reader.all(_VERDICTS, first, stop)
    if not cells:
        return NO_STORED_WITNESSES
    rows, named, far = zip(*cells, strict=True)
    return kept_of(np.array(rows, np.int64) - first, named, far)


def kept_of(owners: Rows, named: Any, distances: Any) -> StoredWitnesses:
    """Witnesses by owner, from the blobs of rows and distances of each owner."""
    sizes = np.array([len(some) // 8 for some in named], np.int64)
    whole = [
        np.full(len(some) // 4, np.nan).tobytes() if told is None else told
        for some, told in zip(named, distances, strict=True)
    ]
    if any(len(told) != 2 * len(some) for some, told in zip(named, whole, strict=True)):
        raise ValueError("there are not two distances for each witness")
    owned = np.repeat(np.arange(len(owners)), sizes)
    starts = np.cumsum(sizes) - sizes
    place = np.arange(len(owned)) - starts[owned]
    near = 2 * starts[owned] + place
    numbers = np.frombuffer(b"".join(whole), "<f8")
    found = np.zeros(len(owned), WITNESS)
    found["row"] = np.frombuffer(b"".join(named), "<i8")
    found["input_distance"] = numbers[near]
    found["output_distance"] = numbers[near + sizes[owned]]
    return StoredWitnesses(owners[owned], found)


def runs_since(reader: FormatReader, time: int | None) -> list[tuple[int, int]]:
    """One run: `latest` only grows, so all from the first that reaches that time on."""
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
