"""Requests and responses become pairs, in whichever order they come.

KServe's logger sends both halves of a prediction under one id, in no order, each once or, if
something between repeats them, more often, and never again if one gets lost. Halves belong together
if service, namespace, component and id are the same.

What became of an id is remembered for as long as a half waits, so that a half that is repeated is
known as such: `REPEATED` if it is the same as before, `DIFFERENT` if not. A half that comes after
the other one was given up is `LATE`: its decisions have been counted as lost.

Invariant: every half that is added is waiting, in one pair, given up, or answered as repeated,
different or late; no half is in two pairs.
Bound: `most` halves and `most_bytes` bytes wait, each up to `seconds`; as many ids are remembered.
Those that found no room are told by the next `expire`, which whoever adds calls afterwards.
Not here: bodies, HTTP, monitors, the clock.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum

from likewise.service.cloudevents.events import CloudEvent

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
