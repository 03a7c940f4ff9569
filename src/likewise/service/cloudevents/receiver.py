"""Takes events for one monitor: joins them, has pairs judged, and tells what was lost.

A half whose other half does not come is counted by its kind, and its decisions are told to the
monitor as lost, which a ledger keeps in its chain. A response without a request is a decision that
nobody can judge any more. A request without a response is either that, because the response got
lost, or no decision at all: KServe sends no response for a prediction that failed. Which of them
cannot be told here; with `unpaired_requests = "counted"` in the monitor's settings they are counted
and not told.

Invariant: nothing waits between the arrival of a half and the place of its decisions in the queue,
so pairs are judged in the order in which they became complete. A pair that finds no room in the
queue, or no disk, is not taken: its first half waits on, and the second may be sent again.
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
    ColumnNames,
    RowCountMismatch,
    make_decisions,
)
from likewise.service.cloudevents.event_formats import CloudEvent
from likewise.service.http_errors import Refusal, error_fields, status_of
from likewise.service.served_monitor import DecisionAnswers, ServedMonitor

_OVERHEAD = 512  # bytes of a half beside its body, roughly
EventId = tuple[str, str, str, str]


class JoinOutcome(Enum):
    """Of a half that makes no pair."""

    WAITING = "waiting"
    REPEATED = "repeated"
    DIFFERENT = "different"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class EventHalf:
    """An event, and how many decisions it stands for."""

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
    """Of decisions that it stands for."""


@dataclass(frozen=True, slots=True)
class _WaitingHalf:
    half: EventHalf
    since: float


@dataclass(frozen=True, slots=True)
class _SettledPair:
    """What became of an id: the digests of the halves that came, by kind."""

    digests: dict[str, bytes]
    since: float


class PairJoiner:
    """Halves that wait for the other half, and what became of the last ones."""

    def __init__(self, most: int, seconds: float, most_bytes: int) -> None:
        self._most = most
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._waiting: OrderedDict[EventId, _WaitingHalf] = OrderedDict()
        self._settled: OrderedDict[EventId, _SettledPair] = OrderedDict()
        self._given_up: list[UnpairedHalf] = []
        self.bytes = 0

    def __len__(self) -> int:
        """Halves that wait."""
        return len(self._waiting)

    def add(self, half: EventHalf, now: float) -> EventPair | JoinOutcome:
        """A half came: the pair that it completes, or what it is."""
        past = self._settled.get(half.id)
        if past is not None:
            known = past.digests.get(half.kind)
            if known is None:
                past.digests[half.kind] = half.digest
                return JoinOutcome.LATE
            return JoinOutcome.REPEATED if known == half.digest else JoinOutcome.DIFFERENT
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
        """A pair could not be taken now: its first half waits again, as if it came now."""
        self._settled.pop(pair.first.id, None)
        if pair.first.id not in self._waiting:
            self._add_waiting(pair.first, now)

    def expire(self, now: float) -> list[UnpairedHalf]:
        """Give up halves that have waited too long; these, and those that found no room."""
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
        """When the oldest half will have waited too long."""
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
    """What became of the events of one request."""

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
        """Tell why an event, or a decision of its pair, was refused; the first sets the status."""
        status = error.status if isinstance(error, Refusal) else status_of(error)
        if self.status == 200 or status >= 500:
            self.status = status
        if isinstance(error, Refusal) and error.retry_seconds is not None:
            self.retry_seconds = error.retry_seconds
        self.refused.append({"event": place, **error_fields(error)})

    def to_dict(self) -> dict[str, Any]:
        told = {
            "events": self.events,
            "waiting": self.waiting,
            "repeated": self.repeated,
            "late": self.late,
            "decisions": self.decisions,
            "violations": self.violations,
        }
        return told | ({"refused": self.refused} if self.refused else {})


class EventReceiver:
    """The halves of one monitor's predictions."""

    def __init__(self, hosted: ServedMonitor) -> None:
        limits = hosted.limits
        self._hosted = hosted
        self.joiner = PairJoiner(limits.pairs, limits.pair_seconds, limits.pair_bytes)
        self._unreported: Counter[str] = (
            Counter()
        )  # decisions that the monitor must be told are lost
        self._report_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self, events: list[CloudEvent], names: ColumnNames) -> EventsReport:
        """Events of one request; each is taken or refused by itself."""
        received = EventsReport(len(events))
        for place, event in enumerate(events):
            if place:
                await asyncio.sleep(0)  # the turn of other requests
            try:
                await self._receive_event(place, event, names, received)
            except (Refusal, LikewiseError) as error:
                received.add_refusal(place, error)
        return received

    async def _receive_event(
        self, place: int, event: CloudEvent, names: ColumnNames, received: EventsReport
    ) -> None:
        hosted, limits = self._hosted, self._hosted.limits
        counts = hosted.counts
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
            received.waiting += 1
        elif outcome is JoinOutcome.REPEATED:
            received.repeated += 1
            counts.repeated_events[event.kind] += 1
        elif outcome is JoinOutcome.LATE:
            received.late += 1
            counts.unpaired[event.kind] += 1
        elif outcome is JoinOutcome.DIFFERENT:
            counts.refused[RepeatedKey.code] += rows.count
            raise Refusal(409, f"another {event.kind} with this id came, and was different.")
        else:
            await self._judge_pair(place, outcome, half, rows, names, received)

    async def _judge_pair(
        self,
        place: int,
        pair: EventPair,
        half: EventHalf,
        rows: prediction_bodies.PredictionRows,
        names: ColumnNames,
        received: EventsReport,
    ) -> None:
        hosted, counts = self._hosted, self._hosted.counts
        other = prediction_bodies.read_prediction(
            pair.first.kind, pair.first.event.body, hosted.limits.batch_rows
        )
        both = (rows, other) if half.kind == "request" else (other, rows)
        events = (pair.request.event, pair.response.event)
        try:
            decisions = make_decisions(hosted.monitor.rule, hosted.limits, events, both, names)
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
            answers: DecisionAnswers = await hosted.observe_each(decisions)
        except (Refusal, BadFile) as error:
            if isinstance(error, Refusal):
                counts.refused[str(error.status)] += len(decisions)
            self.joiner.put_back(pair, clock.monotonic())
            self._expire_halves(clock.monotonic())
            raise
        for answer in answers:
            if isinstance(answer, LikewiseError):
                received.add_refusal(place, answer)
            else:
                received.decisions += 1
                received.violations += answer.violation

    # Halves that are given up

    def _expire_halves(self, now: float) -> None:
        """Give up what has waited too long, and come back when the next has."""
        self._count_unpaired(self.joiner.expire(now))
        self._hosted.counts.waiting_events = len(self.joiner)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ends = [end for end in (self.joiner.next_expiry,) if end is not None]
        if self._unreported:
            ends.append(now + _TRY_AGAIN_SECONDS)
        if ends:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, min(ends) - now) + 0.001, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._expire_halves(clock.monotonic())

    def _count_unpaired(self, given_up: list[UnpairedHalf]) -> None:
        counts = self._hosted.counts
        for half in given_up:
            counts.unpaired[half.kind] += 1
            if half.kind == "request" and self._hosted.settings.unpaired_requests == "counted":
                continue
            counts.dropped[f"unpaired {half.kind}"] += half.count
            self._unreported[half.kind] += half.count
        if self._unreported and self._report_task is None:
            self._report_task = asyncio.get_running_loop().create_task(self._report_losses())

    async def _report_losses(self) -> None:
        """Tell the monitor of losses; what cannot be told now is told later."""
        try:
            while self._unreported:
                kind, count = next(iter(self._unreported.items()))
                call = partial(self._hosted.monitor.record_loss, count, f"unpaired {kind}")
                await self._hosted.run_in_turn(call)
                self._unreported[kind] -= count
                if not self._unreported[kind]:
                    del self._unreported[kind]
        except (Refusal, LikewiseError) as error:
            logger.warning(
                "losses could not be written, and will be tried again: %s", type(error).__name__
            )
        finally:
            self._report_task = None

    async def close(self) -> None:
        """Give up all that wait, and tell the monitor; the service ends."""
        self._count_unpaired(self.joiner.close(clock.monotonic()))
        self._hosted.counts.waiting_events = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._report_task is not None:
            await self._report_task
        if self._unreported:
            logger.error(
                "%d decisions are lost, and the ledger could not be told", self._unreported.total()
            )
