"""A real server in a thread of the tests, which serves whatever monitor a test gives it.

uvicorn on a free port of 127.0.0.1, the application of `likewise serve`, and a client over HTTP.
The server is started with the first monitor and ends with the process; each monitor is served under
a name of its own and closed with its client.
"""

import asyncio
import atexit
import itertools
import socket
import threading
import time
from typing import Any

import uvicorn

import likewise as lw
from likewise.service.app import App
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings

LIMITS = Limits(skew_seconds=1e10)
_names = (f"m{i}" for i in itertools.count())


class Serving:
    """A server, and the monitors that it serves."""

    def __init__(self, limits: Limits = LIMITS, port: int = 0) -> None:
        self.limits = limits
        self.service = Service(
            ServiceSettings({"none": MonitorSettings(rule="none.toml")}, limits=limits)
        )
        self.service.ready = True
        self.service.pending = {}
        self.service.monitors = {}
        # With its protocol named, as asyncio wants it to send answers without delay.
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(("127.0.0.1", port))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            App(self.service), lifespan="off", log_config=None, timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until = time.monotonic() + 30
        while not self._server.started and time.monotonic() < until:
            time.sleep(0.01)
        assert self._server.started

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._listening]))

    def host(self, monitor: Any, limits: Limits | None = None) -> str:
        """Serve a monitor; its name."""
        name = next(_names)
        served = ServedMonitor(
            name, monitor, MonitorSettings(rule="none.toml"), limits or self.limits
        )
        self.service.monitors = {**self.service.monitors, name: served}
        return name

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()
        for served in self.service.monitors.values():
            served.close()
        self.service.monitors = {}
        self._listening.close()


_running: list[Serving] = []


def running() -> Serving:
    """The server of this process."""
    if not _running:
        _running.append(Serving())
        atexit.register(_running[0].close)
    return _running[0]


class Connected(lw.client.Client):
    """A client whose monitor ends with it."""

    def close(self) -> None:
        if not self.closed:
            served = running().service.monitors[self.endpoint.monitor]
            served.close()
        super().close()


def connected(monitor: Any, **settings: Any) -> Connected:
    """A client of a monitor that is served from now on."""
    from likewise.client.endpoint import Endpoint

    serving = running()
    return Connected(Endpoint(serving.url, serving.host(monitor), **settings))
