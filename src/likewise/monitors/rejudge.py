"""Judge again what a ledger holds, from what it holds: no model is loaded for it."""

from collections.abc import Sequence
from typing import Any

from likewise.engine.engine import Engine
from likewise.ledger.ledger import Ledger, StoredColumns
from likewise.monitors.hunting import slopes_engine
from likewise.monitors.monitor import Monitor
from likewise.monitors.parts import reader_of
from likewise.reading.embedded_columns import Embedded
from likewise.reading.vectors import VectorReader
from likewise.rules.standing_in import without_models
from likewise.values.frames import ColumnTable
from likewise.values.steepest import Steepest
from likewise.values.verdicts import Verdicts
from likewise.values.witnesses import Rows


def monitor_again(ledger: Ledger, index: Any = "auto", *, comparable: bool = False) -> Monitor:
    """An empty monitor for what a ledger of contradictions holds."""
    ledger.insist_on_contradictions()
    reader = reader_of(without_models(ledger.rule, ledger.vector_types()))
    reader.rule = ledger.rule
    return Monitor.of(reader, Engine(reader.plain, index=index, comparable=comparable))


def slopes_again(ledger: Ledger, question: Steepest) -> Monitor:
    """The same for a ledger of slopes."""
    return Monitor.of(VectorReader(ledger.rule), slopes_engine(ledger.rule, question))


def slopes_judged_again(
    monitor: Monitor, columns: StoredColumns, there: Rows, firsts: Rows
) -> Verdicts:
    """The steepest past pairs of rows of a ledger, each from its first row on.

    firsts: rows of the monitor. A first row decides which pair is the steepest, so it cannot be
    left for later, as it can where all witnesses are named.
    """
    outputs = [columns.outputs[i] for i in there.tolist()]
    batch = monitor.memory.reader.many(columns.inputs["input"][there], outputs)
    return monitor.memory.observe_many(batch, firsts, None)


def judge_again(
    monitor: Monitor, columns: StoredColumns, there: Rows, keys: Sequence[Any] | None = None
) -> Verdicts:
    """The verdicts on rows of a ledger; keys for a rule that takes them from a column."""
    places = there.tolist()
    outputs = [columns.outputs[i] for i in places]
    models = None if columns.models is None else [columns.models[i] for i in places]
    if monitor.rule.features is None:
        return monitor.observe_many(columns.inputs["input"][there], outputs, models=models)
    named = {name: column[there].tolist() for name, column in columns.inputs.items()}
    for name, vectors in columns.vectors.items():
        named[name] = [
            None if value is None else Embedded(value, vector)
            for value, vector in zip(named[name], vectors[there], strict=True)
        ]
    key = monitor.rule.key_column
    if key is not None and keys is not None:
        named[key] = list(keys)
    return monitor.observe_many(ColumnTable(named), outputs, models=models)
