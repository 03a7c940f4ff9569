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

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import field
from msgspec.structs import asdict

from likewise.errors import BadRule
from likewise.service.alerts.conditions import Thresholds
from likewise.service.toml_tables import NAME_PATTERN, Count, NotNegative, Positive, SettingsTable

OUTBOX = "likewise-alerts.sqlite"
_LEAST_SECRET = 16  # characters


class ReceiverTable(SettingsTable, frozen=True):
    """The table [[alerts.receivers]], as it stands in the file."""

    name: str
    kind: Literal["webhook", "alertmanager", "apprise"]
    url: str | None = None
    url_env: str | None = None
    url_file: Path | None = None
    secret_env: str | None = None
    secret_file: Path | None = None
    monitors: tuple[str, ...] | None = None
    """All of them if None."""
    repeat_seconds: NotNegative | None = None
    """How often an alert that lasts is told again, until it is acknowledged; 0: once."""
    pause_seconds: Positive = 10.0
    """Between two messages at least; what comes meanwhile is told together."""
    timeout_seconds: Positive = 10.0
    backoff_seconds: Positive = 1.0
    """After a failure; twice as long after the next, and so on, up to five minutes."""
    give_up_seconds: Positive = 604_800.0
    """An alert that could not be told for so long is given up, and counted."""

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.name):
            raise BadRule(
                f"the name is {self.name!r}; expected small letters, digits, dots, dashes and"
                " underscores",
                setting="name",
            )
        if self.kind == "alertmanager" and self.repeat_seconds == 0:
            raise BadRule(
                "repeat_seconds is 0; expected more, since Alertmanager forgets what it is not"
                " told again",
                setting="repeat_seconds",
            )


class AlertsTable(Thresholds, frozen=True, kw_only=True):
    """The table [alerts], as it stands in the file."""

    outbox: Path | None = None
    every_seconds: Positive = 1.0
    """How often is looked whether there is something to tell."""
    keys: bool = False
    public_url: str = ""
    waiting: Count = 10_000
    """Alerts that wait to be told to one receiver at most; then the oldest is given up."""
    kept: Count = 1_000
    """Alerts that are over, and that GET …/alerts still shows."""
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
    """Who is told, and how: the table with its secrets read."""

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
    """What the table says, with the secrets read and the outbox found."""

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
    found: dict[str, Any] = {
        "outbox": table.outbox or _default_outbox(ledgers),
        "receivers": tuple(
            _resolve_receiver(one, ledgers, labels, environment) for one in table.receivers
        ),
        "public_url": table.public_url.rstrip("/"),
    }
    return AlertSettings(**{**asdict(table), **found})


def _default_outbox(ledgers: Mapping[str, Path | None]) -> Path:
    for ledger in ledgers.values():
        if ledger is not None:
            return Path(ledger).absolute().parent / OUTBOX
    raise BadRule(
        "alerts are remembered in a file until they were told, and no monitor has a ledger beside"
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
    if table.repeat_seconds is None:  # Alertmanager forgets what it is not told again
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
    if bearer and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise BadRule(f"{where}: its token would travel in the clear; expected a url of https")


def _read_secret(
    where: str,
    name: str,
    variable: str | None,
    file: Path | None,
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
            value = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            kind = type(error).__name__
            raise BadRule(f"{where}: the file of {name}_file cannot be read ({kind})") from None
        if not value:
            raise BadRule(f"{where}: the file of {name}_file is empty")
        return value
    return plain or ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
