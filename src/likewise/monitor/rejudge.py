"""Judge the decisions of a ledger again, from what it stores: no model is loaded."""

from collections.abc import Sequence
from typing import Any

from likewise.ledger.ledger import Ledger, StoredColumns
from likewise.monitor.best_match import make_slope_engine
from likewise.monitor.factory import make_reader
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.embedded_columns import pair_embedded
from likewise.monitor.readers.vector_reader import VectorReader
from likewise.rule.without_models import without_models
from likewise.search.engine.engine import Engine
from likewise.tables.array_types import Rows
from likewise.tables.frames import ColumnTable
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdicts import Verdicts


def make_monitor(ledger: Ledger, index: Any = "auto", *, comparable: bool = False) -> Monitor:
    """Make an empty monitor for the decisions of a ledger of contradictions."""
    ledger.require_contradictions()
    reader = make_reader(without_models(ledger.rule, ledger.vector_types()))
    reader.rule = ledger.rule
    return Monitor.from_parts(
        reader, Engine(reader.vector_rule, index=index, comparable=comparable)
    )


def make_slope_monitor(ledger: Ledger, question: SlopeQuestion) -> Monitor:
    """Make an empty monitor for the decisions of a ledger of slopes."""
    return Monitor.from_parts(VectorReader(ledger.rule), make_slope_engine(ledger.rule, question))


def rejudge_slopes(
    monitor: Monitor, columns: StoredColumns, places: Rows, firsts: Rows
) -> Verdicts:
    """Find the steepest past pairs of rows of a ledger, each from its first row on.

    places  which decisions of the chunk
    firsts  rows of the monitor. A first row decides which pair is the steepest, so rows before it
            cannot be left out afterwards, as they can if all witnesses are named
    """
    outputs = [columns.outputs[i] for i in places.tolist()]
    batch = monitor.memory.reader.read_many(columns.inputs["input"][places], outputs)
    return monitor.memory.observe_many(batch, firsts, None)


def rejudge(
    monitor: Monitor, columns: StoredColumns, places: Rows, keys: Sequence[Any] | None = None
) -> Verdicts:
    """Judge rows of a ledger again.

    places  which decisions of the chunk
    keys    for a rule that takes them from a column
    """
    outputs = [columns.outputs[i] for i in places.tolist()]
    models = None if columns.models is None else [columns.models[i] for i in places.tolist()]
    if monitor.rule.features is None:
        return monitor.observe_many(columns.inputs["input"][places], outputs, models=models)
    table = {name: column[places].tolist() for name, column in columns.inputs.items()}
    for name, vectors in columns.vectors.items():
        table[name] = pair_embedded(table[name], vectors[places])
    key = monitor.rule.key_column
    if key is not None and keys is not None:
        table[key] = list(keys)
    return monitor.observe_many(ColumnTable(table), outputs, models=models)
