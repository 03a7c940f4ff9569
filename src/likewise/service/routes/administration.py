"""What changes a history other than decisions: erasing, overruling, reviewing; and verifying.

Every call is first written into the ledger's chain (auditing.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.intake.verdict_bodies import VerdictBody
from likewise.intake.verdict_json import answer
from likewise.ledger.heads import Head
from likewise.service import wire
from likewise.service.admission import checked, label_of
from likewise.service.auditing import Actor, note
from likewise.service.hosted import Hosted
from likewise.service.operations import Operation
from likewise.service.refusals import Refusal
from likewise.service.slopes import insist_on_contradictions
from likewise.service.strict import decoded
from likewise.service.wire import (
    DoneBody,
    EraseBody,
    ErasedBody,
    ReviewBody,
    SupersedeBody,
    VerifiedBody,
    VerifyBody,
    encode,
)
from likewise.values.errors import BadFile, BadRow, BadRule
from likewise.values.verdicts import Verdict

if TYPE_CHECKING:
    from likewise.service.app import App

_T = TypeVar("_T")
_ONE = "/v1/monitors/{name}"

OPERATIONS = [
    Operation(
        "POST",
        f"{_ONE}/erase",
        "erase",
        "Destroy inputs, outputs and keys of decisions",
        answers=ErasedBody,
        takes={"application/json": (EraseBody,)},
    ),
    Operation(
        "POST",
        f"{_ONE}/supersede",
        "review",
        "Overrule a decision; the verdict on the one that takes its place",
        answers=VerdictBody,
        takes={"application/json": (SupersedeBody,)},
    ),
    Operation(
        "POST",
        f"{_ONE}/reviews",
        "review",
        "Write down what somebody makes of a contradiction",
        answers=DoneBody,
        takes={"application/json": (ReviewBody,)},
    ),
    Operation(
        "POST",
        f"{_ONE}/verify",
        "read",
        "Walk the ledger's chain; one walk at a time",
        answers=VerifiedBody,
        takes={"application/json": (VerifyBody,)},
    ),
]


def routes(app: "App") -> list[BaseRoute]:
    calls = _Calls(app)
    return [
        Route(f"{_ONE}/erase", calls.erase, methods=["POST"]),
        Route(f"{_ONE}/supersede", calls.supersede, methods=["POST"]),
        Route(f"{_ONE}/reviews", calls.review, methods=["POST"]),
        Route(f"{_ONE}/verify", calls.verify, methods=["POST"]),
    ]


class _Calls:
    """Each reads, admits, has it done in the monitor's turn, and answers."""

    def __init__(self, app: "App") -> None:
        self._service, self._door = app.service, app.door

    async def _asked(
        self, request: Request, scope: str, decode: Callable[[bytes], _T]
    ) -> tuple[Hosted, Actor, _T]:
        """The monitor, who asks, and what."""
        name = request.path_params["name"]
        token = self._door.admit(request.scope, scope, name)
        hosted = self._service.named(name)
        body = await self._door.body(request.scope, request.receive)
        return hosted, Actor.of(token), decoded(decode, body)

    async def erase(self, request: Request) -> Response:
        hosted, who, body = await self._asked(request, "erase", wire.decode_erase)
        keys, rows = body.keys, body.rows
        if (keys is None) == (rows is None):
            raise Refusal(422, "expected keys, or rows.")
        count, most = len(keys or rows or ()), hosted.limits.batch_rows
        if not 1 <= count <= most:
            raise Refusal(422, f"there are {count} to erase; expected 1 to {most}.")
        monitor = hosted.monitor

        def erased() -> ErasedBody:
            if rows is not None and max(rows) >= monitor.rows:
                raise BadRow(f"row {max(rows)} is not in this history. Nothing was erased.")
            note(hosted, who, "erase", count=count)
            found = monitor.erase(key=keys) if rows is None else monitor.erase(rows=rows)
            return ErasedBody(list(found.rows), found.complete)

        return _json(await hosted.do(erased))

    async def supersede(self, request: Request) -> Response:
        hosted, who, body = await self._asked(request, "review", wire.decode_supersede)
        insist_on_contradictions(hosted.name, hosted.slopes)
        monitor, limits = hosted.monitor, hosted.limits
        insist_on_ledger(hosted)
        output = label_of(limits, body.output, monitor.rule.output)
        checked(limits, output, body.key, None)
        by = who.sign(body.by, "by")

        def superseded() -> Verdict:
            note(hosted, who, "supersede")
            return monitor.supersede(body.key, output, by=by, why=body.why, verified=who.verified)

        verdict = await hosted.do(superseded)
        return _json(answer(verdict, limits.witnesses, keyed=True))

    async def review(self, request: Request) -> Response:
        hosted, who, body = await self._asked(request, "review", wire.decode_review)
        insist_on_contradictions(hosted.name, hosted.slopes)
        insist_on_ledger(hosted)
        reviewer = who.sign(body.reviewer, "reviewer")

        def reviewed() -> None:
            note(hosted, who, "review", row=body.row)
            hosted.monitor.review(
                body.row,
                body.witness,
                body.disposition,
                reason=body.reason,
                reviewer=reviewer,
                verified=who.verified,
            )

        await hosted.do(reviewed)
        return _json(DoneBody(True))

    async def verify(self, request: Request) -> Response:
        hosted, who, body = await self._asked(request, "read", wire.decode_verify)
        insist_on_ledger(hosted)
        try:
            head = None if body.head is None else Head.of(body.head)
        except BadFile as error:
            raise Refusal(422, str(error)) from None
        if self._service.verifying.locked():
            raise Refusal(503, "a ledger is being verified already; one at a time.", retry=10.0)
        async with self._service.verifying:
            await hosted.do(lambda: note(hosted, who, "verify"))
            found = await hosted.aside(lambda: hosted.monitor.verify(head))
        return _json(VerifiedBody(found.ok, found.rows, found.problem, found.bad_row))


def _json(body: Any) -> Response:
    return Response(encode(body), media_type="application/json")


def insist_on_ledger(hosted: Hosted) -> None:
    if not hosted.monitor.durable:
        raise BadRule(
            f"the monitor {hosted.name!r} is in memory: it has no ledger to write that to."
        )
