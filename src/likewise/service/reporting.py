"""Tells the log what the service does: that it is ready, what it refuses and loses, that it ends.

Refusals, losses and slow commits are read from the counts every few seconds and told as numbers, so
a client that sends nonsense fills no disk with the log of it.
"""

import asyncio
from collections import Counter
from typing import Any

from likewise.runtime.log import logger
from likewise.service.counts import EDGES
from likewise.service.hosted import Hosted
from likewise.service.service import Service

EVERY_SECONDS = 10.0
SLOW_SECONDS = 1.0
_SLOW = EDGES.index(SLOW_SECONDS) + 1  # the first bucket of what took longer


class Reporter:
    """What was told of a service so far."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: dict[str, Counter[tuple[str, str]]] = {}
        service.opened.append(self._opened)
        monitors, tokens = len(service.settings.monitors), len(service.settings.tokens)
        _log("started", f"{monitors} monitors are being opened", monitors=monitors, tokens=tokens)

    def ready(self) -> None:
        """Tell that every monitor that can be opened is open."""
        monitors = len(self._service.monitors)
        _log("ready", f"{monitors} monitors can be asked", monitors=monitors)

    async def run(self) -> None:
        """Tell what is new, every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            self.tell()

    def tell(self) -> None:
        """What was refused, was lost and took long since the last time."""
        denied, self._service.denied = self._service.denied, Counter()
        for (status, peer, route), count in denied.items():
            message = f"{count} requests were answered with {status}: {peer} {route}".rstrip()
            fields: dict[str, Any] = {
                "event": "denied",
                "status": int(status),
                "peer": peer,
                "route": route,
            }
            logger.warning(message, extra={"fields": fields | {"count": count}})
        for name, hosted in self._service.monitors.items():
            before, now = self._told.get(name, Counter()), _notable(hosted)
            self._told[name] = now
            for (event, reason), count in (now - before).items():
                fields = {"event": event, "monitor": name, "count": count}
                if event == "slow commits":
                    message = f"{count} commits took more than {SLOW_SECONDS:g} s"
                    fields["seconds"] = SLOW_SECONDS
                else:
                    message = f"{count} {event}: {reason}"
                    fields["reason"] = reason
                logger.warning("%s: %s", name, message, extra={"fields": fields})

    def ended(self) -> None:
        """Nothing waits any more."""
        self.tell()
        for name, hosted in self._service.monitors.items():
            counts = hosted.counts
            judged, found = counts.decisions.total(), counts.violations.total()
            _log(
                "drained",
                f"{name}: {judged} decisions were judged, with {found} violations",
                monitor=name,
                decisions=judged,
                violations=found,
            )

    def _opened(self, hosted: Hosted) -> None:
        monitor = hosted.monitor
        rows, missing = monitor.rows, monitor.missing
        _log(
            "opened",
            f"{hosted.name}: open, with {rows} rows",
            monitor=hosted.name,
            rows=rows,
            missing=missing,
            durable=monitor.durable,
        )


def _notable(hosted: Hosted) -> Counter[tuple[str, str]]:
    counts = hosted.counts
    notable: Counter[tuple[str, str]] = Counter()
    for event, by_reason in (("refused", counts.refused), ("dropped", counts.dropped)):
        for reason, count in dict(by_reason).items():
            notable[event, reason] = count
    notable["slow commits", ""] = sum(counts.committing.buckets[_SLOW:])
    return notable


def _log(event: str, message: str, **fields: Any) -> None:
    logger.info(message, extra={"fields": {"event": event} | fields})
