"""Looking back: which monitors there are, their rules, verdicts and decisions.

What is answered is made in looking_back/. Here a query is read, and whoever may not look is
refused.
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
from likewise.service.operations import MONITOR, Operations, Query
from likewise.service.queries import (
    MOST_PAGE,
    PAGE,
    described,
    look_at,
    positions_of,
    stats_of,
    verdict_page,
)
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.query_values import limit_of, moment, number, whole

_VERDICTS = (
    Query("after", "of decisions with a higher row than this", int),
    Query("limit", f"how many at most; {PAGE} unless given, {MOST_PAGE} at most", int),
    Query("since", "of decisions from that time on; seconds since 1970, or ISO text"),
    Query("until", "of decisions before that time"),
    Query("model", "of decisions of that model"),
    Query("group", "of decisions with that value in a protected column: column:value"),
    Query("within", "with a witness at most that far away", float),
    Query("review", "with that last disposition; open for none", choices=DISPOSITIONS),
    Query("output", "of decisions with that output"),
)

OPERATIONS = Operations()


@OPERATIONS.get("/v1/monitors", "read")
async def monitors(asked: AdmittedRequest) -> MonitorsBody:
    """The names of the monitors."""
    names = (*asked.service.monitors, *asked.service.pending)
    mine = None if asked.token is None else asked.token.monitors
    return MonitorsBody([name for name in names if mine is None or name in mine])


@OPERATIONS.get(MONITOR, "read", also="observe", exact=True)
async def monitor(asked: AdmittedRequest) -> MonitorBody:
    """A monitor: its rule, and how much it has seen."""
    return await described(asked.hosted)


@OPERATIONS.get(f"{MONITOR}/verdicts", "read", queries=_VERDICTS)
async def verdicts(asked: AdmittedRequest) -> PageBody:
    """Verdicts with a witness, in order, page by page."""
    hosted, query = asked.hosted, asked.query
    after = whole("after", query["after"]) if "after" in query else -1
    return await verdict_page(hosted, _wanted(query), after, limit_of(query, PAGE, MOST_PAGE))


@OPERATIONS.get(f"{MONITOR}/decisions/{{row}}", "read")
async def decision(asked: AdmittedRequest) -> LookBody:
    """One decision beside those that it contradicts, with values and reviews."""
    return await look_at(asked.hosted, whole("the row", asked.parameter("row")))


@OPERATIONS.get(
    f"{MONITOR}/stats",
    "read",
    queries=(Query("last", 'only those of the last "1 hour", "7 days"'),),
    exact=True,
)
async def stats(asked: AdmittedRequest) -> StatsBody:
    """How many decisions there were, how many could be compared, how many contradict."""
    return await stats_of(asked.hosted, asked.query.get("last"))


@OPERATIONS.get(f"{MONITOR}/head", "read", exact=True)
async def head(asked: AdmittedRequest) -> HeadBody:
    """The end of the ledger's chain, to be kept elsewhere."""
    hosted = asked.hosted
    end = await hosted.do(hosted.monitor.head)
    return HeadBody(str(end), end.rows, end.events)


@OPERATIONS.get(f"{MONITOR}/positions", "observe", also="read", exact=True)
async def positions(asked: AdmittedRequest) -> PositionsBody:
    """By source, the last position on disk: where a sender goes on."""
    return await positions_of(asked.hosted)


def _wanted(query: Mapping[str, str]) -> ViolationQuery:
    """What a query asks for, the value of a group as text; Refusal where it makes no sense."""
    review = query.get("review")
    if review is not None and review not in DISPOSITIONS:
        raise Refusal(400, f"review: expected one of {', '.join(DISPOSITIONS)}.")
    column, colon, value = query.get("group", "").partition(":")
    if "group" in query and not colon:
        raise Refusal(400, "group: expected column:value.")
    return ViolationQuery(
        since=moment("since", query["since"]) if "since" in query else None,
        until=moment("until", query["until"]) if "until" in query else None,
        model=query.get("model"),
        group=(column, value) if colon else None,
        within=number("within", query["within"]) if "within" in query else None,
        review=review,
        output=query.get("output"),
    )
