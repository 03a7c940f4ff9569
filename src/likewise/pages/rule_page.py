"""The page of the rule: in words, as TOML, and the effect of changes on the newest decisions.

Cost: another epsilon is tried on the newest `MOST_ROWS` decisions, fewer if inputs are long; each
line of a rule for tables is changed on `MOST_VARIED`. Both are computed in the background.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.monitor.calibration import Calibration, calibrate, calibrate_like_cases
from likewise.monitor.protocol import AnyMonitor
from likewise.monitor.sensitivity import SensitivityTable, vary
from likewise.pages.frame import PageData, PagePart, Screen, recompute_form
from likewise.pages.page_state import Visit
from likewise.pages.running_tally import Computation
from likewise.reports.charts import comparable_plot, curve_plot
from likewise.reports.finding_words import describe_time_limit
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
    """Holds the distances to the nearest contradiction and the nearest similar case."""

    flagged: Calibration
    alike: Calibration
    decisions: int
    is_partial: bool
    """Whether there are more decisions than were tried."""
    remarks: tuple[str, ...]

    def rates_at(self, epsilon: float) -> dict[str, Any]:
        """Return the counts that an epsilon would give."""
        flagged, alike = self.flagged.rate(epsilon), self.alike.rate(epsilon)
        count = len(self.flagged)
        return {
            "epsilon": epsilon,
            "decisions": count,
            "comparable": round(alike * count),
            "violations": round(flagged * count),
            "rate_among_comparable": flagged / alike if alike else None,
        }


def _reduce_to_distance(rule: Rule) -> tuple[Rule, tuple[str, ...]]:
    """Return the rule as far as similarity is a distance alone, and what that leaves out."""
    remarks = []
    features = dict(rule.features or {})
    if rule.person_column is not None:
        remarks.append(
            f"Repeated decisions about one person ({rule.person_column}) are compared here; the"
            " rule leaves them out."
        )
        features[rule.person_column] = Feature("ignore")
    if rule.protected_must_differ:
        remarks.append("Pairs within a protected group count here; the rule leaves them out.")
    if not remarks:
        return rule, ()
    return replace(rule, features=features, protected_must_differ=False), tuple(remarks)


def _newest(monitor: AnyMonitor, most: int) -> list[int]:
    """Return the newest rows that are remembered; BadRow if there are none."""
    newest = np.arange(max(0, monitor.rows - most), monitor.rows)
    rows: list[int] = newest[monitor.past.alive(newest)].tolist()
    if not rows:
        raise BadRow("no decision is remembered, so nothing can be tried.")
    return rows


def _try_epsilons(served: ServedMonitor) -> EpsilonTrial:
    monitor = served.monitor
    past, rows = monitor.past, _newest(monitor, MOST_ROWS)
    rule, remarks = _reduce_to_distance(monitor.rule)
    is_partial = monitor.rows > MOST_ROWS
    if monitor.rule.features is not None:
        arguments: tuple[Any, ...] = ([past.values(row) for row in rows],)
    else:
        most = max(1, MOST_NUMBERS // max(1, past.inputs(rows[-1:]).size))
        is_partial, rows = is_partial or len(rows) > most, rows[-most:]
        arguments = (past.inputs(rows).reshape(len(rows), -1), past.outputs(rows))
        rule = replace(rule, embed=None) if rule.embed is not None else rule
    if monitor.core.within is not None:
        remarks += (
            f"All of these decisions are compared with each other, not only {monitor.core.within}.",
        )
    flagged = calibrate(rule, *arguments, threads=1)
    alike = calibrate_like_cases(rule, *arguments, threads=1)
    return EpsilonTrial(flagged, alike, len(rows), is_partial, remarks)


def _vary_lines(served: ServedMonitor) -> SensitivityTable:
    """Compute the effect of each line of the rule on the newest decisions."""
    monitor = served.monitor
    past, rows = monitor.past, _newest(monitor, MOST_VARIED)
    span = past.span(rows)
    models = past.models(rows)
    return vary(
        monitor.rule,
        [past.values(row) for row in rows],
        most_rows=MOST_VARIED,
        within=None if span is None else span.text,
        times=None if span is None else (span.times / 1e6).tolist(),
        models=models if any(model is not None for model in models) else None,
        threads=1,
    )


async def load(visit: Visit) -> PageData:
    served, monitor = visit.served, visit.served.monitor
    text = visit.query.get("epsilon", "")
    epsilon = parse_number("epsilon", text) if text else None
    if epsilon == 0:
        raise Refusal(400, "epsilon is 0; expected a number above 0.")
    computation, lines_computation = await _request_computations(visit)
    tried: EpsilonTrial | None = computation.value if computation else None
    varied: SensitivityTable | None = lines_computation.value if lines_computation else None
    rule, words = monitor.rule, monitor.rule.explain()
    notes = [*words.notes, *describe_time_limit(monitor.core.within)]
    curve = None if tried is None else curve_of(tried.flagged, rule, tried.alike)
    epsilons = {rule.epsilon / 2, rule.epsilon, rule.epsilon * 2, epsilon or rule.epsilon}
    data = {
        "monitor": served.name,
        "toml": rule.to_toml(),
        "fingerprint": rule.fingerprint,
        "words": {
            **asdict(words),
            "conditions": [{"columns": names, "what": what} for names, what in words.conditions],
            "notes": notes,
        },
        "rows": served.next_row,
        "computed": computation and computation.to_dict(),
        "decisions": tried and tried.decisions,
        "remarks": list(tried.remarks) if tried else [],
        "epsilons": [tried.rates_at(value) for value in sorted(epsilons)] if tried else [],
        "lines_computed": lines_computation and lines_computation.to_dict(),
        "lines": varied and varied.to_dict(),
        "curve": curve
        and {"epsilons": curve.epsilons, "rates": curve.rates, "comparable": curve.comparable},
    }

    return PageData(
        data,
        lambda: {
            "rule": rule,
            "epsilon": epsilon,
            "tried": tried,
            "words": words,
            "notes": notes,
            "flagged": curve and curve_plot(curve),
            "comparable": curve and comparable_plot(curve),
            "varied_title": TITLE,
            "varied": varied,
            "varied_table": varied and varied_table(varied, varied.given_count),
        },
    )


async def _request_computations(
    visit: Visit, recompute: bool = False
) -> tuple[Computation | None, Computation | None]:
    """Request the effect of other epsilons and, for a rule for tables, that of its lines."""
    served, ask = visit.served, visit.computations.ask
    if not served.next_row or served.monitor.slope is not None:
        return None, None
    epsilons = await ask(served, "rule", lambda: _try_epsilons(served), recompute)
    if served.monitor.rule.features is None:
        return epsilons, None
    lines = await ask(served, "lines of the rule", lambda: _vary_lines(served), recompute)
    return epsilons, lines


PARTS: tuple[PagePart, ...] = (
    Screen("rule", "read", "The rule", load, "pages/rule.html"),
    recompute_form("rule", _request_computations),
)
