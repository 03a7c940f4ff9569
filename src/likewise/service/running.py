"""Runs the service: opens the monitors, listens, and on SIGTERM answers open requests and ends.

One process, one event loop. Ledgers are opened in threads while /healthz already answers, and
/readyz says when they are open.
Invariant: when `serve` returns, every open request was answered or refused, and every ledger is
closed.
"""

import asyncio
import contextlib
import gc
import signal
import socket
import stat
import time as clock
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from likewise.errors import BadRule
from likewise.runtime.log import logger
from likewise.service.app import App
from likewise.service.connections import Connections
from likewise.service.metrics.otlp import OtlpExporter
from likewise.service.reloading import Certificate, Reloader
from likewise.service.service import Service
from likewise.service.service_log import LogReporter
from likewise.service.settings import ServerSettings, ServiceSettings

_KEEP_ALIVE = 75  # seconds: longer than proxies and clients keep an idle connection
_BACKLOG = 2048


def serve(
    settings: ServiceSettings,
    tell: Callable[[str], None],
    route_modules: Sequence[Any] = (),
    read: Callable[[], ServiceSettings] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT.

    tell            is called with each line of progress: what is opened, and the address
    route_modules   further modules with routes, as App takes them
    read            reads the settings again, for SIGHUP (reloading.py); None: SIGHUP is not handled
    """
    service = Service(settings, tell)
    server = settings.server
    certificate = None if server.certificate is None else Certificate(server)
    listener = _open_listener(server)
    application: Any = App(service, route_modules)
    if server.behind_proxy:
        application = _trust_proxy(application)
    connections = Connections(service)
    config = uvicorn.Config(
        connections.wrap(application),
        http=connections.make_protocol,  # type: ignore[arg-type] # uvicorn calls it like a class
        ssl_context_factory=None
        if certificate is None
        else lambda *_: certificate.listening_context,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        limit_concurrency=_most_connections(settings),
        proxy_headers=False,
        ws="none",
        backlog=_BACKLOG,
    )

    def follow_settings() -> None:
        config.limit_concurrency = _most_connections(service.settings)

    service.on_reload.append(follow_settings)
    reloader = None if read is None else Reloader(service, read, certificate, tell)
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(
                _run(service, _DrainingServer(config, connections), listener, tell, reloader)
            )
    finally:
        listener.close()
        if server.uds is not None:
            server.uds.unlink(missing_ok=True)


def _most_connections(settings: ServiceSettings) -> int:
    return 4 * (settings.limits.requests + settings.limits.readers)


async def _run(
    service: Service,
    listening: "_DrainingServer",
    listener: socket.socket,
    tell: Callable[[str], None],
    reloader: Reloader | None,
) -> None:
    seconds = service.settings.server.drain_seconds
    address = _format_address(service.settings.server, listener)
    many = len(service.settings.monitors)
    monitors = f"{many} monitor{'s' if many > 1 else ''}"
    tell(f"opening {monitors} for {address}")
    reporter = LogReporter(service)
    tasks = [asyncio.create_task(reporter.run())]
    otlp = None
    if service.settings.otlp is not None:
        otlp = OtlpExporter(service, service.settings.otlp)
        tasks.append(asyncio.create_task(otlp.run()))
    tasks += [asyncio.create_task(call()) for call in service.background_tasks]
    loop = asyncio.get_running_loop()
    service.on_open.append(
        lambda served: loop.call_soon_threadsafe(service.start_background, served)
    )
    opening = asyncio.create_task(asyncio.to_thread(service.open))

    def report_opened(task: "asyncio.Task[None]") -> None:
        if task.exception() is not None:
            listening.should_exit = True
        elif not service.stopping:
            gc.collect()
            gc.freeze()  # these objects stay: the collector need not walk them again and again
            failed = f", {len(service.pending)} failed" if service.pending else ""
            tell(f"ready: {monitors}{failed}, listening on {address}")
            reporter.report_ready()

    opening.add_done_callback(report_opened)
    if reloader is not None:

        async def reload() -> None:
            await asyncio.to_thread(service.opening_begun.wait)
            await reloader.reload()

        loop.add_signal_handler(signal.SIGHUP, lambda: tasks.append(loop.create_task(reload())))
    try:
        await listening.serve([listener])
    finally:
        with contextlib.suppress(BaseException):
            await opening
        try:
            await service.drain(seconds)
        except TimeoutError:
            logger.warning("decisions in the queue were not judged in time, nor answered")
        if service.alerting is not None:
            await service.alerting.stop()
        for task in tasks:
            task.cancel()
        reporter.report_end()
        if otlp is not None:
            await otlp.close()
        service.close()
    await opening  # which raises if the ledgers could not be opened


class _DrainingServer(uvicorn.Server):
    """Ends slow connections; after a signal, ends itself when open requests are answered.

    Until then it accepts connections, and answers new requests with 503.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections
        self._service = connections.service
        self._deadline: float | None = None  # when open requests are cut off

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle signals by ending in good order, without raising them again afterwards."""
        if current_thread() is not main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in signals}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._service.stopping = True

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._connections.end_slow(clock.monotonic())
        if not await super().on_tick(counter):
            return False
        now, seconds = clock.monotonic(), self._service.settings.server.drain_seconds
        if self._deadline is None:
            self._service.stop()
            self._deadline = now + seconds
        remaining = max(0.0, self._deadline - now)
        if remaining and self._service.active_requests and not self.force_exit:
            return False  # new requests are answered with 503 meanwhile
        self.config.timeout_graceful_shutdown = remaining  # type: ignore[assignment] # any number does
        return True


def _trust_proxy(application: Any) -> Any:
    """Take the client from the proxy's headers; `peer` in the scope stays the proxy."""
    inner = ProxyHeadersMiddleware(application)

    async def call(scope: Any, receive: Any, send: Any) -> None:
        scope["peer"] = scope.get("client")
        await inner(scope, receive, send)

    return call


def _open_listener(server: ServerSettings) -> socket.socket:
    """Open the socket that clients connect to; raise BadRule if that fails."""
    try:
        if server.uds is not None:
            return _listen_on_file(server.uds)
        family, _, _, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _listen_on_network(family, address)
    except OSError as error:
        where = server.uds or f"{server.host}:{server.port}"
        raise BadRule(f"cannot listen on {where}: {error.strerror or error}.") from None


def _listen_on_network(family: int, address: tuple[Any, ...]) -> socket.socket:
    """Open a TCP socket; its protocol is named, so that asyncio sends small answers at once."""
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _listen_on_file(path: Path) -> socket.socket:
    """Open a socket file for the owner and their group; replace one that nobody listens on."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                if probe.connect_ex(str(path)) != 0:
                    path.unlink()
        listener.bind(str(path))
        path.chmod(0o660)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _format_address(server: ServerSettings, listener: socket.socket) -> str:
    if server.uds is not None:
        return f"unix:{server.uds}"
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if server.certificate else 'http'}://{host}:{port}"
