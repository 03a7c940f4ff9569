"""The client for event loops: the same names as `Client`, each to be awaited.

`rows`, `missing`, `rule` and `len` are requests, so they are methods here: `await client.rows()`,
`await client.count()`. `past` is that of a client of its own, whose calls are made in threads.

Invariant: that of client.py; both make the same calls through the same exchange.
"""

import asyncio
import os
import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from likewise.client import calls
from likewise.client.calls import Call, State
from likewise.client.client import Client, made_key, with_keys
from likewise.client.connecting import RETRIES, TIMEOUT, Place, was_sent
from likewise.client.exchange import INSTANCE, Answer, Exchange, Firsts
from likewise.intake.packed import pack, unpack
from likewise.reading.protocol import FROM_ROW
from likewise.rules.rule import Rule
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


class AsyncClient:
    """A monitor behind a service, for an event loop; arguments as of `lw.connect`.

        async with lw.AsyncClient("http://127.0.0.1:8800") as client:
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

        self.place = Place(url, monitor, token, timeout, retries, uds, witnesses, make_keys)
        self.closed = False
        self._known_state: State | None = None
        self._instance: str | None = None
        self._firsts = Firsts()
        self._waiting = Client(self.place)
        self._http = httpx2.AsyncClient(**self.place.settings(httpx2.AsyncHTTPTransport))

    async def _make(self, call: Call[T]) -> T:
        """Make a call, and await its answer."""
        import httpx2

        body = pack(call.fields, "what was given")
        first, again = self._firsts.of(call, clock.monotonic(), self._instance)
        exchange = Exchange(call, self.place.called, self.place.retries, first, again)
        while True:
            if self.closed:
                raise BadFile("this client is closed. Nothing was stored: connect again.")
            headers = exchange.headers(clock.monotonic())
            try:
                response = await self._http.post(
                    self.place.base + call.verb, content=body, headers=headers
                )
                answer = Answer(response.status_code, response.headers, response.content)
            except httpx2.TransportError as error:
                await asyncio.sleep(exchange.failed(error, sent=was_sent(error)))
                continue
            self._instance = answer.headers.get(INSTANCE, self._instance)
            pause = exchange.answered(answer)
            if pause is None:
                return call.read(unpack(answer.body), self._waiting.past)
            await asyncio.sleep(pause)

    async def _state(self) -> State:
        self._known_state = await self._make(calls.state())
        return self._known_state

    async def rule(self) -> Rule:
        """The rule of the monitor; asked for once."""
        return (self._known_state or await self._state()).rule

    async def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""
        return (await self._state()).rows

    async def count(self) -> int:
        """Decisions remembered now: `len` of a client that waits."""
        return (await self._state()).remembered

    async def missing(self) -> int:
        """Decisions known to be missing from this history."""
        return (await self._state()).missing

    @property
    def past(self) -> Past:
        """To look back, in a thread: every look waits for a request."""
        return self._waiting.past

    async def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""
        row: int | None = await self._make(calls.look("row_of", key=key))
        return row

    async def observe(
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
        """Compare a decision with the past, then make it part of the past; see `Client`."""
        if key is None:
            key = await self._made_key()
        given = {"key": key, "time": time, "model": model, "source": source, "position": position}
        return await self._make(
            calls.observe(await self.rule(), x, z, self.place.witnesses, request, **given)
        )

    async def observe_many(
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
        call = calls.observe_many(await self.rule(), x, z, self.place.witnesses, request, **given)
        return await self._make(with_keys(call, keys, await self._made_key() is not None))

    async def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """The verdict on a decision as if it came now; nothing is remembered."""
        call = calls.check(await self.rule(), x, z, self.place.witnesses, time=time, model=model)
        return await self._make(call)

    async def check_many(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, models: Any = None
    ) -> Verdicts:
        """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
        call = calls.check_many(
            await self.rule(), x, z, self.place.witnesses, time=time, models=models
        )
        return await self._make(call)

    async def load(
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
        call = calls.load(await self.rule(), x, z, **given)
        return await self._make(with_keys(call, keys, await self._made_key() is not None))

    async def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""
        return await self._make(calls.forget(rows))

    async def lost(
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
        await self._make(calls.lost(request, **given, since=since, until=until))

    async def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""
        return await self._make(calls.explain())

    # With a ledger

    async def erase(self, *, key: Any = None, rows: Any = None) -> "Erasure":
        """Destroy inputs, outputs and keys, in memory and in every file of a ledger."""
        return await self._make(calls.erase(key, rows))

    async def review(
        self, row: int | None, witness: int | None, disposition: str, *, reason: str, reviewer: str
    ) -> None:
        """Write down what somebody makes of a contradiction; the chain has it from then on."""
        given = {"disposition": disposition, "reason": reason, "reviewer": reviewer}
        await self._make(calls.review(row=row, witness=witness, **given))

    async def truth(self, key: Any, value: Any) -> None:
        """Write down what turned out to be right for a decision; no verdict changes."""
        await self._make(calls.truth(key=key, value=value))

    async def supersede(self, key: Any, output: Any, *, by: str, why: str) -> Verdict:
        """Overrule a decision: the verdict on the one that takes its place."""
        given = {"key": key, "output": output, "by": by, "why": why}
        return await self._make(calls.supersede(self.place.witnesses, **given))

    async def stats(self, last: str | None = None) -> "LedgerStats":
        """How many decisions there were, how many could be compared, how many contradict."""
        return await self._make(calls.stats(last))

    async def head(self) -> "Head":
        """The end of the ledger's chain, to be kept elsewhere."""
        return await self._make(calls.head())

    async def verify(self, head: "Head | str | None" = None) -> "Verification":
        """Have the ledger's chain walked, there."""
        return await self._make(calls.verify(head))

    async def positions(self) -> dict[str, Position]:
        """By source, the last position that is on disk: where to go on after a restart."""
        return await self._make(calls.positions())

    async def flush(self) -> None:
        """Have everything that was answered on disk."""
        await self._make(calls.flush())

    # The end

    async def close(self) -> None:
        """End the connections. The monitor, and what it remembers, stay with the service."""
        if not self.closed:
            self.closed = True
            self._waiting.close()
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<AsyncClient of the Monitor {self.place.monitor!r} at {self.place.url}{state}>"

    async def _made_key(self) -> str | None:
        wanted = self.place.make_keys and (await self.rule()).key_column is None
        return made_key() if wanted else None
