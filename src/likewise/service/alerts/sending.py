"""Tells receivers what the outbox says they are to be told, until they have taken it.

One task for each receiver, so that one which does not answer holds up no other. A message has
everything that waits, up to a bound; between two messages is a pause; after a failure the pause
doubles, up to five minutes. A receiver takes a message by answering 2xx. A 4xx is tried again like
a failure, since a mistake in the settings is mended by people while alerts wait; 413 has a
message made smaller.

Invariant: an alert is marked as told only after its receiver has taken it: at least once, and again
if the process is killed in between. The log has names of receivers and statuses, no URL, secret or
text.
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
_LASTING_REPEATS = 4  # times the repeat: as long as Alertmanager takes an alert for firing


def webhook_body(
    alerts: Sequence[Alert], receiver: str, public_url: str, extra_labels: Mapping[str, str]
) -> bytes:
    """Alertmanager's webhook message, version 4.

    more: further labels of every alert
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
    """What `POST /api/v2/alerts` takes.

    An alert that lasts gets an end in the future, beyond the next time that it is told.
    """
    until = iso_text_of_seconds(now + _LASTING_REPEATS * repeat_seconds)
    body = []
    for alert in alerts:
        url = {"generatorURL": _url(alert, public_url)} if public_url else {}
        body.append({**_alert_fields(alert, extra_labels, until), **url})
    return json.dumps(body).encode()


def _alert_fields(alert: Alert, extra_labels: Mapping[str, str], lasting: str) -> dict[str, Any]:
    """What both kinds of receivers are told of an alert. lasting: the end of one that lasts"""
    return {
        "labels": alert_labels(alert, extra_labels),
        "annotations": alert_annotations(alert),
        "startsAt": iso_text_of_seconds(alert.began),
        "endsAt": lasting if alert.ended is None else iso_text_of_seconds(alert.ended),
    }


def text_of(alerts: Sequence[Alert]) -> tuple[str, str]:
    """A title and a text, for people."""
    firing = sum(alert.ended is None for alert in alerts)
    over = len(alerts) - firing
    counts = [f"{firing} firing"] * bool(firing) + [f"{over} resolved"] * bool(over)
    lines = [
        f"[{alert.status}] {alert.summary} (since {iso_text_of_seconds(alert.began)})"
        for alert in alerts
    ]
    return f"likewise: {', '.join(counts)}", "\n".join(lines)


def alert_labels(alert: Alert, extra_labels: Mapping[str, str]) -> dict[str, str]:
    """What tells alerts apart: the same while one lasts; `source` from those of Prometheus."""
    return {
        "alertname": alert.name,
        "monitor": alert.monitor,
        "severity": alert.severity,
        "source": "likewise",
        **extra_labels,
    }


def alert_annotations(alert: Alert) -> dict[str, str]:
    """What is said of it."""
    said = {"summary": alert.summary, "id": alert.id}
    if alert.acknowledged_by is not None:
        said["acknowledged_by"] = alert.acknowledged_by
    return said


def signature(secret: str, body: bytes, now: float) -> str:
    """The value of the header."""
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
    time, told = parts.get("t", ""), parts.get("v1", "")
    if not (time.isascii() and time.isdigit()) or abs(now - int(time)) > tolerance_seconds:
        return False
    return hmac.compare_digest(_mac(secret, time, body).encode(), told.encode())


def _mac(secret: str, time: str, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()


def _url(alert: Alert, public_url: str) -> str:
    return f"{public_url}/v1/monitors/{alert.monitor}/alerts" if public_url else ""


def _common(each: Sequence[Any]) -> dict[str, str]:
    """What all of them have."""
    shared = set(each[0].items())
    for one in each[1:]:
        shared &= set(one.items())
    return dict(sorted(shared))


_MOST_ALERTS = 100  # alerts in one message
_LONGEST_BACKOFF_SECONDS = 300.0
_VERBOSE_LOGGERS = ("httpx2", "httpcore2", "urllib3", "apprise")
"""Loggers that would write addresses, which may be secret, and headers into the service's log."""
_LOOK_SECONDS = 60.0  # how often is looked without being told that something is due


class NotDelivered(Exception):
    """The receiver did not take a message; says why, without what was sent and where to."""

    def __init__(self, why: str, *, too_large: bool = False) -> None:
        super().__init__(why)
        self.too_large = too_large


class Sender(Protocol):
    """A way to tell a receiver."""

    async def send(self, alerts: list[Alert], now: float) -> None:
        """Returns when it was taken; NotTaken if it was not."""

    async def close(self) -> None: ...


class HTTPSender:
    """Posts JSON: to a webhook, signed, or to Alertmanager."""

    def __init__(self, receiver: AlertReceiver, public_url: str) -> None:
        try:
            import httpx2
        except ImportError:
            raise BadRule(
                f"alerts, receiver {receiver.name!r}: telling it needs httpx2."
                " pip install 'likewise[serve]'"
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
    """Tells people through Apprise: mail, chat and some hundred other services."""

    def __init__(self, receiver: AlertReceiver) -> None:
        where = f"alerts, receiver {receiver.name!r}"
        try:
            import apprise
        except ImportError:
            raise BadRule(
                f"{where}: telling it needs Apprise. pip install 'likewise[apprise]'"
            ) from None
        self._seconds = receiver.timeout_seconds
        self._apprise: Any = apprise.Apprise()
        if not self._apprise.add(receiver.url):
            raise BadRule(f"{where}: the url is none that Apprise knows")

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
            raise NotDelivered("Apprise could not tell it")

    async def close(self) -> None:
        pass


def make_sender(receiver: AlertReceiver, public_url: str) -> Sender:
    for name in _VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if receiver.kind == "apprise":
        return AppriseSender(receiver)
    return HTTPSender(receiver, public_url)


class AlertDelivery:
    """Tells one receiver, until it is cancelled."""

    def __init__(
        self,
        receiver: AlertReceiver,
        sender: Sender,
        outbox: Outbox,
        in_thread: Callable[..., Any],
    ) -> None:
        """in_thread: calls a function in the thread of the outbox, which waits for the disk"""
        self.receiver = receiver
        self.failures = 0
        """In a row."""
        self.last_failure: str | None = None
        self.pausing = False
        """Whether a message was sent, and the next has to wait."""
        self._sender = sender
        self._outbox = outbox
        self._in_thread = in_thread
        self._wake = asyncio.Event()
        self._most = _MOST_ALERTS

    def wake(self) -> None:
        """Something may be due."""
        self._wake.set()

    async def run(self) -> None:
        """Tell what is due, for ever."""
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
        """Until something is due, or until it is time to look whether something is."""
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
        """Send one message if something is due; whether there was something."""
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
        except Exception as error:  # the disk, or a mistake: alerts wait, and it is tried again
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
            "alerts: %s was not told (%s), %d times in a row; next try in %.0f s",
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
            logger.warning("alerts: %d given up, which %s did not take", count, self.receiver.name)

    async def close(self) -> None:
        await self._sender.close()
