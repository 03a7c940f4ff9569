"""The rule: in words, as TOML, and what a change of it would do, on the newest decisions.

Another epsilon is tried on `MOST_ROWS` of the newest decisions, fewer where inputs are long; each
line of a rule for tables is changed on `MOST_VARIED`. Both are computed aside.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.monitors.calibration import Calibration, calibrate, like_cases
from likewise.monitors.varied import Varied
from likewise.monitors.varying import vary
from likewise.pages import parts
from likewise.pages.computing import Computation, waiting
from likewise.pages.screen import Form, Part, Screen
from likewise.pages.visit import Visit
from likewise.reports.charts import comparable_plot, curve_plot
from likewise.reports.document import section
from likewise.reports.findings import curve_of
from likewise.reports.varied_table import TITLE, varied_table
from likewise.reports.words import within_in_words, wording
from likewise.rules.feature import Feature
from likewise.rules.rule import Rule
from likewise.service.hosted import Hosted
from likewise.service.refusals import Refusal
from likewise.service.routes.query_values import number
from likewise.values.errors import BadRow
from likewise.values.printing import figure, listed, percent
from likewise.values.safe import safe, safe_lines

MOST_ROWS = 20_000
MOST_VARIED = 3_000
MOST_NUMBERS = 4_000_000  # coordinates of all of them together
_QUESTION, _LINES = "rule", "lines of the rule"


@dataclass(frozen=True)
class Tried:
    """The nearest contradiction, and the nearest like case, of each decision."""

    flagged: Calibration
    alike: Calibration
    decisions: int
    part: bool
    """Whether there are more decisions than were looked at."""
    remarks: tuple[str, ...]

    def at(self, epsilon: float) -> dict[str, Any]:
        """What an epsilon would come to."""
        flagged, alike = self.flagged.rate(epsilon), self.alike.rate(epsilon)
        count = len(self.flagged)
        return {
            "epsilon": epsilon,
            "decisions": count,
            "comparable": round(alike * count),
            "flagged": round(flagged * count),
            "rate": flagged / alike if alike else None,
        }


@dataclass(frozen=True)
class RuleLook:
    """A rule, and what a change of it would do."""

    monitor: str
    rule: Rule
    within: str | None
    rows: int
    asked: Computation | None
    epsilon: float | None
    """Which somebody wants to try."""
    asked_lines: Computation | None
    """Of a rule for tables."""

    @property
    def tried(self) -> Tried | None:
        found: Tried | None = self.asked.value if self.asked else None
        return found

    @property
    def varied(self) -> Varied | None:
        found: Varied | None = self.asked_lines.value if self.asked_lines else None
        return found

    def changes(self) -> list[dict[str, Any]]:
        """What the rule comes to as it is, and with other epsilons."""
        if self.tried is None:
            return []
        own = self.rule.epsilon
        wanted = {own / 2, own, own * 2} | ({self.epsilon} if self.epsilon is not None else set())
        return [self.tried.at(one) for one in sorted(wanted)]

    def to_dict(self) -> dict[str, Any]:
        said, tried = wording(self.rule), self.tried
        curve = None if tried is None else curve_of(tried.flagged, self.rule, tried.alike)
        return {
            "monitor": self.monitor,
            "toml": self.rule.to_toml(),
            "fingerprint": self.rule.fingerprint,
            "words": {
                "alike": said.alike,
                "conditions": [
                    {"columns": list(names), "what": what} for names, what in said.conditions
                ],
                "different": said.different,
                "notes": [*said.notes, *within_in_words(self.within)],
            },
            "rows": self.rows,
            "computed": None if self.asked is None else self.asked.to_dict(),
            "decisions": None if tried is None else tried.decisions,
            "remarks": [] if tried is None else list(tried.remarks),
            "epsilons": self.changes(),
            "lines_computed": None if self.asked_lines is None else self.asked_lines.to_dict(),
            "lines": None if self.varied is None else self.varied.to_dict(),
            "curve": None
            if curve is None
            else {
                "epsilons": curve.epsilons,
                "flagged": curve.rates,
                "comparable": curve.comparable,
            },
        }


def _without_persons(rule: Rule) -> tuple[Rule, tuple[str, ...]]:
    """The rule as far as nearness is a distance alone, and what that leaves out."""
    remarks = []
    features = dict(rule.features or {})
    if rule.person_column is not None:
        remarks.append(
            f"Repeated decisions about one person ({rule.person_column}) are compared here, which"
            " the rule leaves out."
        )
        features[rule.person_column] = Feature("ignore")
    if rule.protected_must_differ:
        remarks.append("Pairs within a protected group count here, which the rule leaves out.")
    if not remarks:
        return rule, ()
    return replace(rule, features=features, protected_must_differ=False), tuple(remarks)


def _compute(hosted: Hosted) -> Tried:
    monitor = hosted.monitor
    past, rows = monitor.past, monitor.rows
    rule, remarks = _without_persons(monitor.rule)
    newest = np.arange(max(0, rows - MOST_ROWS), rows)
    some = newest[past.alive(newest)].tolist()
    part = rows > len(newest)
    if not some:
        raise BadRow("no decision is remembered, so nothing can be tried.")
    if monitor.rule.features is not None:
        arguments: tuple[Any, ...] = ([past.values(row) for row in some],)
    else:
        one = past.inputs(some[-1:])
        most = max(1, MOST_NUMBERS // max(1, one.size))
        part, some = part or len(some) > most, some[-most:]
        inputs = past.inputs(some)
        arguments = (inputs.reshape(len(some), -1), past.outputs(some))
        rule = replace(rule, embed=None) if rule.embed is not None else rule
    if hosted.monitor.within is not None:
        remarks += (f"All of these are compared with each other, not only {monitor.within}.",)
    flagged = calibrate(rule, *arguments, threads=1)
    alike = like_cases(rule, *arguments, threads=1)
    return Tried(flagged, alike, len(some), part, remarks)


def _vary(hosted: Hosted) -> Varied:
    """What each line of the rule does, on the newest decisions."""
    monitor = hosted.monitor
    past, rows = monitor.past, monitor.rows
    newest = np.arange(max(0, rows - MOST_VARIED), rows)
    some = newest[past.alive(newest)].tolist()
    if not some:
        raise BadRow("no decision is remembered, so nothing can be tried.")
    span = past.span(some)
    models = past.models(some)
    return vary(
        monitor.rule,
        [past.values(row) for row in some],
        most_rows=MOST_VARIED,
        within=None if span is None else span.text,
        times=None if span is None else (span.times / 1e6).tolist(),
        models=models if any(one is not None for one in models) else None,
        threads=1,
    )


async def known(visit: Visit) -> RuleLook:
    hosted = visit.hosted
    text = visit.query.get("epsilon", "")
    epsilon = number("epsilon", text) if text else None
    if epsilon == 0:
        raise Refusal(400, "epsilon is 0; expected a number above 0.")
    asked, lines = await _asked(visit, anew=False)
    monitor = hosted.monitor
    return RuleLook(
        hosted.name, monitor.rule, monitor.within, hosted.next_row, asked, epsilon, lines
    )


async def _asked(visit: Visit, *, anew: bool) -> tuple[Computation | None, Computation | None]:
    hosted = visit.hosted
    if not hosted.next_row or hosted.slopes is not None:
        return None, None
    asked = await visit.computing.ask(hosted, _QUESTION, lambda: _compute(hosted), anew=anew)
    lines = None
    if hosted.monitor.rule.features is not None:
        lines = await visit.computing.ask(hosted, _LINES, lambda: _vary(hosted), anew=anew)
    return asked, lines


def shown(told: RuleLook, visit: Visit) -> str:
    said = wording(told.rule)
    conditions = "".join(
        f"<li><b><bdi>{safe(listed(names, 60), 400)}</bdi></b>: {safe(what, 400)}</li>"
        for names, what in said.conditions
    )
    notes = "".join(
        f"<p>{safe(one, 600)}</p>\n" for one in (*said.notes, *within_in_words(told.within))
    )
    few = " few" * (len(said.conditions) < 4)
    words = (
        f'<p class="lead">{safe(said.alike, 600)}</p>\n<ul class="rule{few}">{conditions}</ul>\n'
        f"<p>{safe(said.different, 600)}</p>\n{notes}"
    )
    toml = (
        f'<details><summary>As TOML</summary><pre tabindex="0">{safe_lines(told.rule.to_toml())}'
        f'</pre><p class="small">Fingerprint <code>{safe(told.rule.fingerprint)}</code></p>'
        "</details>\n"
    )
    tried = section("change", "What another epsilon would do", "", _tried(told, visit))
    return words + toml + tried + _lines(told)


def _lines(told: RuleLook) -> str:
    """Which line of the rule does the work."""
    asked = told.asked_lines
    if asked is None:
        return ""
    if asked.problem is not None:
        inside = f"<p>It could not be tried: {safe(asked.problem, 600)}</p>\n"
    elif told.varied is None:
        inside = waiting(asked)
    else:
        newest = min(told.varied.given, asked.rows)
        inside = (
            f"<p>Tried on the newest {newest:,} of {asked.rows:,} decisions.</p>\n"
            f"{varied_table(told.varied, told.varied.given)}"
        )
    lead = "What is comparable, and what contradicts, if one line of the rule is changed."
    return section("lines", TITLE, lead, inside)


def _tried(told: RuleLook, visit: Visit) -> str:
    asked = told.asked
    if visit.hosted.slopes is not None:
        return "<p>This monitor names the steepest past decision, however far: no epsilon.</p>\n"
    if asked is None:
        return "<p>There are no decisions yet to try it on.</p>\n"
    if asked.problem is not None:
        return f"<p>It could not be tried: {safe(asked.problem, 600)}</p>{_again(visit)}"
    tried = told.tried
    if tried is None:
        return waiting(asked)
    of = f"all {tried.decisions:,} decisions"
    if tried.part:
        of = f"the newest {tried.decisions:,} of {asked.rows:,} decisions"
    remarks = "".join(f'<p class="small">{safe(one, 400)}</p>\n' for one in tried.remarks)
    curve = curve_of(tried.flagged, told.rule, tried.alike)
    rows = [
        [
            f"<b>{figure(one['epsilon'])}</b> (now)"
            if one["epsilon"] == told.rule.epsilon
            else figure(one["epsilon"]),
            f"{one['comparable']:,}",
            f"{one['flagged']:,}",
            "–" if one["rate"] is None else percent(one["rate"]),
        ]
        for one in told.changes()
    ]
    heads = ("epsilon", "comparable", "contradict", "share of comparable")
    form = parts.filter_form(
        visit,
        "rule",
        parts.field("epsilon", "Another epsilon", told.epsilon, inputmode="decimal"),
        "Try it",
    )
    return (
        f'<p class="lead">Computed from {of} that are remembered. Nothing is changed by it.</p>\n'
        f"{remarks}{parts.table(heads, rows, 'What an epsilon comes to', numbers=(1, 2, 3))}{form}"
        f"<figure>{curve_plot(curve)}<figcaption>The share of decisions flagged, at every"
        " epsilon.</figcaption></figure>\n"
        f"<figure>{comparable_plot(curve)}<figcaption>The share of decisions that could be"
        f" compared.</figcaption></figure>\n{_again(visit)}"
    )


def _again(visit: Visit) -> str:
    return visit.form("rule/again", '<button class="plain">Compute it again</button>')


async def again(visit: Visit, _: Any) -> str:
    await _asked(visit, anew=True)
    return visit.url("rule")


PARTS: tuple[Part, ...] = (
    Screen("rule", "read", "The rule", known, shown),
    Form("rule/again", "read", again),
)
