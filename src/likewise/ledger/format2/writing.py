"""Write format 2: records first, then, in one transaction, what is looked up and the events.

A run never spans two files of records, so that a window can drop whole files with their runs.
"""

import json
import os
from collections.abc import Iterable, Mapping
from itertools import pairwise, repeat
from sqlite3 import Connection
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.entries import NO_CODE, Codes, EntryVerdicts
from likewise.ledger.format2 import chain
from likewise.ledger.format2.reading import groups
from likewise.ledger.hashes import DIGEST, SALT, digests, event_link, sha256, word_commitment
from likewise.ledger.notes import LedgerNote
from likewise.ledger.protocol import FormatReader, FormatWriter
from likewise.ledger.source_positions import PAIR
from likewise.ledger.stored import NOT_JUDGED, ChainEnd
from likewise.ledger.write_buffer import Entries
from likewise.tables.array_types import Rows
from likewise.tables.keys import Key

ERASED_FIELDS = ["output", "input"]
_MARKED = "UPDATE verdict SET distance = NULL, distances = NULL, salt = NULL WHERE row = ?"
_REVIEWED_WHOLE = """
UPDATE note SET text = NULL, salt = NULL WHERE row = ? AND other IS NULL
AND (SELECT kind FROM event WHERE number = note.event) = 'review'"""
"""A review of all that a decision contradicts is also about each of them."""


def first_body() -> dict[str, Any]:
    """Return what the first event says beside the rule."""
    return {chain.SECRET: os.urandom(SALT).hex()}


# Events


def add_event(
    store: FormatWriter, database: Connection, kind: str, body: dict[str, Any], end: ChainEnd
) -> ChainEnd:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return _add(store, database, end, kind, text, end.rows)


def _add(
    store: FormatWriter,
    database: Connection,
    end: ChainEnd,
    kind: str,
    body: str | bytes,
    at_row: int,
    run: tuple[int | None, int | None, int | None] = (None, None, None),
) -> ChainEnd:
    """Write one more event; return the new end of the chain.

    run: for a run of rows its first row, the one after the last, and the decisions' latest time
    """
    now = store.now()
    link = store.pending_link = event_link(end.link, end.events, at_row, now, kind, body)
    database.execute(
        "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (end.events, at_row, now, kind, *run, body, link),
    )
    return ChainEnd(at_row, end.events + 1, link)


def add_note(
    store: FormatWriter, database: Connection, note: LedgerNote, end: ChainEnd
) -> ChainEnd:
    """Write an event with text beside it that can be destroyed."""
    salt = os.urandom(SALT)
    body = {**note.body, "note": word_commitment(salt, note.text).hex()}
    database.execute(
        "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?)",
        (end.events, note.row, note.other, note.text, salt),
    )
    if note.review is not None:
        mark = None if note.review == "open" else note.review
        database.execute("UPDATE verdict SET review = ? WHERE row = ?", (mark, note.row))
    return add_event(store, database, note.kind, body, end)


# Decisions and verdicts


def append(store: FormatWriter, database: Connection, entries: Entries, end: ChainEnd) -> ChainEnd:
    """Write decisions, with their verdicts unless they are still to be judged."""
    files, decisions, first = store.records, entries.decisions, end.rows
    assert files is not None
    models: Codes | int = NO_CODE
    sources: Codes | int = NO_CODE
    count, places, keys = len(decisions.times), decisions.places, decisions.keys
    if decisions.models is not None:
        models, end = _codes(store, database, "model", decisions.models, end)
    if places is not None:
        pairs = dict.fromkeys(places.pairs, PAIR)
        sources, end = _codes(store, database, "source", places.sources, end, pairs)
    records = np.zeros(count, files.dtype)
    salts = np.frombuffer(os.urandom(SALT * count), np.uint8).reshape(count, -1)
    outputs = entries.outputs.reshape(count, -1)
    committed = chain.commitments(salts, outputs, entries.inputs, keys)
    records["salt"] = salts
    records["output"] = outputs.reshape(records["output"].shape)
    records["input"] = entries.inputs
    decided = records["decision"]
    decided["commitment"] = digests(committed)
    decided["time"], decided["model"], decided["source"] = decisions.times, models, sources
    if places is not None:
        decided["position"] = places.numbers
    judged = None if entries.waiting else entries.to_verdicts(first)
    if judged is not None:
        _fill_verdicts(records["verdict"], judged)
    else:
        records["verdict"]["count"] = NOT_JUDGED
    files.write(first, records, sync=store.sync)
    for table in ("key", "verdict"):  # rows that were inserted from outside
        database.execute(f"DELETE FROM {table} WHERE row >= ?", (first,))
    if keys is not None:
        keyed: Iterable[tuple[int, Key]] = zip(range(first, first + count), keys, strict=True)
        if None in keys:
            keyed = (pair for pair in keyed if pair[1] is not None)
        database.executemany("INSERT INTO key VALUES (?, ?)", keyed)
    committed_distances, latest = b"", store.last_time
    if judged is not None:
        committed_distances = _add_verdicts(store, database, judged, records)
    for _, start, stop in files.spans(first, first + count):
        part = records[start - first : stop - first]
        latest = max(latest, int(part["decision"]["time"].max()))
        if judged is None:
            content: tuple[bytes | memoryview, ...] = (chain.pack_fields(part, "decision"),)
        else:
            verdicts = _verdict_content(judged, start, stop, committed_distances)
            content = (chain.pack_fields(part, "decision", "verdict"), *verdicts)
        kind = chain.DECISIONS if judged is None else chain.JUDGED
        digest = chain.run_digest(start, stop, *content)
        end = _add(store, database, end, kind, digest, stop, (start, stop, latest))
    return end


def judge(
    store: FormatWriter, database: Connection, judged: EntryVerdicts, end: ChainEnd
) -> ChainEnd:
    """Write verdicts of decisions that were accepted before."""
    files, first, stop = store.records, judged.first, judged.first + len(judged)
    assert files is not None
    judged = judged.by_row()
    records = files.read(first, stop)
    _fill_verdicts(records["verdict"], judged)
    files.write(first, records, sync=store.sync)
    committed = _add_verdicts(store, database, judged, records)
    for _, start, upto in files.spans(first, stop):
        part = chain.pack_fields(records[start - first : upto - first], "verdict")
        content = (part, *_verdict_content(judged, start, upto, committed))
        digest = chain.run_digest(start, upto, *content)
        end = _add(store, database, end, chain.VERDICTS, digest, end.rows, (start, upto, None))
    return end


def _codes(
    store: FormatWriter,
    database: Connection,
    kind: str,
    names: list[str | None],
    end: ChainEnd,
    more: Mapping[str, dict[str, str]] = MappingProxyType({}),
) -> tuple[Codes, ChainEnd]:
    """Return the codes of models or sources; write an event for each new one.

    more: what else that event says, by name
    """
    codes = store.codes(kind)
    for name in dict.fromkeys(names):
        if name is not None and name not in codes:
            end = add_event(store, database, kind, {"name": name, **more.get(name, {})}, end)
            codes[name] = len(codes)
    return np.array([NO_CODE if name is None else codes[name] for name in names], np.int32), end


def _fill_verdicts(verdicts: Any, judged: EntryVerdicts) -> None:
    verdicts["first"], verdicts["count"] = judged.firsts, judged.counts
    verdicts["facts"] = judged.facts


def _add_verdicts(
    store: FormatWriter, database: Connection, judged: EntryVerdicts, records: Any
) -> bytes:
    """Write verdicts with witnesses; return the commitments to their distances, joined."""
    places = np.flatnonzero(judged.counts > 0)
    if len(places) == 0:
        return b""
    owners, found = judged.witnesses.owners, judged.witnesses.records
    starts, ends = owners.searchsorted(places), owners.searchsorted(places, side="right")
    decided = records["decision"][places]
    words, begin = _salted_distances(found, starts, ends)
    some = ends > starts
    near = np.full(len(places), np.nan)  # for SQLite that is NULL
    if some.any():
        near[some] = np.minimum.reduceat(found["input_distance"], starts[some])
    # Python's sqlite3 takes byte arrays as they are; for each `bytes` it first looks for an
    # adapter, which takes as long as the rest of the insertion.
    rows, salted = bytearray(found["row"].astype("<i8").tobytes()), bytearray(words.tobytes())
    bounds = zip((8 * starts).tolist(), (8 * ends).tolist(), strict=True)
    committed, cells = bytearray(), []
    for (start, stop), (begins, ends_at) in zip(
        bounds, pairwise((8 * begin).tolist()), strict=True
    ):
        message = salted[begins:ends_at]
        commitment = sha256(message).digest()
        committed += commitment
        cells.append((rows[start:stop], message[SALT:], message[:SALT], bytearray(commitment)))
    database.executemany(
        "INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        zip(
            (judged.first + places).tolist(),
            decided["time"].tolist(),
            decided["model"].tolist(),
            judged.counts[places].tolist(),
            near.tolist(),
            *zip(*cells, strict=True),
            strict=True,
        ),
    )
    if store.reader.protected_columns:
        _add_members(store.reader, database, judged.first, places, records["input"])
    return bytes(committed)


def _salted_distances(found: Any, starts: Rows, ends: Rows) -> tuple[npt.NDArray[Any], Rows]:
    """Return what is hashed of each verdict: a new salt, input distances, output distances.

    All are in one array of 8-byte words, so that NumPy copies the distances. Also return where each
    begins, and the end.
    """
    sizes = ends - starts
    before = np.cumsum(sizes) - sizes
    begin = 2 * (np.arange(len(sizes)) + before)
    words = np.empty(2 * (len(sizes) + int(sizes.sum())), "<u8")
    salts = np.frombuffer(os.urandom(SALT * len(sizes)), "<u8").reshape(-1, 2)
    words[begin], words[begin + 1] = salts.T
    owner = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(owner)) - before[owner]
    source, into = starts[owner] + place, begin[owner] + 2 + place
    words[into] = found["input_distance"][source].astype("<f8").view("<u8")
    words[into + sizes[owner]] = found["output_distance"][source].astype("<f8").view("<u8")
    return words, np.append(begin, len(words))


def _add_members(
    reader: FormatReader, database: Connection, first: int, places: Rows, inputs: Any
) -> None:
    """Write which group each contradicting decision belongs to, for searches by group."""
    rows = (first + places).tolist()
    for name, codes in groups(reader, inputs[places]).items():
        database.executemany(
            "INSERT OR REPLACE INTO member VALUES (?, ?, ?)",
            zip(repeat(name), codes.tolist(), rows, strict=False),
        )


def _verdict_content(
    judged: EntryVerdicts, start: int, stop: int, committed: bytes
) -> tuple[bytes, bytes]:
    """Return the stored pairs, and commitments to distances, of rows `start` up to `stop`."""
    first, owners = judged.first, judged.witnesses.owners
    low, high = owners.searchsorted([start - first, stop - first])
    rows = judged.witnesses.records["row"][low:high]
    places = np.flatnonzero(judged.counts > 0)
    begin, end = places.searchsorted([start - first, stop - first])
    pairs = chain.pair_bytes(first + owners[low:high], rows)
    return pairs, committed[DIGEST * begin : DIGEST * end]


# Taking away


def erase(database: Connection, rows: list[int]) -> None:
    """Remove keys, groups and distances of rows, also from verdicts that name these rows."""
    listed = json.dumps(rows)
    erased = "(SELECT value FROM json_each(?1))"
    database.execute(
        f"UPDATE note SET text = NULL, salt = NULL WHERE row IN {erased} OR other IN {erased}",
        (listed,),
    )
    for table in ("key", "member"):
        database.execute(
            f"DELETE FROM {table} WHERE row IN (SELECT value FROM json_each(?))", (listed,)
        )
    naming = _find_naming(database, np.array(rows, np.int64))
    database.executemany(_MARKED, ((row,) for row in naming))
    database.executemany(_REVIEWED_WHOLE, ((row,) for row in naming))


def _find_naming(database: Connection, gone: Rows) -> list[int]:
    """Return the verdicts of rows that are gone, and those that name one of them."""
    rows: list[int] = []
    cursor = database.execute("SELECT row, witnesses FROM verdict")
    while cells := cursor.fetchmany(1 << 15):
        owners = np.array([row for row, _ in cells])
        sizes = np.array([len(blob) // 8 for _, blob in cells])
        named = np.frombuffer(b"".join(blob for _, blob in cells), "<i8")
        touched = np.isin(owners, gone)
        touched[np.repeat(np.arange(len(owners)), sizes)[np.isin(named, gone)]] = True
        rows += owners[touched].tolist()
    return rows


def drop(database: Connection, first: int) -> None:
    for table in ("key", "verdict", "member", "note"):
        database.execute(f"DELETE FROM {table} WHERE row < ?", (first,))


def anchor(reader: FormatReader, first: int) -> tuple[int, str]:
    ((number,),) = reader.all(
        "SELECT coalesce(min(number), (SELECT max(number) + 1 FROM event)) FROM event"
        " WHERE kind IN ('decisions', 'judged') AND first >= ?",
        first,
    )
    ((link,),) = reader.all("SELECT link FROM event WHERE number = ?", number - 1)
    return number, link.hex()


def anchor_fields(reader: FormatReader, first: int) -> dict[str, Any]:
    """Return the latest time before `first`, and erased rows that remaining verdicts name."""
    times = reader.all(
        "SELECT latest FROM event WHERE latest IS NOT NULL AND stop <= ? ORDER BY number DESC"
        " LIMIT 1",
        first,
    )
    cells = reader.all("SELECT witnesses FROM verdict WHERE row >= ? AND salt IS NULL", first)
    named = np.unique(np.frombuffer(b"".join(rows for (rows,) in cells), "<i8"))
    erased = np.intersect1d(named[named < first], reader.erased_rows())
    fields = {"erased": erased.tolist()} if len(erased) else {}
    return {"latest": times[0][0] if times else 0, **fields}
