"""Decisions come in: one, a batch, or only to be checked."""

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from starlette.routing import BaseRoute

from likewise.intake.verdict_json import answer
from likewise.monitors.protocol import Decision
from likewise.reading.protocol import FROM_ROW
from likewise.service import wire
from likewise.service.admission import checked, checked_time
from likewise.service.calls import Call
from likewise.service.hosted import Hosted
from likewise.service.refusals import Refused
from likewise.service.wire import ColumnsBody, DecisionBody, encode
from likewise.values.verdicts import Verdicts

if TYPE_CHECKING:
    from likewise.service.app import App

_STORAGE = {"float64", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32"}


def routes(_: "App") -> list[BaseRoute]:
    """The hot ones are called by the application itself (app.py)."""
    return []


async def observe(call: Call) -> bytes:
    """One decision: its verdict."""
    hosted = call.hosted
    durable = _waits(call) == "durable"
    decision = decision_of(hosted, _decoded(wire.decode_decision, call.body))
    verdict = await hosted.observe(decision, durable=durable)
    return encode(answer(verdict, hosted.limits.witnesses, keyed=True))


async def check(call: Call) -> bytes:
    """The verdict on a decision as if it came now."""
    hosted = call.hosted
    decision = decision_of(hosted, _decoded(wire.decode_decision, call.body))
    if decision.key is not None:
        raise Refused(400, "a decision that is only checked has no key.")
    verdict = await hosted.do(
        partial(
            hosted.monitor.check, decision.x, decision.z, time=decision.time, model=decision.model
        )
    )
    return encode(answer(verdict, hosted.limits.witnesses, keyed=True))


async def batch(call: Call) -> bytes:
    """Many decisions: their verdicts, or all of them refused."""
    hosted, limits = call.hosted, call.hosted.limits
    _waits(call)
    columns = _columns_of(hosted, call)
    count = len(columns["x"])
    if count > limits.batch_rows:
        raise Refused(
            413, f"the batch has {count} decisions; at most {limits.batch_rows} are taken."
        )
    monitor = hosted.monitor

    def judged() -> Verdicts:
        verdicts = monitor.observe_many(columns.pop("x"), columns.pop("z"), **columns)
        if monitor.durable and call.query.get("wait") == "durable":
            monitor.flush()
        return verdicts

    verdicts = await hosted.observe_many(count, judged)
    return verdicts_body(verdicts, limits.witnesses)


def verdicts_body(verdicts: Verdicts, witnesses: int) -> bytes:
    """Only what is not obvious is told one by one: verdicts with witnesses or an alarm."""
    told = np.flatnonzero(verdicts.violations | verdicts.alarms).tolist()
    body: dict[str, Any] = {
        "first_row": verdicts.first_row,
        "decisions": len(verdicts),
        "violations": int(verdicts.violations.sum()),
        "verdicts": [answer(verdicts[i], witnesses, keyed=True) for i in told],
    }
    if verdicts.comparable is not None:
        body["comparable"] = int(verdicts.comparable.sum())
    if verdicts.missing:
        body["missing"] = verdicts.missing
    return encode(body)


def decision_of(hosted: Hosted, body: DecisionBody) -> Decision:
    """What a monitor takes, from what was sent."""
    if hosted.monitor.rule.features is not None:
        if body.values is None or body.x is not None or body.z is not None:
            raise Refused(422, "the rule is about a table: expected `values`, without `x` and `z`.")
        x, z = body.values, FROM_ROW
    else:
        if body.values is not None or body.x is None:
            raise Refused(422, "the rule is about vectors: expected `x` and `z`, not `values`.")
        x, z = body.x, body.z
        if z is None:
            raise Refused(422, "there is no output: expected `z`.")
        z = tuple(z) if isinstance(z, list) and hosted.monitor.rule.output == "label" else z
    checked(hosted.limits, z, body.key, body.model)
    return Decision(x, z, body.key, checked_time(hosted.limits, body.time), body.model)


def _columns_of(hosted: Hosted, call: Call) -> dict[str, Any]:
    """The arguments of `observe_many`."""
    body: Any
    if call.body.startswith(b'{"decisions"'):
        rows = _decoded(wire.decode_rows, call.body).decisions
        each = [decision_of(hosted, one) for one in rows]
        x: Any = [one.x for one in each]
        return {
            "x": x,
            "z": FROM_ROW if hosted.monitor.rule.features is not None else [one.z for one in each],
            "keys": _some([one.key for one in each]),
            "times": _some([one.time for one in each]),
            "models": _some([one.model for one in each]),
        }
    if hosted.monitor.rule.features is None and hosted.monitor.rule.embed is None:
        body = _decoded(wire.decode_vectors, call.body)
        kind = body.type or "float64"
        if kind not in _STORAGE:
            raise Refused(422, f"the type is {kind!r}; expected one of {', '.join(_STORAGE)}")
        try:
            x = np.array(body.x, kind)
        except (ValueError, OverflowError) as error:
            raise Refused(422, f"x is no matrix of {kind}: {error}.") from None
        z = body.z
    else:
        body = _decoded(wire.decode_columns, call.body)
        x, z = _table(body)
    for label, key, model in zip(
        z if z is not FROM_ROW else [],
        body.keys or [None] * len(z if z is not FROM_ROW else []),
        [None] * len(z if z is not FROM_ROW else []),
        strict=False,
    ):
        checked(hosted.limits, label, key, model)
    times = body.times
    if times is not None:
        times = [checked_time(hosted.limits, time) for time in times]
    return {"x": x, "z": z, "keys": body.keys, "times": times, "models": body.models}


def _table(body: ColumnsBody) -> tuple[Any, Any]:
    if body.values is None:
        if body.x is None or body.z is None:
            raise Refused(422, "expected `x` and `z`, or `values`, by column.")
        return body.x, body.z
    sizes = {len(column) for column in body.values.values()}
    if len(sizes) != 1:
        raise Refused(422, "the columns of `values` are not equally long.")
    names = list(body.values)
    rows = zip(*body.values.values(), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows], FROM_ROW


def _some(values: list[Any]) -> list[Any] | None:
    return None if all(value is None for value in values) else values


def _waits(call: Call) -> str:
    wait = call.query.get("wait", "judged")
    if wait not in ("judged", "durable"):
        raise Refused(400, f"wait is {wait!r}; expected judged or durable.")
    return wait


def _decoded(decode: Any, body: bytes) -> Any:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise Refused(422, f"the body is not what is expected: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {error}.") from None
