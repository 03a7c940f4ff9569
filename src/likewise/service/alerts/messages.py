"""What receivers are sent.

A webhook gets the body that Alertmanager sends to its webhooks, version 4, so that what receives
those understands it. It is signed: `Likewise-Signature` is `t=` and the time in seconds since 1970,
then `,v1=` and the HMAC-SHA256, in hexadecimal, of that time, a dot and the raw body. A receiver
that refuses old times cannot be sent a message again by others; `verify_signature` is what it does.

Invariant: a message has counts, rows and times, never values of people; keys only where the
settings let an alert have them.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

from likewise.service.alerts.alert import Alert
from likewise.values.times import iso_text_of_seconds

SIGNATURE = "Likewise-Signature"
_NEVER = "0001-01-01T00:00:00Z"
"""How Alertmanager says that an alert has not ended."""
_KEPT_ALIVE = 4  # times the repeat: as long as Alertmanager takes an alert for firing


def webhook_body(
    alerts: Sequence[Alert], receiver: str, public_url: str, more: Mapping[str, str]
) -> bytes:
    """Alertmanager's webhook message, version 4.

    more: further labels of every alert
    """
    each = [
        {
            "status": alert.status,
            **_told(alert, more, _NEVER),
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
    more: Mapping[str, str],
) -> bytes:
    """What `POST /api/v2/alerts` takes.

    An alert that lasts gets an end in the future, beyond the next time that it is told.
    """
    until = iso_text_of_seconds(now + _KEPT_ALIVE * repeat_seconds)
    body = []
    for alert in alerts:
        url = {"generatorURL": _url(alert, public_url)} if public_url else {}
        body.append({**_told(alert, more, until), **url})
    return json.dumps(body).encode()


def _told(alert: Alert, more: Mapping[str, str], lasting: str) -> dict[str, Any]:
    """What both kinds of receivers are told of an alert. lasting: the end of one that lasts"""
    return {
        "labels": labels(alert, more),
        "annotations": annotations(alert),
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


def labels(alert: Alert, more: Mapping[str, str]) -> dict[str, str]:
    """What tells alerts apart: the same while one lasts; `source` from those of Prometheus."""
    return {
        "alertname": alert.name,
        "monitor": alert.monitor,
        "severity": alert.severity,
        "source": "likewise",
        **more,
    }


def annotations(alert: Alert) -> dict[str, str]:
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
