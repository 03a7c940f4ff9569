"""The page that shows how similar cases were decided: a form, and the answer to it.

The form is sent as a POST and its answer is the page itself, so no address, log or history of a
browser has the case. Nothing is remembered of it. Keys, reviewers and reasons need the scope
`review`.
"""

from collections.abc import Mapping
from typing import Any

from likewise.monitor.case_texts import list_case_fields, read_case_fields, read_pasted_case
from likewise.pages.frame import Answer, Fields, PageData, PagePart, Screen
from likewise.pages.page_state import Visit
from likewise.rule.value_names import name_value
from likewise.service.http_errors import Refusal
from likewise.service.routes.case_lookup import log_lookup
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value
from likewise.verdict.precedents import Precedents

_PREFIX = "column-"  # of the fields of columns, so that no column is taken for another field


async def load(visit: Visit) -> PageData:
    return await _load(visit, None)


async def answer(visit: Visit, fields: Fields) -> PageData:
    return await _load(visit, fields)


async def _load(visit: Visit, fields: Fields | None) -> PageData:
    """Load the page, with an answer if a form was sent."""
    served = visit.served
    columns = await served.run_in_turn(lambda: list_case_fields(served.monitor))
    found, flagged = None, set[int]()
    if fields is not None:
        log_lookup(served, visit.viewer.name)

        def look_up() -> tuple[Precedents, set[int]]:
            return _look_up(served, fields)

        found, flagged = await served.run_in_turn(look_up, counts_refusal=False)
        if not visit.allows("review"):
            found = found.hide_people()
        await visit.record_look("look-up", rows=found.rows.tolist())
    rule = served.monitor.rule
    data: dict[str, Any] = {
        "monitor": served.name,
        "columns": [
            {"name": one.name, "kind": one.kind, "choices": list(map(json_value, one.choices))}
            for one in columns
        ],
        "embeds": rule.embed is not None,
        "found": None if found is None else found.to_dict(),
    }

    def name_output(output: Any) -> Any:
        return name_value(rule.output_labels, json_value(output))

    return PageData(
        data,
        lambda: {
            "fields": columns,
            "prefix": _PREFIX,
            "sent": fields or {},
            "says": found and found.describe(name_output),
            "name_output": name_output,
            "labels_of": lambda name: (rule.features or {})[name].labels,
            "name_value": name_value,
            "flagged": flagged,
            "compares_models": rule.compare != "all",
        },
    )


def _look_up(served: ServedMonitor, fields: Mapping[str, str]) -> tuple[Precedents, set[int]]:
    """Find similar cases, and which of them contradict an earlier decision."""
    monitor = served.monitor
    pasted = fields.get("case", "")
    typed = {
        name.removeprefix(_PREFIX): text
        for name, text in fields.items()
        if name.startswith(_PREFIX)
    }
    if pasted.strip():
        x = read_pasted_case(monitor, pasted)
    elif any(text.strip() for text in typed.values()):
        x = read_case_fields(monitor, typed)
    else:
        raise Refusal(422, "there is no case: fill in the form, or paste a case.")
    model = fields.get("model", "").strip() or None
    found = monitor.like(x, limit=served.limits.precedents, model=model)
    rows = found.rows.tolist()
    if not monitor.durable:
        return found, {row for row in rows if served.recent.find(row) is not None}
    reader = monitor.ledger.journal.store.reader
    return found, {row for row in rows if reader.find_flagged(row, row + 1)}


_SCREEN = Screen("look-up", "read", "Look up a case", load, "pages/look_up.html")
PARTS: tuple[PagePart, ...] = (_SCREEN, Answer(_SCREEN, answer))
