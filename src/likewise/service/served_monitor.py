"""One monitor that is served: its queue, the listeners to its verdicts, and its counts.

Decisions in memory are judged on the event loop. All other calls wait in one queue, which a thread
empties; decisions that wait together share a transaction (group commit).
Invariant: calls run in the order in which they came, and listeners hear verdicts in the order of
rows, also if a client has disconnected. Bound: `Limits.waiting_rows` rows wait; more get a 429.
"""

import asyncio
import time as clock
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np

from likewise.errors import BadRule, LikewiseError
from likewise.ledger.ledger import Ledger
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.protocol import Decision
from likewise.runtime.log import logger
from likewise.service.body_types import encode
from likewise.service.http_errors import Refusal
from likewise.service.monitor_counts import OTHER, MonitorCounts
from likewise.service.recent_verdicts import VerdictRing, trim_verdict, trim_verdicts
from likewise.service.settings import Limits, MonitorSettings
from likewise.tables.array_types import Rows
from likewise.verdict.verdict_body import write_body
from likewise.verdict.verdicts import Verdict, Verdicts
from likewise.verdict.witnesses import NO_WITNESSES

_GROUP_ROWS = 1024  # decisions that share a transaction at most, unless one caller has more
_SLOW = 0.001  # seconds; a decision that takes longer has many near rows
_CLOSE = 64  # rows; a second slow decision so soon is no pause of the collector or the machine
_ASIDE = 1_000  # decisions after two slow ones that are judged in the thread
_VERDICTS_PER_TURN = 256  # verdicts that are recorded before others get their turn of the loop
_IDLE_TURNS = 3  # turns of the loop: answers are sent, requests are read, requests begin to wait
_FLOATS = {float}
_WIDE_INPUT = 4096  # numbers of an input that is judged on the event loop: some 100 microseconds
_P = ParamSpec("_P")
_T = TypeVar("_T")
DecisionAnswers = list[Verdict | LikewiseError]
Listener = Callable[["ServedMonitor", Verdict], None]
"""Is called with every verdict that has a witness or an alarm, on the event loop; must not wait."""


class FollowedStream(Protocol):
    """The state of the stream that a monitor follows."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def lag_seconds(self) -> float:
        """How long ago its end was last reached; 0 while no message waits there."""


def _identity(answer: Any) -> Any:
    return answer


class _CallKind(NamedTuple):
    """Processes the answer to a kind of call that takes decisions."""

    trim: Callable[[Any], Any]
    """In the thread: returns what the ring stores of the answer."""
    record: Callable[[Any, Any, float], Awaitable[None]]
    """On the event loop: counts the answer and calls the listeners, given the answer, what `trim`
    returned, and how long the caller has waited."""


@dataclass(slots=True)
class _QueuedCall:
    """Decisions, or another call, and the future of the caller who waits."""

    rows: int
    decisions: Sequence[Decision] | None
    call: Callable[[], Any] | None
    kind: _CallKind | None
    """None if the call takes no decisions, so that nothing is counted."""
    make_answer: Callable[[Any], Any]
    """Converts the answer of the monitor to what the caller gets."""
    future: asyncio.Future[Any]
    since: float
    counts_refusal: bool
    verdicts: Any = None
    """The answer of the monitor, once there is one."""
    reply: Any = None
    """What the caller gets; or the error that is raised there."""
    trimmed: Any = None
    """What the ring stores of the answer."""
    error: LikewiseError | None = None


class ServedMonitor:
    """Runs the calls of one monitor in their order, and counts what they do."""

    def __init__(
        self, name: str, monitor: Monitor, settings: MonitorSettings, limits: Limits
    ) -> None:
        self.name = name
        self.monitor = monitor
        self.settings = settings
        self.limits = limits
        self.counts = MonitorCounts()
        self.listeners: list[Listener] = []
        self.stream: FollowedStream | None = None
        """The stream that it follows, if any."""
        self.next_row = monitor.rows
        """Can be read without waiting for the monitor."""
        self.recent = VerdictRing(limits.recent, limits.witnesses, self.next_row - 1)
        monitor.core.erasure_listeners.append(self.recent.erase)
        self.waiting_rows = 0
        features = monitor.rule.features or {}
        embeds = monitor.rule.embed is not None or any(
            feature.kind in ("text", "image") for feature in features.values()
        )
        self._is_fast = not monitor.durable and not embeds
        self._thread_until_row = 0  # the row from which decisions may be judged on the loop
        self._slow_row = self.next_row - _CLOSE - 1  # the row after the last slow decision
        self._queue: deque[_QueuedCall] = deque()
        self._queue_task: asyncio.Task[None] | None = None
        self._each = _CallKind(self._trim_each, self._record_each)
        self._batch = _CallKind(self.trim_batch, self._record_batch)
        self._room_waiters: list[asyncio.Future[None]] = []
        self._judge_thread = ThreadPoolExecutor(1, thread_name_prefix=f"likewise-{name}")
        self._reader_threads = ThreadPoolExecutor(2, thread_name_prefix=f"likewise-look-{name}")

    def use_limits(self, limits: Limits) -> None:
        """Use these limits from now on."""
        self.limits = limits
        self.recent.capacity, self.recent.witnesses = limits.recent, limits.witnesses

    # Decisions

    async def observe(
        self,
        decision: Decision,
        make_answer: Callable[[Verdict], _T] = _identity,
        *,
        durable: bool = False,
    ) -> _T:
        """Judge one decision and remember it; return what `make_answer` makes of its verdict.

        make_answer: is called where the decision was judged, on the event loop or in a thread
        durable: answer when it is on disk, even where the monitor's durability would not wait
        """
        is_narrow = type(decision.x) is not list or len(decision.x) <= _WIDE_INPUT
        if self._is_fast and is_narrow and self._can_judge_now:
            begin = clock.perf_counter()
            reply = make_answer(self._observe_now(decision))
            self._record_pace(begin, 1)
            return reply

        def answer_first(answers: DecisionAnswers) -> _T:
            if isinstance(answers[0], LikewiseError):
                raise answers[0]
            return make_answer(answers[0])

        answer = await self._enqueue(1, self._each, [decision], None, answer_first)
        if durable:
            await self.flush()
        return answer

    @property
    def _can_judge_now(self) -> bool:
        """Whether nothing waits, and the last decisions of a fast monitor took microseconds."""
        return self._queue_task is None and self.next_row >= self._thread_until_row

    def _record_pace(self, begin: float, decisions: int) -> None:
        """Have the next decisions judged in the thread if these and earlier ones were slow."""
        if clock.perf_counter() - begin > _SLOW * decisions:
            if decisions > 1 or self.next_row - self._slow_row <= _CLOSE:
                self._thread_until_row = self.next_row + _ASIDE
            self._slow_row = self.next_row

    def _observe_now(self, decision: Decision) -> Verdict:
        begin = clock.perf_counter()
        x, z, key, time, model, source, position = decision
        if type(x) is list and set(map(type, x)) == _FLOATS:
            x = np.array(x)  # which the engine takes as it is
        try:
            verdict = self.monitor.observe(
                x, z, key=key, time=time, model=model, source=source, position=position
            )
        except LikewiseError as error:
            self.counts.count_refusal(error)
            raise
        self.counts.observe_durations.add(clock.perf_counter() - begin)
        self.record_verdict(verdict)
        return verdict

    async def observe_each(
        self,
        decisions: Sequence[Decision],
        make_answer: Callable[[DecisionAnswers], _T] = _identity,
        *,
        durable: bool = False,
    ) -> _T:
        """Judge decisions one after another: for each its verdict, or why it is refused.

        make_answer: converts the list of them to the answer, in a thread
        """
        if not decisions:
            return make_answer([])
        answer = await self._enqueue(len(decisions), self._each, decisions, None, make_answer)
        if durable:
            await self.flush()
        return answer

    async def observe_many(
        self,
        count: int,
        call: Callable[[], Verdicts],
        make_answer: Callable[[Verdicts], _T] = _identity,
        *,
        counts_refusal: bool = True,
    ) -> _T:
        """Judge a batch and remember it, or refuse it whole.

        call: the `observe_many` of the monitor, with its arguments
        make_answer: converts the verdicts to the answer, in a thread
        """
        return await self._enqueue(
            count, self._batch, None, call, make_answer, counts_refusal=counts_refusal
        )

    async def supersede(self, call: Callable[[], Verdict]) -> Verdict:
        """Overrule a decision; return the verdict on the one that takes its place.

        call: the `supersede` of the monitor, with its arguments
        """
        return await self._enqueue(1, self._each, None, lambda: [call()], itemgetter(0))

    async def run_in_turn(
        self, call: Callable[[], _T], *, rows: int = 1, counts_refusal: bool = True
    ) -> _T:
        """Call something in the order of the queue that takes no decisions; return its answer."""
        return await self._enqueue(rows, None, None, call, _identity, counts_refusal=counts_refusal)

    async def flush(self) -> None:
        """Write everything that was answered, so that readers of the ledger see it."""
        if self.monitor.durable and self.monitor.ledger.durability != "commit":
            await self.run_in_turn(self.monitor.flush)

    async def read_ledger(
        self, call: Callable[Concatenate[Ledger, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Read the ledger in a thread, while others may write it; `call` gets it, and the rest."""
        if not self.monitor.durable:
            raise BadRule(f"the monitor {self.name!r} is in memory: it has no ledger to look at.")
        path = self.monitor.ledger.path

        def read() -> _T:
            with closing(Ledger(path)) as ledger:
                return call(ledger, *args, **kwargs)

        return await self.run_in_thread(read)

    async def run_in_thread(
        self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call something that takes long and may run at any time, such as verifying."""
        call_now = partial(call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._reader_threads, call_now)

    # The queue

    def _enqueue(
        self,
        rows: int,
        kind: _CallKind | None,
        decisions: Sequence[Decision] | None,
        call: Callable[[], Any] | None,
        make_answer: Callable[[Any], _T],
        *,
        counts_refusal: bool = True,
    ) -> asyncio.Future[_T]:
        most = self.limits.waiting_rows
        if self.waiting_rows and self.waiting_rows + rows > most:
            raise Refusal(
                429,
                f"{self.waiting_rows} decisions wait already, of at most {most}.",
                retry_seconds=1.0,
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        now = clock.perf_counter()
        self._queue.append(
            _QueuedCall(rows, decisions, call, kind, make_answer, future, now, counts_refusal)
        )
        self.waiting_rows += rows
        if self._queue_task is None:
            self._queue_task = loop.create_task(self._empty_queue())
        return future

    async def wait_for_room(self, rows: int) -> None:
        """Wait until the queue has room for so many rows, instead of being refused."""
        while self.waiting_rows and self.waiting_rows + rows > self.limits.waiting_rows:
            turn = asyncio.get_running_loop().create_future()
            self._room_waiters.append(turn)
            await turn

    @property
    def oldest_wait_seconds(self) -> float:
        """How long the first in the queue has waited, in seconds."""
        return clock.perf_counter() - self._queue[0].since if self._queue else 0.0

    async def _empty_queue(self) -> None:
        """Empty the queue: calls in their order, adjacent decisions together.

        Wait a few turns of the loop first, so that requests that have arrived can join. Most
        callers send again as soon as they are answered; without the pause, half of them would miss
        each transaction.
        """
        loop = asyncio.get_running_loop()
        while self._queue:
            idle = 0  # turns of the loop in which nobody else joined the queue
            while idle < _IDLE_TURNS and self._queue[-1].decisions is not None:
                before = len(self._queue)
                if before >= _GROUP_ROWS:
                    break
                await asyncio.sleep(0)
                idle = 0 if len(self._queue) > before else idle + 1
            group = self._take_group()
            begin = clock.perf_counter()
            try:
                await loop.run_in_executor(self._judge_thread, self._run_group, group)
            except Exception as error:
                group = [replace(one, reply=error, verdicts=None, error=None) for one in group]
            now = clock.perf_counter()
            self.counts.commit_durations.add(now - begin)
            for one in group:
                self.waiting_rows -= one.rows
                if one.error is not None and one.counts_refusal:
                    self.counts.count_refusal(one.error, one.rows)
                elif one.verdicts is not None and one.kind is not None:
                    await one.kind.record(one.verdicts, one.trimmed, now - one.since)
                if one.future.done():  # the caller has gone
                    continue
                if isinstance(one.reply, BaseException):
                    one.future.set_exception(one.reply)
                else:
                    one.future.set_result(one.reply)
            waiting, self._room_waiters = self._room_waiters, []
            for turn in waiting:
                if not turn.done():
                    turn.set_result(None)
        self._queue_task = None

    def _take_group(self) -> list[_QueuedCall]:
        """Take the next call, or the next decisions, as many as may share a transaction."""
        waiting = self._queue
        group = [waiting.popleft()]
        rows = group[0].rows
        while (
            group[0].decisions is not None
            and waiting
            and waiting[0].decisions is not None
            and rows + waiting[0].rows <= _GROUP_ROWS
        ):
            group.append(waiting.popleft())
            rows += group[-1].rows
        return group

    def _run_group(self, group: list[_QueuedCall]) -> None:
        """In the thread: make the calls of a group and the answers to them."""
        call = group[0].call
        if call is not None:
            try:
                answer = call()
            except LikewiseError as error:
                answer = error
            self._set_result(group[0], answer)
            return
        begin = clock.perf_counter()
        decisions: list[Decision] = []
        for one in group:
            decisions += one.decisions or ()
        answers = self.monitor.core.observe_each(decisions)
        if self._is_fast:
            self._record_pace(begin, len(decisions))
        start = 0
        for one in group:
            self._set_result(one, answers[start : start + one.rows])
            start += one.rows

    def _set_result(self, one: _QueuedCall, answer: Any) -> None:
        """In the thread: do everything that takes longer the more witnesses there are."""
        if isinstance(answer, LikewiseError):
            one.reply = one.error = answer
            return
        one.verdicts = answer
        one.trimmed = None if one.kind is None else one.kind.trim(answer)
        try:
            one.reply = one.make_answer(answer)
        except Exception as error:
            one.reply = error

    def _trim_each(self, answers: DecisionAnswers) -> list[Verdict | None]:
        trimmed: list[Verdict | None] = []
        for one in answers:
            if isinstance(one, LikewiseError):
                trimmed.append(None)
            elif one.witnesses is NO_WITNESSES:  # as most are; this asks no property
                trimmed.append(one)
            else:
                trimmed.append(trim_verdict(one, self.limits.witnesses))
        return trimmed

    def trim_batch(self, verdicts: Verdicts) -> Verdicts:
        return trim_verdicts(verdicts, self._find_reportable(verdicts), self.limits.witnesses)

    # Counts and listeners

    async def _record_each(
        self, answers: DecisionAnswers, trimmed_verdicts: list[Verdict | None], seconds: float
    ) -> None:
        for place, one in enumerate(answers):
            if isinstance(one, LikewiseError):
                self.counts.count_refusal(one)
            else:
                self.counts.observe_durations.add(seconds / len(answers))
                self.record_verdict(one, trimmed_verdicts[place])
            if place % _VERDICTS_PER_TURN == _VERDICTS_PER_TURN - 1:
                await asyncio.sleep(0)

    async def _record_batch(
        self, verdicts: Verdicts, trimmed_verdicts: Verdicts, seconds: float
    ) -> None:
        self.counts.observe_durations.add(seconds / max(1, len(verdicts)), len(verdicts))
        self.record_verdicts(verdicts, trimmed_verdicts)
        for count, place in enumerate(
            self._find_reportable(verdicts).tolist() if self.listeners else ()
        ):
            self._call_listeners(verdicts[place])
            if count % _VERDICTS_PER_TURN == _VERDICTS_PER_TURN - 1:
                await asyncio.sleep(0)

    def record_verdict(self, verdict: Verdict, trimmed_verdict: Verdict | None = None) -> None:
        """Count a verdict; if it has a witness or an alarm, store it and call the listeners.

        trimmed_verdict: the verdict as the ring stores it, if it was trimmed before
        """
        counts, context = self.counts, verdict.context
        if context.repeated:
            counts.repeated += 1
            return
        if verdict.row is not None:
            self.next_row = verdict.row + 1
        model = "" if context.model is None else self._model_label(context.model)
        counts.decisions[model] += 1
        counts.last_decision = now = clock.time()
        if context.comparable:
            counts.comparable += 1
        if verdict.witnesses is NO_WITNESSES and not (context.omitted_witnesses or context.alarm):
            return  # as most do; this asks no property
        violation = verdict.violation
        if not (violation or context.alarm):
            return
        if violation:
            counts.violations[model] += 1
            counts.newest_violations[model] = self.next_row - 1, now
            counts.pairs += verdict.count
        counts.alarms += context.alarm
        if trimmed_verdict is None:
            trimmed_verdict = trim_verdict(verdict, self.limits.witnesses)
        self.recent.add(trimmed_verdict)
        if self.listeners:
            self._call_listeners(verdict)

    def verdict_body(self, verdict: Verdict, witnesses: int | None = None) -> dict[str, Any]:
        """Make the body of a verdict, with `witnesses` of them but no more than the limit."""
        limits = self.limits
        most = limits.witnesses if witnesses is None else limits.witness_limit(witnesses)
        return write_body(verdict, most, compared_with=False)

    def encode_verdict(self, verdict: Verdict, witnesses: int | None = None) -> bytes:
        """Write a verdict as JSON."""
        return encode(self.verdict_body(verdict, witnesses))

    def _call_listeners(self, verdict: Verdict) -> None:
        for listener in self.listeners:
            try:
                listener(self, verdict)
            except Exception as error:  # the caller still gets the verdict
                logger.error("a listener of %s failed: %s", self.name, type(error).__name__)

    def _model_label(self, model: str | None) -> str:
        """Return the name under which a model is counted; beyond the limit, models share one."""
        by_model = self.counts.decisions
        if model is None or model in by_model or len(by_model) <= self.limits.labels:
            return model or ""
        return OTHER

    def _find_reportable(self, verdicts: Verdicts) -> Rows:
        """Find the new violations and alarms of a batch."""
        reportable = verdicts.violations | verdicts.alarms
        if verdicts.first_verdicts is not None:
            reportable &= ~verdicts.repeated
        return reportable.nonzero()[0]

    def record_verdicts(self, verdicts: Verdicts, trimmed_verdicts: Verdicts) -> None:
        """Count a batch, and store its violations and alarms, which `trim_batch` has trimmed."""
        counts, models = self.counts, verdicts.models
        violations, alarms = verdicts.violations, verdicts.alarms
        comparable = verdicts.comparable
        new, fresh = len(verdicts), None
        if verdicts.first_verdicts is not None:
            fresh = ~verdicts.repeated
            new = int(fresh.sum())
            violations, alarms = violations & fresh, alarms & fresh
            comparable = None if comparable is None else comparable & fresh
        counts.repeated += len(verdicts) - new
        if new == 0:
            return
        counts.last_decision = now = clock.time()
        rows = verdicts.rows
        self.next_row = int(rows.max()) + 1
        flagged = violations.nonzero()[0]
        if models is None:
            counts.decisions[""] += new
            counts.violations[""] += len(flagged)
            if len(flagged):
                counts.newest_violations[""] = int(rows[flagged[-1]]), now
        else:
            labels = {model: self._model_label(model) for model in set(models)}
            judged = (
                models if fresh is None else [models[i] for i in np.flatnonzero(fresh).tolist()]
            )
            counts.decisions.update(labels[model] for model in judged)
            by_row = {int(rows[i]): labels[models[i]] for i in flagged.tolist()}
            counts.violations.update(by_row.values())
            counts.newest_violations |= {model: (row, now) for row, model in by_row.items()}
        if comparable is not None:
            counts.comparable += int(np.count_nonzero(comparable))
        counts.pairs += int(verdicts.counts[flagged].sum())
        counts.alarms += int(np.count_nonzero(alarms))
        self.recent.add_many(trimmed_verdicts, np.arange(len(trimmed_verdicts)))

    # The end

    def stop(self) -> None:
        """Wake those who wait for news, since the service ends."""
        self.recent.wake()

    async def drain(self) -> None:
        """Wait until everything in the queue is answered."""
        while self._queue_task is not None:
            await asyncio.wait([self._queue_task])

    def close(self) -> None:
        self._judge_thread.shutdown()
        self._reader_threads.shutdown(cancel_futures=True)
        self.monitor.close()
