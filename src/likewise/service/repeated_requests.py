"""Requests that a client sends again with the same id, since it was not answered.

Invariant: a request is carried out once in the life of this process; the same id gets the same
bytes. What an earlier process may have carried out is in doubt where there is a ledger.
Erasing decisions of a monitor drops its answers, whose ids are in doubt from then on.
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
"""The header of a request with its id. When the request is sent again, its age in seconds and the
process that it was first sent to follow the id."""

_IDS = 100_000
_BYTES = 64 << 20
_LATE_SECONDS = 120.0  # seconds that a request may be on its way at most

Key = tuple[str, str]
"""A monitor and an id."""


class InDoubt(Refusal):
    """Refuses a request that an earlier process may have carried out."""

    def __init__(self) -> None:
        message = "it may have been done before, by another process."
        super().__init__(409, message, code="in-doubt")


@dataclass(frozen=True)
class RequestIdentity:
    """Identifies a request.

    age_seconds     how long ago it was sent first; None if this is the first time
    instance        the process that it was sent to then, if the client knew it
    """

    id: str
    age_seconds: float | None = None
    instance: str | None = None

    @classmethod
    def parse(cls, header: str) -> "RequestIdentity":
        """Parse the header; raise ValueError if it makes no sense."""
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
    """None if it was dropped, or if the request failed but may have been carried out."""


class RepeatedRequests:
    """Carries out each request once, and answers it again from a cache."""

    def __init__(self) -> None:
        self.instance = uuid.uuid4().hex
        self._cached: OrderedDict[Key, _CachedAnswer] = OrderedDict()
        self._answers: OrderedDict[Key, None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()  # protects the answers: any thread may erase
        self._last_forgotten = -float("inf")  # when the youngest of the forgotten ids came

    async def answer_once(
        self,
        monitor: str,
        header: str | None,
        do: Callable[[], Awaitable[bytes]],
        *,
        if_unknown: Callable[[], Awaitable[bytes]] | None,
    ) -> bytes:
        """Answer a request now, or as it was answered before.

        header: REQUEST_HEADER of the request; Refusal if it cannot be read
        if_unknown: called instead of `do` if an earlier process may have carried it out; None:
            the request is in doubt
        """
        if header is None:
            return await do()
        try:
            request = RequestIdentity.parse(header)
        except ValueError:
            raise Refusal(400, f"the header {REQUEST_HEADER} cannot be read.") from None
        key = monitor, request.id
        cached = self._cached.get(key)
        if cached is not None:
            if cached.answer is None:
                raise InDoubt
            if isinstance(cached.answer, bytes):
                return cached.answer
            return await asyncio.shield(cached.answer)
        if request.age_seconds is not None:
            if clock.monotonic() - request.age_seconds - _LATE_SECONDS < self._last_forgotten:
                raise InDoubt
            if request.instance != self.instance:
                if if_unknown is None:
                    raise InDoubt
                do = if_unknown
        answer = asyncio.ensure_future(do())
        cached = self._cached[key] = _CachedAnswer(clock.monotonic(), answer)
        answer.add_done_callback(lambda done: self._store_answer(key, cached, done))
        return await asyncio.shield(answer)

    def _store_answer(self, key: Key, cached: _CachedAnswer, done: "asyncio.Future[bytes]") -> None:
        """Store an answer; forget a request that was refused, which has left no trace."""
        error = None if done.cancelled() else done.exception()
        if isinstance(error, MaybeDone):
            cached.answer = None
            return
        if done.cancelled() or error is not None:
            self._cached.pop(key, None)
            return
        cached.answer = done.result()
        with self._lock:
            self._answers[key] = None
            self._bytes += len(cached.answer)
            while self._bytes > _BYTES:
                self._drop_answer(next(iter(self._answers)))
            while len(self._cached) > _IDS:
                oldest, gone = next(iter(self._cached.items()))
                self._last_forgotten = max(self._last_forgotten, gone.first_seen)
                if oldest in self._answers:
                    self._drop_answer(oldest)
                del self._cached[oldest]

    def _drop_answer(self, key: Key) -> None:
        cached = self._cached[key]
        assert isinstance(cached.answer, bytes)
        self._bytes -= len(cached.answer)
        cached.answer = None
        del self._answers[key]

    def forget(self, monitor: str) -> None:
        """Drop the answers of a monitor; may be called in any thread."""
        with self._lock:
            for key in [key for key in self._answers if key[0] == monitor]:
                self._drop_answer(key)


class MaybeDone(Exception):
    """Reports that a request failed, but part of it was carried out. `cause` is the error."""

    def __init__(self, cause: LikewiseError) -> None:
        super().__init__(str(cause))
        self.cause = cause
