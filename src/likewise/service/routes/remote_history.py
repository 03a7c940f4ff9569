"""Looking into a monitor: its index, and what its past has in some rows (explaining/past.py).

Bound: rows that are looked at together, `Limits.batch_rows`, and `Limits.body_bytes`.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from starlette.responses import Response

from likewise.explaining.past import Past, Points
from likewise.service.body_types import PastBody
from likewise.service.content_types import media_of, write
from likewise.service.decision_limits import checked
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations
from likewise.service.queries import plain_row
from likewise.service.request_guard import AdmittedRequest
from likewise.service.served_monitor import Hosted
from likewise.service.settings import Limits
from likewise.tables.codec import json_value
from likewise.verdict.index_report import Explanation
from likewise.verdict.past_rows import Codes, LikeModels, Span

_T = TypeVar("_T")
OPERATIONS = Operations()


@OPERATIONS.get(f"{MONITOR}/explain", "read", answers=Explanation, exact=True)
async def explain(asked: AdmittedRequest) -> dict[str, Any]:
    """What index is in use, why, and what it costs."""
    found = asdict(await asked.hosted.aside(asked.hosted.monitor.explain))
    return found if asked.exact else plain_row(found)


@OPERATIONS.post(f"{MONITOR}/past/{{look}}", "read", PastBody, answers=dict[str, Any], exact=True)
async def look(asked: AdmittedRequest) -> Response:
    """What some rows have: their inputs, outputs, keys, …; named as what is looked up."""
    hosted, name = asked.hosted, asked.parameter("look")
    sent = await asked.read(PastBody)
    if name not in LOOKS:
        raise Refusal(404, f"a past has no {name[:100]!r}; expected one of {', '.join(LOOKS)}.")

    def looked() -> bytes:  # beside the event loop: it may be large
        return write(asked.accept, {name: _answer(LOOKS[name](hosted, sent), asked.exact)})

    answer = await hosted.aside(looked)
    return Response(answer, media_type=media_of(answer))


def _answer(found: Any, exact: bool) -> Any:
    """Return what is found as an answer has it."""
    if isinstance(found, Points):
        found = found._asdict() | {"rule": found.rule.to_toml()}
    elif isinstance(found, Codes | Span | LikeModels):
        found = found._asdict()
    if exact:
        return found
    return plain_row(found) if isinstance(found, dict) else json_value(found)


def _of_rows(look: Callable[[Past, list[int]], Any]) -> Callable[[Hosted, PastBody], Any]:
    """Make a look at rows, if they are not too many."""

    def looked(hosted: Hosted, sent: PastBody) -> Any:
        rows, most = _given("rows", sent.rows), hosted.limits.batch_rows
        if len(rows) > most:
            raise Refusal(413, f"at most {most} rows can be looked at together.")
        return look(hosted.monitor.past, rows)

    return looked


def _of_vectors(look: Callable[[Past, list[int]], Any]) -> Callable[[Hosted, PastBody], Any]:
    """Make a look at rows whose answer may be large."""

    def looked(hosted: Hosted, sent: PastBody) -> Any:
        _check_size(hosted.limits, hosted.monitor.past, _given("rows", sent.rows))
        return _of_rows(look)(hosted, sent)

    return looked


def _check_size(limits: Limits, past: Past, rows: list[int]) -> None:
    size = len(rows) * (past.inputs(rows[:1]).nbytes if rows else 0)
    if size > limits.body_bytes and len(rows) > 1:
        raise Refusal(413, f"these rows take more than {limits.body_bytes} bytes.")


def _values(hosted: Hosted, sent: PastBody) -> Any:
    return hosted.monitor.past.values(_given("row", sent.row))


def _row_of(hosted: Hosted, sent: PastBody) -> Any:
    key = _given("key", sent.key)
    checked(hosted.limits, None, key, None)
    return hosted.monitor.past.row_of(key)


def _codes(hosted: Hosted, sent: PastBody) -> Any:
    column = _given("column", sent.column)
    return _of_rows(lambda past, rows: past.codes(column, rows))(hosted, sent)


def _like_models(hosted: Hosted, sent: PastBody) -> Any:
    rows = hosted.monitor.rows
    if sent.first is None or sent.stop is None or not 0 <= sent.first <= sent.stop <= rows:
        raise Refusal(422, f"expected `first` and `stop`, rows from 0 to {rows} in this order.")
    return hosted.monitor.past.like_models(range(sent.first, sent.stop))


def _given(name: str, value: _T | None) -> _T:
    if value is None:
        raise Refusal(422, f"there is nothing to look up: expected `{name}`.")
    return value


LOOKS: dict[str, Callable[[Hosted, PastBody], Any]] = {
    "values": _values,
    "inputs": _of_vectors(lambda past, rows: past.inputs(rows)),
    "points": _of_vectors(lambda past, rows: past.points(rows)),
    "outputs": _of_rows(lambda past, rows: past.outputs(rows)),
    "keys": _of_rows(lambda past, rows: past.keys(rows)),
    "models": _of_rows(lambda past, rows: past.models(rows)),
    "model_codes": _of_rows(lambda past, rows: past.model_codes(rows)),
    "row_of": _row_of,
    "alive": _of_rows(lambda past, rows: past.alive(rows)),
    "codes": _codes,
    "numbers": _of_rows(lambda past, rows: past.numbers(rows)),
    "span": _of_rows(lambda past, rows: past.span(rows)),
    "like_models": _like_models,
}
"""What can be looked up, by name."""
