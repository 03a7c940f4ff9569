"""People: everything about one key. Its decisions, the pairs that name it, and how to erase it.

A key is the name of one decision. Where the rule has a person column, the other decisions about the
same person are found too.

Erasing takes the key once more, typed by hand.

Cost: a key is found by an index. No index knows who has whom for a witness, nor a person's other
decisions: these are looked for during `SECONDS`, the newest first, and the page says how far it
came.
"""

import time as clock
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from likewise.ledger.ledger import Entry, Ledger
from likewise.pages import parts
from likewise.pages.screen import Form, Part, Screen
from likewise.pages.times import moment
from likewise.pages.visit import Visit
from likewise.reports.document import section
from likewise.reports.stored_pairs import entry_of
from likewise.service.auditing import note
from likewise.service.hosted import Hosted
from likewise.service.looking_back.plain_values import plain
from likewise.service.refusals import Refusal
from likewise.service.routes.query_values import whole
from likewise.values.errors import BadRow
from likewise.values.plain import json_value
from likewise.values.safe import safe, safe_name
from likewise.values.verdicts import Verdict

SECONDS = 0.1
_CHUNK = 1 << 18  # rows of which a column is looked at together
_MOST = 200  # decisions of one person that are shown
_LONGEST = 1000  # characters of a key


def key_meant(hosted: Hosted, ledger: Ledger | None, text: str) -> tuple[Any, int] | None:
    """A key as it was given, from its text, and its row; None if no decision has it."""
    keys: list[Any] = [text]
    if text.lstrip("-").isdigit() and len(text) <= 19:
        keys.append(int(text))
    for key in keys:
        row = hosted.monitor.past.row_of(key)
        if row is None and ledger is not None:
            row = ledger.row_by_index(key)
        if row is not None:
            return key, row
    return None


async def known(visit: Visit) -> dict[str, Any]:
    hosted = visit.hosted
    text = visit.query.get("key", "")
    told: dict[str, Any] = {
        "monitor": hosted.name,
        "durable": hosted.monitor.durable,
        "key": text or None,
        "row": None,
    }
    if not text:
        return told
    if len(text) > _LONGEST:
        raise Refusal(400, f"the key has {len(text):,} characters; expected at most {_LONGEST:,}.")
    after = whole("after", visit.query["after"]) if visit.query.get("after") else None
    if hosted.monitor.durable:
        await hosted.flush()
        found = await hosted.look(lambda ledger: _in_ledger(hosted, ledger, text, after))
    else:
        recent = hosted.recent.after(-1)
        found = await hosted.aside(lambda: _in_memory(hosted, text, recent))
    if found is not None:
        await visit.looked("people", row=found["row"])
    return told | (found or {})


def _in_ledger(
    hosted: Hosted, ledger: Ledger, text: str, after: int | None
) -> dict[str, Any] | None:
    meant = key_meant(hosted, ledger, text)
    if meant is None:
        return None
    _, row = meant
    entry = ledger.entry(row)
    rows, complete, person = _same_person(hosted, row, SECONDS, _overruled(ledger))
    marks = ledger.dispositions(rows)
    naming = ledger.named_by(row, after=after, seconds=SECONDS)
    reviews = ledger.dispositions(naming.rows)
    others = [_decision(one, marks.get(one.row)) for one in _entries(ledger, rows[:_MOST])]
    return {
        "row": row,
        "person": person,
        "decisions": others,
        "decisions_of_person": len(rows),
        "decisions_complete": complete,
        "contradicts": [
            {"row": row, "witness": one.row, "distance": json_value(one.input_distance)}
            for one in entry.nearest
        ],
        "contradicts_count": entry.count,
        "contradicted_by": [
            _decision(one, reviews.get(one.row)) for one in _entries(ledger, naming.rows)
        ],
        "contradicted_by_next": None if naming.next is None else naming.next.row,
    }


def _entries(ledger: Ledger, rows: list[int]) -> list[Entry]:
    return [entry for row in rows if (entry := entry_of(ledger, row)) is not None]


def _decision(entry: Entry, review: str | None) -> dict[str, Any]:
    return {
        "row": entry.row,
        "key": json_value(entry.key),
        "time": entry.time,
        "output": plain(entry.output),
        "model": entry.model,
        "erased": entry.erased,
        "count": entry.count,
        "review": (review or "open") if entry.count else None,
    }


def _in_memory(hosted: Hosted, text: str, recent: Sequence[Verdict]) -> dict[str, Any] | None:
    """recent: the verdicts that the monitor has"""
    meant = key_meant(hosted, None, text)
    if meant is None:
        return None
    _, row = meant
    past = hosted.monitor.past
    rows, complete, person = _same_person(hosted, row, SECONDS, {})
    some = rows[:_MOST]
    columns = zip(some, past.keys(some), past.outputs(some), past.models(some), strict=True)
    verdict = next((one for one in recent if one.row == row), None)
    witnesses = [] if verdict is None else list(verdict.witnesses.nearest(50))
    naming = [one for one in recent if row in one.witnesses.rows]
    return {
        "row": row,
        "person": person,
        "decisions": [
            {
                "row": one,
                "key": json_value(key),
                "time": None,
                "output": plain(output),
                "model": model,
                "erased": False,
                "count": None,
                "review": None,
            }
            for one, key, output, model in columns
        ],
        "decisions_of_person": len(rows),
        "decisions_complete": complete,
        "contradicts": [
            {"row": row, "witness": one.row, "distance": json_value(one.input_distance)}
            for one in witnesses
        ],
        "contradicts_count": None if verdict is None else verdict.count,
        "contradicted_by": [
            {
                "row": one.row,
                "key": json_value(past.keys([one.row])[0]),
                "time": None,
                "output": plain(past.outputs([one.row])[0]),
                "model": one.model,
                "erased": False,
                "count": one.count,
                "review": None,
            }
            for one in naming
        ],
        "contradicted_by_next": None,
    }


def _overruled(ledger: Ledger) -> dict[int, int]:
    """Decisions that were overruled, by the row that took their place."""
    return {one.by_row: one.row for one in ledger.superseded()}


def _same_person(
    hosted: Hosted, row: int, seconds: float | None, overruled: Mapping[int, int]
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


def _rows_of_person(hosted: Hosted, row: int) -> list[int]:
    """All of them, however long that takes."""
    if not hosted.monitor.durable:
        return _same_person(hosted, row, None, {})[0]
    with closing(Ledger(hosted.monitor.path)) as ledger:
        return _same_person(hosted, row, None, _overruled(ledger))[0]


# As HTML


def shown(told: dict[str, Any], visit: Visit) -> str:
    form = parts.filter_form(
        visit,
        "people",
        parts.field("key", "The key of a decision", told["key"], autocomplete="off"),
        "Look it up",
    )
    if told["key"] is None:
        return (
            '<p class="lead">Everything about one key: its decisions, the pairs that name it, and'
            f" how to erase it.</p>\n{form}"
        )
    if told["row"] is None:
        return form + "<p>No decision here has this key. It may have been erased.</p>\n"
    return "".join(
        [
            form,
            section("decisions", "Decisions", "", _decisions(told, visit)),
            section("contradicts", "What it contradicts", "", _contradicts(told, visit)),
            section("named", "What contradicts it", "", _named(told, visit)),
            section("erase", "Erase", "", _erase(told, visit)) if visit.allows("erase") else "",
        ]
    )


def _decisions(told: dict[str, Any], visit: Visit) -> str:
    words = ""
    if told["person"] is not None:
        person = told["person"]
        many = told["decisions_of_person"]
        words = (
            f"<p>{many:,} decision{'s' * (many != 1)} about {safe_name(person['column'])}"
            f" {parts.value(person['value'])}.</p>\n"
        )
        if not told["decisions_complete"]:
            words += "<p>The older ones were not looked at: there are too many decisions.</p>\n"
        elif many > _MOST:
            words += f"<p>The newest {_MOST:,} are shown.</p>\n"
    return words + _table(told["decisions"], visit, "Decisions in a table")


def _table(decisions: list[dict[str, Any]], visit: Visit, label: str) -> str:
    heads = ("row", "key", "when", "output", "model", "contradicts", "review")
    rows = [
        [
            parts.link(visit, f"{one['row']:,}", f"pairs/{one['row']}")
            if one["count"]
            else f"{one['row']:,}",
            parts.value(one["key"])
            if one["key"] is None
            else parts.link(visit, parts.value(one["key"]), "people", key=one["key"]),
            moment(one["time"]),
            "erased" if one["erased"] else parts.value(one["output"]),
            parts.value(one["model"]),
            "–" if one["count"] is None else f"{one['count']:,}",
            "–"
            if one["review"] is None
            else f'<span class="state {one["review"]}">{one["review"]}</span>',
        ]
        for one in decisions
    ]
    return parts.table(heads, rows, label, numbers=(5,), kind="cards")


def _contradicts(told: dict[str, Any], visit: Visit) -> str:
    if not told["contradicts"]:
        return "<p>Nothing that is known here.</p>\n"
    links = ", ".join(
        parts.link(visit, f"row {one['witness']:,}", f"pairs/{one['row']}/{one['witness']}")
        for one in told["contradicts"][:50]
    )
    more = (told["contradicts_count"] or 0) - min(50, len(told["contradicts"]))
    rest = f" and {more:,} more" if more > 0 else ""
    return f"<p>{links}{rest}</p>\n"


def _named(told: dict[str, Any], visit: Visit) -> str:
    later = told["contradicted_by"]
    words = _table(later, visit, "Later decisions that contradict it") if later else ""
    following = told["contradicted_by_next"]
    if following is not None:
        url = parts.link(visit, "look further", "people", key=told["key"], after=following)
        words += f"<p>Looked through contradictions up to row {following:,}; {url}.</p>\n"
    elif not later:
        words = "<p>No later decision that is known here.</p>\n"
    if told["durable"]:
        words += (
            '<p class="small">As far as the ledger keeps it: of each decision the nearest that it'
            " contradicts.</p>\n"
        )
    return words


def _erase(told: dict[str, Any], visit: Visit) -> str:
    all_of = ""
    many = told["decisions_of_person"]
    if told["person"] is not None and many > 1:
        all_of = (
            '<label class="choice"><input type="checkbox" name="person" value="all"> all'
            " decisions about this person, not only this one</label>"
        )
    inside = (
        f'<input type="hidden" name="key" value="{safe(told["key"], None)}">'
        "<p>Inputs, outputs and keys are destroyed, and with them the reasons of reviews about"
        " them. It cannot be undone; that it happened stays in the chain.</p>"
        f"{all_of}"
        '<p class="field"><label for="again">Type the key once more</label>'
        '<input id="again" name="again" required autocomplete="off"></p>'
        '<p><button class="danger">Erase</button></p>'
    )
    return visit.form("people/erase", inside, kind="erase")


# Erasing


async def erase(visit: Visit, fields: Mapping[str, str]) -> str:
    hosted = visit.hosted
    text = fields.get("key", "")
    if not text or fields.get("again", "") != text:
        raise Refusal(
            422, "the key that was typed is another one. Nothing was erased: go back and try again."
        )
    whole_person = fields.get("person") == "all"

    def erased() -> bool:
        meant = key_meant(hosted, None, text)
        if meant is None:
            raise BadRow(f"no decision here has the key {text[:100]!r}. Nothing was erased.")
        key, row = meant
        rows = _rows_of_person(hosted, row) if whole_person else [row]
        note(hosted, visit.viewer.actor, "erase", count=len(rows))
        monitor = hosted.monitor
        done = monitor.erase(rows=rows) if whole_person else monitor.erase(key=[key])
        return done.complete

    complete = await hosted.do(erased)
    return visit.url("people", done="erased" if complete else "erased-later")


PARTS: tuple[Part, ...] = (
    Screen("people", "read", "People", known, shown),
    Form("people/erase", "erase", erase),
)
