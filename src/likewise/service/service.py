"""What all routes share: the monitors that are served, the settings, the tokens.

Monitors are opened side by side, and each is served as soon as it is open. One whose ledger cannot
be opened has failed, and the others go on; a mistake in the settings, or no monitor that can be
opened, ends the service.

Invariant: a monitor is opened before it is asked, and closed after everything is answered.
"""

import asyncio
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

from likewise.errors import BadFile, BadRule, LikewiseError
from likewise.ledger.folder import BeingWritten
from likewise.monitor import opening
from likewise.monitor.factory import read_slope_options
from likewise.monitor.monitor import Monitor
from likewise.rule.rule import Rule
from likewise.runtime.log import logger
from likewise.runtime.private_files import is_open_to_all
from likewise.search.engine.engine import Engine
from likewise.service.alerts.alerting import AlertService
from likewise.service.cloudevents.receiver import EventReceiver
from likewise.service.followed_streams import FollowerThread, check_source
from likewise.service.http_errors import Refusal
from likewise.service.monitor_counts import DurationHistogram
from likewise.service.monitor_readings import MonitorReadings
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from likewise.service.tokens import Tokens

LEDGER_WAIT_SECONDS = 30.0
"""Of a rolling restart: the process before may still be writing."""
MOST_DENIED_KINDS = 20
"""Lines of the log at a time about who was refused, so that nobody fills a disk with them."""
_FAILED_SECONDS = 10.0  # after which a client may ask again for a monitor that failed
_AT_ONCE = 8  # monitors that are opened at the same time
_cluster_lock = Lock()  # held while shards are started: Ray starts once


class _ServiceStopping(Exception):
    """The service ends while a ledger is being read."""


@dataclass(frozen=True, slots=True)
class UnopenedMonitor:
    """A monitor that is not open: how many rows were read, or why it failed."""

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


class LongAnswer:
    """An answer that goes on, until whoever reads it leaves or is no longer allowed to."""

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
        """Have it end if it is no longer allowed."""
        if not self._is_allowed():
            self.revoked.set()


class Service:
    """The monitors by name, and whether they can be asked."""

    def __init__(
        self, settings: ServiceSettings, tell: Callable[[str], None] = logger.warning
    ) -> None:
        """tell: told in a line each what a person who waits for it should know"""
        self.settings = settings
        self._tell = tell
        self.tokens = Tokens(settings.tokens)
        self.monitors: Mapping[str, ServedMonitor] = {}
        """Those that are open; replaced, never changed."""
        self.pending = dict.fromkeys(settings.monitors, UnopenedMonitor())
        """Those that are not, by name; each value is replaced as it goes on."""
        self._monitors_lock = Lock()
        self.opening_begun = (
            Event()
        )  # set when monitors begin to be opened: settings can change then
        self.alert_settings = settings.resolve_alerts()
        self.alerting: AlertService | None = None
        self.ready = False
        """Whether every monitor that can be opened is open."""
        self.stopping = False
        """Whether it was told to end: long answers end, and nothing new is taken."""
        self.end_event = asyncio.Event()
        """Set when it is time to end, for those who wait for something else."""
        self.verify_lock = asyncio.Lock()
        """Held while a ledger is verified: one at a time."""
        self.active_requests = self.readers = 0
        """Requests that have begun and not ended, and connections that listen to events."""
        self.refused: Counter[str] = Counter()
        """Requests that were refused, by status; of decisions, before a monitor was found."""
        self.denied: Counter[tuple[str, str, str]] = Counter()
        """Requests answered with 401 and 403 that the log has not told yet, by status, peer and
        route; beyond `DENIED` kinds, by status alone."""
        self.durations: defaultdict[str, DurationHistogram] = defaultdict(DurationHistogram)
        """How long requests took, by route."""
        self.long_answers: set[LongAnswer] = set()
        """Those that are open."""
        self.reloads: Counter[str] = Counter()
        """How often the settings were read again, by what became of it."""
        self.refused_reload: tuple[str, float] | None = None
        """The code and the time of the last reload, if it was refused."""
        self.on_reload: list[Callable[[], object]] = []
        """Called when settings have changed."""
        self.on_open: list[Callable[[ServedMonitor], object]] = []
        """Told of each monitor when it is open."""
        self.background_tasks: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Run beside everything else, from the start until they are cancelled at the end."""
        self.before_drain: list[Callable[[], Awaitable[None]]] = [self._stop_following]
        """Awaited before the queues are emptied for the last time."""
        self.on_close: list[Callable[[], None]] = []
        """Called before the monitors are closed."""
        self.readings = MonitorReadings()
        """What monitors said of themselves when they were last asked."""
        self.event_receivers: dict[str, EventReceiver] = {}
        """What joins CloudEvents, by monitor; made when the first one comes."""
        self._follower_threads: list[FollowerThread] = []
        warn_of_open_secrets(settings, tell)

    def apply_settings(self, settings: ServiceSettings) -> None:
        """Use changed settings from now on; on the event loop.

        Requests under way go on; long answers end if their token no longer allows them.
        """
        with self._monitors_lock:
            self.settings = settings
            for hosted in self.monitors.values():
                hosted.use_limits(settings.limits)
        self.tokens = Tokens(settings.tokens)
        for call in self.on_reload:
            call()
        for answer in list(self.long_answers):
            answer.check()

    def count_denial(self, status: int, peer: str, route: str) -> None:
        """Have the log told of somebody who may not do what they asked for."""
        kind = str(status), peer, route
        full = len(self.denied) >= MOST_DENIED_KINDS and kind not in self.denied
        self.denied[(str(status), "(others)", "") if full else kind] += 1

    def open(self) -> None:
        """Open every monitor; takes as long as reading the largest ledger.

        Raises BadRule if the settings make no sense, and what the first one met if all have failed.
        Those that are open stay so until `close`.
        """
        served = self.settings.monitors
        try:
            if self.alert_settings is not None:
                watched = [name for name, one in served.items() if one.kind != "slopes"]
                self.alerting = AlertService(self.alert_settings, watched)
        finally:
            self.opening_begun.set()
        with ThreadPoolExecutor(min(_AT_ONCE, len(served)), "likewise-open") as pool:
            failed = [error for error in pool.map(self._open_monitor, served) if error is not None]
        for error in failed:
            if isinstance(error, BadRule):
                raise error
        if len(failed) == len(served) and not self.stopping:
            raise failed[0]
        self.ready = not self.stopping

    def _open_monitor(self, name: str) -> Exception | None:
        """Open one monitor and serve it; return why it cannot be opened."""
        served, limits = self.settings.monitors[name], self.settings.limits
        try:
            monitor = self._wait_and_open(name, served)
            with ExitStack() as on_failure:
                on_failure.callback(monitor.close)
                monitor.limit_words(limits.labels)
                hosted = ServedMonitor(name, monitor, served, limits)
                if served.source is not None:
                    check_source(monitor.rule, monitor.durable, served.source)
                if self.alerting is not None and monitor.slope is None:
                    self.alerting.watch(hosted)
                on_failure.pop_all()
        except _ServiceStopping as error:
            return error
        except BadRule as error:
            self.stopping = True  # so that others do not read on
            return BadRule(f"monitor {name!r}: {error}")
        except Exception as error:
            code = error.code if isinstance(error, LikewiseError) else type(error).__name__
            self.pending[name] = UnopenedMonitor(error_code=code)
            self._tell(
                f"monitor {name!r}, ledger {str(served.ledger)!r}, cannot be opened: {error}"
            )
            logger.error(
                "%s: cannot be opened",
                name,
                exc_info=None if isinstance(error, LikewiseError) else error,
                extra={
                    "fields": {
                        "event": "failed",
                        "monitor": name,
                        "ledger": str(served.ledger),
                        "code": code,
                    }
                },
            )
            return error
        for told in self.on_open:
            told(hosted)
        with self._monitors_lock:
            now = self.settings.limits  # a reload may have changed them meanwhile
            hosted.use_limits(now)
            done = {**self.monitors, name: hosted}
            self.monitors = {one: done[one] for one in self.settings.monitors if one in done}
        if now.labels != limits.labels:
            monitor.limit_words(now.labels)
        del self.pending[name]
        return None

    def _wait_and_open(self, name: str, served: MonitorSettings) -> Monitor:
        """A monitor; if another process has its ledger, that is told, and waited for."""
        limits = self.settings.limits

        def progress(rows: int, of: int) -> None:
            if self.stopping:
                raise _ServiceStopping
            self.pending[name] = UnopenedMonitor(rows, of)

        try:
            return make_monitor(served, limits, progress=progress)
        except BeingWritten as error:
            until = datetime.now().astimezone() + timedelta(seconds=LEDGER_WAIT_SECONDS)
            self._tell(
                f"monitor {name!r}: the ledger {error.path!r} is being written by process"
                f" {error.holder}. Waiting until {until:%H:%M:%S} for it to end; this monitor"
                " answers nothing before."
            )
            return make_monitor(served, limits, wait=LEDGER_WAIT_SECONDS, progress=progress)

    def start_background(self, hosted: ServedMonitor) -> None:
        """Have a monitor that is open follow its stream, and alerts told; on the event loop."""
        if self.stopping:
            return
        if self.alerting is not None:
            self.alerting.start()
        if hosted.settings.source is not None:
            loop = asyncio.get_running_loop()
            hosted.stream = FollowerThread(hosted, hosted.settings.source, loop)
            self._follower_threads.append(hosted.stream)

    async def _stop_following(self) -> None:
        following, self._follower_threads = self._follower_threads, []
        await asyncio.gather(*(asyncio.to_thread(one.stop) for one in following))

    def get_monitor(self, name: str) -> ServedMonitor:
        """The monitor of that name; Refusal if there is none, or none can be asked now."""
        hosted = self.monitors.get(name)
        if self.end_event.is_set():
            raise Refusal(503, "the server is ending: try again soon.", retry_seconds=1.0)
        if hosted is not None:
            return hosted
        pending = self.pending.get(name)
        if pending is None:
            raise Refusal(404, f"there is no monitor {name!r}; GET /v1/monitors lists them.")
        code, retry = "monitor-opening", 1.0
        if pending.error_code is not None:
            code, retry = "monitor-failed", _FAILED_SECONDS
        raise Refusal(503, f"the monitor {name!r} {pending}.", retry_seconds=retry, code=code)

    def stop(self) -> None:
        """Take nothing new, and have long answers end."""
        self.stopping = True
        self.ready = False
        self.end_event.set()
        for hosted in self.monitors.values():
            hosted.stop()

    async def drain(self, seconds: float) -> None:
        """Have everything that waits answered."""
        self.stop()
        for call in self.before_drain:
            await call()
        waiting = [hosted.drain() for hosted in self.monitors.values()]
        if waiting:
            await asyncio.wait_for(asyncio.gather(*waiting), seconds)

    def close(self) -> None:
        self.ready = False
        for call in self.on_close:
            call()
        for hosted in self.monitors.values():
            hosted.close()


def warn_of_open_secrets(settings: ServiceSettings, tell: Callable[[str], None]) -> None:
    """Tell which files with secrets everybody can read."""
    for path in settings.secret_files():
        if is_open_to_all(path):
            tell(f"{path} is a secret that everybody on this machine can open: chmod o-rwx it.")


def make_monitor(
    served: MonitorSettings,
    limits: Limits,
    *,
    wait: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Monitor:
    """Make the monitor that the settings describe.

    wait        seconds to wait for another process to let go of the ledger
    progress    as `Keeping` has it
    """
    rule = None if served.rule is None else _load_rule(Path(served.rule), served.trust_code)
    if served.source is not None:  # before a ledger is begun, which would keep the rule
        check_source(rule, served.ledger is not None, served.source)
    if served.ledger is None and served.window is not None:
        raise BadRule("a window is about a ledger, and there is none")
    keeping = opening.LedgerOptions(
        served.durability,
        window=served.window,
        witnesses=min(10, limits.witnesses),
        wait=wait,
        progress=progress,
    )
    burst = None if served.burst is None else served.burst.make_burst()
    judging: dict[str, Any] = {"burst": burst, "comparable": served.comparable}
    if served.ledger is None:
        assert rule is not None
        if served.kind != "slopes":
            return Monitor(rule, **judging)
        exponent = served.input_exponent
        return Monitor(rule, slope=True, slope_limit=served.level, input_exponent=exponent)
    if served.cluster is not None:
        from likewise.sharding.open_cluster import open_cluster

        with _cluster_lock:
            return open_cluster(served.ledger, rule, served.cluster, keeping, **judging)
    engine = partial(Engine, **judging)
    asked = read_slope_options(served.kind == "slopes", served.level, served.input_exponent)
    return opening.open_ledger(served.ledger, rule, keeping, slope_options=asked, engine=engine)


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
