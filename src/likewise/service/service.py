"""The state that all routes share: monitors, settings, tokens; opens and closes the monitors.

Monitors are opened in parallel, and each is served as soon as it is open. If one ledger cannot be
opened, the others are served; a mistake in the settings, or no monitor at all, ends the service.
Invariant: a monitor is open before it is used, and closed after everything is answered.
Not here: HTTP (app.py), sockets and signals (running.py).
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, Self

from likewise.errors import BadFile, BadRule
from likewise.ledger.folder import BeingWritten
from likewise.monitor import opening
from likewise.monitor.factory import read_slope_options
from likewise.monitor.monitor import Monitor
from likewise.rule.rule import Rule
from likewise.runtime.log import log_event, logger
from likewise.runtime.private_files import is_open_to_all
from likewise.search.engine.engine import Engine
from likewise.service.alerts.alerting import AlertService
from likewise.service.cloudevents.receiver import EventReceiver
from likewise.service.followed_streams import FollowerThread, check_source
from likewise.service.http_errors import Refusal, code_of
from likewise.service.monitor_counts import OTHER, DurationHistogram
from likewise.service.monitor_readings import MonitorReadings
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from likewise.service.tokens import Tokens

LEDGER_WAIT_SECONDS = 30.0
"""In a rolling restart the previous process may still be writing for a while."""
MOST_DENIED_KINDS = 20
"""Lines of the log at a time about denied requests, so that nobody fills a disk with them."""
_FAILED_SECONDS = 10.0  # after which a client may ask again for a monitor that failed
_AT_ONCE = 8  # monitors that are opened at the same time
_cluster_lock = Lock()  # held while shards are started: Ray starts once


class _ServiceStopping(Exception):
    """Ends the opening of a monitor when the service stops."""


@dataclass(frozen=True, slots=True)
class UnopenedMonitor:
    """Describes a monitor that is not open: how many rows were read, or why it failed."""

    rows: int = 0
    all_rows: int = 0
    error_code: str | None = None
    """The code of the error, which says nothing about files."""

    def __str__(self) -> str:
        if self.error_code is not None:
            return f"cannot be opened ({self.error_code}); the log of the server says more"
        if not self.all_rows:
            return "is being opened"
        return f"is being opened: {_format_rows(self.rows)} of {_format_rows(self.all_rows)} rows"


REVOKED = "the token is no longer allowed to do this."
"""Ends a long answer when the tokens have changed."""


class LongAnswer:
    """An answer that goes on until its client leaves or is no longer allowed to read it."""

    def __init__(self, service: "Service", is_allowed: Callable[[], bool]) -> None:
        """is_allowed: asked again when the tokens have changed"""
        self._service = service
        self._is_allowed = is_allowed
        self.revoked = asyncio.Event()

    def __enter__(self) -> Self:
        self._service.long_answers.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._service.long_answers.discard(self)

    def check(self) -> None:
        """End the answer if it is no longer allowed."""
        if not self._is_allowed():
            self.revoked.set()

    async def send_in_time(self, send: Callable[[Any], Awaitable[None]], message: Any) -> None:
        """Send a part of it; raise TimeoutError if the client does not read for too long."""
        async with asyncio.timeout(self._service.settings.limits.body_seconds):
            await send(message)


class Service:
    """Holds the monitors, and opens, drains and closes them."""

    def __init__(
        self, settings: ServiceSettings, tell: Callable[[str], None] = logger.warning
    ) -> None:
        """tell: is called with each line that a person who starts the service should read"""
        self.settings = settings
        self._tell = tell
        self.tokens = Tokens(settings.tokens)
        self.monitors: Mapping[str, ServedMonitor] = {}
        """Those that are open; the mapping is replaced, never changed."""
        self.pending = dict.fromkeys(settings.monitors, UnopenedMonitor())
        """Those that are not open, by name; values are replaced as opening goes on."""
        self._monitors_lock = Lock()
        self.opening_begun = Event()  # set when the settings may be reloaded
        self.alert_settings = settings.resolve_alerts()
        self.alerting: AlertService | None = None
        self.ready = False
        """Whether every monitor that can be opened is open."""
        self.stopping = False
        """Whether it has to end: long answers end, and new requests are refused."""
        self.end_event = asyncio.Event()
        """Set when the service ends, for those who wait for something else."""
        self.verify_lock = asyncio.Lock()
        """Held while a ledger is verified: one at a time."""
        self.active_requests = self.readers = 0
        """Open requests, and connections that listen to events."""
        self.refused: Counter[str] = Counter()
        """Refused requests by status; those with decisions count here only without a monitor."""
        self.denied: Counter[tuple[str, str, str]] = Counter()
        """Requests answered with 401 and 403 that are not in the log yet, by status, peer and
        route; beyond MOST_DENIED_KINDS, by status alone."""
        self.durations: defaultdict[str, DurationHistogram] = defaultdict(DurationHistogram)
        """How long requests took, by route."""
        self.long_answers: set[LongAnswer] = set()
        """Long answers that are open."""
        self.reloads: Counter[str] = Counter()
        """How often the settings were read again, by the result: applied or refused."""
        self.refused_reload: tuple[str, float] | None = None
        """Error code and time of the last reload, if it was refused."""
        self.on_reload: list[Callable[[], object]] = []
        """Called when settings have changed."""
        self.on_open: list[Callable[[ServedMonitor], object]] = []
        """Called with each monitor when it is open."""
        self.background_tasks: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Run from the start until they are cancelled at the end."""
        self.before_drain: list[Callable[[], Awaitable[None]]] = [self._stop_following]
        """Awaited before the queues are emptied for the last time."""
        self.on_close: list[Callable[[], None]] = []
        """Called before the monitors are closed."""
        self.readings = MonitorReadings()
        """The last reading of each monitor."""
        self.event_receivers: dict[str, EventReceiver] = {}
        """Receivers of CloudEvents by monitor; each is made when the first event comes."""
        self._follower_threads: list[FollowerThread] = []
        warn_of_open_secrets(settings, tell)

    def apply_settings(self, settings: ServiceSettings) -> None:
        """Use changed settings from now on; on the event loop.

        Open requests go on; long answers end if their token no longer allows them.
        """
        with self._monitors_lock:
            self.settings = settings
            for served in self.monitors.values():
                served.use_limits(settings.limits)
        self.tokens = Tokens(settings.tokens)
        for call in self.on_reload:
            call()
        for answer in list(self.long_answers):
            answer.check()

    def count_denial(self, status: int, peer: str, route: str) -> None:
        """Count a request that was not allowed, for the log."""
        kind = str(status), peer, route
        full = len(self.denied) >= MOST_DENIED_KINDS and kind not in self.denied
        self.denied[(str(status), OTHER, "") if full else kind] += 1

    def open(self) -> None:
        """Open every monitor; takes as long as reading the largest ledger.

        Raises BadRule if the settings make no sense, and the error of the first monitor if all
        have failed. Those that are open stay open until `close`.
        """
        monitors = self.settings.monitors
        try:
            if self.alert_settings is not None:
                watched = [name for name, one in monitors.items() if one.kind != "slopes"]
                self.alerting = AlertService(self.alert_settings, watched)
        finally:
            self.opening_begun.set()
        with ThreadPoolExecutor(min(_AT_ONCE, len(monitors)), "likewise-open") as pool:
            errors = [one for one in pool.map(self._open_monitor, monitors) if one is not None]
        for error in errors:
            if isinstance(error, BadRule):
                raise error
        if len(errors) == len(monitors) and not self.stopping:
            raise errors[0]
        self.ready = not self.stopping

    def _open_monitor(self, name: str) -> Exception | None:
        """Open one monitor and serve it; return why it cannot be opened."""
        settings, limits = self.settings.monitors[name], self.settings.limits
        try:
            monitor = self._wait_and_open(name, settings)
            with ExitStack() as on_failure:
                on_failure.callback(monitor.close)
                monitor.core.limit_words(limits.labels)
                served = ServedMonitor(name, monitor, settings, limits)
                if settings.source is not None:
                    check_source(monitor.rule, monitor.durable, settings.source)
                if self.alerting is not None and monitor.slope is None:
                    self.alerting.watch(served)
                on_failure.pop_all()
        except _ServiceStopping as error:
            return error
        except BadRule as error:
            self.stopping = True  # so that the others stop reading
            return BadRule(f"monitor {name!r}: {error}")
        except Exception as error:
            code, fault = code_of(error)
            self.pending[name] = UnopenedMonitor(error_code=code)
            ledger, message = str(settings.ledger), f"{name}: cannot be opened"
            self._tell(f"monitor {name!r}, ledger {ledger!r}, cannot be opened: {error}")
            fields = {"monitor": name, "ledger": ledger, "code": code}
            log_event("failed", message, logging.ERROR, fault=fault, **fields)
            return error
        for call in self.on_open:
            call(served)
        with self._monitors_lock:
            current = self.settings.limits  # a reload may have changed them meanwhile
            served.use_limits(current)
            opened = {**self.monitors, name: served}
            self.monitors = {one: opened[one] for one in self.settings.monitors if one in opened}
        if current.labels != limits.labels:
            monitor.core.limit_words(current.labels)
        del self.pending[name]
        return None

    def _wait_and_open(self, name: str, settings: MonitorSettings) -> Monitor:
        """Open a monitor; if another process writes its ledger, say so and wait for it to end."""
        limits = self.settings.limits

        def progress(rows: int, all_rows: int) -> None:
            if self.stopping:
                raise _ServiceStopping
            self.pending[name] = UnopenedMonitor(rows, all_rows)

        try:
            return make_monitor(settings, limits, progress=progress)
        except BeingWritten as error:
            until = datetime.now().astimezone() + timedelta(seconds=LEDGER_WAIT_SECONDS)
            self._tell(
                f"monitor {name!r}: the ledger {error.path!r} is being written by process"
                f" {error.holder}. Waiting until {until:%H:%M:%S} for it to end; this monitor"
                " answers no requests before."
            )
            return make_monitor(settings, limits, wait=LEDGER_WAIT_SECONDS, progress=progress)

    def start_background(self, served: ServedMonitor) -> None:
        """Start following the stream of an open monitor, and alerts; on the event loop."""
        if self.stopping:
            return
        if self.alerting is not None:
            self.alerting.start()
        if served.settings.source is not None:
            loop = asyncio.get_running_loop()
            served.stream = FollowerThread(served, served.settings.source, loop)
            self._follower_threads.append(served.stream)

    async def _stop_following(self) -> None:
        following, self._follower_threads = self._follower_threads, []
        await asyncio.gather(*(asyncio.to_thread(one.stop) for one in following))

    def get_monitor(self, name: str) -> ServedMonitor:
        """Return the monitor of that name; raise Refusal if there is none, or it is not open."""
        served = self.monitors.get(name)
        if self.end_event.is_set():
            raise Refusal(503, "the server is ending: try again soon.", retry_seconds=1.0)
        if served is not None:
            return served
        pending = self.pending.get(name)
        if pending is None:
            raise Refusal(404, f"there is no monitor {name!r}; GET /v1/monitors lists them.")
        code, retry = "monitor-opening", 1.0
        if pending.error_code is not None:
            code, retry = "monitor-failed", _FAILED_SECONDS
        raise Refusal(503, f"the monitor {name!r} {pending}.", retry_seconds=retry, code=code)

    def stop(self) -> None:
        """Refuse new requests, and end long answers."""
        self.stopping = True
        self.ready = False
        self.end_event.set()
        for served in self.monitors.values():
            served.stop()

    async def drain(self, seconds: float) -> None:
        """Wait until everything in the queues is answered; TimeoutError after so many seconds."""
        self.stop()
        for call in self.before_drain:
            await call()
        waiting = [served.drain() for served in self.monitors.values()]
        if waiting:
            await asyncio.wait_for(asyncio.gather(*waiting), seconds)

    def close(self) -> None:
        self.ready = False
        for call in self.on_close:
            call()
        for served in self.monitors.values():
            served.close()


def warn_of_open_secrets(settings: ServiceSettings, tell: Callable[[str], None]) -> None:
    """Warn of files with secrets that everybody can read."""
    for path in settings.secret_files():
        if is_open_to_all(path):
            tell(f"{path} is a secret that everybody on this machine can open: chmod o-rwx it.")


def make_monitor(
    settings: MonitorSettings,
    limits: Limits,
    *,
    wait: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Monitor:
    """Make the monitor that the settings describe.

    wait        seconds to wait for another process to release the ledger
    progress    as in `LedgerOptions`
    """
    rule = None if settings.rule is None else _load_rule(Path(settings.rule), settings.trust_code)
    if settings.source is not None:  # before a ledger is created, which would store the rule
        check_source(rule, settings.ledger is not None, settings.source)
    if settings.ledger is None and settings.window is not None:
        raise BadRule("a window is about a ledger, and there is none")
    options = opening.LedgerOptions(
        settings.durability,
        window=settings.window,
        witnesses=min(10, limits.witnesses),
        wait=wait,
        progress=progress,
    )
    burst = None if settings.burst is None else settings.burst.make_burst()
    judging: dict[str, Any] = {"burst": burst, "comparable": settings.comparable}
    judging["support"] = settings.support
    if settings.ledger is None:
        assert rule is not None
        if settings.kind != "slopes":
            return Monitor(rule, **judging)
        exponent = settings.input_exponent
        return Monitor(rule, slope=True, slope_limit=settings.slope_limit, input_exponent=exponent)
    if settings.cluster is not None:
        from likewise.sharding.open_cluster import open_cluster

        with _cluster_lock:
            return open_cluster(settings.ledger, rule, settings.cluster, options, **judging)
    engine = partial(Engine, **judging)
    slopes = read_slope_options(
        settings.kind == "slopes", settings.slope_limit, settings.input_exponent
    )
    return opening.open_ledger(settings.ledger, rule, options, slope_options=slopes, engine=engine)


def _load_rule(path: Path, trust_code: bool) -> Rule:
    try:
        rule = Rule.load(path)
    except BadFile as error:
        raise BadRule(str(error)) from None
    for embedder in rule.embedders().values():
        if embedder.names_code and not trust_code:
            raise BadRule(
                f"the rule {path} names code, {embedder.text!r}, which would be imported and run."
                " Say `trust_code = true` if you know it and trust it."
            )
    return rule


def _format_rows(number: int) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1_000_000 else f"{number:,}"
