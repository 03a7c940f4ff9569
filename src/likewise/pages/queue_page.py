"""The queue: the next pair that nobody has decided, the nearest first, for whoever may review.

Each reviewer gets another pair (leases.py). "A second look" gives pairs that one other reviewer has
decided, so that it can be said how far reviewers agree (review_log.py).

Cost: the index of distances is followed past those that are reviewed, or that others work on.
"""

from likewise.errors import BadRow
from likewise.ledger.ledger import Ledger
from likewise.ledger.violation_query import Place, ViolationQuery
from likewise.pages import review_form
from likewise.pages.leases import SECONDS, Leases
from likewise.pages.page_state import Visit
from likewise.pages.pair_page import PairLook, pair_in_ledger
from likewise.pages.review_form import CHOICES, FINAL, STATES
from likewise.pages.review_log import ReviewLog
from likewise.pages.running_tally import totals
from likewise.pages.screen import PageData, Part, Screen
from likewise.service.http_errors import Refusal

_AT_ONCE = 50


async def load(visit: Visit) -> PageData:
    hosted, viewer = visit.hosted, visit.viewer
    hosted.monitor.insist_on_contradictions()
    state = visit.query.get("state", "") or "open"
    if state not in STATES:
        raise Refusal(400, f"state: expected one of {', '.join(STATES)}.")
    may = visit.allows("review")
    leases, log = visit.state.leases, visit.state.reviews
    look, may_be_more = None, False
    if hosted.monitor.durable:
        await hosted.flush()

        def next_pair(ledger: Ledger) -> tuple[PairLook | None, bool]:
            log.catch_up(ledger)
            return _next(ledger, leases, log, viewer.name, state) if may else (None, False)

        look, may_be_more = await hosted.look(next_pair)
        if look is not None:
            await visit.looked("queue", row=look.row, witness=look.witness.row)
    last = log.last_of(viewer.name)
    data = {
        "monitor": hosted.name,
        "state": state,
        "reviewer": viewer.name,
        "may_review": may,
        "pair": None if look is None else look.to_dict(),
        "counts": await totals(hosted, visit.state.tally),
        "reviewed": log.by_disposition(),
        "reviewers": log.by_reviewer(),
        "agreement": log.agreement()._asdict(),
        "working": [
            {"reviewer": one.reviewer, "row": one.row, "seconds_left": round(left)}
            for one, left in leases.all()
        ],
        "put_aside": leases.put_aside(viewer.name),
        "last": last
        and {  # what this reviewer wrote last, which can be taken back
            "row": last.row,
            "witness": last.witness,
            "disposition": last.disposition,
            "event": last.event,
        },
        "may_be_more": may_be_more,
    }
    return PageData(
        data,
        lambda: {
            "look": look,
            "states": STATES,
            "final": FINAL,
            "dispositions": CHOICES,
            "minutes": round(SECONDS / 60),
            "minutes_left": lambda seconds: max(1, round(seconds / 60)),
        },
    )


def _next(
    ledger: Ledger, leases: Leases, log: ReviewLog, reviewer: str, state: str
) -> tuple[PairLook | None, bool]:
    """The pair that this reviewer works on, or the next one; and whether there may be more."""
    held = leases.held_by(reviewer)
    if held is not None and _still(ledger, log, held, reviewer, state):
        look = _claimed(ledger, leases, held, reviewer)
        if look is not None:
            return look, False
    if state == "second":
        for row in log.for_a_second_look(reviewer):
            look = _claimed(ledger, leases, row, reviewer)
            if look is not None:
                return look, False
        return None, False
    behind: Place | None = None
    while True:
        query = ViolationQuery("nearest", review=state)
        page = ledger.violations_page(query, behind=behind, limit=_AT_ONCE)
        for row in page.rows:
            if state == "unclear" and reviewer in log.by_row.get(row, {}):
                continue  # somebody else is to say more
            look = _claimed(ledger, leases, row, reviewer)
            if look is not None:
                return look, False
        if page.next is None or not page.rows:
            return None, page.next is not None
        behind = page.next


def _still(ledger: Ledger, log: ReviewLog, row: int, reviewer: str, state: str) -> bool:
    """Whether a row that is held still belongs to the queue that is asked for."""
    if state == "second":
        return row in log.for_a_second_look(reviewer)
    return ledger.dispositions([row]).get(row, "open") == state


def _claimed(ledger: Ledger, leases: Leases, row: int, reviewer: str) -> PairLook | None:
    """A pair, if it is this reviewer's from now on, and there is something to see."""
    if leases.skipped(row, reviewer) or not leases.claim(row, reviewer):
        return None
    try:
        look = pair_in_ledger(ledger, row, None)
    except BadRow:  # it has left the window meanwhile
        look = None
    if look is None or look.pair is None:
        leases.release(row, reviewer)
        return None
    return look


PARTS: tuple[Part, ...] = (
    *review_form.PARTS,
    Screen("queue", "read", "Queue", load, "pages/queue.html"),
)
