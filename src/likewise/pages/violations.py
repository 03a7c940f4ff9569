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
from likewise.pages.frame import HEADERS
from likewise.pages.screen import Download, PageData, Part, Screen
from likewise.pages.tally import totals
from likewise.pages.verdict_list import ORDERS, Wanted, all_listed, listed
from likewise.pages.visit import Visit
from likewise.reports.workbook import Workbook
from likewise.service.refusals import Refusal
from likewise.values.cells import cell_of
from likewise.values.codec import as_text

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


async def load(visit: Visit) -> PageData:
    hosted, wanted = visit.hosted, Wanted.of(visit.query)
    page = await listed(hosted, wanted)
    if page.lines:
        await visit.looked("violations", count=len(page.lines))
    if hosted.monitor.durable:
        offered = await hosted.look(_offered)
    else:
        offered = {"models": _some(list(hosted.counts.decisions)), "outputs": [], "groups": []}
    data = {
        "monitor": hosted.name,
        "order": wanted.order,
        "filters": wanted.query(),
        "source": page.source,
        "earlier_gone": page.gone,
        "counts": await totals(hosted, visit.state.tally),
        "violations": page.lines,
        "next": page.next,
        "offered": offered,
    }
    return PageData(
        data,
        lambda: {
            "orders": [(one, f"{one} first") for one in ORDERS],
            "offered": {
                name: _options(offered[f"{name}s"], wanted.filters.get(name))
                for name in ("model", "group", "output")
            },
            "reviews": [("", "any"), *((one, one) for one in DISPOSITIONS)],
            "filtered": bool(wanted.filters),
            "has_keys": any(line["key"] is not None for line in page.lines),
            "has_models": any(line["model"] or line["witness_model"] for line in page.lines),
            "query": wanted.query(),
            "behind": wanted.behind is not None,
            "excel": find_spec("xlsxwriter") is not None,
            "most": MOST_IN_A_FILE,
        },
    )


def _options(values: list[str], chosen: str | None) -> list[tuple[str, str]]:
    """The choices of a filter, with the one that is chosen; none if nothing can be chosen."""
    values = values if chosen is None or chosen in values else [*values, chosen]
    options = [(one, one.replace(":", ": ", 1)) for one in values]
    return [("", "any"), *options] if options else []


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
    Screen("violations", "read", "Violations", load, "pages/violations.html"),
)
