"""What an audit is asked for, and what follows from that for every chunk of decisions."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from likewise.rule.burst import Burst
from likewise.sources.binding import Binding, read_models
from likewise.sources.time_columns import DayOrder

CELL_ROWS = 1_000_000
"""Decisions that a cell is to have, copies included."""


class RowOptions(Protocol):
    """What `AuditOptions` and the job of a cell have in common."""

    @property
    def time_column(self) -> str | None: ...

    @property
    def within(self) -> str | None: ...

    @property
    def model_column(self) -> str | None: ...


@dataclass(frozen=True)
class PartitionOptions:
    """How files larger than memory are audited.

    folder    where cells and results are kept
    files     in the order in which their lines count
    reading   how files are read: the settings of `open_source`
    workers   so many processes judge cells
    ray       the address of a Ray cluster that judges them instead
    rows      decisions that a cell is to have, at most, as far as space can be cut
    """

    folder: Path
    files: tuple[str, ...]
    reading: dict[str, Any]
    workers: int = 1
    ray: str | None = None
    rows: int = CELL_ROWS


@dataclass(frozen=True)
class AuditOptions:
    """How decisions are judged, and what is computed beside the verdicts.

    time_column    decisions are judged in the order of these times, not in that of the lines
    dates          the order of day and month, where the values do not tell
    within         a decision is compared only with those at most so long before it
    model_column   which model decided
    skip           whether bad rows are left out and counted; else the first one is an error
    burst          how many near inputs, among how many decisions, raise an alarm
    page           whether findings are for a page: with curves, and what the rule ignores
    out            the file of all contradicting pairs to write
    command        the command line, for whoever wants to do it again
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


class TimedRows(Protocol):
    """Rows of a table, and when each decision was made, where that is known."""

    @property
    def table(self) -> Any: ...

    @property
    def times(self) -> Any: ...


def collect_metadata(
    options: RowOptions, rows: TimedRows, *, ledger: bool = False
) -> dict[str, Any]:
    """Return what a monitor is told of rows beside their values: times and models.

    ledger: whether the monitor stores all times; else only a limit in time needs them
    """
    settings: dict[str, Any] = {}
    if ledger and options.time_column is not None:
        times = rows.times.tolist()
        settings["times"] = [moment.replace(tzinfo=datetime.UTC) for moment in times]
    elif options.within is not None:
        settings["times"] = rows.times
    if options.model_column is not None:
        settings["models"] = read_models(rows.table, options.model_column)
    return settings


def ignored_columns(binding: Binding, options: RowOptions) -> list[str]:
    """Return the columns that are read and not remembered, which a pair shows all the same."""
    hidden = (*binding.remembered_columns, options.time_column, options.model_column)
    return [name for name in binding.columns if name not in hidden]
