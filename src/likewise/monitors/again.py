"""Judge again what a ledger holds, from what it holds: no model is loaded for it."""

from collections.abc import Sequence
from typing import Any

from likewise.embedders.standing_in import without_models
from likewise.features.embedded import Embedded
from likewise.history.ledger.look import Columns, Ledger
from likewise.monitors.robustness import Monitor
from likewise.types import Rows, Verdicts


def monitor_again(ledger: Ledger, index: Any = "auto") -> Monitor:
    """An empty monitor for what a ledger holds."""
    monitor = Monitor(without_models(ledger.rule, ledger.vector_types()), index=index)
    monitor.rule = ledger.rule
    return monitor


def judge_again(
    monitor: Any, columns: Columns, there: Rows, keys: Sequence[Any] | None = None
) -> Verdicts:
    """The verdicts on rows of a ledger; keys for a rule that takes them from a column."""
    verdicts: Verdicts
    places = there.tolist()
    outputs = [columns.outputs[i] for i in places]
    if monitor.rule.features is None:
        verdicts = monitor.observe_many(columns.inputs["input"][there], outputs)
        return verdicts
    named = {name: column[there].tolist() for name, column in columns.inputs.items()}
    for name, vectors in columns.vectors.items():
        named[name] = [
            None if value is None else Embedded(value, vector)
            for value, vector in zip(named[name], vectors[there], strict=True)
        ]
    key = monitor.rule.key_column
    if key is not None and keys is not None:
        named[key] = list(keys)
    rows = [dict(zip(named, one, strict=True)) for one in zip(*named.values(), strict=True)]
    verdicts = monitor.observe_many(rows, outputs)
    return verdicts
