"""Audits decisions from Python: a frame, rows, files or a ledger.

`likewise audit` parses options, then calls what this calls (pipeline.py).
Not here: what an audit found (audit_result.py).
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from likewise.auditing.audit_result import Audit, StoredSource
from likewise.auditing.histories import audit_ledger
from likewise.auditing.job import CELL_ROWS, AuditOptions, PartitionOptions, expand_files
from likewise.auditing.limits import AuditLimits
from likewise.auditing.opened_data import (
    AnyPath,
    bind_columns,
    list_paths,
    load_rule,
    open_data,
    open_ledger,
    open_new_ledger,
)
from likewise.auditing.pipeline import audit_file
from likewise.errors import BadRule
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.sources.time_columns import DayOrder
from likewise.tables.new_frames import find_library


def audit(
    data: Any,
    rule: Rule | AnyPath | None = None,
    *,
    output_column: str | None = None,
    ignore: Sequence[str] = (),
    time_column: str | None = None,
    model_column: str | None = None,
    within: str | None = None,
    dates: DayOrder | None = None,
    skip_bad_rows: bool = False,
    out: AnyPath | None = None,
    ledger: AnyPath | None = None,
    burst: Burst | None = None,
    max_rate: float | None = None,
    max_rate_of: str = "any-pair",
    min_index: float | None = None,
    partition: AnyPath | None = None,
    workers: int = 1,
    ray: str | None = None,
    cell_rows: int = CELL_ROWS,
    **reading: Any,
) -> Audit:
    """Judge decisions from beginning to end: which contradict an earlier one about a similar case?

    data           a frame (pandas, Polars, Arrow), a list of rows, a file that `likewise audit`
                   reads, or a ledger, open or by its folder, which has a rule of its own
    rule           a `Rule`, or the file of one
    output_column  where the rule has no features: the column of the output
    ignore         where the rule has no features: columns to leave out
    time_column    judge in the order of these times, not in that of the rows
    model_column   says which model decided
    within         compare only with decisions at most this long before, such as "90 days"
    dates          "day-first" or "month-first", where 03/04/2024 does not show it
    skip_bad_rows  leave out and count rows that cannot be judged; else the first is an error
    out            a file for every contradicting pair: .xlsx, .csv, .parquet or .jsonl
    ledger         a new ledger for decisions and verdicts
    burst          how many near inputs, among how many decisions, raise an alarm
    max_rate       `Audit.within_limit` says whether this share is kept; `max_rate_of` is the share
                   of decisions in "any-pair", of those that contradict an earlier one ("later"), of
                   those among the "comparable", the mean "disagreement" of similar cases, or those
                   "opposed" by most of them
    min_index      the least lower limit of the agreement index, part of `Audit.within_limit`
    partition      a folder for cells, for files (names, folders, patterns) larger than memory;
                   then `workers` processes, or a Ray cluster at the address `ray`, judge cells of
                   at most `cell_rows` decisions
    reading        how a file is read: format, delimiter, missing, decimal, encoding, header, sheet
    """
    limits = AuditLimits(max_rate, max_rate_of, min_index)
    stored = open_ledger(data)
    if stored is not None:
        if rule is not None:
            raise BadRule("a ledger has a rule of its own; expected no other for its audit")
        with stored as opened:
            return Audit(audit_ledger(opened), StoredSource(str(opened.path)), limits=limits)
    names = tuple(expand_files(list_paths(data))) if partition is not None else ()
    options = AuditOptions(
        time_column=time_column,
        dates=dates,
        within=within,
        model_column=model_column,
        skip=skip_bad_rows,
        burst=burst,
        pairs_path=None if out is None else Path(out),
        keeps_pairs=partition is None,
        cells=None
        if partition is None
        else PartitionOptions(Path(partition), names, reading, workers, ray, cell_rows),
    )
    table = names[0] if names else data
    extra = [name for name in (time_column, model_column) if name is not None]
    with ExitStack() as stack:
        source = stack.enter_context(open_data(table, reading))
        binding = bind_columns(load_rule(rule), source, output_column, ignore, extra)
        if binding.rule.compare != "all" and model_column is None:
            raise BadRule(
                f'the rule has compare = "{binding.rule.compare}", so it is about models; expected'
                " model_column, the column that says which model decided"
            )
        monitor = None
        if ledger is not None:
            monitor = stack.enter_context(open_new_ledger(Path(ledger), binding.rule, burst))
        audited = audit_file(
            source,
            binding,
            options,
            reopen=lambda: open_data(table, reading),
            ledger=monitor,
            limits=limits,
        )
        audited = replace(audited, library=find_library(data))
        if monitor is not None:
            audited.pairs  # noqa: B018 - while the ledger is open
    return audited
