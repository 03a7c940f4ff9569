"""Memory, made from what is on disk: rows and words, then the verdicts that were not made in time.

Cost: a chunk of rows at a time is in memory beside what is remembered of it.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from likewise.engine.memory import Memory
from likewise.ledger import words
from likewise.ledger.entries import Judged
from likewise.ledger.reader import CHUNK
from likewise.ledger.retention import Retention
from likewise.ledger.store import Store
from likewise.ledger.stored import Decisions
from likewise.ledger.write_buffer import kept_of_many
from likewise.reading.encoding import ERASED
from likewise.values.errors import BadFile
from likewise.values.keys import Keys


def load_rows(
    store: Store, memory: Memory, keys: Keys, retention: Retention, chunks: Iterable[Decisions]
) -> dict[str, int]:
    """Have memory hold the rows of a store, and its index; how many words each column has."""
    reader = store.reader
    layout = reader.layout
    assert layout is not None
    known: dict[str, list[Any]] = {}
    for _, column, code, value, *_ in reader.words():
        values = known.setdefault(column, [])
        if code != len(values) or column not in memory.words():
            raise BadFile(f"the words of {column!r} make no sense: the ledger was altered.")
        values.append(ERASED if value is None else words.read(value))
    memory.begin(store.first, layout.dtype, layout.shape, layout.storage, layout.outputs, known)
    names = reader.names("model")
    for chunk in chunks:
        keys.add(chunk.first, chunk.keys)
        judged = slice(0, max(0, store.judged - chunk.first))  # the others wait
        inputs, outputs = chunk.records["input"][judged], chunk.outputs[judged]
        if len(outputs):
            models = names.all_of(chunk.models)
            memory.append(layout.dtype, inputs, outputs, models and models[judged])
            retention.took(chunk.times[judged])
    memory.finish(retention.erased)
    keys.forget(reader.erased())
    return {column: len(values) for column, values in known.items()}


def judge_waiting(
    store: Store, memory: Memory, retention: Retention, witnesses: int, missing: int
) -> None:
    """Judge decisions that were accepted, and for whose verdicts there was no time.

    witnesses   how many of the nearest are written for each
    missing     how many decisions are known to be missing
    """
    reader = store.reader
    while store.judged < store.rows:
        first = store.judged
        chunk = reader.decisions(first, min(store.rows, first + CHUNK), keys=False, witnesses=False)
        layout = reader.layout
        assert layout is not None
        firsts = retention.firsts(first, chunk.times)
        models = reader.names("model").all_of(chunk.models)
        verdicts = memory.judge(layout.dtype, chunk.records["input"], chunk.outputs, firsts, models)
        retention.took(chunk.times)
        store.judge(
            Judged(
                first,
                firsts,
                verdicts.counts,
                kept_of_many(verdicts, witnesses),
                np.full(len(verdicts), missing),
                verdicts.comparable,
            )
        )
