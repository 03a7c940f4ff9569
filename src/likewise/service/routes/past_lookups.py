"""Routes that read a monitor's index and rows of its past, for clients (explaining/past.py).

Bound: one request reads `Limits.batch_rows` rows, and at most `Limits.body_bytes` of inputs.
"""

from dataclasses import asdict
from typing import Any, TypeVar

from starlette.responses import Response

from likewise.explaining.past import Points
from likewise.service.body_types import PastBody
from likewise.service.content_types import encode_answer, media_type_of
from likewise.service.decision_limits import check_lengths
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations
from likewise.service.request_guard import AdmittedRequest
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


def row_to_json(values: dict[str, Any]) -> dict[str, Any]:
    """Convert each column of a row to JSON."""
    return {name: json_value(value) for name, value in values.items()}
