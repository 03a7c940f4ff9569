"""The page of contradictions: a list with filters in its address, also as CSV and for Excel.

A ledger finds the lines of a page by its indexes. A monitor in memory knows only its recent
verdicts, which are filtered and sorted here.
Cost: `SECONDS` for a page; a file may take longer, and says whether it is complete.
"""

import csv
import io
import math
import tempfile
import time as clock
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.responses import Response

from likewise.explaining.compare_groups import protected_columns
from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.notes import DISPOSITIONS
from likewise.ledger.violation_query import PageCursor, ViolationQuery
from likewise.pages.frame import HEADERS, Download, PageData, PagePart, Screen
from likewise.pages.page_state import Visit
from likewise.pages.running_tally import count_totals
from likewise.reports.selected_pairs import entry_of
from likewise.reports.workbook import Workbook
from likewise.service.http_errors import Refusal
from likewise.service.routes.looking_back import resolve_group
from likewise.service.routes.query_values import parse_number, parse_violation_query, parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value, to_query_text
from likewise.tables.printing import escape_cell
from likewise.verdict.verdict_body import write_body
from likewise.verdict.verdicts import Verdict

ORDERS = ("newest", "nearest")
FILTERS = ("since", "until", "model", "group", "within", "output", "review")
LINES, MOST_LINES = 50, 200
SECONDS = 0.15


@dataclass(frozen=True)
class ViolationsRequest:
    """A list of contradictions, as an address asks for it."""

    query: ViolationQuery
    """Order and filters; the value of the group is text."""
    lines: int
    filters: Mapping[str, str]
    """The filters as the address writes them, by the names in FILTERS."""
    behind: PageCursor | None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "ViolationsRequest":
        """Read an address; Refusal if it makes no sense. Empty parameters are ignored."""
        values = {name: value for name, value in query.items() if value != ""}
        order = values.get("order", "newest")
        if order not in ORDERS:
            raise Refusal(400, f"order: expected one of {', '.join(ORDERS)}.")
        lines = parse_whole("lines", values["lines"]) if "lines" in values else LINES
        if not 1 <= lines <= MOST_LINES:
            raise Refusal(400, f"lines is {lines}; expected 1 to {MOST_LINES}.")
        return cls(
            replace(parse_violation_query(values), order=order),
            lines,
            {name: values[name] for name in FILTERS if name in values},
            _parse_cursor(values["from"], order) if "from" in values else None,
        )

    def to_query(self) -> dict[str, Any]:
        """Return the parameters of the address, without the cursor."""
        order = {} if self.query.order == "newest" else {"order": self.query.order}
        lines = {} if self.lines == LINES else {"lines": self.lines}
        return {**order, **lines, **self.filters}


def _parse_cursor(text: str, order: str) -> PageCursor:
    """Read where the next page begins: a row, or a distance and a row."""
    distance, comma, row = text.rpartition(",")
    if bool(comma) != (order == "nearest"):
        raise Refusal(400, f"from is {text[:100]!r}, which is no place in this order.")
    return PageCursor(parse_whole("from", row), parse_number("from", distance) if comma else None)


def format_cursor(cursor: PageCursor | None) -> str | None:
    if cursor is None:
        return None
    return str(cursor.row) if cursor.distance is None else f"{cursor.distance!r},{cursor.row}"


@dataclass(frozen=True)
class ViolationsPage:
    """Holds lines of a list, and the cursor of the next page."""

    lines: list[dict[str, Any]]
    next: str | None
    source: str
    """"ledger" or "memory"; in memory only the latest contradictions are known."""
    has_forgotten: bool
    """Whether there were earlier contradictions, which are no longer known."""


def list_from_ledger(
    ledger: Ledger, request: ViolationsRequest, seconds: float = SECONDS
) -> ViolationsPage:
    query = resolve_group(ledger, request.query)
    rows, following = ledger.violations_page(
        query, behind=request.behind, limit=request.lines, seconds=seconds
    )
    reviews = ledger.dispositions(rows)
    lines = [_stored_line(ledger, ledger.entry(row), reviews.get(row, "open")) for row in rows]
    return ViolationsPage(lines, format_cursor(following), "ledger", ledger.first > 0)


def _line(
    verdict: Verdict,
    decided: tuple[str | None, Any],
    before: tuple[str | None, Any] | None,
    review: str | None,
) -> dict[str, Any]:
    """Make a line of the list.

    decided  time and output of the decision
    before   those of the nearest decision that it contradicts; None if that has left the window
    """
    body = write_body(verdict, 1)
    nearest = body["witnesses"][0] if body["witnesses"] else {}
    time, output = before or (None, None)
    return {
        "row": body["row"],
        "witness": nearest.get("row"),
        "distance": nearest.get("input_distance"),
        "output_distance": nearest.get("output_distance"),
        "count": body["count"],
        "time": decided[0],
        "key": body.get("key"),
        "output": json_value(decided[1]),
        "model": body.get("model"),
        "witness_time": time,
        "witness_key": nearest.get("key"),
        "witness_output": json_value(output),
        "witness_model": nearest.get("model"),
        "review": review,
    }


def _stored_line(ledger: Ledger, entry: Entry, review: str) -> dict[str, Any]:
    nearest = entry.nearest[0] if entry.nearest else None
    other = None if nearest is None else entry_of(ledger, nearest.row)
    before = None if other is None else (other.time, other.output)
    return _line(ledger.verdict_of(entry), (entry.time, entry.output), before, review)


# In memory


def list_from_memory(
    served: ServedMonitor,
    request: ViolationsRequest,
    recent: Sequence[Verdict],
    has_forgotten: bool,
) -> ViolationsPage:
    """List the contradictions among the recent verdicts, as a ledger would list them.

    recent         the verdicts that the monitor remembers, in order
    has_forgotten  whether there were earlier ones
    """
    for name in ("since", "until", "group", "review"):
        if name in request.filters:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    query, behind = request.query, request.behind
    by_distance = query.order == "nearest"
    matches = [
        (PageCursor(verdict.row or 0, _nearest_distance(verdict) if by_distance else None), verdict)
        for verdict in recent
        if verdict.violation and _is_match(served, verdict, query)
    ]
    matches.sort(key=lambda match: _rank(match[0]))
    if behind is not None:
        matches = [match for match in matches if _rank(match[0]) > _rank(behind)]
    page = matches[: request.lines]
    following = format_cursor(page[-1][0]) if len(matches) > len(page) else None
    lines = [_remembered_line(served, verdict) for _, verdict in page]
    return ViolationsPage(lines, following, "memory", has_forgotten)


def _rank(cursor: PageCursor) -> tuple[float, int]:
    """Return what lists are sorted by: the distance, or the newest row first."""
    return (0.0, -cursor.row) if cursor.distance is None else (cursor.distance, cursor.row)


def _nearest_distance(verdict: Verdict) -> float:
    return float(verdict.witnesses.input_distances.min())


def _is_match(served: ServedMonitor, verdict: Verdict, query: ViolationQuery) -> bool:
    if query.model is not None and verdict.model != query.model:
        return False
    if query.within is not None and not _nearest_distance(verdict) <= query.within:
        return False
    if query.order == "nearest" and math.isnan(_nearest_distance(verdict)):
        return False  # its distances were destroyed with a person's data
    if query.output is None:
        return True
    return to_query_text(served.monitor.past.outputs([verdict.row or 0])[0]) == query.output


def _remembered_line(served: ServedMonitor, verdict: Verdict) -> dict[str, Any]:
    nearest = verdict.witnesses.nearest(1)[0]
    mine, other = served.monitor.past.outputs([verdict.row or 0, nearest.row])
    return _line(verdict, (None, mine), (None, other), None)


async def list_violations(
    served: ServedMonitor, request: ViolationsRequest, seconds: float = SECONDS
) -> ViolationsPage:
    """Return the list that an address asks for."""
    served.monitor.core.require_contradictions()
    if not served.monitor.durable:
        recent = served.recent.after(-1)  # on the event loop: verdicts are added there
        has_forgotten = served.recent.last_dropped >= 0
        return await served.run_in_thread(list_from_memory, served, request, recent, has_forgotten)
    await served.flush()
    return await served.read_ledger(list_from_ledger, request, seconds)


async def list_all_violations(
    served: ServedMonitor, request: ViolationsRequest, most: int, seconds: float
) -> tuple[list[dict[str, Any]], bool]:
    """Return at most so many lines of a list, page after page, and whether these are all."""
    lines: list[dict[str, Any]] = []
    until = clock.monotonic() + seconds
    request = replace(request, lines=MOST_LINES)
    while len(lines) < most:
        page = await list_violations(served, request, max(SECONDS, until - clock.monotonic()))
        lines += page.lines
        if page.next is None:
            return lines[:most], len(lines) <= most
        behind = _parse_cursor(page.next, request.query.order)
        request = replace(request, behind=behind)
        if clock.monotonic() >= until:
            break
    return lines[:most], False


MOST_IN_A_FILE = 10_000
_FILE_SECONDS = 10.0
_CHOICES = 60  # values that a filter offers; others can be written into the address
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
    served, request = visit.served, ViolationsRequest.of(visit.query)
    page = await list_violations(served, request)
    if page.lines:
        await visit.record_look("violations", count=len(page.lines))
    if served.monitor.durable:
        offered = await served.read_ledger(_find_filter_values)
    else:
        models = _limit_values(list(served.counts.decisions))
        offered = {"models": models, "outputs": [], "groups": []}
    data = {
        "monitor": served.name,
        "order": request.query.order,
        "filters": request.to_query(),
        "source": page.source,
        "earlier_unavailable": page.has_forgotten,
        "counts": await count_totals(served, visit.state.tally),
        "violations": page.lines,
        "next": page.next,
        "filter_values": offered,
    }
    return PageData(
        data,
        lambda: {
            "orders": [(order, f"{order} first") for order in ORDERS],
            "offered": {
                name: _filter_options(offered[f"{name}s"], request.filters.get(name))
                for name in ("model", "group", "output")
            },
            "reviews": [("", "any"), *zip(DISPOSITIONS, DISPOSITIONS, strict=True)],
            "filtered": bool(request.filters),
            "has_keys": any(line["key"] is not None for line in page.lines),
            "has_models": any(line["model"] or line["witness_model"] for line in page.lines),
            "query": request.to_query(),
            "behind": request.behind is not None,
            "excel": find_spec("xlsxwriter") is not None,
            "most": MOST_IN_A_FILE,
        },
    )


def _filter_options(values: list[str], chosen: str | None) -> list[tuple[str, str]]:
    """Return the choices of a filter, with the chosen one; none if there is nothing to choose."""
    values = values if chosen is None or chosen in values else [*values, chosen]
    options = [(value, value.replace(":", ": ", 1)) for value in values]
    return [("", "any"), *options] if options else []


def _find_filter_values(ledger: Ledger) -> dict[str, list[str]]:
    """Return the values that a list can be filtered by."""
    groups = []
    for column in protected_columns(ledger.rule):
        feature: Any = (ledger.rule.features or {})[column]
        values = feature.order or feature.values or ledger.known_words(column)
        groups += [f"{column}:{to_query_text(value)}" for value in values if value is not None]
    outputs = ledger.known_words("") if ledger.rule.output == "label" else []
    return {
        "models": _limit_values(ledger.models()),
        "outputs": _limit_values([to_query_text(value) for value in outputs if value is not None]),
        "groups": _limit_values(groups),
    }


def _limit_values(values: list[str]) -> list[str]:
    return [value for value in values if value][:_CHOICES]


# Files


async def _list_for_file(visit: Visit) -> tuple[list[dict[str, Any]], bool]:
    request = ViolationsRequest.of(visit.query)
    most, seconds = MOST_IN_A_FILE, _FILE_SECONDS
    lines, complete = await list_all_violations(visit.served, request, most, seconds)
    await visit.record_look("violations file", count=len(lines))
    return lines, complete


def _answer_file(content: bytes, kind: str, name: str, complete: bool) -> Response:
    headers = {
        **HEADERS,
        "content-disposition": f'attachment; filename="{name}"',
        "x-likewise-complete": "true" if complete else "false",
    }
    return Response(content, 200, headers, kind)


def _flatten(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


async def download_csv(visit: Visit) -> Response:
    lines, complete = await _list_for_file(visit)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for line in lines:
        writer.writerow([escape_cell(_flatten(line[name])) for name in _COLUMNS])
    return _answer_file(text.getvalue().encode(), "text/csv", "violations.csv", complete)


async def download_workbook(visit: Visit) -> Response:
    if find_spec("xlsxwriter") is None:
        raise Refusal(
            501,
            "a file for Excel needs xlsxwriter on the server: pip install '.[excel]' in the clone"
            " of likewise. CSV needs nothing.",
        )
    lines, complete = await _list_for_file(visit)
    about = f"Contradictions of {visit.served.name}" + ("" if complete else ", not all of them")
    content = await visit.served.run_in_thread(_make_workbook, lines, about)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return _answer_file(content, kind, "violations.xlsx", complete)


def _make_workbook(lines: list[dict[str, Any]], about: str) -> bytes:
    file = io.BytesIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Workbook(file, Path(folder), about)) as book,
    ):
        book.add(_COLUMNS, ([_flatten(line[name]) for name in _COLUMNS] for line in lines))
        book.finish()
    return file.getvalue()


PARTS: tuple[PagePart, ...] = (
    Download("violations.csv", "read", download_csv),
    Download("violations.xlsx", "read", download_workbook),
    Screen("violations", "read", "Violations", load, "pages/violations.html"),
)
