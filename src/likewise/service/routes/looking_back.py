"""Routes that read: the monitors, their rules, counts, verdicts and decisions.

A ledger is read in a thread, while others may write it, and shows everything that was answered. A
monitor in memory has only its latest verdicts (`Limits.recent`), and says so.
Cost: a page searches for `PAGE_SECONDS` at most; the next one continues at `PageBody.next`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.ledger.heads import Head
from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.notes import DISPOSITIONS
from likewise.ledger.violation_query import PageCursor, ViolationQuery
from likewise.service import body_types
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations, RequestParameter
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.past_lookups import row_to_json
from likewise.service.routes.query_values import parse_limit, parse_violation_query, parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value
from likewise.tables.positions import Position
from likewise.tables.times import iso_text
from likewise.verdict.verdict_body import write_body
from likewise.verdict.witnesses import Witness

OPERATIONS = Operations()
PAGE, MOST_PAGE = 100, 1000
"""How many verdicts a page has by default, and at most."""
PAGE_SECONDS = 1.0
"""How long a page searches for verdicts that pass the filters."""
_VERDICTS = (
    RequestParameter("after", "of decisions with a higher row than this", int),
    RequestParameter("limit", f"how many at most; {PAGE} unless given, {MOST_PAGE} at most", int),
    RequestParameter("since", "of decisions from that time on; seconds since 1970, or ISO text"),
    RequestParameter("until", "of decisions before that time"),
    RequestParameter("model", "of decisions of that model"),
    RequestParameter("group", "of decisions with that value in a protected column: column:value"),
    RequestParameter("within", "with a witness at most that far away", float),
    RequestParameter("review", "with that last disposition; open for none", choices=DISPOSITIONS),
    RequestParameter("output", "of decisions with that output"),
)


@OPERATIONS.get("/v1/monitors", "read")
async def monitors(request: AdmittedRequest) -> body_types.MonitorsBody:
    """List the names of the monitors."""
    names = (*request.service.monitors, *request.service.pending)
    allowed = None if request.token is None else request.token.monitors
    return body_types.MonitorsBody([name for name in names if allowed is None or name in allowed])


@OPERATIONS.get(MONITOR, "read", also="observe", exact=True)
async def monitor(request: AdmittedRequest) -> body_types.MonitorBody:
    """Describe a monitor: its rule, and how much it has seen."""
    served = request.served
    return await served.run_in_thread(_describe_monitor, served)


@OPERATIONS.get(f"{MONITOR}/verdicts", "read", queries=_VERDICTS)
async def verdicts(request: AdmittedRequest) -> body_types.PageBody:
    """Return verdicts with a witness, in order, page by page."""
    served, query = request.served, parse_violation_query(request.query)
    after = parse_whole("after", request.query["after"]) if "after" in request.query else -1
    limit = parse_limit(request.query, PAGE, MOST_PAGE)
    served.monitor.core.require_contradictions()
    if not served.monitor.durable:
        return _page_from_memory(served, query, after, limit)
    await served.flush()
    witnesses = served.limits.witnesses
    return await served.read_ledger(_page_from_ledger, query, after, limit, witnesses)


@OPERATIONS.get(f"{MONITOR}/decisions/{{row}}", "read")
async def decision(request: AdmittedRequest) -> body_types.DecisionDetailsBody:
    """Return one decision and those that it contradicts, with values and reviews."""
    served, row = request.served, parse_whole("the row", request.path_parameter("row"))
    if not served.monitor.durable:
        return await served.run_in_thread(_decision_from_memory, served, row)
    await served.flush()
    return await served.read_ledger(_decision_from_ledger, row)


@OPERATIONS.get(
    f"{MONITOR}/stats",
    "read",
    queries=(RequestParameter("last", 'only those of the last "1 hour", "7 days"'),),
    exact=True,
)
async def stats(request: AdmittedRequest) -> body_types.StatsBody:
    """Count decisions: how many there were, how many could be compared, how many contradict."""
    served, last = request.served, request.query.get("last")
    if served.monitor.durable and served.monitor.slope is None:
        await served.flush()
        return await served.read_ledger(_stats_from_ledger, last)
    if last is not None:
        raise Refusal(
            400, "last is about times, which only a ledger of contradictions has: leave it out."
        )
    return _stats_since_start(served)


@OPERATIONS.get(f"{MONITOR}/head", "read", exact=True)
async def head(request: AdmittedRequest) -> body_types.HeadBody:
    """Return the end of the ledger's chain, to be stored elsewhere."""
    served = request.served

    def read_end() -> Head:
        return served.monitor.ledger.head()  # looked up in its turn: a refusal is counted there

    end = await served.run_in_turn(read_end)
    return body_types.HeadBody(str(end), end.rows, end.events)


@OPERATIONS.get(f"{MONITOR}/positions", "observe", also="read", exact=True)
async def positions(request: AdmittedRequest) -> body_types.PositionsBody:
    """Return the last position on disk of each source, where a sender continues."""
    served = request.served
    last = await served.run_in_turn(lambda: served.monitor.ledger.positions)
    return body_types.PositionsBody(
        {source: position_to_json(position) for source, position in last.items()}
    )


def position_to_json(position: Position) -> int | list[int]:
    """Convert a position to JSON, which has no pairs."""
    return list(position) if isinstance(position, tuple) else position


def _describe_monitor(served: ServedMonitor) -> body_types.MonitorBody:
    """Describe a monitor; may wait until it is free."""
    monitor, durable = served.monitor, served.monitor.durable
    return body_types.copy_fields(
        body_types.MonitorBody,
        monitor,
        name=served.name,
        rule=monitor.rule.to_toml(),
        fingerprint=monitor.rule.fingerprint,
        remembered=len(monitor),
        durability=monitor.ledger.durability if durable else None,
        window=monitor.window.text if durable else None,
        exact=True,
        waiting=served.waiting_rows,
        kind="contradictions" if monitor.slope is None else "slopes",
        slope_limit=None if monitor.slope is None else monitor.slope.finite_limit,
    )


def _stats_from_ledger(ledger: Ledger, last: str | None) -> body_types.StatsBody:
    stats = ledger.stats(last=last)
    return body_types.copy_fields(
        body_types.StatsBody,
        stats,
        comparable=stats.comparable if stats.comparability_known == stats.judged else None,
        since=None if stats.since is None else iso_text(stats.since),
        until=None if stats.until is None else iso_text(stats.until),
        source="ledger",
        known_comparable=stats.comparable,
    )


def _stats_since_start(served: ServedMonitor) -> body_types.StatsBody:
    counts = served.counts
    decisions, violations = counts.decisions.total(), counts.violations.total()
    comparable = counts.comparable if served.monitor.comparable else None
    return body_types.StatsBody(
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


def _decision_from_ledger(ledger: Ledger, row: int) -> body_types.DecisionDetailsBody:
    entry, reviews = ledger.entry(row), ledger.reviews(row)
    return body_types.copy_fields(
        body_types.DecisionDetailsBody,
        entry,
        decision=_side_from_ledger(ledger, entry),
        omitted_witnesses=max(0, (entry.count or 0) - len(entry.nearest)),
        witnesses=[_witness_side(ledger, witness) for witness in entry.nearest],
        reviews=[body_types.copy_fields(body_types.ReviewNoteBody, one) for one in reviews],
    )


def _witness_side(ledger: Ledger, witness: Witness) -> body_types.SideBody:
    try:
        entry = ledger.entry(witness.row)
    except BadRow:  # it has left the window
        return body_types.SideBody(witness.row, erased=True)
    return _side_from_ledger(ledger, entry, witness)


def _side_from_ledger(
    ledger: Ledger, entry: Entry, witness: Witness | None = None
) -> body_types.SideBody:
    values = None if entry.erased else ledger.values(entry.row)
    vector = None if values is None or ledger.rule.features is not None else values["input"]
    return body_types.SideBody(
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


def _decision_from_memory(served: ServedMonitor, row: int) -> body_types.DecisionDetailsBody:
    """Return a decision, and its verdict as long as the ring has it."""
    monitor = served.monitor
    if row >= monitor.rows:
        raise BadRow(f"row {row} is not in this history, which has {monitor.rows} rows.", row=row)
    verdict = served.recent.find(row)
    decision = _side_from_memory(served, row)
    if verdict is None:
        return body_types.DecisionDetailsBody(
            decision, None, 0, comparable=None, missing_decisions=0, witnesses=[], reviews=[]
        )
    witnesses = [_side_from_memory(served, one.row, one) for one in verdict.witnesses]
    sides = {"decision": decision, "witnesses": witnesses}
    return body_types.copy_fields(body_types.DecisionDetailsBody, verdict, **sides, reviews=[])


def _side_from_memory(
    served: ServedMonitor, row: int, witness: Witness | None = None
) -> body_types.SideBody:
    past = served.monitor.past
    distances = _distances(witness)
    if not past.alive([row])[0]:
        return body_types.SideBody(row, erased=True, **distances)
    is_table = served.monitor.rule.features is not None
    return body_types.SideBody(
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


def _page_from_ledger(
    ledger: Ledger, query: ViolationQuery, after: int, limit: int, witnesses: int
) -> body_types.PageBody:
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
    return body_types.PageBody(page, following, "ledger", ledger.first > after + 1)


def resolve_group(ledger: Ledger, query: ViolationQuery) -> ViolationQuery:
    """Return a query whose group, which was sent as text, is a value of the ledger."""
    if query.group is None:
        return query
    return replace(query, group=ledger.group_of_text(*query.group))


def _page_from_memory(
    served: ServedMonitor, query: ViolationQuery, after: int, limit: int
) -> body_types.PageBody:
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
    return body_types.PageBody(page, following, "memory", recent.last_dropped > after)
