"""What `likewise serve` is told: a TOML file, or a few options of the command.

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

    [monitors.loans.source]       # decisions from a stream, beside those over HTTP
    from = "redis://127.0.0.1:6379/0?stream=decisions"
    to = "redis://127.0.0.1:6379/0?stream=verdicts"

    [monitors.loans.cluster]      # its rows are searched by shards on Ray, with the extra `ray`
    shards = 4
    address = "auto"              # of a Ray cluster; without: Ray is started here

    [monitors.scores]
    rule = "scores.toml"
    kind = "slopes"               # names the steepest past decision, as a SlopeMonitor does
    level = 3.0                   # a steeper slope is a violation

    [otlp]                        # with the extra `otlp`
    endpoint = "http://127.0.0.1:4318"

    [labels]                      # of every metric and alert, beside their own
    environment = "production"

    [pages]                       # read by pages/settings.py
    proxy_header = "X-Forwarded-User"

Settings are frozen and checked when they are made. Unknown names are refused: a limit with a typing
mistake would be no limit.
"""

import dataclasses
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import UnionType
from typing import Any, Self, get_args, get_type_hints

from likewise.rules.burst import Burst
from likewise.sharding.settings import ClusterSettings
from likewise.streams.address import address_of
from likewise.streams.policies import GAPS
from likewise.values.errors import BadRule

SCOPES = ("observe", "read", "review", "erase", "admin")
"""What a token may be allowed: tell decisions, look, review, take away, everything else."""
_SECRETS = ("password_file", "token_file", "creds_file", "key_file", "config_file")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,63}")
TAKEN = {
    *("alertname", "epsilon", "exact", "fingerprint", "index", "kind", "le", "metric"),
    *("model_version", "monitor", "reason", "route", "severity", "source", "status", "version"),
}
"""Names of labels that metrics and alerts have already."""


@dataclass(frozen=True)
class Limits:
    """Bounds of everything that a client can make grow."""

    head_bytes: int = 64 << 10
    """Bytes of the first line and the headers of a request; more are answered with 431."""
    body_bytes: int = 32 << 20
    line_bytes: int = 1 << 20
    """Of one line of a stream."""
    batch_rows: int = 100_000
    key_bytes: int = 512
    label_bytes: int = 1024
    """Of a label, a category or the name of a model."""
    labels: int = 10_000
    """Distinct labels, categories, models and sources of one history."""
    witnesses: int = 100
    """Told of one verdict; `omitted` says how many more there are."""
    waiting_rows: int = 65_536
    """Decisions of one monitor that wait to be judged; then 429."""
    requests: int = 1_000
    """Under way at once; then 503."""
    rate: float = 0.0
    """Requests a second of one token, pages included, on average over ten seconds; 0: not limited.
    Then 429."""
    readers: int = 100
    """Connections that listen to events or to the live parts of a page; then 503."""
    recent: int = 1_000
    """Verdicts with a witness or an alarm that a monitor keeps at hand, for readers of events."""
    skew_seconds: float = 300.0
    """How far a time that a client gives may be from the server's; 0: only the server's counts."""
    body_seconds: float = 30.0
    """How long a client may take to send a head, or a body, or to read an answer."""
    pairs: int = 10_000
    """Halves of CloudEvents that wait for the other half."""
    pair_seconds: float = 60.0
    pair_bytes: int = 256 << 20
    """Of the bodies of those halves."""
    disk_bytes: int = 64 << 20
    """Free on the disk of a ledger; with less, /readyz says that it is not ready."""

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            least = 0 if one.name in ("rate", "skew_seconds", "witnesses", "disk_bytes") else 1
            if isinstance(value, bool) or not value >= least:
                raise BadRule(
                    f"limits: {one.name} is {value!r}; expected at least {least}", setting=one.name
                )


@dataclass(frozen=True)
class Token:
    """Who may do what; the secret itself is not kept, only its hash."""

    name: str
    hash: str
    scopes: tuple[str, ...] = ("observe",)
    monitors: tuple[str, ...] | None = None
    """All of them if None."""

    def __post_init__(self) -> None:
        if self.name in ("", "local", "anyone"):
            raise BadRule(
                f"token {self.name!r}: expected a name; this one stands for callers without a"
                " token",
                setting="name",
            )
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", self.hash):
            raise BadRule(
                f"token {self.name!r}: the hash is {self.hash[:20]!r}…; expected sha256: and 64"
                " digits, as `likewise token` writes them"
            )
        unknown = [scope for scope in self.scopes if scope not in SCOPES]
        if unknown or not self.scopes:
            raise BadRule(
                f"token {self.name!r}: the scopes are {list(self.scopes)}; expected some of"
                f" {', '.join(SCOPES)}"
            )

    def allows(self, scope: str, monitor: str | None) -> bool:
        """Whether it may do that with a monitor; None: with no monitor in particular."""
        return allowed(self.scopes, self.monitors, scope, monitor)


def allowed(
    scopes: Collection[str], monitors: Collection[str] | None, scope: str, monitor: str | None
) -> bool:
    """Whether whoever has these scopes, for these monitors, may do that; "admin" has them all."""
    mine = monitor is None or monitors is None or monitor in monitors
    return mine and (scope in scopes or "admin" in scopes)


@dataclass(frozen=True)
class Server:
    """Where it listens."""

    host: str = "127.0.0.1"
    port: int = 8800
    uds: str | None = None
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False
    hosts: tuple[str, ...] = ()
    """Names that it is reached by, beside `host` and those of loopback (cross_site.py)."""
    workers: int = 1
    drain_seconds: float = 20.0
    """How long requests under way may take to end after SIGTERM."""

    def __post_init__(self) -> None:
        if self.workers != 1:
            raise BadRule(
                f"workers is {self.workers}; expected 1: one process owns the history, and a second"
                " one could not see its decisions. More clients need no more server workers.",
                setting="workers",
            )
        if (self.certificate is None) != (self.key is None):
            raise BadRule("server: certificate and key go together")
        for name in self.hosts:
            if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
                raise BadRule(
                    f"server: hosts has {name!r}; expected names such as likewise.example.org,"
                    " without a port",
                    setting="hosts",
                )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.uds is not None or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True)
class StreamSource:
    """The table [monitors.NAME.source]: a stream that a monitor follows."""

    address: str
    """`from` in the table."""
    to: str | None = None
    """A stream for verdict lines."""
    dead_letters: str | None = None
    """A stream for messages that cannot be judged; without it they are only counted."""
    gaps: str = "lost"
    """What messages are that are gone before they are read: "lost", or "stop" to follow no more."""
    output_column: str | None = None
    """For a rule about vectors: the field with the output."""
    model_column: str | None = None
    """The field that says which model decided."""
    witnesses: int = 10
    """Named in a verdict line."""

    def __post_init__(self) -> None:
        for text in (self.address, self.to, self.dead_letters):
            if text is not None:
                address_of(text)
        if self.gaps not in GAPS:
            raise BadRule(
                f"source: gaps is {self.gaps!r}; expected {' or '.join(GAPS)}", setting="gaps"
            )
        if self.witnesses < 0:
            raise BadRule(
                f"source: witnesses is {self.witnesses}; expected at least 0", setting="witnesses"
            )


@dataclass(frozen=True)
class Served:
    """One monitor: its rule, and where its history is."""

    rule: str | None = None
    """A file; None: the ledger's own rule."""
    ledger: str | None = None
    window: str | None = None
    durability: str = "commit"
    burst: Burst | None = None
    comparable: bool = True
    trust_code: bool = False
    """Whether an embedder that the rule names may be loaded."""
    unpaired_requests: str = "lost"
    """What a CloudEvents request without a response is: "lost", decisions that are missing, or
    "counted" only, since a prediction that failed has no response."""
    source: StreamSource | None = None
    """A stream that it follows."""
    cluster: ClusterSettings | None = None
    """Where the shards are that search its rows; None: this process does."""

    kind: str = "contradictions"
    """Or "slopes": for each decision the past one against which the slope is steepest."""
    input_exponent: float | None = None
    """Of slopes: p in output distance / input distance ** p; 1 unless given."""
    level: float | None = None
    """Of slopes: a steeper one is a violation; None: nothing is."""

    def __post_init__(self) -> None:
        if self.kind not in ("contradictions", "slopes"):
            raise BadRule(
                f"kind is {self.kind!r}; expected contradictions or slopes", setting="kind"
            )
        if self.kind == "slopes" and self.burst is not None:
            raise BadRule("burst is about contradictions, and the kind is slopes: leave it out")
        if self.kind == "slopes" and self.source is not None:
            raise BadRule("source is about contradictions, and the kind is slopes: leave it out")
        if self.kind != "slopes" and (self.level is not None or self.input_exponent is not None):
            raise BadRule('level and input_exponent are about slopes: say kind = "slopes"')
        if self.unpaired_requests not in ("lost", "counted"):
            raise BadRule(
                f"unpaired_requests is {self.unpaired_requests!r}; expected lost or counted",
                setting="unpaired_requests",
            )
        if self.cluster is not None and self.ledger is None:
            raise BadRule("a cluster needs a ledger, which its shards are made from; there is none")


@dataclass(frozen=True)
class OtlpSettings:
    """The table [otlp] of the settings."""

    endpoint: str
    """Of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318."""
    every_seconds: float = 30.0
    violations: bool = True
    """Whether each violation is an event."""

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise BadRule(
                f"otlp: endpoint is {self.endpoint!r}; expected http://… or https://…",
                setting="endpoint",
            )
        if not self.every_seconds > 0:
            raise BadRule(
                f"otlp: every_seconds is {self.every_seconds!r}; expected more than 0",
                setting="every_seconds",
            )


@dataclass(frozen=True)
class ServiceSettings:
    """All of it."""

    monitors: Mapping[str, Served]
    server: Server = field(default_factory=Server)
    limits: Limits = field(default_factory=Limits)
    tokens: tuple[Token, ...] = ()
    alerts: Mapping[str, Any] = field(default_factory=dict)
    """As it stands in the file; alerts/settings.py reads it."""
    otlp: OtlpSettings | None = None
    pages: Mapping[str, Any] = field(default_factory=dict)
    """As it stands in the file; pages/settings.py reads it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels of every metric and alert, such as the environment."""

    def __post_init__(self) -> None:
        for name, value in self.labels.items():
            if name in TAKEN or not _LABEL.fullmatch(name) or not isinstance(value, str):
                raise BadRule(
                    f"labels: {name} is {value!r}; expected a text, under a name of letters, digits"
                    f" and underscores that is none of {', '.join(sorted(TAKEN))}",
                    setting=name,
                )
        if not self.monitors:
            raise BadRule("no monitor is named; expected at least one table [monitors.NAME]")
        for name in self.monitors:
            if not NAME.fullmatch(name):
                raise BadRule(
                    f"monitor {name!r}: expected a name of small letters, digits, dots, dashes and"
                    " underscores"
                )
        names = [token.name for token in self.tokens]
        if len(set(names)) < len(names):
            raise BadRule("tokens: two have the same name")
        for token in self.tokens:
            for name in token.monitors or ():
                if name not in self.monitors:
                    raise BadRule(f"token {token.name!r}: there is no monitor {name!r}")
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
        """From a TOML file; paths in it are relative to its folder."""
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadRule(f"{str(path)!r} cannot be read: {error}") from None
        return cls.of(told, path.parent)

    @classmethod
    def of(cls, told: Mapping[str, Any], folder: Path) -> Self:
        known = {"server", "limits", "tokens", "monitors", "alerts", "otlp", "pages", "labels"}
        _refuse_unknown("the settings", told, known)
        monitors = {
            name: _served(name, one, folder) for name, one in _table(told, "monitors").items()
        }
        tokens = told.get("tokens", [])
        if not isinstance(tokens, list):
            raise BadRule("tokens: expected tables [[tokens]]")
        server = {
            name: _path(folder, value) if name in ("certificate", "key", "uds") else value
            for name, value in _table(told, "server").items()
        }
        return cls(
            monitors=monitors,
            server=made(Server, "server", server),
            limits=made(Limits, "limits", _table(told, "limits")),
            tokens=tuple(made(Token, "tokens", one) for one in tokens),
            alerts=_alerts(told, folder),
            otlp=made(OtlpSettings, "otlp", told["otlp"]) if "otlp" in told else None,
            pages=_table(told, "pages"),
            labels=_table(told, "labels"),
        )


def secret_files(settings: ServiceSettings) -> list[Path]:
    """The files with secrets that the settings name."""
    found = [settings.server.key]
    for served in settings.monitors.values():
        if served.source is not None:
            for text in (served.source.address, served.source.to, served.source.dead_letters):
                parameters = {} if text is None else address_of(text).parameters
                found += [parameters.get(name) for name in _SECRETS]
    receivers = settings.alerts.get("receivers", ())
    for one in receivers if isinstance(receivers, list) else ():
        found += [one.get("url_file"), one.get("secret_file")]
    return sorted({Path(path) for path in found if path is not None})


def _table(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = told.get(name, {})
    if not isinstance(value, dict):
        raise BadRule(f"{name} is {value!r}; expected a table [{name}]", setting=name)
    return value


def _served(name: str, told: Any, folder: Path) -> Served:
    where = f"monitor {name!r}"
    if not isinstance(told, dict):
        raise BadRule(f"{where}: expected a table [monitors.{name}]")
    given = dict(told)
    for file in ("rule", "ledger"):
        if file in given:
            given[file] = _path(folder, given[file])
    if "burst" in given:
        given["burst"] = made(Burst, f"{where}, burst", given["burst"])
    if isinstance(given.get("source"), dict):
        named = {"from": "address"}
        table = {named.get(name, name): value for name, value in given["source"].items()}
        given["source"] = made(StreamSource, f"{where}, source", table)
    if "cluster" in given:
        given["cluster"] = made(ClusterSettings, f"{where}, cluster", given["cluster"])
    served: Served = made(Served, where, given)
    if served.rule is None and served.ledger is None:
        raise BadRule(f"{where} has neither a rule nor a ledger that could have one")
    return served


def _alerts(told: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """As it stands in the file, with paths relative to its folder."""
    alerts = dict(_table(told, "alerts"))
    if "outbox" in alerts:
        alerts["outbox"] = _path(folder, alerts["outbox"])
    if isinstance(alerts.get("receivers"), list):
        alerts["receivers"] = [
            {
                name: _path(folder, value) if name in ("url_file", "secret_file") else value
                for name, value in one.items()
            }
            if isinstance(one, dict)
            else one
            for one in alerts["receivers"]
        ]
    return alerts


def _path(folder: Path, value: Any) -> str:
    return str(folder / str(value))


def _refuse_unknown(where: str, told: Mapping[str, Any], known: set[str]) -> None:
    for name in told:
        if name not in known:
            raise BadRule(f"{where}: {name!r} is no setting; there are {', '.join(sorted(known))}")


def made(kind: type[Any], where: str, told: Any) -> Any:
    """A dataclass from a table, each value of the type that its field says."""
    if not isinstance(told, Mapping):
        raise BadRule(f"{where}: expected a table, not {told!r}")
    hints = get_type_hints(kind)
    fields = {one.name: one for one in dataclasses.fields(kind)}
    _refuse_unknown(where, told, set(fields))
    values = {name: _value(where, name, value, hints[name]) for name, value in told.items()}
    missing = [
        name
        for name, one in fields.items()
        if name not in values
        and one.default is dataclasses.MISSING
        and one.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise BadRule(f"{where}: {missing[0]!r} is missing")
    return kind(**values)


def _value(where: str, name: str, value: Any, hint: Any) -> Any:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if texts and any(getattr(kind, "__origin__", None) is tuple for kind in kinds):
        return tuple(value)
    plain = tuple(kind for kind in kinds if isinstance(kind, type))
    if float in plain and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) in plain:
        return value
    raise BadRule(f"{where}: {name} is {value!r}, which is no {_named(kinds)}", setting=name)


def _named(kinds: tuple[Any, ...]) -> str:
    words = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    return " or ".join(words.get(kind, "list of texts") for kind in kinds if kind is not type(None))
