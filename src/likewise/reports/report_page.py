"""Renders findings as the report: one self-contained HTML document (page.html).

Not here: sentences (finding_words.py), plots (charts.py), groups (group_section.py), pairs
(document.py).
"""

import os
import shlex
from collections.abc import Sequence
from typing import Any

from likewise.explaining.compare_groups import protected_columns
from likewise.reports.charts import (
    MIN_POINT,
    choose_drawn,
    comparable_plot,
    curve_plot,
    margin_plot,
    rate_plot,
)
from likewise.reports.document import document, pair_cards, write_document
from likewise.reports.evidence import Provenance
from likewise.reports.finding_words import (
    describe_findings,
    describe_shares,
    describe_time_limit,
)
from likewise.reports.findings import Findings
from likewise.reports.group_section import (
    group_section,
    group_sentences,
    how_compared,
    model_section,
)
from likewise.reports.headline import describe_agreement, is_counted
from likewise.reports.sensitivity_section import TITLE, describe_basis, varied_table
from likewise.reports.timeline import Stretch
from likewise.tables.printing import percent, shorten

_FEW = 100  # of fewer comparable decisions a percentage would seem more exact than it is


def write_page(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the page atomically; raise BadFile if that is not possible."""
    write_document(render_page(findings), path)


def render_page(findings: Findings) -> str:
    """Render the findings as one self-contained HTML document."""
    done, rule, curve = findings.computed, findings.rule, findings.curve
    hero, sentences, tiles = _describe_top(findings)
    wording = rule.explain()
    varied = findings.varied
    return document(
        "reports/page.html",
        title=f"{shorten(done.source, 80)} · likewise report",
        made_by=done.version,
        script="tables.js",
        findings=findings,
        day=done.made_at,
        hero=hero,
        sentences=sentences,
        tiles=tiles,
        not_shown=findings.not_shown if findings.rows else (),
        wording=wording,
        notes=[*wording.notes, *describe_time_limit(done.order.within)],
        time=_over_time(findings),
        groups=group_section(findings.groups, findings.no_groups_reason),
        models=model_section(findings.by_model, rule.compare),
        across=bool(protected_columns(rule)),
        cards=pair_cards(findings.worst, rule) if findings.worst else None,
        margins=margin_plot(findings.margins) if findings.violations else None,
        curve=curve and curve_plot(curve),
        comparable_curve=comparable_plot(curve) if curve and curve.comparable else None,
        scaled=_explain_scale(findings),
        varied_title=TITLE,
        varied=None if varied is None else varied_table(varied, findings.rows),
        how_compared=how_compared(findings.groups, done.order.within),
        curve_rests_on=_describe_curve_basis(findings),
        varied_rests_on="" if varied is None else describe_basis(varied, findings.rows),
        versions=_versions(done),
        options=_options(done),
    )


def _describe_top(
    findings: Findings,
) -> tuple[dict[str, Any], Sequence[str], Sequence[tuple[str, str]]]:
    """Return the large number, the sentences beside it, and counts.

    Shares of decisions that contradict an earlier one come last, in the section about time; first
    only where agreement was not computed.
    """
    agreement = findings.agreement
    if agreement is None or not _begins_with_index(findings):
        big, what = _choose_big_number(findings)
        hero = {"nothing": findings.nothing_compared, "big": big, "what": what}
        return hero, describe_findings(findings), _tiles(findings)
    headline = describe_agreement(agreement, findings.rule)
    hero = {"nothing": not headline.is_concluded, "big": headline.big, "what": headline.what}
    compared = f"{agreement.comparable:,} of {findings.rows:,}"
    tiles = [*headline.tiles, (compared, "decisions have a similar case, earlier or later")]
    groups = group_sentences(findings.groups)
    return hero, [*headline.index, *groups, *headline.opposed], tiles


def _begins_with_index(findings: Findings) -> bool:
    agreement = findings.agreement
    compared = findings.rows > 0 and not findings.nothing_compared
    return compared and agreement is not None and is_counted(agreement)


def _choose_big_number(findings: Findings) -> tuple[str, str]:
    """Return the most important number of the page, and what it is a share of."""
    comparable, share = findings.with_earlier, findings.rate_among_comparable
    if findings.rows == 0:
        return "–", "no decisions"
    if findings.nothing_compared:
        return "0", f"of {findings.rows:,} decisions could be compared"
    if comparable is None or share is None:
        return percent(findings.rate), f"of {findings.rows:,} decisions contradict an earlier one"
    if comparable < _FEW:
        verb = "contradicts" if findings.violations == 1 else "contradict"
        what = f"comparable decisions {verb} an earlier one"
        return f"{findings.violations} of {comparable}", what
    return percent(share), f"of {comparable:,} comparable decisions contradict an earlier one"


def _tiles(findings: Findings) -> list[tuple[str, str]]:
    comparable = "–" if findings.with_earlier is None else f"{findings.with_earlier:,}"
    tiles = [
        (f"{findings.rows:,}", "decisions judged"),
        (comparable, "had an earlier similar case: they are comparable"),
    ]
    if findings.missing_decisions:
        tiles.append((f"{findings.missing_decisions:,}", "more are known to be missing"))
    if findings.nothing_compared:
        return tiles  # a count of contradictions would be 0, and would look like a finding
    return [
        *tiles,
        (f"{findings.violations:,}", "contradict an earlier one"),
        (f"{findings.in_any_pair:,}", "are in a contradicting pair, in any order"),
        (f"{findings.pairs:,}", "contradicting pairs in all"),
        (
            f"{findings.margins.identical:,}",
            "contradict a case that is the same in everything compared",
        ),
    ]


def _over_time(findings: Findings) -> dict[str, Any] | None:
    """Return shares of contradictions in words, and by rows and by time; None if there are none."""
    shares = describe_shares(findings) if _begins_with_index(findings) else []
    if findings.violations == 0:
        return {"shares": shares, "by_row": None, "by_time": None} if shares else None
    rate = findings.rate if findings.with_earlier is None else findings.rate_among_comparable
    order = findings.computed.order
    return {
        "shares": shares,
        "how": "In the order judged" if order.column or order.lines else "In order of arrival",
        "size": findings.by_row[0].decisions,
        "by_row": _rates(findings.by_row, rate or 0.0),
        "by_time": _rates(findings.by_time, rate or 0.0) if findings.by_time else None,
    }


def _rates(stretches: Sequence[Stretch], overall: float) -> dict[str, Any]:
    points = choose_drawn(stretches)
    left_out = sum(one not in points for one in stretches)
    return {"svg": rate_plot(stretches, overall), "left_out": left_out, "fewest": MIN_POINT}


def _explain_scale(findings: Findings) -> str:
    scaled = " All tolerances of the rule are multiplied by it." * bool(findings.rule.features)
    many = findings.rows if findings.curve is None else findings.curve.decisions
    part = f" Computed from a part: the first {many:,} of {findings.rows:,} decisions judged."
    return scaled + part * (many < findings.rows)


def _options(done: Provenance) -> str:
    """Return the options that the command needs beside the rule, to compute the same."""
    options = {
        "--time-column": done.order.column,
        "--within": done.order.within,
        "--model-column": done.model_column,
    }
    return "".join(f" {name} {shlex.quote(value)}" for name, value in options.items() if value)


def _describe_curve_basis(findings: Findings) -> str:
    if findings.curve is None:
        rule, within = findings.rule, findings.computed.order.within
        excludes_pairs = rule.person_column or rule.protected_must_differ or rule.compare != "all"
        if within or excludes_pairs:
            return (
                "not drawn: it is computed from distances alone, and here some pairs do not count,"
                " however near they are"
            )
        return ""
    many = findings.curve.decisions
    part = f"a part: the first {many:,} of {findings.rows:,} decisions judged"
    return part if many < findings.rows else f"all {many:,} decisions"


def _versions(done: Provenance) -> str:
    packages = [f"{name} {version}" for name, version in done.packages]
    return ", ".join([f"likewise {done.version}", f"Python {done.python}", *packages])
