"""What all routes share: the monitors that are served, the settings, the tokens.

Invariant: monitors are opened before anything is answered, and closed after everything is.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from likewise.ledger.folder import BeingWritten
from likewise.monitors import opening
from likewise.monitors.hunting import refuse_unhuntable, slope_monitor
from likewise.monitors.monitor import Monitor
from likewise.rules.rule import Rule
from likewise.rules.steepest import Steepest
from likewise.runtime.log import logger
from likewise.runtime.private_files import is_open_to_all
from likewise.service.alerts.alerting import Alerting
from likewise.service.alerts.settings import alert_settings
from likewise.service.arrow_columns import load_library
from likewise.service.following import Following, check_source
from likewise.service.hosted import Hosted
from likewise.service.refusals import Refusal
from likewise.service.settings import Limits, Served, ServiceSettings, secret_files
from likewise.service.slopes import Slopes
from likewise.service.tokens import Tokens
from likewise.values.errors import BadFile, BadRule

WAIT_SECONDS = 30.0
"""Of a rolling restart: the process before may still be writing."""
DENIED = 20
"""Lines of the log at a time about who was refused, so that nobody fills a disk with them."""


class Service:
    """The monitors by name, and whether they can be asked."""

    def __init__(
        self, settings: ServiceSettings, tell: Callable[[str], None] = logger.warning
    ) -> None:
        """tell: told in a line each what a person who waits for it should know"""
        self.settings = settings
        self._tell = tell
        self.tokens = Tokens(settings.tokens)
        self.monitors: Mapping[str, Hosted] = {}
        self.alert_settings = alert_settings(settings)
        self.alerting: Alerting | None = None
        self.ready = False
        self.stopping = False
        """Whether it was told to end: long answers end, and nothing new is taken."""
        self.ended = asyncio.Event()
        """Set when it is time to end, for those who wait for something else."""
        self.verifying = asyncio.Lock()
        """Held while a ledger is verified: one at a time."""
        self.under_way = 0
        """Requests that have begun and not ended."""
        self.readers = 0
        """Connections that listen to events."""
        self.refused: Counter[str] = Counter()
        """Requests that were refused, by status; of decisions, before a monitor was found."""
        self.denied: Counter[tuple[str, str, str]] = Counter()
        """Of those answered with 401 and 403 that the log has not told yet: by status, peer and
        route; beyond `DENIED` kinds, by status alone."""
        self.opened: list[Callable[[Hosted], None]] = []
        """Told of each monitor when it is open."""
        self.beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Run beside everything else, from the start until they are cancelled at the end."""
        self.before_drain: list[Callable[[], Awaitable[None]]] = [self._stop_following]
        """Awaited before the queues are emptied for the last time."""
        self.at_close: list[Callable[[], None]] = []
        """Called before the monitors are closed."""
        self._following: list[Following] = []
        for path in secret_files(settings):
            if is_open_to_all(path):
                tell(f"{path} is a secret that everybody on this machine can open: chmod o-rwx it.")

    def deny(self, status: int, peer: str, route: str) -> None:
        """Have the log told of somebody who may not do what they asked for."""
        kind = str(status), peer, route
        full = len(self.denied) >= DENIED and kind not in self.denied
        self.denied[(str(status), "(others)", "") if full else kind] += 1

    def open(self) -> None:
        """Open every monitor; takes as long as reading the ledgers."""
        load_library()
        opened: dict[str, Hosted] = {}
        try:
            for name, served in self.settings.monitors.items():
                limits = self.settings.limits
                monitor, slopes = self._opened(name, served)
                monitor.limit_words(limits.labels)
                opened[name] = hosted = Hosted(name, monitor, served, limits, slopes)
                if served.source is not None:
                    check_source(name, monitor.rule, monitor.durable, served.source)
                for told in self.opened:
                    told(hosted)
            if self.alert_settings is not None:
                told_of = {name: one for name, one in opened.items() if one.slopes is None}
                self.alerting = Alerting(self.alert_settings, told_of)
        except BaseException:
            for hosted in opened.values():
                hosted.close()
            raise
        self.monitors = opened
        self.ready = not self.stopping

    def _opened(self, name: str, served: Served) -> tuple[Monitor, Slopes | None]:
        """A monitor; if another process has its ledger, that is told, and waited for."""
        limits = self.settings.limits
        try:
            return monitor_of(name, served, limits)
        except BeingWritten as error:
            until = datetime.now().astimezone() + timedelta(seconds=WAIT_SECONDS)
            self._tell(
                f"monitor {name!r}: the ledger {error.path!r} is being written by process"
                f" {error.holder}. Waiting until {until:%H:%M:%S} for it to end; nothing"
                " is answered before."
            )
            return monitor_of(name, served, limits, wait=WAIT_SECONDS)

    def follow(self) -> None:
        """Have monitors follow their streams; on the event loop, once they are open."""
        loop = asyncio.get_running_loop()
        for hosted in self.monitors.values():
            if hosted.settings.source is not None:
                self._following.append(Following(hosted, hosted.settings.source, loop))

    async def _stop_following(self) -> None:
        following, self._following = self._following, []
        await asyncio.gather(*(asyncio.to_thread(one.stop) for one in following))

    def named(self, name: str) -> Hosted:
        """The monitor of that name; Refusal if there is none, or none can be asked now."""
        hosted = self.monitors.get(name)
        if not self.ready:
            why = "the server is ending" if self.stopping else "the ledgers are being opened"
            raise Refusal(503, f"{why}: try again soon.", retry=1.0)
        if hosted is None:
            raise Refusal(404, f"there is no monitor {name!r}; GET /v1/monitors lists them.")
        return hosted

    def stop(self) -> None:
        """Take nothing new, and have long answers end."""
        self.stopping = True
        self.ready = False
        self.ended.set()
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
        for call in self.at_close:
            call()
        for hosted in self.monitors.values():
            hosted.close()


def monitor_of(
    name: str, served: Served, limits: Limits, *, wait: float = 0.0
) -> tuple[Monitor, Slopes | None]:
    """The monitor that the settings describe; if it names slopes, what is asked of it.

    wait: seconds to wait for another process to let go of the ledger
    """
    rule = None if served.rule is None else _rule_of(name, Path(served.rule), served.trust_code)
    if served.source is not None:  # before a ledger is begun, which would keep the rule
        check_source(name, rule, served.ledger is not None, served.source)
    if served.ledger is None and served.window is not None:
        raise BadRule(f"monitor {name!r}: a window is about a ledger, and there is none")
    if served.kind == "slopes":
        return _slope_monitor(name, served, rule, wait)
    if served.ledger is None:
        assert rule is not None
        return Monitor(rule, burst=served.burst, comparable=served.comparable), None
    if served.cluster is not None:
        from likewise.sharding.opening import open_cluster

        cluster = open_cluster(
            served.ledger,
            rule,
            served.cluster,
            opening.Keeping(
                durability=served.durability,  # type: ignore[arg-type]
                window=served.window,
                witnesses=min(10, limits.witnesses),
                wait=wait,
            ),
            burst=served.burst,
            comparable=served.comparable,
        )
        return cluster, None
    monitor = opening.open(
        served.ledger,
        rule,
        durability=served.durability,  # type: ignore[arg-type]
        window=served.window,
        burst=served.burst,
        comparable=served.comparable,
        witnesses=min(10, limits.witnesses),
        wait=wait,
    )
    return monitor, None


def _slope_monitor(
    name: str, served: Served, rule: Rule | None, wait: float
) -> tuple[Monitor, Slopes]:
    given = {"input_exponent": served.input_exponent, "level": served.level}
    asked = {what: value for what, value in given.items() if value is not None}
    try:
        if rule is not None:
            refuse_unhuntable(rule)
        if served.ledger is None:
            assert rule is not None
            question = Steepest(**asked)
            return slope_monitor(rule, question), Slopes(question)
        keeping = opening.Keeping(
            served.durability,  # type: ignore[arg-type]
            window=served.window,
            witnesses=1,
            wait=wait,
        )
        monitor, found = opening.open_ledger(served.ledger, rule, keeping, steepest=asked)
    except BadRule as error:
        raise BadRule(f"monitor {name!r}: {error}") from None
    assert found is not None
    return monitor, Slopes(found)


def _rule_of(name: str, path: Path, trust_code: bool) -> Rule:
    try:
        rule = Rule.load(path)
    except (BadFile, BadRule) as error:
        raise BadRule(f"monitor {name!r}: {error}") from None
    for embedder in rule.embedders().values():
        if embedder.names_code and not trust_code:
            raise BadRule(
                f"monitor {name!r}: the rule {path} names code, {embedder.text!r}, which would be"
                " imported and run. Say `trust_code = true` if you know it and trust it."
            )
    return rule
