"""`likewise audit`: a file of decisions, or several, judged from beginning to end.

The file goes through a monitor chunk by chunk, in order of its time column or of its lines, and is
judged as it would have been had every decision been watched when it was made.
The work is in auditing.py, for files larger than memory in partitioned.py, what is printed in
summary.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o
from likewise.rules.burst import Burst
from likewise.values.errors import BadFile


@dataclass(frozen=True)
class Wishes:
    """What an audit is to leave behind, and when it is to fail."""

    report: Path | None = None
    out: Path | None = None
    ledger: Path | None = None
    max_rate: float | None = None
    time_column: str | None = None
    json: bool = False
    burst: Burst | None = None
    trust_code: bool = False
    max_ahead: str | None = None
    max_rate_of: str = "any-pair"
    command: str | None = None
    within: str | None = None
    model_column: str | None = None
    partition: Path | None = None
    workers: int = 1
    ray: str | None = None
    cell_rows: int | None = None

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that are read, whether the rule knows them or not."""
        return tuple(one for one in (self.time_column, self.model_column) if one is not None)


def audit(
    context: typer.Context,
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help=f"{o.DATA_HELP} With --partition: files, folders or patterns.",
            show_default=False,
        ),
    ],
    rule: o.RuleFile = None,
    trust_code: o.TrustCode = False,
    report: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", help="Write a page to show to others.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every violating pair with the values of both sides, to work on: .xlsx,"
            " .csv, .parquet or .jsonl.",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the decisions and verdicts in a new ledger."),
    ] = None,
    max_rate: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="End with exit code 1 if a larger share of decisions contradicts another:"
            " see --max-rate-of.",
        ),
    ] = None,
    max_rate_of: Annotated[
        str,
        typer.Option(
            metavar="any-pair|later|comparable",
            help="Which share --max-rate limits. any-pair: decisions in any contradicting pair,"
            " the same in every order. later: those that contradict an earlier one. comparable:"
            " the latter, as a share of those that had an earlier like case.",
        ),
    ] = "any-pair",
    time_column: o.TimeColumn = None,
    within: o.Within = None,
    model_column: o.ModelColumn = None,
    max_ahead: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="How far a time may be ahead of the clock to be taken into a ledger:"
            ' "5 minutes" unless given, "any" for no limit.',
        ),
    ] = None,
    partition: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="For files larger than memory: sort decisions into cells in this folder, and judge"
            " one cell after the other. The same report. After an interruption, the same command"
            " goes on where it was.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="With --partition: so many processes judge cells."),
    ] = 1,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --partition: a Ray cluster judges cells; its machines see the files and the"
            " folder under the same paths.",
        ),
    ] = None,
    cell_rows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --partition: decisions in a cell, at most, as far as that goes; 1,000,000"
            " unless given, 1,000 at least. Less takes less memory.",
        ),
    ] = None,
    json: o.Json = False,
    metric: o.Metric = None,
    epsilon: o.Epsilon = None,
    output_column: o.OutputColumn = None,
    output: o.Output = None,
    delta: o.Delta = None,
    ignore: o.Ignore = [],  # noqa: B006 - the parser makes a new one
    person: o.Person = None,
    format: o.Format = None,
    delimiter: o.Delimiter = None,
    missing: o.Missing = [],  # noqa: B006
    on_bad_row: o.OnBadRow = "fail",
    decimal: o.Decimal = None,
    dates: o.Dates = None,
    encoding: o.Encoding = None,
    header: o.Header = None,
    sheet: o.Sheet = None,
    burst: o.Last = None,
    alarm: o.Alarm = None,
) -> int:
    """Judge a file of decisions: which contradict an earlier one about a like case?

    likewise audit decisions.csv --rule likewise.toml --report page.html

    likewise audit scores.parquet --metric linf --epsilon 0.16 --output-column prediction

    likewise audit decisions/ --rule likewise.toml --partition cells --workers 4

    With --time-column decisions are judged in order of time, whatever the order of the lines;
    without it, "earlier" means "above in the file".

    Exit codes: 0 fine, 1 more violations than --max-rate allows, 2 bad usage, 3 bad data, or
    nothing could be compared, so that --max-rate says nothing.
    """
    from likewise.cli.bursts import burst_of
    from likewise.cli.reading import Reading
    from likewise.cli.rules import Quick

    counted = burst_of(burst, alarm)
    wishes = Wishes(
        report,
        out,
        ledger,
        max_rate,
        time_column,
        json,
        counted,
        trust_code,
        max_ahead,
        max_rate_of,
        o.command_line(context),
        within,
        model_column,
        partition,
        workers,
        ray,
        cell_rows,
    )
    quick = Quick(metric, epsilon, output_column, output, delta, tuple(ignore), person)
    reading = Reading(
        format, delimiter, missing, on_bad_row, decimal, dates, encoding, header, sheet
    )
    return run(data, rule, quick, reading, wishes)


def run(data: Sequence[str], rule: Path | None, quick: Any, reading: Any, wishes: Wishes) -> int:
    """Judge, write what was asked for, tell."""
    from likewise.cli.auditing import Again, judge
    from likewise.cli.endings import DATA, FINE, OVER, Stop
    from likewise.cli.limits import Limit
    from likewise.cli.places import check_place
    from likewise.cli.rules import ask
    from likewise.cli.screen import say_aside
    from likewise.cli.summary import print_json, print_summary
    from likewise.cli.violations import check_out

    limit = Limit(wishes.max_rate, wishes.max_rate_of)
    check_place(wishes.report, "--report", (".html", ".htm"))
    if wishes.partition is not None:
        from likewise.cli.partitioned import judge_in_cells

        audited = judge_in_cells(data, rule, quick, reading, wishes)
    else:
        name = _the_file(data, wishes)
        check_out(wishes.out, name)
        with reading.open(name) as source:
            binding = ask(
                rule,
                quick,
                source.columns,
                source.name,
                wishes.beside,
                left_out=source.left_out,
                trust_code=wishes.trust_code,
            )
            again = Again(lambda: reading.open_again(name), reading.day_order)
            audited = judge(source, binding, reading.skip, wishes, again)
    if wishes.report is not None:
        from likewise.reports.page import write_page

        try:
            write_page(audited.findings, wishes.report)
        except BadFile as error:
            raise Stop(str(error)) from None
    kept = limit.kept(audited.findings)
    if wishes.json:
        print_json(audited, wishes, limit)
    else:
        print_summary(audited, wishes, limit)
    if kept is None:
        say_aside(f"likewise: {limit.words(audited.findings)}")
        return DATA
    return FINE if kept else OVER


def _the_file(data: Sequence[str], wishes: Wishes) -> str:
    """The one file of an audit without cells."""
    from likewise.cli.endings import Stop

    if len(data) != 1:
        raise Stop(f"there are {len(data)} files. To audit them together: --partition FOLDER.")
    if wishes.workers != 1 or wishes.ray is not None or wishes.cell_rows is not None:
        raise Stop("--workers, --ray and --cell-rows are about cells: say --partition FOLDER.")
    return data[0]
