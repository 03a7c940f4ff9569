"""Verdicts with a witness, in the order of their rows, page by page.

A ledger is read in a thread, beside whatever is being written, and shows everything that was
answered. A monitor in memory knows its latest verdicts only (`Limits.recent`), and says so.

Cost: a page reads at most `MOST_LOOKED_AT` verdicts to find those with an output; what follows is
asked for from `PageBody.next` on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from likewise.intake.verdict_json import answer, stored_answer
from likewise.ledger.ledger import Entry, Ledger
from likewise.service.hosted import Hosted
from likewise.service.looking_back.plain_values import as_text, plain
from likewise.service.refusals import Refusal
from likewise.service.slopes import insist_on_contradictions
from likewise.service.wire import PageBody

PAGE, MOST_PAGE = 100, 1000
"""How many verdicts a page has unless told, and at most."""
MOST_LOOKED_AT = 20_000


@dataclass(frozen=True)
class VerdictFilters:
    """Which verdicts are wanted; all of them unless something is said.

    after       of decisions with a higher row than this
    limit       how many at most
    since       of decisions from that time on, in seconds since 1970
    until       of decisions before that time
    model       of decisions of that model
    group       of decisions with a value in a protected column: the column, and the value as text
    within      with a witness at most that far away
    review      with that last disposition; "open" for none
    output      of decisions with that output, as text
    """

    after: int = -1
    limit: int = PAGE
    since: float | None = None
    until: float | None = None
    model: str | None = None
    group: tuple[str, str] | None = None
    within: float | None = None
    review: str | None = None
    output: str | None = None


async def verdict_page(hosted: Hosted, filters: VerdictFilters) -> PageBody:
    """The next verdicts that the filters let through."""
    insist_on_contradictions(hosted.name, hosted.slopes)
    if not hosted.monitor.durable:
        return _from_memory(hosted, filters)
    await hosted.flush()
    witnesses = hosted.limits.witnesses
    return await hosted.look(lambda ledger: _from_ledger(ledger, filters, witnesses))


def _from_ledger(ledger: Ledger, filters: VerdictFilters, witnesses: int) -> PageBody:
    violations: Iterator[Entry] = ledger.violations(
        since=filters.since,
        until=filters.until,
        model=filters.model,
        group=typed_group(ledger, filters.group),
        review=filters.review,
        within=filters.within,
        after=filters.after,
    )
    reviews = {review.row: review.disposition for review in ledger.reviews()}
    page: list[dict[str, Any]] = []
    last, more = filters.after, False
    for looked_at, entry in enumerate(islice(violations, MOST_LOOKED_AT + 1)):
        if len(page) == filters.limit or looked_at == MOST_LOOKED_AT:
            more = True
            break
        last = entry.row
        if filters.output is None or as_text(entry.output) == filters.output:
            page.append(_entry_dict(ledger, entry, witnesses, reviews.get(entry.row)))
    return PageBody(page, last if more else None, "ledger", ledger.first > filters.after + 1)


def typed_group(ledger: Ledger, group: tuple[str, str] | None) -> tuple[str, Any] | None:
    """The value of a group as the ledger has it: a query can only say text."""
    if group is None:
        return None
    column, text = group
    feature: Any = (ledger.rule.features or {}).get(column)
    known: list[Any] = []
    if feature is not None:
        known = list(feature.order or feature.values or ledger.known_words(column))
    return column, next((value for value in known if as_text(value) == text), text)


def _entry_dict(ledger: Ledger, entry: Entry, witnesses: int, review: str | None) -> dict[str, Any]:
    """A verdict that a ledger has, with what the ledger knows beside it."""
    return {
        **stored_answer(entry, witnesses, ledger.keys_of),
        "model": entry.model,
        "comparable": entry.comparable,
        "time": entry.time,
        "output": plain(entry.output),
        "review": review or "open",
    }


def _from_memory(hosted: Hosted, filters: VerdictFilters) -> PageBody:
    for name in ("since", "until", "group", "review", "output"):
        if getattr(filters, name) is not None:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    recent = hosted.recent
    page: list[dict[str, Any]] = []
    following = None
    for verdict in recent.after(filters.after):
        near = verdict.witnesses.input_distances
        if filters.model is not None and verdict.model != filters.model:
            continue
        if filters.within is not None and not (len(near) and near.min() <= filters.within):
            continue
        if len(page) == filters.limit:
            following = page[-1]["row"]
            break
        page.append(answer(verdict, hosted.limits.witnesses, keyed=True))
    return PageBody(page, following, "memory", recent.dropped > filters.after)
