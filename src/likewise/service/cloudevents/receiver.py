"""Pairs the events of one monitor, has the pairs judged, and reports lost halves.

The decisions of a half without its other half are reported to the monitor as lost. KServe sends no
response for a failed prediction, so `unpaired_requests = "counted"` only counts such requests.
Invariant: pairs are judged in the order in which they became complete. If the queue or the disk is
full, a pair is not taken: its first half goes on waiting, and the second may be sent again.
"""

import asyncio
import hashlib
import time as clock
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from likewise.errors import BadFile, LikewiseError, RepeatedKey
from likewise.runtime.log import logger
from likewise.service.cloudevents import prediction_bodies
from likewise.service.cloudevents.event_decisions import (
    CloudEvent,
    ColumnNames,
    RowCountMismatch,
    make_decisions,
)
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


@dataclass(frozen=True, slots=True)
class EventHalf:
    """An event, and the number of its decisions."""

    event: CloudEvent
    count: int
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(self.event.body, digest_size=16).digest()
        object.__setattr__(self, "digest", digest)

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


@dataclass(frozen=True, slots=True)
class EventPair:
    """Both halves; `first` is the one that came first."""

    request: EventHalf
    response: EventHalf
    first: EventHalf


@dataclass(frozen=True, slots=True)
class UnpairedHalf:
    """A half whose other half did not come."""

    kind: str
    count: int
    """The number of its decisions."""


@dataclass(frozen=True, slots=True)
class _WaitingHalf:
    half: EventHalf
    since: float


@dataclass(frozen=True, slots=True)
class _SettledPair:
    """The digests of the halves that came with an id, by kind."""

    digests: dict[str, bytes]
    since: float


class PairJoiner:
    """Joins halves; knows those that wait, and the ids of the last ones."""

    def __init__(self, most: int, seconds: float, most_bytes: int) -> None:
        self._most = most
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._waiting: OrderedDict[EventId, _WaitingHalf] = OrderedDict()
        self._settled: OrderedDict[EventId, _SettledPair] = OrderedDict()
        self._given_up: list[UnpairedHalf] = []
        self.bytes = 0

    def __len__(self) -> int:
        """Return how many halves wait."""
        return len(self._waiting)

    def add(self, half: EventHalf, now: float) -> EventPair | JoinOutcome:
        """Add a half; return the pair that it completes, or why it completes none."""
        settled = self._settled.get(half.id)
        if settled is not None:
            digest = settled.digests.get(half.kind)
            if digest is None:
                settled.digests[half.kind] = half.digest
                return JoinOutcome.LATE
            return JoinOutcome.REPEATED if digest == half.digest else JoinOutcome.DIFFERENT
        other = self._waiting.get(half.id)
        if other is None:
            self._add_waiting(half, now)
            return JoinOutcome.WAITING
        if other.half.kind == half.kind:
            same = other.half.digest == half.digest
            return JoinOutcome.REPEATED if same else JoinOutcome.DIFFERENT
        first = self._remove_waiting(half.id)
        self._remember(half.id, now, first, half)
        request, response = (half, first) if half.kind == "request" else (first, half)
        return EventPair(request, response, first)

    def put_back(self, pair: EventPair, now: float) -> None:
        """Let the first half of a pair that could not be judged wait again, as if it came now."""
        self._settled.pop(pair.first.id, None)
        if pair.first.id not in self._waiting:
            self._add_waiting(pair.first, now)

    def expire(self, now: float) -> list[UnpairedHalf]:
        """Give up halves that waited too long; return them, and those that found no room."""
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if now - oldest.since < self._seconds:
                break
            self._give_up_oldest(now)
        while self._settled and now - next(iter(self._settled.values())).since >= self._seconds:
            self._settled.popitem(last=False)
        given_up, self._given_up = self._given_up, []
        return given_up

    def close(self, now: float) -> list[UnpairedHalf]:
        """Give up all that wait."""
        while self._waiting:
            self._give_up_oldest(now)
        return self.expire(now)

    @property
    def next_expiry(self) -> float | None:
        """When the oldest half will have waited too long; None if no half waits."""
        if not self._waiting:
            return None
        return next(iter(self._waiting.values())).since + self._seconds

    def _add_waiting(self, half: EventHalf, now: float) -> None:
        self._waiting[half.id] = _WaitingHalf(half, now)
        self.bytes += half.size
        while len(self._waiting) > self._most or self.bytes > self._most_bytes:
            self._give_up_oldest(now)

    def _remove_waiting(self, id_: EventId) -> EventHalf:
        half = self._waiting.pop(id_).half
        self.bytes -= half.size
        return half

    def _give_up_oldest(self, now: float) -> None:
        half = self._remove_waiting(next(iter(self._waiting)))
        self._given_up.append(UnpairedHalf(half.kind, half.count))
        self._remember(half.id, now, half)

    def _remember(self, id_: EventId, now: float, *halves: EventHalf) -> None:
        self._settled[id_] = _SettledPair({half.kind: half.digest for half in halves}, now)
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
        status = error.status if isinstance(error, Refusal) else status_of(error)
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
            rows = prediction_bodies.read_prediction(event.kind, event.body, limits.batch_rows)
        except Refusal as error:
            counts.refused[str(error.status)] += 1
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
        pair: EventPair,
        half: EventHalf,
        rows: prediction_bodies.PredictionRows,
        names: ColumnNames,
        report: EventsReport,
    ) -> None:
        served, counts = self._served, self._served.counts
        other = prediction_bodies.read_prediction(
            pair.first.kind, pair.first.event.body, served.limits.batch_rows
        )
        both = (rows, other) if half.kind == "request" else (other, rows)
        events = (pair.request.event, pair.response.event)
        try:
            decisions = make_decisions(served.monitor.rule, served.limits, events, both, names)
        except RowCountMismatch:
            counts.refused["mismatch"] += max(rows.count, other.count)
            raise
        except Refusal as error:
            counts.refused[str(error.status)] += rows.count
            raise
        except LikewiseError as error:
            counts.refused[error.code] += rows.count
            raise
        try:
            answers: DecisionAnswers = await served.observe_each(decisions)
        except (Refusal, BadFile) as error:
            if isinstance(error, Refusal):
                counts.refused[str(error.status)] += len(decisions)
            self.joiner.put_back(pair, clock.monotonic())
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
        ends = [] if self.joiner.next_expiry is None else [self.joiner.next_expiry]
        if self._unreported:
            ends.append(now + _TRY_AGAIN_SECONDS)
        if ends:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, min(ends) - now) + 0.001, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self._expire_halves(clock.monotonic())

    def _count_unpaired(self, given_up: list[UnpairedHalf]) -> None:
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
                self._unreported[kind] -= count
                if not self._unreported[kind]:
                    del self._unreported[kind]
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
