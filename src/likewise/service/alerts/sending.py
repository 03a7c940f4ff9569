"""Sends due alerts to webhooks, Alertmanager and Apprise, with one task for each receiver.

A message has everything that is due, up to a bound; after a failure the pause doubles, up to five
minutes. Only 2xx counts as delivered; 4xx is retried, since people repair settings while alerts
wait, and 413 makes messages smaller.
Invariant: an alert is marked as sent only after its receiver has taken it, so each is sent at least
once. The log has names of receivers and statuses, but no URL, secret or text.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import time as clock
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from likewise.errors import BadRule
from likewise.runtime.log import logger
from likewise.service.alerts.alert import Alert
from likewise.service.alerts.outbox import Outbox
from likewise.service.alerts.settings import AlertReceiver
from likewise.tables.times import iso_text_of_seconds

SIGNATURE = "Likewise-Signature"
_NEVER = "0001-01-01T00:00:00Z"
"""How Alertmanager says that an alert has not ended."""
_LASTING_REPEATS = 4  # repeats for which Alertmanager takes an alert for firing


def webhook_body(
    alerts: Sequence[Alert], receiver: str, public_url: str, extra_labels: Mapping[str, str]
) -> bytes:
    """Write Alertmanager's webhook message, version 4.

    extra_labels: further labels of every alert
    """
    each = [
        {
            "status": alert.status,
            **_alert_fields(alert, extra_labels, _NEVER),
            "generatorURL": _url(alert, public_url),
            "fingerprint": alert.id,
        }
        for alert in alerts
    ]
    firing = any(alert.ended is None for alert in alerts)
    body = {
        "version": "4",
        "groupKey": f'{{}}:{{receiver="{receiver}"}}',
        "truncatedAlerts": 0,
        "status": "firing" if firing else "resolved",
        "receiver": receiver,
        "groupLabels": {},
        "commonLabels": _common([one["labels"] for one in each]),
        "commonAnnotations": _common([one["annotations"] for one in each]),
        "externalURL": public_url,
        "alerts": each,
    }
    return json.dumps(body).encode()


def alertmanager_body(
    alerts: Sequence[Alert],
    public_url: str,
    now: float,
    repeat_seconds: float,
    extra_labels: Mapping[str, str],
) -> bytes:
    """Write the body of `POST /api/v2/alerts`.

    An alert that lasts gets an end in the future, later than the next message about it.
    """
    until = iso_text_of_seconds(now + _LASTING_REPEATS * repeat_seconds)
    body = []
    for alert in alerts:
        url = {"generatorURL": _url(alert, public_url)} if public_url else {}
        body.append({**_alert_fields(alert, extra_labels, until), **url})
    return json.dumps(body).encode()


def _alert_fields(alert: Alert, extra_labels: Mapping[str, str], lasting: str) -> dict[str, Any]:
    """Return the fields for both kinds of receivers; `lasting` is the end of one that lasts."""
    labels = {  # which tell alerts apart, so they stay the same while one lasts
        "alertname": alert.name,
        "monitor": alert.monitor,
        "severity": alert.severity,
        "source": "likewise",  # which tells it from the alerts of Prometheus
        **extra_labels,
    }
    annotations = {"summary": alert.summary, "id": alert.id}
    if alert.acknowledged_by is not None:
        annotations["acknowledged_by"] = alert.acknowledged_by
    return {
        "labels": labels,
        "annotations": annotations,
        "startsAt": iso_text_of_seconds(alert.started),
        "endsAt": lasting if alert.ended is None else iso_text_of_seconds(alert.ended),
    }


def text_of(alerts: Sequence[Alert]) -> tuple[str, str]:
    """Write a title and a text, for people."""
    firing = sum(alert.ended is None for alert in alerts)
    resolved = len(alerts) - firing
    counts = [f"{firing} firing"] * bool(firing) + [f"{resolved} resolved"] * bool(resolved)
    lines = [
        f"[{alert.status}] {alert.summary} (since {iso_text_of_seconds(alert.started)})"
        for alert in alerts
    ]
    return f"likewise: {', '.join(counts)}", "\n".join(lines)


def signature(secret: str, body: bytes, now: float) -> str:
    """Return the value of the header SIGNATURE."""
    time = str(int(now))
    return f"t={time},v1={_mac(secret, time, body)}"


def verify_signature(
    secret: str, header: str, body: bytes, now: float, *, tolerance_seconds: float = 300.0
) -> bool:
    """Whether a body was signed with a secret, not longer ago than the tolerance.

    >>> header = signature("a long shared secret", b"{}", 1000.0)
    >>> verify_signature("a long shared secret", header, b"{}", 1010.0)
    True
    >>> verify_signature("a long shared secret", header, b"{ }", 1010.0)
    False
    >>> verify_signature("a long shared secret", header, b"{}", 2000.0)
    False
    """
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    time, claimed = parts.get("t", ""), parts.get("v1", "")
    if not (time.isascii() and time.isdigit()) or abs(now - int(time)) > tolerance_seconds:
        return False
    return hmac.compare_digest(_mac(secret, time, body).encode(), claimed.encode())


def _mac(secret: str, time: str, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()


def _url(alert: Alert, public_url: str) -> str:
    return f"{public_url}/v1/monitors/{alert.monitor}/alerts" if public_url else ""


def _common(each: Sequence[Any]) -> dict[str, str]:
    """Return the items that all of them have."""
    shared = set(each[0].items())
    for one in each[1:]:
        shared &= set(one.items())
    return dict(sorted(shared))


_MOST_ALERTS = 100  # alerts in one message
_LONGEST_BACKOFF_SECONDS = 300.0
_VERBOSE_LOGGERS = ("httpx2", "httpcore2", "urllib3", "apprise")
"""Loggers that would write addresses, which may be secret, and headers into the service's log."""
_LOOK_SECONDS = 60.0  # how often the outbox is read without a wake


class NotDelivered(Exception):
    """Says why a receiver did not take a message, without its text and address."""

    def __init__(self, why: str, *, too_large: bool = False) -> None:
        super().__init__(why)
        self.too_large = too_large


class Sender(Protocol):
    """Sends messages to one receiver."""

    async def send(self, alerts: list[Alert], now: float) -> None:
        """Return when the receiver has taken it; raise NotDelivered if it has not."""

    async def close(self) -> None: ...


class HTTPSender:
    """Posts JSON: to a webhook, signed, or to Alertmanager."""

    def __init__(self, receiver: AlertReceiver, public_url: str) -> None:
        try:
            import httpx2
        except ImportError:
            raise BadRule(
                f"alerts, receiver {receiver.name!r}: this kind needs httpx2:"
                " pip install '.[serve]' in the clone of likewise."
            ) from None
        self._receiver = receiver
        self._public_url = public_url
        self._failures = (httpx2.HTTPError, OSError)
        self._client = httpx2.AsyncClient(timeout=receiver.timeout_seconds, follow_redirects=False)

    async def send(self, alerts: list[Alert], now: float) -> None:
        receiver = self._receiver
        headers = {"content-type": "application/json", "user-agent": "likewise"}
        url = receiver.url
        if receiver.kind == "webhook":
            body = webhook_body(alerts, receiver.name, self._public_url, receiver.labels)
            headers[SIGNATURE] = signature(receiver.secret, body, now)
        else:
            body = alertmanager_body(
                alerts, self._public_url, now, receiver.repeat_seconds, receiver.labels
            )
            url = url.rstrip("/") + "/api/v2/alerts"
            if receiver.secret:
                headers["authorization"] = f"Bearer {receiver.secret}"
        try:
            # The client's own limits are on each step; this one is on the whole.
            async with asyncio.timeout(receiver.timeout_seconds):
                answer = await self._client.post(url, content=body, headers=headers)
        except TimeoutError:
            raise NotDelivered("it took too long to answer") from None
        except self._failures as error:
            raise NotDelivered(type(error).__name__) from None
        if not 200 <= answer.status_code < 300:
            status = answer.status_code
            raise NotDelivered(f"it answered {status}", too_large=status == 413)

    async def close(self) -> None:
        await self._client.aclose()


class AppriseSender:
    """Sends to people through Apprise: mail, chat and some hundred other services."""

    def __init__(self, receiver: AlertReceiver) -> None:
        where = f"alerts, receiver {receiver.name!r}"
        try:
            import apprise
        except ImportError:
            raise BadRule(
                f"{where}: this kind needs Apprise: pip install '.[apprise]' in the clone of"
                " likewise."
            ) from None
        self._seconds = receiver.timeout_seconds
        self._apprise: Any = apprise.Apprise()
        if not self._apprise.add(receiver.url):
            raise BadRule(f"{where}: Apprise does not know this kind of url")

    async def send(self, alerts: list[Alert], now: float) -> None:
        title, text = text_of(alerts)
        # Apprise has timeouts of its own; this one is for the case that they do not hold.
        call = asyncio.to_thread(self._apprise.notify, body=text, title=title)
        try:
            async with asyncio.timeout(6 * self._seconds):
                taken = await call
        except TimeoutError:
            raise NotDelivered("it took too long to answer") from None
        if not taken:
            raise NotDelivered("Apprise could not send it")

    async def close(self) -> None:
        pass


def make_sender(receiver: AlertReceiver, public_url: str) -> Sender:
    for name in _VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if receiver.kind == "apprise":
        return AppriseSender(receiver)
    return HTTPSender(receiver, public_url)


class AlertDelivery:
    """Sends what is due to one receiver, until it is cancelled."""

    def __init__(
        self, receiver: AlertReceiver, sender: Sender, outbox: Outbox, in_thread: Callable[..., Any]
    ) -> None:
        """in_thread: calls a function in the thread of the outbox, which waits for the disk"""
        self.receiver = receiver
        self.failures = 0
        """Failures in a row."""
        self.last_failure: str | None = None
        self.pausing = False
        """Whether a message was sent, and the next has to wait."""
        self._sender = sender
        self._outbox = outbox
        self._in_thread = in_thread
        self._wake = asyncio.Event()
        self._most = _MOST_ALERTS

    def wake(self) -> None:
        """Check at once whether something is due."""
        self._wake.set()

    async def run(self) -> None:
        """Send what is due, for ever."""
        while True:
            self._wake.clear()
            wait = await self._send_due()
            if self.failures or wait:
                self.pausing = True
                await asyncio.sleep(self._pause_seconds())  # and a wake does not shorten it
                self.pausing = False
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(await self._seconds_until_due()):
                    await self._wake.wait()

    async def _seconds_until_due(self) -> float:
        """Return the seconds until something is due, at most `_LOOK_SECONDS`."""
        try:
            due = await self._in_thread(self._outbox.find_next_due, self.receiver)
        except Exception as error:
            logger.warning("alerts: the outbox cannot be read (%s)", type(error).__name__)
            return self.receiver.backoff_seconds
        return _LOOK_SECONDS if due is None else min(_LOOK_SECONDS, max(0.0, due - clock.time()))

    def _pause_seconds(self) -> float:
        if not self.failures:
            return self.receiver.pause_seconds
        doubled = self.receiver.backoff_seconds * 2.0 ** min(self.failures - 1, 20)
        return float(min(_LONGEST_BACKOFF_SECONDS, doubled))

    async def _send_due(self) -> bool:
        """Send one message if something is due; return whether there was something."""
        name, now = self.receiver.name, clock.time()
        try:
            alerts = await self._in_thread(self._outbox.find_due, self.receiver, now, self._most)
            if not alerts:
                self.failures = 0
                return False
            await self._sender.send(alerts, now)
            await self._in_thread(self._outbox.mark_told, self.receiver, alerts, clock.time())
        except NotDelivered as error:
            if error.too_large and self._most > 1:
                self._most = max(1, min(self._most, len(alerts)) // 2)
            await self._record_failure(str(error), now)
        except Exception as error:  # the disk, or a mistake: alerts wait for the next try
            await self._record_failure(type(error).__name__, now)
        else:
            if self.failures:
                logger.info("alerts: %s takes messages again", name)
            self.failures, self.last_failure = 0, None
        return True

    async def _record_failure(self, why: str, now: float) -> None:
        self.failures += 1
        self.last_failure = why
        logger.warning(
            "alerts: %s did not take a message (%s), %d times in a row; next try in %.0f s",
            self.receiver.name,
            why,
            self.failures,
            self._pause_seconds(),
        )
        try:
            count = await self._in_thread(self._outbox.give_up, self.receiver, now)
        except Exception as error:
            logger.warning("alerts: the outbox cannot be written (%s)", type(error).__name__)
            return
        if count:
            logger.warning("alerts: %d given up that %s did not take", count, self.receiver.name)

    async def close(self) -> None:
        await self._sender.close()
