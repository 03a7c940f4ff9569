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
from likewise.ledger.violation_query import Place, ViolationQuery
from likewise.pages.frame import HEADERS
from likewise.pages.page_state import Visit
from likewise.pages.running_tally import totals
from likewise.pages.screen import Download, PageData, Part, Screen
from likewise.reports.stored_pairs import entry_of
from likewise.reports.workbook import Workbook
from likewise.service.http_errors import Refusal
from likewise.service.routes.query_values import moment, number, whole
from likewise.service.served_monitor import Hosted
from likewise.tables.codec import as_text, json_value
from likewise.tables.csv_escape import cell_of
from likewise.verdict.verdict_body import write_body
from likewise.verdict.verdicts import Verdict

ORDERS = ("newest", "nearest")
FILTERS = ("since", "until", "model", "group", "within", "output", "review")
LINES, MOST_LINES = 50, 200
SECONDS = 0.15


@dataclass(frozen=True)
class Wanted:
    """Which contradictions, in which order, from where on."""

    order: str
    lines: int
    filters: Mapping[str, str]
    """What a line has to be, by the names in FILTERS, as the address says it."""
    behind: Place | None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Wanted":
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
                moment(name, told[name])
        lines = whole("lines", told["lines"]) if "lines" in told else LINES
        if not 1 <= lines <= MOST_LINES:
            raise Refusal(400, f"lines is {lines}; expected 1 to {MOST_LINES}.")
        if "within" in told:
            number("within", told["within"])
        filters = {name: told[name] for name in FILTERS if name in told}
        return cls(order, lines, filters, _place(told["from"], order) if "from" in told else None)

    def query(self) -> dict[str, Any]:
        """As an address says it."""
        order = {} if self.order == "newest" else {"order": self.order}
        lines = {} if self.lines == LINES else {"lines": self.lines}
        return {**order, **lines, **self.filters}

    @property
    def within(self) -> float | None:
        return number("within", self.filters["within"]) if "within" in self.filters else None

    def in_ledger(self, ledger: Ledger) -> ViolationQuery:
        """What a ledger is asked."""
        told = self.filters
        column, _, value = told.get("group", "").partition(":")
        since, until = (moment(n, told[n]) if n in told else None for n in ("since", "until"))
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


def _place(text: str, order: str) -> Place:
    """Where to go on: a row; or a distance and a row."""
    distance, comma, row = text.rpartition(",")
    if bool(comma) != (order == "nearest"):
        raise Refusal(400, f"from is {text[:100]!r}, which is no place in this order.")
    return Place(whole("from", row), number("from", distance) if comma else None)


def place_text(place: Place | None) -> str | None:
    if place is None:
        return None
    return str(place.row) if place.distance is None else f"{place.distance!r},{place.row}"


@dataclass(frozen=True)
class Listed:
    """Lines of a list, and where to go on."""

    lines: list[dict[str, Any]]
    next: str | None
    source: str
    """ledger, or memory: then only the latest are known."""
    gone: bool
    """Whether there were earlier ones, which are no longer known."""


def from_ledger(ledger: Ledger, wanted: Wanted, seconds: float = SECONDS) -> Listed:
    rows, behind = ledger.violations_page(
        wanted.in_ledger(ledger), behind=wanted.behind, limit=wanted.lines, seconds=seconds
    )
    reviews = ledger.dispositions(rows)
    lines = [_stored_line(ledger, ledger.entry(row), reviews.get(row, "open")) for row in rows]
    return Listed(lines, place_text(behind), "ledger", ledger.first > 0)


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


def from_memory(hosted: Hosted, wanted: Wanted, recent: Sequence[Verdict], gone: bool) -> Listed:
    """recent: the verdicts that the monitor has, in order; gone: whether there were earlier ones"""
    for name in ("since", "until", "group", "review"):
        if name in wanted.filters:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    nearest, last = wanted.order == "nearest", wanted.behind
    verdicts = [one for one in recent if one.violation and _passes(hosted, one, wanted)]
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
        following = place_text(Place(some[-1].row or 0, distance))
    lines = [_remembered_line(hosted, verdict) for verdict in some]
    return Listed(lines, following, "memory", gone)


def _rank(verdict: Verdict, order: str) -> tuple[float, int]:
    row = verdict.row or 0
    if order == "newest":
        return 0.0, -row
    return float(verdict.witnesses.input_distances.min()), row


def _passes(hosted: Hosted, verdict: Verdict, wanted: Wanted) -> bool:
    filters, within = wanted.filters, wanted.within
    if verdict.model != filters.get("model", verdict.model):
        return False
    if within is not None and not verdict.witnesses.input_distances.min() <= within:
        return False
    past = hosted.monitor.past
    return "output" not in filters or (
        as_text(past.outputs([verdict.row or 0])[0]) == filters["output"]
    )


def _remembered_line(hosted: Hosted, verdict: Verdict) -> dict[str, Any]:
    nearest = verdict.witnesses.nearest(1)[0]
    mine, other = hosted.monitor.past.outputs([verdict.row or 0, nearest.row])
    return _line(verdict, (None, mine), (None, other), None)


async def listed(hosted: Hosted, wanted: Wanted, seconds: float = SECONDS) -> Listed:
    """The list that an address asks for."""
    hosted.monitor.insist_on_contradictions()
    if not hosted.monitor.durable:
        recent, gone = hosted.recent.after(-1), hosted.recent.dropped >= 0  # only here: it grows
        return await hosted.aside(lambda: from_memory(hosted, wanted, recent, gone))
    await hosted.flush()
    return await hosted.look(lambda ledger: from_ledger(ledger, wanted, seconds))


async def all_listed(
    hosted: Hosted, wanted: Wanted, most: int, seconds: float
) -> tuple[list[dict[str, Any]], bool]:
    """So many lines of a list, page after page, and whether these are all."""
    lines: list[dict[str, Any]] = []
    until = clock.monotonic() + seconds
    wanted = replace(wanted, lines=MOST_LINES)
    while len(lines) < most:
        page = await listed(hosted, wanted, max(SECONDS, until - clock.monotonic()))
        lines += page.lines
        if page.next is None:
            return lines[:most], len(lines) <= most
        wanted = replace(wanted, behind=_place(page.next, wanted.order))
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
