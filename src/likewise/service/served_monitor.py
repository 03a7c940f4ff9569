"""One monitor that is served: what waits for it, who hears of its verdicts, what was counted.

A single decision in memory is judged where it comes in, on the event loop: it takes microseconds.
If one takes more than a millisecond, because many past inputs are near, the next thousand wait.
Everything else waits in one queue, which one thread empties: decisions that come together are
judged one after another and written as one transaction (group commit), and all of them are answered
when it is on disk. The thread also makes the answers, since a verdict may have many witnesses.

Invariant: calls are made in the order in which they came; what is answered is durable as the
monitor's durability says; a caller that goes away takes nothing back, and what it sent is counted
and told all the same; verdicts are told in the order of their rows.
Bound: `Limits.waiting_rows` rows wait; more are refused with 429, or wait outside (`room`).
Not here: HTTP (app.py), who may do what (request_guard.py).
"""

import asyncio
import time as clock
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from likewise.errors import BadRule, LikewiseError
from likewise.ledger.ledger import Ledger
from likewise.monitor.monitor import Monitor
from likewise.monitor.protocol import Decision
from likewise.runtime.log import logger
from likewise.service.body_types import encode
from likewise.service.http_errors import Refusal
from likewise.service.monitor_counts import ServiceCounts
from likewise.service.recent_verdicts import Recent, trimmed, trimmed_batch
from likewise.service.settings import Limits, Served
from likewise.tables.rows import Rows
from likewise.verdict.verdict_body import write_body
from likewise.verdict.verdicts import Verdict, Verdicts
from likewise.verdict.witnesses import NO_WITNESSES

OTHERS = "(others)"
"""Models beyond as many as a history may have are counted together under this name."""
_TOGETHER = 1024  # decisions that share a transaction at most, unless one caller has more
_SLOW = 0.001  # seconds; a decision that takes longer has many near rows
_ASIDE = 1_000  # decisions after a slow one that are judged in the thread
_BETWEEN = 256  # verdicts that are told of before others get their turn of the loop
_IDLE = 3  # turns of the loop: answers are sent, requests are read, requests begin to wait
_FLOATS = {float}
_WIDE = 4096  # numbers of an input that is judged on the event loop: some 100 microseconds
_T = TypeVar("_T")
Answers = list[Verdict | LikewiseError]
Listener = Callable[["Hosted", Verdict], None]
"""Told of every verdict with a witness or an alarm, on the event loop; must not wait."""


class FollowedStream(Protocol):
    """What is asked of the stream that a monitor follows."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def lag_seconds(self) -> float:
        """Since its end was last reached; 0 while nothing waits there."""


def _as_it_is(answer: Any) -> Any:
    return answer


class _Kind(NamedTuple):
    """What is done with the answer to a kind of call that takes decisions."""

    trim: Callable[[Any], Any]
    """In the thread: makes what the ring keeps of the answer."""
    tell: Callable[[Any, Any, float], Awaitable[None]]
    """On the event loop: counts the answer and tells of verdicts, given what `trim` made of it, and
    how long whoever waits has waited."""


@dataclass(slots=True)
class _Waiting:
    """Decisions, or another call, and whoever waits for the answer."""

    rows: int
    decisions: Sequence[Decision] | None
    call: Callable[[], Any] | None
    kind: _Kind | None
    """None: it takes no decisions, and nothing is to be counted."""
    then: Callable[[Any], Any]
    """Makes what whoever waits gets, of the answer."""
    future: asyncio.Future[Any]
    since: float
    counts_refusal: bool


@dataclass(slots=True)
class _Made:
    """What came of a call."""

    answer: Any
    told: Any
    """What whoever waits gets; or the error that is raised there."""
    kept: Any = None
    """What the ring keeps of the answer."""
    refused: LikewiseError | None = None


class Hosted:
    """A monitor, its queue and its counts."""

    def __init__(
        self,
        name: str,
        monitor: Monitor,
        settings: Served,
        limits: Limits,
    ) -> None:
        self.name = name
        self.monitor = monitor
        self.settings = settings
        self.limits = limits
        self.counts = ServiceCounts()
        self.listeners: list[Listener] = []
        self.stream: FollowedStream | None = None
        """The stream that it follows."""
        self.next_row = monitor.rows
        """Known without waiting for the monitor's turn."""
        self.recent = Recent(limits.recent, limits.witnesses, self.next_row - 1)
        monitor.when_erased.append(self.recent.erase)
        self.waiting_rows = 0
        features = monitor.rule.features or {}
        embeds = monitor.rule.embed is not None or any(
            feature.kind in ("text", "image") for feature in features.values()
        )
        self._at_once = not monitor.durable and not embeds
        self._aside_until = 0  # the row from which decisions may be judged on the loop
        self._waiting: deque[_Waiting] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._each = _Kind(self._trim_each, self._tell_each)
        self._batch = _Kind(self._trim_batch, self._tell_batch)
        self._single = _Kind(self._trim_one, self._tell_one)
        self._for_room: list[asyncio.Future[None]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"likewise-{name}")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix=f"likewise-look-{name}")

    def use_limits(self, limits: Limits) -> None:
        """Use these limits from now on."""
        self.limits = limits
        self.recent.most, self.recent.witnesses = limits.recent, limits.witnesses

    # Decisions

    async def observe(
        self,
        decision: Decision,
        then: Callable[[Verdict], _T] = _as_it_is,
        *,
        durable: bool = False,
    ) -> _T:
        """Judge one decision and remember it; what `then` makes of its verdict.

        then: called where it was judged, on the event loop or in a thread
        durable: answer when it is on disk, even where the monitor's durability would not wait
        """
        if self._judges_at_once and (type(decision.x) is not list or len(decision.x) <= _WIDE):
            begin = clock.perf_counter()
            now = then(self._observe_now(decision))
            self._note_pace(begin, 1)
            return now

        def told(answers: Answers) -> _T:
            if isinstance(answers[0], LikewiseError):
                raise answers[0]
            return then(answers[0])

        answer: _T = await self._wait(1, self._each, [decision], None, told)
        if durable:
            await self.flush()
        return answer

    @property
    def _judges_at_once(self) -> bool:
        """Whether a decision takes microseconds and nothing waits before it."""
        return self._at_once and self._pump is None and self.next_row >= self._aside_until

    def _note_pace(self, begin: float, decisions: int) -> None:
        """Have the next decisions judged in the thread if these took long."""
        if clock.perf_counter() - begin > _SLOW * decisions:
            self._aside_until = self.next_row + _ASIDE

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
            self._refused(error)
            raise
        self.counts.observing.add(clock.perf_counter() - begin)
        self.took(verdict)
        return verdict

    async def observe_each(
        self,
        decisions: Sequence[Decision],
        then: Callable[[Answers], _T] = _as_it_is,
        *,
        durable: bool = False,
    ) -> _T:
        """Judge decisions one after another: for each its verdict, or why it is refused.

        then: makes the answer of them, in a thread
        """
        if not decisions:
            return then([])
        answer: _T = await self._wait(len(decisions), self._each, decisions, None, then)
        if durable:
            await self.flush()
        return answer

    async def observe_many(
        self,
        count: int,
        call: Callable[[], Verdicts],
        then: Callable[[Verdicts], _T] = _as_it_is,
        *,
        counts_refusal: bool = True,
    ) -> _T:
        """Judge a batch and remember it, or refuse it whole.

        call: the `observe_many` of the monitor, with its arguments
        then: makes the answer, in the thread
        """
        answer: _T = await self._wait(
            count, self._batch, None, call, then, counts_refusal=counts_refusal
        )
        return answer

    async def supersede(self, call: Callable[[], Verdict]) -> Verdict:
        """Overrule a decision; the verdict on the one that takes its place.

        call: the `supersede` of the monitor, with its arguments
        """
        answer: Verdict = await self._wait(1, self._single, None, call, _as_it_is)
        return answer

    async def do(self, call: Callable[[], _T], *, rows: int = 1, counts_refusal: bool = True) -> _T:
        """Anything that takes no decisions and is part of the history's order; what it answers."""
        answer: _T = await self._wait(
            rows, None, None, call, _as_it_is, counts_refusal=counts_refusal
        )
        return answer

    async def flush(self) -> None:
        """Have the ledger show everything that was answered."""
        if self.monitor.durable and self.monitor.durability != "commit":
            await self.do(self.monitor.flush)

    async def look(self, call: Callable[[Ledger], _T]) -> _T:
        """Look at the ledger, beside whatever is being written."""
        if not self.monitor.durable:
            raise BadRule(f"the monitor {self.name!r} is in memory: it has no ledger to look at.")
        path = self.monitor.path

        def looked() -> _T:
            with closing(Ledger(path)) as ledger:
                return call(ledger)

        return await asyncio.get_running_loop().run_in_executor(self._readers, looked)

    async def aside(self, call: Callable[[], _T]) -> _T:
        """Something that takes long and needs no turn, such as verifying."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, call)

    # The queue

    def _wait(
        self,
        rows: int,
        kind: _Kind | None,
        decisions: Sequence[Decision] | None,
        call: Callable[[], Any] | None,
        then: Callable[[Any], Any],
        *,
        counts_refusal: bool = True,
    ) -> asyncio.Future[Any]:
        most = self.limits.waiting_rows
        if self.waiting_rows and self.waiting_rows + rows > most:
            raise Refusal(
                429, f"{self.waiting_rows} decisions wait already, of at most {most}.", retry=1.0
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        now = clock.perf_counter()
        one = _Waiting(rows, decisions, call, kind, then, future, now, counts_refusal)
        self._waiting.append(one)
        self.waiting_rows += rows
        if self._pump is None:
            self._pump = loop.create_task(self._run())
        return future

    async def room(self, rows: int) -> None:
        """Wait until so many rows may wait, for callers that would rather wait than be refused."""
        while self.waiting_rows and self.waiting_rows + rows > self.limits.waiting_rows:
            turn = asyncio.get_running_loop().create_future()
            self._for_room.append(turn)
            await turn

    @property
    def oldest_age(self) -> float:
        """How long the first in the queue has waited, in seconds."""
        return clock.perf_counter() - self._waiting[0].since if self._waiting else 0.0

    async def _run(self) -> None:
        """Empty the queue: calls in their order, decisions next to each other together.

        Requests that have come already may join the queue first. Most callers send again as soon as
        they are answered: otherwise half of them would find the others' transaction begun, and each
        transaction would have half of them.
        """
        loop = asyncio.get_running_loop()
        while self._waiting:
            idle = 0  # turns of the loop in which nobody else joined the queue
            while idle < _IDLE and self._waiting[-1].decisions is not None:
                before = len(self._waiting)
                if before >= _TOGETHER:
                    break
                await asyncio.sleep(0)
                idle = 0 if len(self._waiting) > before else idle + 1
            group = self._next()
            begin = clock.perf_counter()
            try:
                made = await loop.run_in_executor(self._thread, self._make, group)
            except Exception as error:
                made = [_Made(None, error)] * len(group)
            now = clock.perf_counter()
            self.counts.committing.add(now - begin)
            for one, done in zip(group, made, strict=True):
                self.waiting_rows -= one.rows
                if done.refused is not None and one.counts_refusal:
                    self._refused(done.refused, one.rows)
                elif done.answer is not None and one.kind is not None:
                    await one.kind.tell(done.answer, done.kept, now - one.since)
                if one.future.done():  # whoever waited has gone
                    continue
                if isinstance(done.told, BaseException):
                    one.future.set_exception(done.told)
                else:
                    one.future.set_result(done.told)
            waiting, self._for_room = self._for_room, []
            for turn in waiting:
                if not turn.done():
                    turn.set_result(None)
        self._pump = None

    def _next(self) -> list[_Waiting]:
        """The next call; or the next decisions, as many as may share a transaction."""
        waiting = self._waiting
        group = [waiting.popleft()]
        rows = group[0].rows
        while (
            group[0].decisions is not None
            and waiting
            and waiting[0].decisions is not None
            and rows + waiting[0].rows <= _TOGETHER
        ):
            group.append(waiting.popleft())
            rows += group[-1].rows
        return group

    def _make(self, group: list[_Waiting]) -> list[_Made]:
        """In the thread: make the calls of a group and the answers to them."""
        call = group[0].call
        answers: list[Any]
        if call is not None:
            try:
                answers = [call()]
            except LikewiseError as error:
                answers = [error]
        else:
            begin = clock.perf_counter()
            decisions = [decision for one in group for decision in one.decisions or ()]
            each = iter(self.monitor.observe_each(decisions))
            answers = [[next(each) for _ in one.decisions or ()] for one in group]
            self._note_pace(begin, len(decisions))
        return [self._finish(one, answer) for one, answer in zip(group, answers, strict=True)]

    def _finish(self, one: _Waiting, answer: Any) -> _Made:
        """In the thread: everything that takes longer the more witnesses there are."""
        if isinstance(answer, LikewiseError):
            return _Made(None, answer, refused=answer)
        kept = None if one.kind is None else one.kind.trim(answer)
        try:
            return _Made(answer, one.then(answer), kept)
        except Exception as error:
            return _Made(answer, error, kept)

    def _trim_each(self, answers: Answers) -> list[Verdict | None]:
        kept: list[Verdict | None] = []
        for one in answers:
            if isinstance(one, LikewiseError):
                kept.append(None)
            else:
                kept.append(trimmed(one, self.limits.witnesses) if one.violation else one)
        return kept

    def _trim_batch(self, verdicts: Verdicts) -> Verdicts:
        return trimmed_batch(verdicts, self._places(verdicts), self.limits.witnesses)

    def _trim_one(self, verdict: Verdict) -> Verdict:
        return trimmed(verdict, self.limits.witnesses)

    # Telling

    async def _tell_each(
        self, answers: Answers, kept: list[Verdict | None], seconds: float
    ) -> None:
        for place, one in enumerate(answers):
            if isinstance(one, LikewiseError):
                self._refused(one)
            else:
                self.counts.observing.add(seconds / len(answers))
                self.took(one, kept[place])
            if place % _BETWEEN == _BETWEEN - 1:
                await asyncio.sleep(0)

    async def _tell_batch(self, verdicts: Verdicts, kept: Verdicts, seconds: float) -> None:
        self.counts.observing.add(seconds / max(1, len(verdicts)), len(verdicts))
        self.took_many(verdicts, kept)
        for count, place in enumerate(self._places(verdicts).tolist() if self.listeners else ()):
            self._announce(verdicts[place])
            if count % _BETWEEN == _BETWEEN - 1:
                await asyncio.sleep(0)

    async def _tell_one(self, verdict: Verdict, kept: Verdict, seconds: float) -> None:
        self.counts.observing.add(seconds)
        self.took(verdict, kept)

    def _refused(self, error: LikewiseError, rows: int = 1) -> None:
        self.counts.refused[error.code] += rows

    def took(self, verdict: Verdict, kept: Verdict | None = None) -> None:
        """Count a verdict, and tell whoever listens if there is something to tell.

        kept: the verdict as the ring keeps it, if it was trimmed before
        """
        counts, beside = self.counts, verdict.beside
        if beside.known:
            counts.known += 1
            return
        if verdict.row is not None:
            self.next_row = verdict.row + 1
        model = "" if beside.model is None else self._counted_as(beside.model)
        counts.decisions[model] += 1
        counts.last_decision = now = clock.time()
        if beside.comparable:
            counts.comparable += 1
        if verdict.witnesses is NO_WITNESSES and not (beside.omitted or beside.alarm):
            return  # as most are: with nothing to tell
        violation = verdict.violation
        if not (violation or beside.alarm):
            return
        if violation:
            counts.violations[model] += 1
            counts.newest[model] = self.next_row - 1, now
            counts.pairs += verdict.count
        counts.alarms += beside.alarm
        self.recent.add(trimmed(verdict, self.limits.witnesses) if kept is None else kept)
        self._announce(verdict)

    def body_of(self, verdict: Verdict, witnesses: int | None = None) -> dict[str, Any]:
        """The body of a verdict, with as many witnesses as are told, or fewer if that is wanted."""
        limits = self.limits
        most = limits.witnesses if witnesses is None else limits.named(witnesses)
        return write_body(verdict, most, over=False)

    def told_bytes(self, verdict: Verdict, witnesses: int | None = None) -> bytes:
        """A verdict as JSON."""
        return encode(self.body_of(verdict, witnesses))

    def _announce(self, verdict: Verdict) -> None:
        for listener in self.listeners:
            try:
                listener(self, verdict)
            except Exception as error:  # of a listener: whoever waits for the verdict still gets it
                logger.error("a listener of %s failed: %s", self.name, type(error).__name__)

    def _counted_as(self, model: str | None) -> str:
        """The name under which a model is counted: models come and go, and counts stay."""
        known = self.counts.decisions
        if model is None or model in known or len(known) <= self.limits.labels:
            return model or ""
        return OTHERS

    def _places(self, verdicts: Verdicts) -> Rows:
        """Find what there is to tell of a batch: new violations and alarms."""
        told = verdicts.violations | verdicts.alarms
        return (told if verdicts.repeats is None else told & ~verdicts.known).nonzero()[0]

    def took_many(self, verdicts: Verdicts, kept: Verdicts | None = None) -> None:
        """Count a batch, and keep what is to be told of it.

        kept: the verdicts at `_places`, if they were trimmed before
        """
        counts, models = self.counts, verdicts.models
        violations, alarms, comparable = (
            verdicts.violations,
            verdicts.alarms,
            verdicts.comparable,
        )
        new, fresh = len(verdicts), None
        if verdicts.repeats is not None:
            fresh = ~verdicts.known
            new = int(fresh.sum())
            violations, alarms = violations & fresh, alarms & fresh
            comparable = None if comparable is None else comparable & fresh
        counts.known += len(verdicts) - new
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
                counts.newest[""] = int(rows[flagged[-1]]), now
        else:
            named = {model: self._counted_as(model) for model in set(models)}
            taken = models if fresh is None else [models[i] for i in np.flatnonzero(fresh).tolist()]
            counts.decisions.update(named[model] for model in taken)
            by_row = {int(rows[i]): named[models[i]] for i in flagged.tolist()}
            counts.violations.update(by_row.values())
            counts.newest |= {model: (row, now) for row, model in by_row.items()}
        if comparable is not None:
            counts.comparable += int(np.count_nonzero(comparable))
        counts.pairs += int(verdicts.counts[flagged].sum())
        counts.alarms += int(np.count_nonzero(alarms))
        if kept is None:
            self.recent.add_many(verdicts, (violations | alarms).nonzero()[0])
        else:
            self.recent.add_many(kept, np.arange(len(kept)))

    # The end

    def stop(self) -> None:
        """The service ends: have those who wait for news look."""
        self.recent.wake()

    async def drain(self) -> None:
        """Have everything that waits answered."""
        while self._pump is not None:
            await asyncio.wait([self._pump])

    def close(self) -> None:
        self._thread.shutdown()
        self._readers.shutdown(cancel_futures=True)
        self.monitor.close()
