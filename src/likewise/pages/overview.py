"""How a monitor is doing, now: the rate of contradictions against what is usual.

The parts with an id are sent again as they change (live.py). The chart is drawn by the browser from
the table below it, which says the same without a script.

Cost: counts that are at hand; no ledger is read for this page.
"""

import math
import time as clock
from datetime import datetime

import msgspec

from likewise.pages.live import Parts
from likewise.pages.pulse import SPANS, Beat, Span
from likewise.pages.screen import Download, Part, Screen
from likewise.pages.times import ago, iso, moment
from likewise.pages.visit import Visit
from likewise.reports.words import in_words
from likewise.service.routes.events import EventStream
from likewise.values.plain import json_value
from likewise.values.printing import figure, percent
from likewise.values.safe import safe

_LATEST = 8
_PLOTTED = 10  # comparable decisions of a window in the chart, at least
CURRENT = ' aria-current="true"'
_ROWS = 40  # windows in the table, newest first


class WindowSaid(msgspec.Struct):
    """A window of time."""

    start: str
    decisions: int
    comparable: int
    violations: int
    rate: float | None
    usual_low: float | None
    """The band in which the rate usually lies, as it was when the window closed."""
    usual_high: float | None


class LatelySaid(msgspec.Struct):
    """The rate of the last few windows with decisions, and whether it is usual."""

    span: str
    until: str
    comparable: int
    violations: int
    rate: float | None
    finding: str
    because: str
    usual_low: float | None
    usual_high: float | None


class LatestSaid(msgspec.Struct):
    """A decision that contradicts earlier ones."""

    row: int
    witnesses: int
    distance: float | None
    model: str | None


class OverviewBody(msgspec.Struct):
    """All that the page says."""

    monitor: str
    rows: int
    exact: bool
    asks_comparable: bool
    missing: int | None
    lately: LatelySaid
    decisions_a_second: float
    last_decision: str | None
    last_decision_age: float | None
    since_start: dict[str, int]
    refused: dict[str, int]
    dropped: dict[str, int]
    span: str
    spans: dict[str, str]
    windows: list[WindowSaid]
    latest: list[LatestSaid]
    rule: list[str]


async def known(visit: Visit) -> OverviewBody:
    hosted = visit.hosted
    now = clock.time()
    pulse, reading = visit.live.pulse(hosted), visit.live.readings.last(hosted)
    span = pulse.chosen(visit.query.get("span"), now)
    counts, monitor, last = hosted.counts, hosted.monitor, pulse.last_decision
    return OverviewBody(
        monitor=hosted.name,
        rows=hosted.next_row,
        exact=True,
        asks_comparable=monitor.comparable,
        missing=None if reading is None else reading.missing,
        lately=_lately(visit, span, now),
        decisions_a_second=pulse.a_second(now),
        last_decision=iso(last) if last else None,
        last_decision_age=max(0.0, now - last) if last else None,
        since_start={
            "decisions": counts.decisions.total(),
            "comparable": counts.comparable,
            "violations": counts.violations.total(),
            "pairs": counts.pairs,
            "alarms": counts.alarms,
            "sent_again": counts.known,
        },
        refused=dict(counts.refused),
        dropped=dict(counts.dropped),
        span=span.key,
        spans={one.key: one.words for one in SPANS},
        windows=[_window(beat) for beat in pulse.beats(span, now)[:-1]],
        latest=[
            LatestSaid(
                verdict.row,
                verdict.count,
                json_value(verdict.witnesses.input_distances.min(initial=math.inf)),
                verdict.model,
            )
            for verdict in reversed(hosted.recent.last(_LATEST))
            if verdict.row is not None
        ],
        rule=in_words(monitor.rule),
    )


def _lately(visit: Visit, span: Span, now: float) -> LatelySaid:
    lately = visit.live.pulse(visit.hosted).lately(span, now)
    growth, conclusion = lately.growth, lately.conclusion
    concluded = not conclusion.because
    return LatelySaid(
        span.lately,
        iso(lately.until),
        growth.comparable,
        growth.violations,
        growth.rate,
        conclusion.finding,
        conclusion.because,
        conclusion.low if concluded else None,
        conclusion.high if concluded else None,
    )


def _window(beat: Beat) -> WindowSaid:
    concluded = beat.conclusion is not None and not beat.conclusion.because
    return WindowSaid(
        iso(beat.start),
        *beat.growth,
        beat.growth.rate,
        beat.conclusion.low if beat.conclusion is not None and concluded else None,
        beat.conclusion.high if beat.conclusion is not None and concluded else None,
    )


# What is shown


def shown(overview: OverviewBody, visit: Visit) -> str:
    made = parts(overview, visit)
    where = safe(visit.url("overview/live", span=visit.query.get("span")))
    alike, *rest = overview.rule
    conditions = "".join(f"<li>{safe(one[2:], 400)}</li>" for one in rest if one[:2] == "- ")
    other = "".join(f"<p>{safe(one, 600)}</p>" for one in rest if one[:2] != "- ")
    return f"""<div data-live="{where}">
<p class="live small" role="status" data-live-state hidden></p>
<div id="now">{made["now"]}</div>
<section aria-labelledby="over-time">
<h2 id="over-time">The rate over time</h2>
<nav aria-label="Span" class="choices"><ul id="spans">{made["spans"]}</ul></nav>
<p class="small">Of decisions that could be compared, the share that contradicts an earlier one;
the band is where it usually lies. Windows with fewer than {_PLOTTED} such
decisions are not drawn.</p>
<div id="chart" class="chart" role="img" aria-label="A chart of the table below" hidden></div>
<details><summary>The chart as a table</summary>
<div class="scroll" tabindex="0" role="region" aria-label="Rates over time">
<table id="windows"><thead><tr><th scope="col">from</th>
<th scope="col" class="number">decisions</th><th scope="col" class="number">comparable</th>
<th scope="col" class="number">contradict</th><th scope="col" class="number">rate</th>
<th scope="col" class="number">usual</th></tr></thead>
<tbody id="rates">{made["rates"]}</tbody></table></div></details>
<div id="series">{made["series"]}</div>
</section>
<section aria-labelledby="latest-ones">
<h2 id="latest-ones">The latest contradictions</h2>
<div id="latest">{made["latest"]}</div>
</section>
<section aria-labelledby="counts">
<h2 id="counts">Since the server was started</h2>
<div id="totals">{made["totals"]}</div>
</section>
</div>
<section aria-labelledby="the-rule">
<h2 id="the-rule">What counts as alike</h2>
<p>{safe(alike, 600)}</p>
{f'<ul class="rule few">{conditions}</ul>' if conditions else ""}{other}
<p class="small">Exact: every earlier decision that is near and different is named, none is left
out.</p>
</section>"""


def parts(overview: OverviewBody, visit: Visit) -> Parts:
    """What changes while somebody looks, by the id of its element."""
    return {
        "now": _now(overview),
        "spans": "".join(
            f'<li><a href="{safe(visit.url("overview", span=key))}"'
            f"{CURRENT if key == overview.span else ''}>{words}</a></li>"
            for key, words in overview.spans.items()
        ),
        "rates": "".join(_line(one) for one in reversed(overview.windows[-_ROWS:])),
        "series": _series(overview),
        "latest": _latest(overview, visit),
        "totals": _totals(overview),
    }


def _now(overview: OverviewBody) -> str:
    lately = overview.lately
    rate = "–" if lately.rate is None else percent(lately.rate)
    kind = lately.finding if lately.finding in ("above", "below") else ""
    age = overview.last_decision_age
    last = "none yet" if age is None else ago(age)
    when = f" ({moment(overview.last_decision)})" if overview.last_decision else ""
    missing = "–" if overview.missing is None else f"{overview.missing:,}"
    refused = sum(overview.refused.values())
    return f"""<div class="hero {kind}">
<p class="big">{rate}<span>of comparable decisions contradict an earlier one, in the
{safe(lately.span)} up to {moment(lately.until)}</span></p>
<ul><li>{_finding(overview)}</li>
<li>{lately.violations:,} of {lately.comparable:,} comparable.</li>
<li>Last decision: {last}{when}.</li></ul></div>
<dl class="tiles">
<div><dt>decisions a second</dt><dd>{figure(round(overview.decisions_a_second, 1))}</dd></div>
<div><dt>decisions in the history</dt><dd>{overview.rows:,}</dd></div>
<div><dt>refused since the start, and known to be missing in all</dt>
<dd>{refused:,} and {missing}</dd></div>
</dl>"""


def _finding(overview: OverviewBody) -> str:
    lately = overview.lately
    if lately.usual_low is None or lately.usual_high is None:
        return f"Whether that is usual cannot be concluded: {safe(lately.because)}."
    band = f"{percent(round(lately.usual_low, 4))} to {percent(round(lately.usual_high, 4))}"
    if lately.finding == "usual":
        rate = lately.rate or 0.0
        if lately.usual_low <= rate <= lately.usual_high:
            return f"As usual: the band is {band}."
        return f"Outside its usual band, {band}, but by no more than chance explains."
    return f"<b>{lately.finding.capitalize()} its usual band</b>, which is {band}."


def _line(window: WindowSaid) -> str:
    rate = "–" if window.rate is None else percent(window.rate)
    usual = "–"
    if window.usual_low is not None and window.usual_high is not None:
        usual = f"{percent(round(window.usual_low, 4))} to {percent(round(window.usual_high, 4))}"
    cells = (
        ("decisions", f"{window.decisions:,}"),
        ("comparable", f"{window.comparable:,}"),
        ("contradict", f"{window.violations:,}"),
        ("rate", rate),
        ("usual", usual),
    )
    rest = "".join(f'<td class="number" data-label="{name}">{it}</td>' for name, it in cells)
    return f'<tr><th scope="row">{moment(window.start)}</th>{rest}</tr>'


def _series(overview: OverviewBody) -> str:
    """The numbers of the chart, for the script."""
    times = [datetime.fromisoformat(one.start).timestamp() for one in overview.windows]
    columns = [
        times,
        [one.rate if one.comparable >= _PLOTTED else None for one in overview.windows],
        [one.usual_low for one in overview.windows],
        [one.usual_high for one in overview.windows],
    ]
    return f'<span hidden data-series="{safe(msgspec.json.encode(columns).decode(), None)}"></span>'


def _latest(overview: OverviewBody, visit: Visit) -> str:
    if not overview.latest:
        return "<p>None since the server was started.</p>"
    lines = "".join(
        f'<tr><th scope="row"><a href="{safe(visit.url(f"pairs/{one.row}"))}">row {one.row:,}</a>'
        f'</th><td class="number" data-label="witnesses">{one.witnesses:,}</td>'
        f'<td class="number" data-label="nearest at">'
        f"{'–' if one.distance is None else figure(float(f'{one.distance:.3g}'))}</td>"
        f'<td data-label="model"><bdi>{safe(one.model or "–", 60)}</bdi></td></tr>'
        for one in overview.latest
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="A table of them">'
        '<table><thead><tr><th scope="col">decision</th>'
        '<th scope="col" class="number">contradicts</th>'
        '<th scope="col" class="number">nearest at</th><th scope="col">model</th></tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
        f'<p><a href="{safe(visit.url("violations"))}">All contradictions</a></p>'
    )


def _totals(overview: OverviewBody) -> str:
    said = overview.since_start
    facts = [
        ("Decisions", f"{said['decisions']:,}"),
        ("Comparable", f"{said['comparable']:,}" if overview.asks_comparable else "not asked"),
        ("Contradict an earlier one", f"{said['violations']:,}"),
        ("Pairs", f"{said['pairs']:,}"),
        ("Burst alarms", f"{said['alarms']:,}"),
        ("Sent again, and answered as before", f"{said['sent_again']:,}"),
        ("Refused", by_kind(overview.refused)),
        ("Told to be lost", by_kind(overview.dropped)),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<dl class="facts">{listed}</dl>'


def by_kind(counts: dict[str, int]) -> str:
    """Counts as HTML, each with its kind."""
    if not counts:
        return "none"
    return ", ".join(f"{safe(kind, 60)}: {count:,}" for kind, count in sorted(counts.items()))


async def live(visit: Visit) -> EventStream:
    async def made() -> Parts:
        return parts(await known(visit), visit)

    asked = visit.query.get("span")
    place = asked if asked in {span.key for span in SPANS} else "any"
    return visit.live.stream(f"overview {place} {visit.hosted.name}", made)


PARTS: tuple[Part, ...] = (
    Screen("overview", "read", "Overview", known, shown, assets=("uplot.css", "uplot.js")),
    Download("overview/live", "read", live),
)
