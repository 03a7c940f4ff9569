"""The contradictions: a list with filters in its address, and the same as CSV and for Excel."""

import csv
import io
import tempfile
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.responses import Response

from likewise.explaining.comparing import protected_columns
from likewise.ledger.ledger import Ledger
from likewise.ledger.notes import DISPOSITIONS
from likewise.pages import parts
from likewise.pages.frame import HEADERS
from likewise.pages.screen import Download, Part, Screen
from likewise.pages.tally import totals
from likewise.pages.times import moment
from likewise.pages.verdict_list import ORDERS, Wanted, all_listed, listed
from likewise.pages.visit import Visit
from likewise.reports.workbook import Workbook
from likewise.service.looking_back.plain_values import as_text
from likewise.service.refusals import Refusal
from likewise.values.cells import cell_of
from likewise.values.safe import safe

MOST_IN_A_FILE = 10_000
_SECONDS = 10.0  # that a file may take
_CHOICES = 60  # values of a filter that are offered; others can be put into the address
_COLUMNS = (
    "row",
    "witness",
    "distance",
    "output_distance",
    "count",
    "time",
    "key",
    "output",
    "model",
    "witness_time",
    "witness_key",
    "witness_output",
    "witness_model",
    "review",
)


async def known(visit: Visit) -> dict[str, Any]:
    hosted, wanted = visit.hosted, Wanted.of(visit.query)
    page = await listed(hosted, wanted)
    if page.lines:
        await visit.looked("violations", count=len(page.lines))
    if hosted.monitor.durable:
        offered = await hosted.look(_offered)
    else:
        offered = {"models": _some(list(hosted.counts.decisions)), "outputs": [], "groups": []}
    return {
        "monitor": hosted.name,
        "order": wanted.order,
        "filters": {name: told for name, told in wanted.query().items() if told is not None},
        "source": page.source,
        "earlier_gone": page.gone,
        "counts": await totals(hosted, visit.state.tally),
        "violations": page.lines,
        "next": page.next,
        "offered": offered,
    }


def _offered(ledger: Ledger) -> dict[str, list[str]]:
    """What can be filtered by."""
    groups = []
    for column in protected_columns(ledger.rule):
        feature: Any = (ledger.rule.features or {})[column]
        values = feature.order or feature.values or ledger.known_words(column)
        groups += [f"{column}:{as_text(one)}" for one in values if one is not None]
    outputs = ledger.known_words("") if ledger.rule.output == "label" else []
    return {
        "models": _some(ledger.models()),
        "outputs": _some([as_text(one) for one in outputs if one is not None]),
        "groups": _some(groups),
    }


def _some(values: list[str]) -> list[str]:
    return [one for one in values if one][:_CHOICES]


def shown(told: dict[str, Any], visit: Visit) -> str:
    wanted = Wanted.of(visit.query)
    lines = told["violations"]
    return "".join(
        [
            parts.counted(told["counts"]),
            _form(told, visit),
            _about(told, wanted),
            _table(lines, visit) if lines else "",
            _more(told, wanted, visit),
            _files(wanted, visit) if lines else "",
        ]
    )


def _form(told: dict[str, Any], visit: Visit) -> str:
    chosen, offered = told["filters"], told["offered"]
    fields = [parts.choice("order", "Order", [(o, f"{o} first") for o in ORDERS], told["order"])]
    in_ledger = told["source"] == "ledger"
    if in_ledger:
        hint = {"placeholder": "2026-11-17", "autocomplete": "off"}
        fields += [
            parts.field("since", "From (UTC)", chosen.get("since"), **hint),
            parts.field("until", "Before (UTC)", chosen.get("until"), **hint),
        ]
    for name, words, plural in (
        ("model", "Model", "models"),
        ("group", "Group", "groups"),
        ("output", "Output", "outputs"),
    ):
        values = offered[plural]
        if name in chosen and chosen[name] not in values:
            values = [*values, chosen[name]]
        if values:
            options = [("", "any"), *((one, one.replace(":", ": ", 1)) for one in values)]
            fields.append(parts.choice(name, words, options, chosen.get(name)))
    fields.append(
        parts.field("within", "Within distance", chosen.get("within"), inputmode="decimal")
    )
    if in_ledger:
        states = [("", "any"), *((one, one) for one in DISPOSITIONS)]
        fields.append(parts.choice("review", "Review", states, chosen.get("review")))
    return parts.filter_form(visit, "violations", "".join(fields), "Show")


def _about(told: dict[str, Any], wanted: Wanted) -> str:
    words = []
    if told["source"] == "memory":
        words.append(
            "This monitor is in memory: only its latest contradictions are known, without times"
            " and reviews."
        )
    if told["earlier_gone"]:
        words.append("Earlier ones are no longer known.")
    if not told["violations"]:
        if told["next"] is not None:
            words.append("None so far that pass the filters; there are more to look through.")
        elif wanted.filters:
            words.append("No contradiction passes these filters.")
        else:
            words.append("Nothing contradicts anything.")
    elif wanted.order == "nearest" and told["source"] == "ledger":
        words.append("Those whose distances were destroyed with a person's data are not here.")
    return "".join(f'<p class="small">{safe(one)}</p>\n' for one in words)


def _table(lines: list[dict[str, Any]], visit: Visit) -> str:
    models = any(line["model"] or line["witness_model"] for line in lines)
    keys = any(line["key"] is not None for line in lines)
    heads = ["pair", "when", "output", "earlier output", "distance", "witnesses"]
    heads += ["key"] * keys + ["model"] * models + ["review"]
    rows = []
    for line in lines:
        row, witness = line["row"], line["witness"]
        words = f"{row:,}&nbsp;↔&nbsp;{witness:,}" if witness is not None else f"{row:,}"
        pair = words if witness is None else parts.link(visit, words, f"pairs/{row}/{witness}")
        cells = [
            pair,
            moment(line["time"]),
            parts.value(line["output"]),
            parts.value(line["witness_output"]),
            parts.distance(line["distance"]),
            "–" if line["count"] is None else f"{line['count']:,}",
        ]
        if keys:
            key = line["key"]
            named = parts.value(key)
            cells.append(named if key is None else parts.link(visit, named, "people", key=key))
        if models:
            cells.append(_models(line))
        review = line["review"]
        cells.append("–" if review is None else f'<span class="state {review}">{review}</span>')
        rows.append(cells)
    return parts.table(heads, rows, "Contradictions", numbers=(4, 5), kind="cards")


def _models(line: dict[str, Any]) -> str:
    mine, other = line["model"], line["witness_model"]
    if mine == other:
        return parts.value(mine)
    return f"{parts.value(other)} → {parts.value(mine)}"


def _more(told: dict[str, Any], wanted: Wanted, visit: Visit) -> str:
    query = wanted.query()
    links = []
    if wanted.behind is not None:
        links.append(parts.link(visit, "From the beginning", "violations", **query))
    if told["next"] is not None:
        links.append(parts.link(visit, "More", "violations", **query, **{"from": told["next"]}))
    return f'<p class="more">{" · ".join(links)}</p>\n' if links else ""


def _files(wanted: Wanted, visit: Visit) -> str:
    query = wanted.query()
    files = [parts.link(visit, "CSV", "violations.csv", **query)]
    if find_spec("xlsxwriter") is not None:
        files.append(parts.link(visit, "Excel", "violations.xlsx", **query))
    files.append(parts.link(visit, "JSON", "violations.json", **query))
    return (
        f'<p class="small">The same as {", ".join(files)}; at most {MOST_IN_A_FILE:,} lines in a'
        " file, from the beginning of this order.</p>\n"
    )


# Files


async def _lines_of(visit: Visit) -> tuple[list[dict[str, Any]], bool]:
    wanted = Wanted.of(visit.query)
    lines, complete = await all_listed(visit.hosted, wanted, MOST_IN_A_FILE, _SECONDS)
    await visit.looked("violations file", count=len(lines))
    return lines, complete


def _answer(content: bytes, kind: str, name: str, complete: bool) -> Response:
    headers = {
        **HEADERS,
        "content-disposition": f'attachment; filename="{name}"',
        "x-likewise-complete": "true" if complete else "false",
    }
    return Response(content, 200, headers, kind)


def _flat(told: Any) -> Any:
    return ", ".join(map(str, told)) if isinstance(told, list) else told


async def as_csv(visit: Visit) -> Response:
    lines, complete = await _lines_of(visit)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for line in lines:
        writer.writerow([cell_of(_flat(line[name])) for name in _COLUMNS])
    return _answer(text.getvalue().encode(), "text/csv", "violations.csv", complete)


async def as_workbook(visit: Visit) -> Response:
    if find_spec("xlsxwriter") is None:
        raise Refusal(
            501, "a file for Excel needs xlsxwriter: pip install 'likewise[excel]'. CSV is there."
        )
    lines, complete = await _lines_of(visit)
    about = f"Contradictions of {visit.hosted.name}" + ("" if complete else ", not all of them")
    content = await visit.hosted.aside(lambda: _workbook(lines, about))
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return _answer(content, kind, "violations.xlsx", complete)


def _workbook(lines: list[dict[str, Any]], about: str) -> bytes:
    file = io.BytesIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Workbook(file, Path(folder), about)) as book,
    ):
        book.add(_COLUMNS, ([_flat(line[name]) for name in _COLUMNS] for line in lines))
        book.finish()
    return file.getvalue()


PARTS: tuple[Part, ...] = (
    Download("violations.csv", "read", as_csv),
    Download("violations.xlsx", "read", as_workbook),
    Screen("violations", "read", "Violations", known, shown),
)
