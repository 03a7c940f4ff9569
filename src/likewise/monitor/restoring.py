"""Restore memory from the disk: rows and words, then the verdicts that were not made in time.

Cost: one chunk of rows at a time is in memory in addition to what is remembered of it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.errors import BadFile
from likewise.ledger.entries import NO_STORED_WITNESSES, EntryVerdicts
from likewise.ledger.reader import CHUNK
from likewise.ledger.retention import Retention
from likewise.ledger.store import Store
from likewise.ledger.stored import NOT_JUDGED, StoredDecisions
from likewise.ledger.verdict_facts import facts_of_many
from likewise.ledger.write_buffer import select_nearest
from likewise.monitor.memory import Memory
from likewise.monitor.readers.encoding import ERASED
from likewise.tables import codec
from likewise.tables.keys import Keys
from likewise.verdict.verdicts import Verdicts


def load_rows(
    store: Store,
    memory: Memory,
    keys: Keys,
    retention: Retention,
    chunks: Iterable[StoredDecisions],
) -> dict[str, int]:
    """Load the rows of a store into memory; return how many words each column has."""
    reader = store.reader
    layout = reader.layout
    assert layout is not None
    words: dict[str, list[Any]] = {}
    for _, column, code, value, *_ in reader.words():
        values = words.setdefault(column, [])
        if code != len(values) or column not in memory.words():
            raise BadFile(f"the words of {column!r} make no sense: the ledger was altered.")
        values.append(ERASED if value is None else codec.read_word(value))
    memory.begin(store.first, layout.dtype, layout.shape, layout.storage, layout.outputs, words)
    names = reader.names("model")
    for chunk in chunks:
        if chunk.keys is not None:
            keys.add(chunk.first, chunk.keys)
        judged = slice(0, max(0, store.judged - chunk.first))  # the others wait
        inputs, outputs = chunk.records["input"][judged], chunk.outputs[judged]
        if len(outputs):
            models = names.all_of(chunk.models)
            memory.append(layout.dtype, inputs, outputs, models and models[judged])
            retention.note_times(chunk.times[judged])
    memory.finish(retention.erased[retention.erased < max(store.first, store.judged)])
    keys.forget(reader.erased_rows())
    return {column: len(values) for column, values in words.items()}


def judge_accepted(
    store: Store, memory: Memory, retention: Retention, witnesses: int, missing: int, most: int
) -> Verdicts | None:
    """Judge the next decisions that were accepted before, and write their verdicts.

    A run of rows that were erased in the meantime is handled separately: they are remembered and
    forgotten at once, and stay without a verdict (NOT_JUDGED), and None is returned.

    witnesses   how many of the nearest are written for each
    missing     how many decisions are known to be missing
    most        how many decisions are judged at most; at least one is
    """
    reader, first = store.reader, store.judged
    stop = min(store.rows, first + most, first + CHUNK)
    chunk = reader.decisions(first, stop, keys=False, witnesses=False)
    layout, records, outputs, times = reader.layout, chunk.records, chunk.outputs, chunk.times
    assert layout is not None
    erased = np.isnan(outputs[:, 0])
    if (other := np.flatnonzero(erased != erased[0])).size:
        records, outputs, times = records[: other[0]], outputs[: other[0]], times[: other[0]]
    count = len(times)
    firsts = retention.firsts(first, times)
    models = reader.names("model").all_of(chunk.models[:count])
    if erased[0]:
        memory.skip_erased(layout.dtype, records["input"], outputs, models)
        retention.note_times(times)
        counts, facts = np.full(count, NOT_JUDGED), facts_of_many(None, count)
        store.judge(EntryVerdicts(first, firsts, counts, NO_STORED_WITNESSES, facts))
        return None
    verdicts = memory.judge(layout.dtype, records["input"], outputs, firsts, models)
    verdicts = replace(verdicts, missing_decisions=missing)
    retention.note_times(times)
    nearest, facts = select_nearest(verdicts, witnesses), facts_of_many(verdicts, count)
    store.judge(EntryVerdicts(first, firsts, verdicts.counts, nearest, facts))
    absent = retention.count_absent(firsts) - retention.count_absent(np.array([first]))
    return replace(verdicts, firsts=firsts, absent=absent)
