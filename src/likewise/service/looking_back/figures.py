"""How much a monitor has seen: what it is, and how many of its decisions contradict another.

With a ledger, of all its decisions or of those of a span of time; in memory, since the start of
this process.
"""

from likewise.ledger.ledger import Ledger
from likewise.service.hosted import Hosted
from likewise.service.looking_back.plain_values import plain_position
from likewise.service.refusals import Refusal
from likewise.service.wire import MonitorBody, PositionsBody, StatsBody
from likewise.values.times import iso_text


async def described(hosted: Hosted) -> MonitorBody:
    """A monitor: its rule, and how much it has seen."""
    return await hosted.aside(lambda: _described(hosted))


async def stats_of(hosted: Hosted, last: str | None = None) -> StatsBody:
    """Counts of decisions.

    last    only those of the last "1 hour", "7 days"
    """
    if hosted.monitor.durable and hosted.monitor.slope is None:
        await hosted.flush()
        return await hosted.look(lambda ledger: _from_ledger(ledger, last))
    if last is not None:
        raise Refusal(
            400, "last is about times, which only a ledger of contradictions keeps: leave it out."
        )
    return _since_start(hosted)


async def positions_of(hosted: Hosted) -> PositionsBody:
    """By source, the last position that is on disk; BadRule where there is no ledger."""
    last = await hosted.do(lambda: hosted.monitor.positions)
    return PositionsBody({source: plain_position(position) for source, position in last.items()})


def _described(hosted: Hosted) -> MonitorBody:
    monitor = hosted.monitor
    durable = monitor.durable
    return MonitorBody(
        name=hosted.name,
        rule=monitor.rule.to_toml(),
        fingerprint=monitor.rule.fingerprint,
        rows=monitor.rows,
        remembered=len(monitor),
        missing=monitor.missing,
        durable=durable,
        durability=monitor.durability if durable else None,
        window=monitor.window.text if durable else None,
        comparable=monitor.comparable,
        exact=True,
        waiting=hosted.waiting_rows,
        kind="contradictions" if monitor.slope is None else "slopes",
        level=None if monitor.slope is None else monitor.slope.finite_limit,
    )


def _from_ledger(ledger: Ledger, last: str | None) -> StatsBody:
    stats = ledger.stats(last=last)
    asked = stats.asked == stats.judged
    return StatsBody(
        stats.decisions,
        stats.judged,
        stats.comparable if asked else None,
        stats.violations,
        stats.rate,
        stats.comparable_rate,
        stats.missing,
        None if stats.since is None else iso_text(stats.since),
        None if stats.until is None else iso_text(stats.until),
        "ledger",
        stats.asked,
        stats.comparable,
    )


def _since_start(hosted: Hosted) -> StatsBody:
    counts = hosted.counts
    decisions, violations = counts.decisions.total(), counts.violations.total()
    comparable = counts.comparable if hosted.monitor.comparable else None
    return StatsBody(
        decisions,
        decisions,
        comparable,
        violations,
        violations / decisions if decisions else None,
        violations / comparable if comparable else None,
        hosted.monitor.missing,
        None,
        None,
        "process",
    )
