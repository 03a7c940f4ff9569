"""The queue: the next pair that nobody has decided, the nearest first, for whoever may review.

Each reviewer gets another pair (leases.py). "A second look" gives pairs that one other reviewer has
decided, so that it can be said how far reviewers agree (agreement.py).

Cost: the index of distances is followed past those that are reviewed, or that others work on.
"""

from dataclasses import dataclass
from typing import Any

from likewise.ledger.ledger import Ledger
from likewise.ledger.sought import Place
from likewise.pages import parts, reviewing
from likewise.pages.leases import SECONDS, Leases
from likewise.pages.pair_look import PairLook, pair_in_ledger
from likewise.pages.review_log import ReviewLog
from likewise.pages.reviewing import STATES
from likewise.pages.screen import Part, Screen
from likewise.pages.tally import totals
from likewise.pages.visit import Visit
from likewise.reports.document import section
from likewise.service.refusals import Refusal
from likewise.service.slopes import insist_on_contradictions
from likewise.values.errors import BadRow
from likewise.values.printing import figure, percent
from likewise.values.safe import safe

_AT_ONCE = 50


@dataclass(frozen=True)
class QueueLook:
    """What the queue is for one reviewer."""

    monitor: str
    state: str
    reviewer: str
    may_review: bool
    durable: bool
    look: PairLook | None
    counts: dict[str, Any]
    reviewed: dict[str, int]
    """Reviewed decisions by their last disposition."""
    reviewers: dict[str, int]
    agreement: dict[str, Any]
    working: list[dict[str, Any]]
    put_aside: int
    last: dict[str, Any] | None
    """What this reviewer wrote last, which can be taken back."""
    looked_on: bool
    """Whether it stopped looking before it was through: there may be more."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "monitor": self.monitor,
            "state": self.state,
            "reviewer": self.reviewer,
            "may_review": self.may_review,
            "pair": None if self.look is None else self.look.to_dict(),
            "counts": self.counts,
            "reviewed": self.reviewed,
            "reviewers": self.reviewers,
            "agreement": self.agreement,
            "working": self.working,
            "put_aside": self.put_aside,
            "last": self.last,
            "may_be_more": self.looked_on,
        }


async def known(visit: Visit) -> QueueLook:
    hosted, viewer = visit.hosted, visit.viewer
    insist_on_contradictions(hosted.name, hosted.slopes)
    state = visit.query.get("state", "") or "open"
    if state not in STATES:
        raise Refusal(400, f"state: expected one of {', '.join(STATES)}.")
    may = visit.allows("review")
    leases, log = visit.state.leases, visit.state.reviews
    look, more = None, False
    durable = hosted.monitor.durable
    if durable:
        await hosted.flush()

        def chosen(ledger: Ledger) -> tuple[PairLook | None, bool]:
            log.catch_up(ledger)
            if not may:
                return None, False
            return _next(ledger, leases, log, viewer.name, state)

        look, more = await hosted.look(chosen)
        if look is not None:
            await visit.looked("queue", row=look.row, witness=look.witness.row)
    last = log.last_of(viewer.name)
    return QueueLook(
        hosted.name,
        state,
        viewer.name,
        may,
        durable,
        look,
        await totals(hosted, visit.state.tally),
        log.by_disposition(),
        log.by_reviewer(),
        log.agreement().to_dict(),
        [
            {"reviewer": one.reviewer, "row": one.row, "seconds_left": round(left)}
            for one, left in leases.all()
        ],
        leases.put_aside(viewer.name),
        None
        if last is None
        else {
            "row": last.row,
            "witness": last.witness,
            "disposition": last.disposition,
            "event": last.event,
        },
        more,
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
        page = ledger.violations_page("nearest", behind=behind, limit=_AT_ONCE, review=state)
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


def shown(told: QueueLook, visit: Visit) -> str:
    if not told.durable:
        return (
            "<p>This monitor is in memory: reviews need a ledger to be written to. Its"
            f" contradictions are at {parts.link(visit, 'violations', 'violations')}.</p>\n"
        )
    return "".join(
        [
            _tabs(told, visit),
            _last(told, visit),
            _work(told, visit),
            section("progress", "How far we are", "", _progress(told, visit)),
            section("agreement", "Do reviewers agree?", "", _agreement(told)),
        ]
    )


def _tabs(told: QueueLook, visit: Visit) -> str:
    links = []
    for state, words in STATES.items():
        here = ' aria-current="true"' if state == told.state else ""
        url = visit.url("queue", state=None if state == "open" else state)
        links.append(f'<li><a href="{safe(url, None)}"{here}>{words}</a></li>')
    return f'<nav aria-label="Which pairs" class="tabs"><ul>{"".join(links)}</ul></nav>\n'


def _last(told: QueueLook, visit: Visit) -> str:
    if told.last is None or not told.may_review:
        return ""
    last = told.last
    words = f"Your last word: {last['disposition']}, of row {last['row']:,}."
    path = f"pairs/{last['row']}"
    if last["witness"] is not None:
        path += f"/{last['witness']}"
    form = reviewing.undo_form(last, visit, state=told.state)
    return f'<div class="last"><p>{parts.link(visit, safe(words), path)}</p>{form}</div>\n'


def _work(told: QueueLook, visit: Visit) -> str:
    if not told.may_review:
        return "<p>You may look, and not review: that needs the scope <code>review</code>.</p>\n"
    look = told.look
    if look is None:
        aside = ""
        if told.put_aside:
            many = f"{told.put_aside:,} that you put aside"
            aside = visit.form(
                "queue/back",
                f'<input type="hidden" name="state" value="{told.state}">'
                f"<button>Show {many}</button>",
            )
        words = "Nothing is waiting for you here"
        if told.looked_on:
            words = "Nothing found in time; load the page again to look further"
        return f'<p class="lead">{words}.</p>{aside}\n'
    minutes = round(SECONDS / 60)
    return (
        '<h2 class="unseen">The next pair</h2>'
        f'<div class="work"><div class="pairs one">{look.card()}</div>'
        f'<div class="decide">{reviewing.review_form(look, visit, state=told.state)}'
        f"{reviewing.skip_form(look, visit, told.state)}"
        f'<p class="small">It is yours for {minutes} minutes.'
        f" {parts.link(visit, 'All about this pair', f'pairs/{look.row}/{look.witness.row}')}</p>"
        "</div></div>\n"
    )


def _progress(told: QueueLook, visit: Visit) -> str:
    done = sum(told.reviewed.values())
    words = parts.counted(told.counts)
    words += f"<p><b>{done:,}</b> of these were reviewed.</p>\n"
    if told.reviewed:
        rows = [
            [
                parts.link(
                    visit, f'<span class="state {one}">{one}</span>', "violations", review=one
                )
                if one in reviewing.FINAL
                else safe(one),
                f"{many:,}",
            ]
            for one, many in told.reviewed.items()
        ]
        words += parts.table(("disposition", "decisions"), rows, "Dispositions", numbers=(1,))
    if told.reviewers:
        rows = [[parts.value(one), f"{many:,}"] for one, many in told.reviewers.items()]
        words += parts.table(("reviewer", "decisions"), rows, "Reviewers", numbers=(1,))
    if told.working:
        rows = [
            [
                parts.value(one["reviewer"]),
                parts.link(visit, f"row {one['row']:,}", f"pairs/{one['row']}"),
                f"{max(1, round(one['seconds_left'] / 60)):,} min",
            ]
            for one in told.working
        ]
        heads = ("works now", "on", "for another")
        words += parts.table(heads, rows, "Who works on what", numbers=(2,))
    return words


def _agreement(told: QueueLook) -> str:
    found = told.agreement
    if not found["pairs"]:
        return (
            "<p>No pair was reviewed by two people, so nothing can be said. “A second look” gives"
            " pairs that somebody else has reviewed.</p>\n"
        )
    many = f"{found['pairs']:,} decision{'s' * (found['pairs'] != 1)}"
    words = (
        f"Two reviewers of the same decision said the same in {percent(found['share'])} of cases."
        f" This rests on {many} and {found['reviewers']:,} reviewers."
    )
    kappa = found["kappa"]
    if kappa is None:
        words += " All said the same, always: kappa has nothing to compare that with."
    else:
        words += (
            f" {found['method']}’s kappa, which takes off what chance would give, is"
            f" {figure(round(kappa, 3))}."
        )
    if found["pairs"] < 30:
        words += " That is few; read it as a hint."
    return f"<p>{safe(words, 600)}</p>\n"


PARTS: tuple[Part, ...] = (*reviewing.PARTS, Screen("queue", "read", "Queue", known, shown))
