"""Requests that may come twice: a client that was not answered sends the same one again.

Each has an id, which the client chose. The answer is kept for a while; the same id gets the same
bytes, or waits for the first one if that is under way. So nothing is done twice as long as this
process lives, with a ledger or without.

What is not known here may have been done by an earlier process, or so long ago that it is
forgotten. Of a monitor in memory an earlier process has left nothing, so it is done now. Of a
ledger it cannot be told, except by keys: it is refused as in doubt, and the client decides.

When decisions of a monitor are erased, its answers are dropped, since some may tell of them; their
ids are then in doubt.

Bound: `_IDS` ids, and answers of `_BYTES` in all; the oldest leave first.
"""

import asyncio
import threading
import time as clock
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from likewise.errors import LikewiseError
from likewise.service.http_errors import Refusal

INSTANCE_HEADER = "likewise-instance"
"""The header that names the process that answers."""
REQUEST_HEADER = "likewise-request"
"""The header of a request with its id; behind it, of one that is sent again, its age in seconds and
the process that it was first sent to."""

_IDS = 100_000
_BYTES = 64 << 20
_LATE_SECONDS = 120.0  # seconds that a request may be on its way at most

Key = tuple[str, str]
"""A monitor and an id."""


class InDoubt(Refusal):
    """It may have been done before, and nobody here knows."""

    def __init__(self) -> None:
        message = "it may have been done before, by another process."
        super().__init__(409, message, code="in-doubt")


@dataclass(frozen=True)
class RequestIdentity:
    """What a request says about itself.

    age         how long ago it was sent first, in seconds; None if this is the first time
    instance    the process that it was sent to then, if the client knew it
    """

    id: str
    age_seconds: float | None = None
    instance: str | None = None

    @classmethod
    def parse(cls, header: str | None) -> "RequestIdentity | None":
        """From the header; None if there is none. ValueError if it makes no sense."""
        if header is None:
            return None
        id, *again = header.split()
        if not 8 <= len(id) <= 64 or len(again) not in (0, 2):
            raise ValueError(header)
        if not again:
            return cls(id)
        age = float(again[0])
        if not 0 <= age < float("inf"):
            raise ValueError(header)
        return cls(id, age, again[1])


@dataclass
class _CachedAnswer:
    first_seen: float
    answer: "asyncio.Future[bytes] | bytes | None"
    """None where it is too long ago, or where it failed and may have been done all the same."""


class RepeatedRequests:
    """The requests that this process has seen."""

    def __init__(self) -> None:
        self.instance = uuid.uuid4().hex
        self._cached: OrderedDict[Key, _CachedAnswer] = OrderedDict()
        self._answers: OrderedDict[Key, None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()  # of the answers that are kept: any thread may erase
        self._last_forgotten = -float("inf")  # when the youngest id came that is not known any more

    async def answer_request(
        self,
        monitor: str,
        header: str | None,
        do: Callable[[], Awaitable[bytes]],
        *,
        if_unknown: Callable[[], Awaitable[bytes]] | None,
    ) -> bytes:
        """`once`, by the header of a request; Refusal if it cannot be read."""
        try:
            repeat = RequestIdentity.parse(header)
        except ValueError:
            raise Refusal(400, f"the header {REQUEST_HEADER} cannot be read.") from None
        return await self.answer_once(monitor, repeat, do, if_unknown=if_unknown)

    async def answer_once(
        self,
        monitor: str,
        repeat: RequestIdentity | None,
        do: Callable[[], Awaitable[bytes]],
        *,
        if_unknown: Callable[[], Awaitable[bytes]] | None,
    ) -> bytes:
        """The answer to a request: made now, or the one that was made before.

        if_unknown: what to do instead if an earlier process may have done it; None: it is in doubt
        """
        if repeat is None:
            return await do()
        key = monitor, repeat.id
        kept = self._cached.get(key)
        if kept is not None:
            if kept.answer is None:
                raise InDoubt
            if isinstance(kept.answer, bytes):
                return kept.answer
            return await asyncio.shield(kept.answer)
        if repeat.age_seconds is not None:
            if clock.monotonic() - repeat.age_seconds - _LATE_SECONDS < self._last_forgotten:
                raise InDoubt
            if repeat.instance != self.instance:
                if if_unknown is None:
                    raise InDoubt
                do = if_unknown
        return await self._answer_first(key, do)

    async def _answer_first(self, key: Key, do: Callable[[], Awaitable[bytes]]) -> bytes:
        kept = _CachedAnswer(clock.monotonic(), asyncio.ensure_future(do()))
        self._cached[key] = kept
        assert isinstance(kept.answer, asyncio.Future)
        kept.answer.add_done_callback(lambda done: self._store_answer(key, kept, done))
        return await asyncio.shield(kept.answer)

    def _store_answer(self, key: Key, kept: _CachedAnswer, done: "asyncio.Future[bytes]") -> None:
        """Keep an answer; forget what was refused, which has left no trace."""
        if done.cancelled() or done.exception() is not None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, MaybeDone):
                kept.answer = None
            else:
                self._cached.pop(key, None)
            return
        kept.answer = done.result()
        with self._lock:
            self._answers[key] = None
            self._bytes += len(kept.answer)
            while self._bytes > _BYTES:
                self._drop_answer(next(iter(self._answers)))
            while len(self._cached) > _IDS:
                oldest, gone = next(iter(self._cached.items()))
                self._last_forgotten = max(self._last_forgotten, gone.first_seen)
                if oldest in self._answers:
                    self._drop_answer(oldest)
                del self._cached[oldest]

    def _drop_answer(self, key: Key) -> None:
        kept = self._cached[key]
        assert isinstance(kept.answer, bytes)
        self._bytes -= len(kept.answer)
        kept.answer = None
        del self._answers[key]

    def forget(self, monitor: str) -> None:
        """Drop the answers of a monitor; may be called in any thread."""
        with self._lock:
            for key in [key for key in self._answers if key[0] == monitor]:
                self._drop_answer(key)


class MaybeDone(Exception):
    """It failed, and something of it was done all the same. `cause` is why it failed."""

    def __init__(self, cause: LikewiseError) -> None:
        super().__init__(str(cause))
        self.cause = cause
