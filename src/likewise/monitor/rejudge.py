"""Judge again what a ledger holds, from what it holds: no model is loaded for it."""

from collections.abc import Sequence
from typing import Any

from likewise.ledger.ledger import Ledger, StoredColumns
from likewise.monitor.best_match import make_slope_engine
from likewise.monitor.factory import make_reader
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.embedded_columns import EmbeddedValue
from likewise.monitor.readers.vector_reader import VectorReader
from likewise.rule.without_models import without_models
from likewise.search.engine.engine import Engine
from likewise.tables.frames import ColumnTable
from likewise.tables.rows import Rows
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdicts import Verdicts


def make_monitor(ledger: Ledger, index: Any = "auto", *, comparable: bool = False) -> Monitor:
    """An empty monitor for what a ledger of contradictions holds."""
    ledger.require_contradictions()
    reader = make_reader(without_models(ledger.rule, ledger.vector_types()))
    reader.rule = ledger.rule
    return Monitor.from_parts(
        reader, Engine(reader.vector_rule, index=index, comparable=comparable)
    )


def make_slope_monitor(ledger: Ledger, question: SlopeQuestion) -> Monitor:
    """The same for a ledger of slopes."""
    return Monitor.from_parts(VectorReader(ledger.rule), make_slope_engine(ledger.rule, question))


def rejudge_slopes(monitor: Monitor, columns: StoredColumns, there: Rows, firsts: Rows) -> Verdicts:
    """The steepest past pairs of rows of a ledger, each from its first row on.

    firsts: rows of the monitor. A first row decides which pair is the steepest, so it cannot be
    left for later, as it can where all witnesses are named.
    """
    outputs = [columns.outputs[i] for i in there.tolist()]
    batch = monitor.memory.reader.read_many(columns.inputs["input"][there], outputs)
    return monitor.memory.observe_many(batch, firsts, None)


def rejudge(
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
            None if value is None else EmbeddedValue(value, vector)
            for value, vector in zip(named[name], vectors[there], strict=True)
        ]
    key = monitor.rule.key_column
    if key is not None and keys is not None:
        named[key] = list(keys)
    return monitor.observe_many(ColumnTable(named), outputs, models=models)
