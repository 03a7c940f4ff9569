"""Reviews: what becomes of the form under a pair (review.html).

Every review goes through `Monitor.review` and is an event of the ledger's chain, with the name of
whoever is signed in, or marked as unverified where nobody has to sign in. An undone review stays
there; "open" is a new entry.

Invariant: nobody's word is overwritten unseen. A form says which review was the last one when it
was made; if another has come since, or somebody else works on the pair, nothing is written.
"""

from collections.abc import Mapping

from likewise.ledger.notes import DISPOSITIONS, Review
from likewise.pages.page_state import Visit
from likewise.pages.screen import Form, PagePart
from likewise.service.admin_log import record_action
from likewise.service.http_errors import Refusal
from likewise.service.routes.administration import require_ledger
from likewise.service.routes.query_values import parse_whole

FINAL = tuple(one for one in DISPOSITIONS if one != "open")
CHOICES = (
    ("justified", "j", "there is a good reason for the difference"),
    ("error", "e", "one of the two is a mistake"),
    ("unfair", "f", "like cases were treated differently, and should not be"),
    ("duplicate", "d", "the same as a pair that was reviewed already"),
    ("unclear", "u", "cannot be said from what is here"),
)
"""Dispositions, what each is chosen with on a keyboard, and what it means."""
STATES = {"open": "not reviewed", "unclear": "unclear", "second": "a second look"}


# What is sent


async def review(visit: Visit, fields: Mapping[str, str]) -> str:
    disposition = fields.get("disposition", "")
    if disposition not in FINAL:
        raise Refusal(
            422, f"the disposition is {disposition[:60]!r}; expected one of {', '.join(FINAL)}."
        )
    return await _write(visit, fields, disposition)


async def undo(visit: Visit, fields: Mapping[str, str]) -> str:
    return await _write(visit, fields, "open")


async def _write(visit: Visit, fields: Mapping[str, str], disposition: str) -> str:
    hosted, reviewer = visit.hosted, visit.viewer.name
    require_ledger(hosted)
    row = parse_whole("row", fields.get("row", ""))
    witness = parse_whole("witness", fields["witness"]) if fields.get("witness") else None
    reason = fields.get("reason", "").replace("\r\n", "\n").strip()
    leases = visit.state.leases
    holder = leases.find_holder(row)
    if not leases.claim(row, reviewer):
        raise Refusal(
            409, f"{holder!r} works on row {row}. Nothing was written: take another pair."
        )
    try:
        seen = fields.get("seen", "")
        said: list[Review] = await hosted.read_ledger(lambda ledger: ledger.reviews(row))
        last = str(said[-1].event) if said else "-1"
        if last != seen:
            who = said[-1].reviewer if said else "somebody"
            raise Refusal(
                409,
                f"{who[:100]!r} has reviewed row {row} since you opened it. Nothing was written:"
                " look at it again.",
            )
        if disposition == "open" and (not said or said[-1].reviewer != reviewer):
            raise Refusal(409, "only the last review can be taken back, by whoever wrote it.")

        def write() -> None:
            record_action(hosted, visit.viewer.actor, "review", row=row)
            hosted.monitor.review(
                row,
                witness,
                disposition,
                reason=reason,
                reviewer=reviewer,
                verified=visit.viewer.verified,
            )

        await hosted.run_in_turn(write)
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
    if witness is None:
        return visit.url(f"pairs/{row}", done=done)
    return visit.url(f"pairs/{row}/{witness}", done=done)


PARTS: tuple[PagePart, ...] = (
    Form("queue/review", "review", review),
    Form("queue/undo", "review", undo),
    Form("queue/skip", "review", skip),
    Form("queue/back", "review", unskip),
)
