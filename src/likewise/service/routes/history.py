"""Looking back: which monitors there are, their rules, verdicts and decisions.

A ledger is looked at in a thread, beside whatever is being written. A monitor in memory knows its
latest verdicts only (`Limits.recent`), and says so.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.intake.verdict_json import answer, stored_answer
from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.notes import DISPOSITIONS
from likewise.ledger.times import microseconds, shown
from likewise.service.hosted import Hosted
from likewise.service.operations import Operation, Query
from likewise.service.refusals import Refused
from likewise.service.wire import (
    HeadBody,
    LookBody,
    MonitorBody,
    MonitorsBody,
    PageBody,
    ReviewSaid,
    SideBody,
    StatsBody,
    encode,
)
from likewise.values.errors import BadDecision, BadRow
from likewise.values.plain import json_value
from likewise.values.verdicts import Witness

if TYPE_CHECKING:
    from likewise.service.app import App

_PAGE, _MOST_PAGE = 100, 1000
_MOST_LOOKED_AT = 20_000  # rows that one page reads to find those with an output
_MOST_ROW = 1 << 62

_VERDICTS = (
    Query("after", "of decisions with a higher row than this", int),
    Query("limit", f"how many at most; {_PAGE} unless given, {_MOST_PAGE} at most", int),
    Query("since", "of decisions from that time on; seconds since 1970, or ISO text"),
    Query("until", "of decisions before that time"),
    Query("model", "of decisions of that model"),
    Query("group", "of decisions with that value in a protected column: column:value"),
    Query("within", "with a witness at most that far away", float),
    Query("review", "with that last disposition; open for none", choices=DISPOSITIONS),
    Query("output", "of decisions with that output"),
)

OPERATIONS = [
    Operation("GET", "/v1/monitors", "read", "The names of the monitors", answers=MonitorsBody),
    Operation(
        "GET",
        "/v1/monitors/{name}",
        "read",
        "A monitor: its rule, and how much it has seen",
        answers=MonitorBody,
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/verdicts",
        "read",
        "Verdicts with a witness, in order, page by page",
        answers=PageBody,
        queries=_VERDICTS,
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/decisions/{row}",
        "read",
        "One decision beside those that it contradicts, with values and reviews",
        answers=LookBody,
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/stats",
        "read",
        "How many decisions there were, how many could be compared, how many contradict",
        answers=StatsBody,
        queries=(Query("last", 'only those of the last "1 hour", "7 days"'),),
    ),
    Operation(
        "GET",
        "/v1/monitors/{name}/head",
        "read",
        "The end of the ledger's chain, to be kept elsewhere",
        answers=HeadBody,
    ),
]


def routes(app: "App") -> list[BaseRoute]:
    service, door = app.service, app.door

    def admitted(request: Request) -> Hosted:
        name = request.path_params["name"]
        door.admit(request.scope, "read", name)
        return service.named(name)

    async def monitors(request: Request) -> Response:
        token = door.admit(request.scope, "read")
        names = [
            name
            for name in service.monitors
            if token is None or token.monitors is None or name in token.monitors
        ]
        return _json(MonitorsBody(names))

    async def monitor(request: Request) -> Response:
        hosted = admitted(request)
        return _json(await hosted.aside(lambda: _described(hosted)))

    async def verdicts(request: Request) -> Response:
        hosted = admitted(request)
        sought = _Sought(request)
        if not hosted.monitor.durable:
            return _json(sought.in_memory(hosted))
        await _flushed(hosted)
        witnesses = hosted.limits.witnesses
        return _json(await hosted.look(lambda ledger: sought.in_ledger(ledger, witnesses)))

    async def decision(request: Request) -> Response:
        hosted = admitted(request)
        row = _whole("the row", request.path_params["row"])
        if not hosted.monitor.durable:
            return _json(await hosted.aside(lambda: _remembered(hosted, row)))
        await _flushed(hosted)
        return _json(await hosted.look(lambda ledger: _looked_up(ledger, row)))

    async def stats(request: Request) -> Response:
        hosted = admitted(request)
        last = request.query_params.get("last")
        if not hosted.monitor.durable:
            if last is not None:
                raise Refused(400, "last is about times, which only a ledger keeps: leave it out.")
            return _json(_since_start(hosted))
        await _flushed(hosted)
        return _json(await hosted.look(lambda ledger: _stats(ledger, last)))

    async def head(request: Request) -> Response:
        hosted = admitted(request)
        end = await hosted.do(hosted.monitor.head)
        return _json(HeadBody(str(end), end.rows, end.events))

    one = "/v1/monitors/{name}"
    return [
        Route("/v1/monitors", monitors, methods=["GET"]),
        Route(one, monitor, methods=["GET"]),
        Route(f"{one}/verdicts", verdicts, methods=["GET"]),
        Route(f"{one}/decisions/{{row}}", decision, methods=["GET"]),
        Route(f"{one}/stats", stats, methods=["GET"]),
        Route(f"{one}/head", head, methods=["GET"]),
    ]


def _json(body: Any) -> Response:
    return Response(encode(body), media_type="application/json")


async def _flushed(hosted: Hosted) -> None:
    """Have the ledger show everything that was answered."""
    if hosted.monitor.durability != "commit":
        await hosted.do(hosted.monitor.flush)


def _described(hosted: Hosted) -> MonitorBody:
    monitor = hosted.monitor
    durable = monitor.durable
    return MonitorBody(
        name=hosted.name,
        rule=monitor.rule.to_toml(),
        fingerprint=monitor.rule.fingerprint,
        rows=monitor.rows,
        remembered=len(monitor),
        missing=monitor.missing,
        durable=durable,
        durability=monitor.durability if durable else None,
        window=monitor.window.text if durable else None,
        comparable=monitor.comparable,
        exact=True,
        waiting=hosted.waiting_rows,
    )


# Verdicts


class _Sought:
    """A page of verdicts, as a query asks for it."""

    def __init__(self, request: Request) -> None:
        query = request.query_params
        self.after = -1 if "after" not in query else _whole("after", query["after"])
        self.limit = _PAGE if "limit" not in query else _whole("limit", query["limit"])
        if not 1 <= self.limit <= _MOST_PAGE:
            raise Refused(400, f"limit is {self.limit}; expected 1 to {_MOST_PAGE}.")
        self.model, self.output = query.get("model"), query.get("output")
        self.since, self.until = _time("since", query), _time("until", query)
        self.review = query.get("review")
        if self.review is not None and self.review not in DISPOSITIONS:
            raise Refused(400, f"review: expected one of {', '.join(DISPOSITIONS)}.")
        self.within = None if "within" not in query else _number("within", query["within"])
        self.group: tuple[str, Any] | None = None
        if "group" in query:
            column, found, value = query["group"].partition(":")
            if not found:
                raise Refused(400, "group: expected column:value.")
            self.group = column, value

    def in_ledger(self, ledger: Ledger, witnesses: int) -> PageBody:
        found: Iterator[Entry] = ledger.violations(
            since=self.since,
            until=self.until,
            model=self.model,
            group=self._typed_group(ledger),
            review=self.review,
            within=self.within,
            after=self.after,
        )
        reviews = {one.row: one.disposition for one in ledger.reviews()}
        chosen: list[dict[str, Any]] = []
        last, more = self.after, False
        for looked_at, entry in enumerate(islice(found, _MOST_LOOKED_AT + 1)):
            if len(chosen) == self.limit or looked_at == _MOST_LOOKED_AT:
                more = True
                break
            last = entry.row
            if self.output is None or _text(entry.output) == self.output:
                chosen.append(_entry_dict(ledger, entry, witnesses, reviews.get(entry.row)))
        return PageBody(chosen, last if more else None, "ledger", ledger.first > self.after + 1)

    def _typed_group(self, ledger: Ledger) -> tuple[str, Any] | None:
        """The value of a group as the ledger has it: a query can only say text."""
        if self.group is None:
            return None
        column, text = self.group
        feature: Any = (ledger.rule.features or {}).get(column)
        known: list[Any] = []
        if feature is not None:
            known = list(feature.order or feature.values or ledger.known_words(column))
        return column, next((value for value in known if _text(value) == text), text)

    def in_memory(self, hosted: Hosted) -> PageBody:
        for name in ("since", "until", "group", "review", "output"):
            if getattr(self, name) is not None:
                raise Refused(400, f"{name} needs a ledger, and this monitor is in memory.")
        recent = hosted.recent
        chosen: list[dict[str, Any]] = []
        following = None
        for verdict in recent.after(self.after):
            near = verdict.witnesses.input_distances
            if self.model is not None and verdict.model != self.model:
                continue
            if self.within is not None and not (len(near) and near.min() <= self.within):
                continue
            if len(chosen) == self.limit:
                following = chosen[-1]["row"]
                break
            chosen.append(answer(verdict, hosted.limits.witnesses, keyed=True))
        return PageBody(chosen, following, "memory", recent.dropped > self.after)


def _entry_dict(ledger: Ledger, entry: Entry, witnesses: int, review: str | None) -> dict[str, Any]:
    """A verdict that a ledger has, with what the ledger knows beside it."""
    return {
        **stored_answer(entry, witnesses, ledger.keys_of),
        "model": entry.model,
        "comparable": entry.comparable,
        "time": entry.time,
        "output": _plain(entry.output),
        "review": review or "open",
    }


# One decision


def _looked_up(ledger: Ledger, row: int) -> LookBody:
    entry = ledger.entry(row)
    return LookBody(
        decision=_side(ledger, entry),
        count=entry.count,
        omitted=max(0, (entry.count or 0) - len(entry.nearest)),
        comparable=entry.comparable,
        missing=entry.missing,
        witnesses=[_witness_side(ledger, witness) for witness in entry.nearest],
        reviews=[
            ReviewSaid(one.row, one.witness, one.disposition, one.reason, one.reviewer, one.time)
            for one in ledger.reviews(row)
        ],
    )


def _witness_side(ledger: Ledger, witness: Witness) -> SideBody:
    try:
        entry = ledger.entry(witness.row)
    except BadRow:  # it has left the window
        return SideBody(witness.row, erased=True)
    return _side(ledger, entry, witness)


def _side(ledger: Ledger, entry: Entry, witness: Witness | None = None) -> SideBody:
    values = None if entry.erased else ledger.values(entry.row)
    vector = None if values is None or ledger.rule.features is not None else values["input"]
    return SideBody(
        entry.row,
        entry.erased,
        values=None if values is None or vector is not None else _plain_row(values),
        x=None if vector is None else np.asarray(vector).tolist(),
        output=_plain(entry.output),
        key=json_value(entry.key),
        time=entry.time,
        model=entry.model,
        **_distances(witness),
    )


def _remembered(hosted: Hosted, row: int) -> LookBody:
    """The same from memory, for as long as it is there."""
    monitor = hosted.monitor
    if row >= monitor.rows:
        raise BadRow(f"row {row} is not in this history, which has {monitor.rows} rows.")
    verdict = hosted.recent.of(row)
    found = [] if verdict is None else list(verdict.witnesses)
    return LookBody(
        decision=_side_in_memory(hosted, row),
        count=None if verdict is None else verdict.count,
        omitted=0 if verdict is None else verdict.omitted,
        comparable=None if verdict is None else verdict.comparable,
        missing=0 if verdict is None else verdict.missing,
        witnesses=[_side_in_memory(hosted, one.row, one) for one in found],
        reviews=[],
    )


def _side_in_memory(hosted: Hosted, row: int, witness: Witness | None = None) -> SideBody:
    past = hosted.monitor.past
    distances = _distances(witness)
    if not past.alive([row])[0]:
        return SideBody(row, erased=True, **distances)
    table = hosted.monitor.rule.features is not None
    return SideBody(
        row,
        erased=False,
        values=_plain_row(past.values(row)) if table else None,
        x=None if table else past.inputs([row])[0].tolist(),
        output=_plain(past.outputs([row])[0]),
        key=json_value(past.keys([row])[0]),
        model=past.models([row])[0],
        **distances,
    )


def _distances(witness: Witness | None) -> dict[str, Any]:
    if witness is None:
        return {}
    return {
        "input_distance": json_value(witness.input_distance),
        "output_distance": json_value(witness.output_distance),
    }


# Counts


def _stats(ledger: Ledger, last: str | None) -> StatsBody:
    found = ledger.stats(last=last)
    asked = found.asked == found.judged
    return StatsBody(
        found.decisions,
        found.judged,
        found.comparable if asked else None,
        found.violations,
        found.rate,
        found.comparable_rate,
        found.missing,
        None if found.since is None else shown(found.since),
        None if found.until is None else shown(found.until),
        "ledger",
    )


def _since_start(hosted: Hosted) -> StatsBody:
    counts = hosted.counts
    decisions, violations = counts.decisions.total(), counts.violations.total()
    comparable = counts.comparable if hosted.monitor.comparable else None
    return StatsBody(
        decisions,
        decisions,
        comparable,
        violations,
        violations / decisions if decisions else None,
        violations / comparable if comparable else None,
        hosted.monitor.missing,
        None,
        None,
        "process",
    )


# Values


def _plain_row(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """A value for JSON; the numbers of a vector one by one."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(one) for one in (value.tolist() if hasattr(value, "tolist") else value)]
    return json_value(value)


def _text(value: Any) -> str:
    """How a query says a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_plain(value))


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < _MOST_ROW):
        raise Refused(400, f"{name} is {text[:100]!r}; expected a whole number from 0 on.")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise Refused(400, f"{name} is {text[:100]!r}; expected a number from 0 on.")
    return number


def _time(name: str, query: Any) -> float | None:
    """Seconds since 1970, from a number or ISO text."""
    text = query.get(name)
    if text is None:
        return None
    try:
        return microseconds(_as_number(text)) / 1e6
    except BadDecision:
        raise Refused(
            400, f"{name} is {text[:100]!r}; expected seconds since 1970, or ISO text."
        ) from None


def _as_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
