"""Reviews: the form under a pair, and what becomes of it.

Every review goes through `Monitor.review` and is an event of the ledger's chain, with the name of
whoever is signed in, or marked as unverified where nobody has to sign in. An undone review stays
there; "open" is a new entry.

Invariant: nobody's word is overwritten unseen. A form says which review was the last one when it
was made; if another has come since, or somebody else works on the pair, nothing is written.
"""

from collections.abc import Mapping
from typing import Any

from likewise.ledger.notes import DISPOSITIONS, Review
from likewise.pages import parts
from likewise.pages.pair_look import PairLook
from likewise.pages.screen import Form, Part
from likewise.pages.times import moment
from likewise.pages.visit import Visit
from likewise.service.auditing import note
from likewise.service.refusals import Refusal
from likewise.service.routes.administration import insist_on_ledger
from likewise.service.routes.query_values import whole
from likewise.values.safe import safe

FINAL = tuple(one for one in DISPOSITIONS if one != "open")
KEYS = {"justified": "j", "error": "e", "unfair": "f", "duplicate": "d", "unclear": "u"}
"""What a disposition is chosen with on a keyboard."""
MEANINGS = {
    "justified": "there is a good reason for the difference",
    "error": "one of the two is a mistake",
    "unfair": "like cases were treated differently, and should not be",
    "duplicate": "the same as a pair that was reviewed already",
    "unclear": "cannot be said from what is here",
}
STATES = {"open": "not reviewed", "unclear": "unclear", "second": "a second look"}


def review_form(look: PairLook, visit: Visit, *, state: str | None) -> str:
    """The form under a pair; state: of the queue, to which it leads back; None: to the pair."""
    options = "".join(
        f'<label class="choice"><input type="radio" name="disposition" value="{one}" required'
        f' data-key="{KEYS[one]}" data-then="reason"> <b>{one}</b> <kbd>{KEYS[one]}</kbd>'
        f'<span class="small">{MEANINGS[one]}</span></label>'
        for one in FINAL
    )
    hidden = _hidden(row=look.row, witness=look.witness.row, seen=look.seen, state=state or "")
    inside = (
        f"{hidden}<fieldset><legend>What is it?</legend>{options}</fieldset>"
        '<p class="field full"><label for="reason">Why <kbd>r</kbd></label>'
        '<textarea id="reason" name="reason" rows="3" required maxlength="16000"'
        ' data-key="r"></textarea></p>'
        '<p class="actions"><button>Write it down <kbd>Ctrl&nbsp;Enter</kbd></button>'
        "</p>"
    )
    return visit.form("queue/review", inside, kind="review")


def skip_form(look: PairLook, visit: Visit, state: str) -> str:
    inside = (
        f"{_hidden(row=look.row, state=state)}"
        '<button class="plain" data-key="s">Not now <kbd>s</kbd></button>'
    )
    return visit.form("queue/skip", inside, kind="inline")


def undo_form(review: Mapping[str, Any], visit: Visit, *, state: str | None) -> str:
    """Take one's last review back."""
    hidden = _hidden(
        row=review["row"],
        witness="" if review["witness"] is None else review["witness"],
        seen=review["event"],
        state=state or "",
    )
    inside = (
        f'{hidden}<label for="undo-reason">Why</label> <input id="undo-reason" name="reason"'
        ' value="taken back" required maxlength="2000">'
        ' <button class="plain" data-key="z">Take it back <kbd>z</kbd></button>'
    )
    return visit.form("queue/undo", inside, kind="inline undo")


def _hidden(**values: Any) -> str:
    return "".join(
        f'<input type="hidden" name="{name}" value="{safe(value, None)}">'
        for name, value in values.items()
    )


def history(look: PairLook) -> str:
    """What was said of a pair, in order."""
    if not look.reviews:
        return "<p>Nobody has reviewed it yet.</p>\n"
    rows = [
        [
            moment(review.time),
            parts.value(review.reviewer) + ("" if review.verified else " (unverified)"),
            f'<span class="state {safe(review.disposition)}">{safe(review.disposition)}</span>',
            "erased" if review.reason is None else f"<bdi>{safe(review.reason, 2000)}</bdi>",
            "all" if review.witness is None else f"row {review.witness:,}",
            f"{review.event:,}",
        ]
        for review in look.reviews
    ]
    heads = ("when", "who", "disposition", "reason", "of witness", "event of the chain")
    return parts.table(heads, rows, "Reviews of this pair", numbers=(5,), kind="cards")


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
    insist_on_ledger(hosted)
    row = whole("row", fields.get("row", ""))
    witness = whole("witness", fields["witness"]) if fields.get("witness") else None
    reason = fields.get("reason", "").replace("\r\n", "\n").strip()
    leases = visit.state.leases
    holder = leases.holder(row)
    if not leases.claim(row, reviewer):
        raise Refusal(
            409, f"{holder!r} works on row {row}. Nothing was written: take another pair."
        )
    try:
        seen = fields.get("seen", "")
        said: list[Review] = await hosted.look(lambda ledger: ledger.reviews(row))
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

        def written() -> None:
            note(hosted, visit.viewer.actor, "review", row=row)
            hosted.monitor.review(
                row,
                witness,
                disposition,
                reason=reason,
                reviewer=reviewer,
                verified=visit.viewer.verified,
            )

        await hosted.do(written)
    finally:
        leases.release(row, reviewer)
    return _back(visit, fields, row, witness, "undone" if disposition == "open" else "reviewed")


async def skip(visit: Visit, fields: Mapping[str, str]) -> str:
    row = whole("row", fields.get("row", ""))
    visit.state.leases.skip(row, visit.viewer.name)
    return visit.url("queue", state=_state(fields))


async def unskip(visit: Visit, fields: Mapping[str, str]) -> str:
    visit.state.leases.back(visit.viewer.name)
    return visit.url("queue", state=_state(fields))


def _state(fields: Mapping[str, str]) -> str | None:
    state = fields.get("state", "open")
    return None if state not in STATES or state == "open" else state


def _back(visit: Visit, fields: Mapping[str, str], row: int, witness: int | None, done: str) -> str:
    if fields.get("state"):
        return visit.url("queue", state=_state(fields), done=done)
    if witness is None:
        return visit.url(f"pairs/{row}", done=done)
    return visit.url(f"pairs/{row}/{witness}", done=done)


PARTS: tuple[Part, ...] = (
    Form("queue/review", "review", review),
    Form("queue/undo", "review", undo),
    Form("queue/skip", "review", skip),
    Form("queue/back", "review", unskip),
)
