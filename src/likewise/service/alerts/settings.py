"""What the table [alerts] of the settings says: when to tell, and whom.

    [alerts]
    outbox = "alerts.sqlite"          # beside the first ledger unless given
    window_seconds = 3600             # a rate is judged at the end of each window…
    windows = 168                     # …against so many before it
    deviations = 4.0
    least_comparable = 100            # fewer: nothing is concluded
    least_windows = 12
    quiet_seconds = 900
    no_decisions_seconds = 900        # 0: not told
    stale_head_seconds = 300          # 0: not told
    kinds = ["burst", "same_input"]   # all of them unless given
    keys = false                      # whether an alert may say the key of a decision
    public_url = "https://…"          # where people find the service, for links

    [[alerts.receivers]]
    name = "on-call"
    kind = "webhook"                  # or "alertmanager", or "apprise"
    url = "https://…"                 # or url_env, url_file
    secret_env = "ON_CALL_SECRET"     # or secret_file; a webhook needs one

Secrets stand in variables of the environment or in files, never in the settings. They are read when
the service starts, and `repr` does not show them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from likewise.service.alerts.conditions import KINDS, Thresholds
from likewise.service.alerts.usual_band import Band
from likewise.service.settings import NAME, ServiceSettings, made
from likewise.values.errors import BadRule

RECEIVERS = ("webhook", "alertmanager", "apprise")
OUTBOX = "likewise-alerts.sqlite"
_LEAST_SECRET = 16  # characters


@dataclass(frozen=True)
class AlertReceiver:
    """Who is told, and how."""

    name: str
    kind: str
    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
    """Signs a webhook; a bearer token for Alertmanager."""
    monitors: tuple[str, ...] | None = None
    """All of them if None."""
    repeat_seconds: float = 14_400.0
    """How often an alert that lasts is told again, until it is acknowledged; 0: once."""
    pause_seconds: float = 10.0
    """Between two messages at least; what comes meanwhile is told together."""
    timeout_seconds: float = 10.0
    backoff_seconds: float = 1.0
    """After a failure; twice as long after the next, and so on, up to five minutes."""
    give_up_seconds: float = 604_800.0
    """An alert that could not be told for so long is given up, and counted."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels of every alert."""

    def takes(self, monitor: str) -> bool:
        return self.monitors is None or monitor in self.monitors


@dataclass(frozen=True)
class _Told:
    """The table of a receiver, as it stands in the file."""

    name: str
    kind: str
    url: str | None = None
    url_env: str | None = None
    url_file: str | None = None
    secret_env: str | None = None
    secret_file: str | None = None
    monitors: tuple[str, ...] | None = None
    repeat_seconds: float | None = None
    pause_seconds: float = 10.0
    timeout_seconds: float = 10.0
    backoff_seconds: float = 1.0
    give_up_seconds: float = 604_800.0


@dataclass(frozen=True)
class _Table:
    """The table [alerts] without its receivers."""

    outbox: str | None = None
    every_seconds: float = 1.0
    window_seconds: float = 3600.0
    windows: int = 168
    deviations: float = 4.0
    least_comparable: int = 100
    least_windows: int = 12
    quiet_seconds: float = 900.0
    no_decisions_seconds: float = 900.0
    stale_head_seconds: float = 300.0
    kinds: tuple[str, ...] = KINDS
    keys: bool = False
    public_url: str = ""
    waiting: int = 10_000
    kept: int = 1_000


@dataclass(frozen=True)
class AlertSettings:
    """All of it."""

    outbox: Path
    thresholds: Thresholds = field(default_factory=Thresholds)
    receivers: tuple[AlertReceiver, ...] = ()
    every_seconds: float = 1.0
    """How often is looked whether there is something to tell."""
    keys: bool = False
    public_url: str = ""
    waiting: int = 10_000
    """Alerts that wait to be told to one receiver at most; then the oldest is given up."""
    kept: int = 1_000
    """Alerts that are over, and that GET …/alerts still shows."""


def alert_settings(
    settings: ServiceSettings, environment: Mapping[str, str] = os.environ
) -> AlertSettings | None:
    """What the settings say of alerts; None if they say nothing, and nobody is told."""
    if not settings.alerts:
        return None
    told = dict(settings.alerts)
    receivers = told.pop("receivers", [])
    if not isinstance(receivers, list):
        raise BadRule("alerts: expected receivers as tables [[alerts.receivers]]")
    table: _Table = made(_Table, "alerts", told)
    _check(table)
    found = tuple(_receiver(one, settings, environment) for one in receivers)
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise BadRule("alerts: two receivers have the same name")
    return AlertSettings(
        outbox=_outbox(table, settings),
        thresholds=Thresholds(
            window_seconds=table.window_seconds,
            windows=table.windows,
            band=Band(table.deviations, table.least_comparable, table.least_windows),
            quiet_seconds=table.quiet_seconds,
            no_decisions_seconds=table.no_decisions_seconds,
            stale_head_seconds=table.stale_head_seconds,
            kinds=table.kinds,
        ),
        receivers=found,
        every_seconds=table.every_seconds,
        keys=table.keys,
        public_url=table.public_url.rstrip("/"),
        waiting=table.waiting,
        kept=table.kept,
    )


def _check(table: _Table) -> None:
    may_be_zero = ("no_decisions_seconds", "stale_head_seconds", "quiet_seconds")
    for one in fields(table):
        value = getattr(table, one.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if one.name in may_be_zero:
            if not value >= 0:
                raise BadRule(
                    f"alerts: {one.name} is {value}; expected 0 or more", setting=one.name
                )
        elif not value > 0:
            raise BadRule(f"alerts: {one.name} is {value}; expected more than 0", setting=one.name)
    if table.least_windows < 2 or table.windows < table.least_windows:
        raise BadRule(
            f"alerts: least_windows is {table.least_windows} and windows {table.windows}; expected"
            " at least 2, and no more than windows",
            setting="least_windows",
        )
    unknown = [kind for kind in table.kinds if kind not in KINDS]
    if unknown:
        raise BadRule(f"alerts: {unknown[0]!r} is no kind; there are {', '.join(KINDS)}")


def _outbox(table: _Table, settings: ServiceSettings) -> Path:
    if table.outbox is not None:
        return Path(table.outbox)
    for served in settings.monitors.values():
        if served.ledger is not None:
            return Path(served.ledger).absolute().parent / OUTBOX
    raise BadRule(
        "alerts are remembered in a file until they were told, and no monitor has a ledger beside"
        ' which it could be. Say where: outbox = "alerts.sqlite".'
    )


def _receiver(
    told: Any, settings: ServiceSettings, environment: Mapping[str, str]
) -> AlertReceiver:
    table: _Told = made(_Told, "alerts, receivers", told)
    where = f"alerts, receiver {table.name!r}"
    if not NAME.fullmatch(table.name):
        raise BadRule(
            f"{where}: expected a name of small letters, digits, dots, dashes and underscores"
        )
    if table.kind not in RECEIVERS:
        raise BadRule(
            f"{where}: the kind is {table.kind!r}; expected one of {', '.join(RECEIVERS)}"
        )
    for name in table.monitors or ():
        if name not in settings.monitors:
            raise BadRule(f"{where}: there is no monitor {name!r}")
    for name in ("pause_seconds", "timeout_seconds", "backoff_seconds", "give_up_seconds"):
        if not getattr(table, name) > 0:
            raise BadRule(
                f"{where}: {name} is {getattr(table, name)}; expected more than 0", setting=name
            )
    url = _secret(where, "url", table.url_env, table.url_file, environment, table.url)
    secret = _secret(where, "secret", table.secret_env, table.secret_file, environment)
    repeat = table.repeat_seconds
    if repeat is None:  # Alertmanager forgets what it is not told again
        repeat = 60.0 if table.kind == "alertmanager" else 14_400.0
    if not repeat >= 0 or (table.kind == "alertmanager" and repeat == 0):
        raise BadRule(
            f"{where}: repeat_seconds is {repeat}; expected more than 0", setting="repeat_seconds"
        )
    receiver = AlertReceiver(
        table.name,
        table.kind,
        url,
        secret,
        table.monitors,
        repeat,
        table.pause_seconds,
        table.timeout_seconds,
        table.backoff_seconds,
        table.give_up_seconds,
        settings.labels,
    )
    _check_receiver(where, receiver)
    return receiver


def _check_receiver(where: str, receiver: AlertReceiver) -> None:
    if not receiver.url:
        raise BadRule(f"{where}: expected a url, or url_env or url_file with one")
    if receiver.kind == "webhook" and len(receiver.secret) < _LEAST_SECRET:
        raise BadRule(
            f"{where}: a webhook is signed; expected secret_env or secret_file with at least"
            f" {_LEAST_SECRET} characters"
        )
    if receiver.kind == "apprise":
        if receiver.secret:
            raise BadRule(f"{where}: the secret of Apprise is its URL; say url_env or url_file")
        return
    parts = urlsplit(receiver.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRule(f"{where}: the url is no address of http or https")
    if parts.username or parts.password:
        raise BadRule(f"{where}: the url has a password in it; use secret_env or secret_file")
    bearer = receiver.kind == "alertmanager" and receiver.secret
    if bearer and parts.scheme == "http" and not _loopback(parts.hostname):
        raise BadRule(f"{where}: its token would travel in the clear; expected a url of https")


def _secret(
    where: str,
    name: str,
    variable: str | None,
    file: str | None,
    environment: Mapping[str, str],
    plain: str | None = None,
) -> str:
    """What stands in a variable or a file; "" if neither is named."""
    given = [one for one in (variable, file, plain) if one is not None]
    if len(given) > 1:
        raise BadRule(f"{where}: expected one of {name}, {name}_env and {name}_file, not several")
    if variable is not None:
        value = environment.get(variable)
        if not value:
            raise BadRule(f"{where}: the variable {variable} of {name}_env is not set")
        return value
    if file is not None:
        try:
            value = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            kind = type(error).__name__
            raise BadRule(f"{where}: the file of {name}_file cannot be read ({kind})") from None
        if not value:
            raise BadRule(f"{where}: the file of {name}_file is empty")
        return value
    return plain or ""


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
