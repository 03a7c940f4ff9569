"""Live pages receive a stream of their changed parts, rendered by the functions of the page.

    event: parts        data: {"ID": "HTML", …}, for the elements with these ids

Invariant: parts are the same for everybody who may see them, and contain no forms.
Cost: at most one set of parts a second for each screen of a monitor, however many people look.
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
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service

EVERY_SECONDS = 1.0
_KEEPALIVE_SECONDS = 15.0
_STARTING_SECONDS = 0.05  # between two looks while the service starts
_READING_SECONDS = 5.0
_MOST_RENDERED = 64
Parts = Mapping[str, str]
"""HTML by the id of the element that holds it."""


@dataclass
class VerificationStatus:
    """Holds the state of the last verification of a ledger that was started on a page."""

    started: float
    """Seconds since 1970."""
    ended: float | None = None
    ok: bool | None = None
    message: str = ""
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)


class LiveUpdates:
    """Holds the rate windows of each monitor, and the parts that were rendered last."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._windows: dict[str, RateWindows] = {}
        self._rendered: dict[str, tuple[float, Parts]] = {}
        self.verifications: dict[str, VerificationStatus] = {}
        self.readings = service.readings
        service.background_tasks.append(self.run)

    def read_windows(self, served: ServedMonitor) -> RateWindows:
        """Return the windows of a monitor, with everything that has arrived until now."""
        windows = self._windows.get(served.name)
        if windows is None or windows.served is not served:
            windows = self._windows[served.name] = RateWindows(served)
        windows.update()
        return windows

    async def run(self) -> None:
        """Update the windows of all monitors until cancelled."""
        while not self._service.monitors:
            await asyncio.sleep(_STARTING_SECONDS)
        refreshing, filled = asyncio.create_task(self._refresh_readings()), set[str]()
        try:
            while True:
                pause = EVERY_SECONDS if self._service.ready else _STARTING_SECONDS
                for name, served in self._service.monitors.items():
                    if name not in filled:
                        filled.add(name)
                        if served.monitor.durable:
                            await self._fill(served)
                        await self.readings.read(served)
                    self.read_windows(served)
                await asyncio.sleep(pause)
        finally:
            refreshing.cancel()

    async def _refresh_readings(self) -> None:
        """Read now and then what only a monitor itself knows; do not wait for a busy one."""
        while True:
            for served in self._service.monitors.values():
                await self.readings.read(served)
            await asyncio.sleep(_READING_SECONDS)

    async def _fill(self, served: ServedMonitor) -> None:
        """Fill the windows with decisions of the ledger from before the start."""
        windows = self.read_windows(served)
        with suppress(LikewiseError):  # a ledger that cannot be read is reported elsewhere
            rows, comparable = windows.rows_before, served.monitor.comparable
            past = await served.read_ledger(count_in_ledger, rows, counts_comparable=comparable)
            windows.add_past(*past)

    def forget(self) -> None:
        """Drop rendered parts after an erasure; may be called in any thread."""
        self._rendered = {}

    async def stream_events(
        self, place: str, render: Callable[[], Awaitable[Parts]]
    ) -> AsyncIterator[bytes]:
        """Yield the parts of a screen as they change.

        place: names screen and monitor; streams of the same place share rendered parts
        """
        yield b"retry: 1000\n\n"
        sent: dict[str, str] = {}
        last_sent = clock.monotonic()
        while not self._service.stopping:
            parts = await self._render(place, render)
            new = {name: html for name, html in parts.items() if sent.get(name) != html}
            if new:
                sent.update(new)
                yield b"event: parts\ndata: %s\n\n" % encode(new)
                last_sent = clock.monotonic()
            elif clock.monotonic() - last_sent >= _KEEPALIVE_SECONDS:
                yield b": alive\n\n"
                last_sent = clock.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._service.end_event.wait(), EVERY_SECONDS)
        yield b"event: end\ndata: {}\n\n"

    async def _render(self, place: str, render: Callable[[], Awaitable[Parts]]) -> Parts:
        rendered = self._rendered  # `forget` replaces it while this renders
        last = rendered.get(place)
        now = clock.monotonic()
        if last is None or now - last[0] >= EVERY_SECONDS / 2:
            if len(rendered) >= _MOST_RENDERED:
                rendered.clear()
            last = rendered[place] = (now, await render())
        return last[1]
