"""Routes that change a history other than by decisions: erase, overrule, review; and verify.

Invariant: every call is written into the ledger's chain first (service_log.py), and carried out
once however often it is sent (repeated_requests.py).
"""

from typing import Any

from likewise.errors import BadFile, BadRow, BadRule
from likewise.ledger.heads import Head
from likewise.service import body_types
from likewise.service.decision_limits import check_lengths, check_words, normalize_label
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.decisions import WITNESSES, make_verdict_body, parse_witnesses
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service_log import Actor, record_action
from likewise.verdict.verdict_body import VerdictBody
from likewise.verdict.verdicts import Verdict

_ROW_BOUND = 1 << 62  # no history has such a row, and no database such a number
_CHANGES: dict[str, Any] = {"exact": True, "once": True}
OPERATIONS = Operations()


@OPERATIONS.post(f"{MONITOR}/erase", "erase", body_types.EraseBody, **_CHANGES, idempotent=True)
async def erase(request: AdmittedRequest) -> body_types.ErasedBody:
    """Destroy inputs, outputs and keys of decisions."""
    served, actor = request.served, Actor.from_token(request.token)
    body = await request.read_as(body_types.EraseBody)
    keys, rows = body.keys, body.rows
    if (keys is None) == (rows is None):
        raise Refusal(422, "expected keys, or rows.")
    count, most = len(keys or rows or ()), served.limits.batch_rows
    if not 1 <= count <= most:
        raise Refusal(422, f"there are {count} to erase; expected 1 to {most}.")
    check_words("a key", keys, served.limits.key_bytes)
    monitor = served.monitor

    def erase_now() -> body_types.ErasedBody:
        if rows is not None and max(rows) >= monitor.rows:
            raise BadRow(f"row {max(rows)} is not in this history. Nothing was erased.")
        record_action(served, actor, "erase", count=count)
        erasure = monitor.erase(key=keys) if rows is None else monitor.erase(rows=rows)
        return body_types.ErasedBody(list(erasure.rows), erasure.complete)

    return await served.run_in_turn(erase_now)


@OPERATIONS.post(f"{MONITOR}/forget", "erase", body_types.ForgetBody, **_CHANGES, idempotent=True)
async def forget(request: AdmittedRequest) -> body_types.ForgottenBody:
    """Destroy decisions by row, also those that are no longer in the window."""
    served, actor = request.served, Actor.from_token(request.token)
    body = await request.read_as(body_types.ForgetBody)
    rows, most = body.rows, served.limits.batch_rows
    if len(rows) > most:
        raise Refusal(413, f"there are {len(rows)} rows to forget; at most {most} are taken.")

    def forget_now() -> body_types.ForgottenBody:
        record_action(served, actor, "forget", count=len(rows))
        return body_types.ForgottenBody(served.monitor.forget(rows))

    return await served.run_in_turn(forget_now)


@OPERATIONS.post(
    f"{MONITOR}/supersede",
    "review",
    body_types.SupersedeBody,
    answers=VerdictBody,
    queries=(WITNESSES,),
    **_CHANGES,
)
async def supersede(request: AdmittedRequest) -> dict[str, Any]:
    """Overrule a decision; answers the verdict on the one that replaces it."""
    served, actor = request.served, Actor.from_token(request.token)
    body = await request.read_as(body_types.SupersedeBody)
    witnesses = parse_witnesses(request.query)
    monitor, limits = served.monitor, served.limits
    monitor.core.require_contradictions()
    require_ledger(served)
    output = normalize_label(limits, body.output, monitor.rule.output)
    check_words("the output", (output,), limits.label_bytes)
    check_lengths(limits, None, body.key, None)
    by = actor.resolve_name(body.by, "by")

    def supersede_now() -> Verdict:
        record_action(served, actor, "supersede")
        return monitor.ledger.supersede(
            body.key, output, by=by, why=body.why, verified=actor.verified
        )

    verdict = await served.supersede(supersede_now)
    return make_verdict_body(served, witnesses, verdict, exact=request.wants_exact)


@OPERATIONS.post(f"{MONITOR}/reviews", "review", body_types.ReviewBody, **_CHANGES)
async def review(request: AdmittedRequest) -> body_types.DoneBody:
    """Save a review of a contradiction."""
    served, actor = request.served, Actor.from_token(request.token)
    body = await request.read_as(body_types.ReviewBody)
    served.monitor.core.require_contradictions()
    require_ledger(served)
    reviewer = actor.resolve_name(body.reviewer, "reviewer")
    last = max(body.row, body.witness or 0)
    if last >= _ROW_BOUND:
        raise BadRow(f"row {last} is not in this history. Nothing was written.")

    def review_now() -> None:
        record_action(served, actor, "review", row=body.row)
        served.monitor.ledger.review(
            body.row,
            body.witness,
            body.disposition,
            reason=body.reason,
            reviewer=reviewer,
            verified=actor.verified,
        )

    await served.run_in_turn(review_now)
    return body_types.DoneBody(True)


@OPERATIONS.post(f"{MONITOR}/truths", "review", body_types.TruthBody, **_CHANGES)
async def truth(request: AdmittedRequest) -> body_types.DoneBody:
    """Save what turned out to be right for a decision; no verdict changes."""
    served, actor = request.served, Actor.from_token(request.token)
    body = await request.read_as(body_types.TruthBody)
    limits, monitor = served.limits, served.monitor
    require_ledger(served)
    check_lengths(limits, None, body.key, None)
    value = normalize_label(limits, body.value, "label")
    check_words("the value", (value,), limits.label_bytes)

    def store_truth() -> None:
        record_action(served, actor, "truth")
        monitor.ledger.truth(body.key, value)

    await served.run_in_turn(store_truth)
    return body_types.DoneBody(True)


@OPERATIONS.post(f"{MONITOR}/verify", "read", body_types.VerifyBody, **_CHANGES, idempotent=True)
async def verify(request: AdmittedRequest) -> body_types.VerifiedBody:
    """Verify the ledger's chain; one verification at a time."""
    served, actor = request.served, Actor.from_token(request.token)
    body = await request.read_as(body_types.VerifyBody)
    require_ledger(served)
    try:
        head = None if body.head is None else Head.of(body.head)
    except BadFile as error:
        raise Refusal(422, str(error)) from None
    lock = request.service.verify_lock
    if lock.locked():
        raise Refusal(503, "a ledger is being verified already; one at a time.", retry_seconds=10.0)
    async with lock:
        await served.run_in_turn(lambda: record_action(served, actor, "verify"))
        result = await served.run_in_thread(lambda: served.monitor.ledger.verify(head))
    text = None if result.head is None else str(result.head)
    return body_types.copy_fields(body_types.VerifiedBody, result, head=text)


def require_ledger(served: ServedMonitor) -> None:
    """Raise BadRule if a monitor is in memory."""
    if not served.monitor.durable:
        raise BadRule(
            f"the monitor {served.name!r} is in memory: it has no ledger to write that to."
        )
