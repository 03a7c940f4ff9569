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
from likewise.service.cloudevents.event_decisions import ColumnNames, Mismatch, decisions_of
from likewise.service.cloudevents.event_formats import CloudEvent
from likewise.service.http_errors import Refusal, fields_of, status_of
from likewise.service.served_monitor import Answers, Hosted

_OVERHEAD = 512  # bytes of a half beside its body, roughly
Id = tuple[str, str, str, str]


class JoinOutcome(Enum):
    """Of a half that makes no pair."""

    WAITING = "waiting"
    REPEATED = "repeated"
    DIFFERENT = "different"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Half:
    """An event, and how many decisions it stands for."""

    event: CloudEvent
    count: int
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(self.event.body, digest_size=16).digest()
        object.__setattr__(self, "digest", digest)

    @property
    def id(self) -> Id:
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

    request: Half
    response: Half
    first: Half


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A half whose other half did not come."""

    kind: str
    count: int
    """Of decisions that it stands for."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    half: Half
    since: float


@dataclass(frozen=True, slots=True)
class _Past:
    """What became of an id: the digests of the halves that came, by kind."""

    digests: dict[str, bytes]
    since: float


class Joiner:
    """Halves that wait for the other half, and what became of the last ones."""

    def __init__(self, most: int, seconds: float, most_bytes: int) -> None:
        self._most = most
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._waiting: OrderedDict[Id, _Waiting] = OrderedDict()
        self._past: OrderedDict[Id, _Past] = OrderedDict()
        self._given_up: list[GivenUp] = []
        self.bytes = 0

    def __len__(self) -> int:
        """Halves that wait."""
        return len(self._waiting)

    def add(self, half: Half, now: float) -> EventPair | JoinOutcome:
        """A half came: the pair that it completes, or what it is."""
        past = self._past.get(half.id)
        if past is not None:
            known = past.digests.get(half.kind)
            if known is None:
                past.digests[half.kind] = half.digest
                return JoinOutcome.LATE
            return JoinOutcome.REPEATED if known == half.digest else JoinOutcome.DIFFERENT
        other = self._waiting.get(half.id)
        if other is None:
            self._wait(half, now)
            return JoinOutcome.WAITING
        if other.half.kind == half.kind:
            same = other.half.digest == half.digest
            return JoinOutcome.REPEATED if same else JoinOutcome.DIFFERENT
        first = self._take(half.id)
        self._remember(half.id, now, first, half)
        request, response = (half, first) if half.kind == "request" else (first, half)
        return EventPair(request, response, first)

    def put_back(self, pair: EventPair, now: float) -> None:
        """A pair could not be taken now: its first half waits again, as if it came now."""
        self._past.pop(pair.first.id, None)
        if pair.first.id not in self._waiting:
            self._wait(pair.first, now)

    def expire(self, now: float) -> list[GivenUp]:
        """Give up halves that have waited too long; these, and those that found no room."""
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if now - oldest.since < self._seconds:
                break
            self._give_up_oldest(now)
        while self._past and now - next(iter(self._past.values())).since >= self._seconds:
            self._past.popitem(last=False)
        given_up, self._given_up = self._given_up, []
        return given_up

    def close(self, now: float) -> list[GivenUp]:
        """Give up all that wait."""
        while self._waiting:
            self._give_up_oldest(now)
        return self.expire(now)

    @property
    def next_end(self) -> float | None:
        """When the oldest half will have waited too long."""
        if not self._waiting:
            return None
        return next(iter(self._waiting.values())).since + self._seconds

    def _wait(self, half: Half, now: float) -> None:
        self._waiting[half.id] = _Waiting(half, now)
        self.bytes += half.size
        while len(self._waiting) > self._most or self.bytes > self._most_bytes:
            self._give_up_oldest(now)

    def _take(self, id_: Id) -> Half:
        half = self._waiting.pop(id_).half
        self.bytes -= half.size
        return half

    def _give_up_oldest(self, now: float) -> None:
        half = self._take(next(iter(self._waiting)))
        self._given_up.append(GivenUp(half.kind, half.count))
        self._remember(half.id, now, half)

    def _remember(self, id_: Id, now: float, *halves: Half) -> None:
        self._past[id_] = _Past({half.kind: half.digest for half in halves}, now)
        while len(self._past) > self._most:
            self._past.popitem(last=False)


_TRY_AGAIN_SECONDS = 1.0


@dataclass
class Received:
    """What became of the events of one request."""

    events: int = 0
    waiting: int = 0
    repeated: int = 0
    late: int = 0
    decisions: int = 0
    violations: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    retry: float | None = None

    def refuse(self, place: int, error: LikewiseError | Refusal) -> None:
        """Tell why an event, or a decision of its pair, was refused; the first sets the status."""
        status = error.status if isinstance(error, Refusal) else status_of(error)
        if self.status == 200 or status >= 500:
            self.status = status
        if isinstance(error, Refusal) and error.retry is not None:
            self.retry = error.retry
        self.refused.append({"event": place, **fields_of(error)})

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

    def __init__(self, hosted: Hosted) -> None:
        limits = hosted.limits
        self._hosted = hosted
        self.joiner = Joiner(limits.pairs, limits.pair_seconds, limits.pair_bytes)
        self._untold: Counter[str] = Counter()  # decisions that the monitor must be told are lost
        self._telling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, events: list[CloudEvent], names: ColumnNames) -> Received:
        """Events of one request; each is taken or refused by itself."""
        received = Received(len(events))
        for place, event in enumerate(events):
            if place:
                await asyncio.sleep(0)  # the turn of other requests
            try:
                await self._take(place, event, names, received)
            except (Refusal, LikewiseError) as error:
                received.refuse(place, error)
        return received

    async def _take(
        self, place: int, event: CloudEvent, names: ColumnNames, received: Received
    ) -> None:
        hosted, limits = self._hosted, self._hosted.limits
        counts = hosted.counts
        try:
            rows = prediction_bodies.read(event.kind, event.body, limits.batch_rows)
        except Refusal as error:
            counts.refused[str(error.status)] += 1
            raise
        now = clock.monotonic()
        half = Half(event, rows.count)
        self._expire(now)
        outcome = self.joiner.add(half, now)
        self._expire(now)
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
            await self._judge(place, outcome, half, rows, names, received)

    async def _judge(
        self,
        place: int,
        pair: EventPair,
        half: Half,
        rows: prediction_bodies.Rows,
        names: ColumnNames,
        received: Received,
    ) -> None:
        hosted, counts = self._hosted, self._hosted.counts
        other = prediction_bodies.read(
            pair.first.kind, pair.first.event.body, hosted.limits.batch_rows
        )
        both = (rows, other) if half.kind == "request" else (other, rows)
        events = (pair.request.event, pair.response.event)
        try:
            decisions = decisions_of(hosted.monitor.rule, hosted.limits, events, both, names)
        except Mismatch:
            counts.refused["mismatch"] += max(rows.count, other.count)
            raise
        except Refusal as error:
            counts.refused[str(error.status)] += rows.count
            raise
        except LikewiseError as error:
            counts.refused[error.code] += rows.count
            raise
        try:
            answers: Answers = await hosted.observe_each(decisions)
        except (Refusal, BadFile) as error:
            if isinstance(error, Refusal):
                counts.refused[str(error.status)] += len(decisions)
            self.joiner.put_back(pair, clock.monotonic())
            self._expire(clock.monotonic())
            raise
        for answer in answers:
            if isinstance(answer, LikewiseError):
                received.refuse(place, answer)
            else:
                received.decisions += 1
                received.violations += answer.violation

    # Halves that are given up

    def _expire(self, now: float) -> None:
        """Give up what has waited too long, and come back when the next has."""
        self._count(self.joiner.expire(now))
        self._hosted.counts.waiting_events = len(self.joiner)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ends = [end for end in (self.joiner.next_end,) if end is not None]
        if self._untold:
            ends.append(now + _TRY_AGAIN_SECONDS)
        if ends:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, min(ends) - now) + 0.001, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._expire(clock.monotonic())

    def _count(self, given_up: list[GivenUp]) -> None:
        counts = self._hosted.counts
        for half in given_up:
            counts.unpaired[half.kind] += 1
            if half.kind == "request" and self._hosted.settings.unpaired_requests == "counted":
                continue
            counts.dropped[f"unpaired {half.kind}"] += half.count
            self._untold[half.kind] += half.count
        if self._untold and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        """Tell the monitor of losses; what cannot be told now is told later."""
        try:
            while self._untold:
                kind, count = next(iter(self._untold.items()))
                call = partial(self._hosted.monitor.lost, count, f"unpaired {kind}")
                await self._hosted.do(call)
                self._untold[kind] -= count
                if not self._untold[kind]:
                    del self._untold[kind]
        except (Refusal, LikewiseError) as error:
            logger.warning(
                "losses could not be written, and will be tried again: %s", type(error).__name__
            )
        finally:
            self._telling = None

    async def close(self) -> None:
        """Give up all that wait, and tell the monitor; the service ends."""
        self._count(self.joiner.close(clock.monotonic()))
        self._hosted.counts.waiting_events = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._telling is not None:
            await self._telling
        if self._untold:
            logger.error(
                "%d decisions are lost, and the ledger could not be told", self._untold.total()
            )
