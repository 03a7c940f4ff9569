"""A decision that is sent again under its key is answered as it was the first time.

Whoever sends a decision may not learn whether it came through, and sends it again. The key says
that it is the same one; its content must say so too.

Cost: one decision is read from the disk, unless it waits to be written.
"""

from typing import Any

import numpy as np

from likewise.engine.memory import Memory
from likewise.ledger.journal import Journal
from likewise.reading.protocol import Batch
from likewise.values.verdicts import Beside, Verdict, Witnesses


def is_same(memory: Memory, row: int, batch: Batch) -> bool:
    """Whether a single decision that was read says what a remembered row says."""
    values = memory.reader.values_read(batch)
    if values is not None:
        alike = values == memory.reader.values(row)
    else:
        kept = memory.engine.inputs(np.array([row]))[0]
        given = np.asarray(batch.vectors)
        alike = given.shape == kept.shape and np.array_equal(given.astype(kept.dtype), kept)
    return bool(alike) and _is_same_output(memory.engine.output_at(row), batch.outputs)


def _is_same_output(kept: Any, given: Any) -> bool:
    if isinstance(kept, np.ndarray | list | tuple) and not isinstance(given, str):
        return bool(np.array_equal(np.asarray(kept, object), np.asarray(given, object)))
    return bool(kept == given)


def stored_verdict(journal: Journal, row: int, beside: Beside) -> Verdict:
    """What was answered to a row, with the witnesses that the ledger keeps."""
    count, found, comparable, missing = journal.judged(row)
    found = found[np.argsort(found["row"], kind="stable")]
    told = Witnesses(
        found["row"].astype(np.int64),
        found["input_distance"].astype(np.float64),
        found["output_distance"].astype(np.float64),
    )
    said = beside._replace(
        comparable=comparable,
        missing=missing,
        known=True,
        omitted=max(0, count) - len(found),
    )
    return Verdict(row, told, said)
