"""Addresses of streams say which server, which stream, and where its credentials are.

An address is typed into commands and shown in logs, so it holds nothing secret: a password in it is
refused. Passwords, tokens and keys come from files or from the environment, by the name that the
address gives (`password_file`, `password_env`).
Invariant: `str(address)` can be shown to anybody. An unknown parameter is refused.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from likewise.errors import BadRule

FORMATS = ("auto", "json", "arrow", "cloudevents")
STARTS = ("first", "new")
GAPS = ("lost", "stop")
"""What happens to records that are gone before they were read: "lost" records the loss in the
chain, and every later verdict says so; "stop" is an error, and nothing behind them is read."""
_COMMON = {"format", "start"}
_TLS = {"ca_file", "cert_file", "key_file"}
_SECRET = {"user", "password_file", "password_env"}
_PARAMETERS = {
    "redis": {"stream", "maxlen", *_COMMON, *_TLS, *_SECRET},
    "nats": {"stream", "subject", "creds_file", "token_file", "tls", *_COMMON, *_TLS, *_SECRET},
    "kafka": {"topic", "config_file", *_COMMON},
}
_SCHEMES = {"redis": "redis", "rediss": "redis", "nats": "nats", "tls": "nats", "kafka": "kafka"}
_PORTS = {"redis": 6379, "nats": 4222, "kafka": 9092}
_NAME_PARAMETERS = {"redis": "stream", "nats": "stream", "kafka": "topic"}


@dataclass(frozen=True)
class Address:
    """Says where a stream is.

    redis://host:6379/0?stream=decisions
    nats://host:4222?stream=DECISIONS&subject=decisions.loans
    kafka://host:9092,other:9092?topic=decisions
    """

    kind: str
    """redis, nats or kafka."""
    hosts: tuple[tuple[str, int], ...]
    streams: tuple[str, ...]
    """Names of Redis streams, or one NATS stream or Kafka topic."""
    database: int
    tls: bool
    parameters: Mapping[str, str]
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def format(self) -> str:
        return self.parameters.get("format", "auto")

    @property
    def start(self) -> str:
        """Where to begin if nothing was read yet: with the first record there, or with new ones."""
        return self.parameters.get("start", "first")

    def read_password(self) -> str | None:
        """Read the password from the file or the environment variable that the address names."""
        if "password_file" in self.parameters:
            return self.read_secret("password_file")
        name = self.parameters.get("password_env")
        if name is None:
            return None
        if name not in os.environ:
            raise BadRule(f"{self}: the environment has no {name}, which password_env names.")
        return os.environ[name]

    def read_secret(self, parameter: str) -> str | None:
        """Read the file that a parameter names, without the end of its line."""
        path = self.parameters.get(parameter)
        if path is None:
            return None
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no UTF-8 text"
            raise BadRule(f"{self}: {parameter} {path} cannot be read: {why}.") from None


def is_address(text: str) -> bool:
    """Tell whether a text means the address of a stream, rather than a file."""
    return "://" in text


def parse_address(text: str) -> Address:
    """Read an address; BadRule, which repeats no password, if it makes no sense.

    >>> parse_address("redis://127.0.0.1?stream=decisions").hosts
    (('127.0.0.1', 6379),)
    """
    scheme, _, rest = text.partition("://")
    kind = _SCHEMES.get(scheme)
    if kind is None or not rest:
        raise BadRule(
            f"the address begins with {scheme[:20]!r}; expected redis://, rediss://, nats://,"
            " tls:// or kafka://, such as redis://127.0.0.1:6379/0?stream=decisions"
        )
    place = rest.partition("?")[0].partition("/")[0]
    if "@" in place:
        raise BadRule(
            f"the {kind} address has a user or a password before the host; commands and logs would"
            " show it. Give user=NAME, and password_file=PATH or password_env=NAME, instead."
        )
    parts = urlsplit(f"//{rest}")
    query = parse_qs(parts.query, keep_blank_values=True)
    streams = query.pop(_NAME_PARAMETERS[kind], [])
    for name, values in query.items():
        if name not in _PARAMETERS[kind]:
            allowed = ", ".join(sorted(_PARAMETERS[kind]))
            raise BadRule(f"{name!r} is no parameter of a {kind} address; there are {allowed}")
        if len(values) > 1 or not values[0]:
            raise BadRule(f"the {kind} address has {name} without a value, or twice")
    parameters = {name: values[0] for name, values in query.items()}
    _check_parameters(kind, streams, parameters)
    tls = scheme in ("rediss", "tls") or "ca_file" in parameters or parameters.get("tls") == "true"
    named = "&".join(f"{_NAME_PARAMETERS[kind]}={name}" for name in streams)
    return Address(
        kind,
        tuple(_parse_host(one, kind) for one in place.split(",")),
        tuple(streams),
        _parse_database(parts.path, kind),
        tls,
        parameters,
        f"{scheme}://{place}{parts.path}?{named}",
    )


def _check_parameters(kind: str, streams: list[str], parameters: Mapping[str, str]) -> None:
    name = _NAME_PARAMETERS[kind]
    if not streams or not all(streams) or (kind != "redis" and len(streams) > 1):
        raise BadRule(f"a {kind} address names its {name}: …?{name}=decisions")
    if len(set(streams)) < len(streams):
        raise BadRule("the redis address names a stream twice")
    for parameter, choices in (("format", FORMATS), ("start", STARTS), ("tls", ("true", "false"))):
        value = parameters.get(parameter, choices[0])
        if value not in choices:
            raise BadRule(
                f"{parameter} is {value!r}; expected {' or '.join(choices)}", setting=parameter
            )
    if not parameters.get("maxlen", "1").isdigit():
        raise BadRule(
            f"maxlen is {parameters['maxlen']!r}; expected a whole number", setting="maxlen"
        )


def _parse_host(text: str, kind: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host:
        raise BadRule(f"the {kind} address has {text!r} for a host; expected HOST or HOST:PORT")
    return host, port or _PORTS[kind]


def _parse_database(path: str, kind: str) -> int:
    number = path.strip("/")
    if not number:
        return 0
    if kind != "redis" or not number.isdigit():
        raise BadRule(f"the {kind} address has {path!r} behind its host; expected ?…")
    return int(number)


def missing_extra(error: ModuleNotFoundError, extra: str) -> BadRule:
    """Return the error for a client that is not installed, with the extra that brings it."""
    return BadRule(f"{error.name} is missing: pip install '.[{extra}]' in the clone of likewise.")
