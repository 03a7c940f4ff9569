"""Is the service well: queue, disk, memory, index, losses, and whether the ledger is what it was.

Verifying walks the whole chain, which takes long for a large ledger: it goes on beside everything
else, one ledger at a time, and the page says how far that is.
"""

import asyncio
import math
import time as clock
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from likewise.pages.live import Parts, Verifying
from likewise.pages.overview import by_kind
from likewise.pages.screen import Download, Fields, Form, Part, Screen
from likewise.pages.times import iso, moment
from likewise.pages.visit import Visit
from likewise.runtime.log import logger
from likewise.service.counts import EDGES, Durations
from likewise.service.refusals import Refusal
from likewise.service.routes.administration import insist_on_ledger
from likewise.service.routes.events import EventStream
from likewise.values.errors import LikewiseError
from likewise.values.printing import figure, percent
from likewise.values.safe import safe

_PATIENCE_SECONDS = 2.0


class CommitSaid(msgspec.Struct):
    """How long calls of the monitor took, with their writing."""

    calls: int
    mean_seconds: float | None
    half_within_seconds: float | None
    """None beyond the largest that is told apart."""
    most_within_seconds: float | None
    """99 of 100."""


class VerifiedSaid(msgspec.Struct):
    """The last verification that somebody asked for here."""

    begun: str
    ended: str | None
    ok: bool | None
    said: str


class HealthBody(msgspec.Struct):
    """All that the page says; None where the monitor was too busy to answer."""

    monitor: str
    durable: bool
    waiting: int
    waiting_most: int
    oldest_seconds: float
    readers: int
    readers_most: int
    requests: int
    requests_most: int
    waiting_events: int
    commits: CommitSaid
    refused: dict[str, int]
    dropped: dict[str, int]
    rows: int
    missing: int | None = None
    remembered: int | None = None
    memory_bytes: float | None = None
    index: str | None = None
    share_visited: float | None = None
    disk_free: int | None = None
    disk_size: int | None = None
    disk_least: int | None = None
    written: str | None = None
    durability: str | None = None
    window: str | None = None
    head: str | None = None
    verified: VerifiedSaid | None = None


async def known(visit: Visit) -> HealthBody:
    hosted, service = visit.hosted, visit.service
    monitor, counts, limits = hosted.monitor, hosted.counts, hosted.limits
    body = HealthBody(
        monitor=hosted.name,
        durable=monitor.durable,
        waiting=hosted.waiting_rows,
        waiting_most=limits.waiting_rows,
        oldest_seconds=hosted.oldest_age,
        readers=service.readers,
        readers_most=limits.readers,
        requests=service.under_way,
        requests_most=limits.requests,
        waiting_events=counts.waiting_events,
        commits=_commits(counts.committing),
        refused=dict(counts.refused),
        dropped=dict(counts.dropped),
        rows=hosted.next_row,
    )
    reading = await visit.live.readings.of(hosted)
    if reading is not None:
        body.missing, body.remembered = reading.missing, reading.rows
        body.memory_bytes = reading.bytes
        body.index, body.share_visited = reading.index, reading.share_visited
        if reading.disk is not None:
            body.disk_free, body.disk_size = reading.disk.free, reading.disk.size
            body.disk_least = limits.disk_bytes
        body.written = None if reading.written is None else iso(reading.written)
    if monitor.durable:
        body.durability, body.window = monitor.durability, monitor.window.text
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                body.head = str(await hosted.do(monitor.head))
        except (TimeoutError, LikewiseError, Refusal):
            body.head = None
        verified = visit.live.verified.get(hosted.name)
        if verified is not None:
            body.verified = _verified(verified)
    return body


def _commits(durations: Durations) -> CommitSaid:
    calls = sum(durations.buckets)
    return CommitSaid(
        calls,
        durations.total / calls if calls else None,
        quantile(durations.buckets, EDGES, 0.5),
        quantile(durations.buckets, EDGES, 0.99),
    )


def quantile(buckets: Sequence[int], edges: Sequence[float], share: float) -> float | None:
    """The edge within which a share of what was counted lies; None beyond the last, or of nothing.

    >>> quantile([5, 4, 1], [0.1, 1.0], 0.9)
    1.0
    """
    total, so_far = sum(buckets), 0
    for count, edge in zip(buckets, [*edges, math.inf], strict=True):
        so_far += count
        if total and so_far >= share * total:
            return None if edge == math.inf else edge
    return None


def _verified(verified: Verifying) -> VerifiedSaid:
    ended = None if verified.ended is None else iso(verified.ended)
    return VerifiedSaid(iso(verified.begun), ended, verified.ok, verified.said)


# What is shown


def shown(health: HealthBody, visit: Visit) -> str:
    where = safe(visit.url("health/live"))
    button = ""
    if health.durable:
        button = visit.form("health/verify", "<button>Verify the ledger now</button>")
    chain = (
        '<section aria-labelledby="chain"><h2 id="chain">The ledger\'s chain</h2>\n'
        f'<div id="ledger">{_chain(health)}</div>{button}</section>'
        if health.durable
        else '<p class="small">This monitor is in memory: it has no ledger, and forgets with the'
        " process.</p>"
    )
    return (
        f'<div data-live="{where}">\n<p class="live small" role="status" data-live-state hidden>'
        f'</p>\n<div id="figures">{_figures(health)}</div>\n{chain}</div>'
    )


def _figures(health: HealthBody) -> str:
    commits = health.commits
    facts = [
        ("Waiting to be judged", f"{health.waiting:,} of at most {health.waiting_most:,}"),
        ("The first of them waits", f"{health.oldest_seconds:.1f} s"),
        ("Requests under way", f"{health.requests:,} of at most {health.requests_most:,}"),
        ("Listening", f"{health.readers:,} of at most {health.readers_most:,}"),
        ("CloudEvents without their other half", f"{health.waiting_events:,}"),
        ("Calls with their writing", _durations(commits)),
        ("Refused", by_kind(health.refused)),
        ("Decisions known to be missing", _or_busy(health.missing, "{:,}".format)),
        ("Told to be lost, since the start", by_kind(health.dropped)),
        ("Decisions in the history", f"{health.rows:,}"),
        ("Compared with", _or_busy(health.remembered, lambda it: f"the last {it:,}")),
        ("Memory of the history", _or_busy(health.memory_bytes, in_bytes)),
        ("Index", _or_busy(health.index, safe)),
        (
            "Visited by a decision",
            _or_busy(health.share_visited, lambda it: f"{percent(it)} of the history"),
        ),
    ]
    if health.durable:
        facts += [
            ("Disk", _or_busy(health.disk_free, lambda _: _disk(health))),
            ("Written last", moment(health.written)),
            ("Durability", safe(health.durability)),
            ("Window", safe(health.window)),
        ]
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<dl class="facts">{listed}</dl>'


def _chain(health: HealthBody) -> str:
    head = "<p>The monitor is busy and has not told its head in time.</p>"
    if health.head is not None:
        head = (
            "<p>The end of the chain now. Keep a copy where nobody who can write here can change"
            f' it: it proves later what was here today.</p>\n<pre id="head">{safe(health.head)}'
            '</pre>\n<p><button type="button" class="plain" data-copy="head" hidden>Copy</button>'
            "</p>"
        )
    verified, said = health.verified, "<p>Not verified since the server was started.</p>"
    if verified is not None and verified.ended is None:
        said = f"<p>Being verified since {moment(verified.begun)}.</p>"
    elif verified is not None:
        kind = "good" if verified.ok else "refusal"
        said = f'<p class="{kind}">{safe(verified.said, 600)} ({moment(verified.ended)})</p>'
    return f"{head}\n{said}\n"


def _durations(commits: CommitSaid) -> str:
    if commits.mean_seconds is None:
        return "none yet"
    most = commits.most_within_seconds
    beyond = f"more than {EDGES[-1]:g} s" if most is None else f"at most {in_seconds(most)}"
    mean = in_seconds(commits.mean_seconds)
    return f"{mean} on average, 99 of 100 {beyond} ({commits.calls:,} calls)"


def _disk(health: HealthBody) -> str:
    least = "" if health.disk_least is None else f"; ready with {in_bytes(health.disk_least)}"
    return f"{in_bytes(health.disk_free or 0)} free of {in_bytes(health.disk_size or 0)}{least}"


def in_seconds(seconds: float) -> str:
    """A duration as a person would write it."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def in_bytes(size: float) -> str:
    """A size as a person would write it."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{figure(float(f'{size / factor:.3g}'))} {unit}"
    return f"{size:.0f} bytes"


def _or_busy(value: Any, words: Callable[[Any], str]) -> str:
    return "the monitor is busy" if value is None else words(value)


async def live(visit: Visit) -> EventStream:
    async def made() -> Parts:
        health = await known(visit)
        return {"figures": _figures(health), "ledger": _chain(health)}

    return visit.live.stream(f"health {visit.hosted.name}", made)


# Verifying


async def verify(visit: Visit, _: Fields) -> str:
    """Begin to walk the chain; the page says what came of it."""
    hosted, service = visit.hosted, visit.service
    insist_on_ledger(hosted)
    if service.verifying.locked():
        raise Refusal(503, "a ledger is being verified already; one at a time.", retry=10.0)
    await service.verifying.acquire()
    verifying = visit.live.verified[hosted.name] = Verifying(clock.time())
    try:
        await visit.acted("verify")
    except BaseException:
        service.verifying.release()
        del visit.live.verified[hosted.name]
        raise

    async def walk() -> None:
        try:
            verified = await hosted.aside(hosted.monitor.verify)
            verifying.ok, verifying.said = verified.ok, str(verified)
        except Exception as error:
            logger.error("verifying %s failed: %s", hosted.name, type(error).__name__)
            verifying.ok, verifying.said = False, f"It could not be verified: {error}"
        finally:
            verifying.ended = clock.time()
            service.verifying.release()

    verifying.task = asyncio.create_task(walk())
    return visit.url("health")


PARTS: tuple[Part, ...] = (
    Screen("health", "read", "Health", known, shown),
    Download("health/live", "read", live),
    Form("health/verify", "read", verify),
)
