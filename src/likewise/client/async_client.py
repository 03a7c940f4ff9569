"""The client for event loops has the names of `Client`, each to be awaited.

`rows`, `missing_decisions`, `rule` and `len` are requests, so they are methods here:
`await client.rows()`, `await client.count()`. `past` belongs to a waiting client, whose calls are
made in threads.
Invariant: as in client.py; both make the same calls through the same exchange.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from likewise.client import api_calls
from likewise.client.api_calls import Call, MonitorState
from likewise.client.client import Client
from likewise.client.endpoint import RETRIES, TIMEOUT, Endpoint
from likewise.client.exchange import Exchange, RequestLog, closed_error, make_async_method
from likewise.explaining.past import Past
from likewise.rule.rule import Rule

T = TypeVar("T")


class AsyncClient:
    """Asks a monitor behind a service from an event loop; takes the arguments of `lw.connect`.

        async with lw.client.AsyncClient("http://127.0.0.1:8800") as client:
            verdict = await client.observe([0.5, 0.2], "yes")

    It belongs to the event loop in which it is first used. Verdicts can be explained there too, but
    `verdict.explain()` waits for requests: call it in a thread (`asyncio.to_thread`).
    """

    def __init__(
        self,
        url: str,
        monitor: str = "default",
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        uds: str | os.PathLike[str] | None = None,
        witnesses: int | None = None,
        make_keys: bool = False,
    ) -> None:
        import httpx2

        self.endpoint = Endpoint(url, monitor, token, timeout, retries, uds, witnesses, make_keys)
        self.closed = False
        self._known_state: MonitorState | None = None
        self._request_log = RequestLog()
        self._sync_client = Client(self.endpoint)
        self._http = httpx2.AsyncClient(**self.endpoint.http_settings(httpx2.AsyncHTTPTransport))

    async def _make(self, call: Call[T]) -> T:
        """Make a call, and await its answer."""
        import httpx2

        rule = await self.rule() if callable(call.fields) else None
        exchange = Exchange(call, self.endpoint, self._request_log, rule)
        while True:
            if self.closed:
                raise closed_error()
            try:
                response = await self._http.request(**exchange.next_request())
                pause = exchange.handle_response(response)
            except httpx2.TransportError as error:
                pause = exchange.handle_failure(error)
            if pause is None:
                return exchange.read(self._sync_client.past)
            await asyncio.sleep(pause)

    async def _fetch_state(self) -> MonitorState:
        self._known_state = await self._make(api_calls.state())
        return self._known_state

    async def rule(self) -> Rule:
        """Return the rule of the monitor, which is asked for once."""
        return (self._known_state or await self._fetch_state()).rule

    async def rows(self) -> int:
        """Return how many decisions were ever taken, which is the row of the next one."""
        return (await self._fetch_state()).rows

    async def count(self) -> int:
        """Return how many decisions are remembered now: `len` of a waiting client."""
        return (await self._fetch_state()).remembered

    async def missing_decisions(self) -> int:
        """Return how many decisions are known to be missing from this history."""
        return (await self._fetch_state()).missing_decisions

    @property
    def past(self) -> Past:
        """The past of the monitor. Use it in a thread: every look waits for a request."""
        return self._sync_client.past

    observe = make_async_method(api_calls.observe)
    observe_many = make_async_method(api_calls.observe_many)
    check = make_async_method(api_calls.check)
    check_many = make_async_method(api_calls.check_many)
    like = make_async_method(api_calls.like)
    load = make_async_method(api_calls.load)
    forget = make_async_method(api_calls.forget)
    record_loss = make_async_method(api_calls.record_loss)
    explain = make_async_method(api_calls.explain)
    row_of = make_async_method(api_calls.row_of)

    # The disk

    erase = make_async_method(api_calls.erase)
    flush = make_async_method(api_calls.flush)

    @property
    def ledger(self) -> "AsyncClientLedger":
        """The ledger of the monitor; its calls raise BadRule if the monitor is in memory."""
        return AsyncClientLedger(self._make)

    # The end

    async def close(self) -> None:
        """Close the connections; the monitor and its history stay with the service."""
        if not self.closed:
            self.closed = True
            self._sync_client.close()
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return (
            f"<AsyncClient of the Monitor {self.endpoint.monitor!r} at {self.endpoint.url}{state}>"
        )


class AsyncClientLedger:
    """Asks the ledger of a monitor behind a service; each call is awaited: `client.ledger`."""

    def __init__(self, make: Callable[[Call[Any]], Coroutine[Any, Any, Any]]) -> None:
        self._make = make

    verify = make_async_method(api_calls.verify)
    head = make_async_method(api_calls.head)
    stats = make_async_method(api_calls.stats)
    review = make_async_method(api_calls.review)
    truth = make_async_method(api_calls.truth)
    supersede = make_async_method(api_calls.supersede)
    positions = make_async_method(api_calls.positions)
