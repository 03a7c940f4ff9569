"""Finds similar past decisions of one case in a file or a ledger.

Cost: the history is read and indexed in memory; nothing is judged or written.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from likewise.auditing.feeding import BadRowPolicy, RowPlaces, judge_chunks
from likewise.auditing.job import Progress
from likewise.monitor.monitor import Monitor
from likewise.monitor.opening import LedgerOptions, open_ledger
from likewise.rule.rule import Rule
from likewise.rule.value_names import name_value
from likewise.sources.binding import Binding, read_models
from likewise.sources.file_source import DecisionFile
from likewise.sources.protocol import Chunk
from likewise.tables.codec import json_value
from likewise.verdict.precedents import Precedents

MakeCase = Callable[[Monitor], Any]
"""Makes the input to ask about; it may look at the values that the history has."""


@dataclass(frozen=True)
class LookedUp:
    """Similar cases in a file or a ledger."""

    found: Precedents
    """Its rows are those of the ledger, or the places in the file."""
    unit: str
    """What the rows count: "row" or "line"."""
    rule: Rule

    def describe(self) -> str:
        """Return how the similar cases were decided, in words."""
        return self.found.describe(self.name_output)

    def name_output(self, output: Any) -> Any:
        """Return the display name of an output."""
        return name_value(self.rule.output_labels, json_value(output))

    def to_dict(self) -> dict[str, Any]:
        return {**self.found.to_dict(), "unit": self.unit}


def look_up_in_ledger(path: Path, rule: Rule, make_case: MakeCase, **asked: Any) -> LookedUp:
    """Open a ledger that nobody writes, and ask it.

    rule    the ledger's own; asked: further arguments of `Monitor.like`
    """
    embeds = bool(rule.embedders())
    given = rule if embeds else None
    options = LedgerOptions(check=False)
    with open_ledger(path, given, options, any_question=True, models=embeds) as monitor:
        return LookedUp(monitor.like(make_case(monitor), **asked), "row", rule)


def look_up_in_file(
    source: DecisionFile,
    binding: Binding,
    make_case: MakeCase,
    *,
    model_column: str | None = None,
    skip: bool = False,
    progress: Progress,
    **asked: Any,
) -> LookedUp:
    """Read a file into memory, and ask it.

    skip: whether bad rows are left out; asked: further arguments of `Monitor.like`
    """
    places = RowPlaces()
    with Monitor(binding.rule) as monitor:

        def load(rows: Chunk) -> range:
            models = None if model_column is None else read_models(rows.table, model_column)
            return monitor.load(*binding.arguments(rows.table), models=models)

        for part in judge_chunks(source, binding, load, BadRowPolicy(source, skip)):
            places.add(part.rows.places)
            progress(*source.progress, f"{len(monitor):,} decisions")
        found = monitor.like(make_case(monitor), **asked)
    rows = places.find(found.rows)
    return LookedUp(replace(found, rows=rows), source.unit, binding.rule)
