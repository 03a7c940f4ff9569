"""`likewise compare`: two models, versions or times under one rule; what is new, gone, persisting.

The work is in compared_sides.py, the numbers in reports/comparison.py.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o
from likewise.cli.input_files import ReadingOptions

_PAIRS = 1  # of each kind on a terminal


@o.with_option_groups()
def compare(
    context: typer.Context,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A file of decisions, or the folder of a ledger.", show_default=False
        ),
    ],
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="[B]", help="Another; none with --model-column.", show_default=False
        ),
    ] = None,
    rule: o.RuleFile = None,
    trust_code: o.TrustCode = False,
    model_column: Annotated[
        str | None,
        typer.Option(
            "--model-column",
            "--version-column",
            metavar="COLUMN",
            help="Compare two models within A: the column that says which one decided.",
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Which model comes first, where there are several."),
    ] = None,
    second: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Which one it is compared with.")
    ] = None,
    time_column: o.TimeColumn = None,
    within: o.Within = None,
    report: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", help="Write a page to show to others.")
    ] = None,
    json: o.Json = False,
    *,
    quick: o.RuleOptions,
    reading: ReadingOptions,
) -> int:
    """Compare two models: does one contradict itself more often, and where?

    likewise compare old.csv new.csv --rule likewise.toml --report page.html

    likewise compare old.ledger new.ledger

    likewise compare decisions.csv --model-column version --rule likewise.toml

    Each history is judged by itself, under the same rule; no decision of one is compared with a
    decision of the other. The longer one is cut to the length of the shorter.

    Exit codes: 0 fine, 2 bad usage, 3 bad data.
    """
    from likewise.cli.compared_sides import CompareOptions, judge_and_compare
    from likewise.cli.exit_codes import FINE
    from likewise.cli.output_files import check_output_path, refuse_unwritable
    from likewise.cli.terminal import print_json

    check_output_path(report, "--report", (".html", ".htm"))
    wanted = CompareOptions(
        a,
        b,
        rule,
        quick,
        reading,
        model_column,
        first,
        second,
        time_column,
        within,
        trust_code,
        o.command_line(context),
    )
    found = judge_and_compare(wanted)
    if report is not None:
        from likewise.reports.compare_page import compare_page
        from likewise.reports.document import write_document

        with refuse_unwritable(report):
            write_document(compare_page(found), report)
    if json:
        print_json(found.to_dict())
    else:
        _print(found, report)
    return FINE


def _print(found: Any, report: Path | None) -> None:
    """What was found, by which rule, a pair of each kind, and what was written."""
    from likewise.cli.audit_summary import clip_pair, shorten_rule
    from likewise.cli.terminal import say, say_lines
    from likewise.reports.compare_words import INTERVALS, describe_comparison
    from likewise.reports.finding_words import describe_rule, describe_time_limit

    first, *more = describe_comparison(found)
    say(first, "bold red" if found.nothing_compared else "bold")
    for line in more:
        say(line)
    say(INTERVALS)
    say()
    say("The rule", "bold")
    within = describe_time_limit(found.one.computed.order.within)
    for line in shorten_rule([*describe_rule(found.rule), *within]):
        say(f"  {line}")
    kinds = (
        ("New", found.new, found.other),
        ("Gone", found.gone, found.one),
        ("Persisting", found.persisting, found.other),
    )
    for name, kind, side in kinds:
        for one in kind.shown[:_PAIRS]:
            say()
            say(f"{name}, in {side.name}", "bold")
            say_lines(clip_pair(str(one.pair.pair)))
            say(f"({one.unit}s {one.place:,} and {one.witness_place:,})")
    if report is not None:
        say()
        say(f"The report: {report}")
