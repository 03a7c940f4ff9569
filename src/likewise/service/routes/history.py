"""Looking back: which monitors there are, their rules, verdicts and decisions.

What is answered is made in looking_back/. Here a query is read, and whoever may not look is
refused.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.ledger.notes import DISPOSITIONS
from likewise.service.hosted import Hosted
from likewise.service.looking_back.figures import described, positions_of, stats_of
from likewise.service.looking_back.one_decision import look_at
from likewise.service.looking_back.verdict_pages import (
    MOST_PAGE,
    PAGE,
    VerdictFilters,
    verdict_page,
)
from likewise.service.operations import Operation, Query
from likewise.service.refusals import Refusal
from likewise.service.routes.query_values import moment, number, whole
from likewise.service.wire import (
    HeadBody,
    LookBody,
    MonitorBody,
    MonitorsBody,
    PageBody,
    PositionsBody,
    StatsBody,
    encode,
)

if TYPE_CHECKING:
    from likewise.service.app import App

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

OPERATIONS = [
    Operation("GET", "/v1/monitors", "read", "The names of the monitors", answers=MonitorsBody),
    Operation(
        "GET",
        "/v1/monitors/{name}",
        "read",
        "A monitor: its rule, and how much it has seen",
        answers=MonitorBody,
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/verdicts",
        "read",
        "Verdicts with a witness, in order, page by page",
        answers=PageBody,
        queries=_VERDICTS,
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/decisions/{row}",
        "read",
        "One decision beside those that it contradicts, with values and reviews",
        answers=LookBody,
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/stats",
        "read",
        "How many decisions there were, how many could be compared, how many contradict",
        answers=StatsBody,
        queries=(Query("last", 'only those of the last "1 hour", "7 days"'),),
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/head",
        "read",
        "The end of the ledger's chain, to be kept elsewhere",
        answers=HeadBody,
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/positions",
        "observe",
        "By source, the last position on disk: where a sender goes on",
        answers=PositionsBody,
    ),
]


def routes(app: "App") -> list[BaseRoute]:
    service, door = app.service, app.door

    def admitted(request: Request, scope: str = "read") -> Hosted:
        name = request.path_params["name"]
        door.admit(request.scope, scope, name)
        return service.named(name)

    async def monitors(request: Request) -> Response:
        token = door.admit(request.scope, "read")
        names = [
            name
            for name in (*service.monitors, *service.pending)
            if token is None or token.monitors is None or name in token.monitors
        ]
        return _json(MonitorsBody(names))

    async def monitor(request: Request) -> Response:
        return _json(await described(admitted(request)))

    async def verdicts(request: Request) -> Response:
        hosted = admitted(request)
        return _json(await verdict_page(hosted, _filters(request.query_params)))

    async def decision(request: Request) -> Response:
        hosted = admitted(request)
        return _json(await look_at(hosted, whole("the row", request.path_params["row"])))

    async def stats(request: Request) -> Response:
        hosted = admitted(request)
        return _json(await stats_of(hosted, request.query_params.get("last")))

    async def head(request: Request) -> Response:
        hosted = admitted(request)
        end = await hosted.do(hosted.monitor.head)
        return _json(HeadBody(str(end), end.rows, end.events))

    async def positions(request: Request) -> Response:
        return _json(await positions_of(admitted(request, "observe")))

    one = "/v1/monitors/{name}"
    return [
        Route("/v1/monitors", monitors, methods=["GET"]),
        Route(one, monitor, methods=["GET"]),
        Route(f"{one}/verdicts", verdicts, methods=["GET"]),
        Route(f"{one}/decisions/{{row}}", decision, methods=["GET"]),
        Route(f"{one}/stats", stats, methods=["GET"]),
        Route(f"{one}/head", head, methods=["GET"]),
        Route(f"{one}/positions", positions, methods=["GET"]),
    ]


def _json(body: Any) -> Response:
    return Response(encode(body), media_type="application/json")


def _filters(query: Mapping[str, str]) -> VerdictFilters:
    """What a query asks for; Refusal where it makes no sense."""
    limit = whole("limit", query["limit"]) if "limit" in query else PAGE
    if not 1 <= limit <= MOST_PAGE:
        raise Refusal(400, f"limit is {limit}; expected 1 to {MOST_PAGE}.")
    review = query.get("review")
    if review is not None and review not in DISPOSITIONS:
        raise Refusal(400, f"review: expected one of {', '.join(DISPOSITIONS)}.")
    column, colon, value = query.get("group", "").partition(":")
    if "group" in query and not colon:
        raise Refusal(400, "group: expected column:value.")
    return VerdictFilters(
        after=whole("after", query["after"]) if "after" in query else -1,
        limit=limit,
        since=moment("since", query["since"]) if "since" in query else None,
        until=moment("until", query["until"]) if "until" in query else None,
        model=query.get("model"),
        group=(column, value) if colon else None,
        within=number("within", query["within"]) if "within" in query else None,
        review=review,
        output=query.get("output"),
    )
