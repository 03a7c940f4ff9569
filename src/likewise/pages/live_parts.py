"""Pages that change while somebody looks: a stream of those parts of a page that are new.

    event: parts        data: {"ID": "HTML", …}, to be put into the elements with these ids

A part is made by the same functions as the page. At most one set of parts a second is made of a
monitor's screen, however many look and however much happens, so a thousand contradictions a minute
cost a reader sixty small changes. The browser connects again by itself (likewise.js).

Invariant: parts are the same for everybody who may see them; no form is in one.
Bound: `Limits.readers` streams, shared with the events of the service.
"""

import asyncio
import time as clock
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from likewise.errors import LikewiseError
from likewise.pages.rate_windows import RateWindows, count_in_ledger
from likewise.service.body_types import encode
from likewise.service.monitor_readings import MonitorReadings
from likewise.service.routes.verdict_events import EventStream
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service

EVERY_SECONDS = 1.0
_ALIVE_SECONDS = 15.0
_LOOK_SECONDS = 0.05
_ASK_SECONDS = 5.0
_MOST_KEPT = 64
Parts = Mapping[str, str]
"""HTML by the id of the element that holds it."""


@dataclass
class VerificationStatus:
    """What is known of a ledger's last verification by somebody here."""

    begun: float
    """Seconds since 1970."""
    ended: float | None = None
    ok: bool | None = None
    message: str = ""
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)


class LiveUpdates:
    """The pulse of each monitor, and what was last made of it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._windows: dict[str, RateWindows] = {}
        self._made: dict[str, tuple[float, Parts]] = {}
        self.verifications: dict[str, VerificationStatus] = {}
        self.readings = MonitorReadings()
        service.background_tasks.append(self.run)

    def read_windows(self, hosted: ServedMonitor) -> RateWindows:
        """With everything that has come until now."""
        pulse = self._windows.get(hosted.name)
        if pulse is None or pulse.hosted is not hosted:
            pulse = self._windows[hosted.name] = RateWindows(hosted)
        pulse.update()
        return pulse

    async def run(self) -> None:
        """Count on, until cancelled."""
        while not self._service.monitors:
            await asyncio.sleep(_LOOK_SECONDS)
        asking, filled = asyncio.create_task(self._refresh_readings()), set[str]()
        try:
            while True:
                pause = EVERY_SECONDS if self._service.ready else _LOOK_SECONDS
                for name, hosted in self._service.monitors.items():
                    if name not in filled:
                        filled.add(name)
                        if hosted.monitor.durable:
                            await self._fill(hosted)
                        await self.readings.read(hosted)
                    self.read_windows(hosted)
                await asyncio.sleep(pause)
        finally:
            asking.cancel()

    async def _refresh_readings(self) -> None:
        """Ask each monitor now and then what only it can tell; a busy one is not waited for."""
        while True:
            for hosted in self._service.monitors.values():
                await self.readings.read(hosted)
            await asyncio.sleep(_ASK_SECONDS)

    async def _fill(self, hosted: ServedMonitor) -> None:
        """Have the windows show what is on disk from before the start."""
        pulse, asked = self.read_windows(hosted), hosted.monitor.comparable
        with suppress(LikewiseError):  # a ledger that cannot be read is told elsewhere
            before = pulse.rows_before
            pulse.add_past(
                *await hosted.read_ledger(lambda it: count_in_ledger(it, before, asked=asked))
            )

    def forget(self) -> None:
        """Drop what was made, since something was erased; may be called in any thread."""
        self._made = {}

    def stream(
        self,
        place: str,
        make: Callable[[], Awaitable[Parts]],
        is_allowed: Callable[[], bool],
    ) -> EventStream:
        """The parts of a screen as they change.

        place       what is made, and of which monitor: those with the same place share it
        is_allowed  whether the viewer still may see it
        """
        return EventStream(self._service, self._stream_events(place, make), is_allowed)

    async def _stream_events(
        self, place: str, make: Callable[[], Awaitable[Parts]]
    ) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        sent: dict[str, str] = {}
        alive = clock.monotonic()
        while not self._service.stopping:
            parts = await self._parts(place, make)
            new = {name: html for name, html in parts.items() if sent.get(name) != html}
            if new:
                sent.update(new)
                yield b"event: parts\ndata: %s\n\n" % encode(new)
                alive = clock.monotonic()
            elif clock.monotonic() - alive >= _ALIVE_SECONDS:
                yield b": alive\n\n"
                alive = clock.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._service.end_event.wait(), EVERY_SECONDS)
        yield b"event: end\ndata: {}\n\n"

    async def _parts(self, place: str, make: Callable[[], Awaitable[Parts]]) -> Parts:
        kept = self._made  # another one if something is erased meanwhile
        made = kept.get(place)
        now = clock.monotonic()
        if made is None or now - made[0] >= EVERY_SECONDS / 2:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            made = kept[place] = (now, await make())
        return made[1]
