"""Settings of alerts: the table [alerts], and the secrets that it names.

    [alerts]
    outbox = "alerts.sqlite"          # beside the first ledger unless given
    window_seconds = 3600             # a rate is judged at the end of each window…
    windows = 168                     # …against so many before it
    deviations = 4.0
    least_comparable = 100            # fewer: nothing is concluded
    least_windows = 12
    quiet_seconds = 900
    no_decisions_seconds = 900        # 0: off
    stale_head_seconds = 300          # 0: off
    kinds = ["burst", "same_input"]   # all of them unless given
    keys = false                      # whether an alert may say the key of a decision
    public_url = "https://…"          # where people find the service, for links

    [[alerts.receivers]]
    name = "on-call"
    kind = "webhook"                  # or "alertmanager", or "apprise"
    url = "https://…"                 # or url_env, url_file
    secret_env = "ON_CALL_SECRET"     # or secret_file; a webhook needs one

Secrets are in environment variables or files, never in the settings. They are read when the service
starts, and `repr` does not show them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import field
from msgspec.structs import asdict

from likewise.errors import BadRule
from likewise.runtime.machine import is_loopback
from likewise.service.alerts.conditions import Thresholds
from likewise.service.toml_tables import Count, NotNegative, Positive, SettingsTable, check_name

OUTBOX = "likewise-alerts.sqlite"
_LEAST_SECRET = 16  # characters


class ReceiverTable(SettingsTable, frozen=True):
    """Holds the table [[alerts.receivers]] as it is in the file."""

    name: str
    kind: Literal["webhook", "alertmanager", "apprise"]
    url: str | None = None
    url_env: str | None = None
    url_file: Path | None = None
    secret_env: str | None = None
    secret_file: Path | None = None
    monitors: tuple[str, ...] | None = None
    """All monitors if None."""
    repeat_seconds: NotNegative | None = None
    """How often an alert that lasts is sent again, until it is acknowledged; 0: once."""
    pause_seconds: Positive = 10.0
    """Least pause between two messages; alerts of the meantime are sent together."""
    timeout_seconds: Positive = 10.0
    backoff_seconds: Positive = 1.0
    """Pause after a failure; it doubles after each further one, up to five minutes."""
    give_up_seconds: Positive = 604_800.0
    """An alert that could not be delivered for so long is given up, and counted."""

    def __post_init__(self) -> None:
        check_name("the name", self.name, "name")
        if self.kind == "alertmanager" and self.repeat_seconds == 0:
            raise BadRule(
                "repeat_seconds is 0; expected more, since Alertmanager forgets alerts that are not"
                " repeated",
                setting="repeat_seconds",
            )


class AlertsTable(Thresholds, frozen=True, kw_only=True):
    """Holds the table [alerts] as it is in the file."""

    outbox: Path | None = None
    every_seconds: Positive = 1.0
    """How often monitors are checked."""
    keys: bool = False
    public_url: str = ""
    waiting: Count = 10_000
    """Alerts that may wait for one receiver; beyond, the oldest is given up."""
    kept: Count = 1_000
    """Ended alerts that GET …/alerts still shows."""
    receivers: tuple[ReceiverTable, ...] = ()

    def __post_init__(self) -> None:
        if self.least_windows < 2 or self.windows < self.least_windows:
            raise BadRule(
                f"least_windows is {self.least_windows} and windows {self.windows}; expected at"
                " least 2, and no more than windows",
                setting="least_windows",
            )
        if len({one.name for one in self.receivers}) < len(self.receivers):
            raise BadRule("two receivers have the same name", setting="receivers")


class AlertReceiver(ReceiverTable, frozen=True, kw_only=True):
    """Holds the table of a receiver with its secrets."""

    url: str
    secret: str = ""
    """Signs a webhook; a bearer token for Alertmanager."""
    repeat_seconds: float = 14_400.0
    labels: dict[str, str] = field(default_factory=dict)
    """Further labels of every alert."""

    def __repr__(self) -> str:
        return f"AlertReceiver({self.name!r})"  # without what is secret

    def covers(self, monitor: str) -> bool:
        return self.monitors is None or monitor in self.monitors


class AlertSettings(AlertsTable, frozen=True, kw_only=True):
    """Holds the table [alerts] with the secrets and the path of the outbox."""

    outbox: Path
    receivers: tuple[AlertReceiver, ...] = ()


def resolve_alerts(
    table: AlertsTable,
    ledgers: Mapping[str, Path | None],
    labels: Mapping[str, str],
    environment: Mapping[str, str],
) -> AlertSettings:
    """Read the secrets and find the outbox.

    ledgers     of the monitors, by name
    """
    resolved: dict[str, Any] = {
        "outbox": table.outbox or _default_outbox(ledgers),
        "receivers": tuple(
            _resolve_receiver(one, ledgers, labels, environment) for one in table.receivers
        ),
        "public_url": table.public_url.rstrip("/"),
    }
    return AlertSettings(**{**asdict(table), **resolved})


def _default_outbox(ledgers: Mapping[str, Path | None]) -> Path:
    for ledger in ledgers.values():
        if ledger is not None:
            return Path(ledger).absolute().parent / OUTBOX
    raise BadRule(
        "alerts are stored in a file until they are delivered, and no monitor has a ledger beside"
        ' which it could be. Say where: outbox = "alerts.sqlite".'
    )


def _resolve_receiver(
    table: ReceiverTable,
    ledgers: Mapping[str, Path | None],
    labels: Mapping[str, str],
    environment: Mapping[str, str],
) -> AlertReceiver:
    where = f"alerts, receiver {table.name!r}"
    for name in table.monitors or ():
        if name not in ledgers:
            raise BadRule(f"{where}: there is no monitor {name!r}")
    resolved: dict[str, Any] = {
        "url": _read_secret(where, "url", table.url_env, table.url_file, environment, table.url),
        "secret": _read_secret(where, "secret", table.secret_env, table.secret_file, environment),
        "labels": dict(labels),
    }
    if table.repeat_seconds is None:  # Alertmanager forgets alerts that are not repeated
        resolved["repeat_seconds"] = 60.0 if table.kind == "alertmanager" else 14_400.0
    receiver = AlertReceiver(**{**asdict(table), **resolved})
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
    if bearer and parts.scheme == "http" and not is_loopback(parts.hostname):
        raise BadRule(f"{where}: its token would travel in the clear; expected a url of https")


def _read_secret(
    where: str,
    name: str,
    variable: str | None,
    file: Path | None,
    environment: Mapping[str, str],
    plain: str | None = None,
) -> str:
    """Return the secret from a variable or a file; "" if neither is named."""
    if len([one for one in (variable, file, plain) if one is not None]) > 1:
        raise BadRule(f"{where}: expected one of {name}, {name}_env and {name}_file, not several")
    if variable is not None:
        value = environment.get(variable)
        if not value:
            raise BadRule(f"{where}: the variable {variable} of {name}_env is not set")
        return value
    if file is not None:
        try:
            value = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            kind = type(error).__name__
            raise BadRule(f"{where}: the file of {name}_file cannot be read ({kind})") from None
        if not value:
            raise BadRule(f"{where}: the file of {name}_file is empty")
        return value
    return plain or ""
