"""The page of the queue: the next pair to review, the nearest first.

Each reviewer gets a different pair (leases.py). "A second look" offers pairs that only one other
reviewer has reviewed, to measure how far reviewers agree (review_log.py).
Cost: the index of distances is read past pairs that are reviewed, or that others work on.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from likewise.errors import BadRow
from likewise.ledger.ledger import Ledger
from likewise.ledger.violation_query import PageCursor, ViolationQuery
from likewise.pages import review_form
from likewise.pages.frame import PageData, PagePart, Screen
from likewise.pages.leases import SECONDS, Leases
from likewise.pages.page_state import Visit
from likewise.pages.pair_page import PairDetails, load_ledger_pair
from likewise.pages.review_form import CHOICES, FINAL, STATES
from likewise.pages.review_log import ReviewLog
from likewise.pages.running_tally import count_totals
from likewise.service.http_errors import Refusal

_PAGE_ROWS = 50


async def load(visit: Visit) -> PageData:
    served, viewer = visit.served, visit.viewer
    served.monitor.core.require_contradictions()
    state = visit.query.get("state", "") or "open"
    if state not in STATES:
        raise Refusal(400, f"state: expected one of {', '.join(STATES)}.")
    may_review = visit.allows("review")
    leases, log = visit.state.leases, visit.state.reviews
    details, may_be_more = None, False
    if served.monitor.durable:
        await served.flush()

        def next_pair(ledger: Ledger) -> tuple[PairDetails | None, bool]:
            log.catch_up(ledger)
            if not may_review:
                return None, False
            return _find_next(ledger, leases, log, viewer.name, state)

        details, may_be_more = await served.read_ledger(next_pair)
        if details is not None:
            await visit.record_look("queue", row=details.row, witness=details.witness.row)
    last = log.find_last(viewer.name)
    data = {
        "monitor": served.name,
        "state": state,
        "reviewer": viewer.name,
        "may_review": may_review,
        "pair": details and details.to_dict(),
        "counts": await count_totals(served, visit.state.tally),
        "reviewed": log.count_by_disposition(),
        "reviewers": log.count_by_reviewer(),
        "reviewer_agreement": log.reviewer_agreement()._asdict(),
        "leases": [
            {"reviewer": lease.reviewer, "row": lease.row, "seconds_left": round(left)}
            for lease, left in leases.list_leases()
        ],
        "skipped": leases.count_skipped(viewer.name),
        "last": last and asdict(last),  # this reviewer's last review, which can be undone
        "has_more": may_be_more,
    }
    return PageData(
        data,
        lambda: {
            "details": details,
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
    """Return the pair that this reviewer works on, or the next one; and if there may be more."""
    leased = leases.find_row(reviewer)
    if leased is not None and _is_still_queued(ledger, log, leased, reviewer, state):
        details = _claim_first(ledger, leases, [leased], reviewer)
        if details is not None:
            return details, False
    if state == "second":
        rows = log.find_second_look_rows(reviewer)
        return _claim_first(ledger, leases, rows, reviewer), False
    behind: PageCursor | None = None
    while True:
        query = ViolationQuery("nearest", review=state)
        page = ledger.violations_page(query, behind=behind, limit=_PAGE_ROWS)
        rows = page.rows
        if state == "unclear":  # another reviewer has to look at these
            rows = [row for row in rows if reviewer not in log.by_row.get(row, {})]
        details = _claim_first(ledger, leases, rows, reviewer)
        if details is not None:
            return details, False
        if page.next is None or not page.rows:
            return None, page.next is not None
        behind = page.next


def _is_still_queued(ledger: Ledger, log: ReviewLog, row: int, reviewer: str, state: str) -> bool:
    """Tell whether a leased row still belongs to the queue of this state."""
    if state == "second":
        return row in log.find_second_look_rows(reviewer)
    return ledger.dispositions([row]).get(row, "open") == state


def _claim_first(
    ledger: Ledger, leases: Leases, rows: Sequence[int], reviewer: str
) -> PairDetails | None:
    """Lease the first row that is free and whose pair can be shown; return that pair."""
    for row in rows:
        if leases.is_skipped(row, reviewer) or not leases.claim(row, reviewer):
            continue
        with suppress(BadRow):  # the pair has left the window
            details = load_ledger_pair(ledger, row, None)
            if details.pair is not None:
                return details
        leases.release(row, reviewer)
    return None


PARTS: tuple[PagePart, ...] = (
    *review_form.PARTS,
    Screen("queue", "read", "Queue", load, "pages/queue.html"),
)
