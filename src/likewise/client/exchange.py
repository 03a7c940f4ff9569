"""Sends one call: builds its requests, reads the answer, decides when to try again.

A request without an answer is sent again after growing pauses, under the same id, so that the
service does it once (service/repeated_requests.py). Where nobody can tell whether a write was done,
`Unreachable` says so (`in_doubt`).
Not here: the connection and the waiting, which differ between the two kinds of client.
"""

import inspect
import json
import random
import time as clock
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, get_args

from likewise.client.api_calls import Call, decode_position
from likewise.client.endpoint import Endpoint
from likewise.errors import BY_CODE, BadDecision, BadFile, Forbidden, LikewiseError, Unreachable
from likewise.explaining.past import Past
from likewise.rule.rule import Rule
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE

P = ParamSpec("P")
T = TypeVar("T")


# Makes methods of clients from the functions of api_calls.py, which say what is sent.
# `make_method` makes one that waits for the answer, `make_async_method` one that is to be awaited.
# Both have the signature and the docstring of the function.


def make_method(make: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that makes a call and waits for its answer."""

    def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = client._make(make(*args, **kwargs))
        return answer

    _describe(method, make)
    return method


def make_async_method(
    make: Callable[P, Call[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that makes a call and awaits its answer."""

    async def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = await client._make(make(*args, **kwargs))
        return answer

    _describe(method, make)
    return method


def _describe(method: Any, make: Callable[..., Any]) -> None:
    """Give a method the name, docstring and signature of the function that makes its call."""
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(make)
    method.__name__ = method.__qualname__ = make.__name__
    method.__doc__ = make.__doc__
    method.__signature__ = signature.replace(
        parameters=[client, *signature.parameters.values()],
        return_annotation=_answer_type(signature.return_annotation),
    )


def _answer_type(annotation: Any) -> Any:
    """Return the type of a call's answer: T of Call[T]."""
    if isinstance(annotation, str):
        return annotation.removeprefix("Call[").removesuffix("]")
    (answer,) = get_args(annotation)
    return None if answer is type(None) else answer


INSTANCE, REQUEST = "likewise-instance", "likewise-request"
_PAUSE, _LONGEST = 0.1, 0.6  # seconds before the second attempt, and at most before a later one
_MAX_REQUESTS = 1000
_RETRY_STATUSES = {408, 429, 502, 503, 504}
_DECISION_STATUSES = {400, 413, 422}  # refused before the monitor, because of what was sent


@dataclass(frozen=True)
class FirstAttempt:
    """Says when a request was first sent, and to which process, if that was known."""

    when: float
    instance: str | None


class RequestLog:
    """Remembers the last thousand requests that callers may repeat under ids of their own."""

    def __init__(self) -> None:
        self.instance: str | None = None
        """The process of the service that answered last."""
        self._attempts: OrderedDict[str, FirstAttempt] = OrderedDict()

    def look_up(self, call: Call[Any]) -> tuple[FirstAttempt, bool]:
        """Return the first attempt of a call, and whether an earlier exchange made it."""
        now = FirstAttempt(clock.monotonic(), self.instance)
        if call.request is None:
            return now, False
        first = self._attempts.setdefault(call.request, now)
        while len(self._attempts) > _MAX_REQUESTS:
            self._attempts.popitem(last=False)
        return first, first is not now


def closed_error() -> BadFile:
    """Return what a client raises that is used after `close`."""
    return BadFile("this client is closed. Nothing was stored: connect again.")


def _encode_body(call: Call[Any], rule: Rule | None, endpoint: Endpoint) -> bytes | None:
    from likewise.tables.exact_values import pack  # which needs msgspec

    fields = call.fields
    if fields is None:
        return None
    if not isinstance(fields, dict):
        assert rule is not None
        fields = fields(rule, endpoint)
    return pack(fields, "what was given")


class Exchange(Generic[T]):
    """Makes one call, from its first attempt to its answer.

    rule    of the monitor, for calls whose body depends on it
    """

    def __init__(
        self, call: Call[T], endpoint: Endpoint, log: RequestLog, rule: Rule | None
    ) -> None:
        self._call = call
        self._endpoint = endpoint
        self._log = log
        self._body = _encode_body(call, rule, endpoint)
        self._first, self._is_repeat = log.look_up(call)
        self._request_id = call.request or uuid.uuid4().hex
        self._retries_left = endpoint.retries
        self._attempts = 0
        self._pause = _PAUSE
        self._maybe_done = False
        self._answer = b""

    def next_request(self) -> dict[str, Any]:
        """Return what httpx2's `request` takes for the next attempt."""
        self._attempts += 1
        call = self._call
        return {
            "method": call.method,
            "url": self._endpoint.url_of(call.path, with_witnesses=call.returns_witnesses),
            "content": self._body,
            "headers": self._headers(),
        }

    def _headers(self) -> dict[str, str]:
        if self._call.fields is None:
            return {}
        if not self._call.is_write:
            return {"content-type": EXACT_CONTENT_TYPE}
        id = self._request_id
        if self._attempts > 1 or self._is_repeat:
            age = clock.monotonic() - self._first.when
            id = f"{id} {age:.3f} {self._first.instance or '-'}"
        return {"content-type": EXACT_CONTENT_TYPE, REQUEST: id}

    def read(self, past: Past) -> T:
        """Read the answer that `handle_response` accepted."""
        from likewise.tables.exact_values import unpack

        return self._call.read(unpack(self._answer), past)

    def handle_failure(self, error: Exception) -> float:
        """Return the seconds to wait before the next attempt; Unreachable if there is none."""
        self._maybe_done |= _was_sent(error)
        return self._next_pause(f"{type(error).__name__}: {error}", None)

    def handle_response(self, response: Any) -> float | None:
        """Return None for the answer, else the seconds to wait; raise what the service raised."""
        status, headers = response.status_code, response.headers
        self._log.instance = headers.get(INSTANCE, self._log.instance)
        if status == 200 and headers.get("content-type", "") == EXACT_CONTENT_TYPE:
            self._answer = response.content
            return None
        try:
            facts = json.loads(response.content)
            code, message = str(facts.pop("code")), str(facts.pop("message"))
        except (ValueError, TypeError, KeyError, AttributeError):  # from a proxy, or something else
            code, message, facts = "", f"status {status} without a reason", {}
        if code == "in-doubt":
            self._maybe_done = True
            self._give_up(message, lasting=True)
        if code in BY_CODE:
            named = ("position", "last") & facts.keys()
            places = {name: decode_position(facts[name]) for name in named}
            raise BY_CODE[code].restore(message, facts | places)
        if status in (401, 403):
            self._raise_forbidden(status, message)
        if status in _RETRY_STATUSES:
            self._maybe_done |= not code  # a proxy does not say whether it passed it on
            return self._next_pause(message, headers.get("retry-after"))
        if status in _DECISION_STATUSES and code == "refused":
            raise BadDecision(message)
        if code and code != "refused":
            raise LikewiseError(message)
        self._maybe_done |= status >= 500
        self._give_up(message)

    def _next_pause(self, why: str, retry_after: str | None) -> float:
        if self._retries_left <= 0:
            self._give_up(why)
        self._retries_left -= 1
        pause = self._pause * random.uniform(0.5, 1.5)  # so that many clients do not come together
        self._pause = min(2 * self._pause, _LONGEST)
        if retry_after is not None and retry_after.isdigit():
            pause = max(pause, min(float(retry_after), 60.0))
        return pause

    def _raise_forbidden(self, status: int, why: str) -> NoReturn:
        """Raise Forbidden: the service was reached, and asking again would not help."""
        service, now = f"the service at {self._endpoint.url}", "Connect with a token that it knows."
        if status == 403:
            text = f"{service} does not allow that (403): {why.rstrip('.')}."
            now = "Connect with a token that may do it, or change what this one may."
        elif self._endpoint.token is None:
            text = f"{service} asks for a token (401), and none was given."
        else:
            text = f"{service} refused the token (401): it knows no such token."
        raise Forbidden(f"{text}{self._outcome()} {now}", in_doubt=self._in_doubt)

    def _give_up(self, why: str, *, lasting: bool = False) -> NoReturn:
        times = "once" if self._attempts == 1 else f"{self._attempts} times"
        who = f"the monitor {self._endpoint.monitor!r} at {self._endpoint.url}"
        text = f"{who} was asked {times}: {why.rstrip('.')}.{self._outcome()}"
        raise Unreachable(text, in_doubt=self._in_doubt, lasting=lasting)

    @property
    def _in_doubt(self) -> bool:
        return self._maybe_done and self._call.is_write

    def _outcome(self) -> str:
        """Return a sentence that says whether a write took effect; empty for reads."""
        if self._in_doubt:
            return " It may be stored or not. Give decisions keys, and send it again under its key."
        return " Nothing was stored." if self._call.is_write else ""


def _was_sent(error: Exception) -> bool:
    """Tell whether the service may have received a request that failed in this way."""
    import httpx2

    before = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    return not isinstance(error, before)
