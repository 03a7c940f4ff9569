"""`likewise compare`: compare two models, versions or times under one rule.

It says which contradictions are new, gone or persisting. auditing/compare_data.py does the work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from likewise.cli import options as o
from likewise.cli.compare_options import CompareOptions
from likewise.cli.exit_codes import FINE, CommandError
from likewise.cli.input_files import check_output_path, refuse_unwritable
from likewise.cli.terminal import print_json, progress, say, say_lines

if TYPE_CHECKING:
    from likewise.auditing.compare_data import HistoryComparison
    from likewise.auditing.job import Progress
    from likewise.rule.rule import Rule
    from likewise.sources.binding import Binding
    from likewise.sources.file_source import DecisionFile

_PAIRS = 1  # of each kind on a terminal


@o.with_option_groups()
def compare(
    options: CompareOptions,
    report: Path | None = o.option("Write an HTML report.", metavar="PAGE.html"),
    json: o.Json = False,
) -> int:
    """Compare two models: does one disagree with itself more, and do they answer differently?

    likewise compare old.csv new.csv --rule likewise.toml --report page.html

    likewise compare old.ledger new.ledger

    likewise compare decisions.csv --model-column version --rule likewise.toml

    Each history is judged by itself, under the same rule; no decision of one is compared with a
    decision of the other. The longer one is cut to the length of the shorter.

    Exit codes: 0 fine, 2 bad usage, 3 bad data.
    """
    check_output_path(report, "--report", (".html", ".htm"))
    compared = _compare(options)
    if report is not None:
        with refuse_unwritable(report):
            compared.save(report)
    if json:
        print_json(compared.to_dict())
    else:
        _print(compared, report)
    return FINE


def _compare(options: CompareOptions) -> "HistoryComparison":
    """Judge both sides, and compare them."""
    from likewise.auditing.compare_data import ComparisonJob, name_sides
    from likewise.auditing.job import AuditOptions
    from likewise.cli.rule_options import bind_rule, read_rule

    reading, a, b, column = options.reading, options.a, options.b, options.model_column
    rule = None
    if b is not None and (Path(a).is_dir() or Path(b).is_dir()):
        if options.quick != o.RuleOptions():
            raise CommandError(
                "a ledger has a rule of its own: leave out --metric, --epsilon and the like."
            )
        if options.rule is not None:
            rule = read_rule(options.rule, trust_code=options.trust_code)

    def bind(source: "DecisionFile", ledger_rule: "Rule | None") -> "Binding":
        return bind_rule(
            options.rule if ledger_rule is None else None,
            options.quick,
            source.columns,
            source.name,
            [name for name in (options.time_column, column) if name is not None],
            ledger_rule,
            left_out=source.left_out,
            trust_code=options.trust_code,
        )

    job = ComparisonJob(
        open=lambda path, quiet: reading.open_quietly(path) if quiet else reading.open(path),
        bind=bind,
        rule=rule,
        rule_name=str(options.rule),
        options=AuditOptions(
            options.time_column,
            reading.day_order,
            options.within,
            skip=reading.skips_bad_rows,
            command=options.command,
        ),
        progress=_show_progress,
    )
    if column is not None:
        return job.compare_models(a, column, options.first, options.second)
    return job.compare_two((a, b), name_sides(a, b))


@contextmanager
def _show_progress(what: str) -> "Iterator[Progress]":
    with progress(what) as bar:
        yield bar.update


def _print(compared: "HistoryComparison", report: Path | None) -> None:
    """Print the comparison, the rule, a pair of each kind, and what was written."""
    from likewise.cli.audit_summary import clip_pair, print_rule, print_sentences
    from likewise.reports.compare_words import INTERVALS

    comparison = compared.findings
    print_sentences(compared.headline, bool(comparison.nothing_compared))
    say(INTERVALS)
    print_rule(comparison.rule, comparison.one.computed.order.within)
    kinds = (
        ("New", comparison.new, comparison.other),
        ("Gone", comparison.gone, comparison.one),
        ("Persisting", comparison.persisting, comparison.other),
    )
    for name, kind, side in kinds:
        for placed in kind.shown[:_PAIRS]:
            say()
            say(f"{name}, in {side.name}", "bold")
            say_lines(clip_pair(str(placed.pair.pair)))
            say(f"({placed.unit}s {placed.place:,} and {placed.witness_place:,})")
    if report is not None:
        say()
        say(f"The report: {report}")
