"""`lw.connect` gives a monitor behind a service, which is used as one in this process.

Invariant: it keeps monitor/protocol.py; verdicts are those of the service's monitor, to the last
bit. A request that was not answered is sent again, and done once (exchange.py).
Cost: a request over one of a few connections that stay open: some tenths of a millisecond on one
machine. So judge many at once, or put `lw.buffered` before it.
"""

import os
import time as clock
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from likewise.client import api_calls
from likewise.client.api_calls import Call, MonitorState
from likewise.client.endpoint import RETRIES, TIMEOUT, Endpoint
from likewise.client.exchange import Exchange, RequestLog, closed_error, make_method
from likewise.client.remote_past import RemotePast
from likewise.explaining.past import Past
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.tables.positions import Position

if TYPE_CHECKING:
    from likewise.monitor.protocol import RemoteMonitor

T = TypeVar("T")


def connect(
    url: str,
    monitor: str = "default",
    *,
    token: str | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    uds: str | os.PathLike[str] | None = None,
    witnesses: int | None = None,
    make_keys: bool = False,
) -> "Client":
    """Connect to a monitor that `likewise serve` serves, to use it as one in this process.

    url         of the service: "https://likewise.example:8800", or "http+unix:///run/lw.sock"
    monitor     its name there
    token       the secret that the service asks for
    timeout     seconds that one attempt may take
    retries     how often a request that was not answered is sent again, after pauses that grow from
                a tenth of a second to about one; then Unreachable is raised
    uds         a socket of the file system, instead of the host of the url
    witnesses   how many of each verdict are wanted, the nearest; all of them unless given
    make_keys   give each decision without a key one that begins with "lw-". With a ledger, requests
                can then be repeated even if the service was restarted in between; the keys are
                stored, and `verdict.key` says them

    Nothing is asked before the first call.
    """
    return Client(Endpoint(url, monitor, token, timeout, retries, uds, witnesses, make_keys))


class Client:
    """Asks a monitor behind a service; `lw.connect` makes it. Its methods are thread-safe.

    It keeps the contract of a monitor. `close` ends the connections; the monitor stays where it is.
    What the service refuses is raised as in process (BadDecision and so on); what is not answered
    is `Unreachable`, and what the token may not do is `Forbidden`.
    """

    durable = True
    """Its history outlives this process: it is in another one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.closed = False
        self._state: MonitorState | None = None
        self._request_log = RequestLog()
        self._parent_connections: list[Any] = []
        self._past = RemotePast(self._make, lambda: self.rule)
        self._open()
        register_after_fork(self)

    def _open(self) -> None:
        import httpx2

        self._http = httpx2.Client(**self.endpoint.http_settings(httpx2.HTTPTransport))

    def _after_fork(self) -> None:
        """Leave the connections to the parent process, and open others."""
        self._parent_connections.append(self._http)
        if not self.closed:
            self._open()

    # Calling

    def _make(self, call: Call[T]) -> T:
        """Make a call, and wait for its answer."""
        import httpx2

        rule = self.rule if callable(call.fields) else None
        exchange = Exchange(call, self.endpoint, self._request_log, rule)
        while True:
            if self.closed:
                raise closed_error()
            try:
                response = self._http.request(**exchange.next_request())
                pause = exchange.handle_response(response)
            except httpx2.TransportError as error:
                pause = exchange.handle_failure(error)
            if pause is None:
                return exchange.read(self._past)
            clock.sleep(pause)

    def _get_state(self) -> MonitorState:
        """Return the state that was fetched last; fetch it if it never was."""
        return self._fetch_state() if self._state is None else self._state

    def _fetch_state(self) -> MonitorState:
        self._state = self._make(api_calls.state())
        return self._state

    # The contract

    @property
    def remote(self) -> "RemoteMonitor":
        """This client, whose calls take ids (monitor/protocol.py)."""
        return self

    core = None
    """None: the core of the monitor is with the service."""

    @property
    def rule(self) -> Rule:
        return self._get_state().rule

    @property
    def known_rule(self) -> Rule | None:
        """The rule, or None if the service was not asked for it yet; this never asks."""
        return None if self._state is None else self._state.rule

    @property
    def rows(self) -> int:
        """How many decisions were ever taken, which is the row of the next one."""
        return self._fetch_state().rows

    def __len__(self) -> int:
        """Return how many decisions are remembered now."""
        return self._fetch_state().remembered

    @property
    def missing_decisions(self) -> int:
        """How many decisions are known to be missing: the sum of all `record_loss` calls."""
        return self._fetch_state().missing_decisions

    @property
    def comparable(self) -> bool:
        """Whether verdicts say if there was a comparable past decision at all."""
        return self._get_state().comparable

    @property
    def support(self) -> bool:
        """Whether verdicts say how many past inputs were near, and how many of those agree."""
        return self._get_state().support

    @property
    def past(self) -> Past:
        """The past of the monitor; every look at it is a request."""
        return self._past

    observe = make_method(api_calls.observe)
    observe_many = make_method(api_calls.observe_many)
    check = make_method(api_calls.check)
    check_many = make_method(api_calls.check_many)
    like = make_method(api_calls.like)
    load = make_method(api_calls.load)
    forget = make_method(api_calls.forget)
    record_loss = make_method(api_calls.record_loss)
    explain = make_method(api_calls.explain)
    row_of = make_method(api_calls.row_of)

    # The disk

    erase = make_method(api_calls.erase)
    flush = make_method(api_calls.flush)

    @property
    def ledger(self) -> "ClientLedger":
        """The ledger of the monitor; its calls raise BadRule if the monitor is in memory."""
        return ClientLedger(self._make)

    # The end

    def close(self) -> None:
        """Close the connections; the monitor and its history stay with the service."""
        if not self.closed:
            self.closed = True
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _: Any) -> Self:
        """Return this client, so that a clone of what holds it tells the same monitor."""
        return self

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<Client of the Monitor {self.endpoint.monitor!r} at {self.endpoint.url}{state}>"


class ClientLedger:
    """Asks the ledger of a monitor behind a service: `client.ledger`."""

    def __init__(self, make: Callable[[Call[Any]], Any]) -> None:
        self._make = make

    verify = make_method(api_calls.verify)
    head = make_method(api_calls.head)
    stats = make_method(api_calls.stats)
    review = make_method(api_calls.review)
    truth = make_method(api_calls.truth)
    supersede = make_method(api_calls.supersede)

    @property
    def positions(self) -> dict[str, Position]:
        """The last position of each source that is on disk: where to go on after a restart."""
        answer: dict[str, Position] = self._make(api_calls.positions())
        return answer
