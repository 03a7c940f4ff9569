"""Routes that read: the monitors, their rules, counts, verdicts and decisions.

The answers are made in queries.py; here the parameters are parsed.
"""

from dataclasses import asdict
from typing import Any, TypeVar

from starlette.responses import Response

from likewise.explaining.past import Points
from likewise.ledger.heads import Head
from likewise.ledger.notes import DISPOSITIONS
from likewise.service.body_types import (
    DecisionDetailsBody,
    HeadBody,
    MonitorBody,
    MonitorsBody,
    PageBody,
    PastBody,
    PositionsBody,
    StatsBody,
)
from likewise.service.content_types import encode_answer, media_type_of
from likewise.service.decision_limits import check_lengths
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
    row_to_json,
)
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.query_values import parse_limit, parse_violation_query, parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value
from likewise.verdict.losses import Explanation
from likewise.verdict.model_counts import CodedColumn, ComparisonSpan, LikeModels

_T = TypeVar("_T")
LOOKUPS = (
    *("values", "inputs", "points", "outputs", "keys", "models", "model_codes", "row_of", "alive"),
    *("codes", "numbers", "span", "like_models"),
)
"""What can be looked up: the names of methods of a past."""
_LARGE = ("inputs", "points")  # whose answers may be large
OPERATIONS = Operations()


# Routes that read a monitor's index and rows of its past, for clients (explaining/past.py).
# Bound: one request reads `Limits.batch_rows` rows, and at most `Limits.body_bytes` of inputs.


@OPERATIONS.get(f"{MONITOR}/explain", "read", answers=Explanation, exact=True)
async def explain(request: AdmittedRequest) -> dict[str, Any]:
    """Explain which index is in use, why, and what it costs."""
    report = asdict(await request.served.run_in_thread(request.served.monitor.explain))
    return report if request.wants_exact else row_to_json(report)


@OPERATIONS.post(f"{MONITOR}/past/{{look}}", "read", PastBody, answers=dict[str, Any], exact=True)
async def look_up(request: AdmittedRequest) -> Response:
    """Look up what some rows have: their inputs, outputs, keys, …; the answer has that name."""
    served, name = request.served, request.path_parameter("look")
    sent = await request.read_as(PastBody)
    if name not in LOOKUPS:
        raise Refusal(404, f"a past has no {name[:100]!r}; expected one of {', '.join(LOOKUPS)}.")

    def make_answer() -> bytes:  # in a thread, since it may be large
        value = _convert_value(_look_up(served, name, sent), request.wants_exact)
        return encode_answer(request.accept, {name: value})

    answer = await served.run_in_thread(make_answer)
    return Response(answer, media_type=media_type_of(answer))


def _convert_value(value: Any, exact: bool) -> Any:
    """Convert what was looked up to what an answer has."""
    if isinstance(value, Points):
        value = value._asdict() | {"rule": value.rule.to_toml()}
    elif isinstance(value, CodedColumn | ComparisonSpan | LikeModels):
        value = value._asdict()
    if exact:
        return value
    return row_to_json(value) if isinstance(value, dict) else json_value(value)


def _look_up(served: ServedMonitor, name: str, sent: PastBody) -> Any:
    """Ask the past of a monitor; raise Refusal if something is missing or too much."""
    past, limits = served.monitor.past, served.limits
    if name == "values":
        return past.values(_require("row", sent.row))
    if name == "row_of":
        key = _require("key", sent.key)
        check_lengths(limits, None, key, None)
        return past.row_of(key)
    if name == "like_models":
        end = served.monitor.rows
        if sent.first is None or sent.stop is None or not 0 <= sent.first <= sent.stop <= end:
            raise Refusal(422, f"expected `first` and `stop`, rows from 0 to {end} in this order.")
        return past.like_models(range(sent.first, sent.stop))
    before = (_require("column", sent.column),) if name == "codes" else ()
    rows = _require("rows", sent.rows)
    size = past.inputs(rows[:1]).nbytes if name in _LARGE and len(rows) > 1 else 0
    if len(rows) * size > limits.body_bytes:
        raise Refusal(413, f"these rows take more than {limits.body_bytes} bytes.")
    if len(rows) > limits.batch_rows:
        raise Refusal(413, f"at most {limits.batch_rows} rows can be looked up together.")
    return getattr(past, name)(*before, rows)


def _require(name: str, value: _T | None) -> _T:
    if value is None:
        raise Refusal(422, f"there is nothing to look up: expected `{name}`.")
    return value


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
async def monitors(request: AdmittedRequest) -> MonitorsBody:
    """List the names of the monitors."""
    names = (*request.service.monitors, *request.service.pending)
    allowed = None if request.token is None else request.token.monitors
    return MonitorsBody([name for name in names if allowed is None or name in allowed])


@OPERATIONS.get(MONITOR, "read", also="observe", exact=True)
async def monitor(request: AdmittedRequest) -> MonitorBody:
    """Describe a monitor: its rule, and how much it has seen."""
    served = request.served
    return await served.run_in_thread(describe_monitor, served)


@OPERATIONS.get(f"{MONITOR}/verdicts", "read", queries=_VERDICTS)
async def verdicts(request: AdmittedRequest) -> PageBody:
    """Return verdicts with a witness, in order, page by page."""
    served, query = request.served, request.query
    after = parse_whole("after", query["after"]) if "after" in query else -1
    return await find_verdict_page(
        served, parse_violation_query(query), after, parse_limit(query, PAGE, MOST_PAGE)
    )


@OPERATIONS.get(f"{MONITOR}/decisions/{{row}}", "read")
async def decision(request: AdmittedRequest) -> DecisionDetailsBody:
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

    def read_end() -> Head:
        return served.monitor.ledger.head()  # looked up in its turn: a refusal is counted there

    end = await served.run_in_turn(read_end)
    return HeadBody(str(end), end.rows, end.events)


@OPERATIONS.get(f"{MONITOR}/positions", "observe", also="read", exact=True)
async def positions(request: AdmittedRequest) -> PositionsBody:
    """Return the last position on disk of each source, where a sender continues."""
    return await read_positions(request.served)
