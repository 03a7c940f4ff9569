"""Watches the monitors of a service, stores alerts in the outbox, and has them sent.

Each monitor is checked in a thread every second, and at once when a verdict is urgent.
Invariant: changes are on disk before they are sent, and nothing counts as seen before it is
stored, so the check after a failure makes up for it. Erasing a decision waits for a check that is
running, and removes its key from alerts; erasures while no service ran are applied at the start.
"""

import asyncio
import contextlib
import threading
import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

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
from likewise.tables.array_types import Rows
from likewise.verdict.verdicts import Verdict

_END_SECONDS = 5.0  # for a last message that is being sent
_T = TypeVar("_T")


class RateBody(Struct):
    """The last conclusion about the rate of a monitor."""

    finding: str
    reason: str | None
    violations: int
    comparable: int
    usual_violations: int
    usual_comparable: int
    usual_low: float | None
    usual_high: float | None


class ReceiverBody(Struct):
    """A receiver of alerts, and the state of its delivery."""

    name: str
    kind: str
    waiting: int
    given_up: int
    failures: int
    last_failure: str | None


class _WatchedMonitor:
    """Checks one monitor for what is worth an alert."""

    def __init__(self, served: ServedMonitor, settings: AlertSettings, outbox: Outbox) -> None:
        """Load the state from the outbox, or begin; waits for the disk."""
        self.served = served
        self.signals = VerdictSignals()
        self._settings = settings
        self._outbox = outbox
        self._source = make_activity_source(served, settings.window_seconds, keys=settings.keys)
        self._lock = threading.Lock()
        self._forget_erased_before()
        served.monitor.core.erasure_listeners.append(self.forget)
        now = clock.time()
        stored = outbox.load_state(served.name)
        if stored is None:
            rows, missing, head = self._source.read_start()
            self.state, self._rows = begin_state(now, missing=missing, head=head), rows
            outbox.save_state(served.name, self.state, rows, [], now=now)
        else:
            seen, self._rows = stored
            self.state = resume_state(seen, now)

    def _forget_erased_before(self) -> None:
        """Forget keys of rows that were erased meanwhile; all keys if the history is gone."""
        if not self.served.monitor.durable:
            self.forget(None)
            return
        with contextlib.closing(Ledger(self.served.monitor.ledger.path)) as ledger:
            self.forget(ledger.erased_rows())

    def forget(self, rows: Rows | None) -> None:
        """Remove the keys of erased rows, or all keys, from alerts; may be called in any thread."""
        with self._lock:
            self._outbox.forget_keys(self.served.name, None if rows is None else rows.tolist())

    def change(self, settings: AlertSettings) -> None:
        """Use other settings from now on; waits for a check that is running."""
        with self._lock:
            self._settings = settings
            if self.served.monitor.durable:  # what a monitor in memory has counted stays
                seconds = settings.window_seconds
                self._source = make_activity_source(self.served, seconds, keys=settings.keys)

    def look(self, signals: VerdictSignals) -> bool:
        """In a thread: check what is new and store it; return whether an alert began or ended."""
        with self._lock:
            news, rows = self._source.read_since(self._rows, signals)
            seen: AlertState = self.state
            changes: list[AlertChange] = []
            for one in news:
                allowed = one if self._settings.keys else replace(one, last_key=None)
                seen, more = advance(seen, allowed, self._settings)
                changes += more
            if changes or rows != self._rows or seen.durable_fields != self.state.durable_fields:
                self._outbox.save_state(self.served.name, seen, rows, changes, now=clock.time())
            self._source.mark_saved()
            self.state, self._rows = seen, rows
        return any(change.what != "continued" for change in changes)


class AlertService:
    """Watches the monitors of one service and sends alerts."""

    def __init__(self, settings: AlertSettings, monitors: Sequence[str]) -> None:
        """Open the outbox; waits for the disk.

        monitors    the names of all monitors that will be watched, once they are open
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
        """Make the deliveries; raise BadRule if a receiver cannot be reached that way."""
        url, outbox = settings.public_url, self.outbox
        return [
            AlertDelivery(receiver, make_sender(receiver, url), outbox, self.run_in_thread)
            for receiver in settings.receivers
        ]

    async def change_settings(
        self, settings: AlertSettings, deliveries: list[AlertDelivery]
    ) -> None:
        """Use other settings from now on; a message that is being sent is sent again.

        deliveries: those that `make_deliveries` made of these settings
        """
        self.settings = self.outbox.settings = settings
        before, self.deliveries = self.deliveries, deliveries
        tasks, self._delivery_tasks = self._delivery_tasks, []
        await _cancel_tasks(tasks)
        for delivery in before:
            await delivery.close()
        for watched in list(self._watched.values()):
            await asyncio.to_thread(watched.change, settings)
        kinds = settings.kinds
        try:
            await self.run_in_thread(self.outbox.end_unwatched, self._names, kinds, clock.time())
        except Exception as error:  # the disk; alerts of a kind that is off stay until it works
            logger.warning("alerts: the outbox cannot be written (%s)", type(error).__name__)
        if self._look_task is not None and not self._delivery_tasks:  # `start` may have been called
            self._start_deliveries()
            self._wake.set()

    def watch(self, served: ServedMonitor) -> None:
        """Watch a monitor from now on; in any thread, before decisions come to it."""
        settings = self.settings
        watched = _WatchedMonitor(served, settings, self.outbox)
        served.listeners.append(partial(self._hear, watched.signals))
        self._watched[served.name] = watched
        if self.settings is not settings:  # `change_settings` did not see this one
            watched.change(self.settings)

    def start(self) -> None:
        """Start the tasks on the event loop, unless they have been started."""
        if self._look_task is None:
            self._look_task = asyncio.create_task(self._look_forever())
            self._start_deliveries()

    def _start_deliveries(self) -> None:
        self._delivery_tasks = [asyncio.create_task(one.run()) for one in self.deliveries]

    async def stop(self) -> None:
        """Check once more, send what is due to receivers that answer, and close the outbox."""
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

    async def run_in_thread(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Call something that waits for the disk."""
        return await asyncio.get_running_loop().run_in_executor(
            self._outbox_thread, call, *arguments
        )

    # For the routes

    def is_watching(self, monitor: str) -> bool:
        return monitor in self._watched

    def make_rate_body(self, monitor: str) -> RateBody:
        """Return the last conclusion about the rate of a monitor."""
        rate = self._watched[monitor].state.rate
        body = RateBody(reason=rate.reason or None, **rate.details())
        if rate.reason:
            body.usual_low = body.usual_high = None
        return body

    async def describe_receivers(self, monitor: str) -> list[ReceiverBody]:
        """Return the receivers of a monitor's alerts, and the state of their deliveries."""
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
        """Acknowledge an alert; return it, or None if there is no such alert."""
        now = clock.time()
        alert = await self.run_in_thread(self.outbox.acknowledge, monitor, id, by, now)
        self._wake_deliveries()
        return alert

    # Checks

    def _hear(self, signals: VerdictSignals, served: ServedMonitor, verdict: Verdict) -> None:
        signals.record(served, verdict)
        if signals.urgent:
            self._wake.set()

    async def _look_forever(self) -> None:
        while True:
            if await self._look_at_all():
                self._wake_deliveries()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.every_seconds):
                    await self._wake.wait()
                    # Urgent verdicts come in swarms: a moment makes one check of them.
                    await asyncio.sleep(min(0.05, self.settings.every_seconds))

    async def _look_at_all(self) -> bool:
        """Check every monitor; return whether an alert began or ended."""
        self._wake.clear()
        has_news = False
        loop = asyncio.get_running_loop()
        for name, watched in list(self._watched.items()):
            signals = watched.signals.take()
            try:
                has_news |= await loop.run_in_executor(self._look_thread, watched.look, signals)
            except Exception as error:
                watched.signals.put_back(signals)
                logger.warning("alerts: %s cannot be checked (%s)", name, type(error).__name__)
        return has_news

    def _wake_deliveries(self) -> None:
        for delivery in self.deliveries:
            delivery.wake()

    async def _has_due_alerts(self) -> bool:
        """Whether an alert is due for a receiver that answers."""
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
