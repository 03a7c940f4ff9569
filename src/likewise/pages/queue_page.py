"""The queue: the next pair that nobody has decided, the nearest first, for whoever may review.

Each reviewer gets another pair (leases.py). "A second look" gives pairs that one other reviewer has
decided, so that it can be said how far reviewers agree (review_log.py).

Cost: the index of distances is followed past those that are reviewed, or that others work on.
"""

from likewise.errors import BadRow
from likewise.ledger.ledger import Ledger
from likewise.ledger.violation_query import PageCursor, ViolationQuery
from likewise.pages import review_form
from likewise.pages.leases import SECONDS, Leases
from likewise.pages.page_state import Visit
from likewise.pages.pair_page import PairDetails, load_ledger_pair
from likewise.pages.review_form import CHOICES, FINAL, STATES
from likewise.pages.review_log import ReviewLog
from likewise.pages.running_tally import count_totals
from likewise.pages.screen import PageData, PagePart, Screen
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

        def next_pair(ledger: Ledger) -> tuple[PairDetails | None, bool]:
            log.catch_up(ledger)
            return _find_next(ledger, leases, log, viewer.name, state) if may else (None, False)

        look, may_be_more = await hosted.read_ledger(next_pair)
        if look is not None:
            await visit.record_look("queue", row=look.row, witness=look.witness.row)
    last = log.find_last(viewer.name)
    data = {
        "monitor": hosted.name,
        "state": state,
        "reviewer": viewer.name,
        "may_review": may,
        "pair": None if look is None else look.to_dict(),
        "counts": await count_totals(hosted, visit.state.tally),
        "reviewed": log.count_by_disposition(),
        "reviewers": log.count_by_reviewer(),
        "reviewer_agreement": log.reviewer_agreement()._asdict(),
        "working": [
            {"reviewer": one.reviewer, "row": one.row, "seconds_left": round(left)}
            for one, left in leases.list_leases()
        ],
        "put_aside": leases.count_skipped(viewer.name),
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


def _find_next(
    ledger: Ledger, leases: Leases, log: ReviewLog, reviewer: str, state: str
) -> tuple[PairDetails | None, bool]:
    """The pair that this reviewer works on, or the next one; and whether there may be more."""
    held = leases.find_row(reviewer)
    if held is not None and _is_still_queued(ledger, log, held, reviewer, state):
        look = _claim_pair(ledger, leases, held, reviewer)
        if look is not None:
            return look, False
    if state == "second":
        for row in log.find_second_look_rows(reviewer):
            look = _claim_pair(ledger, leases, row, reviewer)
            if look is not None:
                return look, False
        return None, False
    behind: PageCursor | None = None
    while True:
        query = ViolationQuery("nearest", review=state)
        page = ledger.violations_page(query, behind=behind, limit=_AT_ONCE)
        for row in page.rows:
            if state == "unclear" and reviewer in log.by_row.get(row, {}):
                continue  # somebody else is to say more
            look = _claim_pair(ledger, leases, row, reviewer)
            if look is not None:
                return look, False
        if page.next is None or not page.rows:
            return None, page.next is not None
        behind = page.next


def _is_still_queued(ledger: Ledger, log: ReviewLog, row: int, reviewer: str, state: str) -> bool:
    """Whether a row that is held still belongs to the queue that is asked for."""
    if state == "second":
        return row in log.find_second_look_rows(reviewer)
    return ledger.dispositions([row]).get(row, "open") == state


def _claim_pair(ledger: Ledger, leases: Leases, row: int, reviewer: str) -> PairDetails | None:
    """A pair, if it is this reviewer's from now on, and there is something to see."""
    if leases.is_skipped(row, reviewer) or not leases.claim(row, reviewer):
        return None
    try:
        look = load_ledger_pair(ledger, row, None)
    except BadRow:  # it has left the window meanwhile
        look = None
    if look is None or look.pair is None:
        leases.release(row, reviewer)
        return None
    return look


PARTS: tuple[PagePart, ...] = (
    *review_form.PARTS,
    Screen("queue", "read", "Queue", load, "pages/queue.html"),
)
