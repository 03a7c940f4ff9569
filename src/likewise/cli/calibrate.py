"""`likewise calibrate`: compute the share of decisions that every epsilon would flag.

It also says which share could be compared at all, since a small epsilon may flag little because
nothing is similar. auditing/calibrate_file.py does the work.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from likewise.cli import options as o
from likewise.cli.exit_codes import DATA, FINE, CommandError
from likewise.cli.input_files import ReadingOptions, check_output_path, write_text
from likewise.cli.terminal import print_json, progress, say, width

if TYPE_CHECKING:
    from likewise.auditing.calibrate_file import FileCalibration
    from likewise.monitor.sensitivity import SensitivityTable

_LINES = 24  # of the table of changed rules


@o.with_option_groups("person")
def calibrate(
    data: o.Data,
    rule: o.RuleFile = None,
    trust_code: o.TrustCode = False,
    rate: float | None = o.option(
        "Find the largest epsilon that flags at most this share.", min=0.0, max=1.0, metavar="SHARE"
    ),
    report: Path | None = o.option("Write the curve as a page.", metavar="CURVE.html"),
    json: o.Json = False,
    *,
    quick: o.RuleOptions,
    reading: ReadingOptions,
) -> int:
    """Compute for every epsilon which share of decisions is comparable, and which is flagged.

    likewise calibrate decisions.csv --rule likewise.toml --rate 0.01

    With a rule that has features, epsilon is the factor for all its tolerances.

    Then, for each column: how many decisions are comparable, and how many contradict, if the rule
    ignored the column, or halved or doubled its tolerance.
    """
    from likewise.auditing.calibrate_file import calibrate_file
    from likewise.cli.rule_options import bind_rule

    check_output_path(report, "--report", (".html", ".htm"))
    varies = rule is not None or quick.epsilon is not None
    if not varies:
        quick = replace(quick, epsilon=1.0)  # any value: the result does not depend on it
    with reading.open(data) as source:
        binding = bind_rule(
            rule,
            quick,
            source.columns,
            source.name,
            left_out=source.left_out,
            trust_code=trust_code,
        )
        with progress(f"calibrating {source.name}") as bar:
            result = calibrate_file(
                source,
                binding,
                skip=reading.skips_bad_rows,
                rate=rate,
                varies=varies,
                progress=bar.update,
            )
    return _report_result(result, report, json)


def _report_result(result: "FileCalibration", report: Path | None, as_json: bool) -> int:
    if report is not None:
        write_text(report, result.to_html())
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result, report)
    if result.rate is not None and result.epsilon_for(result.rate) is None:
        raise CommandError(
            f"no epsilon flags a share of {result.rate:g} or less: {result.flagged.rate(0):.4g} of"
            " the decisions have the same input as an earlier one with a different output. Ask for"
            " a higher --rate, or compare more columns.",
            DATA,
        )
    return FINE


def _print(result: "FileCalibration", report: Path | None) -> None:
    from likewise.cli.audit_summary import print_refused_rows
    from likewise.cli.braille_curve import draw_curve
    from likewise.tables.printing import format_number, percent

    flagged = result.flagged
    say(
        f"{len(flagged):,} decisions, {result.violations:,} with a contradiction in their past",
        "bold",
    )
    say(f"The share flagged, over epsilon ({flagged.rule.metric}):")
    say()
    for line in draw_curve(result.curve, min(width(), 100)):
        say(line)
    say()
    for rate, target, compared in result.find_targets():
        text = "any" if target == math.inf else "none" if target is None else format_number(target)
        of = "" if compared is None else f" ({percent(compared)} comparable)"
        line = f"{percent(rate):>7} flagged at most{of}: epsilon {text}"
        say(line, "bold" if rate == result.rate else "")
    epsilon, rate = result.epsilon, flagged.rate(result.epsilon)
    share = result.rate_among_comparable
    if share is None:
        say(
            f"At the rule's epsilon of {format_number(epsilon)} nothing could be compared, so"
            " nothing follows: no decision has an earlier similar case.",
            "bold red",
        )
    else:
        say(f"{percent(rate):>7} flagged at the rule's epsilon of {format_number(epsilon)}")
        comparable = percent(result.alike.rate(epsilon))
        say(f"{comparable:>7} comparable there; {percent(share)} of these are flagged")
    if result.varied is not None:
        _print_varied(result.varied, len(result.flagged))
    if result.refused.count:
        say()
        print_refused_rows(result.refused, result.source.unit)
    if report is not None:
        say(f"The curve: {report}")


def _print_varied(varied: "SensitivityTable", decisions: int) -> None:
    from likewise.reports.sensitivity_section import (
        TITLE,
        describe_basis,
        describe_omitted,
        lines_of,
        share_of,
    )

    lines = lines_of(varied)
    say()
    say(TITLE, "bold")
    say(f"{describe_basis(varied, decisions)}:")
    say(f"{'comparable':>12}{'contradict':>12}{'share':>10}")
    for i, line in enumerate(lines[:_LINES]):
        outcome = line.outcome
        numbers = f"{outcome.comparable:>12,}{outcome.violations:>12,}{share_of(outcome):>10}"
        say(f"{numbers}  {line.text}", "" if i else "bold")
    if len(lines) > _LINES:
        say(f"and {len(lines) - _LINES:,} lines more, with less effect: --json has all")
    for sentence in describe_omitted(varied):
        say(sentence)
