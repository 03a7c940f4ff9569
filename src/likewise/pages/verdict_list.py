"""Contradictions as a list: what the address of a page asks for, and what there is.

With a ledger the newest or the nearest come first, each in the order of an index, and a page stops
where it is full (ledger/sought.py). A monitor in memory has its latest verdicts (`Limits.recent`).

Invariant: each line is one decision and the nearest of those that it contradicts.
Cost: a look at two decisions for each line. Which output a decision has stands in its record alone,
so a page that asks for an output looks for at most `SECONDS`, and says where to go on.
"""

import math
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.notes import DISPOSITIONS
from likewise.ledger.sought import Place
from likewise.reports.stored_pairs import entry_of
from likewise.service.hosted import Hosted
from likewise.service.looking_back.plain_values import as_text, plain
from likewise.service.looking_back.verdict_pages import typed_group
from likewise.service.refusals import Refusal
from likewise.service.routes.query_values import moment, number, whole
from likewise.service.slopes import insist_on_contradictions
from likewise.values.errors import BadRow
from likewise.values.plain import json_value
from likewise.values.verdicts import Verdict

ORDERS = ("newest", "nearest")
LINES, MOST_LINES = 50, 200
SECONDS = 0.15
_AT_ONCE = 500  # rows of which outputs are looked at together


@dataclass(frozen=True)
class Wanted:
    """Which contradictions, in which order, from where on."""

    order: str = "newest"
    lines: int = LINES
    since: str | None = None
    until: str | None = None
    model: str | None = None
    group: str | None = None
    within: float | None = None
    output: str | None = None
    review: str | None = None
    behind: Place | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Wanted":
        """From an address; Refusal where it makes no sense. What is empty is not asked for."""
        told = {name: value for name, value in query.items() if value != ""}
        order = told.get("order", "newest")
        if order not in ORDERS:
            raise Refusal(400, f"order: expected one of {', '.join(ORDERS)}.")
        review = told.get("review")
        if review is not None and review not in DISPOSITIONS:
            raise Refusal(400, f"review: expected one of {', '.join(DISPOSITIONS)}.")
        group = told.get("group")
        if group is not None and ":" not in group:
            raise Refusal(400, "group: expected column:value.")
        for name in ("since", "until"):
            if name in told:
                moment(name, told[name])
        lines = whole("lines", told["lines"]) if "lines" in told else LINES
        if not 1 <= lines <= MOST_LINES:
            raise Refusal(400, f"lines is {lines}; expected 1 to {MOST_LINES}.")
        return cls(
            order,
            lines,
            told.get("since"),
            told.get("until"),
            told.get("model"),
            group,
            number("within", told["within"]) if "within" in told else None,
            told.get("output"),
            review,
            _place(told["from"], order) if "from" in told else None,
        )

    def query(self) -> dict[str, Any]:
        """As an address says it; what is not asked for is None."""
        return {
            "order": None if self.order == "newest" else self.order,
            "lines": None if self.lines == LINES else self.lines,
            "since": self.since,
            "until": self.until,
            "model": self.model,
            "group": self.group,
            "within": None if self.within is None else f"{self.within:g}",
            "output": self.output,
            "review": self.review,
        }

    @property
    def filters(self) -> bool:
        """Whether anything is left out."""
        told = self.query()
        return any(told[name] is not None for name in told if name not in ("order", "lines"))

    def in_ledger(self, ledger: Ledger) -> dict[str, Any]:
        """What a ledger is asked."""
        column, _, value = (self.group or "").partition(":")
        return {
            "since": None if self.since is None else moment("since", self.since),
            "until": None if self.until is None else moment("until", self.until),
            "model": self.model,
            "group": typed_group(ledger, (column, value) if self.group else None),
            "review": self.review,
            "within": self.within,
        }


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
    rows, behind = _rows(ledger, wanted, seconds)
    reviews = ledger.dispositions(rows)
    lines = [_line(ledger, ledger.entry(row), reviews.get(row, "open")) for row in rows]
    return Listed(lines, place_text(behind), "ledger", ledger.first > 0)


def _rows(ledger: Ledger, wanted: Wanted, seconds: float) -> tuple[list[int], Place | None]:
    asked, until = wanted.in_ledger(ledger), clock.monotonic() + seconds
    rows: list[int] = []
    behind = wanted.behind
    while True:
        limit = wanted.lines - len(rows) if wanted.output is None else _AT_ONCE
        left = max(0.0, until - clock.monotonic())
        page = ledger.violations_page(
            wanted.order, behind=behind, limit=limit, seconds=left, **asked
        )
        passed = _checked(ledger, page.rows, wanted)
        if len(rows) + len(passed) > wanted.lines:
            rows += passed[: wanted.lines - len(rows)]
            return rows, ledger.place_of(wanted.order, rows[-1])
        rows += passed
        behind = page.next
        if behind is None or len(rows) == wanted.lines or clock.monotonic() >= until:
            return rows, behind


def _checked(ledger: Ledger, rows: list[int], wanted: Wanted) -> list[int]:
    """Those that also pass what no index knows: an output; a group, as the record has it."""
    if wanted.output is not None:
        ordered = sorted(rows)
        outputs = dict(zip(ordered, ledger.outputs_of(ordered), strict=True))
        rows = [row for row in rows if as_text(outputs[row]) == wanted.output]
    if wanted.group is not None:
        column, _, value = wanted.group.partition(":")
        rows = [row for row in rows if _value(ledger, row, column) == value]
    return rows


def _value(ledger: Ledger, row: int, column: str) -> str | None:
    try:
        return as_text(ledger.values(row).get(column))
    except BadRow:  # it was erased
        return None


def _line(ledger: Ledger, entry: Entry, review: str) -> dict[str, Any]:
    nearest = entry.nearest[0] if entry.nearest else None
    other = None if nearest is None else entry_of(ledger, nearest.row)
    return {
        "row": entry.row,
        "witness": None if nearest is None else nearest.row,
        "distance": None if nearest is None else _finite(nearest.input_distance),
        "output_distance": None if nearest is None else _finite(nearest.output_distance),
        "count": entry.count,
        "time": entry.time,
        "key": json_value(entry.key),
        "output": plain(entry.output),
        "model": entry.model,
        "witness_time": None if other is None else other.time,
        "witness_key": None if other is None else json_value(other.key),
        "witness_output": None if other is None else plain(other.output),
        "witness_model": None if other is None else other.model,
        "review": review,
    }


def _finite(distance: float) -> float | None:
    return distance if math.isfinite(distance) else None


# In memory


def from_memory(hosted: Hosted, wanted: Wanted, recent: Sequence[Verdict], gone: bool) -> Listed:
    """recent: the verdicts that the monitor has, in order; gone: whether there were earlier ones"""
    for name in ("since", "until", "group", "review"):
        if getattr(wanted, name) is not None:
            raise Refusal(400, f"{name} needs a ledger, and this monitor is in memory.")
    verdicts = [one for one in recent if one.violation and _passes(hosted, one, wanted)]
    if wanted.order == "nearest":  # not those whose distances were destroyed (ledger/sought.py)
        verdicts = [one for one in verdicts if not math.isnan(_rank(one, "nearest")[0])]
    verdicts.sort(key=lambda one: _rank(one, wanted.order))
    if wanted.behind is not None:
        last = wanted.behind
        rank = (last.distance, last.row) if wanted.order == "nearest" else (0.0, -last.row)
        verdicts = [one for one in verdicts if _rank(one, wanted.order) > rank]
    some = verdicts[: wanted.lines]
    following = None
    if len(verdicts) > len(some):
        distance, _ = _rank(some[-1], wanted.order)
        place = Place(some[-1].row or 0, distance if wanted.order == "nearest" else None)
        following = place_text(place)
    lines = [_remembered_line(hosted, verdict) for verdict in some]
    return Listed(lines, following, "memory", gone)


def _rank(verdict: Verdict, order: str) -> tuple[float, int]:
    row = verdict.row or 0
    if order == "newest":
        return 0.0, -row
    return float(verdict.witnesses.input_distances.min()), row


def _passes(hosted: Hosted, verdict: Verdict, wanted: Wanted) -> bool:
    if wanted.model is not None and verdict.model != wanted.model:
        return False
    near = verdict.witnesses.input_distances
    if wanted.within is not None and not near.min() <= wanted.within:
        return False
    if wanted.output is None:
        return True
    return as_text(_outputs(hosted, [verdict.row or 0])[0]) == wanted.output


def _outputs(hosted: Hosted, rows: Sequence[int]) -> list[Any]:
    return hosted.monitor.past.outputs(rows)


def _remembered_line(hosted: Hosted, verdict: Verdict) -> dict[str, Any]:
    past = hosted.monitor.past
    nearest = verdict.witnesses.nearest(1)[0]
    rows = [verdict.row or 0, nearest.row]
    outputs, keys, models = past.outputs(rows), past.keys(rows), past.models(rows)
    return {
        "row": rows[0],
        "witness": nearest.row,
        "distance": _finite(nearest.input_distance),
        "output_distance": _finite(nearest.output_distance),
        "count": verdict.count,
        "time": None,
        "key": json_value(keys[0]),
        "output": plain(outputs[0]),
        "model": models[0],
        "witness_time": None,
        "witness_key": json_value(keys[1]),
        "witness_output": plain(outputs[1]),
        "witness_model": models[1],
        "review": None,
    }


async def listed(hosted: Hosted, wanted: Wanted, seconds: float = SECONDS) -> Listed:
    """The list that an address asks for."""
    insist_on_contradictions(hosted.name, hosted.slopes)
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
