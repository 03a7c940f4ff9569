"""The page of a monitor's state: the rate of contradictions now, against its usual band.

Parts with an id are sent again as they change (live_parts.py). The browser draws the chart from the
numbers of the table below it, which shows the same without a script.
Cost: counts in memory; no ledger is read for this page. How well similar cases agree is computed in
the background: again once there are a tenth more decisions, or others after an hour.
"""

import math
import time as clock
from typing import Any

import msgspec

from likewise.explaining.agreement import measure_newest
from likewise.pages.frame import Download, PageData, PagePart, Screen, stream_blocks
from likewise.pages.page_state import Visit
from likewise.pages.rate_windows import SPANS
from likewise.service.alerts.usual_band import RateConclusion
from likewise.service.routes.verdict_events import EventStream
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value
from likewise.tables.times import describe_age, iso_text_of_seconds

_TEMPLATE = "pages/overview.html"
_LATEST = 8
_COUNTED = ("comparable", "pairs", "alarms", "repeated")  # since the start of the server
_LEAST_PLOTTED = 10  # comparable decisions of a window in the chart
_STALE_SECONDS = 3600.0
_LIVE = ("now", "spans", "rates", "series", "latest", "totals")
"""Blocks of the template that change while somebody looks, by the id of their element."""


async def load(visit: Visit) -> PageData:
    served = visit.served
    now = clock.time()
    windows, reading = visit.live.read_windows(served), visit.live.readings.last(served)
    span = windows.choose_span(visit.query.get("span"), now)
    counts, monitor, last = served.counts, served.monitor, windows.last_decision
    age = max(0.0, now - last) if last else None
    recent, closed = windows.find_recent_rate(span, now), windows.list_windows(span, now)[:-1]
    data: dict[str, Any] = {
        "monitor": served.name,
        "rows": served.next_row,
        "exact": True,
        "counts_comparable": monitor.comparable,
        "missing_decisions": None if reading is None else reading.missing,
        "recent": {  # the last few windows with decisions, and whether their rate is usual
            "span": span.recent_label,
            "until": iso_text_of_seconds(recent.until, "seconds"),
            "comparable": recent.counts.comparable,
            "violations": recent.counts.violations,
            "rate_among_comparable": recent.counts.rate,
            "finding": recent.conclusion.finding,
            "reason": recent.conclusion.reason,
            **_describe_band(recent.conclusion),
        },
        "decisions_per_second": windows.decisions_per_second(now),
        "last_decision": iso_text_of_seconds(last, "seconds") if last else None,
        "last_decision_age_seconds": age,
        "since_start": {
            **{name: getattr(counts, name) for name in _COUNTED},
            "decisions": counts.decisions.total(),
            "violations": counts.violations.total(),
        },
        "refused": dict(counts.refused),
        "dropped": dict(counts.dropped),
        "span": span.key,
        "spans": {choice.key: choice.words for choice in SPANS},
        "windows": [
            {
                "start": iso_text_of_seconds(window.start, "seconds"),
                **window.counts._asdict(),
                "rate_among_comparable": window.counts.rate,
                **_describe_band(window.conclusion),
            }
            for window in closed
        ],
        "latest": [
            {
                "row": verdict.row,
                "witnesses": verdict.count,
                "distance": json_value(verdict.witnesses.input_distances.min(initial=math.inf)),
                "model": verdict.model,
            }
            for verdict in reversed(served.recent.latest(_LATEST))
            if verdict.row is not None
        ],
        "rule": monitor.rule.explain().lines,
        "agreement": await _read_agreement(visit),
    }

    def more() -> dict[str, Any]:
        counts = [window.counts for window in closed]
        rates = [one.rate if one.comparable >= _LEAST_PLOTTED else None for one in counts]
        columns = [
            [float(window.start) for window in closed],
            rates,
            *([window[name] for window in data["windows"]] for name in ("usual_low", "usual_high")),
        ]
        return {
            "last_decision": "none yet" if age is None else describe_age(age),
            "plotted": _LEAST_PLOTTED,
            "drawn": len(closed) >= 2 and any(rate is not None for rate in rates),
            "series": msgspec.json.encode(columns).decode(),
        }

    return PageData(data, more)


async def _read_agreement(visit: Visit) -> dict[str, Any] | None:
    """Return the agreement with its date and the rows it is about; None without decisions."""
    served, ask = visit.served, visit.computations.ask
    if not served.next_row or served.monitor.slope is not None:
        return None
    question = "agreement", lambda: _measure_agreement(served)
    computation = await ask(served, *question)
    is_old = clock.monotonic() - computation.begun > _STALE_SECONDS
    if served.next_row >= 1.1 * computation.rows or (is_old and served.next_row > computation.rows):
        computation = await ask(served, *question, recompute=True)
    return {"computed": computation.state, **(computation.latest or {})}


def _measure_agreement(served: ServedMonitor) -> dict[str, Any]:
    rows = served.monitor.rows
    agreement = measure_newest(served.monitor.past, rows)
    return {
        "rows": rows,
        "computed_at": iso_text_of_seconds(clock.time(), "seconds"),
        **agreement.to_dict(),
        "hubs": agreement.hubs_to_dict(),
    }


def _describe_band(conclusion: RateConclusion | None) -> dict[str, float | None]:
    """Return the band in which the rate usually lies; None where that cannot be concluded."""
    if conclusion is None or conclusion.reason:
        return {"usual_low": None, "usual_high": None}
    return {"usual_low": conclusion.low, "usual_high": conclusion.high}


async def stream_parts(visit: Visit) -> EventStream:
    key = visit.query.get("span")
    place = key if key in {span.key for span in SPANS} else "any"
    return stream_blocks(visit, f"overview {place}", load, _TEMPLATE, _LIVE)


PARTS: tuple[PagePart, ...] = (
    Screen("overview", "read", "Overview", load, _TEMPLATE, assets=("uplot.css", "uplot.js")),
    Download("overview/live", "read", stream_parts),
)
