"""One call on its way: what is sent, what an answer means, when to send it again.

A request that was not answered is sent again after a pause that grows, with the same id: the
service answers it as it did before, or does it now (service/repeated_requests.py). So a decision
is never doubled. Where nobody can tell any more whether it was done, `Unreachable` says so
(`in_doubt`).

It knows no connection and no clock of its own, so that both kinds of client share it.
"""

import json
import random
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from likewise.client.api_calls import Call, decode_position
from likewise.client.endpoint import Endpoint
from likewise.errors import BY_CODE, BadDecision, Forbidden, LikewiseError, Unreachable
from likewise.explaining.past import Past
from likewise.rule.rule import Rule
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE

INSTANCE, REQUEST = "likewise-instance", "likewise-request"
T = TypeVar("T")
_PAUSE, _LONGEST = 0.1, 0.6  # seconds before the second attempt, and at most before a later one
_MAX_REQUESTS = 1000
_RETRY_STATUSES = {408, 429, 502, 503, 504}
_DECISION_STATUSES = {400, 413, 422}  # refused at the door because of what was sent


@dataclass(frozen=True)
class HttpAnswer:
    """What came back: the status of HTTP, headers in lower case, and the body."""

    status: int
    headers: Any
    body: bytes


@dataclass(frozen=True)
class FirstAttempt:
    """When a request was first sent, and to which process, if that was known."""

    when: float
    instance: str | None


class RequestLog:
    """The requests that whoever calls may repeat himself; the last thousand of them."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, FirstAttempt] = OrderedDict()

    def look_up(
        self, call: Call[Any], now: float, instance: str | None
    ) -> tuple[FirstAttempt, bool]:
        """When a call was first made, and whether that was before."""
        first = FirstAttempt(now, instance)
        if call.request is None:
            return first, False
        known = self._attempts.setdefault(call.request, first)
        while len(self._attempts) > _MAX_REQUESTS:
            self._attempts.popitem(last=False)
        return known, known is not first


def encode_body(call: Call[Any], rule: Rule | None, endpoint: Endpoint) -> bytes | None:
    """Return the body of a call; None if it has none.

    rule    of the monitor, for calls whose body depends on it
    """
    from likewise.tables.exact_values import pack  # which needs msgspec

    fields = call.fields
    if fields is None:
        return None
    if not isinstance(fields, dict):
        assert rule is not None
        fields = fields(rule, endpoint)
    return pack(fields, "what was given")


class Exchange(Generic[T]):
    """One call, from its first attempt to its answer.

    place       where the service is, and how often it is asked again at most
    first       when and to whom it was first sent
    again       whether an earlier exchange has sent it already, and ended without an answer
    """

    def __init__(
        self, call: Call[T], endpoint: Endpoint, first: "FirstAttempt", is_repeat: bool = False
    ) -> None:
        self._call = call
        self._endpoint = endpoint
        self._retries_left = endpoint.retries
        self._first = first
        self._is_repeat = is_repeat
        self._request_id = call.request or uuid.uuid4().hex
        self._attempts = 0
        self._pause = _PAUSE
        self._maybe_done = False

    def headers(self, now: float) -> dict[str, str]:
        """Of the next attempt."""
        self._attempts += 1
        if self._call.fields is None:
            return {}
        if not self._call.is_write:
            return {"content-type": EXACT_CONTENT_TYPE}
        id = self._request_id
        if self._attempts > 1 or self._is_repeat:
            id = f"{id} {now - self._first.when:.3f} {self._first.instance or '-'}"
        return {"content-type": EXACT_CONTENT_TYPE, REQUEST: id}

    def read(self, answer: HttpAnswer, past: Past) -> T:
        """What the call is answered with."""
        from likewise.tables.exact_values import unpack

        return self._call.read(unpack(answer.body), past)

    def handle_failure(self, error: Exception, *, sent: bool) -> float:
        """The seconds to wait before the next attempt; raise Unreachable if there is none.

        sent: whether the service may have got the request
        """
        self._maybe_done |= sent
        return self._next_pause(f"{type(error).__name__}: {error}", None)

    def handle_answer(self, answer: HttpAnswer) -> float | None:
        """None if this is the answer; else the seconds to wait. Raises what the service raised."""
        if answer.status == 200 and answer.headers.get("content-type", "") == EXACT_CONTENT_TYPE:
            return None
        try:
            facts = json.loads(answer.body)
            code, message = str(facts.pop("code")), str(facts.pop("message"))
        except (ValueError, TypeError, KeyError, AttributeError):  # from a proxy, or something else
            code, message, facts = "", f"status {answer.status} without a reason", {}
        if code == "in-doubt":
            self._maybe_done = True
            self._give_up(message, lasting=True)
        if code in BY_CODE:
            named = ("position", "last") & facts.keys()
            places = {name: decode_position(facts[name]) for name in named}
            raise BY_CODE[code].restore(message, facts | places)
        if answer.status in (401, 403):
            self._raise_forbidden(answer.status, message)
        if answer.status in _RETRY_STATUSES:
            self._maybe_done |= not code  # a proxy does not say whether it passed it on
            return self._next_pause(message, answer.headers.get("retry-after"))
        if answer.status in _DECISION_STATUSES and code == "refused":
            raise BadDecision(message)
        if code and code != "refused":
            raise LikewiseError(message)
        self._maybe_done |= answer.status >= 500
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
        """The service was reached, and asking again would not help."""
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
        text = (
            f"{self._endpoint.description} was asked {times}: {why.rstrip('.')}.{self._outcome()}"
        )
        raise Unreachable(text, in_doubt=self._in_doubt, lasting=lasting)

    @property
    def _in_doubt(self) -> bool:
        return self._maybe_done and self._call.is_write

    def _outcome(self) -> str:
        """What became of the request, as a sentence; of one that changes nothing there is none."""
        if self._in_doubt:
            return " It may be stored or not. Give decisions keys, and send it again under its key."
        return " Nothing was stored." if self._call.is_write else ""
