"""The contradictions: a list with filters in its address, and the same as CSV and for Excel."""

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
from likewise.pages.frame import HEADERS
from likewise.pages.page_state import Visit
from likewise.pages.running_tally import count_totals
from likewise.pages.screen import Download, PageData, PagePart, Screen
from likewise.reports.stored_pairs import entry_of
from likewise.reports.workbook import Workbook
from likewise.service.http_errors import Refusal
from likewise.service.routes.query_values import parse_number, parse_time, parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value, to_query_text
from likewise.tables.csv_escape import escape_cell
from likewise.verdict.verdict_body import write_body
from likewise.verdict.verdicts import Verdict

ORDERS = ("newest", "nearest")
FILTERS = ("since", "until", "model", "group", "within", "output", "review")
LINES, MOST_LINES = 50, 200
SECONDS = 0.15


@dataclass(frozen=True)
class ViolationsRequest:
    """Which contradictions, in which order, from where on."""

    order: str
    lines: int
    filters: Mapping[str, str]
    """What a line has to be, by the names in FILTERS, as the address says it."""
    behind: PageCursor | None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "ViolationsRequest":
        """From an address; Refusal where it makes no sense. What is empty is not asked for."""
        told = {name: value for name, value in query.items() if value != ""}
        order = told.get("order", "newest")
        if order not in ORDERS:
            raise Refusal(400, f"order: expected one of {', '.join(ORDERS)}.")
        if told.get("review", DISPOSITIONS[0]) not in DISPOSITIONS:
            raise Refusal(400, f"review: expected one of {', '.join(DISPOSITIONS)}.")
        if ":" not in told.get("group", ":"):
            raise Refusal(400, "group: expected column:value.")
        for name in ("since", "until"):
            if name in told:
                parse_time(name, told[name])
        lines = parse_whole("lines", told["lines"]) if "lines" in told else LINES
        if not 1 <= lines <= MOST_LINES:
            raise Refusal(400, f"lines is {lines}; expected 1 to {MOST_LINES}.")
        if "within" in told:
            parse_number("within", told["within"])
        filters = {name: told[name] for name in FILTERS if name in told}
        return cls(
            order, lines, filters, _parse_cursor(told["from"], order) if "from" in told else None
        )

    def to_query(self) -> dict[str, Any]:
        """As an address says it."""
        order = {} if self.order == "newest" else {"order": self.order}
        lines = {} if self.lines == LINES else {"lines": self.lines}
        return {**order, **lines, **self.filters}

    @property
    def within(self) -> float | None:
        return parse_number("within", self.filters["within"]) if "within" in self.filters else None

    def to_ledger_query(self, ledger: Ledger) -> ViolationQuery:
        """What a ledger is asked."""
        told = self.filters
        column, _, value = told.get("group", "").partition(":")
        since, until = (parse_time(n, told[n]) if n in told else None for n in ("since", "until"))
        return ViolationQuery(
            self.order,
            since,
            until,
            told.get("model"),
            ledger.group_of_text(column, value) if "group" in told else None,
            told.get("review"),
            self.within,
            told.get("output"),
        )


def _parse_cursor(text: str, order: str) -> PageCursor:
    """Where to go on: a row; or a distance and a row."""
    distance, comma, row = text.rpartition(",")
    if bool(comma) != (order == "nearest"):
        raise Refusal(400, f"from is {text[:100]!r}, which is no place in this order.")
    return PageCursor(parse_whole("from", row), parse_number("from", distance) if comma else None)


def format_cursor(place: PageCursor | None) -> str | None:
    if place is None:
        return None
    return str(place.row) if place.distance is None else f"{place.distance!r},{place.row}"


@dataclass(frozen=True)
class ViolationsPage:
    """Lines of a list, and where to go on."""

    lines: list[dict[str, Any]]
    next: str | None
    source: str
    """ledger, or memory: then only the latest are known."""
    has_forgotten: bool
    """Whether there were earlier ones, which are no longer known."""


def list_from_ledger(
    ledger: Ledger, wanted: ViolationsRequest, seconds: float = SECONDS
) -> ViolationsPage:
    rows, behind = ledger.violations_page(
        wanted.to_ledger_query(ledger), behind=wanted.behind, limit=wanted.lines, seconds=seconds
    )
    reviews = ledger.dispositions(rows)
    lines = [_stored_line(ledger, ledger.entry(row), reviews.get(row, "open")) for row in rows]
    return ViolationsPage(lines, format_cursor(behind), "ledger", ledger.first > 0)


def _line(
    verdict: Verdict,
    decided: tuple[str | None, Any],
    before: tuple[str | None, Any] | None,
    review: str | None,
) -> dict[str, Any]:
    """A line of the list.

    decided, before  time and output of the decision, and of the nearest that it contradicts; None
                     if that has left the window
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
    hosted: ServedMonitor, wanted: ViolationsRequest, recent: Sequence[Verdict], has_forgotten: bool
) -> ViolationsPage:
    """recent: the verdicts that the monitor has, in order; gone: whether there were earlier ones"""
    for name in ("since", "until", "group", "review"):
        if name in wanted.filters:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    nearest, last = wanted.order == "nearest", wanted.behind
    verdicts = [one for one in recent if one.violation and _is_match(hosted, one, wanted)]
    if nearest:  # not those whose distances were destroyed (ledger/violation_query.py)
        verdicts = [one for one in verdicts if not math.isnan(_rank(one, "nearest")[0])]
    verdicts.sort(key=lambda one: _rank(one, wanted.order))
    if last is not None:
        rank = (last.distance, last.row) if nearest else (0.0, -last.row)
        verdicts = [one for one in verdicts if _rank(one, wanted.order) > rank]
    some = verdicts[: wanted.lines]
    following = None
    if len(verdicts) > len(some):
        distance = _rank(some[-1], wanted.order)[0] if nearest else None
        following = format_cursor(PageCursor(some[-1].row or 0, distance))
    lines = [_remembered_line(hosted, verdict) for verdict in some]
    return ViolationsPage(lines, following, "memory", has_forgotten)


def _rank(verdict: Verdict, order: str) -> tuple[float, int]:
    row = verdict.row or 0
    if order == "newest":
        return 0.0, -row
    return float(verdict.witnesses.input_distances.min()), row


def _is_match(hosted: ServedMonitor, verdict: Verdict, wanted: ViolationsRequest) -> bool:
    filters, within = wanted.filters, wanted.within
    if verdict.model != filters.get("model", verdict.model):
        return False
    if within is not None and not verdict.witnesses.input_distances.min() <= within:
        return False
    past = hosted.monitor.past
    return "output" not in filters or (
        to_query_text(past.outputs([verdict.row or 0])[0]) == filters["output"]
    )


def _remembered_line(hosted: ServedMonitor, verdict: Verdict) -> dict[str, Any]:
    nearest = verdict.witnesses.nearest(1)[0]
    mine, other = hosted.monitor.past.outputs([verdict.row or 0, nearest.row])
    return _line(verdict, (None, mine), (None, other), None)


async def list_violations(
    hosted: ServedMonitor, wanted: ViolationsRequest, seconds: float = SECONDS
) -> ViolationsPage:
    """The list that an address asks for."""
    hosted.monitor.insist_on_contradictions()
    if not hosted.monitor.durable:
        recent, gone = (
            hosted.recent.after(-1),
            hosted.recent.last_dropped >= 0,
        )  # only here: it grows
        return await hosted.run_in_thread(lambda: list_from_memory(hosted, wanted, recent, gone))
    await hosted.flush()
    return await hosted.read_ledger(lambda ledger: list_from_ledger(ledger, wanted, seconds))


async def list_all_violations(
    hosted: ServedMonitor, wanted: ViolationsRequest, most: int, seconds: float
) -> tuple[list[dict[str, Any]], bool]:
    """So many lines of a list, page after page, and whether these are all."""
    lines: list[dict[str, Any]] = []
    until = clock.monotonic() + seconds
    wanted = replace(wanted, lines=MOST_LINES)
    while len(lines) < most:
        page = await list_violations(hosted, wanted, max(SECONDS, until - clock.monotonic()))
        lines += page.lines
        if page.next is None:
            return lines[:most], len(lines) <= most
        wanted = replace(wanted, behind=_parse_cursor(page.next, wanted.order))
        if clock.monotonic() >= until:
            break
    return lines[:most], False


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
    hosted, wanted = visit.hosted, ViolationsRequest.of(visit.query)
    page = await list_violations(hosted, wanted)
    if page.lines:
        await visit.record_look("violations", count=len(page.lines))
    if hosted.monitor.durable:
        offered = await hosted.read_ledger(_find_filter_values)
    else:
        offered = {
            "models": _limit_values(list(hosted.counts.decisions)),
            "outputs": [],
            "groups": [],
        }
    data = {
        "monitor": hosted.name,
        "order": wanted.order,
        "filters": wanted.to_query(),
        "source": page.source,
        "earlier_gone": page.has_forgotten,
        "counts": await count_totals(hosted, visit.state.tally),
        "violations": page.lines,
        "next": page.next,
        "offered": offered,
    }
    return PageData(
        data,
        lambda: {
            "orders": [(one, f"{one} first") for one in ORDERS],
            "offered": {
                name: _filter_options(offered[f"{name}s"], wanted.filters.get(name))
                for name in ("model", "group", "output")
            },
            "reviews": [("", "any"), *((one, one) for one in DISPOSITIONS)],
            "filtered": bool(wanted.filters),
            "has_keys": any(line["key"] is not None for line in page.lines),
            "has_models": any(line["model"] or line["witness_model"] for line in page.lines),
            "query": wanted.to_query(),
            "behind": wanted.behind is not None,
            "excel": find_spec("xlsxwriter") is not None,
            "most": MOST_IN_A_FILE,
        },
    )


def _filter_options(values: list[str], chosen: str | None) -> list[tuple[str, str]]:
    """The choices of a filter, with the one that is chosen; none if nothing can be chosen."""
    values = values if chosen is None or chosen in values else [*values, chosen]
    options = [(one, one.replace(":", ": ", 1)) for one in values]
    return [("", "any"), *options] if options else []


def _find_filter_values(ledger: Ledger) -> dict[str, list[str]]:
    """What can be filtered by."""
    groups = []
    for column in protected_columns(ledger.rule):
        feature: Any = (ledger.rule.features or {})[column]
        values = feature.order or feature.values or ledger.known_words(column)
        groups += [f"{column}:{to_query_text(one)}" for one in values if one is not None]
    outputs = ledger.known_words("") if ledger.rule.output == "label" else []
    return {
        "models": _limit_values(ledger.models()),
        "outputs": _limit_values([to_query_text(one) for one in outputs if one is not None]),
        "groups": _limit_values(groups),
    }


def _limit_values(values: list[str]) -> list[str]:
    return [one for one in values if one][:_CHOICES]


# Files


async def _lines_of(visit: Visit) -> tuple[list[dict[str, Any]], bool]:
    wanted = ViolationsRequest.of(visit.query)
    lines, complete = await list_all_violations(visit.hosted, wanted, MOST_IN_A_FILE, _SECONDS)
    await visit.record_look("violations file", count=len(lines))
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


async def download_csv(visit: Visit) -> Response:
    lines, complete = await _lines_of(visit)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for line in lines:
        writer.writerow([escape_cell(_flat(line[name])) for name in _COLUMNS])
    return _answer(text.getvalue().encode(), "text/csv", "violations.csv", complete)


async def download_workbook(visit: Visit) -> Response:
    if find_spec("xlsxwriter") is None:
        raise Refusal(
            501, "a file for Excel needs xlsxwriter: pip install 'likewise[excel]'. CSV is there."
        )
    lines, complete = await _lines_of(visit)
    about = f"Contradictions of {visit.hosted.name}" + ("" if complete else ", not all of them")
    content = await visit.hosted.run_in_thread(lambda: _workbook(lines, about))
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


PARTS: tuple[PagePart, ...] = (
    Download("violations.csv", "read", download_csv),
    Download("violations.xlsx", "read", download_workbook),
    Screen("violations", "read", "Violations", load, "pages/violations.html"),
)
