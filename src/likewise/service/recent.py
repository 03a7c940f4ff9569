"""The latest verdicts of a monitor that have a witness or an alarm: a ring, and news of it.

Readers of events ask for what came after the row that they have, so none has a queue of its own: a
reader that is too slow finds that what it has not read has left the ring.

Invariant: rows ascend; all told verdicts with a row above `dropped` are in the ring.
Bound: `most` verdicts, each with at most so many witnesses as are told.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from likewise.values.verdicts import Verdict


@dataclass
class Recent:
    """A bounded run of verdicts, by row."""

    most: int
    witnesses: int
    dropped: int = -1
    """The last row that has left the ring."""
    _ring: deque[Verdict] = field(default_factory=deque)
    _rows: deque[int] = field(default_factory=deque)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, verdict: Verdict) -> None:
        """A further verdict, whose row is above all before."""
        assert verdict.row is not None
        if len(self._ring) >= self.most:
            self._ring.popleft()
            self.dropped = self._rows.popleft()
        self._ring.append(trimmed(verdict, self.witnesses))
        self._rows.append(verdict.row)
        self.wake()

    def skip_to(self, row: int) -> None:
        """More came at once than the ring holds: all up to `row` have gone by."""
        self._ring.clear()
        self._rows.clear()
        self.dropped = row

    def after(self, row: int, most: int | None = None) -> list[Verdict]:
        """Those with a higher row, in order."""
        begin = bisect_right(self._rows, row)
        stop = None if most is None else begin + most
        return list(islice(self._ring, begin, stop))

    def last(self, most: int) -> list[Verdict]:
        """The latest of them, in order."""
        return list(islice(self._ring, max(0, len(self._ring) - most), None))

    def of(self, row: int) -> Verdict | None:
        """The verdict of a row, if it is here."""
        found = self.after(row - 1, 1)
        return found[0] if found and found[0].row == row else None

    def wake(self) -> None:
        """Tell all who wait for news."""
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, seconds: float) -> bool:
        """Wait until something is added, or so long; whether something was."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        return True


def trimmed(verdict: Verdict, witnesses: int) -> Verdict:
    """The same verdict with so many of its nearest witnesses, in arrays of its own."""
    found, beside = verdict.witnesses, verdict.beside
    if len(found) <= witnesses:
        return verdict.whole()
    places = np.sort(np.array(found.nearest_places(witnesses), np.int64))
    keys, models = beside.witness_keys, beside.witness_models
    left = beside._replace(
        omitted=beside.omitted + len(found) - len(places),
        witness_keys=None if keys is None else tuple(keys[i] for i in places),
        witness_models=None if models is None else tuple(models[i] for i in places),
    )
    return Verdict(verdict.row, found.some(places), left)
