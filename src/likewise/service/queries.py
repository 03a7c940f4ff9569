"""Answers questions about a monitor: its description, counts, decisions, and pages of verdicts.

A ledger is read in a thread, while others may write it, and shows everything that was answered. A
monitor in memory has only its latest verdicts (`Limits.recent`), and says so.
Cost: a page searches for `PAGE_SECONDS` at most; the next one continues at `PageBody.next`.
"""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from likewise.errors import BadRow
from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.violation_query import PageCursor, ViolationQuery
from likewise.service.body_types import (
    DecisionDetailsBody,
    MonitorBody,
    PageBody,
    PositionsBody,
    ReviewNoteBody,
    SideBody,
    StatsBody,
)
from likewise.service.http_errors import Refusal
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value
from likewise.tables.positions import Position
from likewise.tables.times import iso_text
from likewise.verdict.verdict_body import write_body
from likewise.verdict.witnesses import Witness


def row_to_json(values: dict[str, Any]) -> dict[str, Any]:
    """Convert each column of a row to JSON."""
    return {name: json_value(value) for name, value in values.items()}


def position_to_json(position: Position) -> int | list[int]:
    """Convert a position to JSON, which has no pairs."""
    return list(position) if isinstance(position, tuple) else position


async def read_stats(served: ServedMonitor, last: str | None = None) -> StatsBody:
    """Count decisions, from the ledger if there is one.

    last    only those of the last "1 hour", "7 days"
    """
    if served.monitor.durable and served.monitor.slope is None:
        await served.flush()
        return await served.read_ledger(_stats_from_ledger, last)
    if last is not None:
        raise Refusal(
            400, "last is about times, which only a ledger of contradictions has: leave it out."
        )
    return _stats_since_start(served)


async def read_positions(served: ServedMonitor) -> PositionsBody:
    """Return the last position on disk of each source; raise BadRule if there is no ledger."""
    last = await served.run_in_turn(lambda: served.monitor.ledger.positions)
    return PositionsBody({source: position_to_json(position) for source, position in last.items()})


def describe_monitor(served: ServedMonitor) -> MonitorBody:
    """Describe a monitor: its rule, and how much it has seen; may wait until it is free."""
    monitor = served.monitor
    durable = monitor.durable
    return MonitorBody(
        name=served.name,
        rule=monitor.rule.to_toml(),
        fingerprint=monitor.rule.fingerprint,
        rows=monitor.rows,
        remembered=len(monitor),
        missing_decisions=monitor.missing_decisions,
        durable=durable,
        durability=monitor.ledger.durability if durable else None,
        window=monitor.window.text if durable else None,
        comparable=monitor.comparable,
        exact=True,
        waiting=served.waiting_rows,
        kind="contradictions" if monitor.slope is None else "slopes",
        slope_limit=None if monitor.slope is None else monitor.slope.finite_limit,
    )


def _stats_from_ledger(ledger: Ledger, last: str | None) -> StatsBody:
    stats = ledger.stats(last=last)
    return StatsBody(
        decisions=stats.decisions,
        judged=stats.judged,
        comparable=stats.comparable if stats.comparability_known == stats.judged else None,
        violations=stats.violations,
        rate=stats.rate,
        rate_among_comparable=stats.rate_among_comparable,
        missing_decisions=stats.missing_decisions,
        since=None if stats.since is None else iso_text(stats.since),
        until=None if stats.until is None else iso_text(stats.until),
        source="ledger",
        comparability_known=stats.comparability_known,
        known_comparable=stats.comparable,
    )


def _stats_since_start(served: ServedMonitor) -> StatsBody:
    counts = served.counts
    decisions, violations = counts.decisions.total(), counts.violations.total()
    comparable = counts.comparable if served.monitor.comparable else None
    return StatsBody(
        decisions=decisions,
        judged=decisions,
        comparable=comparable,
        violations=violations,
        rate=violations / decisions if decisions else None,
        rate_among_comparable=violations / comparable if comparable else None,
        missing_decisions=served.monitor.missing_decisions,
        since=None,
        until=None,
        source="process",
    )


async def find_decision(served: ServedMonitor, row: int) -> DecisionDetailsBody:
    """Return a decision by its row; raise BadRow if there is none, or if it left the window."""
    if not served.monitor.durable:
        return await served.run_in_thread(_decision_from_memory, served, row)
    await served.flush()
    return await served.read_ledger(_decision_from_ledger, row)


def _decision_from_ledger(ledger: Ledger, row: int) -> DecisionDetailsBody:
    entry, reviews = ledger.entry(row), ledger.reviews(row)
    return DecisionDetailsBody(
        decision=_side_from_ledger(ledger, entry),
        count=entry.count,
        omitted_witnesses=max(0, (entry.count or 0) - len(entry.nearest)),
        comparable=entry.comparable,
        missing_decisions=entry.missing_decisions,
        witnesses=[_witness_side(ledger, witness) for witness in entry.nearest],
        reviews=[msgspec.convert(one, ReviewNoteBody, from_attributes=True) for one in reviews],
    )


def _witness_side(ledger: Ledger, witness: Witness) -> SideBody:
    try:
        entry = ledger.entry(witness.row)
    except BadRow:  # it has left the window
        return SideBody(witness.row, erased=True)
    return _side_from_ledger(ledger, entry, witness)


def _side_from_ledger(ledger: Ledger, entry: Entry, witness: Witness | None = None) -> SideBody:
    values = None if entry.erased else ledger.values(entry.row)
    vector = None if values is None or ledger.rule.features is not None else values["input"]
    return SideBody(
        entry.row,
        entry.erased,
        values=None if values is None or vector is not None else row_to_json(values),
        x=None if vector is None else np.asarray(vector).tolist(),
        output=json_value(entry.output),
        key=json_value(entry.key),
        time=entry.time,
        model=entry.model,
        source=entry.source,
        position=None if entry.position is None else position_to_json(entry.position),
        **_distances(witness),
    )


def _decision_from_memory(served: ServedMonitor, row: int) -> DecisionDetailsBody:
    """Return a decision, and its verdict as long as the ring has it."""
    monitor = served.monitor
    if row >= monitor.rows:
        raise BadRow(f"row {row} is not in this history, which has {monitor.rows} rows.", row=row)
    verdict = served.recent.find(row)
    decision = _side_from_memory(served, row)
    if verdict is None:
        return DecisionDetailsBody(
            decision, None, 0, comparable=None, missing_decisions=0, witnesses=[], reviews=[]
        )
    witnesses = [_side_from_memory(served, one.row, one) for one in verdict.witnesses]
    return DecisionDetailsBody(
        decision,
        verdict.count,
        verdict.omitted_witnesses,
        verdict.comparable,
        verdict.missing_decisions,
        witnesses,
        reviews=[],
    )


def _side_from_memory(served: ServedMonitor, row: int, witness: Witness | None = None) -> SideBody:
    past = served.monitor.past
    distances = _distances(witness)
    if not past.alive([row])[0]:
        return SideBody(row, erased=True, **distances)
    is_table = served.monitor.rule.features is not None
    return SideBody(
        row,
        erased=False,
        values=row_to_json(past.values(row)) if is_table else None,
        x=None if is_table else past.inputs([row])[0].tolist(),
        output=json_value(past.outputs([row])[0]),
        key=json_value(past.keys([row])[0]),
        model=past.models([row])[0],
        **distances,
    )


def _distances(witness: Witness | None) -> dict[str, Any]:
    if witness is None:
        return {}
    return {
        "input_distance": json_value(witness.input_distance),
        "output_distance": json_value(witness.output_distance),
    }


PAGE, MOST_PAGE = 100, 1000
"""How many verdicts a page has by default, and at most."""
PAGE_SECONDS = 1.0
"""How long a page searches for verdicts that pass the filters."""


async def find_verdict_page(
    served: ServedMonitor, query: ViolationQuery, after: int, limit: int
) -> PageBody:
    """Return the next verdicts after a row that match a query, whose group has a value as text."""
    served.monitor.core.require_contradictions()
    if not served.monitor.durable:
        return _page_from_memory(served, query, after, limit)
    await served.flush()
    witnesses = served.limits.witnesses
    return await served.read_ledger(_page_from_ledger, query, after, limit, witnesses)


def _page_from_ledger(
    ledger: Ledger, query: ViolationQuery, after: int, limit: int, witnesses: int
) -> PageBody:
    rows, cursor = ledger.violations_page(
        resolve_group(ledger, query), behind=PageCursor(after), limit=limit, seconds=PAGE_SECONDS
    )
    reviews = ledger.dispositions(rows)
    page = [
        {
            **write_body(ledger.verdict_of(entry), witnesses, compared_with=False),
            "time": entry.time,
            "output": json_value(entry.output),
            "review": reviews.get(entry.row, "open"),
        }
        for entry in map(ledger.entry, rows)
    ]
    following = None if cursor is None else cursor.row
    return PageBody(page, following, "ledger", ledger.first > after + 1)


def resolve_group(ledger: Ledger, query: ViolationQuery) -> ViolationQuery:
    """Return a query whose group, which was sent as text, is a value of the ledger."""
    if query.group is None:
        return query
    return replace(query, group=ledger.group_of_text(*query.group))


def _page_from_memory(
    served: ServedMonitor, query: ViolationQuery, after: int, limit: int
) -> PageBody:
    for name in ("since", "until", "group", "review", "output"):
        if getattr(query, name) is not None:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    recent = served.recent
    page: list[dict[str, Any]] = []
    following = None
    for verdict in recent.after(after):
        distances = verdict.witnesses.input_distances
        if query.model is not None and verdict.model != query.model:
            continue
        if query.within is not None and not (distances <= query.within).any():
            continue
        if len(page) == limit:
            following = page[-1]["row"]
            break
        page.append(served.verdict_body(verdict))
    return PageBody(page, following, "memory", recent.last_dropped > after)
