"""Writes the log of the service: that it is ready, what it refuses and loses, and that it ends.

Refusals, losses and slow commits are read from the counts every few seconds and logged as numbers,
so a client that sends nonsense cannot fill the disk.
"""

import asyncio
import json
import logging
import sys
import threading
import traceback
from collections import Counter
from typing import Any, NamedTuple, TextIO

from likewise.runtime.log import log_event, logger
from likewise.service.http_errors import Refusal
from likewise.service.monitor_counts import BUCKET_SECONDS
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import Token
from likewise.tables.times import iso_text_of_seconds

# Writes administrative calls into the ledger's chain before they are carried out. An event
# "administration" says who asked for what, and for how many or which rows, without values of
# people. So the chain has every such call, also one that was then refused.
# Invariant: a name is verified if a token or a proxy in front gave it, and a caller with such a
# name writes under no other.


class Actor(NamedTuple):
    """Says who asks; the name is "" if it is not known."""

    name: str
    verified: bool

    @classmethod
    def from_token(cls, token: Token | None) -> "Actor":
        return cls("", False) if token is None else cls(token.name, True)

    def resolve_name(self, name: Any, what: str) -> Any:
        """Return the name to write under; raise Refusal if the request gives another one.

        name    the name in the request, or None
        what    the name of its field
        """
        if not self.verified:
            if name is None:
                raise Refusal(422, f"there is no {what}: without tokens a request has to name one.")
            return name
        if name is not None and name != self.name:
            raise Refusal(
                403,
                f"{what} is {str(name)[:100]!r}, but the token is that of {self.name!r}: leave it"
                " out, or use a token of theirs.",
            )
        return self.name


def record_action(served: ServedMonitor, actor: Actor, what: str, **more: Any) -> None:
    """Write what was asked into the chain, in the monitor's turn; only log it without a ledger."""
    logger.info(
        "%s of %s, asked by %s", what, served.name, actor.name or "a client without a token"
    )
    if served.monitor.durable:
        served.monitor.ledger.record_administration(
            actor.name, what, verified=actor.verified, **more
        )


FORMATS = ("text", "json")


class JsonLogLines(logging.Formatter):
    """Writes each line as an object: time, level, logger, message, and the fields of an event."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        raised = _describe_exception(record)
        if raised is not None:
            line["raised"], line["at"] = raised
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLogLines(logging.Formatter):
    """Writes lines for people, one for each record."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}"
        raised = _describe_exception(record)
        if raised is not None:
            line += f" ({raised[0]} at {', '.join(raised[1])})"
        return line.replace("\n", "\\n").replace("\r", "\\r")


def write_log(form: str, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Write what is logged from now on to a stream, by default to standard error.

    Warnings, and exceptions that nobody can catch, are logged too; Python would write lines of its
    own.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLogLines() if form == "json" else TextLogLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(capture=True)
    threading.excepthook = sys.unraisablehook = _log_uncaught


def _log_uncaught(raised: Any) -> None:
    """Log an exception that ended a thread, or was raised while an object was destroyed."""
    about = raised.exc_type, raised.exc_value, raised.exc_traceback
    logging.getLogger("likewise").error("an exception was not caught", exc_info=about)


def _time(record: logging.LogRecord) -> str:
    return iso_text_of_seconds(record.created)


def _describe_exception(record: logging.LogRecord) -> tuple[str, list[str]] | None:
    """Return the type of an exception and its traceback, innermost frame last."""
    if not record.exc_info or record.exc_info[0] is None:
        return None
    kind, _, trace = record.exc_info
    frames = traceback.extract_tb(trace)[-8:]
    return kind.__name__, [f"{frame.filename}:{frame.lineno}" for frame in frames]


EVERY_SECONDS = 10.0
SLOW_SECONDS = 1.0
_SLOW = BUCKET_SECONDS.index(SLOW_SECONDS) + 1  # the first bucket of longer durations


class LogReporter:
    """Logs what changes in the counts of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reported: dict[str, Counter[tuple[str, str]]] = {}
        service.on_open.append(self._report_opened)
        monitors, tokens = len(service.settings.monitors), len(service.settings.tokens)
        message = f"{monitors} monitors are being opened"
        log_event("started", message, monitors=monitors, tokens=tokens)

    def report_ready(self) -> None:
        """Log that every monitor that can be opened is open."""
        monitors = len(self._service.monitors)
        log_event("ready", f"{monitors} monitors are open", monitors=monitors)

    async def run(self) -> None:
        """Log what is new, every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            self.report_changes()

    def report_changes(self) -> None:
        """Log what was refused or lost, and what took long, since the last time."""
        fields: dict[str, Any]
        denied, self._service.denied = self._service.denied, Counter()
        for (status, peer, route), count in denied.items():
            message = f"{count} requests were answered with {status}: {peer} {route}".rstrip()
            fields = {"status": int(status), "peer": peer, "route": route}
            log_event("denied", message, logging.WARNING, **fields, count=count)
        for name, served in self._service.monitors.items():
            before, now = self._reported.get(name, Counter()), _collect_counts(served)
            self._reported[name] = now
            for (event, reason), count in (now - before).items():
                message, fields = f"{count} {event}: {reason}", {"reason": reason}
                if event == "slow commits":
                    message = f"{count} commits took more than {SLOW_SECONDS:g} s"
                    fields = {"seconds": SLOW_SECONDS}
                fields = {"monitor": name, "count": count, **fields}
                log_event(event, f"{name}: {message}", logging.WARNING, **fields)

    def report_end(self) -> None:
        """Log what remains, and the counts of each monitor at the end."""
        self.report_changes()
        for name, served in self._service.monitors.items():
            judged, violations = served.counts.decisions.total(), served.counts.violations.total()
            message = f"{name}: {judged} decisions were judged, with {violations} violations"
            log_event("drained", message, monitor=name, decisions=judged, violations=violations)

    def _report_opened(self, served: ServedMonitor) -> None:
        monitor, name = served.monitor, served.name
        fields: dict[str, Any] = {"rows": monitor.rows, "durable": monitor.durable}
        fields["missing_decisions"] = monitor.missing_decisions
        log_event("opened", f"{name}: open, with {monitor.rows} rows", monitor=name, **fields)


def _collect_counts(served: ServedMonitor) -> Counter[tuple[str, str]]:
    counts = served.counts
    notable: Counter[tuple[str, str]] = Counter()
    for event, by_reason in (("refused", counts.refused), ("dropped", counts.dropped)):
        for reason, count in dict(by_reason).items():
            notable[event, reason] = count
    notable["slow commits", ""] = sum(counts.commit_durations.buckets[_SLOW:])
    return notable
