"""How many decisions of each model could be compared, and how many contradict, as they come.

A ledger of ten million decisions is not read for a page. It is counted once, in steps, beside
whatever else goes on; afterwards only what has come since is read. Until then a page shows what has
been counted, and says how far that is.

Invariant: the counts are those of rows `first` to `upto`, each counted once; rows that have left
the window since are still counted. Within and across are the witnesses that the ledger keeps.
Cost: a read of each record once, `STEP` rows at a time; two bytes for each decision.
"""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.ledger.ledger import Ledger
from likewise.ledger.stored import NOT_JUDGED, StoredDecisions
from likewise.runtime.log import logger
from likewise.service.served_monitor import ServedMonitor
from likewise.verdict.model_counts import ModelCounts, ModelSide

STEP = 1 << 15
_PAUSE = 0.02  # seconds between two steps
_COUNTED = 10  # numbers of each model, in the order of `RunningTally._add`


@dataclass
class RunningTally:
    """Counts by the code of a model, up to a row."""

    first: int = 0
    upto: int = 0
    names: tuple[str, ...] = ()
    _sums: dict[int, Any] = field(default_factory=dict)
    _models: Any = field(default_factory=lambda: np.empty(0, np.int16))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, ledger: Ledger, steps: int = 1) -> bool:
        """Count further rows; whether there are more. Another thread that counts is not waited for.

        The sums are replaced, not changed, so whoever reads them sees one state.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            reader = ledger.reader
            stop = min(ledger.rows, reader.state().judged)
            if self.upto < ledger.first:  # the window has moved on while nobody looked
                self.first, self.upto, self._sums = ledger.first, ledger.first, {}
                self._models = np.empty(0, np.int16)
            for _ in range(steps):
                if self.upto >= stop:
                    break
                end = min(stop, self.upto + STEP)
                some = reader.decisions(self.upto, end, keys=False, witnesses=True)
                self._add(some)
                self.upto = end
            self.names = reader.names("model").listed
            return self.upto < stop
        finally:
            self._lock.release()

    def _add(self, some: StoredDecisions) -> None:
        count = len(some)
        models = some.models
        self._remember(some.first, models)
        owners, rows = some.witnesses.owners, some.witnesses.records["row"]
        same = self._model_of(rows) == models[owners]
        within = np.bincount(owners[same], minlength=count)
        across = np.bincount(owners[~same], minlength=count)
        asked = some.facts["comparable"]
        judged = some.counts != NOT_JUDGED
        flagged = some.counts > 0
        columns = (
            np.ones(count, np.int64),  # decisions
            judged,
            asked >= 0,
            asked > 0,  # comparable
            flagged,
            np.where(flagged, some.counts, 0),  # pairs
            within > 0,
            within,
            across > 0,
            across,
        )
        sums = dict(self._sums)
        for code in np.unique(models).tolist():
            mine = models == code
            found = np.array([int(column[mine].sum()) for column in columns], np.int64)
            sums[code] = sums[code] + found if code in sums else found
        self._sums = sums

    def _remember(self, first: int, models: Any) -> None:
        """Which model decided each row, for those that it will be a witness of."""
        begin = first - self.first
        fits = np.int16 if models.max(initial=0) < 2**15 - 1 else np.int32
        kind = np.promote_types(fits, self._models.dtype)
        if begin + len(models) > len(self._models) or kind != self._models.dtype:
            larger = np.full(max(2 * len(self._models), begin + len(models)), -1, kind)
            larger[: len(self._models)] = self._models
            self._models = larger
        self._models[begin : begin + len(models)] = models

    def _model_of(self, rows: Any) -> Any:
        """Codes; -2 of rows before those that were counted."""
        places = rows - self.first
        known = (places >= 0) & (places < len(self._models))
        return np.where(known, self._models[np.where(known, places, 0)], -2)

    # What was counted

    def totals(self) -> dict[str, Any]:
        sums = sum(self._sums.values(), np.zeros(_COUNTED, np.int64)).tolist()
        decisions, judged, asked, count, flagged = sums[:5]
        comparable = count if asked == judged > 0 else None
        return _shares(self.first, self.upto, decisions, judged, comparable, flagged)

    def by_model(self, compare: str) -> list[ModelCounts]:
        """The model with the most decisions first."""
        counts = []
        for code, sums in self._sums.items():
            decisions, judged, asked, count, flagged, pairs, *apart = sums.tolist()
            comparable = count if asked == judged else None
            own = comparable if compare == "within" else None
            others = comparable if compare == "across" else None
            within = ModelSide(compare != "across", own, *apart[:2])
            across = ModelSide(compare != "within", others, *apart[2:])
            name = self.names[code] if 0 <= code < len(self.names) else None
            counts.append(ModelCounts(name, decisions, comparable, flagged, pairs, within, across))
        return sorted(counts, key=lambda one: (-one.decisions, one.model or ""))


class BackgroundTally:
    """The tally of one monitor's ledger, counted on in the background until it is complete."""

    def __init__(self, hosted: ServedMonitor) -> None:
        self._hosted = hosted
        self._tally = RunningTally()
        self._counting: asyncio.Task[None] | None = None

    async def read(self) -> RunningTally:
        """Return what is counted by now; the monitor must have a ledger."""
        more = await self._hosted.read_ledger(self._tally.step)
        if more and (self._counting is None or self._counting.done()):
            self._counting = asyncio.create_task(self._count_in_background())
        return self._tally

    async def _count_in_background(self) -> None:
        hosted, tally = self._hosted, self._tally
        try:
            while await hosted.read_ledger(lambda ledger: tally.step(ledger, 4)):
                await asyncio.sleep(_PAUSE)
        except (LikewiseError, RuntimeError) as error:  # closed, or altered: the next look says so
            logger.info("counting %s stopped: %s", hosted.name, type(error).__name__)


def _shares(
    first: int, upto: int, decisions: int, judged: int, comparable: int | None, violations: int
) -> dict[str, Any]:
    return {
        "first_row": first,
        "rows_counted": upto,
        "decisions": decisions,
        "judged": judged,
        "comparable": comparable,
        "violations": violations,
        "rate": violations / judged if judged else None,
        "comparable_rate": violations / comparable if comparable else None,
    }


async def count_totals(hosted: ServedMonitor, tally: BackgroundTally) -> dict[str, Any]:
    """Return the decisions, comparables and contradictions, and of which rows that is known."""
    hosted.monitor.insist_on_contradictions()
    if hosted.monitor.durable:
        await hosted.flush()
        return {"of": "ledger", "rows": hosted.next_row, **(await tally.read()).totals()}
    counts, rows = hosted.counts, hosted.next_row
    decisions, violations = counts.decisions.total(), counts.violations.total()
    comparable = counts.comparable if hosted.monitor.comparable else None
    shares = _shares(rows - decisions, rows, decisions, decisions, comparable, violations)
    return {"of": "process", "rows": rows, **shares}
