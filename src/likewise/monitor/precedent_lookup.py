"""Put together what is remembered of the past decisions that are near one input.

Cost: of all near decisions the outputs are counted; the rest is read for those that are listed.
Not here: finding them (search/engine/engine.py).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.reader import LedgerReader, close_runs
from likewise.monitor.journal import Journal
from likewise.monitor.memory import Memory
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.tables.keys import Keys
from likewise.tables.times import iso_text
from likewise.verdict.precedents import CaseReview, Overruling, Precedents

_GAP, _LONGEST = 64, 1 << 14  # of rows that are read as one run


def describe_precedents(
    memory: Memory,
    keys: Keys,
    journal: Journal | None,
    near: NearRows,
    limit: int | None,
    not_compared: int,
) -> Precedents:
    """Describe the nearest of these rows, at most `limit`, and count the outputs of all."""
    all_rows, distances = near
    order = np.lexsort((all_rows, distances))[:limit]
    rows = all_rows[order]
    engine = memory.engine
    decode = None if engine.outputs is None else engine.outputs.decode
    numbers = engine.numbers(all_rows) if len(all_rows) else np.empty((0, 1))
    times = None
    reviews: list[tuple[CaseReview, ...]] = [()] * len(rows)
    superseded: list[Overruling | None] = [None] * len(rows)
    if journal is not None and len(rows):
        if rows.max() >= journal.store.rows:
            journal.flush()
        reader = journal.store.reader
        times = _read_times(reader, rows)
        reviews = [_read_reviews(reader, row) for row in rows.tolist()]
        superseded = [_find_overruling(reader, row) for row in rows.tolist()]
    elif journal is not None:
        times = np.empty(0, np.int64)
    elif memory.span is not None:
        times = memory.span.times(engine.rows)[rows]
    return Precedents(
        len(all_rows),
        _count_outputs(decode, numbers),
        rows,
        distances[order],
        [] if decode is None else [decode(output) for output in numbers[order]],
        [keys.key_of(row) for row in rows.tolist()],
        list(memory.models.names(rows)),
        None if times is None else times.astype("datetime64[us]"),
        reviews,
        superseded,
        not_compared,
    )


def _count_outputs(decode: Callable[[Floats], Any] | None, numbers: Floats) -> Mapping[Any, int]:
    """Count outputs, most frequent first, then in the order of numbers and labels."""
    if decode is None or len(numbers) == 0:
        return MappingProxyType({})
    if numbers.shape[1] == 1:  # which is quicker than with an axis
        values, counts = np.unique(numbers[:, 0], return_counts=True)
        distinct = values[:, None]
    else:
        distinct, counts = np.unique(numbers, axis=0, return_counts=True)
    counted = {}
    for place in np.argsort(-counts, kind="stable").tolist():
        output = decode(distinct[place])
        counted[tuple(output) if isinstance(output, list) else output] = int(counts[place])
    return MappingProxyType(counted)


def _read_times(reader: LedgerReader, rows: Rows) -> npt.NDArray[np.int64]:
    times = dict[int, int]()
    for run in close_runs(np.sort(rows).tolist(), _GAP, _LONGEST):
        chunk = reader.decisions(run[0], run[-1] + 1, keys=False, witnesses=False)
        times |= {row: int(chunk.times[row - run[0]]) for row in run}
    return np.array([times[row] for row in rows.tolist()], np.int64)


def _read_reviews(reader: LedgerReader, row: int) -> tuple[CaseReview, ...]:
    return tuple(
        CaseReview(
            str(event.body.get("disposition")),
            reader.note_text(event),
            str(event.body.get("reviewer")),
            iso_text(event.time),
            event.body.get("verified") is True,
        )
        for event in reader.reviews_of(row)
    )


def _find_overruling(reader: LedgerReader, row: int) -> Overruling | None:
    """Return which decision a row replaced; None if it replaced none, or one that was erased."""
    for event in reader.supersessions_by(row):
        why = reader.note_text(event)
        if why is not None:
            by, time = str(event.body.get("by")), iso_text(event.time)
            verified = event.body.get("verified") is True
            return Overruling(event.get_integer("row"), why, by, time, verified)
    return None
