"""Looking into a monitor: its index, and what its past has in some rows (explaining/past.py).

Bound: rows that are looked at together, `Limits.batch_rows`, and `Limits.body_bytes`.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from starlette.responses import Response

from likewise.explaining.past import Past, Points
from likewise.service.body_types import PastBody
from likewise.service.content_types import encode_answer, media_type_of
from likewise.service.decision_limits import check_lengths
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations
from likewise.service.queries import row_to_json
from likewise.service.request_guard import AdmittedRequest
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits
from likewise.tables.codec import json_value
from likewise.verdict.index_report import Explanation
from likewise.verdict.past_rows import CodedColumn, ComparisonSpan, LikeModels

_T = TypeVar("_T")
OPERATIONS = Operations()


@OPERATIONS.get(f"{MONITOR}/explain", "read", answers=Explanation, exact=True)
async def explain(request: AdmittedRequest) -> dict[str, Any]:
    """What index is in use, why, and what it costs."""
    found = asdict(await request.hosted.run_in_thread(request.hosted.monitor.explain))
    return found if request.wants_exact else row_to_json(found)


@OPERATIONS.post(f"{MONITOR}/past/{{look}}", "read", PastBody, answers=dict[str, Any], exact=True)
async def look_up(request: AdmittedRequest) -> Response:
    """What some rows have: their inputs, outputs, keys, …; named as what is looked up."""
    hosted, name = request.hosted, request.path_parameter("look")
    sent = await request.read_as(PastBody)
    if name not in LOOKUPS:
        raise Refusal(404, f"a past has no {name[:100]!r}; expected one of {', '.join(LOOKUPS)}.")

    def make_answer() -> bytes:  # beside the event loop: it may be large
        return encode_answer(
            request.accept, {name: _convert_found(LOOKUPS[name](hosted, sent), request.wants_exact)}
        )

    answer = await hosted.run_in_thread(make_answer)
    return Response(answer, media_type=media_type_of(answer))


def _convert_found(found: Any, exact: bool) -> Any:
    """Return what is found as an answer has it."""
    if isinstance(found, Points):
        found = found._asdict() | {"rule": found.rule.to_toml()}
    elif isinstance(found, CodedColumn | ComparisonSpan | LikeModels):
        found = found._asdict()
    if exact:
        return found
    return row_to_json(found) if isinstance(found, dict) else json_value(found)


def _rows_lookup(
    look: Callable[[Past, list[int]], Any],
) -> Callable[[ServedMonitor, PastBody], Any]:
    """Make a look at rows, if they are not too many."""

    def find(hosted: ServedMonitor, sent: PastBody) -> Any:
        rows, most = _require("rows", sent.rows), hosted.limits.batch_rows
        if len(rows) > most:
            raise Refusal(413, f"at most {most} rows can be looked at together.")
        return look(hosted.monitor.past, rows)

    return find


def _large_rows_lookup(
    look: Callable[[Past, list[int]], Any],
) -> Callable[[ServedMonitor, PastBody], Any]:
    """Make a look at rows whose answer may be large."""

    def find(hosted: ServedMonitor, sent: PastBody) -> Any:
        _check_size(hosted.limits, hosted.monitor.past, _require("rows", sent.rows))
        return _rows_lookup(look)(hosted, sent)

    return find


def _check_size(limits: Limits, past: Past, rows: list[int]) -> None:
    size = len(rows) * (past.inputs(rows[:1]).nbytes if rows else 0)
    if size > limits.body_bytes and len(rows) > 1:
        raise Refusal(413, f"these rows take more than {limits.body_bytes} bytes.")


def _values(hosted: ServedMonitor, sent: PastBody) -> Any:
    return hosted.monitor.past.values(_require("row", sent.row))


def _row_of(hosted: ServedMonitor, sent: PastBody) -> Any:
    key = _require("key", sent.key)
    check_lengths(hosted.limits, None, key, None)
    return hosted.monitor.past.row_of(key)


def _codes(hosted: ServedMonitor, sent: PastBody) -> Any:
    column = _require("column", sent.column)
    return _rows_lookup(lambda past, rows: past.codes(column, rows))(hosted, sent)


def _like_models(hosted: ServedMonitor, sent: PastBody) -> Any:
    rows = hosted.monitor.rows
    if sent.first is None or sent.stop is None or not 0 <= sent.first <= sent.stop <= rows:
        raise Refusal(422, f"expected `first` and `stop`, rows from 0 to {rows} in this order.")
    return hosted.monitor.past.like_models(range(sent.first, sent.stop))


def _require(name: str, value: _T | None) -> _T:
    if value is None:
        raise Refusal(422, f"there is nothing to look up: expected `{name}`.")
    return value


LOOKUPS: dict[str, Callable[[ServedMonitor, PastBody], Any]] = {
    "values": _values,
    "inputs": _large_rows_lookup(lambda past, rows: past.inputs(rows)),
    "points": _large_rows_lookup(lambda past, rows: past.points(rows)),
    "outputs": _rows_lookup(lambda past, rows: past.outputs(rows)),
    "keys": _rows_lookup(lambda past, rows: past.keys(rows)),
    "models": _rows_lookup(lambda past, rows: past.models(rows)),
    "model_codes": _rows_lookup(lambda past, rows: past.model_codes(rows)),
    "row_of": _row_of,
    "alive": _rows_lookup(lambda past, rows: past.alive(rows)),
    "codes": _codes,
    "numbers": _rows_lookup(lambda past, rows: past.numbers(rows)),
    "span": _rows_lookup(lambda past, rows: past.span(rows)),
    "like_models": _like_models,
}
"""What can be looked up, by name."""
