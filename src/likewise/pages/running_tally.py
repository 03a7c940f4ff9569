"""The tally of a ledger counts decisions, comparable ones and contradictions by model.

A ledger is counted once, in the background and in steps; afterwards only new rows are read. Until
then a page shows the counts so far. Invariant: rows `first` to `upto` are counted once each, also
those that have left the window. "Within" and "across" count the witnesses that the ledger stores.
Cost: a read of each record once, `STEP` rows at a time; two bytes for each decision.
"""

import asyncio
import threading
import time as clock
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.ledger.ledger import Ledger
from likewise.ledger.stored import NOT_JUDGED, StoredDecisions
from likewise.runtime.log import logger
from likewise.service.served_monitor import ServedMonitor
from likewise.verdict.model_counts import ModelCounts, ModelSide

_WAIT_SECONDS = 0.15  # small histories are answered within the first request

_RETRY_SECONDS = 10.0


# Computations that take seconds run in the background, and their results are kept.
# A page waits only a moment. It then shows the last result and how many decisions that is based on,
# or that the computation is still running.
# Invariant: one computation runs at a time, in a thread of its own; a page only reads its result.
# Bound: one result for each monitor and question; each question limits what it reads.


@dataclass
class Computation:
    """Holds a question, and its answer once there is one."""

    rows: int
    """How many decisions there were when the computation began."""
    begun: float
    future: "Future[Any]"
    seconds: float | None = None
    previous: Any = None
    """The answer before this one, as long as this one is being computed."""

    @property
    def state(self) -> str:
        if not self.future.done():
            return "computing"
        return "failed" if self.future.exception() else "done"

    @property
    def value(self) -> Any:
        """The answer; None until there is one."""
        return self.future.result() if self.state == "done" else None

    @property
    def latest(self) -> Any:
        """The newest answer there is; None if there was none yet."""
        return self.value if self.state == "done" else self.previous

    @property
    def problem(self) -> str | None:
        """Why there is no answer."""
        error = self.future.exception() if self.future.done() else None
        if error is None:
            return None
        return str(error) if isinstance(error, LikewiseError) else type(error).__name__

    @property
    def may_be_retried(self) -> bool:
        """Whether it failed, and long enough ago to try again."""
        return self.state == "failed" and clock.monotonic() - self.begun > _RETRY_SECONDS

    def to_dict(self) -> dict[str, Any]:
        names = ("state", "rows", "seconds", "problem")
        return {name: getattr(self, name) for name in names}


class ComputationQueue:
    """Runs the computations of one service, one after another."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="likewise-computing")
        self._computations: dict[ServedMonitor, dict[str, Computation]] = {}

    async def ask(
        self, served: ServedMonitor, question: str, call: Callable[[], Any], recompute: bool = False
    ) -> Computation:
        """Return the last computation of a question, or a new one, which may still be running.

        recompute: start again, unless it is being computed
        """
        computations = self._computations.setdefault(served, {})
        last = computations.get(question)
        if last is None or (last.state != "computing" and (recompute or last.may_be_retried)):
            previous = last and last.latest
            last = computations[question] = self._start(served, call)
            last.previous = previous
        if last.state == "computing":
            future = asyncio.wrap_future(last.future)
            future.add_done_callback(lambda it: it.cancelled() or it.exception())  # else it logs
            await asyncio.wait([future], timeout=_WAIT_SECONDS)
        return last

    def _start(self, served: ServedMonitor, call: Callable[[], Any]) -> Computation:
        begun = clock.monotonic()

        def run_timed() -> Any:
            start = clock.thread_time()
            try:
                return call()
            except LikewiseError:
                raise
            except Exception:
                logger.exception("a fault of likewise, while computing for %s", served.name)
                raise
            finally:
                computation.seconds = round(clock.thread_time() - start, 3)

        computation = Computation(served.next_row, begun, Future())
        computation.future = self._thread.submit(run_timed)
        return computation

    def forget(self, served: ServedMonitor) -> None:
        """Drop the computations about a monitor, also those that are running."""
        self._computations.pop(served, None)

    def close(self) -> None:
        """Drop what has not begun, and do not wait for the rest, so that ledgers close soon."""
        self._thread.shutdown(wait=False, cancel_futures=True)


STEP = 1 << 15
_PAUSE = 0.02  # seconds between two steps
_COUNTED = 10  # numbers of each model, in the order of `RunningTally._add`


@dataclass
class RunningTally:
    """Counts the decisions of a ledger by the code of their model, up to a row."""

    first: int = 0
    upto: int = 0
    names: tuple[str, ...] = ()
    _sums: dict[int, Any] = field(default_factory=dict)
    _models: Any = field(default_factory=lambda: np.empty(0, np.int16))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, ledger: Ledger, steps: int = 1) -> bool:
        """Count further rows; return whether there are more. Return at once if a thread counts.

        The sums are replaced, not changed, so that readers see one state.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            reader = ledger.reader
            stop = min(ledger.rows, reader.state().judged)
            if self.upto < ledger.first:  # the window has moved on meanwhile
                self.first, self.upto, self._sums = ledger.first, ledger.first, {}
                self._models = np.empty(0, np.int16)
            for _ in range(steps):
                if self.upto >= stop:
                    break
                end = min(stop, self.upto + STEP)
                self._add(reader.decisions(self.upto, end, keys=False, witnesses=True))
                self.upto = end
            self.names = reader.names("model").listed
            return self.upto < stop
        finally:
            self._lock.release()

    def _add(self, decisions: StoredDecisions) -> None:
        count = len(decisions)
        models = decisions.models
        self._remember_models(decisions.first, models)
        owners, rows = decisions.witnesses.owners, decisions.witnesses.records["row"]
        same = self._find_models(rows) == models[owners]
        within = np.bincount(owners[same], minlength=count)
        across = np.bincount(owners[~same], minlength=count)
        comparable = decisions.facts["comparable"]
        judged = decisions.counts != NOT_JUDGED
        flagged = decisions.counts > 0
        columns = (
            np.ones(count, np.int64),  # decisions
            judged,
            comparable >= 0,  # it was counted whether they are
            comparable > 0,
            flagged,
            np.where(flagged, decisions.counts, 0),  # pairs
            within > 0,
            within,
            across > 0,
            across,
        )
        sums = dict(self._sums)
        for code in np.unique(models).tolist():
            own = models == code
            added = np.array([int(column[own].sum()) for column in columns], np.int64)
            sums[code] = sums[code] + added if code in sums else added
        self._sums = sums

    def _remember_models(self, first: int, models: Any) -> None:
        """Remember which model decided each row, for later decisions that name it as a witness."""
        begin = first - self.first
        fits = np.int16 if models.max(initial=0) < 2**15 - 1 else np.int32
        kind = np.promote_types(fits, self._models.dtype)
        if begin + len(models) > len(self._models) or kind != self._models.dtype:
            larger = np.full(max(2 * len(self._models), begin + len(models)), -1, kind)
            larger[: len(self._models)] = self._models
            self._models = larger
        self._models[begin : begin + len(models)] = models

    def _find_models(self, rows: Any) -> Any:
        """Return the codes of the models of rows; -2 for rows before `first`."""
        places = rows - self.first
        is_counted = (places >= 0) & (places < len(self._models))
        return np.where(is_counted, self._models[np.where(is_counted, places, 0)], -2)

    def totals(self) -> dict[str, Any]:
        sums = sum(self._sums.values(), np.zeros(_COUNTED, np.int64)).tolist()
        decisions, judged, counted, count, flagged = sums[:5]
        comparable = count if counted == judged > 0 else None
        return _describe_totals(self.first, self.upto, decisions, judged, comparable, flagged)

    def by_model(self, compare: str) -> list[ModelCounts]:
        """Return the counts of every model; the one with the most decisions first."""
        counts = []
        for code, sums in self._sums.items():
            decisions, judged, counted, count, flagged, pairs, *sides = sums.tolist()
            comparable = count if counted == judged else None
            own = comparable if compare == "within" else None
            others = comparable if compare == "across" else None
            within = ModelSide(compare != "across", own, *sides[:2])
            across = ModelSide(compare != "within", others, *sides[2:])
            name = self.names[code] if 0 <= code < len(self.names) else None
            counts.append(ModelCounts(name, decisions, comparable, flagged, pairs, within, across))
        return sorted(counts, key=lambda model: (-model.decisions, model.model or ""))


class BackgroundTally:
    """Counts one monitor's ledger in the background until its tally is complete."""

    def __init__(self, served: ServedMonitor) -> None:
        self._served = served
        self._tally = RunningTally()
        self._counting: asyncio.Task[None] | None = None

    async def read(self) -> RunningTally:
        """Return what is counted by now; the monitor must have a ledger."""
        more = await self._served.read_ledger(self._tally.step)
        if more and (self._counting is None or self._counting.done()):
            self._counting = asyncio.create_task(self._count_in_background())
        return self._tally

    async def _count_in_background(self) -> None:
        served, tally = self._served, self._tally
        try:
            while await served.read_ledger(tally.step, 4):
                await asyncio.sleep(_PAUSE)
        except (LikewiseError, RuntimeError) as error:
            # It was closed, or altered: the next request reports it.
            logger.info("counting %s stopped: %s", served.name, type(error).__name__)


def _describe_totals(
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
        "rate_among_comparable": violations / comparable if comparable else None,
    }


async def count_totals(served: ServedMonitor, tally: BackgroundTally) -> dict[str, Any]:
    """Return the counts of decisions, comparable ones and contradictions, and of which rows."""
    served.monitor.core.require_contradictions()
    if served.monitor.durable:
        await served.flush()
        return {"source": "ledger", "rows": served.next_row, **(await tally.read()).totals()}
    counts, rows = served.counts, served.next_row
    decisions, violations = counts.decisions.total(), counts.violations.total()
    comparable = counts.comparable if served.monitor.comparable else None
    totals = _describe_totals(rows - decisions, rows, decisions, decisions, comparable, violations)
    return {"source": "process", "rows": rows, **totals}
