"""One pair: the two decisions side by side, other witnesses, and all that was said of it."""

from likewise.pages import parts
from likewise.pages.pair_look import PairLook, look_at_pair, review_dict
from likewise.pages.reviewing import history, review_form, undo_form
from likewise.pages.screen import Part, Screen
from likewise.pages.times import moment
from likewise.pages.visit import Visit
from likewise.reports.document import section
from likewise.service.routes.query_values import whole
from likewise.values.printing import missing_in_words
from likewise.values.safe import safe


async def known(visit: Visit) -> PairLook:
    told = visit.request.path_params
    row = whole("the row", told["row"])
    witness = whole("the witness", told["witness"]) if "witness" in told else None
    look = await look_at_pair(visit.hosted, row, witness)
    await visit.looked("pair", row=row, witness=look.witness.row)
    return look


def title(look: PairLook) -> str:
    return f"Row {look.row:,} and row {look.witness.row:,}"


def shown(look: PairLook, visit: Visit) -> str:
    return "".join(
        [
            f'<h2 class="unseen">Side by side</h2><div class="pairs one">{look.card()}</div>\n',
            _people(look, visit),
            section("others", "Other witnesses", "", _others(look, visit)),
            section("reviews", "Reviews", "", _reviews(look, visit)),
        ]
    )


def _people(look: PairLook, visit: Visit) -> str:
    links = [
        parts.link(visit, f"{words} {parts.value(key)}", "people", key=key)
        for words, key in (("the later:", look.keys[0]), ("the earlier:", look.keys[1]))
        if key is not None
    ]
    return f'<p class="small">All about {" · ".join(links)}</p>\n' if links else ""


def _others(look: PairLook, visit: Visit) -> str:
    more = look.count - 1 - len(look.others)
    words = (
        f"Row {look.row:,} contradicts {look.count:,} earlier decision{'s' * (look.count != 1)}"
        f"{missing_in_words(look.missing)}."
    )
    if more > 0:
        words += f" {more:,} of them are known by their number alone."
    lead = f"<p>{safe(words, 400)}</p>\n"
    if not look.others:
        return lead
    heads = ["witness", "distance", "output", "when", "key", "model"]
    rows = [
        [
            parts.link(visit, f"row {one['row']:,}", f"pairs/{look.row}/{one['row']}"),
            parts.distance(one["distance"]),
            "erased" if one["erased"] else parts.value(one["output"]),
            moment(one["time"]),
            parts.value(one["key"]),
            parts.value(one["model"]),
        ]
        for one in look.others
    ]
    return lead + parts.table(heads, rows, "A table of other witnesses", numbers=(1,), kind="cards")


def _reviews(look: PairLook, visit: Visit) -> str:
    if not visit.hosted.monitor.durable:
        return "<p>This monitor is in memory: reviews need a ledger to be written to.</p>\n"
    told = history(look)
    if not visit.allows("review"):
        return told
    last = look.reviews[-1] if look.reviews else None
    if last is not None and last.reviewer == visit.viewer.name and last.disposition != "open":
        told += undo_form(review_dict(last), visit, state=None)
    holder = visit.state.leases.holder(look.row)
    if holder is not None and holder != visit.viewer.name:
        return told + f"<p><bdi>{safe(holder, 60)}</bdi> works on it now.</p>\n"
    return told + review_form(look, visit, state=None)


PARTS: tuple[Part, ...] = (
    Screen("pairs/{row}/{witness}", "read", title, known, shown),
    Screen("pairs/{row}", "read", title, known, shown),
)
