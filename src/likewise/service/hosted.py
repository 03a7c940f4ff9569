"""One monitor that is served: what waits for it, who hears of its verdicts, what was counted.

A decision on vectors in memory is judged where it comes in, on the event loop: it takes
microseconds. Everything else waits in one queue, which one thread empties: decisions that come
together are judged one after another and written as one transaction (group commit), and all of them
are answered when it is on disk.

Invariant: calls are made in the order in which they came; what is answered is durable as the
monitor's durability says; a caller that goes away takes nothing back.
Bound: `Limits.waiting_rows` rows wait; more are refused with 429.
Not here: HTTP (app.py), who may do what (door.py).
"""

import asyncio
import time as clock
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from likewise.ledger.ledger import Ledger
from likewise.monitors.monitor import Monitor
from likewise.monitors.protocol import Decision
from likewise.service.counts import Counts
from likewise.service.refusals import Refused
from likewise.service.settings import Limits, Served
from likewise.values.errors import BadRule, LikewiseError
from likewise.values.verdicts import Verdict, Verdicts

_TOGETHER = 1024  # decisions that share a transaction at most
_T = TypeVar("_T")
Listener = Callable[["Hosted", Verdict], None]
"""Told of every verdict with a witness or an alarm, on the event loop; must not wait."""


@dataclass(slots=True)
class _Waiting:
    """A decision, or another call, and whoever waits for its answer."""

    rows: int
    decision: Decision | None
    call: Callable[[], Any] | None
    future: asyncio.Future[Any]
    since: float


class Hosted:
    """A monitor, its queue and its counts."""

    def __init__(self, name: str, monitor: Monitor, settings: Served, limits: Limits) -> None:
        self.name = name
        self.monitor = monitor
        self.settings = settings
        self.limits = limits
        self.counts = Counts()
        self.listeners: list[Listener] = []
        self.waiting_rows = 0
        features = monitor.rule.features or {}
        embeds = monitor.rule.embed is not None or any(
            feature.kind in ("text", "image") for feature in features.values()
        )
        self._at_once = not monitor.durable and not embeds
        self._waiting: deque[_Waiting] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"likewise-{name}")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix=f"likewise-look-{name}")

    # Decisions

    async def observe(self, decision: Decision, *, durable: bool = False) -> Verdict:
        """Judge one decision and remember it.

        durable: answer when it is on disk, even where the monitor's durability would not wait
        """
        begin = clock.perf_counter()
        try:
            if self._at_once and self._pump is None:
                verdict = self.monitor.observe(
                    decision.x,
                    decision.z,
                    key=decision.key,
                    time=decision.time,
                    model=decision.model,
                )
            else:
                verdict = await self._wait(1, decision, None)
                if durable and self.monitor.durable and self.monitor.durability != "commit":
                    await self.do(self.monitor.flush)
        except LikewiseError as error:
            self.counts.refused[type(error).__name__] += 1
            raise
        self.counts.observing.add(clock.perf_counter() - begin)
        self.took(verdict)
        return verdict

    async def observe_each(self, decisions: Sequence[Decision]) -> list[Verdict | LikewiseError]:
        """Judge decisions one after another: for each its verdict, or why it is refused."""
        begin = clock.perf_counter()
        try:
            answers = await self.do(
                partial(self.monitor.observe_each, decisions), rows=len(decisions)
            )
        except LikewiseError as error:
            self.counts.refused[type(error).__name__] += len(decisions)
            raise
        seconds = (clock.perf_counter() - begin) / max(1, len(answers))
        for answer in answers:
            if isinstance(answer, LikewiseError):
                self.counts.refused[type(answer).__name__] += 1
            else:
                self.counts.observing.add(seconds)
                self.took(answer)
        return answers

    async def observe_many(self, count: int, call: Callable[[], Verdicts]) -> Verdicts:
        """Judge a batch and remember it, or refuse it whole.

        call: the `observe_many` of the monitor, with its arguments
        """
        begin = clock.perf_counter()
        try:
            verdicts: Verdicts = await self.do(call, rows=count)
        except LikewiseError as error:
            self.counts.refused[type(error).__name__] += count
            raise
        self.counts.observing.add((clock.perf_counter() - begin) / max(1, count), count)
        self.took_many(verdicts)
        return verdicts

    async def do(self, call: Callable[[], _T], *, rows: int = 1) -> _T:
        """Anything else that is part of the history's order; what it answers."""
        answer: _T = await self._wait(rows, None, call)
        return answer

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
        self, rows: int, decision: Decision | None, call: Callable[[], Any] | None
    ) -> asyncio.Future[Any]:
        most = self.limits.waiting_rows
        if self.waiting_rows and self.waiting_rows + rows > most:
            raise Refused(
                429, f"{self.waiting_rows} decisions wait already, of at most {most}.", retry=1.0
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(_Waiting(rows, decision, call, future, clock.perf_counter()))
        self.waiting_rows += rows
        if self._pump is None:
            self._pump = loop.create_task(self._run())
        return future

    @property
    def oldest_age(self) -> float:
        """How long the first in the queue has waited, in seconds."""
        return clock.perf_counter() - self._waiting[0].since if self._waiting else 0.0

    async def _run(self) -> None:
        """Empty the queue: calls in their order, decisions next to each other together."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            group = [self._waiting.popleft()]
            while (
                group[0].decision is not None
                and self._waiting
                and self._waiting[0].decision is not None
                and len(group) < _TOGETHER
            ):
                group.append(self._waiting.popleft())
            begin = clock.perf_counter()
            try:
                answers = await loop.run_in_executor(self._thread, self._made, group)
            except Exception as error:
                answers = [error] * len(group)
            self.counts.committing.add(clock.perf_counter() - begin)
            for one, answer in zip(group, answers, strict=True):
                self.waiting_rows -= one.rows
                if one.future.done():  # whoever waited has gone
                    continue
                if isinstance(answer, BaseException):
                    one.future.set_exception(answer)
                else:
                    one.future.set_result(answer)
        self._pump = None

    def _made(self, group: list[_Waiting]) -> list[Any]:
        """In the thread: make the calls of a group; an answer or an error for each."""
        call = group[0].call
        if call is not None:
            try:
                return [call()]
            except LikewiseError as error:
                return [error]
        return self.monitor.observe_each([one.decision for one in group if one.decision])

    # Telling

    def took(self, verdict: Verdict) -> None:
        """Count a verdict, and tell whoever listens if there is something to tell."""
        counts = self.counts
        if verdict.known:
            counts.known += 1
            return
        model = verdict.model or ""
        counts.decisions[model] += 1
        counts.last_decision = clock.time()
        if verdict.comparable:
            counts.comparable += 1
        if not (verdict.violation or verdict.alarm):
            return
        if verdict.violation:
            counts.violations[model] += 1
            counts.pairs += verdict.count
        counts.alarms += verdict.alarm
        for listener in self.listeners:
            listener(self, verdict)

    def took_many(self, verdicts: Verdicts) -> None:
        counts, models = self.counts, verdicts.models
        if models is None:
            counts.decisions[""] += len(verdicts)
        else:
            counts.decisions.update(model or "" for model in models)
        if verdicts.comparable is not None:
            counts.comparable += int(verdicts.comparable.sum())
        counts.last_decision = clock.time()
        for place in np.flatnonzero(verdicts.violations | verdicts.alarms).tolist():
            verdict = verdicts[place]
            if verdict.violation:
                counts.violations[verdict.model or ""] += 1
                counts.pairs += verdict.count
            counts.alarms += verdict.alarm
            for listener in self.listeners:
                listener(self, verdict)

    # The end

    async def drain(self) -> None:
        """Have everything that waits answered."""
        while self._pump is not None:
            await asyncio.wait([self._pump])

    def close(self) -> None:
        self._thread.shutdown()
        self._readers.shutdown(cancel_futures=True)
        self.monitor.close()
