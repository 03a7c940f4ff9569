"""A decision that is sent again under its key is answered as it was the first time.

So are those of a batch: what is stored already is answered from the ledger, the rest is judged.

Whoever sends a decision may not learn whether it came through, and sends it again. The key says
that it is the same one; its content must say so too.

Invariant: a batch with another decision under a known key is refused whole.
Cost: what is sent again is read from the disk, together where it lies close there, unless it waits
to be written. Embedders are asked again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.errors import RepeatedKey
from likewise.ledger.stored_verdicts import StoredVerdict
from likewise.monitor.memory import Memory
from likewise.monitor.readers.protocol import Batch
from likewise.tables.keys import Keys
from likewise.verdict.context import VerdictContext
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witnesses


def is_same(memory: Memory, row: int, batch: Batch) -> bool:
    """Whether a single decision that was read says what a remembered row says."""
    values = memory.reader.decode_values(batch)
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


def split_repeats(
    memory: Memory, known: Keys, batch: Batch, given: Sequence[Any]
) -> tuple[list[int], dict[int, int], dict[int, int]]:
    """Which decisions of a batch are fresh, and which were sent before, under their keys.

    The places of fresh ones; by place of the others the row that is remembered; and, of those whose
    first time is in the same batch, the place of that. RepeatedKey if they do not say the same.
    """
    keys, each = known.normalize(given), list(memory.reader.split(batch))
    fresh: list[int] = []
    stored: dict[int, int] = {}
    twice: dict[int, int] = {}
    seen: dict[Any, tuple[int, int]] = {}  # the place of a fresh key, and which row it will have
    for place, key in enumerate(keys):
        row = None if key is None else known.row_of(key)
        if row is not None:
            same = is_same(memory, row, each[place])
            stored[place] = row
        elif key is not None and key in seen:
            twice[place], row = seen[key]
            same = _says_the_same(memory, each[twice[place]], each[place])
        else:
            seen[key] = place, memory.engine.rows + len(fresh)
            fresh.append(place)
            continue
        if not same:
            raise RepeatedKey(
                f"the key {key!r} was given to row {row} already, which is another decision.",
                key=key,
                row=row,
                place=place,
                advice="Keys are unique.",
            )
    return fresh, stored, twice


def _says_the_same(memory: Memory, one: Batch, other: Batch) -> bool:
    """Whether two single decisions that were read together have the same content."""
    values = memory.reader.decode_values(one)
    if values is not None:
        alike = values == memory.reader.decode_values(other)
    else:
        alike = np.array_equal(np.asarray(one.vectors), np.asarray(other.vectors))
    return bool(alike) and _is_same_output(one.outputs, other.outputs)


def make_repeated_verdict(verdict: Verdict, most: int) -> Verdict:
    """A verdict of just now as it is answered from then on, with `most` of its witnesses."""
    found = verdict.witnesses
    kept = sorted(found.nearest_places(most))
    beside = verdict.context
    names, models = beside.witness_keys, beside.witness_models
    said = beside._replace(
        over=None,
        known=True,
        omitted=len(found) - len(kept),
        witness_keys=None if names is None else tuple(names[i] for i in kept),
        witness_models=None if models is None else tuple(models[i] for i in kept),
    )
    return Verdict(verdict.row, found.select(np.array(kept, np.int64)), said)


def make_stored_verdict(row: int, before: StoredVerdict, beside: VerdictContext) -> Verdict:
    """What was answered to a row, with the witnesses that the ledger keeps."""
    found = before.witnesses
    told = Witnesses(
        found["row"].astype(np.int64),
        found["input_distance"].astype(np.float64),
        found["output_distance"].astype(np.float64),
    )
    said = beside._replace(
        **before.facts._asdict(),
        known=True,
        omitted=max(0, before.count) - len(found),
    )
    return Verdict(row, told, said)
