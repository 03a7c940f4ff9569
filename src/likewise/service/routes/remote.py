"""The route of `lw.connect`: the contract of a monitor (monitors/protocol.py), with all types.

One route, POST /v1/monitors/{name}/remote/{verb}; remote/ answers. Bodies and answers are packed
(intake/packed.py): float32 stays float32, and a label that is a date stays one. Other languages use
the routes with JSON (decisions.py and others); verdicts are the same.

Invariant: a request that changes something is done once, however often it is sent
(service/requests.py).
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.intake.packed import CONTENT_TYPE, pack, unpack
from likewise.service.door import Door, Gone
from likewise.service.hosted import Hosted
from likewise.service.operations import Operation
from likewise.service.refusals import Refused, told
from likewise.service.remote.verbs import VERBS, Answering, Verb
from likewise.service.requests import INSTANCE, REQUEST, InDoubt, MaybeDone, Repeat, Requests
from likewise.service.wire import ErrorBody, encode
from likewise.values.errors import BadDecision, BadFile, LikewiseError

if TYPE_CHECKING:
    from likewise.service.app import App

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
        name, asked = request.path_params["name"], request.path_params["verb"]
        try:
            verb = VERBS.get(asked)
            if verb is None:
                raise Refused(404, f"a client cannot ask for {asked!r}.")
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


def _admit(door: Door, request: Request, verb: Verb, name: str) -> None:
    """Refuse whoever may not; what several scopes allow is refused if none of them does."""
    for scope in verb.scopes[:-1]:
        try:
            door.admit(request.scope, scope, name)
            return
        except Refused as error:
            if error.status != 403:
                raise
    door.admit(request.scope, verb.scopes[-1], name)


async def _answer(
    requests: Requests, request: Request, hosted: Hosted, verb: Verb, body: bytes
) -> bytes:
    do = partial(_done, verb.do, hosted, body)
    if not verb.changes:
        return await do()
    try:
        repeat = Repeat.of(request.headers.get(REQUEST))
    except ValueError:
        raise Refused(400, f"the header {REQUEST} cannot be read.") from None
    if_unknown: Callable[[], Awaitable[bytes]] | None = do
    if hosted.monitor.durable:
        again = verb.again
        if_unknown = None if again is None else partial(_done, again, hosted, body)
    try:
        return await requests.once(hosted.name, repeat, do, if_unknown=if_unknown)
    except MaybeDone as error:
        assert isinstance(error.cause, BadFile)
        raise error.cause from None


async def _done(answering: Answering, hosted: Hosted, body: bytes) -> bytes:
    fields = unpack(body)
    if not isinstance(fields, dict):
        raise BadDecision("the body is no object. Nothing was stored.")
    try:
        return pack(await answering(hosted, fields), "the answer")
    except TypeError as error:  # of names that a method does not have
        raise Refused(422, f"the body is not what is expected: {error}.") from None
