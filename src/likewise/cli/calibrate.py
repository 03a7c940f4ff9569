"""`likewise calibrate`: compute the share of decisions that every epsilon would flag.

It also computes the share that could be compared at all, since a small epsilon may flag little
because nothing is similar, and how both shares change with each line of the rule.
Cost: all decisions of the file are in memory at once; a few passes over them.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from likewise.cli import options as o
from likewise.cli.exit_codes import DATA, FINE, CommandError
from likewise.cli.input_files import ReadingOptions, check_output_path, write_text
from likewise.cli.terminal import print_json, progress, say, width

if TYPE_CHECKING:
    from likewise.reports.curve_page import TargetRate

_RATES = (0.001, 0.01, 0.05, 0.1)
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
        result = _calibrate_file(source, binding, reading.skips_bad_rows, rate, varies)
    return _report_result(result, report, json)


@dataclass(frozen=True)
class _CalibrationResult:
    flagged: Any
    """Distances to the nearest contradiction."""
    alike: Any
    """Distances to the nearest similar case of any output."""
    refused: Any
    rate: float | None
    source: Any
    varied: Any
    """The effect of each line of the rule; None without a rule and without --epsilon."""

    def find_targets(self) -> "list[TargetRate]":
        """Return rates, each with the largest epsilon that flags no more."""
        from likewise.reports.curve_page import TargetRate

        rates = sorted({*_RATES, *([] if self.rate is None else [self.rate])})
        epsilons = [_round_down(self.epsilon_for(rate)) for rate in rates]
        shares = [None if one is None else float(self.alike.rate(one)) for one in epsilons]
        return list(map(TargetRate, rates, epsilons, shares))

    @property
    def comparable(self) -> int:
        """How many decisions could be compared at the rule's epsilon."""
        return round(float(self.alike.rate(self.alike.rule.epsilon)) * len(self.alike))

    def epsilon_for(self, rate: float) -> float | None:
        try:
            return float(self.flagged.epsilon_for(rate))
        except ValueError:
            return None  # equal inputs got different outputs more often than that


def _round_down(epsilon: float | None) -> float | None:
    """Round to digits that a person would type; a smaller epsilon flags no more."""
    if epsilon is None or not 0 < epsilon < math.inf:
        return epsilon
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 5)
    steps = math.floor(epsilon / unit)
    return next(
        value for value in (float(f"{(steps - i) * unit:.6g}") for i in (0, 1)) if value <= epsilon
    )


def _calibrate_file(
    source: Any, binding: Any, skip: bool, rate: float | None, varies: bool
) -> _CalibrationResult:
    from likewise.auditing.feeding import BadRowPolicy, judge_chunks
    from likewise.monitor.calibration import calibrate as calibrate_rule
    from likewise.monitor.calibration import calibrate_like_cases
    from likewise.monitor.factory import make_reader
    from likewise.monitor.readers.protocol import FROM_ROW
    from likewise.monitor.sensitivity import vary
    from likewise.sources.protocol import join_chunks

    bad = BadRowPolicy(source, skip)
    reader = make_reader(binding.rule)

    def read_inputs(rows: Any) -> Any:
        arguments = binding.arguments(rows.table)
        return arguments if len(arguments) > 1 else reader.read_many(arguments[0], FROM_ROW)

    with progress(f"calibrating {source.name}") as bar:
        parts = []
        for part in judge_chunks(source, binding, read_inputs, bad):
            parts.append(part.rows)
            done, total = source.progress
            bar.update(done, total, "reading")
        table = join_chunks(parts).table
        bar.update(0, None, f"{len(table):,} decisions")
        arguments = binding.arguments(table)
        flagged = calibrate_rule(binding.rule, *arguments)
        alike = calibrate_like_cases(binding.rule, *arguments)
        varied = None
        if varies:
            varied = vary(binding.rule, *arguments, columns=binding.inputs or None)
        return _CalibrationResult(flagged, alike, bad.rows, rate, source, varied)


def _report_result(result: _CalibrationResult, report: Path | None, as_json: bool) -> int:
    if report is not None:
        from likewise.reports.curve_page import curve_page

        page = curve_page(
            result.flagged, result.alike, result.find_targets(), result.source.name, result.varied
        )
        write_text(report, page)
    if as_json:
        _print_json(result)
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


def _print_json(result: _CalibrationResult) -> None:
    from likewise.reports.findings import curve_of

    flagged = result.flagged
    curve = curve_of(flagged, flagged.rule, result.alike)
    answer = {
        "rows": len(flagged),
        "violations": int((flagged.rows >= 0).sum()),
        "epsilon": flagged.rule.epsilon,
        "rate": flagged.rate(flagged.rule.epsilon),
        "comparable": result.comparable,
        "target_rate": result.rate,
        "epsilon_for_target": None if result.rate is None else result.epsilon_for(result.rate),
        "targets": [one._asdict() for one in result.find_targets()],
        "curve": {
            "epsilons": list(curve.epsilons),
            "rates": list(curve.rates),
            "comparable": list(curve.comparable or ()),
        },
        "varied": result.varied and result.varied.to_dict(),
        "closest": [pair._asdict() for pair in flagged.closest(10)],
        "bad_rows": result.refused.count,
        "bad_row_examples": result.refused.to_dicts(result.source.unit),
        "remarks": [remark.to_dict() for remark in result.source.remarks],
    }
    print_json(answer)


def _print(result: _CalibrationResult, report: Path | None) -> None:
    from likewise.cli.audit_summary import print_refused_rows
    from likewise.cli.braille_curve import draw_curve
    from likewise.reports.findings import curve_of
    from likewise.tables.printing import format_number, percent

    flagged = result.flagged
    contradicted = int((flagged.rows >= 0).sum())
    say(f"{len(flagged):,} decisions, {contradicted:,} with a contradiction in their past", "bold")
    say(f"The share flagged, over epsilon ({flagged.rule.metric}):")
    say()
    for line in draw_curve(curve_of(flagged, flagged.rule), min(width(), 100)):
        say(line)
    say()
    for rate, target, compared in result.find_targets():
        text = "any" if target == math.inf else "none" if target is None else format_number(target)
        of = "" if compared is None else f" ({percent(compared)} comparable)"
        line = f"{percent(rate):>7} flagged at most{of}: epsilon {text}"
        say(line, "bold" if rate == result.rate else "")
    epsilon = flagged.rule.epsilon
    comparable = result.comparable
    rate = flagged.rate(epsilon)
    if comparable == 0:
        say(
            f"At the rule's epsilon of {format_number(epsilon)} nothing could be compared, so"
            " nothing follows: no decision has an earlier similar case.",
            "bold red",
        )
    else:
        say(f"{percent(rate):>7} flagged at the rule's epsilon of {format_number(epsilon)}")
        of_comparable = percent(rate * len(flagged) / comparable)
        share = percent(result.alike.rate(epsilon))
        say(f"{share:>7} comparable there; {of_comparable} of these are flagged")
    if result.varied is not None:
        _print_varied(result)
    if result.refused.count:
        say()
        print_refused_rows(result.refused, result.source.unit)
    if report is not None:
        say(f"The curve: {report}")


def _print_varied(result: _CalibrationResult) -> None:
    from likewise.reports.sensitivity_section import (
        TITLE,
        describe_basis,
        describe_omitted,
        lines_of,
        share_of,
    )

    lines = lines_of(result.varied)
    say()
    say(TITLE, "bold")
    say(f"{describe_basis(result.varied, len(result.flagged))}:")
    say(f"{'comparable':>12}{'contradict':>12}{'share':>10}")
    for i, line in enumerate(lines[:_LINES]):
        outcome = line.outcome
        numbers = f"{outcome.comparable:>12,}{outcome.violations:>12,}{share_of(outcome):>10}"
        say(f"{numbers}  {line.text}", "" if i else "bold")
    if len(lines) > _LINES:
        say(f"and {len(lines) - _LINES:,} lines more, with less effect: --json has all")
    for sentence in describe_omitted(result.varied):
        say(sentence)
