"""Settings of `likewise serve`: a TOML file, or a few options of the command.

    [server]
    host = "127.0.0.1"            # loopback; any other address needs tokens, and TLS or a proxy
    port = 8800
    uds = "/run/likewise.sock"    # a socket of the file system instead of host and port
    certificate = "tls.crt"       # with `key`: serve TLS
    key = "tls.key"
    behind_proxy = true           # TLS ends at a proxy in front
    hosts = ["likewise.local"]    # further names that a server without tokens is reached by

    [limits]                      # all of them have defaults (class Limits)
    body_bytes = 33554432

    [[tokens]]
    name = "scoring"
    hash = "sha256:…"             # `likewise token` makes a token and this line
    scopes = ["observe", "read"]
    monitors = ["loans"]          # all of them unless given

    [monitors.loans]
    rule = "loans.toml"           # paths are relative to this file
    ledger = "loans.ledger"       # without: in memory
    durability = "commit"
    window = "90 days"
    burst = { last = 1000, alarm = 20 }
    comparable = true
    support = true

    [monitors.loans.source]       # decisions from a stream, beside those over HTTP
    from = "redis://127.0.0.1:6379/0?stream=decisions"
    to = "redis://127.0.0.1:6379/0?stream=verdicts"

    [monitors.loans.cluster]      # its rows are searched by shards on Ray, with the extra `ray`
    shards = 4
    address = "auto"              # of a Ray cluster; without: Ray is started here

    [monitors.scores]
    rule = "scores.toml"
    kind = "slopes"               # names the steepest past decision
    slope_limit = 3.0             # a steeper slope is a violation

    [otlp]                        # with the extra `otlp`
    endpoint = "http://127.0.0.1:4318"

    [labels]                      # of every metric and alert, beside their own
    environment = "production"

    [pages]                       # read by pages/settings.py
    proxy_header = "X-Forwarded-User"

How tables are read, and what is refused: toml_tables.py. A path may be relative to the file.
"""

import os
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from msgspec import Meta, field

from likewise.errors import BadRule
from likewise.rule.burst import Burst
from likewise.runtime.machine import is_loopback
from likewise.service.alerts.settings import AlertSettings, AlertsTable, resolve_alerts
from likewise.service.toml_tables import (
    MOST_NUMBER,
    Count,
    CountOrZero,
    NotNegative,
    Positive,
    SettingsTable,
    check_name,
    read_table,
)
from likewise.sharding.protocol import ClusterSettings
from likewise.sources.address import parse_address

SCOPES = ("observe", "read", "review", "erase", "admin")
"""What a token may allow: send decisions, read, review, erase, everything else."""
_SECRETS = ("password_file", "token_file", "creds_file", "key_file", "config_file")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,63}")
RESERVED_LABELS = {
    *("alertname", "epsilon", "exact", "fingerprint", "index", "kind", "le", "metric"),
    *("model_version", "monitor", "reason", "result", "route", "severity", "source", "status"),
    "version",
}
"""Labels that metrics and alerts have already."""


class Limits(SettingsTable, frozen=True):
    """Bounds of everything that a client can make grow."""

    head_bytes: Count = 64 << 10
    """Bytes of the first line and the headers of a request; more are answered with 431."""
    body_bytes: Count = 32 << 20
    line_bytes: Count = 1 << 20
    """Bytes of one line of a stream."""
    batch_rows: Count = 100_000
    key_bytes: Count = 512
    label_bytes: Count = 1024
    """Bytes of a label, a category or the name of a model."""
    labels: Count = 10_000
    """Distinct labels, categories, models and sources of one history."""
    witnesses: CountOrZero = 100
    """Witnesses in one verdict; `omitted_witnesses` says how many more there are."""
    precedents: Annotated[int, Meta(ge=1, le=1000)] = 100
    """Similar cases in one answer to /like; `near` counts all."""
    waiting_rows: Count = 65_536
    """Decisions of one monitor that may wait to be judged; beyond, 429."""
    requests: Count = 1_000
    """Requests at the same time; beyond, 503."""
    rate: NotNegative = 0.0
    """Requests a second of one token, pages included, on average over ten seconds; beyond, 429.
    0: not limited."""
    readers: Count = 100
    """Connections that listen to events or to the live parts of a page; beyond, 503."""
    recent: Count = 1_000
    """Verdicts with a witness or an alarm that are in memory for readers of events."""
    skew_seconds: NotNegative = 300.0
    """How far the time of a client may be from the server's; 0: only the server's counts."""
    body_seconds: Annotated[float, Meta(ge=1, le=MOST_NUMBER)] = 30.0
    """How long a client may take to send a head, or a body, or to read an answer."""
    pairs: Count = 10_000
    """Halves of CloudEvents that wait for the other half."""
    pair_seconds: Annotated[float, Meta(ge=1, le=MOST_NUMBER)] = 60.0
    pair_bytes: Count = 256 << 20
    """Bytes of the bodies of those halves."""
    disk_bytes: CountOrZero = 64 << 20
    """With fewer bytes free on the disk of a ledger, /readyz says that it is not ready."""

    def witness_limit(self, requested: int | None) -> int:
        """Return how many witnesses a verdict has if so many are requested."""
        return self.witnesses if requested is None else min(self.witnesses, requested)


class Token(SettingsTable, frozen=True):
    """A token of a client: its rights, and the hash of the secret."""

    name: str
    hash: str
    scopes: tuple[str, ...] = ("observe",)
    monitors: tuple[str, ...] | None = None
    """All monitors if None."""

    def __post_init__(self) -> None:
        if self.name in ("", "local", "anyone"):
            raise BadRule(
                f"the name is {self.name!r}; expected another one, since this stands for callers"
                " without a token",
                setting="name",
            )
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", self.hash):
            raise BadRule(
                f"the hash of {self.name!r} is {self.hash[:20]!r}…; expected sha256: and 64 digits,"
                " as `likewise token` writes them",
                setting="hash",
            )
        check_scopes(f"the scopes of {self.name!r}", self.scopes)

    def allows(self, scope: str, monitor: str | None) -> bool:
        """Whether it allows that with a monitor; None: with no monitor in particular."""
        return is_allowed(self.scopes, self.monitors, scope, monitor)


def check_scopes(what: str, scopes: Collection[str]) -> None:
    """Raise BadRule unless there are some, and each is one of SCOPES."""
    if not scopes or not set(scopes) <= set(SCOPES):
        raise BadRule(f"{what} are {list(scopes)}; expected some of {', '.join(SCOPES)}")


def is_allowed(
    scopes: Collection[str], monitors: Collection[str] | None, scope: str, monitor: str | None
) -> bool:
    """Whether somebody with these scopes and monitors may do that; "admin" includes all scopes."""
    mine = monitor is None or monitors is None or monitor in monitors
    return mine and (scope in scopes or "admin" in scopes)


class ServerSettings(SettingsTable, frozen=True):
    """Where and how the server listens."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8800
    uds: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    hosts: tuple[str, ...] = ()
    """Further host names of the server, besides `host` and those of loopback (request_guard.py)."""
    workers: int = 1
    drain_seconds: NotNegative = 20.0
    """How long open requests may take to end after SIGTERM."""

    def __post_init__(self) -> None:
        if self.workers != 1:
            raise BadRule(
                f"workers is {self.workers}; expected 1: one process owns the history, and a second"
                " one could not see its decisions. More clients need no more server workers.",
                setting="workers",
            )
        if (self.certificate is None) != (self.key is None):
            raise BadRule("certificate and key go together")
        for name in self.hosts:
            if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
                raise BadRule(
                    f"hosts has {name!r}; expected names such as likewise.example.org,"
                    " without a port",
                    setting="hosts",
                )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.uds is not None or is_loopback(self.host)


class StreamSource(SettingsTable, frozen=True):
    """The table [monitors.NAME.source]: a stream that a monitor follows."""

    address: str = field(name="from")
    to: str | None = None
    """A stream for verdict lines."""
    dead_letters: str | None = None
    """A stream for messages that cannot be judged; without it they are only counted."""
    gaps: Literal["lost", "stop"] = "lost"
    """If messages are gone before they are read: "lost" counts them, "stop" ends the following."""
    output_column: str | None = None
    """For a rule about vectors: the field with the output."""
    model_column: str | None = None
    """The field that says which model decided."""
    witnesses: CountOrZero = 10
    """Witnesses in a verdict line."""

    def __post_init__(self) -> None:
        named = {"from": self.address, "to": self.to, "dead_letters": self.dead_letters}
        for name, text in named.items():
            try:
                if text is not None:
                    parse_address(text)
            except BadRule as error:
                raise BadRule(f"{name}: {error}", setting=name) from None


class BurstSettings(SettingsTable, frozen=True):
    """The table [monitors.NAME.burst], as Burst has it."""

    last: int
    alarm: int | None = None

    def __post_init__(self) -> None:
        self.make_burst()

    def make_burst(self) -> Burst:
        """Make the burst; raise BadRule if the numbers make no sense."""
        return Burst(self.last, self.alarm)


class MonitorSettings(SettingsTable, frozen=True):
    """One monitor: its rule, its ledger and how it judges."""

    rule: Path | None = None
    """None: the ledger's own rule."""
    ledger: Path | None = None
    window: str | None = None
    durability: Literal["commit", "batch", "off"] = "commit"
    burst: BurstSettings | None = None
    comparable: bool = True
    support: bool = False
    trust_code: bool = False
    """Whether an embedder that the rule names may be loaded."""
    unpaired_requests: Literal["lost", "counted"] = "lost"
    """How a CloudEvents request without a response counts: "lost" as missing decisions, or
    "counted" only, since a prediction that failed has no response."""
    source: StreamSource | None = None
    """A stream that it follows."""
    cluster: ClusterSettings | None = None
    """Where shards search its rows; None: this process searches."""
    kind: Literal["contradictions", "slopes"] = "contradictions"
    """"slopes" finds the past decision with the steepest slope."""
    input_exponent: float | None = None
    """For slopes: p in output distance / input distance ** p; 1 unless given."""
    slope_limit: float | None = None
    """For slopes: a steeper one is a violation; None: nothing is."""

    def __post_init__(self) -> None:
        if self.rule is None and self.ledger is None:
            raise BadRule("there is neither a rule nor a ledger with one")
        if self.kind == "slopes" and self.burst is not None:
            raise BadRule("burst is about contradictions, and the kind is slopes: leave it out")
        if self.kind == "slopes" and self.support:
            raise BadRule("support is about contradictions, and the kind is slopes: leave it out")
        if self.kind == "slopes" and self.source is not None:
            raise BadRule("source is about contradictions, and the kind is slopes: leave it out")
        if self.kind != "slopes" and (
            self.slope_limit is not None or self.input_exponent is not None
        ):
            raise BadRule('slope_limit and input_exponent are about slopes: say kind = "slopes"')
        if self.cluster is not None and self.ledger is None:
            raise BadRule("a cluster needs a ledger, from which its shards are made; there is none")


class OtlpSettings(SettingsTable, frozen=True):
    """The table [otlp] of the settings."""

    endpoint: str
    """Address of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318."""
    every_seconds: Positive = 30.0
    violations: bool = True
    """Whether to send an event for each violation."""

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise BadRule(
                f"endpoint is {self.endpoint!r}; expected http://… or https://…", setting="endpoint"
            )


class ServiceSettings(SettingsTable, frozen=True):
    """All settings of the service."""

    monitors: dict[str, MonitorSettings] = field(default_factory=dict)
    server: ServerSettings = ServerSettings()
    limits: Limits = Limits()
    tokens: tuple[Token, ...] = ()
    alerts: AlertsTable | None = None
    otlp: OtlpSettings | None = None
    pages: dict[str, Any] = field(default_factory=dict)
    """The table as it is in the file; pages/settings.py reads it."""
    labels: dict[str, str] = field(default_factory=dict)
    """Further labels of every metric and alert, such as the environment."""

    def __post_init__(self) -> None:
        for name, value in self.labels.items():
            if name in RESERVED_LABELS or not _LABEL.fullmatch(name):
                raise BadRule(
                    f"labels: {name} is {value!r}; expected a text, under a name of letters, digits"
                    f" and underscores that is none of {', '.join(sorted(RESERVED_LABELS))}",
                    setting=name,
                )
        if not self.monitors:
            raise BadRule("no monitor is named; expected at least one table [monitors.NAME]")
        for name in self.monitors:
            check_name("the name of a monitor", name)
        names = [token.name for token in self.tokens]
        if len(set(names)) < len(names):
            raise BadRule("tokens: two have the same name")
        for token in self.tokens:
            for name in token.monitors or ():
                if name not in self.monitors:
                    raise BadRule(
                        f"tokens: monitors of {token.name!r} has {name!r}, and there is no such"
                        " monitor",
                        setting="monitors",
                    )
        server = self.server
        if server.loopback:
            return
        if not self.tokens:
            raise BadRule(
                f"the host is {server.host!r}, which others can reach, and there are no tokens."
                " Make some with `likewise token`, or serve on 127.0.0.1."
            )
        if server.certificate is None and not server.behind_proxy:
            raise BadRule(
                f"the host is {server.host!r}, which others can reach, and tokens would travel in"
                " the clear. Give `certificate` and `key`, or say `behind_proxy = true` if a proxy"
                " in front ends TLS."
            )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a TOML file; paths in it are relative to its folder."""
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadRule(f"{str(path)!r} cannot be read: {error}") from None
        return cls.from_tables(table, path.parent)

    @classmethod
    def from_tables(cls, table: Mapping[str, Any], folder: Path) -> Self:
        """Convert and check the tables of a file in that folder."""
        return read_table(cls, table, folder)

    def resolve_alerts(self, environment: Mapping[str, str] = os.environ) -> AlertSettings | None:
        """Read the secrets that [alerts] names; None if there is no such table."""
        if self.alerts is None:
            return None
        ledgers = {name: settings.ledger for name, settings in self.monitors.items()}
        return resolve_alerts(self.alerts, ledgers, self.labels, environment)

    def secret_files(self) -> list[Path]:
        """Return the files with secrets that the settings name."""
        paths: list[str | Path | None] = [self.server.key]
        for settings in self.monitors.values():
            if settings.source is not None:
                for text in (
                    settings.source.address,
                    settings.source.to,
                    settings.source.dead_letters,
                ):
                    parameters = {} if text is None else parse_address(text).parameters
                    paths += [parameters.get(name) for name in _SECRETS]
        for one in () if self.alerts is None else self.alerts.receivers:
            paths += [one.url_file, one.secret_file]
        return sorted({Path(path) for path in paths if path is not None})
