"""`lw.connect`: a monitor behind a service, used as one in this process.

Invariant: it keeps monitors/protocol.py; verdicts are those that the service's monitor made, to the
last bit. A request that was not answered is sent again, and done once (exchange.py).
Cost: a request over one of a few connections that stay open: some tenths of a millisecond on one
machine. So judge many at once, or put `lw.buffered` before it.
"""

import os
import time as clock
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from likewise.client import calls
from likewise.client.calls import Call, State
from likewise.client.connecting import RETRIES, TIMEOUT, Place, was_sent
from likewise.client.exchange import INSTANCE, Answer, Exchange, Firsts
from likewise.client.past import RemotePast
from likewise.intake.packed import pack, unpack
from likewise.reading.protocol import FROM_ROW
from likewise.rules.rule import Rule
from likewise.runtime.forking import copied_by_fork
from likewise.values.errors import BadFile
from likewise.values.explanation import Explanation
from likewise.values.past import Past
from likewise.values.positions import Position
from likewise.values.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from likewise.ledger.erasure import Erasure
    from likewise.ledger.heads import Head
    from likewise.ledger.stats import LedgerStats
    from likewise.ledger.verify import Verification

T = TypeVar("T")
KEY_PREFIX = "lw-"
"""Of keys that a client makes."""


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
    """A monitor that `likewise serve` serves, to be used as one in this process.

    url         of the service: "https://likewise.example:8800", or "http+unix:///run/lw.sock"
    monitor     its name there
    token       the secret that the service asks for
    timeout     seconds that one attempt may take
    retries     how often a request that was not answered is sent again, after pauses that grow from
                a tenth of a second to five seconds; then Unreachable is raised
    uds         a socket of the file system, instead of the host of the url
    witnesses   how many of each verdict are wanted, the nearest; all of them unless given
    make_keys   give each decision without a key one that begins with "lw-". With a ledger, requests
                can then be repeated even if the service was restarted in between; the keys are
                stored, and `verdict.key` says them

    Nothing is asked before the first call.
    """
    return Client(Place(url, monitor, token, timeout, retries, uds, witnesses, make_keys))


class Client:
    """A monitor behind a service; `lw.connect` makes it. Methods may be called from many threads.

    It keeps the contract of a monitor. `close` ends the connections; the monitor stays where it is.
    What the service refuses is raised as in process (BadDecision and so on); what is not answered
    is `Unreachable`.
    """

    durable = True
    """Its history outlives this process: it is in another one."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.closed = False
        self._state: State | None = None
        self._instance: str | None = None
        self._firsts = Firsts()
        self._left_to_parent: list[Any] = []
        self._past = RemotePast(self._make, lambda: self.rule)
        self._open()
        copied_by_fork(self)

    def _open(self) -> None:
        import httpx2

        self._http = httpx2.Client(**self.place.settings(httpx2.HTTPTransport))

    def _after_fork(self) -> None:
        """In a forked process: the connections are the parent's, and stay as they are."""
        self._left_to_parent.append(self._http)
        if not self.closed:
            self._open()

    # Calling

    def _make(self, call: Call[T]) -> T:
        """Make a call, and wait for its answer."""
        import httpx2

        body = pack(call.fields, "what was given")
        now = clock.monotonic()
        first, again = self._firsts.of(call, now, self._instance)
        exchange = Exchange(call, self.place.called, self.place.retries, first, again)
        while True:
            if self.closed:
                raise BadFile("this client is closed. Nothing was stored: connect again.")
            headers = exchange.headers(clock.monotonic())
            try:
                response = self._http.post(
                    self.place.base + call.verb, content=body, headers=headers
                )
                answer = Answer(response.status_code, response.headers, response.content)
            except httpx2.TransportError as error:
                clock.sleep(exchange.failed(error, sent=was_sent(error)))
                continue
            self._instance = answer.headers.get(INSTANCE, self._instance)
            pause = exchange.answered(answer)
            if pause is None:
                return call.read(unpack(answer.body), self._past)
            clock.sleep(pause)

    def _known(self) -> State:
        """What was last asked of the service about the monitor; asked now if it never was."""
        return self._asked() if self._state is None else self._state

    def _asked(self) -> State:
        self._state = self._make(calls.state())
        return self._state

    # The contract

    @property
    def rule(self) -> Rule:
        return self._known().rule

    @property
    def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""
        return self._asked().rows

    def __len__(self) -> int:
        """Decisions remembered now."""
        return self._asked().remembered

    @property
    def missing(self) -> int:
        """Decisions known to be missing from this history: the sum of what `lost` was told."""
        return self._asked().missing

    @property
    def comparable(self) -> bool:
        """Whether verdicts say if there was a near past input at all."""
        return self._known().comparable

    @property
    def past(self) -> Past:
        """The only way to look back; every look is a request."""
        return self._past

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""
        return self._past.row_of(key)

    def observe(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
        source: str | None = None,
        position: Position | None = None,
        request: str | None = None,
    ) -> Verdict:
        """Compare a decision with the past, then make it part of the past.

        x, z, key, time, model, source, position    as of a Monitor
        request     an id of your own for this call, of 8 to 64 letters: a later call with the same
                    id is the same request, and gets the same answer
        """
        if key is None:
            key = self._made_key()
        given = {"key": key, "time": time, "model": model, "source": source, "position": position}
        return self._make(calls.observe(self.rule, x, z, self.place.witnesses, request, **given))

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: Any = None,
        sources: Any = None,
        positions: Any = None,
        request: str | None = None,
    ) -> Verdicts:
        """The same verdicts as one by one; all are taken, or none. request: as of `observe`"""
        given = {"times": times, "models": models, "sources": sources, "positions": positions}
        call = calls.observe_many(self.rule, x, z, self.place.witnesses, request, **given)
        return self._make(with_keys(call, keys, self._made_key() is not None))

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """The verdict on a decision as if it came now; nothing is remembered."""
        call = calls.check(self.rule, x, z, self.place.witnesses, time=time, model=model)
        return self._make(call)

    def check_many(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, models: Any = None
    ) -> Verdicts:
        """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
        call = calls.check_many(self.rule, x, z, self.place.witnesses, time=time, models=models)
        return self._make(call)

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: Any = None,
        sources: Any = None,
        positions: Any = None,
    ) -> range:
        """Remember decisions without judging them; their rows."""
        given = {"times": times, "models": models, "sources": sources, "positions": positions}
        call = calls.load(self.rule, x, z, **given)
        return self._make(with_keys(call, keys, self._made_key() is not None))

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""
        return self._make(calls.forget(rows))

    def lost(
        self,
        count: int,
        reason: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: Any = None,
        until: Any = None,
        request: str | None = None,
    ) -> None:
        """So many decisions were made and will never be observed; every later verdict says so.

        first, last, since, until   as of a Monitor; request: as of `observe`
        """
        given = {"count": count, "reason": reason, "first": first, "last": last}
        self._make(calls.lost(request, **given, since=since, until=until))

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""
        return self._make(calls.explain())

    # With a ledger

    def erase(self, *, key: Any = None, rows: Any = None) -> "Erasure":
        """Destroy inputs, outputs and keys, in memory and in every file of a ledger."""
        return self._make(calls.erase(key, rows))

    def review(
        self, row: int | None, witness: int | None, disposition: str, *, reason: str, reviewer: str
    ) -> None:
        """Write down what somebody makes of a contradiction; the chain has it from then on."""
        given = {"disposition": disposition, "reason": reason, "reviewer": reviewer}
        self._make(calls.review(row=row, witness=witness, **given))

    def truth(self, key: Any, value: Any) -> None:
        """Write down what turned out to be right for a decision; no verdict changes."""
        self._make(calls.truth(key=key, value=value))

    def supersede(self, key: Any, output: Any, *, by: str, why: str) -> Verdict:
        """Overrule a decision: the verdict on the one that takes its place."""
        given = {"key": key, "output": output, "by": by, "why": why}
        return self._make(calls.supersede(self.place.witnesses, **given))

    def stats(self, last: str | None = None) -> "LedgerStats":
        """How many decisions there were, how many could be compared, how many contradict."""
        return self._make(calls.stats(last))

    def head(self) -> "Head":
        """The end of the ledger's chain, to be kept elsewhere."""
        return self._make(calls.head())

    def verify(self, head: "Head | str | None" = None) -> "Verification":
        """Have the ledger's chain walked, there."""
        return self._make(calls.verify(head))

    @property
    def positions(self) -> dict[str, Position]:
        """By source, the last position that is on disk: where to go on after a restart."""
        return self._make(calls.positions())

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        self._make(calls.flush())

    # The end

    def close(self) -> None:
        """End the connections. The monitor, and what it remembers, stay with the service."""
        if not self.closed:
            self.closed = True
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<Client of the Monitor {self.place.monitor!r} at {self.place.url}{state}>"

    def _made_key(self) -> str | None:
        wanted = self.place.make_keys and self.rule.key_column is None
        return made_key() if wanted else None


def made_key() -> str:
    """A key that nobody else has."""
    return KEY_PREFIX + uuid.uuid4().hex


def with_keys(call: Call[T], keys: Sequence[Any] | None, made: bool) -> Call[T]:
    """A call about many decisions, with their keys; `made`: those without one get one."""
    if made:
        z = call.fields.get("z", call.fields["x"])
        keys = [made_key() if key is None else key for key in keys or [None] * len(z)]
    if keys is not None:
        call.fields["keys"] = list(keys)
    return call
