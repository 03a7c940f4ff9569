"""`likewise calibrate`: which share of a file's decisions would be flagged, at every epsilon?

Cost: all decisions of the file at once, and one or two passes over them.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o

_RATES = (0.001, 0.01, 0.05, 0.1)


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
    metric: o.Metric = None,
    epsilon: o.Epsilon = None,
    output_column: o.OutputColumn = None,
    output: o.Output = None,
    delta: o.Delta = None,
    ignore: o.Ignore = [],  # noqa: B006 - the parser makes a new one
    format: o.Format = None,
    delimiter: o.Delimiter = None,
    missing: o.Missing = [],  # noqa: B006
    on_bad_row: o.OnBadRow = "fail",
) -> int:
    """How near is near? The share of decisions flagged at every epsilon, drawn.

    likewise calibrate decisions.csv --rule likewise.toml --rate 0.01

    With a rule that has features, epsilon is what all its tolerances are multiplied by.
    """
    from likewise.cli.places import check_place
    from likewise.cli.reading import Reading
    from likewise.cli.rules import Quick, ask

    check_place(report, "--report", (".html", ".htm"))
    reading = Reading(format, delimiter, missing, on_bad_row)
    if rule is None and epsilon is None:
        epsilon = 1.0  # plays no part in what is found
    quick = Quick(metric, epsilon, output_column, output, delta, tuple(ignore))
    with reading.open(data) as source:
        binding = ask(rule, quick, source.columns, source.name, trust_code=trust_code)
        found, bad = _calibrated(source, binding, reading.skip)
    return _tell(_Told(found, bad, rate, source.name), report, json)


@dataclass(frozen=True)
class _Told:
    found: Any
    bad: Any
    rate: float | None
    source: str

    def targets(self) -> list[tuple[float, float | None]]:
        """Rates with the largest epsilon that flags no more."""
        rates = sorted({*_RATES, *([] if self.rate is None else [self.rate])})
        return [(rate, _rounded_down(self.epsilon_for(rate))) for rate in rates]

    def epsilon_for(self, rate: float) -> float | None:
        try:
            return float(self.found.epsilon_for(rate))
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


def _calibrated(source: Any, binding: Any, skip: bool) -> tuple[Any, Any]:
    from likewise.cli.feeding import Refusals, feed
    from likewise.cli.screen import progress
    from likewise.monitors.calibration import calibrate as nearest
    from likewise.monitors.monitor import reader_of
    from likewise.reading.protocol import FROM_ROW
    from likewise.sources.chunk import joined

    bad = Refusals(source, skip)
    reader = reader_of(binding.rule)

    def readable(rows: Any) -> Any:
        arguments = binding.arguments(rows.table)
        return arguments if len(arguments) > 1 else reader.many(arguments[0], FROM_ROW)

    with progress(f"calibrating {source.name}") as bar:
        tables = []
        for part in feed(source, binding, readable, bad):
            tables.append(part.rows.table)
            done, total = source.progress
            bar.update(done, total, "reading")
        table = joined(tables)
        bar.update(0, None, f"{len(table):,} decisions")
        return nearest(binding.rule, *binding.arguments(table)), bad


def _tell(told: _Told, report: Path | None, as_json: bool) -> int:
    from likewise.cli.endings import DATA, FINE, Stop
    from likewise.cli.places import write_text

    if report is not None:
        from likewise.reports.curve_page import curve_page

        write_text(report, curve_page(told.found, told.targets(), told.source))
    if as_json:
        _print_json(told)
    else:
        _print(told, report)
    if told.rate is not None and told.epsilon_for(told.rate) is None:
        raise Stop(
            f"no epsilon flags a share of {told.rate:g} or less: {told.found.rate(0):.4g} of the"
            " decisions have the same input as an earlier one with a different output. Ask for a"
            " higher --rate, or compare more columns.",
            DATA,
        )
    return FINE


def _print_json(told: _Told) -> None:
    from likewise.cli.screen import print_json
    from likewise.reports.findings import curve_of

    found = told.found
    curve = curve_of(found, found.rule)
    wanted = None if told.rate is None else told.epsilon_for(told.rate)
    answer = {
        "rows": len(found),
        "contradicted": int((found.rows >= 0).sum()),
        "epsilon": found.rule.epsilon,
        "rate": found.rate(found.rule.epsilon),
        "target_rate": told.rate,
        "epsilon_for_target": _finite(wanted),
        "targets": [{"rate": rate, "epsilon": _finite(one)} for rate, one in told.targets()],
        "curve": {"epsilons": list(curve.epsilons), "rates": list(curve.rates)},
        "closest": [one._asdict() for one in found.closest(10)],
        "bad_rows": told.bad.count,
        "bad": [{told.bad.source.unit: one.place, "why": one.why} for one in told.bad.first],
    }
    print_json(answer)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _print(told: _Told, report: Path | None) -> None:
    from likewise.cli.curve import draw
    from likewise.cli.screen import say, width
    from likewise.cli.summary import print_bad
    from likewise.reports.findings import curve_of
    from likewise.reports.words import figure, percent

    found = told.found
    some = int((found.rows >= 0).sum())
    say(f"{len(found):,} decisions, {some:,} with a contradiction in their past", "bold")
    say(f"The share flagged, over epsilon ({found.rule.metric}):")
    say()
    for line in draw(curve_of(found, found.rule), min(width(), 100)):
        say(line)
    say()
    for rate, epsilon in told.targets():
        said = "any" if epsilon == math.inf else "none" if epsilon is None else figure(epsilon)
        asked = rate == told.rate
        said = f"{percent(rate):>7} flagged at most: epsilon {said}"
        say(said, "bold" if asked else "")
    at = found.rule.epsilon
    say(f"{percent(found.rate(at)):>7} flagged at the rule's epsilon of {figure(at)}")
    if told.bad.count:
        say()
        print_bad(told.bad)
    if report is not None:
        say(f"The curve: {report}")
