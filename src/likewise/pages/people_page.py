"""The page of one key: its decisions, the pairs that name it, and a form to erase it.

A key names one decision. If the rule has a person column, other decisions about the same person are
found too. To erase, the key must be typed once more.
Cost: a key is found by an index. Pairs that name it and other decisions of a person have no index:
they are searched for `SECONDS`, the newest first, and the page says how far the search came.
"""

import re
import time as clock
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.ledger.ledger import Ledger
from likewise.pages.frame import Form, PageData, PagePart, Screen
from likewise.pages.page_state import Visit
from likewise.pages.pair_page import describe_entry, describe_rows
from likewise.reports.selected_pairs import entry_of
from likewise.service.http_errors import Refusal
from likewise.service.routes.query_values import parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service_log import record_action
from likewise.tables.codec import json_value
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witness

SECONDS = 0.1
_CHUNK = 1 << 18  # rows of a column that are read at once
_MOST = 200  # decisions of one person on the page
_LONGEST = 1000  # characters of a key


def find_key(served: ServedMonitor, ledger: Ledger | None, text: str) -> tuple[Any, int] | None:
    """Return the key that a text means, and its row; None if no decision has it."""
    keys: list[Any] = [text]
    if re.fullmatch("-?[0-9]{1,19}", text):
        keys.append(int(text))
    for key in keys:
        row = served.monitor.past.row_of(key)
        if row is None and ledger is not None:
            row = ledger.reader.row_by_index(key)
        if row is not None:
            return key, row
    return None


async def load(visit: Visit) -> PageData:
    served = visit.served
    text = visit.query.get("key", "")
    about = {"monitor": served.name, "durable": served.monitor.durable}
    data: dict[str, Any] = {**about, "key": text or None, "row": None}
    if not text:
        return PageData(data)
    if len(text) > _LONGEST:
        raise Refusal(400, f"the key has {len(text):,} characters; expected at most {_LONGEST:,}.")
    after = parse_whole("after", visit.query["after"]) if visit.query.get("after") else None
    if served.monitor.durable:
        await served.flush()
        details = await served.read_ledger(_find_in_ledger, served, text, after)
    else:
        recent = served.recent.after(-1)
        details = await served.run_in_thread(_find_in_memory, served, text, recent)
    if details is not None:
        await visit.record_look("people", row=details["row"])
    return PageData(data | (details or {}), lambda: {"most": _MOST})


def _find_in_ledger(
    ledger: Ledger, served: ServedMonitor, text: str, after: int | None
) -> dict[str, Any] | None:
    match = find_key(served, ledger, text)
    if match is None:
        return None
    _, row = match
    entry = ledger.entry(row)
    rows, complete, person = _find_same_person(served, row, SECONDS, _read_superseded(ledger))
    naming = ledger.find_rows_naming(row, after=after, seconds=SECONDS)

    def describe_all(rows: list[int]) -> list[dict[str, Any]]:
        reviews = ledger.dispositions(rows)
        entries = [entry for row in rows if (entry := entry_of(ledger, row)) is not None]
        return [
            {
                **describe_entry(entry),
                "count": entry.count,
                "review": reviews.get(entry.row, "open") if entry.count else None,
            }
            for entry in entries
        ]

    return {
        "row": row,
        "person": person,
        "decisions": describe_all(rows[:_MOST]),
        "decisions_of_person": len(rows),
        "decisions_complete": complete,
        "contradicts": _contradicts(row, entry.nearest),
        "contradicts_count": entry.count,
        "contradicted_by": describe_all(naming.rows),
        "contradicted_by_next": None if naming.next is None else naming.next.row,
    }


def _contradicts(row: int, witnesses: Sequence[Witness]) -> list[dict[str, Any]]:
    return [
        {"row": row, "witness": one.row, "distance": json_value(one.input_distance)}
        for one in witnesses
    ]


def _find_in_memory(
    served: ServedMonitor, text: str, recent: Sequence[Verdict]
) -> dict[str, Any] | None:
    """Find a key in memory; recent: the verdicts that the monitor remembers."""
    match = find_key(served, None, text)
    if match is None:
        return None
    _, row = match
    past = served.monitor.past
    rows, complete, person = _find_same_person(served, row, SECONDS, {})
    unreviewed = {"count": None, "review": None}
    verdict = next((one for one in recent if one.row == row), None)
    naming = [one for one in recent if row in one.witnesses.rows]
    contradicting = describe_rows(past, [one.row or 0 for one in naming])
    return {
        "row": row,
        "person": person,
        "decisions": [decision | unreviewed for decision in describe_rows(past, rows[:_MOST])],
        "decisions_of_person": len(rows),
        "decisions_complete": complete,
        "contradicts": [] if verdict is None else _contradicts(row, verdict.witnesses.nearest(50)),
        "contradicts_count": None if verdict is None else verdict.count,
        "contradicted_by": [
            decision | unreviewed | {"count": one.count}
            for decision, one in zip(contradicting, naming, strict=True)
        ],
        "contradicted_by_next": None,
    }


def _read_superseded(ledger: Ledger) -> dict[int, int]:
    """Return the rows of decisions that were overruled, by the row that replaced them."""
    return {one.by_row: one.row for one in ledger.supersessions()}


def _find_same_person(
    served: ServedMonitor, row: int, seconds: float | None, superseded: Mapping[int, int]
) -> tuple[list[int], bool, dict[str, Any] | None]:
    """Return rows about the same person, newest first; whether they are all; and who it is.

    superseded: rows that only the ledger still has, by the rows that replaced them
    """
    monitor = served.monitor
    column = monitor.rule.person_column
    past = monitor.past
    last = row
    for by_row, earlier in sorted(superseded.items()):
        last = by_row if earlier == last else last
    if column is None or not past.alive([last])[0]:
        return [row], True, None
    codes, values = past.codes(column, [last])
    code = int(codes[0])
    if code < 0:
        return [row], True, None
    rows: list[int] = []
    stop = monitor.rows
    until = None if seconds is None else clock.monotonic() + seconds
    while stop > 0:
        start = max(0, stop - _CHUNK)
        chunk = np.arange(start, stop)
        same = chunk[past.codes(column, chunk).codes == code]
        rows += same[past.alive(same)][::-1].tolist() if len(same) else []
        stop = start
        if until is not None and clock.monotonic() >= until:
            break
    for replacing in rows:  # grows: a superseded row may itself have replaced another
        if replacing in superseded:
            rows.append(superseded[replacing])
    person = {"column": column, "value": json_value(values[code])}
    return sorted({*rows, row}, reverse=True), stop == 0, person


def _find_rows_of_person(served: ServedMonitor, row: int) -> list[int]:
    """Return all rows about the person of a row, however long the search takes."""
    if not served.monitor.durable:
        return _find_same_person(served, row, None, {})[0]
    with closing(Ledger(served.monitor.ledger.path)) as ledger:
        return _find_same_person(served, row, None, _read_superseded(ledger))[0]


# Erasing


async def erase(visit: Visit, fields: Mapping[str, str]) -> str:
    served = visit.served
    text = fields.get("key", "")
    if not text or fields.get("again", "") != text:
        why = (
            "the key that you typed is not the key of this decision. Nothing was erased: go back"
            " and try again."
        )
        raise Refusal(422, why)
    whole_person = fields.get("person") == "all"

    def erase_rows() -> bool:
        match = find_key(served, None, text)
        if match is None:
            raise BadRow(f"no decision here has the key {text[:100]!r}. Nothing was erased.")
        key, row = match
        rows = _find_rows_of_person(served, row) if whole_person else [row]
        record_action(served, visit.viewer.actor, "erase", count=len(rows))
        monitor = served.monitor
        erasure = monitor.erase(rows=rows) if whole_person else monitor.erase(key=[key])
        return erasure.complete

    complete = await served.run_in_turn(erase_rows)
    return visit.url("people", done="erased" if complete else "erased-later")


PARTS: tuple[PagePart, ...] = (
    Screen("people", "read", "People", load, "pages/people.html"),
    Form("people/erase", "erase", erase),
)
