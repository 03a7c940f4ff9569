"""Format 1: decisions and witnesses are rows of the database, links stand in the records."""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.ledger.hashes import DIGEST, SALT
from likewise.ledger.protocol import Reading
from likewise.ledger.stored import MOST, Altered, Decisions, LedgerState
from likewise.ledger.stored_witnesses import WITNESS, Kept
from likewise.values.errors import BadFile
from likewise.values.keys import Key
from likewise.values.verdicts import Floats, Rows

EVENTS = "body IS NOT NULL"
"""What tells events from runs of rows, of which this format has none."""

_SPAN = "FROM decision WHERE row >= ? AND row < ? ORDER BY row"
_NUMBERS = f"""
SELECT count(*), group_concat(time), group_concat(first), group_concat(ifnull(count, -1))
FROM (SELECT time, first, count {_SPAN})"""
_LABELS = f"SELECT group_concat(output) FROM (SELECT output {_SPAN})"
_DIGITS = b"0123456789,-"


def record_type(outputs: int, input_bytes: int) -> np.dtype[Any]:
    return np.dtype(
        [
            ("salt", "u1", SALT),
            ("commitment", "u1", DIGEST),
            ("link", "u1", DIGEST),
            ("input", "u1", input_bytes),
            ("padding", "u1", -input_bytes % 8),
        ]
    )


def state(reader: Reading) -> LedgerState:
    first = reader.first_kept()
    decisions = reader.all("SELECT row, time FROM decision ORDER BY row DESC LIMIT 1")
    events = reader.all("SELECT number, at_row, link FROM event ORDER BY number DESC LIMIT 1")
    if not events:
        raise BadFile(f"the ledger {str(reader.path)!r} has no events: it was altered.")
    last_row, last_time = decisions[0] if decisions else (first - 1, 0)
    if {type(last_time), type(last_row)} != {int} or not first - 1 <= last_row < MOST:
        raise BadFile(f"the last row of the ledger {str(reader.path)!r} was altered.")
    number, at_row, link = events[0]
    words, words_link = reader.last_word()
    if at_row <= last_row:
        records = reader.records
        if records is None:
            raise BadFile(f"the ledger {str(reader.path)!r} has no layout: it was altered.")
        link = records.read(last_row, last_row + 1)["link"].tobytes()
    return LedgerState(
        first=first,
        rows=last_row + 1,
        judged=last_row + 1,
        events=number + 1,
        words=words,
        words_link=words_link,
        link=link,
        last_time=last_time,
    )


def has_keys(reader: Reading) -> bool:
    return bool(reader.all("SELECT EXISTS (SELECT 1 FROM decision WHERE key IS NOT NULL)")[0][0])


def row_of(reader: Reading, key: Key) -> int | None:
    """No hash covers the database's index of keys, so the table decides."""
    for source in ("decision", "decision NOT INDEXED"):
        for (row,) in reader.all(f"SELECT row FROM {source} WHERE key = ?", key):
            same = "SELECT 1 FROM decision NOT INDEXED WHERE row = ? AND key = ?"
            if reader.all(same, row, key):
                return int(row)
    return None


def erased_keys(reader: Reading) -> None:
    """Nothing is left of an erased key in this format."""


def flagged(reader: Reading, first: int, stop: int) -> list[int]:
    """Rows with witnesses."""
    query = "SELECT row FROM decision WHERE count > 0 AND row >= ? AND row < ? ORDER BY row"
    return [row for (row,) in reader.all(query, first, stop)]


def decisions(reader: Reading, first: int, stop: int, *, keys: bool, witnesses: bool) -> Decisions:
    layout, records = reader.layout, reader.records
    assert layout is not None and records is not None
    span = (first, stop)
    ((there, times, firsts, counts),) = reader.all(_NUMBERS, *span)
    if there != stop - first:
        rows = {row for (row,) in reader.all(f"SELECT row {_SPAN}", *span)}
        gone = next((row for row in range(first, stop) if row not in rows), first)
        raise BadFile(f"row {gone:,} of the ledger {str(reader.path)!r} is missing or twice.")
    return Decisions(
        first=first,
        times=_integers(times, there),
        keys=_keys(reader.all(f"SELECT key {_SPAN}", *span)) if keys else None,
        outputs=_all_outputs(reader, span, layout.outputs),
        firsts=_integers(firsts, there),
        counts=_integers(counts, there),
        witnesses=_witnesses(reader, first, stop) if witnesses else Kept.none(),
        records=records.read(first, stop),
    )


def _all_outputs(reader: Reading, span: tuple[int, int], width: int) -> Floats:
    if width == 1 and reader.rule.output == "label":
        ((listed,),) = reader.all(_LABELS, *span)
        with contextlib.suppress(ValueError):  # else some are erased, and NULL
            return _integers(listed, span[1] - span[0]).astype(np.float64).reshape(-1, 1)
    return _outputs(reader.all(f"SELECT output {_SPAN}", *span), width)


def _witnesses(reader: Reading, first: int, stop: int) -> Kept:
    """The kept witnesses of a run of rows."""
    rows = reader.all(
        "SELECT row, place, witness, input_distance, output_distance FROM witness"
        " WHERE row >= ? AND row < ? ORDER BY row, place",
        first,
        stop,
    )
    if not rows:
        return Kept.none()
    columns = list(zip(*rows, strict=True))
    if {type(number) for column in columns[:3] for number in column} != {int}:
        raise ValueError("a witness is no whole number, or has no place")
    owners = np.array(columns[0], np.int64) - first
    if owners[0] < 0 or owners[-1] >= stop - first or (np.diff(owners) < 0).any():
        raise ValueError("witnesses are not in order")
    found = np.zeros(len(rows), WITNESS)
    for name, column in zip(WITNESS.names or (), columns[2:], strict=True):
        found[name] = column
    kept = Kept(owners, found)
    astray = np.flatnonzero(kept.places != np.array(columns[1], np.int64))
    if len(astray):
        row = first + int(owners[astray[0]])
        raise Altered(row, f"row {row:,}: a witness is not in its place")
    return kept


def _integers(listed: Any, count: int) -> Rows:
    """A column that SQLite wrote as one text: a fifth of the time of a value at a time."""
    text = str(listed or "").encode()
    if text.translate(None, _DIGITS) or text.count(b",") != max(0, count - 1):
        raise ValueError("a time or a count is no whole number")
    numbers = np.fromstring(text, np.int64, sep=",")
    if len(numbers) != count:
        raise ValueError("a time or a count is missing")
    return numbers


def _keys(cells: Sequence[tuple[Any]]) -> list[Key]:
    keys = [key for (key,) in cells]
    if not {str, int, type(None)}.issuperset(map(type, keys)):
        raise ValueError("a key is neither text nor a whole number")
    return keys


def _outputs(cells: Sequence[tuple[Any]], width: int) -> Floats:
    if width == 1:
        return np.array(cells, np.float64).reshape(-1, 1)
    missing = np.full(width, np.nan).astype("<f8").tobytes()
    joined = b"".join(missing if cell is None else cell for (cell,) in cells)
    return np.frombuffer(joined, "<f8").astype(np.float64).reshape(-1, width)


def runs_since(reader: Reading, time: int | None) -> list[tuple[int, int]]:
    """Nothing here says which rows are how old, so all of them are looked at."""
    return [(reader.first_kept(), reader.state().rows)]
