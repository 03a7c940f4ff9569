"""The rule: in words, as TOML, and what a change of it would do, on the newest decisions.

Another epsilon is tried on `MOST_ROWS` of the newest decisions, fewer where inputs are long; each
line of a rule for tables is changed on `MOST_VARIED`. Both are computed aside.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.monitor.calibration import Calibration, calibrate, calibrate_like_cases
from likewise.monitor.protocol import AnyMonitor
from likewise.monitor.sensitivity import vary
from likewise.monitor.sensitivity_table import SensitivityTable
from likewise.pages.computations import Computation
from likewise.pages.page_state import Visit
from likewise.pages.screen import Fields, Form, PageData, PagePart, Screen
from likewise.reports.charts import comparable_plot, curve_plot
from likewise.reports.finding_words import describe_time_limit, word_rule
from likewise.reports.findings import curve_of
from likewise.reports.sensitivity_section import TITLE, varied_table
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.service.http_errors import Refusal
from likewise.service.routes.query_values import parse_number
from likewise.service.served_monitor import ServedMonitor

MOST_ROWS = 20_000
MOST_VARIED = 3_000
MOST_NUMBERS = 4_000_000  # coordinates of all of them together


@dataclass(frozen=True)
class EpsilonTrial:
    """The nearest contradiction, and the nearest like case, of each decision."""

    flagged: Calibration
    alike: Calibration
    decisions: int
    is_partial: bool
    """Whether there are more decisions than were looked at."""
    remarks: tuple[str, ...]

    def rates_at(self, epsilon: float) -> dict[str, Any]:
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


def _reduce_to_distance(rule: Rule) -> tuple[Rule, tuple[str, ...]]:
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


def _newest(monitor: AnyMonitor, most: int) -> list[int]:
    """The newest rows that are remembered; BadRow if there are none."""
    newest = np.arange(max(0, monitor.rows - most), monitor.rows)
    some: list[int] = newest[monitor.past.alive(newest)].tolist()
    if not some:
        raise BadRow("no decision is remembered, so nothing can be tried.")
    return some


def _compute(hosted: ServedMonitor) -> EpsilonTrial:
    monitor = hosted.monitor
    past, some = monitor.past, _newest(monitor, MOST_ROWS)
    rule, remarks = _reduce_to_distance(monitor.rule)
    part = monitor.rows > MOST_ROWS
    if monitor.rule.features is not None:
        arguments: tuple[Any, ...] = ([past.values(row) for row in some],)
    else:
        one = past.inputs(some[-1:])
        most = max(1, MOST_NUMBERS // max(1, one.size))
        part, some = part or len(some) > most, some[-most:]
        inputs = past.inputs(some)
        arguments = (inputs.reshape(len(some), -1), past.outputs(some))
        rule = replace(rule, embed=None) if rule.embed is not None else rule
    if monitor.within is not None:
        remarks += (f"All of these are compared with each other, not only {monitor.within}.",)
    flagged = calibrate(rule, *arguments, threads=1)
    alike = calibrate_like_cases(rule, *arguments, threads=1)
    return EpsilonTrial(flagged, alike, len(some), part, remarks)


def _vary(hosted: ServedMonitor) -> SensitivityTable:
    """What each line of the rule does, on the newest decisions."""
    monitor = hosted.monitor
    past, some = monitor.past, _newest(monitor, MOST_VARIED)
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


async def load(visit: Visit) -> PageData:
    hosted, monitor = visit.hosted, visit.hosted.monitor
    text = visit.query.get("epsilon", "")
    epsilon = parse_number("epsilon", text) if text else None
    if epsilon == 0:
        raise Refusal(400, "epsilon is 0; expected a number above 0.")
    asked, asked_lines = await _request_computations(visit)
    tried: EpsilonTrial | None = asked.value if asked else None
    varied: SensitivityTable | None = asked_lines.value if asked_lines else None
    rule, said = monitor.rule, word_rule(monitor.rule)
    notes = [*said.notes, *describe_time_limit(monitor.within)]
    curve = None if tried is None else curve_of(tried.flagged, rule, tried.alike)
    epsilons = {rule.epsilon / 2, rule.epsilon, rule.epsilon * 2} | (
        {epsilon} if epsilon else set()
    )
    data = {
        "monitor": hosted.name,
        "toml": rule.to_toml(),
        "fingerprint": rule.fingerprint,
        "words": {
            "alike": said.alike,
            "conditions": [
                {"columns": list(names), "what": what} for names, what in said.conditions
            ],
            "different": said.different,
            "notes": notes,
        },
        "rows": hosted.next_row,
        "computed": None if asked is None else asked.to_dict(),
        "decisions": None if tried is None else tried.decisions,
        "remarks": [] if tried is None else list(tried.remarks),
        "epsilons": [] if tried is None else [tried.rates_at(one) for one in sorted(epsilons)],
        "lines_computed": None if asked_lines is None else asked_lines.to_dict(),
        "lines": None if varied is None else varied.to_dict(),
        "curve": curve
        and {
            "epsilons": curve.epsilons,
            "flagged": curve.rates,
            "comparable": curve.comparable,
        },
    }

    def more() -> dict[str, Any]:
        return {
            "rule": rule,
            "epsilon": epsilon,
            "tried": tried,
            "said": said,
            "notes": notes,
            "flagged": None if curve is None else curve_plot(curve),
            "comparable": None if curve is None else comparable_plot(curve),
            "varied_title": TITLE,
            "varied": varied,
            "varied_table": None if varied is None else varied_table(varied, varied.given_count),
        }

    return PageData(data, more)


async def _request_computations(
    visit: Visit, *, recompute: bool = False
) -> tuple[Computation | None, Computation | None]:
    """What another epsilon would do and, of a rule for tables, what each line of it does."""
    hosted, ask = visit.hosted, visit.computations.ask
    if not hosted.next_row or hosted.monitor.slope is not None:
        return None, None
    asked = await ask(hosted, "rule", lambda: _compute(hosted), recompute=recompute)
    if hosted.monitor.rule.features is None:
        return asked, None
    return asked, await ask(hosted, "lines of the rule", lambda: _vary(hosted), recompute=recompute)


async def recompute(visit: Visit, _: Fields) -> str:
    await _request_computations(visit, recompute=True)
    return visit.url("rule")


PARTS: tuple[PagePart, ...] = (
    Screen("rule", "read", "The rule", load, "pages/rule.html"),
    Form("rule/again", "read", recompute),
)
