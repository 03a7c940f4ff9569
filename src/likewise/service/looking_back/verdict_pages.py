"""Verdicts with a witness, in the order of their rows, page by page.

A ledger is read in a thread, beside whatever is being written, and shows everything that was
answered. A monitor in memory knows its latest verdicts only (`Limits.recent`), and says so.

Cost: a page looks for `SECONDS` at most; what follows is asked for from `PageBody.next` on.
"""

from dataclasses import replace
from typing import Any

from likewise.ledger.ledger import Ledger
from likewise.ledger.violation_query import Place, ViolationQuery
from likewise.service.hosted import Hosted
from likewise.service.refusals import Refusal
from likewise.service.wire import PageBody
from likewise.values.codec import json_value
from likewise.values.verdict_body import VerdictBody

PAGE, MOST_PAGE = 100, 1000
"""How many verdicts a page has unless told, and at most."""
SECONDS = 1.0
"""After which a page looks no further for verdicts that pass the filters."""


async def verdict_page(hosted: Hosted, query: ViolationQuery, after: int, limit: int) -> PageBody:
    """The next verdicts behind a row that a query asks for; the value of its group is text."""
    hosted.monitor.insist_on_contradictions()
    if not hosted.monitor.durable:
        return _from_memory(hosted, query, after, limit)
    await hosted.flush()
    witnesses = hosted.limits.witnesses
    return await hosted.look(lambda ledger: _from_ledger(ledger, query, after, limit, witnesses))


def _from_ledger(
    ledger: Ledger, query: ViolationQuery, after: int, limit: int, witnesses: int
) -> PageBody:
    if query.group is not None:
        query = replace(query, group=ledger.group_of_text(*query.group))
    rows, behind = ledger.violations_page(query, behind=Place(after), limit=limit, seconds=SECONDS)
    reviews = ledger.dispositions(rows)
    page = [
        {
            **VerdictBody.of(ledger.verdict_of(entry), witnesses, over=False).to_dict(),
            "time": entry.time,
            "output": json_value(entry.output),
            "review": reviews.get(entry.row, "open"),
        }
        for entry in map(ledger.entry, rows)
    ]
    following = None if behind is None else behind.row
    return PageBody(page, following, "ledger", ledger.first > after + 1)


def _from_memory(hosted: Hosted, query: ViolationQuery, after: int, limit: int) -> PageBody:
    for name in ("since", "until", "group", "review", "output"):
        if getattr(query, name) is not None:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    recent = hosted.recent
    page: list[dict[str, Any]] = []
    following = None
    for verdict in recent.after(after):
        near = verdict.witnesses.input_distances
        if query.model is not None and verdict.model != query.model:
            continue
        if query.within is not None and not (len(near) and near.min() <= query.within):
            continue
        if len(page) == limit:
            following = page[-1]["row"]
            break
        page.append(hosted.body_of(verdict).to_dict())
    return PageBody(page, following, "memory", recent.dropped > after)
