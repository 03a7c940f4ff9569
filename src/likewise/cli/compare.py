"""`likewise compare`: compare two models, versions or times under one rule.

It says which contradictions are new, gone or persisting. The sides are judged in compared_sides.py,
and the numbers computed in reports/comparison.py.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from likewise.cli import options as o
from likewise.cli.compare_options import CompareOptions
from likewise.cli.exit_codes import FINE
from likewise.cli.input_files import check_output_path, refuse_unwritable
from likewise.cli.terminal import print_json, say, say_lines

if TYPE_CHECKING:
    from likewise.reports.comparison import Comparison

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
    from likewise.cli.compared_sides import judge_and_compare

    check_output_path(report, "--report", (".html", ".htm"))
    comparison = judge_and_compare(options)
    if report is not None:
        from likewise.reports.compare_page import compare_page
        from likewise.reports.document import write_document

        with refuse_unwritable(report):
            write_document(compare_page(comparison), report)
    if json:
        print_json(comparison.to_dict())
    else:
        _print(comparison, report)
    return FINE


def _print(comparison: "Comparison", report: Path | None) -> None:
    """Print the comparison, the rule, a pair of each kind, and what was written."""
    from likewise.cli.audit_summary import clip_pair, print_rule, print_sentences
    from likewise.reports.compare_words import INTERVALS, describe_comparison

    print_sentences(describe_comparison(comparison), bool(comparison.nothing_compared))
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
