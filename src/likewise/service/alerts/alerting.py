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
from likewise.service.alerts.conditions import (
    AlertChange,
    AlertState,
    advance,
    begin_state,
    resume_state,
)
from likewise.service.alerts.news import VerdictSignals, make_activity_source
from likewise.service.alerts.outbox import Outbox
from likewise.service.alerts.sending import AlertDelivery, make_sender
from likewise.service.alerts.settings import AlertSettings
from likewise.service.served_monitor import ServedMonitor
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


class _WatchedMonitor:
    """One monitor: its news, and what was seen of it."""

    def __init__(self, hosted: ServedMonitor, settings: AlertSettings, outbox: Outbox) -> None:
        """Waits for the disk."""
        self.hosted = hosted
        self.signals = VerdictSignals()
        self._settings = settings
        self._outbox = outbox
        self._source = make_activity_source(hosted, settings.window_seconds, keys=settings.keys)
        self._lock = threading.Lock()
        self._forget_erased_before()
        hosted.monitor.erasure_listeners.append(self.forget)
        now = clock.time()
        found = outbox.load_state(hosted.name)
        if found is None:
            rows, missing, head = self._source.read_start()
            self.state, self._rows = begin_state(now, missing=missing, head=head), rows
            outbox.save_state(hosted.name, self.state, rows, [], now=now)
        else:
            seen, self._rows = found
            self.state = resume_state(seen, now)

    def _forget_erased_before(self) -> None:
        """Forget keys of rows that were erased meanwhile, and all of a history that is gone."""
        if not self.hosted.monitor.durable:
            self.forget(None)
            return
        with contextlib.closing(Ledger(self.hosted.monitor.path)) as ledger:
            self.forget(ledger.erased_rows())

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
                self._source = make_activity_source(self.hosted, seconds, keys=settings.keys)

    def look(self, signals: VerdictSignals) -> bool:
        """In a thread: see what is new and keep it; whether an alert began or ended."""
        with self._lock:
            return self._look(signals)

    def _look(self, signals: VerdictSignals) -> bool:
        news, rows = self._source.read_since(self._rows, signals)
        seen: AlertState = self.state
        changes: list[AlertChange] = []
        for one in news:
            told = one if self._settings.keys else replace(one, last_key=None)
            seen, more = advance(seen, told, self._settings)
            changes += more
        if changes or rows != self._rows or seen.durable_fields != self.state.durable_fields:
            self._outbox.save_state(self.hosted.name, seen, rows, changes, now=clock.time())
        self._source.mark_saved()
        self.state, self._rows = seen, rows
        return any(change.what != "continued" for change in changes)


class AlertService:
    """All of it, for one service."""

    def __init__(self, settings: AlertSettings, monitors: Sequence[str]) -> None:
        """Opens the outbox; waits for the disk.

        monitors    the names of all that will be watched, once they are open
        """
        self.settings = settings
        self.outbox = Outbox(settings)
        self._names = monitors
        self._watched: dict[str, _WatchedMonitor] = {}
        try:
            self.outbox.end_unwatched(monitors, settings.kinds, clock.time())
        except BaseException:
            self.outbox.close()
            raise
        self._look_thread = ThreadPoolExecutor(1, thread_name_prefix="likewise-alerts-look")
        self._outbox_thread = ThreadPoolExecutor(1, thread_name_prefix="likewise-alerts-tell")
        self.deliveries = self.make_deliveries(settings)
        self._wake = asyncio.Event()
        self._look_task: asyncio.Task[None] | None = None
        self._delivery_tasks: list[asyncio.Task[None]] = []

    def make_deliveries(self, settings: AlertSettings) -> list[AlertDelivery]:
        """Make what tells the receivers; BadRule if one cannot be told."""
        return [
            AlertDelivery(
                one, make_sender(one, settings.public_url), self.outbox, self.run_in_thread
            )
            for one in settings.receivers
        ]

    async def change_settings(
        self, settings: AlertSettings, deliveries: list[AlertDelivery]
    ) -> None:
        """Use other settings from now on; a message that is under way is sent again.

        deliveries: of these settings, by `deliver_to`
        """
        self.settings = self.outbox.settings = settings
        before, self.deliveries = self.deliveries, deliveries
        tellers, self._delivery_tasks = self._delivery_tasks, []
        await _cancel_tasks(tellers)
        for delivery in before:
            await delivery.close()
        for watched in list(self._watched.values()):
            await asyncio.to_thread(watched.change, settings)
        kinds = settings.kinds
        try:
            await self.run_in_thread(self.outbox.end_unwatched, self._names, kinds, clock.time())
        except Exception as error:  # the disk; alerts of such a kind last until it is mended
            logger.warning("alerts: the outbox cannot be written (%s)", type(error).__name__)
        if (
            self._look_task is not None and not self._delivery_tasks
        ):  # or `start` has begun meanwhile
            self._delivery_tasks = [asyncio.create_task(delivery.run()) for delivery in deliveries]
            self._wake.set()

    def watch(self, hosted: ServedMonitor) -> None:
        """Look at a monitor from now on; in any thread, before decisions come to it."""
        settings = self.settings
        watched = _WatchedMonitor(hosted, settings, self.outbox)
        hosted.listeners.append(self._make_listener(watched))
        self._watched[hosted.name] = watched
        if self.settings is not settings:  # `change` did not see this one
            watched.change(self.settings)

    def start(self) -> None:
        """On the event loop: begin to look and to tell, unless that has begun."""
        if self._look_task is None:
            self._look_task = asyncio.create_task(self._look_forever())
            self._delivery_tasks = [
                asyncio.create_task(delivery.run()) for delivery in self.deliveries
            ]

    async def stop(self) -> None:
        """Look once more, tell receivers that answer what is due, and let go of the outbox."""
        try:
            if self._look_task is not None:
                await _cancel_tasks([self._look_task])
                if await self._look_at_all():
                    self._wake_deliveries()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_END_SECONDS):
                        while await self._has_due_alerts():
                            await asyncio.sleep(0.05)
                await _cancel_tasks(self._delivery_tasks)
            for delivery in self.deliveries:
                await delivery.close()
        finally:
            self._look_thread.shutdown()
            self._outbox_thread.shutdown()
            self.outbox.close()

    async def run_in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call something that waits for the disk."""
        return await asyncio.get_running_loop().run_in_executor(
            self._outbox_thread, call, *arguments
        )

    # What the routes ask

    def is_watching(self, monitor: str) -> bool:
        return monitor in self._watched

    def make_rate_body(self, monitor: str) -> RateBody:
        """How the rate of a monitor stands, as it was last concluded."""
        rate = self._watched[monitor].state.rate
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

    async def find_alerts(self, monitor: str, most: int, status: str | None) -> list[Alert]:
        read = partial(self.outbox.find_alerts, monitor, most=most, status=status)
        found: list[Alert] = await self.run_in_thread(read)
        return found

    async def describe_receivers(self, monitor: str) -> list[ReceiverBody]:
        """Who is told of a monitor, and how that goes."""
        waiting = await self.run_in_thread(self.outbox.count_waiting)
        given_up = await self.run_in_thread(self.outbox.count_given_up)
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
            if one.receiver.covers(monitor)
        ]

    async def acknowledge(self, monitor: str, id: str, by: str) -> Alert | None:
        """Somebody has seen an alert; None if there is none such."""
        found: Alert | None = await self.run_in_thread(
            self.outbox.acknowledge, monitor, id, by, clock.time()
        )
        self._wake_deliveries()
        return found

    # Looking

    def _make_listener(self, watched: _WatchedMonitor) -> Callable[[ServedMonitor, Any], None]:
        def hear(hosted: ServedMonitor, verdict: Any) -> None:
            watched.signals.record(hosted, verdict)
            if watched.signals.urgent:
                self._wake.set()

        return hear

    async def _look_forever(self) -> None:
        while True:
            if await self._look_at_all():
                self._wake_deliveries()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.every_seconds):
                    await self._wake.wait()
                    # Verdicts that cannot wait come in swarms: a moment makes them one look.
                    await asyncio.sleep(min(0.05, self.settings.every_seconds))

    async def _look_at_all(self) -> bool:
        """Look at every monitor; whether there is something to tell."""
        self._wake.clear()
        tell = False
        loop = asyncio.get_running_loop()
        for name, watched in list(self._watched.items()):
            heard = watched.signals.take()
            try:
                tell |= await loop.run_in_executor(self._look_thread, watched.look, heard)
            except Exception as error:
                watched.signals.put_back(heard)
                logger.warning("alerts: %s cannot be looked at (%s)", name, type(error).__name__)
        return tell

    def _wake_deliveries(self) -> None:
        for delivery in self.deliveries:
            delivery.wake()

    async def _has_due_alerts(self) -> bool:
        """Whether a receiver that answers is still to be told of something."""
        now = clock.time()
        for delivery in self.deliveries:
            if delivery.failures or delivery.pausing:
                continue
            if await self.run_in_thread(self.outbox.find_due, delivery.receiver, now, 1):
                return True
        return False


async def _cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
