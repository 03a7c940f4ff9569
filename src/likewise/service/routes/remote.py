"""The route of `lw.connect`: the contract of a monitor (monitors/protocol.py), with all types.

One route, POST /v1/monitors/{name}/remote/{verb}; remote/ answers. Bodies and answers are packed
(intake/packed.py): float32 stays float32, and a label that is a date stays one. Other languages use
the routes with JSON (decisions.py and others); verdicts are the same.

Invariant: a request that changes something is done once, however often it is sent
(service/requests.py).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.intake.packed import CONTENT_TYPE, pack, unpack
from likewise.service.auditing import Actor, note
from likewise.service.door import Door, Gone
from likewise.service.hosted import Hosted
from likewise.service.operations import Operation
from likewise.service.refusals import Refusal, told
from likewise.service.remote.verbs import VERBS, Answering, Verb
from likewise.service.requests import INSTANCE, REQUEST, InDoubt, MaybeDone, Repeat, Requests
from likewise.service.settings import Token
from likewise.service.slopes import insist_on_contradictions
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

    def forget_with(hosted: Hosted) -> None:
        hosted.monitor.when_erased.append(lambda _: requests.forget(hosted.name))

    service.opened.append(forget_with)

    async def call(request: Request) -> Response:
        name, asked = request.path_params["name"], request.path_params["verb"]
        try:
            verb = VERBS.get(asked)
            if verb is None:
                raise Refusal(404, f"a client cannot ask for {asked!r}.")
            door.check_room()
            token = _admit(door, request, verb, name)
            hosted = service.named(name)
            insist_on_contradictions(name, hosted.slopes)
            body = await door.body(request.scope, request.receive)
            question = _Question(hosted, asked, verb, Actor.of(token), body)
            answer = await _answer(requests, request.headers.get(REQUEST), question)
        except (Refusal, LikewiseError) as error:
            status, text, retry = told(error)
            waits = {} if retry is None else {"retry-after": str(max(1, round(retry)))}
            return Response(text, status, {**headers, **waits}, "application/json")
        except InDoubt:
            doubt = "it may have been done before, by another process."
            error_body = ErrorBody(code=InDoubt.code, message=doubt)
            return Response(encode(error_body), 409, headers, "application/json")
        except Gone:
            return Response(b"", 400)
        return Response(answer, 200, headers, CONTENT_TYPE)

    return [Route(_PATH, call, methods=["POST"])]


def _admit(door: Door, request: Request, verb: Verb, name: str) -> Token | None:
    """Refuse whoever may not; what several scopes allow is refused if none of them does."""
    for scope in verb.scopes[:-1]:
        try:
            return door.admit(request.scope, scope, name)
        except Refusal as error:
            if error.status != 403:
                raise
    return door.admit(request.scope, verb.scopes[-1], name)


@dataclass(frozen=True)
class _Question:
    """What a client asks of a monitor."""

    hosted: Hosted
    name: str
    verb: Verb
    who: Actor
    body: bytes

    async def answer(self, answering: Answering) -> bytes:
        """What `answering` makes of it, packed."""
        fields = unpack(self.body)
        if not isinstance(fields, dict):
            raise BadDecision("the body is no object.")
        signed = self.verb.signed
        if signed is not None:
            name = self.who.sign(fields.get(signed), signed)
            fields |= {signed: name, "verified": self.who.verified}
        if self.verb.audited:
            await self.hosted.do(partial(note, self.hosted, self.who, self.name))
        try:
            return pack(await answering(self.hosted, fields), "the answer")
        except TypeError as error:  # of names that a method does not have
            raise Refusal(422, f"the body is not what is expected: {error}.") from None


async def _answer(requests: Requests, header: str | None, question: _Question) -> bytes:
    verb = question.verb
    do = partial(question.answer, verb.do)
    if not verb.changes:
        return await do()
    try:
        repeat = Repeat.of(header)
    except ValueError:
        raise Refusal(400, f"the header {REQUEST} cannot be read.") from None
    hosted = question.hosted
    if_unknown: Callable[[], Awaitable[bytes]] | None = do
    if hosted.monitor.durable:
        if_unknown = None if verb.again is None else partial(question.answer, verb.again)
    try:
        return await requests.once(hosted.name, repeat, do, if_unknown=if_unknown)
    except MaybeDone as error:
        assert isinstance(error.cause, BadFile)
        raise error.cause from None
