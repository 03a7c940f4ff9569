"""Reads the settings again on SIGHUP and applies what can be changed while the service runs.

Tokens, limits, alerts and the certificate are applied; the log says what needs a restart.
Invariant: all or nothing. Everything that can be refused is prepared before anything is changed, so
a file that is missing, empty or wrong leaves the settings as they were. A service with tokens never
loses all of them.
"""

import asyncio
import ssl
import time as clock
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from likewise.errors import BadRule, LikewiseError
from likewise.runtime.log import logger
from likewise.service.service import Service, warn_of_open_secrets
from likewise.service.settings import ServerSettings, ServiceSettings

# Limits that are only read when events first come for a monitor.
_START_LIMITS = ("pairs", "pair_seconds", "pair_bytes")


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
                code = error.code if isinstance(error, LikewiseError) else type(error).__name__
                self._service.reloads["refused"] += 1
                self._service.refused_reload = (code, clock.time())
                self._tell(f"the settings were not reloaded, and stay as they were: {error}")
                logger.error(
                    "the settings were not reloaded",
                    exc_info=None if isinstance(error, LikewiseError) else error,
                    extra={"fields": {"event": "reload refused", "code": code}},
                )
                return
            self._service.reloads["applied"] += 1
            self._service.refused_reload = None
            more = f"; a restart is needed for {', '.join(unchanged)}" if unchanged else ""
            self._tell(f"the settings were reloaded{more}")
            logger.info(
                "the settings were reloaded",
                extra={"fields": {"event": "reloaded", "needs_restart": unchanged}},
            )

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
                    await asyncio.to_thread(served.monitor.limit_words, settings.limits.labels)
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
