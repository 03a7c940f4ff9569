"""Decisions come in: one, a batch, or only to be checked."""

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.routing import BaseRoute

from likewise.intake.verdict_bodies import VerdictBody, verdict_bodies
from likewise.monitors.protocol import Decision
from likewise.reading.protocol import FROM_ROW
from likewise.service import wire
from likewise.service.admission import (
    checked,
    checked_all,
    checked_column,
    checked_row,
    checked_time,
    label_of,
)
from likewise.service.arrow_columns import ARROW, columns_of
from likewise.service.calls import AdmittedCall
from likewise.service.hosted import Hosted
from likewise.service.operations import Operation, Query
from likewise.service.refusals import Refusal
from likewise.service.strict import decoded
from likewise.service.wire import BatchBody, ColumnsBody, DecisionBody, RowsBody
from likewise.values.frames import ColumnTable
from likewise.values.plain import EXACT, numbers_of
from likewise.values.verdicts import Verdicts

if TYPE_CHECKING:
    from likewise.service.app import App

_NUMBERS = {int, float, bool}
_STORAGE = ("float64", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")
_WAIT = Query(
    "wait", "judged, or durable: answered when it is on disk", choices=("judged", "durable")
)
_ALL = Query("verdicts", "told, or all: also those without a witness", choices=("told", "all"))

OPERATIONS = [
    Operation(
        "POST",
        "/v1/monitors/{name}/observe",
        "observe",
        "Judge one decision and remember it",
        answers=VerdictBody,
        takes={"application/json": (DecisionBody,)},
        queries=(_WAIT,),
        hot=True,
    ),
    Operation(
        "POST",
        "/v1/monitors/{name}/batch",
        "observe",
        "Judge many decisions and remember them, all or none",
        answers=BatchBody,
        takes={"application/json": (ColumnsBody, RowsBody), ARROW: ()},
        queries=(_WAIT, _ALL),
        hot=True,
    ),
    Operation(
        "POST",
        "/v1/monitors/{name}/check",
        "observe",
        "Judge one decision as if it came now; nothing is remembered",
        answers=VerdictBody,
        takes={"application/json": (DecisionBody,)},
        hot=True,
    ),
]


def routes(_: "App") -> list[BaseRoute]:
    """The hot ones are called by the application itself (app.py)."""
    return []


async def observe(call: AdmittedCall) -> bytes:
    """One decision: its verdict."""
    hosted = call.hosted
    durable = waits(call.query) == "durable"
    decision = decision_of(hosted, decoded(wire.decode_decision, call.body))
    return await hosted.observe(decision, hosted.told_bytes, durable=durable)


async def check(call: AdmittedCall) -> bytes:
    """The verdict on a decision as if it came now."""
    hosted = call.hosted
    decision = decision_of(hosted, decoded(wire.decode_decision, call.body))
    if decision.key is not None or decision.source is not None:
        raise Refusal(422, "a decision that is only checked has no key and no source.")
    monitor = hosted.monitor
    check = partial(monitor.check, decision.x, decision.z, time=decision.time, model=decision.model)
    return await hosted.do(lambda: hosted.told_bytes(check()))


async def batch(call: AdmittedCall) -> bytes:
    """Many decisions: their verdicts, or all of them refused."""
    hosted = call.hosted
    durable = waits(call.query) == "durable"
    told = one_of(call.query, "verdicts", ("told", "all"))
    columns = _columns_of(hosted, call)
    count = len(columns["x"])
    _check_count(hosted, count)
    monitor = hosted.monitor

    def judged() -> Verdicts:
        verdicts = monitor.observe_many(columns.pop("x"), columns.pop("z"), **columns)
        if durable and monitor.durable:
            monitor.flush()
        return verdicts

    tell = partial(verdicts_body, hosted, all_of_them=told == "all")
    return await hosted.observe_many(count, judged, tell)


def verdicts_body(hosted: Hosted, verdicts: Verdicts, *, all_of_them: bool = False) -> bytes:
    """Only what is not obvious is told one by one: violations and alarms."""
    violations = hosted.violations(verdicts)
    told = np.arange(len(verdicts))
    if not all_of_them:
        told = (violations | verdicts.alarms).nonzero()[0]
    body: dict[str, Any] = {
        "first_row": verdicts.first_row,
        "decisions": len(verdicts),
        "violations": int(np.count_nonzero(violations)),
        "verdicts": verdict_bodies(verdicts, hosted.limits.witnesses, told)
        if hosted.slopes is None
        else [hosted.told(verdicts[i]) for i in told.tolist()],
    }
    if verdicts.comparable is not None:
        alone = (~verdicts.comparable).nonzero()[0]
        body["comparable"] = len(verdicts) - len(alone)
        body["incomparable"] = alone.tolist()
    if verdicts.missing:
        body["missing"] = verdicts.missing
    if verdicts.incomplete is not None:
        body["incomplete"] = np.flatnonzero(verdicts.incomplete).tolist()
    if verdicts.repeats is not None and verdicts.known.any():
        body["rows"] = verdicts.rows.tolist()
        body["known"] = np.flatnonzero(verdicts.known).tolist()
    return wire.encode(body)


def decision_of(hosted: Hosted, body: DecisionBody) -> Decision:
    """What a monitor takes, from what was sent."""
    limits, rule = hosted.limits, hosted.monitor.rule
    x: Any = body.x
    if rule.features is not None:
        if body.values is None or x is not None or body.z is not None:
            raise Refusal(422, "the rule is about a table: expected `values`, without `x` and `z`.")
        x, z = checked_row(limits, rule, body.values), FROM_ROW
        checked(limits, None, body.key, body.model)
    else:
        z = body.z
        if body.values is not None or x is None:
            raise Refusal(422, "the rule is about vectors: expected `x` and `z`, not `values`.")
        if z is None:
            raise Refusal(422, "there is no output: expected `z`.")
        if type(z) is list or type(z) is dict:
            z = label_of(limits, z, rule.output)
        checked(limits, z, body.key, body.model)
    time = None if body.time is None else checked_time(limits, body.time)
    if body.source is not None:
        checked_all(limits, "the source", [body.source], limits.label_bytes)
    return Decision(x, z, body.key, time, body.model, body.source, body.position)


def _columns_of(hosted: Hosted, call: AdmittedCall) -> dict[str, Any]:
    """The arguments of `observe_many`."""
    rule, limits = hosted.monitor.rule, hosted.limits
    if call.content_type.partition(b";")[0].strip().lower() == ARROW.encode():
        columns = columns_of(call.body, rule, limits.batch_rows)
    elif _has_rows(call.body):
        return _of_rows(hosted, decoded(wire.decode_rows, call.body).decisions)
    elif rule.features is None and rule.embed is None:
        body, x = _vectors(call.body)
        _check_exact(x, lambda: decoded(wire.decode_columns, call.body).x)
        columns = {"x": x, "z": body.z, **_beside(body)}
    else:
        sent = decoded(wire.decode_columns, call.body)
        table, z = _table(hosted, sent)
        columns = {"x": table, "z": z, **_beside(sent)}
    x = columns["x"]
    if isinstance(x, ColumnTable):
        columns["x"] = ColumnTable(
            {name: checked_column(limits, rule, name, x.columns[name]) for name in x.columns}
        )
    if columns["z"] is not FROM_ROW:
        columns["z"] = _labels(hosted, columns["z"])
    if columns["keys"] is not None:
        checked_all(limits, "a key", columns["keys"], limits.key_bytes)
    for argument, called in (("models", "a model"), ("sources", "a source")):
        names = columns[argument]
        if names is not None:
            some = [names] if isinstance(names, str) else names
            checked_all(limits, called, some, limits.label_bytes)
    if columns["times"] is not None:
        columns["times"] = [checked_time(limits, time) for time in columns["times"]]
        if any(time is None for time in columns["times"]):
            raise Refusal(422, "some decisions of the batch have a time and some have none.")
    return columns


def _has_rows(body: bytes) -> bool:
    """Whether a body is one of rows; columns have no such name."""
    return b'"decisions"' in body[:64]


def _beside(body: Any) -> dict[str, Any]:
    names = ("keys", "times", "models", "sources", "positions")
    return {name: getattr(body, name) for name in names}


def _labels(hosted: Hosted, z: Any) -> Any:
    """The outputs of a batch as a monitor takes them."""
    limits, kind = hosted.limits, hosted.monitor.rule.output
    kinds = set(map(type, z)) if isinstance(z, list) else set()
    if kinds <= _NUMBERS:
        return z
    if str in kinds:
        checked_all(limits, "an output", z, limits.label_bytes)
    if kind != "label":
        if type(None) in kinds:
            raise Refusal(422, "a decision of the batch has no output.")
        return z
    if kinds <= _NUMBERS | {str, type(None)}:
        return z
    return [label_of(limits, one, kind) for one in z]


def _of_rows(hosted: Hosted, bodies: list[DecisionBody]) -> dict[str, Any]:
    _check_count(hosted, len(bodies))
    each = [decision_of(hosted, one) for one in bodies]
    rule = hosted.monitor.rule
    times = [one.time for one in each]
    if any(time is None for time in times) and any(time is not None for time in times):
        raise Refusal(422, "some decisions of the batch have a time and some have none.")
    x: Any = [one.x for one in each]
    if rule.features is None and rule.embed is None:
        matrix = _matrix(x, None)
        _check_exact(matrix, lambda: [one.x for one in each])
        x = matrix
    return {
        "x": x,
        "z": FROM_ROW if rule.features is not None else [one.z for one in each],
        "keys": _some([one.key for one in each]),
        "times": _some(times),
        "models": _some([one.model for one in each]),
        "sources": _some([one.source for one in each]),
        "positions": _some([one.position for one in each]),
    }


def _vectors(sent: bytes) -> tuple[wire.VectorColumns, Any]:
    """A batch of vectors, and the matrix of them."""
    body = decoded(wire.decode_vectors, sent)
    return body, _of_floats(body.x) if body.type is None else _matrix(body.x, body.type)


def _of_floats(rows: list[list[float]]) -> Any:
    """A matrix of rows of floats, in a quarter of the time that NumPy takes for lists of lists."""
    width = len(rows[0]) if rows else 0
    pack = struct.Struct(f"{width}d").pack
    try:
        numbers = b"".join([pack(*row) for row in rows])
    except struct.error:  # some row is longer or shorter: NumPy says what is wrong
        return _matrix(rows, None)
    return np.frombuffer(numbers).reshape(len(rows), width) if width else _matrix(rows, None)


def _check_exact(x: Any, sent: Callable[[], Any]) -> None:
    """Raise BadDecision if a whole number was rounded when inputs became floats.

    sent: the inputs as they came; asked for only if some number is large enough
    """
    if x.size and max(x.max(), -x.min()) >= EXACT:
        numbers_of(sent(), "x")


def _matrix(rows: list[Any], kind: str | None) -> Any:
    kind = kind or "float64"
    if kind not in _STORAGE:
        raise Refusal(422, f"the type is {kind!r}; expected one of {', '.join(_STORAGE)}.")
    try:
        with np.errstate(over="ignore"):
            matrix = np.array(rows, kind)
    except (ValueError, OverflowError, TypeError) as error:
        raise Refusal(422, f"x is no matrix of {kind}: {error}.") from None
    return matrix


def _table(hosted: Hosted, body: ColumnsBody) -> tuple[Any, Any]:
    if body.values is None:
        if body.x is None or body.z is None or hosted.monitor.rule.features is not None:
            raise Refusal(422, "the rule is about a table: expected `values` by column.")
        if len(body.x) != len(body.z):
            raise Refusal(422, "x and z are not equally long.")
        return body.x, body.z
    if hosted.monitor.rule.features is None or body.x is not None or body.z is not None:
        raise Refusal(422, "expected `x` and `z`, or, for a rule about a table, `values`.")
    sizes = {len(column) for column in body.values.values()}
    if len(sizes) != 1:
        raise Refusal(422, "the columns of `values` are not equally long.")
    return ColumnTable(body.values), FROM_ROW


def _check_count(hosted: Hosted, count: int) -> None:
    most = hosted.limits.batch_rows
    if count > most:
        raise Refusal(413, f"the batch has {count} decisions; at most {most} are taken.")


def _some(values: list[Any]) -> list[Any] | None:
    return None if all(value is None for value in values) else values


def waits(query: Mapping[str, str]) -> str:
    """What an answer waits for."""
    return one_of(query, "wait", ("judged", "durable"))


def one_of(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """A word of a query; the first choice unless given."""
    given = query.get(name, choices[0])
    if given not in choices:
        raise Refusal(400, f"{name} is {given[:100]!r}; expected {' or '.join(choices)}.")
    return given
