"""Pairs the events of one monitor, has the pairs judged, and reports lost halves.

The decisions of a half without its other half are reported to the monitor as lost. KServe sends no
response for a failed prediction, so `unpaired_requests = "counted"` only counts such requests.
Invariant: pairs are judged in the order in which they became complete. If the queue or the disk is
full, a pair is not taken: its first half goes on waiting, and the second may be sent again.
"""

import asyncio
import hashlib
import math
import time as clock
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from typing import Any

from likewise.errors import BadFile, LikewiseError, RepeatedKey
from likewise.runtime.log import logger
from likewise.service.cloudevents.event_decisions import CloudEvent, ColumnNames, make_decisions
from likewise.service.cloudevents.prediction_bodies import PredictionRows, read_prediction
from likewise.service.http_errors import Refusal, error_fields, status_of
from likewise.service.served_monitor import DecisionAnswers, ServedMonitor

_OVERHEAD = 512  # bytes of a half beside its body, roughly
EventId = tuple[str, str, str, str]


class JoinOutcome(Enum):
    """Says why a half makes no pair now."""

    WAITING = "waiting"
    REPEATED = "repeated"
    DIFFERENT = "different"
    LATE = "late"


@dataclass(frozen=True)
class EventHalf:
    """An event, and the number of its decisions."""

    event: CloudEvent
    count: int

    @cached_property
    def digest(self) -> bytes:
        return hashlib.blake2b(self.event.body, digest_size=16).digest()

    @property
    def id(self) -> EventId:
        event = self.event
        return event.service, event.namespace, event.component, event.id

    @property
    def kind(self) -> str:
        return self.event.kind

    @property
    def size(self) -> int:
        return len(self.event.body) + _OVERHEAD

    def compare(self, digest: bytes) -> JoinOutcome:
        """Compare it with the digest of one that came with the same id and kind."""
        return JoinOutcome.REPEATED if digest == self.digest else JoinOutcome.DIFFERENT


class PairJoiner:
    """Joins halves; knows those that wait, and the ids of the last ones."""

    def __init__(self, most: int, seconds: float, most_bytes: int) -> None:
        self._most = most
        self._seconds = seconds
        self._most_bytes = most_bytes
        # Halves, each with the time since when it waits.
        self._waiting: OrderedDict[EventId, tuple[EventHalf, float]] = OrderedDict()
        # Digests of the halves that came with an id, by kind, and when they were settled.
        self._settled: OrderedDict[EventId, tuple[dict[str, bytes], float]] = OrderedDict()
        self._given_up: list[EventHalf] = []
        self.bytes = 0

    def __len__(self) -> int:
        """Return how many halves wait."""
        return len(self._waiting)

    def add(self, half: EventHalf, now: float) -> EventHalf | JoinOutcome:
        """Add a half; return the half that it makes a pair with, or why it makes none."""
        if half.id in self._settled:
            digests, _ = self._settled[half.id]
            if half.kind in digests:
                return half.compare(digests[half.kind])
            digests[half.kind] = half.digest
            return JoinOutcome.LATE
        if half.id not in self._waiting:
            self._add_waiting(half, now)
            return JoinOutcome.WAITING
        first, _ = self._waiting[half.id]
        if first.kind == half.kind:
            return half.compare(first.digest)
        self._remove_waiting(half.id)
        self._remember(now, first, half)
        return first

    def put_back(self, first: EventHalf, now: float) -> None:
        """Let the first half of a pair that could not be judged wait again, as if it came now."""
        self._settled.pop(first.id, None)
        if first.id not in self._waiting:
            self._add_waiting(first, now)

    def expire(self, now: float) -> list[EventHalf]:
        """Give up halves that waited too long; return them, and those that found no room."""
        while self.next_expiry <= now:
            self._give_up_oldest(now)
        while self._settled and now - next(iter(self._settled.values()))[1] >= self._seconds:
            self._settled.popitem(last=False)
        given_up, self._given_up = self._given_up, []
        return given_up

    def close(self, now: float) -> list[EventHalf]:
        """Give up all that wait."""
        while self._waiting:
            self._give_up_oldest(now)
        return self.expire(now)

    @property
    def next_expiry(self) -> float:
        """When the oldest half will have waited too long; infinity if no half waits."""
        return next((since + self._seconds for _, since in self._waiting.values()), math.inf)

    def _add_waiting(self, half: EventHalf, now: float) -> None:
        self._waiting[half.id] = half, now
        self.bytes += half.size
        while len(self._waiting) > self._most or self.bytes > self._most_bytes:
            self._give_up_oldest(now)

    def _remove_waiting(self, id_: EventId) -> EventHalf:
        half, _ = self._waiting.pop(id_)
        self.bytes -= half.size
        return half

    def _give_up_oldest(self, now: float) -> None:
        half = self._remove_waiting(next(iter(self._waiting)))
        self._given_up.append(half)
        self._remember(now, half)

    def _remember(self, now: float, *halves: EventHalf) -> None:
        self._settled[halves[0].id] = {half.kind: half.digest for half in halves}, now
        while len(self._settled) > self._most:
            self._settled.popitem(last=False)


_TRY_AGAIN_SECONDS = 1.0


@dataclass
class EventsReport:
    """Counts what happened to the events of one request."""

    events: int = 0
    waiting: int = 0
    repeated: int = 0
    late: int = 0
    decisions: int = 0
    violations: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    retry_seconds: float | None = None

    def add_refusal(self, place: int, error: LikewiseError | Refusal) -> None:
        """Add why an event, or a decision of its pair, was refused; the first sets the status."""
        status = status_of(error)
        if self.status == 200 or status >= 500:
            self.status = status
        if isinstance(error, Refusal) and error.retry_seconds is not None:
            self.retry_seconds = error.retry_seconds
        self.refused.append({"event": place, **error_fields(error)})

    def to_dict(self) -> dict[str, Any]:
        names = ("events", "waiting", "repeated", "late", "decisions", "violations")
        counts: dict[str, Any] = {name: getattr(self, name) for name in names}
        return counts | ({"refused": self.refused} if self.refused else {})


class EventReceiver:
    """Receives the halves of one monitor's predictions."""

    def __init__(self, served: ServedMonitor) -> None:
        limits = served.limits
        self._served = served
        self.joiner = PairJoiner(limits.pairs, limits.pair_seconds, limits.pair_bytes)
        self._unreported: Counter[str] = Counter()  # lost decisions that the monitor has to know
        self._report_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self, events: list[CloudEvent], names: ColumnNames) -> EventsReport:
        """Take the events of one request; each is taken or refused by itself."""
        report = EventsReport(len(events))
        for place, event in enumerate(events):
            if place:
                await asyncio.sleep(0)  # the turn of other requests
            try:
                await self._receive_event(place, event, names, report)
            except (Refusal, LikewiseError) as error:
                report.add_refusal(place, error)
        return report

    async def _receive_event(
        self, place: int, event: CloudEvent, names: ColumnNames, report: EventsReport
    ) -> None:
        served, limits = self._served, self._served.limits
        counts = served.counts
        try:
            rows = read_prediction(event.kind, event.body, limits.batch_rows)
        except Refusal as error:
            counts.count_refusal(error)
            raise
        now = clock.monotonic()
        half = EventHalf(event, rows.count)
        self._expire_halves(now)
        outcome = self.joiner.add(half, now)
        self._expire_halves(now)
        if outcome is JoinOutcome.WAITING:
            report.waiting += 1
        elif outcome is JoinOutcome.REPEATED:
            report.repeated += 1
            counts.repeated_events[event.kind] += 1
        elif outcome is JoinOutcome.LATE:
            report.late += 1
            counts.unpaired[event.kind] += 1
        elif outcome is JoinOutcome.DIFFERENT:
            counts.refused[RepeatedKey.code] += rows.count
            raise Refusal(409, f"another {event.kind} with this id came, and was different.")
        else:
            await self._judge_pair(place, outcome, half, rows, names, report)

    async def _judge_pair(
        self,
        place: int,
        first: EventHalf,
        second: EventHalf,
        rows: PredictionRows,
        names: ColumnNames,
        report: EventsReport,
    ) -> None:
        """Judge a pair; `rows` are those of the second half."""
        served, limits, counts = self._served, self._served.limits, self._served.counts
        other = read_prediction(first.kind, first.event.body, limits.batch_rows)
        request, response = (first.event, other), (second.event, rows)
        if second.kind == "request":
            request, response = response, request
        if rows.count != other.count:
            counts.refused["mismatch"] += max(rows.count, other.count)
            sizes = f"the request has {request[1].count} rows, the response {response[1].count}"
            raise Refusal(422, f"{sizes}. Nothing was stored.")
        try:
            decisions = make_decisions(served.monitor.rule, limits, request, response, names)
        except (Refusal, LikewiseError) as error:
            counts.count_refusal(error, rows.count)
            raise
        try:
            answers: DecisionAnswers = await served.observe_each(decisions)
        except (Refusal, BadFile) as error:
            if isinstance(error, Refusal):
                counts.count_refusal(error, len(decisions))
            self.joiner.put_back(first, clock.monotonic())
            self._expire_halves(clock.monotonic())
            raise
        for answer in answers:
            if isinstance(answer, LikewiseError):
                report.add_refusal(place, answer)
            else:
                report.decisions += 1
                report.violations += answer.violation

    # Halves that are given up

    def _expire_halves(self, now: float) -> None:
        """Give up what has waited too long, and set a timer for the next."""
        self._count_unpaired(self.joiner.expire(now))
        self._served.counts.waiting_events = len(self.joiner)
        self._cancel_timer()
        again = now + _TRY_AGAIN_SECONDS if self._unreported else math.inf
        seconds = min(self.joiner.next_expiry, again) - now
        if seconds < math.inf:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(
                max(0.0, seconds) + 0.001, lambda: self._expire_halves(clock.monotonic())
            )

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _count_unpaired(self, given_up: list[EventHalf]) -> None:
        counts = self._served.counts
        for half in given_up:
            counts.unpaired[half.kind] += 1
            if half.kind == "request" and self._served.settings.unpaired_requests == "counted":
                continue
            counts.dropped[f"unpaired {half.kind}"] += half.count
            self._unreported[half.kind] += half.count
        if self._unreported and self._report_task is None:
            self._report_task = asyncio.get_running_loop().create_task(self._report_losses())

    async def _report_losses(self) -> None:
        """Report losses to the monitor; what cannot be reported now is reported later."""
        try:
            while self._unreported:
                kind, count = next(iter(self._unreported.items()))
                call = partial(self._served.monitor.record_loss, count, f"unpaired {kind}")
                await self._served.run_in_turn(call)
                self._unreported -= Counter({kind: count})  # which deletes zeros
        except (Refusal, LikewiseError) as error:
            logger.warning(
                "losses could not be written, which will be tried again: %s", type(error).__name__
            )
        finally:
            self._report_task = None

    async def close(self) -> None:
        """Give up all that wait, and report them to the monitor, since the service ends."""
        self._count_unpaired(self.joiner.close(clock.monotonic()))
        self._served.counts.waiting_events = 0
        self._cancel_timer()
        if self._report_task is not None:
            await self._report_task
        if self._unreported:
            logger.error(
                "%d decisions are lost, which could not be written", self._unreported.total()
            )
