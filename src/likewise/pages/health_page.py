"""The page of the service's health: queue, disk, memory, index, losses, and the ledger's chain.

Cost: verifying walks the whole chain, which takes long for a large ledger. It runs in the
background, one ledger at a time, and the page shows its state.
"""

import asyncio
import math
import time as clock
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from likewise.errors import LikewiseError
from likewise.pages.frame import Download, Fields, Form, PageData, PagePart, Screen, stream_blocks
from likewise.pages.live_parts import VerificationStatus
from likewise.pages.page_state import Visit
from likewise.runtime.log import logger
from likewise.service.http_errors import Refusal
from likewise.service.monitor_counts import BUCKET_SECONDS
from likewise.service.routes.administration import require_ledger
from likewise.service.routes.verdict_events import EventStream
from likewise.tables.printing import format_number
from likewise.tables.times import iso_text_of_seconds

_TEMPLATE = "pages/health.html"
_HEAD_SECONDS = 2.0


async def load(visit: Visit) -> PageData:
    """Collect the data of the page; None where the monitor was too busy to answer."""
    served, service = visit.served, visit.service
    monitor, counts, limits = served.monitor, served.counts, served.limits
    buckets, calls = counts.commit_durations.buckets, sum(counts.commit_durations.buckets)
    data: dict[str, Any] = {
        "monitor": served.name,
        "durable": monitor.durable,
        "waiting": served.waiting_rows,
        "waiting_limit": limits.waiting_rows,
        "oldest_age_seconds": served.oldest_wait_seconds,
        "readers": service.readers,
        "readers_limit": limits.readers,
        "requests": service.active_requests,
        "requests_limit": limits.requests,
        "waiting_events": counts.waiting_events,
        "commits": {  # how long calls of the monitor took, including writing
            "calls": calls,
            "mean_seconds": counts.commit_durations.total / calls if calls else None,
            "median_seconds_at_most": quantile(buckets, BUCKET_SECONDS, 0.5),
            "p99_seconds_at_most": quantile(buckets, BUCKET_SECONDS, 0.99),
        },
        "refused": dict(counts.refused),
        "dropped": dict(counts.dropped),
        "rows": served.next_row,
        "accepted": 0,
    }
    if monitor.durable:
        data["accepted"] = await served.read_ledger(lambda ledger: ledger.pending)
    reading = await visit.live.readings.read(served)
    disk = reading and reading.disk
    data |= {
        "missing_decisions": reading and reading.missing,
        "remembered": reading and reading.rows,
        "memory_bytes": reading and reading.bytes,
        "index": reading and reading.index,
        "share_visited": reading and reading.share_visited,
        "disk_free_bytes": disk and disk.free,
        "disk_size_bytes": disk and disk.size,
        "disk_minimum_bytes": disk and limits.disk_bytes,
        "last_written": reading and _iso(reading.last_written),
        "durability": monitor.ledger.durability if monitor.durable else None,
        "window": monitor.window.text if monitor.durable else None,
        "head": None,
        "verification": None,
    }
    if monitor.durable:
        with suppress(TimeoutError, LikewiseError, Refusal):
            async with asyncio.timeout(_HEAD_SECONDS):
                data["head"] = str(await served.run_in_turn(monitor.ledger.head))
        last = visit.live.verifications.get(served.name)
        data["verification"] = last and {
            "started": _iso(last.started),
            "ended": _iso(last.ended),
            "ok": last.ok,
            "message": last.message,
        }
    formats = {"in_seconds": format_duration, "in_bytes": format_bytes}
    return PageData(data, lambda: {**formats, "longest": BUCKET_SECONDS[-1]})


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else iso_text_of_seconds(seconds, "seconds")


def quantile(buckets: Sequence[int], edges: Sequence[float], share: float) -> float | None:
    """Return the edge below which a share of the counts lies; None beyond the last edge.

    >>> quantile([5, 4, 1], [0.1, 1.0], 0.9)
    1.0
    """
    total, so_far = sum(buckets), 0
    for count, edge in zip(buckets, [*edges, math.inf], strict=True):
        so_far += count
        if total and so_far >= share * total:
            return None if edge == math.inf else edge
    return None


def format_duration(seconds: float) -> str:
    """Write a duration as a person would."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def format_bytes(size: float) -> str:
    """Write a size as a person would."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{format_number(float(f'{size / factor:.3g}'))} {unit}"
    return f"{size:.0f} bytes"


async def stream_parts(visit: Visit) -> EventStream:
    blocks = ("figures", "ledger") if visit.served.monitor.durable else ("figures",)
    return stream_blocks(visit, "health", load, _TEMPLATE, blocks)


# Verifying


async def verify(visit: Visit, _: Fields) -> str:
    """Begin to verify the chain; the page shows the result."""
    served, service = visit.served, visit.service
    require_ledger(served)
    if service.verify_lock.locked():
        raise Refusal(503, "another ledger is being verified; try again later.", retry_seconds=10.0)
    await service.verify_lock.acquire()
    verifying = visit.live.verifications[served.name] = VerificationStatus(clock.time())
    try:
        await visit.record_action("verify")
    except BaseException:
        service.verify_lock.release()
        del visit.live.verifications[served.name]
        raise

    async def walk() -> None:
        try:
            verified = await served.run_in_thread(served.monitor.ledger.verify)
            verifying.ok, verifying.message = verified.ok, str(verified)
        except Exception as error:
            logger.error("verifying %s failed: %s", served.name, type(error).__name__)
            verifying.ok, verifying.message = False, f"It could not be verified: {error}"
        finally:
            verifying.ended = clock.time()
            service.verify_lock.release()

    verifying.task = asyncio.create_task(walk())
    return visit.url("health")


PARTS: tuple[PagePart, ...] = (
    Screen("health", "read", "Health", load, _TEMPLATE),
    Download("health/live", "read", stream_parts),
    Form("health/verify", "read", verify),
)
