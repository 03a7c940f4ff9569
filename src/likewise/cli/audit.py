"""`likewise audit`: judge a file of decisions, or several, from beginning to end.

The work is in auditing/pipeline.py; audit_summary.py prints the result.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import DATA, FINE, OVER, CommandError
from likewise.cli.input_files import (
    ReadingOptions,
    check_output_path,
    check_pairs_path,
    refuse_unwritable,
    say_remarks,
)
from likewise.cli.terminal import print_json, progress, say_on_stderr

LEAST_CELL_ROWS = 1_000
"""Smaller cells would be very many, each with some files, and hold mostly copies."""


@o.with_option_groups()
def audit(
    context: typer.Context,
    data: list[str] = o.argument(
        f"{o.DATA_HELP} With --partition: files, folders or patterns.", "DATA..."
    ),
    rule: o.RuleFile = None,
    trust_code: o.TrustCode = False,
    report: Path | None = o.option("Write an HTML report.", metavar="PAGE.html"),
    out: Path | None = o.option(
        "Write every violating pair with the values of both decisions, for review: .xlsx,"
        " .csv, .parquet or .jsonl.",
        metavar="FILE",
    ),
    ledger: Path | None = o.option(
        "Keep the decisions and verdicts in a new ledger.", metavar="FOLDER"
    ),
    max_rate: float | None = o.option(
        "End with exit code 1 if a larger share of decisions contradicts another;"
        " --max-rate-of says which share.",
        metavar="SHARE",
        min=0.0,
        max=1.0,
    ),
    max_rate_of: str = o.option(
        "Which share --max-rate limits. any-pair: decisions in any contradicting pair,"
        " the same in every order. later: those that contradict an earlier one. comparable:"
        " the latter, as a share of those that had an earlier similar case. disagreement: the"
        " mean share of a decision's similar cases that disagree. opposed: decisions opposed by"
        " most of their similar cases, of those with at least five.",
        default="any-pair",
        metavar="any-pair|later|comparable|disagreement|opposed",
    ),
    min_index: float | None = o.option(
        "End with exit code 1 if the lower limit of the agreement index is smaller: 0 is what"
        " random answers give, 1 is no disagreement among similar cases.",
        metavar="INDEX",
        max=1.0,
    ),
    time_column: o.TimeColumn = None,
    within: o.Within = None,
    model_column: o.ModelColumn = None,
    max_ahead: str | None = o.option(
        "How far a time may be ahead of the clock for a ledger to accept it:"
        ' "5 minutes" unless given, "any" for no limit.',
        metavar="TEXT",
    ),
    partition: Path | None = o.option(
        "For files larger than memory: sort decisions into cells in this folder, and judge"
        " one cell after the other. The report is the same. After an interruption, the same"
        " command continues where it was.",
        metavar="FOLDER",
    ),
    workers: int = o.option(
        "With --partition: how many processes judge cells.", default=1, metavar="N", min=1
    ),
    ray: str | None = o.option(
        "With --partition: a Ray cluster judges cells; its machines must see the files and"
        " the folder under the same paths.",
        metavar="ADDRESS",
    ),
    cell_rows: int | None = o.option(
        "With --partition: at most so many decisions in a cell, if possible; 1,000,000"
        " unless given, 1,000 at least. Smaller cells need less memory.",
        metavar="N",
        min=1,
    ),
    json: o.Json = False,
    *,
    quick: o.RuleOptions,
    reading: ReadingOptions,
    burst: o.Last = None,
    alarm: o.Alarm = None,
) -> int:
    """Judge a file of decisions: which contradict an earlier one about a similar case?

    likewise audit decisions.csv --rule likewise.toml --report page.html

    likewise audit scores.parquet --metric linf --epsilon 0.16 --output-column prediction

    likewise audit decisions/ --rule likewise.toml --partition cells --workers 4

    With --time-column, decisions are judged in order of time, whatever the order of the lines;
    without it, "earlier" means "above in the file".

    Exit codes: 0 fine, 1 more violations than --max-rate allows or less agreement than
    --min-index asks for, 2 bad usage, 3 bad data, or what is limited cannot be told.
    """
    from likewise.auditing.job import (
        CELL_ROWS,
        AuditOptions,
        PartitionOptions,
        expand_files,
        name_of,
    )
    from likewise.auditing.limits import AuditLimits
    from likewise.auditing.opened_data import open_new_ledger
    from likewise.auditing.pipeline import audit_file
    from likewise.cli.audit_summary import print_summary
    from likewise.cli.rule_options import bind_rule

    burst_rule = o.make_burst(burst, alarm)
    limits = AuditLimits(max_rate, max_rate_of, min_index)
    check_output_path(report, "--report", (".html", ".htm"))
    _check_combinations(context.params, data)
    cells = None
    if partition is not None:
        data = list(expand_files(data))
        cells = PartitionOptions(
            partition, tuple(data), reading.source_settings, workers, ray, cell_rows or CELL_ROWS
        )
    check_pairs_path(out, data[0])
    options = AuditOptions(
        time_column=time_column,
        dates=reading.day_order,
        within=within,
        model_column=model_column,
        skip=reading.skips_bad_rows,
        burst=burst_rule,
        for_report=report is not None,
        pairs_path=out,
        command=o.command_line(context),
        cells=cells,
    )
    with refuse_unwritable(out), ExitStack() as stack:
        source = stack.enter_context(reading.open_quietly(data[0]))
        binding = bind_rule(
            rule,
            quick,
            source.columns,
            source.name,
            [column for column in (time_column, model_column) if column is not None],
            left_out=source.left_out,
            trust_code=trust_code,
        )
        o.require_model_column(binding.rule, model_column)
        monitor = None
        if ledger is not None:
            monitor = open_new_ledger(ledger, binding.rule, burst_rule, max_ahead)
            stack.enter_context(monitor)
        name = source.name if cells is None else name_of(data)
        bar = stack.enter_context(progress(f"judging {name}"))
        audited = audit_file(
            source,
            binding,
            options,
            reopen=lambda: reading.open_quietly(data[0]),
            ledger=monitor,
            progress=bar.update,
            limits=limits,
        )
    say_remarks(audited.source.name, audited.source.remarks, several=len(data) > 1)
    if report is not None:
        with refuse_unwritable(report):
            audited.save(report)
    if json:
        print_json(audited.to_dict())
    else:
        written = {"report": report, "partition": partition, "ledger": ledger, "out": out}
        print_summary(audited, written)
    is_kept = audited.within_limit
    for kept, why in limits.check(audited.findings):
        if kept is None:
            say_on_stderr(f"likewise: {why}")
    if is_kept is None:
        return DATA
    return FINE if is_kept else OVER


def _check_combinations(values: Mapping[str, Any], data: Sequence[str]) -> None:
    """Raise CommandError if options do not go together."""
    from likewise.auditing.job import CELL_ROWS

    cells = values["partition"] is not None
    if not cells and len(data) != 1:
        raise CommandError(
            f"there are {len(data)} files. To audit them together: --partition FOLDER."
        )
    if not cells and (values["workers"] != 1 or values["ray"] or values["cell_rows"] is not None):
        raise CommandError(
            "--workers, --ray and --cell-rows are about cells: say --partition FOLDER."
        )
    for name in ("ledger", "out", "burst", "max_ahead") if cells else ():
        if values[name] is not None:
            raise CommandError(
                f"--{name.replace('_', '-')} and --partition do not go together: cells know nothing"
                " of each other. Leave out one of them."
            )
    if values["cell_rows"] is not None and values["cell_rows"] < LEAST_CELL_ROWS:
        raise CommandError(
            f"--cell-rows is {values['cell_rows']:,}; expected at least {LEAST_CELL_ROWS:,}:"
            " smaller cells would be very many, and mostly hold copies. Say more, or leave it out"
            f" for {CELL_ROWS:,}."
        )
    if values["max_ahead"] is not None and values["ledger"] is None:
        raise CommandError("--max-ahead is about a ledger: say --ledger.")
    if values["within"] is not None and values["ledger"] is not None:
        raise CommandError(
            "--within and --ledger do not go together: a ledger says by its own window how far back"
            " it compares, and forgets the rest. Leave out one of them."
        )
    if values["within"] is not None and values["time_column"] is None:
        raise CommandError("--within is about times: say --time-column.")
    if values["ray"] is not None and values["workers"] != 1:
        raise CommandError(
            "--ray and --workers do not go together: a cluster knows how many it has."
        )
