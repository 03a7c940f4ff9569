"""Verdicts with a witness, in the order of their rows, page by page.

A ledger is read in a thread, beside whatever is being written, and shows everything that was
answered. A monitor in memory knows its latest verdicts only (`Limits.recent`), and says so.

Cost: a page looks for `SECONDS` at most; what follows is asked for from `PageBody.next` on.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.violation_query import PageCursor, ViolationQuery
from likewise.service.body_types import (
    LookBody,
    MonitorBody,
    PageBody,
    PositionsBody,
    ReviewSaid,
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
    """The same for each column of a row."""
    return {name: json_value(value) for name, value in values.items()}


def position_to_json(position: Position) -> int | list[int]:
    """A position for JSON, which has no pairs."""
    return list(position) if isinstance(position, tuple) else position


async def describe_monitor(hosted: ServedMonitor) -> MonitorBody:
    """A monitor: its rule, and how much it has seen."""
    return await hosted.run_in_thread(lambda: _make_monitor_body(hosted))


async def read_stats(hosted: ServedMonitor, last: str | None = None) -> StatsBody:
    """Counts of decisions.

    last    only those of the last "1 hour", "7 days"
    """
    if hosted.monitor.durable and hosted.monitor.slope is None:
        await hosted.flush()
        return await hosted.read_ledger(lambda ledger: _stats_from_ledger(ledger, last))
    if last is not None:
        raise Refusal(
            400, "last is about times, which only a ledger of contradictions keeps: leave it out."
        )
    return _stats_since_start(hosted)


async def read_positions(hosted: ServedMonitor) -> PositionsBody:
    """By source, the last position that is on disk; BadRule where there is no ledger."""
    last = await hosted.run_in_turn(lambda: hosted.monitor.positions)
    return PositionsBody({source: position_to_json(position) for source, position in last.items()})


def _make_monitor_body(hosted: ServedMonitor) -> MonitorBody:
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


def _stats_from_ledger(ledger: Ledger, last: str | None) -> StatsBody:
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


def _stats_since_start(hosted: ServedMonitor) -> StatsBody:
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


async def find_decision(hosted: ServedMonitor, row: int) -> LookBody:
    """A decision by its row; BadRow if there is none, or if it has left the window."""
    if not hosted.monitor.durable:
        return await hosted.run_in_thread(lambda: _decision_from_memory(hosted, row))
    await hosted.flush()
    return await hosted.read_ledger(lambda ledger: _decision_from_ledger(ledger, row))


def _decision_from_ledger(ledger: Ledger, row: int) -> LookBody:
    entry = ledger.entry(row)
    return LookBody(
        decision=_side_from_ledger(ledger, entry),
        count=entry.count,
        omitted=max(0, (entry.count or 0) - len(entry.nearest)),
        comparable=entry.comparable,
        missing=entry.missing,
        witnesses=[_witness_side(ledger, witness) for witness in entry.nearest],
        reviews=[
            ReviewSaid(
                review.row,
                review.witness,
                review.disposition,
                review.reason,
                review.reviewer,
                review.time,
                review.verified,
            )
            for review in ledger.reviews(row)
        ],
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


def _decision_from_memory(hosted: ServedMonitor, row: int) -> LookBody:
    """The same from memory, for as long as it is there."""
    monitor = hosted.monitor
    if row >= monitor.rows:
        raise BadRow(f"row {row} is not in this history, which has {monitor.rows} rows.", row=row)
    verdict = hosted.recent.find(row)
    witnesses = [] if verdict is None else list(verdict.witnesses)
    return LookBody(
        decision=_side_from_memory(hosted, row),
        count=None if verdict is None else verdict.count,
        omitted=0 if verdict is None else verdict.omitted,
        comparable=None if verdict is None else verdict.comparable,
        missing=0 if verdict is None else verdict.missing,
        witnesses=[_side_from_memory(hosted, witness.row, witness) for witness in witnesses],
        reviews=[],
    )


def _side_from_memory(hosted: ServedMonitor, row: int, witness: Witness | None = None) -> SideBody:
    past = hosted.monitor.past
    distances = _distances(witness)
    if not past.alive([row])[0]:
        return SideBody(row, erased=True, **distances)
    table = hosted.monitor.rule.features is not None
    return SideBody(
        row,
        erased=False,
        values=row_to_json(past.values(row)) if table else None,
        x=None if table else past.inputs([row])[0].tolist(),
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
"""How many verdicts a page has unless told, and at most."""
PAGE_SECONDS = 1.0
"""After which a page looks no further for verdicts that pass the filters."""


async def find_verdict_page(
    hosted: ServedMonitor, query: ViolationQuery, after: int, limit: int
) -> PageBody:
    """The next verdicts behind a row that a query asks for; the value of its group is text."""
    hosted.monitor.insist_on_contradictions()
    if not hosted.monitor.durable:
        return _page_from_memory(hosted, query, after, limit)
    await hosted.flush()
    witnesses = hosted.limits.witnesses
    return await hosted.read_ledger(
        lambda ledger: _page_from_ledger(ledger, query, after, limit, witnesses)
    )


def _page_from_ledger(
    ledger: Ledger, query: ViolationQuery, after: int, limit: int, witnesses: int
) -> PageBody:
    if query.group is not None:
        query = replace(query, group=ledger.group_of_text(*query.group))
    rows, behind = ledger.violations_page(
        query, behind=PageCursor(after), limit=limit, seconds=PAGE_SECONDS
    )
    reviews = ledger.dispositions(rows)
    page = [
        {
            **write_body(ledger.verdict_of(entry), witnesses, over=False),
            "time": entry.time,
            "output": json_value(entry.output),
            "review": reviews.get(entry.row, "open"),
        }
        for entry in map(ledger.entry, rows)
    ]
    following = None if behind is None else behind.row
    return PageBody(page, following, "ledger", ledger.first > after + 1)


def _page_from_memory(
    hosted: ServedMonitor, query: ViolationQuery, after: int, limit: int
) -> PageBody:
    for name in ("since", "until", "group", "review", "output"):
        if getattr(query, name) is not None:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    recent = hosted.recent
    page: list[dict[str, Any]] = []
    following = None
    for verdict in recent.after(after):
        near = verdict.witnesses.input_distances
        if query.model is not None and verdict.model != query.model:
            continue
        if query.within is not None and not (len(near) and near.min() <= query.within):
            continue
        if len(page) == limit:
            following = page[-1]["row"]
            break
        page.append(hosted.verdict_body(verdict))
    return PageBody(page, following, "memory", recent.last_dropped > after)
