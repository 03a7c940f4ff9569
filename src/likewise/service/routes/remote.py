"""What `lw.connect` asks: the whole contract of a monitor (monitors/protocol.py), with all types.

One route, POST /v1/monitors/{name}/remote/{verb}. Bodies and answers are packed (intake/packed.py):
float32 stays float32, and a label that is a date stays one. Other languages use the routes with
JSON (decisions.py and others); verdicts are the same.

Invariant: a request that changes something is done once, however often it is sent
(service/requests.py).
Bound: an answer tells all witnesses that were asked for while they fit into `Limits.body_bytes`;
beyond, the nearest `Limits.witnesses` of each, and how many were left out. Rows that are looked at
together: `Limits.batch_rows`, and `Limits.body_bytes`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.intake.packed import CONTENT_TYPE, pack, unpack
from likewise.intake.packed_verdicts import most_witnesses, told_of_verdict, told_of_verdicts
from likewise.ledger.times import all_microseconds
from likewise.monitors.protocol import Decision
from likewise.reading.protocol import FROM_ROW
from likewise.service.admission import checked, checked_time
from likewise.service.door import Gone
from likewise.service.hosted import Hosted
from likewise.service.operations import Operation
from likewise.service.refusals import Refused, told
from likewise.service.requests import INSTANCE, REQUEST, InDoubt, MaybeDone, Repeat, Requests
from likewise.service.settings import Limits
from likewise.service.wire import ErrorBody, encode
from likewise.values.errors import BadDecision, BadFile, LikewiseError
from likewise.values.frames import ColumnTable
from likewise.values.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from likewise.service.app import App

Fields = dict[str, Any]
Verb = Callable[[Hosted, Fields], Awaitable[Any]]

_PATH = "/v1/monitors/{name}/remote/{verb}"
OPERATIONS = [
    Operation(
        "POST",
        _PATH,
        "observe",
        "What `lw.connect` asks, packed; erasing and the like need their own scopes",
        media=CONTENT_TYPE,
        takes={CONTENT_TYPE: ()},
    )
]


def routes(app: "App") -> list[BaseRoute]:
    service, door, requests = app.service, app.door, Requests()
    headers = {INSTANCE: requests.instance}

    async def call(request: Request) -> Response:
        name, verb = request.path_params["name"], request.path_params["verb"]
        try:
            if verb not in _VERBS:
                raise Refused(404, f"a client cannot ask for {verb!r}.")
            door.check_room()
            _admit(door, request, verb, name)
            hosted = service.named(name)
            body = await door.body(request.scope, request.receive)
            answer = await _answer(requests, request, hosted, verb, body)
        except (Refused, LikewiseError) as error:
            status, text, retry = told(error)
            waits = {} if retry is None else {"retry-after": str(max(1, round(retry)))}
            return Response(text, status, {**headers, **waits}, "application/json")
        except InDoubt:
            error_body = ErrorBody("InDoubt", "it may have been done before, by another process.")
            return Response(encode(error_body), 409, headers, "application/json")
        except Gone:
            return Response(b"", 400)
        return Response(answer, 200, headers, CONTENT_TYPE)

    return [Route(_PATH, call, methods=["POST"])]


def _admit(door: Any, request: Request, verb: str, name: str) -> None:
    """Refuse whoever may not; what several scopes allow is refused if none of them does."""
    scopes = _SCOPES.get(verb, ("observe",))
    for scope in scopes[:-1]:
        try:
            door.admit(request.scope, scope, name)
            return
        except Refused as error:
            if error.status != 403:
                raise
    door.admit(request.scope, scopes[-1], name)


async def _answer(
    requests: Requests, request: Request, hosted: Hosted, verb: str, body: bytes
) -> bytes:
    do = partial(_done, _VERBS[verb], hosted, body)
    if verb not in _CHANGING:
        return await do()
    try:
        repeat = Repeat.of(request.headers.get(REQUEST))
    except ValueError:
        raise Refused(400, f"the header {REQUEST} cannot be read.") from None
    if_unknown: Callable[[], Awaitable[bytes]] | None = do
    if hosted.monitor.durable and verb not in _REPEATABLE:
        again = _AGAIN.get(verb)
        if_unknown = None if again is None else partial(_done, again, hosted, body)
    try:
        return await requests.once(hosted.name, repeat, do, if_unknown=if_unknown)
    except MaybeDone as error:
        assert isinstance(error.cause, BadFile)
        raise error.cause from None


async def _done(verb: Verb, hosted: Hosted, body: bytes) -> bytes:
    fields = unpack(body)
    if not isinstance(fields, dict):
        raise BadDecision("the body is no object. Nothing was stored.")
    try:
        return pack(await verb(hosted, fields), "the answer")
    except TypeError as error:  # of names that a method does not have
        raise Refused(422, f"the body is not what is expected: {error}.") from None


# Decisions


async def _observe(hosted: Hosted, fields: Fields) -> Fields:
    decision = _decision(hosted, fields)
    try:
        verdict = await hosted.observe(decision)
    except BadFile as error:  # the failed commit may have succeeded: look at the rows
        raise MaybeDone(error) from None
    return _verdict(hosted, fields, verdict)


async def _observe_again(hosted: Hosted, fields: Fields) -> Fields:
    """After a restart: with a key the ledger knows whether it has it."""
    if fields.get("key") is None and hosted.monitor.rule.key_column is None:
        raise InDoubt
    return await _observe(hosted, fields)


async def _observe_many(hosted: Hosted, fields: Fields) -> Fields:
    given, count = _batch(hosted, fields)
    verdicts = await hosted.observe_many(count, partial(_sure, hosted, given))
    return _verdicts(hosted, fields, verdicts)


def _sure(hosted: Hosted, given: Fields) -> Verdicts:
    """Judge a batch; where the disk fails, find out whether it is stored all the same."""
    monitor, before = hosted.monitor, hosted.monitor.rows
    try:
        return monitor.observe_many(**given)
    except BadFile as error:
        try:
            stored = monitor.rows != before
        except LikewiseError:
            stored = True
        if stored:
            raise MaybeDone(error) from None
        raise


async def _observe_many_again(hosted: Hosted, fields: Fields) -> Fields:
    """After a restart: if every decision has a key, the ledger answers those that it has."""
    given, count = _batch(hosted, fields)
    keys = _keys(hosted, given)
    if keys is None or any(key is None for key in keys):
        raise InDoubt
    verdicts = await hosted.observe_many(count, partial(_sure, hosted, given))
    return _verdicts(hosted, fields, verdicts)


def _keys(hosted: Hosted, given: Fields) -> list[Any] | None:
    """The keys of a batch, which may be one of its columns."""
    column, x = hosted.monitor.rule.key_column, given["x"]
    if column is None:
        keys = given.get("keys")
        return None if keys is None else list(keys)
    if isinstance(x, ColumnTable):
        return list(x.columns.get(column, ()))
    rows = x if isinstance(x, list) else [x]
    return [row.get(column) if isinstance(row, dict) else None for row in rows]


async def _check(hosted: Hosted, fields: Fields) -> Fields:
    decision = _decision(hosted, fields)
    verdict = await hosted.do(
        partial(
            hosted.monitor.check, decision.x, decision.z, time=decision.time, model=decision.model
        )
    )
    return _verdict(hosted, fields, verdict)


async def _check_many(hosted: Hosted, fields: Fields) -> Fields:
    given, count = _batch(hosted, fields)
    given["time"] = checked_time(hosted.limits, fields.get("time"))
    verdicts = await hosted.do(partial(hosted.monitor.check_many, **given), rows=count)
    return _verdicts(hosted, fields, verdicts)


async def _load(hosted: Hosted, fields: Fields) -> Any:
    given, count = _batch(hosted, fields)
    rows = await hosted.do(partial(hosted.monitor.load, **given), rows=count)
    return rows.start, rows.stop


async def _lost(hosted: Hosted, fields: Fields) -> None:
    await hosted.do(partial(hosted.monitor.lost, **fields))


def _decision(hosted: Hosted, fields: Fields) -> Decision:
    z, key, model = fields.get("z", FROM_ROW), fields.get("key"), fields.get("model")
    checked(hosted.limits, z, key, model)
    time = checked_time(hosted.limits, fields.get("time"))
    return Decision(fields.get("x"), z, key, time, model)


def _batch(hosted: Hosted, fields: Fields) -> tuple[Fields, int]:
    """The arguments of `observe_many` and the like, and how many decisions they are about."""
    limits = hosted.limits
    names = ("x", "z", "keys", "times", "models")
    given = {name: fields[name] for name in names if fields.get(name) is not None}
    x = given.setdefault("x", [])
    try:
        count = len(given.get("z", x))
    except TypeError:
        count = 1  # the monitor says what is wrong with it
    if count > limits.batch_rows:
        raise Refused(
            413, f"the batch has {count} decisions; at most {limits.batch_rows} are taken."
        )
    for name, place in (("z", 0), ("keys", 1), ("models", 2)):
        values = given.get(name)
        for value in values if isinstance(values, list | tuple) else [values]:
            one = [None, None, None]
            one[place] = value
            checked(limits, *one)
    if "times" in given:
        _check_times(limits, given["times"], count)
    return given, count


def _check_times(limits: Limits, times: Any, count: int) -> None:
    known = all_microseconds(times, count)
    if len(known):
        checked_time(limits, int(known.min()) / 1e6)
        checked_time(limits, int(known.max()) / 1e6)


def _verdict(hosted: Hosted, fields: Fields, verdict: Verdict) -> Fields:
    limits = hosted.limits
    asked = fields.get("witnesses")
    most = most_witnesses(verdict, asked, limits.body_bytes, limits.witnesses)
    return told_of_verdict(verdict, most)


def _verdicts(hosted: Hosted, fields: Fields, verdicts: Verdicts) -> Fields:
    limits = hosted.limits
    asked = fields.get("witnesses")
    most = most_witnesses(verdicts, asked, limits.body_bytes, limits.witnesses)
    return told_of_verdicts(verdicts, most)


# Looking


async def _state(hosted: Hosted, _: Fields) -> Fields:
    monitor = hosted.monitor

    def state() -> Fields:
        return {
            "rule": monitor.rule.to_toml(),
            "rows": monitor.rows,
            "remembered": len(monitor),
            "missing": monitor.missing,
            "durable": monitor.durable,
            "comparable": monitor.comparable,
        }

    return await hosted.aside(state)


_LOOKS = frozenset(
    {
        "values",
        "inputs",
        "points",
        "outputs",
        "keys",
        "models",
        "model_codes",
        "row_of",
        "alive",
        "codes",
        "numbers",
        "span",
        "like_models",
    }
)


async def _past(hosted: Hosted, fields: Fields) -> Any:
    look, limits = fields.pop("look", None), hosted.limits
    if look not in _LOOKS:
        raise Refused(404, f"a past cannot be asked for {look!r}.")
    if look == "like_models":
        fields["rows"] = range(*fields["rows"])
    elif np.size(fields.get("rows", ())) > limits.batch_rows:
        raise Refused(413, f"at most {limits.batch_rows} rows can be looked at together.")
    past = hosted.monitor.past

    def looked() -> Any:
        if look in ("inputs", "points"):
            rows = np.atleast_1d(fields["rows"])
            size = len(rows) * (past.inputs(rows[:1]).nbytes if len(rows) else 0)
            if size > limits.body_bytes and len(rows) > 1:
                raise Refused(413, f"these rows take more than {limits.body_bytes} bytes.")
        answer = getattr(past, look)(**fields)
        if look == "points":
            return {"vectors": answer.vectors, "left_open": answer.left_open} | {
                "rule": answer.rule.to_toml()
            }
        if hasattr(answer, "_asdict"):
            return dict(answer._asdict())
        return answer

    return await hosted.aside(looked)


async def _explain(hosted: Hosted, _: Fields) -> Fields:
    return await hosted.aside(lambda: asdict(hosted.monitor.explain()))


# What a ledger has


async def _forget(hosted: Hosted, fields: Fields) -> int:
    return await hosted.do(partial(hosted.monitor.forget, **fields))


async def _erase(hosted: Hosted, fields: Fields) -> Any:
    erasure = await hosted.do(partial(hosted.monitor.erase, **fields))
    return erasure.rows, erasure.complete


async def _review(hosted: Hosted, fields: Fields) -> None:
    await hosted.do(partial(hosted.monitor.review, **fields))


async def _truth(hosted: Hosted, fields: Fields) -> None:
    await hosted.do(partial(hosted.monitor.truth, **fields))


async def _supersede(hosted: Hosted, fields: Fields) -> Fields:
    asked = fields.pop("witnesses", None)
    verdict = await hosted.do(partial(hosted.monitor.supersede, **fields))
    return _verdict(hosted, {"witnesses": asked}, verdict)


async def _stats(hosted: Hosted, fields: Fields) -> Fields:
    return await hosted.aside(lambda: asdict(hosted.monitor.stats(**fields)))


async def _head(hosted: Hosted, _: Fields) -> str:
    return await hosted.do(lambda: str(hosted.monitor.head()))


async def _verify(hosted: Hosted, fields: Fields) -> Fields:
    found = await hosted.aside(partial(hosted.monitor.verify, **fields))
    return asdict(found) | {"head": None if found.head is None else str(found.head)}


async def _flush(hosted: Hosted, _: Fields) -> None:
    await hosted.do(hosted.monitor.flush)


_VERBS: dict[str, Verb] = {
    "observe": _observe,
    "observe_many": _observe_many,
    "check": _check,
    "check_many": _check_many,
    "load": _load,
    "lost": _lost,
    "state": _state,
    "past": _past,
    "explain": _explain,
    "forget": _forget,
    "erase": _erase,
    "review": _review,
    "truth": _truth,
    "supersede": _supersede,
    "stats": _stats,
    "head": _head,
    "verify": _verify,
    "flush": _flush,
}
_SCOPES = {
    "state": ("observe", "read"),
    "past": ("read",),
    "explain": ("read",),
    "stats": ("read",),
    "head": ("read",),
    "verify": ("read",),
    "forget": ("erase",),
    "erase": ("erase",),
    "review": ("review",),
    "truth": ("review",),
    "supersede": ("review",),
}
_CHANGING = frozenset(
    {"observe", "observe_many", "load", "lost", "forget", "erase", "review", "truth", "supersede"}
)
_REPEATABLE = frozenset({"forget", "erase"})
"""Done twice, they have done no more than once."""
_AGAIN: dict[str, Verb] = {"observe": _observe_again, "observe_many": _observe_many_again}
"""What is done with a request to a ledger that an earlier process may have done."""
