"""Routes that read: the monitors, their rules, counts, verdicts and decisions.

The answers are made in queries.py; here the parameters are parsed.
"""

from collections.abc import Mapping

from likewise.ledger.notes import DISPOSITIONS
from likewise.ledger.violation_query import ViolationQuery
from likewise.service.body_types import (
    HeadBody,
    LookBody,
    MonitorBody,
    MonitorsBody,
    PageBody,
    PositionsBody,
    StatsBody,
)
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations, RequestParameter
from likewise.service.queries import (
    MOST_PAGE,
    PAGE,
    describe_monitor,
    find_decision,
    find_verdict_page,
    read_positions,
    read_stats,
)
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.query_values import parse_limit, parse_number, parse_time, parse_whole

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

OPERATIONS = Operations()


@OPERATIONS.get("/v1/monitors", "read")
async def monitors(request: AdmittedRequest) -> MonitorsBody:
    """List the names of the monitors."""
    names = (*request.service.monitors, *request.service.pending)
    allowed = None if request.token is None else request.token.monitors
    return MonitorsBody([name for name in names if allowed is None or name in allowed])


@OPERATIONS.get(MONITOR, "read", also="observe", exact=True)
async def monitor(request: AdmittedRequest) -> MonitorBody:
    """Describe a monitor: its rule, and how much it has seen."""
    return await describe_monitor(request.served)


@OPERATIONS.get(f"{MONITOR}/verdicts", "read", queries=_VERDICTS)
async def verdicts(request: AdmittedRequest) -> PageBody:
    """Return verdicts with a witness, in order, page by page."""
    served, query = request.served, request.query
    after = parse_whole("after", query["after"]) if "after" in query else -1
    return await find_verdict_page(
        served, _parse_violation_query(query), after, parse_limit(query, PAGE, MOST_PAGE)
    )


@OPERATIONS.get(f"{MONITOR}/decisions/{{row}}", "read")
async def decision(request: AdmittedRequest) -> LookBody:
    """Return one decision and those that it contradicts, with values and reviews."""
    return await find_decision(
        request.served, parse_whole("the row", request.path_parameter("row"))
    )


@OPERATIONS.get(
    f"{MONITOR}/stats",
    "read",
    queries=(RequestParameter("last", 'only those of the last "1 hour", "7 days"'),),
    exact=True,
)
async def stats(request: AdmittedRequest) -> StatsBody:
    """Count decisions: how many there were, how many could be compared, how many contradict."""
    return await read_stats(request.served, request.query.get("last"))


@OPERATIONS.get(f"{MONITOR}/head", "read", exact=True)
async def head(request: AdmittedRequest) -> HeadBody:
    """Return the end of the ledger's chain, to be stored elsewhere."""
    served = request.served
    end = await served.run_in_turn(served.monitor.head)
    return HeadBody(str(end), end.rows, end.events)


@OPERATIONS.get(f"{MONITOR}/positions", "observe", also="read", exact=True)
async def positions(request: AdmittedRequest) -> PositionsBody:
    """Return the last position on disk of each source, where a sender continues."""
    return await read_positions(request.served)


def _parse_violation_query(query: Mapping[str, str]) -> ViolationQuery:
    """Parse the filters of a query; the value of a group stays text. Refusal if one is wrong."""
    review = query.get("review")
    if review is not None and review not in DISPOSITIONS:
        raise Refusal(400, f"review: expected one of {', '.join(DISPOSITIONS)}.")
    column, colon, value = query.get("group", "").partition(":")
    if "group" in query and not colon:
        raise Refusal(400, "group: expected column:value.")
    return ViolationQuery(
        since=parse_time("since", query["since"]) if "since" in query else None,
        until=parse_time("until", query["until"]) if "until" in query else None,
        model=query.get("model"),
        group=(column, value) if colon else None,
        within=parse_number("within", query["within"]) if "within" in query else None,
        review=review,
        output=query.get("output"),
    )
