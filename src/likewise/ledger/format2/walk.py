"""Verify format 2: walk along the events, and compare the rows of each run with its digest.

Invariant: every change after writing is found, unless every link from there to the head was
computed again; against that, keep a head elsewhere and compare.
Cost: one hash for each row, one for each verdict with witnesses, two for each run.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, repeat
from struct import unpack_from
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.anchors import begin_walk
from likewise.ledger.format2 import chain
from likewise.ledger.format2.reading import groups
from likewise.ledger.hashes import (
    DIGEST,
    GENESIS,
    SALT,
    event_link,
    find_differing,
    word_commitment,
    word_link,
)
from likewise.ledger.heads import Head, check_met, rewritten_error
from likewise.ledger.protocol import FormatReader
from likewise.ledger.stored import MOST, Altered, ChainEnd, StoredDecisions
from likewise.tables.array_types import Rows

_NAMED = "SELECT witnesses FROM verdict WHERE row = ?"
KINDS = ("review", "superseded", "truth")


def check_words(reader: FormatReader) -> None:
    """Raise Altered unless all words are as they were written, or were erased."""
    expected = {0: GENESIS}
    erased = {word for event in reader.events("erased") for word in event.get_integers("words")}
    try:
        for event in reader.events("words"):
            expected[int(event.body["words"])] = bytes.fromhex(event.body["link"])
        for event in reader.events("dropped")[-1:]:
            expected[int(event.body["words"])] = bytes.fromhex(event.body["words_link"])
            erased |= set(event.body["erased_words"])
    except (KeyError, ValueError, TypeError):
        raise Altered(None, "an event about words cannot be read") from None
    link, count = GENESIS, 0
    for number, column, code, value, salt, commitment, stored in reader.words():
        problem = f"word {number} of {column or 'the output'!r} is not as it was written"
        if number != count or not isinstance(column, str) or not isinstance(code, int):
            raise Altered(None, problem)
        if value is None or salt is None:
            if number not in erased:
                raise Altered(None, problem)
        elif len(salt) != SALT or word_commitment(salt, value) != commitment:
            raise Altered(None, problem)
        link = word_link(link, number, column, code, commitment)
        count += 1
        if link != stored or expected.get(count, link) != link:
            raise Altered(None, problem)
    if count != max(expected):
        raise Altered(None, f"there are {count} words, and there should be {max(expected)}")


def check_notes(reader: FormatReader, first: int, is_gone: Callable[[int], bool]) -> None:
    """Raise Altered unless all notes, and the marks of reviewed verdicts, are as they were written.

    first: the first row that is still there; notes on earlier ones have left with them
    """
    events = sorted(
        (event for kind in KINDS for event in reader.events(kind)), key=lambda event: event.number
    )
    events = [event for event in events if event.get_integer("row") >= first]
    notes = {event: rest for event, *rest in reader.all("SELECT * FROM note")}
    if set(notes) != {event.number for event in events}:
        raise Altered(None, "there are notes without an event, or some are missing")
    marks: dict[int, str] = {}
    for event in events:
        row, other, text, salt = notes[event.number]
        about = event.body.get("by_row" if event.kind == "superseded" else "witness")
        if (row, other) != (event.body["row"], about):
            raise Altered(row, f"event {event.number}: its note is about other rows")
        gone = is_gone(row) or (other is not None and is_gone(other))
        if not gone and event.kind == "review" and other is None:
            gone = any(map(is_gone, _named_by(reader, row)))
        if text is salt is None:
            if not gone:
                raise Altered(
                    row, f"event {event.number}: its note is gone, and no erasure says why"
                )
        elif not (isinstance(text, str) and isinstance(salt, bytes) and len(salt) == SALT) or (
            word_commitment(salt, text).hex() != event.body.get("note")
        ):
            raise Altered(row, f"event {event.number}: its note is not as it was written")
        if event.kind == "review":
            marks[row] = str(event.body.get("disposition"))
    expected = {row: mark for row, mark in marks.items() if mark != "open"}
    if dict(reader.all("SELECT row, review FROM verdict WHERE review IS NOT NULL")) != expected:
        raise Altered(None, "verdicts are marked with other reviews than the chain has")


def _named_by(reader: FormatReader, row: int) -> list[int]:
    """Return the stored witnesses of a verdict."""
    return [other for (blob,) in reader.all(_NAMED, row) for other in np.frombuffer(blob, "<i8")]


_EVENTS = """
SELECT number, at_row, time, kind, first, stop, latest, body, link FROM event
WHERE number >= ? ORDER BY number LIMIT ?"""
_VERDICTS = """
SELECT row, time, model, count, distance, witnesses, distances, salt, commitment FROM verdict
WHERE row >= ? AND row < ? ORDER BY row"""
_MEMBERS = """
SELECT code, row FROM member
WHERE "column" = ? AND (code, row) BETWEEN (?, ?) AND (?, ?) ORDER BY code, row"""
_TOGETHER = 1 << 13  # events
_ROWS = 1 << 15

Run = tuple[int, int, int | None, bytes, bool]
"""The first row and the one after the last, the latest time, digest, whether it has verdicts."""


def walk(reader: FormatReader, head: Head | None, values: bool = True) -> "Format2Walk":
    return Format2Walk(reader, head, values)


class Format2Walk:
    """Walks along a chain once, chunk by chunk."""

    def __init__(self, reader: FormatReader, head: Head | None, values: bool) -> None:
        self._reader = reader
        self._values = values
        self._wanted = head
        self._met = head is None
        self.first = self.rows = self.events = self.erased = 0
        self.end: ChainEnd | None = None
        self.judged = 0
        self._link = GENESIS
        self._flagged = self._keys = 0
        self._members: dict[str, list[npt.NDArray[np.int64]]] = defaultdict(list)
        self._latest: Any = 0

    def chunks(self) -> Iterator[StoredDecisions]:
        reader = self._reader
        state = reader.state()
        self.first = self.rows = self.judged = state.first
        self._erased = reader.erased_rows()
        self.erased = int((self._erased >= state.first).sum())
        start = begin_walk(reader)
        self.events, self._link = start.events, start.link
        for dropped in reader.events("dropped")[-1:]:
            self._latest = dropped.body.get("latest")
            if type(self._latest) is not int:
                raise dropped.unreadable()
        self._keyed = reader.has_keys()
        check_words(reader)
        self._meet()
        while self.events < state.events:
            accepted, judged = self._pass_some(state.events)
            yield from self._check_accepted(accepted)
            self._check_judged(judged)
        if (self.rows, self._link) != (state.rows, state.link) or self.judged != state.judged:
            raise Altered(None, "the end of the chain is not where it should be")
        self._check_orphans()
        self._check_members()
        check_met(self._wanted, self._met, self.first, self.rows)
        self.end = ChainEnd(self.rows, self.events, self._link)

    # Events

    def _pass_some(self, stop: int) -> tuple[list[Run], list[Run]]:
        """Walk on along some events; return their runs of decisions, and of later verdicts."""
        accepted: list[Run] = []
        judged: list[Run] = []
        rows = 0
        for event in self._reader.all(_EVENTS, self.events, _TOGETHER):
            number, at_row, time, kind, first, upto, latest, body, link = event
            if number != self.events or number >= stop:
                raise Altered(None, f"event {self.events} is missing")
            try:
                computed = event_link(self._link, number, at_row, time, kind, body)
            except Exception:  # a cell has another type than it had
                computed = b""
            if computed != link or not _makes_sense(kind, first, upto, latest, body):
                raise Altered(None, f"event {number} ({kind!r}) is not as it was written")
            self._link = computed
            self.events += 1
            if first is not None:
                run = (first, upto, latest, body, kind == chain.JUDGED)
                (judged if kind == chain.VERDICTS else accepted).append(run)
                rows += upto - first
                if kind != chain.DECISIONS and upto > self.first:
                    self._judge(first, upto)
            if kind in (chain.DECISIONS, chain.JUDGED) and upto > self.first:
                self.rows = at_row
            if at_row != max(self.rows, self.first) and at_row >= self.first:
                raise Altered(None, f"event {number} stands at the wrong row")
            self._meet()
            if rows >= _ROWS:
                break
        return accepted, judged

    def _meet(self) -> None:
        head = self._wanted
        if head is not None and head.events == self.events:
            if (head.rows, head.link) != (self.rows, self._link):
                raise rewritten_error(head, f"event {self.events - 1:,}")
            self._met = True

    # Rows

    def _check_accepted(self, runs: list[Run]) -> Iterator[StoredDecisions]:
        """Compare runs of decisions with their digests, and yield their rows."""
        runs = [run for run in runs if run[1] > self.first]
        if not runs:
            return
        first, stop = runs[0][0], runs[-1][1]
        for run, after in pairwise(runs):
            if run[1] != after[0]:
                raise Altered(run[1], f"row {run[1]:,} is missing")
        keys = self._values and self._keyed
        chunk = self._reader.decisions(first, stop, keys=keys, witnesses=False)
        if self._values:
            self._check_commitments(chunk)
        together = runs[0][4] and runs[-1][4] and all(run[4] for run in runs)
        fields = ("decision", "verdict") if together else ("decision",)
        packed = chain.pack_fields(chunk.records, *fields)
        size = len(packed) // max(1, stop - first)
        stops = [run[1] for run in runs]
        times = np.maximum.accumulate(chunk.times)[np.array(stops) - first - 1].tolist()
        contents: Iterable[tuple[bytes, ...]] = repeat(())
        if together:
            contents = _Verdicts(self, chunk.records, first, stop).contents(first, stops)
        for (start, upto, latest, body, with_verdicts), verdicts, time in zip(
            runs, contents, times, strict=False
        ):
            verdict_content = verdicts
            content = packed[(start - first) * size : (upto - first) * size]
            if with_verdicts and not together:
                part = chunk.records[start - first : upto - first]
                content = chain.pack_fields(part, "decision", "verdict")
                (verdict_content,) = _Verdicts(self, part, start, upto).contents(start, [upto])
            if chain.run_digest(start, upto, content, *verdict_content) != body:
                raise _alteration(start, upto, "time, model, verdict or place")
            self._latest = max(self._latest, time)
            if latest != self._latest:
                raise _alteration(start, upto, "latest time")
        yield chunk

    def _check_judged(self, runs: list[Run]) -> None:
        """Compare runs of verdicts that came later with their digests."""
        for start, stop, _, body, _ in runs:
            if stop <= self.first:
                continue
            chunk = self._reader.decisions(start, stop, keys=False, witnesses=False)
            (verdicts,) = _Verdicts(self, chunk.records, start, stop).contents(start, [stop])
            content = chain.pack_fields(chunk.records, "verdict")
            if chain.run_digest(start, stop, content, *verdicts) != body:
                raise _alteration(start, stop, "verdict")

    def _judge(self, start: int, stop: int) -> None:
        if start != self.judged:
            raise Altered(self.judged, f"row {self.judged:,} has no verdict, or two")
        self.judged = stop

    def _check_commitments(self, chunk: StoredDecisions) -> None:
        """Name the first row whose values do not match its commitment, unless it was erased."""
        if chunk.keys is not None:
            self._keys += len(chunk) - chunk.keys.count(None)
        for i in find_differing(*_commitments(chunk)):
            if not _is_erased(chunk, i, self._erased):
                row, what = chunk.first + i, "its input, output or key"
                raise Altered(row, f"row {row:,}: {what} is not as it was written")

    def is_gone(self, row: int) -> bool:
        return _is_among(self._erased, row)

    def name_gone(self, rows: Any) -> bool:
        return bool(np.isin(rows, self._erased).any())

    def count_flagged(self, rows: Rows, inputs: Any) -> None:
        """Note rows with witnesses, and which groups they belong to."""
        self._flagged += len(rows)
        if self._values and len(rows):
            for name, codes in groups(self._reader, inputs).items():
                self._members[name].append(np.stack([codes, rows], axis=1))

    def _check_orphans(self) -> None:
        """Raise Altered if the tables have rows that no row of the chain accounts for."""
        ((keys, flagged),) = self._reader.all(
            "SELECT (SELECT count(*) FROM key), (SELECT count(*) FROM verdict)"
        )
        if self._values and keys != self._keys:
            raise Altered(None, "there are keys of decisions that are not there")
        if flagged != self._flagged:
            raise Altered(None, "there are verdicts of decisions that are not there")
        check_notes(self._reader, self.first, self.is_gone)

    def _check_members(self) -> None:
        """Compare the groups of rows with witnesses with what their records say."""
        if not self._values:
            return
        many = 0
        for name, parts in self._members.items():
            cells = np.concatenate(parts)
            cells = cells[~np.isin(cells[:, 1], self._erased)]
            cells = cells[np.lexsort((cells[:, 1], cells[:, 0]))]
            many += len(cells)
            for start in range(0, len(cells), _ROWS):
                part = cells[start : start + _ROWS]
                bounds = part[[0, -1]].reshape(-1).tolist()
                stored = self._reader.all(_MEMBERS, name, *bounds)
                expected = list(zip(*part.T.tolist(), strict=True))
                if stored != expected:
                    odd = sorted(set(stored) ^ set(expected), key=repr)[0]
                    which = "lacks" if odd in expected else "has"
                    raise Altered(
                        odd[1], f"the table 'member' {which} row {odd[1]} of {name!r} = {odd[0]}"
                    )
        ((stored_count,),) = self._reader.all("SELECT count(*) FROM member")
        if stored_count != many:
            raise Altered(
                None, f"the table 'member' has {stored_count} rows, and should have {many}"
            )


def _commitments(chunk: StoredDecisions) -> tuple[bytes, bytes]:
    """Return the commitments computed from the values of rows, and those stored."""
    records = chunk.records
    numbers = records["output"].reshape(len(chunk), -1)
    computed = chain.commitments(records["salt"], numbers, records["input"], chunk.keys)
    return computed, np.ascontiguousarray(records["decision"]["commitment"]).tobytes()


def _is_erased(chunk: StoredDecisions, i: int, erased: Rows) -> bool:
    """Return whether a row that does not match its commitment was erased, and holds nothing.

    Its record is overwritten after the database says that it is erased; the salt comes last.
    """
    if not _is_among(erased, chunk.first + i):
        return False
    record = chunk.records[i]
    keyless = chunk.keys is None or chunk.keys[i] is None
    empty = not record["input"].any() and not record["output"].any()
    return bool(keyless and (record["salt"].any() or empty))


def _is_among(rows: Rows, row: int) -> bool:
    at = rows.searchsorted(row)
    return bool(at < len(rows) and rows[at] == row)


class _Verdicts:
    """Holds the verdicts with witnesses of a run of rows, after comparing each with its record."""

    def __init__(self, walk: Format2Walk, records: Any, first: int, stop: int) -> None:
        verdicts, decided = records["verdict"], records["decision"]
        places = np.flatnonzero(verdicts["count"] > 0)
        self._rows = first + places
        cells = walk._reader.all(_VERDICTS, first, stop)
        stored = [cell[0] for cell in cells]
        if stored != self._rows.tolist():
            odd = sorted(set(stored) ^ set(self._rows.tolist()))[0]
            raise Altered(odd, f"row {odd:,}: its verdict is missing, or its record has none")
        expected = zip(
            decided["time"][places].tolist(),
            decided["model"][places].tolist(),
            verdicts["count"][places].tolist(),
            strict=True,
        )
        sizes, named, committed = [], [], []
        for cell, same in zip(cells, expected, strict=True):
            self._check(walk, cell, same)
            sizes.append(len(cell[5]) // 8)
            named.append(cell[5])
            committed.append(cell[8])
        witnesses = np.frombuffer(b"".join(named), "<i8")
        owners = np.repeat(self._rows, sizes)
        astray = np.flatnonzero((np.diff(witnesses) <= 0) & (np.diff(owners) == 0))
        if len(astray):
            row = int(owners[astray[0]])
            raise Altered(row, f"row {row:,}: its witnesses are not named in order of rows")
        self._pairs = chain.pair_bytes(owners, witnesses)
        self._ends = np.cumsum([0, *sizes])
        self._committed = b"".join(committed)
        walk.count_flagged(self._rows, records["input"][places])

    @staticmethod
    def _check(walk: Format2Walk, cell: Any, same: tuple[int, int, int]) -> None:
        row, time, model, count, nearest, named, distances, salt, commitment = cell
        whole = isinstance(named, bytes) and len(named) % 8 == 0 and isinstance(commitment, bytes)
        if not whole or len(commitment) != DIGEST or (time, model, count) != same:
            raise Altered(row, f"row {row:,}: its verdict is not as it was written")
        if len(named) // 8 > count:
            raise Altered(row, f"row {row:,}: it has more witnesses than it counts")
        if isinstance(distances, bytes) and isinstance(salt, bytes):
            sizes = (len(salt), len(distances)) == (SALT, 2 * len(named))
            held = sizes and chain.distance_commitment(salt, distances) == commitment
            if not held or nearest != _least(distances, len(named) // 8):
                raise Altered(row, f"row {row:,}: its distances are not as they were written")
        elif (distances, salt, nearest) != (None, None, None) or not (
            walk.is_gone(row) or walk.name_gone(np.frombuffer(named, "<i8"))
        ):
            raise Altered(row, f"row {row:,}: its distances are gone, and no erasure says why")

    def contents(self, first: int, stops: list[int]) -> Iterator[tuple[bytes, bytes]]:
        """Yield what is hashed beside the records of consecutive runs, which end at `stops`."""
        places = self._rows.searchsorted([first, *stops])
        pairs = pairwise((chain.PAIR_BYTES * self._ends[places]).tolist())
        committed = pairwise((DIGEST * places).tolist())
        for (start, stop), (begin, end) in zip(pairs, committed, strict=True):
            yield self._pairs[start:stop], self._committed[begin:end]


def _least(distances: bytes, many: int) -> float | None:
    """Return the least of so many input distances; None if there are no witnesses."""
    if many == 0 or len(distances) < 8 * many:
        return None
    least: float = min(unpack_from(f"<{many}d", distances))
    return least


def _makes_sense(kind: Any, first: Any, stop: Any, latest: Any, body: Any) -> bool:
    """Return whether a run of rows says which rows, and any other event does not."""
    if kind not in (chain.DECISIONS, chain.VERDICTS, chain.JUDGED):
        return (first, stop, latest) == (None, None, None) and isinstance(body, str)
    timed = latest is None if kind == chain.VERDICTS else type(latest) is int
    run = type(first) is int and type(stop) is int and 0 <= first < stop < MOST
    return run and timed and isinstance(body, bytes)


def _alteration(start: int, stop: int, what: str) -> Altered:
    if stop - start == 1:
        return Altered(start, f"row {start:,}: its {what} is not as it was written")
    return Altered(
        start, f"rows {start:,} to {stop - 1:,}: a {what} among them is not as it was written"
    )
