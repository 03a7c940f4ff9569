"""Options of an audit, and what follows from them for every chunk of decisions."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.rule.burst import Burst
from likewise.sources.binding import Binding, read_models
from likewise.sources.time_columns import DayOrder

CELL_ROWS = 1_000_000
"""How many decisions a cell should have at most, copies included."""


@dataclass(frozen=True)
class PartitionOptions:
    """Says how files larger than memory are audited.

    folder    where cells and results are stored
    files     in the order in which their lines count
    reading   how files are read: the settings of `open_source`
    workers   how many processes judge cells
    ray       the address of a Ray cluster that judges them instead
    rows      how many decisions a cell should have at most, as far as space can be cut
    """

    folder: Path
    files: tuple[str, ...]
    reading: dict[str, Any]
    workers: int = 1
    ray: str | None = None
    rows: int = CELL_ROWS


@dataclass(frozen=True)
class AuditOptions:
    """Says how decisions are judged, and what is computed beside the verdicts.

    time_column    judge decisions in the order of these times, not in that of the lines
    dates          the order of day and month, where the values do not tell
    within         compare a decision only with those at most this long before it
    model_column   the column that names the model which decided
    skip           leave out and count bad rows; else the first one is an error
    burst          how many near inputs, among how many decisions, raise an alarm
    for_report     compute curves too, and keep the columns that the rule ignores
    pairs_path     the file of all contradicting pairs to write
    command        the command line, for someone who wants to repeat the audit
    cells          for files larger than memory
    """

    time_column: str | None = None
    dates: DayOrder | None = None
    within: str | None = None
    model_column: str | None = None
    skip: bool = False
    burst: Burst | None = None
    for_report: bool = False
    pairs_path: Path | None = None
    command: str | None = None
    cells: PartitionOptions | None = None


def collect_metadata(
    options: AuditOptions, table: Any, times: Any, *, ledger: bool = False
) -> dict[str, Any]:
    """Return what a monitor gets beside the values of rows: times and models.

    ledger: whether the monitor stores all times; else only a limit in time needs them
    """
    settings: dict[str, Any] = {}
    if ledger and options.time_column is not None:
        settings["times"] = [moment.replace(tzinfo=datetime.UTC) for moment in times.tolist()]
    elif options.within is not None:
        settings["times"] = times
    if options.model_column is not None:
        settings["models"] = read_models(table, options.model_column)
    return settings


def ignored_columns(binding: Binding, options: AuditOptions) -> list[str]:
    """Return the columns that a pair shows although the monitor does not remember them."""
    hidden = (*binding.remembered_columns, options.time_column, options.model_column)
    return [name for name in binding.columns if name not in hidden]
