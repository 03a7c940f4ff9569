"""Runs the service: opens the monitors, listens, and on SIGTERM answers open requests and ends.

One process, one event loop. Ledgers are opened in threads while /healthz already answers, and
/readyz says when they are open.
Invariant: when `serve` returns, every open request was answered or refused, and every ledger is
closed.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import ssl
import stat
import time as clock
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

import uvicorn
from msgspec.structs import replace
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from likewise.errors import BadRule, LikewiseError
from likewise.runtime.log import log_event, logger
from likewise.service.app import App
from likewise.service.connections import Connections
from likewise.service.http_errors import code_of
from likewise.service.metrics.exporting import OtlpExporter
from likewise.service.service import Service, warn_of_open_secrets
from likewise.service.service_log import LogReporter
from likewise.service.settings import ServerSettings, ServiceSettings

# Limits that are only read when events first come for a monitor.
_START_LIMITS = ("pairs", "pair_seconds", "pair_bytes")


# Reads the settings again on SIGHUP and applies what can be changed while the service runs.
# Tokens, limits, alerts and the certificate are applied; the log says what needs a restart.
# Invariant: all or nothing. Everything that can be refused is prepared before anything is changed,
# so a file that is missing, empty or wrong leaves the settings as they were. A service with tokens
# never loses all of them.


class Certificate:
    """Holds the TLS certificate for new connections."""

    def __init__(self, server: ServerSettings) -> None:
        self._current = self.listening_context = _load_certificate(server)
        """The context of the listening socket; each handshake switches to the current one."""
        self.listening_context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._current

    def change(self, context: ssl.SSLContext) -> None:
        self._current = context


def _load_certificate(server: ServerSettings) -> ssl.SSLContext:
    """Read certificate and key; raise BadRule if they cannot be used."""
    assert server.certificate is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(server.certificate, server.key, password=lambda: "")
    except OSError as error:
        raise BadRule(
            f"the certificate {str(server.certificate)!r} and its key cannot be used: {error}",
            setting="certificate",
        ) from None
    return context


class Reloader:
    """Applies changed settings to a running service."""

    def __init__(
        self,
        service: Service,
        read: Callable[[], ServiceSettings],
        certificate: Certificate | None,
        tell: Callable[[str], None],
    ) -> None:
        """read: reads the settings again; tell: is called with a line that says the result"""
        self._service = service
        self._read = read
        self._certificate = certificate
        self._tell = tell
        self._turn = asyncio.Lock()

    async def reload(self) -> None:
        """Read and apply the settings, or change nothing and say why."""
        async with self._turn:
            if self._service.stopping:
                return
            try:
                unchanged = await self._reload()
            except Exception as error:
                code, fault = code_of(error)
                self._service.reloads["refused"] += 1
                self._service.refused_reload = (code, clock.time())
                self._tell(f"the settings were not reloaded, and stay as they were: {error}")

                message = "the settings were not reloaded"
                log_event("reload refused", message, logging.ERROR, fault=fault, code=code)
                return
            self._service.reloads["applied"] += 1
            self._service.refused_reload = None
            more = f"; a restart is needed for {', '.join(unchanged)}" if unchanged else ""
            self._tell(f"the settings were reloaded{more}")
            log_event("reloaded", "the settings were reloaded", needs_restart=unchanged)

    async def _reload(self) -> list[str]:
        """Apply the settings; return the names of those that need a restart."""
        service, old = self._service, self._service.settings
        settings, unchanged = _merge(old, await asyncio.to_thread(self._read))
        if old.tokens and not settings.tokens:
            raise BadRule(
                "the tokens are gone, and everybody who reaches the service could do everything."
                " To serve without tokens, restart it.",
                setting="tokens",
            )
        context = None
        if self._certificate is not None:
            context = await asyncio.to_thread(_load_certificate, settings.server)
        alerts, alerting = settings.resolve_alerts(), service.alerting
        changed = alerting is not None and alerts != alerting.settings
        deliveries = alerting.make_deliveries(alerts) if alerting and alerts and changed else []
        # Nothing is refused from here on.
        service.apply_settings(settings)
        warn_of_open_secrets(settings, self._tell)
        if self._certificate is not None and context is not None:
            self._certificate.change(context)
        if alerting is not None and alerts is not None and changed:
            await alerting.change_settings(alerts, deliveries)
        if settings.limits.labels != old.limits.labels:
            for served in service.monitors.values():
                with suppress(LikewiseError):  # A monitor that has failed takes no words at all.
                    await asyncio.to_thread(served.monitor.core.limit_words, settings.limits.labels)
        return unchanged


def _merge(old: ServiceSettings, new: ServiceSettings) -> tuple[ServiceSettings, list[str]]:
    """Return the old settings with changes that can be applied, and names of the other changes."""
    unchanged = [one for one in ("monitors", "otlp", "pages", "labels") if _differs(one, old, new)]
    server, alerts = old.server, new.alerts
    if (server.certificate is None) == (new.server.certificate is None):
        server = replace(server, certificate=new.server.certificate, key=new.server.key)
    names = ServerSettings.__struct_fields__
    unchanged += [f"server.{one}" for one in names if _differs(one, server, new.server)]
    unchanged += [f"limits.{one}" for one in _START_LIMITS if _differs(one, old.limits, new.limits)]
    limits = replace(new.limits, **{one: getattr(old.limits, one) for one in _START_LIMITS})
    if alerts is None or old.alerts is None:
        unchanged += ["alerts"] if alerts != old.alerts else []
        alerts = old.alerts
    elif alerts.outbox != old.alerts.outbox:
        unchanged.append("alerts.outbox")
        alerts = replace(alerts, outbox=old.alerts.outbox)
    merged = replace(old, tokens=new.tokens, limits=limits, alerts=alerts, server=server)
    return merged, unchanged


def _differs(name: str, one: object, other: object) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


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
    read            reads the settings again, for SIGHUP (running.py); None: SIGHUP is not handled
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
        with contextlib.ExitStack() as on_failure:
            if server.uds is not None:
                listener = on_failure.enter_context(socket.socket(socket.AF_UNIX))
                _bind_to_file(listener, server.uds)
            else:
                family, _, _, _, address = socket.getaddrinfo(
                    server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                )[0]
                # With the protocol named, asyncio sends small answers at once.
                listener = on_failure.enter_context(
                    socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
                )
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
            listener.listen(_BACKLOG)
            on_failure.pop_all()
            return listener
    except OSError as error:
        where = server.uds or f"{server.host}:{server.port}"
        raise BadRule(f"cannot listen on {where}: {error.strerror or error}.") from None


def _bind_to_file(listener: socket.socket, path: Path) -> None:
    """Make a socket file for the owner and their group; replace one that nobody listens on."""
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) != 0:
                path.unlink()
    listener.bind(str(path))
    path.chmod(0o660)


def _format_address(server: ServerSettings, listener: socket.socket) -> str:
    if server.uds is not None:
        return f"unix:{server.uds}"
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if server.certificate else 'http'}://{host}:{port}"
