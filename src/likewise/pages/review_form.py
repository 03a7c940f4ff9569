"""This handles the review form under a pair (review.html).

Every review goes through `Monitor.review` and is an event of the ledger's chain, with the name of
the viewer, marked as unverified where nobody has to sign in. Undoing adds an "open" entry.
Invariant: no review is overwritten unseen. A form says which review was the last when the page was
made; if another was saved since, or somebody else works on the pair, nothing is written.
"""

from collections.abc import Mapping

from likewise.ledger.ledger import Ledger
from likewise.ledger.notes import DISPOSITIONS
from likewise.pages.frame import Form, PagePart
from likewise.pages.page_state import Visit
from likewise.service.http_errors import Refusal
from likewise.service.routes.administration import require_ledger
from likewise.service.routes.query_values import parse_whole
from likewise.service.service_log import record_action

FINAL = tuple(one for one in DISPOSITIONS if one != "open")
CHOICES = (
    ("justified", "j", "there is a good reason for the difference"),
    ("error", "e", "one of the two is a mistake"),
    ("unfair", "f", "similar cases were treated differently, and should not have been"),
    ("duplicate", "d", "the same as a pair that was already reviewed"),
    ("unclear", "u", "cannot be decided from the information here"),
)
"""Dispositions, each with its key on the keyboard and its meaning."""
STATES = {"open": "not reviewed", "unclear": "unclear", "second": "a second look"}


async def review(visit: Visit, fields: Mapping[str, str]) -> str:
    disposition = fields.get("disposition", "")
    if disposition not in FINAL:
        what = f"the disposition is {disposition[:60]!r}"
        raise Refusal(422, f"{what}; expected one of {', '.join(FINAL)}.")
    return await _write(visit, fields, disposition)


async def undo(visit: Visit, fields: Mapping[str, str]) -> str:
    return await _write(visit, fields, "open")


async def _write(visit: Visit, fields: Mapping[str, str], disposition: str) -> str:
    served, reviewer = visit.served, visit.viewer.name
    require_ledger(served)
    row = parse_whole("row", fields.get("row", ""))
    witness = parse_whole("witness", fields["witness"]) if fields.get("witness") else None
    reason = fields.get("reason", "").replace("\r\n", "\n").strip()
    leases = visit.state.leases
    holder = leases.find_holder(row)
    if not leases.claim(row, reviewer):
        why = f"{holder!r} works on row {row}. Nothing was saved: choose another pair."
        raise Refusal(409, why)
    try:
        seen = fields.get("seen", "")
        reviews = await served.read_ledger(Ledger.reviews, row)
        last = reviews[-1] if reviews else None
        if seen != ("-1" if last is None else str(last.event)):
            who = "somebody" if last is None else last.reviewer
            since = f"{who[:100]!r} has reviewed row {row} since you opened it"
            raise Refusal(409, f"{since}. Nothing was saved: look at it again.")
        if disposition == "open" and (last is None or last.reviewer != reviewer):
            raise Refusal(409, "only the last review can be undone, by the person who wrote it.")

        def write() -> None:
            record_action(served, visit.viewer.actor, "review", row=row)
            review, verified = served.monitor.ledger.review, visit.viewer.verified
            review(row, witness, disposition, reason=reason, reviewer=reviewer, verified=verified)

        await served.run_in_turn(write)
    finally:
        leases.release(row, reviewer)
    return _next_url(visit, fields, row, witness, "undone" if disposition == "open" else "reviewed")


async def skip(visit: Visit, fields: Mapping[str, str]) -> str:
    row = parse_whole("row", fields.get("row", ""))
    visit.state.leases.skip(row, visit.viewer.name)
    return visit.url("queue", state=_queue_state(fields))


async def unskip(visit: Visit, fields: Mapping[str, str]) -> str:
    visit.state.leases.restore_skipped(visit.viewer.name)
    return visit.url("queue", state=_queue_state(fields))


def _queue_state(fields: Mapping[str, str]) -> str | None:
    state = fields.get("state", "open")
    return None if state not in STATES or state == "open" else state


def _next_url(
    visit: Visit, fields: Mapping[str, str], row: int, witness: int | None, done: str
) -> str:
    if fields.get("state"):
        return visit.url("queue", state=_queue_state(fields), done=done)
    return visit.url(f"pairs/{row}" + f"/{witness}" * (witness is not None), done=done)


PARTS: tuple[PagePart, ...] = (
    Form("queue/review", "review", review),
    Form("queue/undo", "review", undo),
    Form("queue/skip", "review", skip),
    Form("queue/back", "review", unskip),
)
