"""A ring of the latest verdicts of a monitor that have a witness or an alarm.

Readers ask for what came after a row, so none has a queue of its own; a slow one finds a gap.
Invariant: rows ascend; all such verdicts with a row above `last_dropped` are in the ring. `erase`
may be called in any thread, everything else on the event loop.
Bound: `capacity` verdicts with `witnesses` each, and as many again while part of a batch is left.
"""

import asyncio
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, repeat
from typing import Any, TypeAlias

import numpy as np

from likewise.tables.array_types import Rows
from likewise.verdict.verdicts import SAID_OF_EACH, Verdict, Verdicts
from likewise.verdict.witnesses import Witnesses

_VerdictGroup: TypeAlias = Sequence[Verdict] | Verdicts


@dataclass
class VerdictRing:
    """Stores a bounded run of verdicts, by row."""

    capacity: int
    witnesses: int
    last_dropped: int = -1
    """The last row that has left the ring."""
    _ring: deque[tuple[_VerdictGroup, int]] = field(default_factory=deque)
    """For each verdict the group that it came with, and its place there."""
    _rows: deque[int] = field(default_factory=deque)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, verdict: Verdict) -> None:
        """Add a verdict that was trimmed, and whose row is above all before."""
        assert verdict.row is not None
        self._extend([verdict], [verdict.row])

    def add_many(self, verdicts: Verdicts, places: Rows) -> None:
        """Add those at some places of a batch, none of which was sent before; their rows ascend."""
        if len(places) == 0:
            return
        skipped = len(places) - self.capacity
        if skipped > 0:
            self._drop_all(int(verdicts.rows[places[skipped - 1]]))
            places = places[skipped:]
        trimmed = trim_verdicts(verdicts, places, self.witnesses)
        self._extend(trimmed, trimmed.rows.tolist())

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
            if any(_is_about(verdict, gone) for verdict in each):
                # One list of them all, so that no batch with erased values stays in memory.
                redacted = [_redact(one, gone) if _is_about(one, gone) else one for one in each]
                self._ring = deque((redacted, place) for place in range(len(redacted)))

    def after(self, row: int, most: int | None = None) -> list[Verdict]:
        """Return those with a higher row, in order."""
        with self._lock:
            begin = bisect_right(self._rows, row)
            return self._slice(begin, None if most is None else begin + most)

    def latest(self, most: int) -> list[Verdict]:
        """Return the latest of them, in order."""
        with self._lock:
            return self._slice(max(0, len(self._ring) - most), None)

    def _slice(self, begin: int, stop: int | None) -> list[Verdict]:
        return [each[place].detach() for each, place in islice(self._ring, begin, stop)]

    def find(self, row: int) -> Verdict | None:
        """Return the verdict of a row, or None if it is not in the ring."""
        following = self.after(row - 1, 1)
        return following[0] if following and following[0].row == row else None

    def wake(self) -> None:
        """Wake all who wait for news."""
        self._news.set()
        self._news = asyncio.Event()

    async def wait_for_news(self, seconds: float) -> bool:
        """Wait until a verdict is added, at most so long; return whether one was."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        return True


def _is_about(verdict: Verdict, gone: set[int]) -> bool:
    return verdict.row in gone or not gone.isdisjoint(verdict.witnesses.rows.tolist())


def _redact(verdict: Verdict, gone: set[int]) -> Verdict:
    """Return a verdict without what it says about rows that are gone."""
    rows, context = verdict.witnesses.rows, verdict.context
    keys, models = context.witness_keys, context.witness_models
    remains = [row not in gone for row in rows.tolist()]
    own_remains = verdict.row not in gone
    redacted = context._replace(
        key=context.key if own_remains else None,
        model=context.model if own_remains else None,
        witness_keys=None if keys is None else _keep_where(remains, keys),
        witness_models=None if models is None else _keep_where(remains, models),
    )
    unknown = np.full(len(rows), np.nan)
    return Verdict(verdict.row, Witnesses(rows, unknown, unknown), redacted)


def _keep_where(mask: Sequence[bool], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value if keep else None for keep, value in zip(mask, values, strict=True))


def trim_verdict(verdict: Verdict, witnesses: int) -> Verdict:
    """Return a verdict with so many of its nearest witnesses, in arrays of its own."""
    nearest = verdict.witnesses
    if len(nearest) <= witnesses:
        return verdict.detach()
    context = verdict.context
    places = np.sort(np.array(nearest.nearest_places(witnesses), np.int64))
    keys, models = context.witness_keys, context.witness_models
    trimmed = context._replace(
        omitted_witnesses=context.omitted_witnesses + len(nearest) - len(places),
        witness_keys=_pick(keys, places),
        witness_models=_pick(models, places),
    )
    return Verdict(verdict.row, nearest.select(places), trimmed)


def trim_verdicts(verdicts: Verdicts, places: Rows, witnesses: int) -> Verdicts:
    """Trim the verdicts at some places of a batch, none of which was sent before."""
    counts, all_counts = np.diff(verdicts.offsets)[places], verdicts.counts[places]
    if counts.sum() < len(verdicts.witnesses) or counts.max(initial=0) > witnesses:
        is_wanted = np.zeros(len(verdicts), np.bool_)
        is_wanted[places] = True
        chosen = verdicts.mark_nearest(witnesses) & is_wanted[verdicts.owners]
        verdicts = verdicts.select_witnesses(chosen)
        counts = np.diff(verdicts.offsets)[places]
    unlisted = all_counts - counts
    columns: dict[str, Any] = {name: getattr(verdicts, name) for name in SAID_OF_EACH}
    columns = {name: None if one is None else one[places] for name, one in columns.items()}
    return replace(
        verdicts,
        **columns,
        offsets=np.concatenate([[0], counts.cumsum()]).astype(np.int64),
        keys=_pick(verdicts.keys, places),
        models=_pick(verdicts.models, places),
        unlisted_witnesses=unlisted if unlisted.any() else None,
        first_verdicts=None,
        row_numbers=verdicts.rows[places],
    )


def _pick(values: Sequence[Any] | None, places: Rows) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values[i] for i in places.tolist())
