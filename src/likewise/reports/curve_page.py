"""Renders what `likewise calibrate` found as one self-contained HTML document: curves, figures."""

from collections.abc import Sequence
from typing import NamedTuple

from likewise.monitor.calibration import Calibration
from likewise.monitor.sensitivity import SensitivityTable
from likewise.reports.charts import comparable_plot, curve_plot
from likewise.reports.document import document
from likewise.reports.findings import curve_of
from likewise.reports.sensitivity_section import TITLE, varied_table
from likewise.tables.printing import format_number, percent, shorten
from likewise.version import __version__


class TargetRate(NamedTuple):
    """Holds a rate, the largest epsilon that flags no more, and what is comparable there."""

    rate: float
    epsilon: float | None
    """None where no epsilon is small enough."""
    comparable: float | None


def curve_page(
    calibration: Calibration,
    like_cases: Calibration,
    targets: Sequence[TargetRate],
    source: str,
    varied: SensitivityTable | None = None,
) -> str:
    """Render the page.

    like_cases  calibration for similar cases of any output
    varied      the counts that the rule gives with each line of it changed
    """
    rule = calibration.rule
    curve = curve_of(calibration, rule, like_cases)
    return document(
        "reports/curve_page.html",
        title=f"{shorten(source, 80)} · epsilon",
        version=__version__,
        source=source,
        decisions=len(calibration),
        rule=rule,
        flagged=curve_plot(curve),
        comparable=comparable_plot(curve),
        targets=[
            (percent(one.rate), f"epsilon {_epsilon(one.epsilon)}{_comparable(one.comparable)}")
            for one in targets
        ],
        varied_title=TITLE,
        varied=None if varied is None else varied_table(varied, len(calibration)),
        wording=rule.explain(),
    )


def _epsilon(epsilon: float | None) -> str:
    if epsilon is None:
        return "none: equal inputs got different outputs more often than that"
    return "any" if epsilon == float("inf") else format_number(epsilon)


def _comparable(share: float | None) -> str:
    return "" if share is None else f", {percent(share)} comparable"
