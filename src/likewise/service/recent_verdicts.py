"""The latest verdicts of a monitor that have a witness or an alarm: a ring, and news of it.

Readers of events ask for what came after the row that they have, so none has a queue of its own: a
reader that is too slow finds that what it has not read has left the ring.

Invariant: rows ascend; all told verdicts with a row above `dropped` are in the ring.
Bound: `most` verdicts, each with at most so many witnesses as are told, and as many again: those of
a batch are kept together until the last of them has left.
Cost: a batch is added in one pass over its arrays; a `Verdict` is made when a reader asks for it.
What is about an erased decision is taken out at once (`erase`), in whichever thread erases it; all
else is called on the event loop.
"""

import asyncio
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any, TypeAlias

import numpy as np

from likewise.tables.rows import Rows
from likewise.verdict.verdicts import Verdict, Verdicts
from likewise.verdict.witnesses import Witnesses

_VerdictGroup: TypeAlias = Sequence[Verdict] | Verdicts


@dataclass
class VerdictRing:
    """A bounded run of verdicts, by row."""

    capacity: int
    witnesses: int
    last_dropped: int = -1
    """The last row that has left the ring."""
    _ring: deque[tuple[_VerdictGroup, int]] = field(default_factory=deque)
    """For each verdict those that it came with, which have no others, and its place there."""
    _rows: deque[int] = field(default_factory=deque)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, verdict: Verdict) -> None:
        """Add a verdict that was trimmed, and whose row is above all before."""
        assert verdict.row is not None
        self._extend([verdict], [verdict.row])

    def add_many(self, verdicts: Verdicts, places: Rows) -> None:
        """Those at some places of a batch, which were not sent before; their rows ascend."""
        if len(places) == 0:
            return
        skipped = len(places) - self.capacity
        if skipped > 0:
            self._drop_all(int(verdicts.rows[places[skipped - 1]]))
            places = places[skipped:]
        told = trim_verdicts(verdicts, places, self.witnesses)
        self._extend(told, told.rows.tolist())

    def _extend(self, verdicts: _VerdictGroup, rows: Sequence[int]) -> None:
        with self._lock:
            for _ in range(len(self._ring) + len(rows) - self.capacity):
                self._ring.popleft()
                self.last_dropped = self._rows.popleft()
            self._ring.extend(zip(repeat(verdicts), range(len(rows))))
            self._rows.extend(rows)
        self.wake()

    def _drop_all(self, last: int) -> None:
        with self._lock:
            self._ring.clear()
            self._rows.clear()
            self.last_dropped = last

    def erase(self, rows: Rows | None) -> None:
        """Forget what verdicts say about erased rows, as a ledger does; None: forget all verdicts.

        A verdict that is about one, or names one, keeps its row and those of its witnesses. It
        loses the keys and models of erased rows, and all distances: from some of them the input
        could be computed.
        """
        if rows is None:
            if self._rows:
                self._drop_all(self._rows[-1])
            return
        gone = set(rows.tolist())
        with self._lock:
            each = self._slice(0, None)
            if any(_is_about(verdict, gone) for verdict in each):  # no batch stays behind them
                left = [_redact(one, gone) if _is_about(one, gone) else one for one in each]
                self._ring = deque((left, place) for place in range(len(left)))

    def after(self, row: int, most: int | None = None) -> list[Verdict]:
        """Those with a higher row, in order."""
        with self._lock:
            begin = bisect_right(self._rows, row)
            return self._slice(begin, None if most is None else begin + most)

    def latest(self, most: int) -> list[Verdict]:
        """The latest of them, in order."""
        with self._lock:
            return self._slice(max(0, len(self._ring) - most), None)

    def _slice(self, begin: int, stop: int | None) -> list[Verdict]:
        return [each[place].detach() for each, place in islice(self._ring, begin, stop)]

    def find(self, row: int) -> Verdict | None:
        """The verdict of a row, if it is here."""
        found = self.after(row - 1, 1)
        return found[0] if found and found[0].row == row else None

    def wake(self) -> None:
        """Tell all who wait for news."""
        self._news.set()
        self._news = asyncio.Event()

    async def wait_for_news(self, seconds: float) -> bool:
        """Wait until something is added, or so long; whether something was."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        return True


def _is_about(verdict: Verdict, gone: set[int]) -> bool:
    return verdict.row in gone or not gone.isdisjoint(verdict.witnesses.rows.tolist())


def _redact(verdict: Verdict, gone: set[int]) -> Verdict:
    """Return a verdict without what it says about rows that are gone."""
    rows, beside = verdict.witnesses.rows, verdict.context
    keys, models = beside.witness_keys, beside.witness_models
    there = [row not in gone for row in rows.tolist()]
    mine = verdict.row not in gone
    left = beside._replace(
        key=beside.key if mine else None,
        model=beside.model if mine else None,
        witness_keys=None if keys is None else _keep_where(there, keys),
        witness_models=None if models is None else _keep_where(there, models),
    )
    unknown = np.full(len(rows), np.nan)
    return Verdict(verdict.row, Witnesses(rows, unknown, unknown), left)


def _keep_where(there: Sequence[bool], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value if known else None for known, value in zip(there, values, strict=True))


def trim_verdict(verdict: Verdict, witnesses: int) -> Verdict:
    """The same verdict with so many of its nearest witnesses, in arrays of its own."""
    found, beside = verdict.witnesses, verdict.context
    if len(found) <= witnesses:
        return verdict.detach()
    places = np.sort(np.array(found.nearest_places(witnesses), np.int64))
    keys, models = beside.witness_keys, beside.witness_models
    left = beside._replace(
        omitted=beside.omitted + len(found) - len(places),
        witness_keys=None if keys is None else tuple(keys[i] for i in places),
        witness_models=None if models is None else tuple(models[i] for i in places),
    )
    return Verdict(verdict.row, found.select(places), left)


def trim_verdicts(verdicts: Verdicts, places: Rows, witnesses: int) -> Verdicts:
    """`trimmed` of the verdicts at some places of a batch, none of which was sent before."""
    found, keys, models = verdicts.witnesses, verdicts.keys, verdicts.models
    named, decided = verdicts.witness_keys, verdicts.witness_models
    counts = (verdicts.offsets[1:] - verdicts.offsets[:-1])[places]
    chosen = np.arange(len(found))
    if counts.sum() < len(found) or counts.max(initial=0) > witnesses:
        owners, told = verdicts.owners, np.zeros(len(verdicts), np.bool_)
        told[places] = True
        chosen = np.flatnonzero(verdicts.mark_nearest(witnesses) & told[owners])
        counts = np.bincount(owners[chosen], minlength=len(verdicts))[places]
        found = found.select(chosen)
    left_out = verdicts.counts[places] - counts
    offsets = np.zeros(len(places) + 1, np.int64)
    counts.cumsum(out=offsets[1:])
    return Verdicts(
        verdicts.first_row,
        offsets,
        found,
        firsts=_at(verdicts.firsts, places),
        absent=_at(verdicts.absent, places),
        neighbours=_at(verdicts.neighbours, places),
        alarm_from=verdicts.alarm_from,
        keys=None if keys is None else tuple(keys[i] for i in places.tolist()),
        witness_keys=None if named is None else tuple(named[i] for i in chosen.tolist()),
        comparable=_at(verdicts.comparable, places),
        models=None if models is None else tuple(models[i] for i in places.tolist()),
        witness_models=None if decided is None else tuple(decided[i] for i in chosen.tolist()),
        missing=verdicts.missing,
        question=verdicts.question,
        incomplete=_at(verdicts.incomplete, places),
        left_out=left_out if left_out.any() else None,
        row_numbers=verdicts.rows[places],
        past=verdicts.past,
    )


def _at(column: Any, places: Rows) -> Any:
    return None if column is None else column[places]
