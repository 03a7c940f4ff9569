"""Looks for what there is to tell, keeps it, and has it told; begun and ended with the service.

Every second, and at once when a verdict cannot wait, each monitor is looked at in a thread; what
has changed is on disk before anybody is told. A failure to look, or of the disk, is logged, and
the next look makes up for it: nothing is marked as seen before it is kept.

When a decision is erased, alerts lose its key. A look that is under way is waited for, since it may
have read the key before. What was erased while no service ran is made up for at the start.
"""

import asyncio
import contextlib
import threading
import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import Struct

from likewise.ledger.ledger import Ledger
from likewise.runtime.log import logger
from likewise.service.alerts.alert import Alert
from likewise.service.alerts.conditions import AlertChange, Seen, began, resumed, step
from likewise.service.alerts.news import Heard, source_of
from likewise.service.alerts.outbox import Outbox
from likewise.service.alerts.sending import Delivery, sender_of
from likewise.service.alerts.settings import AlertSettings
from likewise.service.served_monitor import Hosted
from likewise.tables.rows import Rows

_END_SECONDS = 5.0  # for a last message under way


class RateBody(Struct):
    """How the rate of a monitor stands, as it was last concluded."""

    finding: str
    because: str | None
    violations: int
    comparable: int
    usual_violations: int
    usual_comparable: int
    usual_low: float | None
    usual_high: float | None


class ReceiverBody(Struct):
    """Who is told, and how that goes."""

    name: str
    kind: str
    waiting: int
    given_up: int
    failures: int
    last_failure: str | None


class _Watched:
    """One monitor: its news, and what was seen of it."""

    def __init__(self, hosted: Hosted, settings: AlertSettings, outbox: Outbox) -> None:
        """Waits for the disk."""
        self.hosted = hosted
        self.heard = Heard()
        self._settings = settings
        self._outbox = outbox
        self._source = source_of(hosted, settings.window_seconds, keys=settings.keys)
        self._lock = threading.Lock()
        self._forget_erased_before()
        hosted.monitor.when_erased.append(self.forget)
        now = clock.time()
        found = outbox.seen(hosted.name)
        if found is None:
            rows, missing, head = self._source.now()
            self.seen, self._rows = began(now, missing=missing, head=head), rows
            outbox.keep(hosted.name, self.seen, rows, [], now=now)
        else:
            seen, self._rows = found
            self.seen = resumed(seen, now)

    def _forget_erased_before(self) -> None:
        """Forget keys of rows that were erased meanwhile, and all of a history that is gone."""
        if not self.hosted.monitor.durable:
            self.forget(None)
            return
        with contextlib.closing(Ledger(self.hosted.monitor.path)) as ledger:
            self.forget(ledger.erased())

    def forget(self, rows: Rows | None) -> None:
        """Take the keys of erased rows out of all alerts, or all keys; in any thread."""
        with self._lock:
            self._outbox.forget_keys(self.hosted.name, None if rows is None else rows.tolist())

    def change(self, settings: AlertSettings) -> None:
        """Judge by other settings from now on; waits for a look that is under way."""
        with self._lock:
            self._settings = settings
            if self.hosted.monitor.durable:  # what a monitor in memory has counted stays
                seconds = settings.window_seconds
                self._source = source_of(self.hosted, seconds, keys=settings.keys)

    def look(self, heard: Heard) -> bool:
        """In a thread: see what is new and keep it; whether an alert began or ended."""
        with self._lock:
            return self._look(heard)

    def _look(self, heard: Heard) -> bool:
        news, rows = self._source.look(self._rows, heard)
        seen: Seen = self.seen
        changes: list[AlertChange] = []
        for one in news:
            told = one if self._settings.keys else replace(one, last_key=None)
            seen, more = step(seen, told, self._settings)
            changes += more
        if changes or rows != self._rows or seen.worth_keeping != self.seen.worth_keeping:
            self._outbox.keep(self.hosted.name, seen, rows, changes, now=clock.time())
        self._source.kept()
        self.seen, self._rows = seen, rows
        return any(change.what != "continued" for change in changes)


class Alerting:
    """All of it, for one service."""

    def __init__(self, settings: AlertSettings, monitors: Sequence[str]) -> None:
        """Opens the outbox; waits for the disk.

        monitors    the names of all that will be watched, once they are open
        """
        self.settings = settings
        self.outbox = Outbox(settings)
        self._names = monitors
        self._watched: dict[str, _Watched] = {}
        try:
            self.outbox.end_unwatched(monitors, settings.kinds, clock.time())
        except BaseException:
            self.outbox.close()
            raise
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="likewise-alerts-look")
        self._keeping = ThreadPoolExecutor(1, thread_name_prefix="likewise-alerts-tell")
        self.deliveries = self.deliver_to(settings)
        self._wake = asyncio.Event()
        self._looker: asyncio.Task[None] | None = None
        self._tellers: list[asyncio.Task[None]] = []

    def deliver_to(self, settings: AlertSettings) -> list[Delivery]:
        """Make what tells the receivers; BadRule if one cannot be told."""
        return [
            Delivery(one, sender_of(one, settings.public_url), self.outbox, self.in_thread)
            for one in settings.receivers
        ]

    async def change(self, settings: AlertSettings, deliveries: list[Delivery]) -> None:
        """Use other settings from now on; a message that is under way is sent again.

        deliveries: of these settings, by `deliver_to`
        """
        self.settings = self.outbox.settings = settings
        before, self.deliveries = self.deliveries, deliveries
        tellers, self._tellers = self._tellers, []
        await _cancelled(tellers)
        for delivery in before:
            await delivery.close()
        for watched in list(self._watched.values()):
            await asyncio.to_thread(watched.change, settings)
        kinds = settings.kinds
        try:
            await self.in_thread(self.outbox.end_unwatched, self._names, kinds, clock.time())
        except Exception as error:  # the disk; alerts of such a kind last until it is mended
            logger.warning("alerts: the outbox cannot be written (%s)", type(error).__name__)
        if self._looker is not None and not self._tellers:  # or `start` has begun meanwhile
            self._tellers = [asyncio.create_task(delivery.run()) for delivery in deliveries]
            self._wake.set()

    def watch(self, hosted: Hosted) -> None:
        """Look at a monitor from now on; in any thread, before decisions come to it."""
        settings = self.settings
        watched = _Watched(hosted, settings, self.outbox)
        hosted.listeners.append(self._listener(watched))
        self._watched[hosted.name] = watched
        if self.settings is not settings:  # `change` did not see this one
            watched.change(self.settings)

    def start(self) -> None:
        """On the event loop: begin to look and to tell, unless that has begun."""
        if self._looker is None:
            self._looker = asyncio.create_task(self._look_on())
            self._tellers = [asyncio.create_task(delivery.run()) for delivery in self.deliveries]

    async def stop(self) -> None:
        """Look once more, tell receivers that answer what is due, and let go of the outbox."""
        try:
            if self._looker is not None:
                await _cancelled([self._looker])
                if await self._look():
                    self._wake_deliveries()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_END_SECONDS):
                        while await self._due_now():
                            await asyncio.sleep(0.05)
                await _cancelled(self._tellers)
            for delivery in self.deliveries:
                await delivery.close()
        finally:
            self._looking.shutdown()
            self._keeping.shutdown()
            self.outbox.close()

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call something that waits for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self._keeping, call, *arguments)

    # What the routes ask

    def watches(self, monitor: str) -> bool:
        return monitor in self._watched

    def rate(self, monitor: str) -> RateBody:
        """How the rate of a monitor stands, as it was last concluded."""
        rate = self._watched[monitor].seen.rate
        return RateBody(
            rate.finding,
            rate.because or None,
            rate.violations,
            rate.comparable,
            rate.usual_violations,
            rate.usual_comparable,
            None if rate.because else rate.low,
            None if rate.because else rate.high,
        )

    async def alerts(self, monitor: str, most: int, status: str | None) -> list[Alert]:
        read = partial(self.outbox.alerts, monitor, most=most, status=status)
        found: list[Alert] = await self.in_thread(read)
        return found

    async def receivers(self, monitor: str) -> list[ReceiverBody]:
        """Who is told of a monitor, and how that goes."""
        waiting = await self.in_thread(self.outbox.waiting)
        given_up = await self.in_thread(self.outbox.given_up)
        return [
            ReceiverBody(
                one.receiver.name,
                one.receiver.kind,
                waiting.get(one.receiver.name, 0),
                given_up.get(one.receiver.name, 0),
                one.failures,
                one.last_failure,
            )
            for one in self.deliveries
            if one.receiver.takes(monitor)
        ]

    async def acknowledge(self, monitor: str, id: str, by: str) -> Alert | None:
        """Somebody has seen an alert; None if there is none such."""
        found: Alert | None = await self.in_thread(
            self.outbox.acknowledge, monitor, id, by, clock.time()
        )
        self._wake_deliveries()
        return found

    # Looking

    def _listener(self, watched: _Watched) -> Callable[[Hosted, Any], None]:
        def hear(hosted: Hosted, verdict: Any) -> None:
            watched.heard.hear(hosted, verdict)
            if watched.heard.urgent:
                self._wake.set()

        return hear

    async def _look_on(self) -> None:
        while True:
            if await self._look():
                self._wake_deliveries()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.every_seconds):
                    await self._wake.wait()
                    # Verdicts that cannot wait come in swarms: a moment makes them one look.
                    await asyncio.sleep(min(0.05, self.settings.every_seconds))

    async def _look(self) -> bool:
        """Look at every monitor; whether there is something to tell."""
        self._wake.clear()
        tell = False
        loop = asyncio.get_running_loop()
        for name, watched in list(self._watched.items()):
            heard = watched.heard.taken()
            try:
                tell |= await loop.run_in_executor(self._looking, watched.look, heard)
            except Exception as error:
                watched.heard.add(heard)
                logger.warning("alerts: %s cannot be looked at (%s)", name, type(error).__name__)
        return tell

    def _wake_deliveries(self) -> None:
        for delivery in self.deliveries:
            delivery.wake()

    async def _due_now(self) -> bool:
        """Whether a receiver that answers is still to be told of something."""
        now = clock.time()
        for delivery in self.deliveries:
            if delivery.failures or delivery.pausing:
                continue
            if await self.in_thread(self.outbox.due, delivery.receiver, now, 1):
                return True
        return False


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
