"""Answer a decision that is sent again under its key as it was answered the first time.

A sender that does not learn whether a decision arrived sends it again, with the same content.
Invariant: a batch with another decision under a known key is refused whole.
Cost: repeated decisions are read from the disk, in runs if they are close together there, unless
they wait to be written. Embedders are called again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.errors import RepeatedKey
from likewise.ledger.stored_verdicts import StoredVerdict
from likewise.monitor.memory import Memory
from likewise.monitor.readers.protocol import Batch
from likewise.monitor.row_models import ModelNames, RowModels
from likewise.tables.array_types import Rows
from likewise.tables.keys import Keys
from likewise.verdict.context import ComparedRows, VerdictContext
from likewise.verdict.verdicts import Verdict, Verdicts
from likewise.verdict.witnesses import Witnesses


class VerdictAnnotator:
    """Adds the known keys and models to the verdicts of an engine."""

    def __init__(self, keys: Keys, models: RowModels) -> None:
        self._keys = keys
        self._models = models

    def annotate_one(
        self,
        row: int | None,
        verdict: Verdict,
        keys: list[Any] | None,
        models: ModelNames,
        compared: ComparedRows | None,
        **more: Any,
    ) -> Verdict:
        """Return the verdict with the decision's key and model, and those of its witnesses.

        row         the decision's row; None if it was only checked
        compared    the rows that it was compared with, where a ledger stores that
        more        further fields of `VerdictContext`
        """
        if keys is not None or self._keys:
            more["key"] = None if keys is None else keys[0]
            more["witness_keys"] = self._keys.keys_of(verdict.witnesses.rows)
        if models is not None or self._models:
            more["model"] = None if models is None else models[0]
            more["witness_models"] = self._models.names(verdict.witnesses.rows)
        context: VerdictContext = verdict.context._replace(compared_with=compared, **more)
        return Verdict(row, verdict.witnesses, context)

    def annotate_many(
        self,
        verdicts: Verdicts,
        keys: list[Any] | None,
        models: ModelNames,
        firsts: Rows | None,
        absent: Rows | None,
    ) -> Verdicts:
        """Return the verdicts with the decisions' keys and models, and those of their witnesses.

        firsts, absent  the first row that each was compared with, and how many rows from there on
                        were erased, where a ledger stores that
        """
        more: dict[str, Any] = {}
        if absent is not None:
            more["firsts"], more["absent"] = firsts, absent
        if keys is not None or self._keys:
            more["keys"] = (None,) * len(verdicts) if keys is None else tuple(keys)
            more["witness_keys"] = self._keys.keys_of(verdicts.witnesses.rows)
        if self._models:
            more["models"] = (None,) * len(verdicts) if models is None else tuple(models)
            more["witness_models"] = self._models.names(verdicts.witnesses.rows)
        return replace(verdicts, **more) if more else verdicts


def is_same(memory: Memory, row: int, batch: Batch) -> bool:
    """Whether a single decision that was read has the content of a remembered row."""
    values = memory.reader.decode_values(batch)
    if values is not None:
        same = values == memory.reader.values(row)
    else:
        stored = memory.engine.inputs(np.array([row]))[0]
        vector = np.asarray(batch.vectors)
        same = vector.shape == stored.shape and np.array_equal(vector.astype(stored.dtype), stored)
    return bool(same) and _is_same_output(memory.engine.output_at(row), batch.outputs)


def _is_same_output(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | list | tuple) and not isinstance(other, str):
        return bool(np.array_equal(np.asarray(one, object), np.asarray(other, object)))
    return bool(one == other)


def split_repeats(
    memory: Memory, known_keys: Keys, batch: Batch, keys: Sequence[Any]
) -> tuple[list[int], dict[int, int], dict[int, int]]:
    """Find the new decisions of a batch, and those that were sent before under their keys.

    Returns the places of new ones; by place the remembered row of others; and by place of those
    that come twice in the batch the place of the first. Raises RepeatedKey if their content
    differs.
    """
    keys, decisions = known_keys.normalize(keys), list(memory.reader.split(batch))
    fresh: list[int] = []
    stored: dict[int, int] = {}
    twice: dict[int, int] = {}
    seen: dict[Any, tuple[int, int]] = {}  # the place of a new key, and the row it will have
    for place, key in enumerate(keys):
        row = None if key is None else known_keys.row_of(key)
        if row is not None:
            same = is_same(memory, row, decisions[place])
            stored[place] = row
        elif key is not None and key in seen:
            twice[place], row = seen[key]
            same = _have_same_content(memory, decisions[twice[place]], decisions[place])
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
            )
    return fresh, stored, twice


def _have_same_content(memory: Memory, one: Batch, other: Batch) -> bool:
    """Whether two single decisions that were read together have the same content."""
    values = memory.reader.decode_values(one)
    if values is not None:
        same = values == memory.reader.decode_values(other)
    else:
        same = np.array_equal(np.asarray(one.vectors), np.asarray(other.vectors))
    return bool(same) and _is_same_output(one.outputs, other.outputs)


def make_repeated_verdict(verdict: Verdict, most: int) -> Verdict:
    """Turn a fresh verdict into the one that a repetition gets, with at most `most` witnesses."""
    verdict = verdict.keep_nearest(most)
    context = verdict.context._replace(compared_with=None, repeated=True)
    return Verdict(verdict.row, verdict.witnesses, context)


def make_stored_verdict(row: int, stored: StoredVerdict, context: VerdictContext) -> Verdict:
    """Make the verdict on a row from what the ledger stores of it and of its witnesses."""
    records = stored.witnesses
    witnesses = Witnesses(
        records["row"].astype(np.int64),
        records["input_distance"].astype(np.float64),
        records["output_distance"].astype(np.float64),
    )
    context = context._replace(
        **stored.facts._asdict(),
        repeated=True,
        omitted_witnesses=max(0, stored.count) - len(records),
    )
    return Verdict(row, witnesses, context)
