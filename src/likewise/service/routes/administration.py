"""What changes a history other than decisions: erasing, overruling, reviewing; and verifying.

Every call is first written into the ledger's chain (auditing.py), and done once however often it
is sent (requests.py).
"""

from typing import Any

from likewise.errors import BadFile, BadRow, BadRule
from likewise.ledger.heads import Head
from likewise.service.admin_log import Actor, note
from likewise.service.body_types import (
    DoneBody,
    EraseBody,
    ErasedBody,
    ForgetBody,
    ForgottenBody,
    ReviewBody,
    SupersedeBody,
    TruthBody,
    VerifiedBody,
    VerifyBody,
)
from likewise.service.decision_limits import check_words, checked, label_of
from likewise.service.exact_decisions import exact_fields
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.decisions import WITNESSES, witnesses_of
from likewise.service.served_monitor import Hosted
from likewise.verdict.verdict_body import VerdictBody
from likewise.verdict.verdicts import Verdict

_ENDLESS = 1 << 62  # no history has such a row, and no database such a number
_CHANGES: dict[str, Any] = {"exact": True, "once": True}
OPERATIONS = Operations()


@OPERATIONS.post(f"{MONITOR}/erase", "erase", EraseBody, **_CHANGES, idempotent=True)
async def erase(asked: AdmittedRequest) -> ErasedBody:
    """Destroy inputs, outputs and keys of decisions."""
    hosted, who = asked.hosted, Actor.of(asked.token)
    body = await asked.read(EraseBody)
    keys, rows = body.keys, body.rows
    if (keys is None) == (rows is None):
        raise Refusal(422, "expected keys, or rows.")
    count, most = len(keys or rows or ()), hosted.limits.batch_rows
    if not 1 <= count <= most:
        raise Refusal(422, f"there are {count} to erase; expected 1 to {most}.")
    check_words("a key", keys, hosted.limits.key_bytes)
    monitor = hosted.monitor

    def erased() -> ErasedBody:
        if rows is not None and max(rows) >= monitor.rows:
            raise BadRow(f"row {max(rows)} is not in this history. Nothing was erased.")
        note(hosted, who, "erase", count=count)
        found = monitor.erase(key=keys) if rows is None else monitor.erase(rows=rows)
        return ErasedBody(list(found.rows), found.complete)

    return await hosted.do(erased)


@OPERATIONS.post(f"{MONITOR}/forget", "erase", ForgetBody, **_CHANGES, idempotent=True)
async def forget(asked: AdmittedRequest) -> ForgottenBody:
    """The same by row, also of rows that are no longer remembered."""
    hosted, who = asked.hosted, Actor.of(asked.token)
    body = await asked.read(ForgetBody)
    rows, most = body.rows, hosted.limits.batch_rows
    if len(rows) > most:
        raise Refusal(413, f"there are {len(rows)} rows to forget; at most {most} are taken.")

    def forgotten() -> ForgottenBody:
        note(hosted, who, "forget", count=len(rows))
        return ForgottenBody(hosted.monitor.forget(rows))

    return await hosted.do(forgotten)


@OPERATIONS.post(
    f"{MONITOR}/supersede",
    "review",
    SupersedeBody,
    answers=VerdictBody,
    queries=(WITNESSES,),
    **_CHANGES,
)
async def supersede(asked: AdmittedRequest) -> dict[str, Any]:
    """Overrule a decision; the verdict on the one that takes its place."""
    hosted, who = asked.hosted, Actor.of(asked.token)
    body = await asked.read(SupersedeBody)
    witnesses = witnesses_of(asked.query)
    monitor, limits = hosted.monitor, hosted.limits
    monitor.insist_on_contradictions()
    insist_on_ledger(hosted)
    output = label_of(limits, body.output, monitor.rule.output)
    check_words("the output", (output,), limits.label_bytes)
    checked(limits, None, body.key, None)
    by = who.sign(body.by, "by")

    def superseded() -> Verdict:
        note(hosted, who, "supersede")
        return monitor.supersede(body.key, output, by=by, why=body.why, verified=who.verified)

    verdict = await hosted.supersede(superseded)
    if asked.exact:
        return exact_fields(limits, witnesses, verdict)
    return hosted.body_of(verdict, witnesses)


@OPERATIONS.post(f"{MONITOR}/reviews", "review", ReviewBody, **_CHANGES)
async def review(asked: AdmittedRequest) -> DoneBody:
    """Write down what somebody makes of a contradiction."""
    hosted, who = asked.hosted, Actor.of(asked.token)
    body = await asked.read(ReviewBody)
    hosted.monitor.insist_on_contradictions()
    insist_on_ledger(hosted)
    reviewer = who.sign(body.reviewer, "reviewer")
    last = max(body.row, body.witness or 0)
    if last >= _ENDLESS:
        raise BadRow(f"row {last} is not in this history. Nothing was written.")

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
    return DoneBody(True)


@OPERATIONS.post(f"{MONITOR}/truths", "review", TruthBody, **_CHANGES)
async def truth(asked: AdmittedRequest) -> DoneBody:
    """Write down what turned out to be right for a decision; no verdict changes."""
    hosted, who = asked.hosted, Actor.of(asked.token)
    body = await asked.read(TruthBody)
    limits, monitor = hosted.limits, hosted.monitor
    insist_on_ledger(hosted)
    checked(limits, None, body.key, None)
    value = label_of(limits, body.value, "label")
    check_words("the value", (value,), limits.label_bytes)

    def noted() -> None:
        note(hosted, who, "truth")
        monitor.truth(body.key, value)

    await hosted.do(noted)
    return DoneBody(True)


@OPERATIONS.post(f"{MONITOR}/verify", "read", VerifyBody, **_CHANGES, idempotent=True)
async def verify(asked: AdmittedRequest) -> VerifiedBody:
    """Walk the ledger's chain; one walk at a time."""
    hosted, who = asked.hosted, Actor.of(asked.token)
    body = await asked.read(VerifyBody)
    insist_on_ledger(hosted)
    try:
        head = None if body.head is None else Head.of(body.head)
    except BadFile as error:
        raise Refusal(422, str(error)) from None
    verifying = asked.service.verifying
    if verifying.locked():
        raise Refusal(503, "a ledger is being verified already; one at a time.", retry=10.0)
    async with verifying:
        await hosted.do(lambda: note(hosted, who, "verify"))
        found = await hosted.aside(lambda: hosted.monitor.verify(head))
    return VerifiedBody(
        verified=found.ok,
        rows=found.rows,
        problem=found.problem,
        row=found.bad_row,
        first=found.first,
        erased=found.erased,
        events=found.events,
        pending=found.pending,
        head=None if found.head is None else str(found.head),
    )


def insist_on_ledger(hosted: Hosted) -> None:
    if not hosted.monitor.durable:
        raise BadRule(
            f"the monitor {hosted.name!r} is in memory: it has no ledger to write that to."
        )
