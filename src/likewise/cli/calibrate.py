"""`likewise calibrate`: which share of a file's decisions would be flagged, at every epsilon?

And which share could be compared at all: a small epsilon may flag little because nothing is alike.
And what each line of the rule does: what both would be if it were changed.

Cost: all decisions of the file at once, and a few passes over them.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o
from likewise.cli.input_files import ReadingOptions

_RATES = (0.001, 0.01, 0.05, 0.1)
_LINES = 24  # of the table of changed rules


@o.with_option_groups("person")
def calibrate(
    data: o.Data,
    rule: o.RuleFile = None,
    trust_code: o.TrustCode = False,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Find the epsilon that flags this share at most.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="CURVE.html", help="Write the curve as a page.")
    ] = None,
    json: o.Json = False,
    *,
    quick: o.RuleOptions,
    reading: ReadingOptions,
) -> int:
    """How near is near? The share of decisions flagged, and comparable, at every epsilon.

    likewise calibrate decisions.csv --rule likewise.toml --rate 0.01

    With a rule that has features, epsilon is what all its tolerances are multiplied by.

    Then, for each column: what is comparable, and what contradicts, if the rule ignored it, halved
    its tolerance, or doubled it.
    """
    from likewise.cli.output_files import check_output_path
    from likewise.cli.rule_options import bind_rule

    check_output_path(report, "--report", (".html", ".htm"))
    varies = rule is not None or quick.epsilon is not None
    if not varies:
        quick = replace(quick, epsilon=1.0)  # plays no part in what is found
    with reading.open(data) as source:
        binding = bind_rule(
            rule,
            quick,
            source.columns,
            source.name,
            left_out=source.left_out,
            trust_code=trust_code,
        )
        told = _calibrate_file(source, binding, reading.skips_bad_rows, rate, varies)
    return _report_result(told, report, json)


@dataclass(frozen=True)
class _CalibrationResult:
    flagged: Any
    alike: Any
    """The same for like cases of any output."""
    refusals: Any
    rate: float | None
    source: Any
    varied: Any
    """Each line of the rule changed; None where nobody has said what is near."""

    def find_targets(self) -> list[tuple[float, float | None]]:
        """Rates with the largest epsilon that flags no more."""
        rates = sorted({*_RATES, *([] if self.rate is None else [self.rate])})
        return [(rate, _rounded_down(self.epsilon_for(rate))) for rate in rates]

    def comparable_share(self, epsilon: float | None) -> float | None:
        """The share of decisions that could be compared at an epsilon."""
        return None if epsilon is None else float(self.alike.rate(epsilon))

    def count_comparable(self, epsilon: float) -> int:
        share: float = self.alike.rate(epsilon)
        return round(share * len(self.alike))

    def epsilon_for(self, rate: float) -> float | None:
        try:
            return float(self.flagged.epsilon_for(rate))
        except ValueError:
            return None  # equal inputs got different outputs more often than that


def _rounded_down(epsilon: float | None) -> float | None:
    """To figures that a person would type, and that still flag no more."""
    if epsilon is None or not 0 < epsilon < math.inf:
        return epsilon
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 5)
    steps = math.floor(epsilon / unit)
    return next(
        one for one in (float(f"{(steps - i) * unit:.6g}") for i in (0, 1)) if one <= epsilon
    )


def _calibrate_file(
    source: Any, binding: Any, skip: bool, rate: float | None, varies: bool
) -> _CalibrationResult:
    from likewise.audit.feeding import BadRowPolicy, judge_chunks
    from likewise.cli.terminal import progress
    from likewise.monitor.calibration import calibrate as nearest
    from likewise.monitor.calibration import calibrate_like_cases
    from likewise.monitor.factory import make_reader
    from likewise.monitor.readers.protocol import FROM_ROW
    from likewise.monitor.sensitivity import vary
    from likewise.sources.chunk import join_tables

    bad = BadRowPolicy(source, skip)
    reader = make_reader(binding.rule)

    def readable(rows: Any) -> Any:
        arguments = binding.arguments(rows.table)
        return arguments if len(arguments) > 1 else reader.read_many(arguments[0], FROM_ROW)

    with progress(f"calibrating {source.name}") as bar:
        tables = []
        for part in judge_chunks(source, binding, readable, bad):
            tables.append(part.rows.table)
            done, total = source.progress
            bar.update(done, total, "reading")
        table = join_tables(tables)
        bar.update(0, None, f"{len(table):,} decisions")
        arguments = binding.arguments(table)
        found = nearest(binding.rule, *arguments)
        alike = calibrate_like_cases(binding.rule, *arguments)
        varied = None
        if varies:
            varied = vary(binding.rule, *arguments, columns=binding.inputs or None)
        return _CalibrationResult(found, alike, bad, rate, source, varied)


def _report_result(told: _CalibrationResult, report: Path | None, as_json: bool) -> int:
    from likewise.cli.exit_codes import DATA, FINE, CommandError
    from likewise.cli.output_files import write_text

    if report is not None:
        from likewise.reports.curve_page import curve_page

        page = curve_page(
            told.flagged, told.alike, told.find_targets(), told.source.name, told.varied
        )
        write_text(report, page)
    if as_json:
        _print_json(told)
    else:
        _print(told, report)
    if told.rate is not None and told.epsilon_for(told.rate) is None:
        raise CommandError(
            f"no epsilon flags a share of {told.rate:g} or less: {told.flagged.rate(0):.4g} of the"
            " decisions have the same input as an earlier one with a different output. Ask for a"
            " higher --rate, or compare more columns.",
            DATA,
        )
    return FINE


def _print_json(told: _CalibrationResult) -> None:
    from likewise.cli.terminal import print_json
    from likewise.reports.findings import curve_of

    found = told.flagged
    curve = curve_of(found, found.rule, told.alike)
    wanted = None if told.rate is None else told.epsilon_for(told.rate)
    answer = {
        "rows": len(found),
        "contradicted": int((found.rows >= 0).sum()),
        "epsilon": found.rule.epsilon,
        "rate": found.rate(found.rule.epsilon),
        "comparable": told.count_comparable(found.rule.epsilon),
        "target_rate": told.rate,
        "epsilon_for_target": _finite(wanted),
        "targets": [
            {"rate": rate, "epsilon": _finite(one), "comparable": told.comparable_share(one)}
            for rate, one in told.find_targets()
        ],
        "curve": {
            "epsilons": list(curve.epsilons),
            "rates": list(curve.rates),
            "comparable": list(curve.comparable or ()),
        },
        "varied": told.varied and told.varied.to_dict(),
        "closest": [one._asdict() for one in found.closest(10)],
        "bad_rows": told.refusals.rows.count,
        "bad": [
            {told.source.unit: one.place, "code": one.code, "why": one.why}
            for one in told.refusals.rows.first
        ],
        "remarks": [one.to_dict() for one in told.source.remarks],
    }
    print_json(answer)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _print(told: _CalibrationResult, report: Path | None) -> None:
    from likewise.cli.audit_summary import print_refused_rows
    from likewise.cli.braille_curve import draw_curve
    from likewise.cli.terminal import say, width
    from likewise.reports.findings import curve_of
    from likewise.tables.printing import format_number, percent

    found = told.flagged
    some = int((found.rows >= 0).sum())
    say(f"{len(found):,} decisions, {some:,} with a contradiction in their past", "bold")
    say(f"The share flagged, over epsilon ({found.rule.metric}):")
    say()
    for line in draw_curve(curve_of(found, found.rule), min(width(), 100)):
        say(line)
    say()
    for rate, epsilon in told.find_targets():
        said = (
            "any" if epsilon == math.inf else "none" if epsilon is None else format_number(epsilon)
        )
        compared = told.comparable_share(epsilon)
        of = "" if compared is None else f" ({percent(compared)} comparable)"
        said = f"{percent(rate):>7} flagged at most{of}: epsilon {said}"
        say(said, "bold" if rate == told.rate else "")
    at = found.rule.epsilon
    alike = told.count_comparable(at)
    if alike == 0:
        say(
            f"At the rule's epsilon of {format_number(at)} nothing could be compared, so"
            " nothing follows:"
            " no decision has an earlier like case.",
            "bold red",
        )
    else:
        say(f"{percent(found.rate(at)):>7} flagged at the rule's epsilon of {format_number(at)}")
        share = percent(found.rate(at) * len(found) / alike)
        say(f"{percent(told.alike.rate(at)):>7} comparable there; {share} of these are flagged")
    if told.varied is not None:
        _print_varied(told)
    if told.refusals.rows.count:
        say()
        print_refused_rows(told.refusals.rows, told.source.unit)
    if report is not None:
        say(f"The curve: {report}")


def _print_varied(told: _CalibrationResult) -> None:
    from likewise.cli.terminal import say
    from likewise.reports.sensitivity_section import (
        TITLE,
        describe_basis,
        describe_omitted,
        lines_of,
        share_of,
    )

    lines = lines_of(told.varied)
    say()
    say(TITLE, "bold")
    say(f"{describe_basis(told.varied, len(told.flagged))}:")
    say(f"{'comparable':>12}{'contradict':>12}{'share':>10}")
    for i, line in enumerate(lines[:_LINES]):
        found = line.outcome
        numbers = f"{found.comparable:>12,}{found.contradicting:>12,}{share_of(found):>10}"
        say(f"{numbers}  {line.text}", "" if i else "bold")
    if len(lines) > _LINES:
        say(f"and {len(lines) - _LINES:,} lines more, with less effect: --json has all")
    for sentence in describe_omitted(told.varied):
        say(sentence)
