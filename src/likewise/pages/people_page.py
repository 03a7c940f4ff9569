"""People: everything about one key. Its decisions, the pairs that name it, and how to erase it.

A key is the name of one decision. Where the rule has a person column, the other decisions about the
same person are found too.

Erasing takes the key once more, typed by hand.

Cost: a key is found by an index. No index knows who has whom for a witness, nor a person's other
decisions: these are looked for during `SECONDS`, the newest first, and the page says how far it
came.
"""

import re
import time as clock
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.ledger.ledger import Ledger
from likewise.pages.page_state import Visit
from likewise.pages.screen import Form, PageData, PagePart, Screen
from likewise.reports.stored_pairs import entry_of
from likewise.service.admin_log import record_action
from likewise.service.http_errors import Refusal
from likewise.service.routes.query_values import parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witness

SECONDS = 0.1
_CHUNK = 1 << 18  # rows of which a column is looked at together
_MOST = 200  # decisions of one person that are shown
_LONGEST = 1000  # characters of a key


def find_key(hosted: ServedMonitor, ledger: Ledger | None, text: str) -> tuple[Any, int] | None:
    """A key as it was given, from its text, and its row; None if no decision has it."""
    keys: list[Any] = [text]
    if re.fullmatch("-?[0-9]{1,19}", text):
        keys.append(int(text))
    for key in keys:
        row = hosted.monitor.past.row_of(key)
        if row is None and ledger is not None:
            row = ledger.row_by_index(key)
        if row is not None:
            return key, row
    return None


async def load(visit: Visit) -> PageData:
    hosted = visit.hosted
    text = visit.query.get("key", "")
    data: dict[str, Any] = {
        "monitor": hosted.name,
        "durable": hosted.monitor.durable,
        "key": text or None,
        "row": None,
    }
    if not text:
        return PageData(data)
    if len(text) > _LONGEST:
        raise Refusal(400, f"the key has {len(text):,} characters; expected at most {_LONGEST:,}.")
    after = parse_whole("after", visit.query["after"]) if visit.query.get("after") else None
    if hosted.monitor.durable:
        await hosted.flush()
        found = await hosted.read_ledger(
            lambda ledger: _find_in_ledger(hosted, ledger, text, after)
        )
    else:
        recent = hosted.recent.after(-1)
        found = await hosted.run_in_thread(lambda: _find_in_memory(hosted, text, recent))
    if found is not None:
        await visit.record_look("people", row=found["row"])
    return PageData(data | (found or {}), lambda: {"most": _MOST})


def _find_in_ledger(
    hosted: ServedMonitor, ledger: Ledger, text: str, after: int | None
) -> dict[str, Any] | None:
    meant = find_key(hosted, ledger, text)
    if meant is None:
        return None
    _, row = meant
    entry = ledger.entry(row)
    rows, complete, person = _find_same_person(hosted, row, SECONDS, _read_superseded(ledger))
    naming = ledger.find_rows_naming(row, after=after, seconds=SECONDS)

    def decisions(rows: list[int], marks: Mapping[int, str]) -> list[dict[str, Any]]:
        entries = [one for row in rows if (one := entry_of(ledger, row)) is not None]
        return [
            _decision(
                *(one.row, one.key, one.output, one.model, one.count),
                time=one.time,
                erased=one.erased,
                review=marks.get(one.row, "open") if one.count else None,
            )
            for one in entries
        ]

    return {
        "row": row,
        "person": person,
        "decisions": decisions(rows[:_MOST], ledger.dispositions(rows)),
        "decisions_of_person": len(rows),
        "decisions_complete": complete,
        "contradicts": _contradicts(row, entry.nearest),
        "contradicts_count": entry.count,
        "contradicted_by": decisions(naming.rows, ledger.dispositions(naming.rows)),
        "contradicted_by_next": None if naming.next is None else naming.next.row,
    }


def _decision(
    row: int | None,
    key: Any,
    output: Any,
    model: str | None,
    count: int | None,
    *,
    time: str | None = None,
    erased: bool = False,
    review: str | None = None,
) -> dict[str, Any]:
    return {
        "row": row,
        "key": json_value(key),
        "time": time,
        "output": json_value(output),
        "model": model,
        "erased": erased,
        "count": count,
        "review": review,
    }


def _contradicts(row: int, witnesses: Sequence[Witness]) -> list[dict[str, Any]]:
    return [
        {"row": row, "witness": one.row, "distance": json_value(one.input_distance)}
        for one in witnesses
    ]


def _find_in_memory(
    hosted: ServedMonitor, text: str, recent: Sequence[Verdict]
) -> dict[str, Any] | None:
    """recent: the verdicts that the monitor has"""
    meant = find_key(hosted, None, text)
    if meant is None:
        return None
    _, row = meant
    past = hosted.monitor.past
    rows, complete, person = _find_same_person(hosted, row, SECONDS, {})
    some = rows[:_MOST]
    columns = zip(some, past.keys(some), past.outputs(some), past.models(some), strict=True)
    verdict = next((one for one in recent if one.row == row), None)
    naming = [one for one in recent if row in one.witnesses.rows]
    their_rows = [one.row for one in naming]
    theirs = zip(naming, past.keys(their_rows), past.outputs(their_rows), strict=True)
    return {
        "row": row,
        "person": person,
        "decisions": [_decision(*column, None) for column in columns],
        "decisions_of_person": len(rows),
        "decisions_complete": complete,
        "contradicts": [] if verdict is None else _contradicts(row, verdict.witnesses.nearest(50)),
        "contradicts_count": None if verdict is None else verdict.count,
        "contradicted_by": [
            _decision(one.row, key, output, one.model, one.count) for one, key, output in theirs
        ],
        "contradicted_by_next": None,
    }


def _read_superseded(ledger: Ledger) -> dict[int, int]:
    """Decisions that were overruled, by the row that took their place."""
    return {one.by_row: one.row for one in ledger.supersessions()}


def _find_same_person(
    hosted: ServedMonitor, row: int, seconds: float | None, overruled: Mapping[int, int]
) -> tuple[list[int], bool, dict[str, Any] | None]:
    """Rows about the same person, the newest first; whether these are all; and who it is.

    overruled: rows that only the ledger still has, by those that took their place
    """
    monitor = hosted.monitor
    column = monitor.rule.person_column
    past = monitor.past
    last = row
    for by_row, earlier in sorted(overruled.items()):
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
        mine = chunk[past.codes(column, chunk).codes == code]
        rows += mine[past.alive(mine)][::-1].tolist() if len(mine) else []
        stop = start
        if until is not None and clock.monotonic() >= until:
            break
    for one in rows:  # which grows: one that was overruled may have overruled another
        if one in overruled:
            rows.append(overruled[one])
    person = {"column": column, "value": json_value(values[code])}
    return sorted({*rows, row}, reverse=True), stop == 0, person


def _rows_of_person(hosted: ServedMonitor, row: int) -> list[int]:
    """All of them, however long that takes."""
    if not hosted.monitor.durable:
        return _find_same_person(hosted, row, None, {})[0]
    with closing(Ledger(hosted.monitor.path)) as ledger:
        return _find_same_person(hosted, row, None, _read_superseded(ledger))[0]


# Erasing


async def erase(visit: Visit, fields: Mapping[str, str]) -> str:
    hosted = visit.hosted
    text = fields.get("key", "")
    if not text or fields.get("again", "") != text:
        raise Refusal(
            422, "the key that was typed is another one. Nothing was erased: go back and try again."
        )
    whole_person = fields.get("person") == "all"

    def erase_rows() -> bool:
        meant = find_key(hosted, None, text)
        if meant is None:
            raise BadRow(f"no decision here has the key {text[:100]!r}. Nothing was erased.")
        key, row = meant
        rows = _rows_of_person(hosted, row) if whole_person else [row]
        record_action(hosted, visit.viewer.actor, "erase", count=len(rows))
        monitor = hosted.monitor
        done = monitor.erase(rows=rows) if whole_person else monitor.erase(key=[key])
        return done.complete

    complete = await hosted.run_in_turn(erase_rows)
    return visit.url("people", done="erased" if complete else "erased-later")


PARTS: tuple[PagePart, ...] = (
    Screen("people", "read", "People", load, "pages/people.html"),
    Form("people/erase", "erase", erase),
)
