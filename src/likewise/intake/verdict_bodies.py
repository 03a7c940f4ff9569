"""The verdicts of a batch as they are sent, made in one pass over its arrays.

Fields stand in the order in which `Verdict.to_dict()` has them.

Invariant: the bytes are those that `Verdict.to_dict()` would become, without `over`.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET

from likewise.intake.verdict_json import answer
from likewise.values.plain import json_value
from likewise.values.verdicts import Rows, Verdicts

Row = Annotated[int, msgspec.Meta(ge=0)]


class WitnessBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A past decision that is contradicted."""

    row: Row
    key: Any = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    input_distance: float | None
    """None if it was destroyed with an erased decision."""
    output_distance: float | None


class VerdictBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What one decision revealed."""

    row: Row | None
    """Its place in the history; null if it was only checked."""
    known: bool | msgspec.UnsetType = msgspec.UNSET
    """It was sent before, under its key, and this is what was answered then."""
    key: Any = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    violation: bool
    comparable: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether there was a like case at all."""
    count: Row
    """Witnesses, those that are left out included."""
    omitted: Row | msgspec.UnsetType = msgspec.UNSET
    """How many witnesses are left out."""
    witnesses: list[WitnessBody]
    """The nearest, nearest first."""
    neighbours: Row | msgspec.UnsetType = msgspec.UNSET
    alarm: bool | msgspec.UnsetType = msgspec.UNSET
    missing: Row | msgspec.UnsetType = msgspec.UNSET
    """Decisions known to be missing from the history."""
    incomplete: Row | msgspec.UnsetType = msgspec.UNSET
    """Past decisions that it was not compared with, since shards were down."""
    slope: float | msgspec.UnsetType | None = msgspec.UNSET
    """Of a monitor of slopes: against its witness; null if it is infinite."""


def verdict_bodies(
    verdicts: Verdicts, witnesses: int, places: Rows, *, keyed: bool = True
) -> list[VerdictBody | dict[str, Any]]:
    """The verdicts at some places of a batch, each with so many of its nearest witnesses.

    keyed: whether keys are told, where the monitor has them
    """
    if len(places) == 0:
        return []
    owners, nearest = verdicts.nearest_witnesses(witnesses)
    with_keys = keyed and verdicts.witness_keys is not None
    named = _witness_bodies(verdicts, nearest, with_keys)
    told = np.bincount(owners, minlength=len(verdicts))
    stops = told.cumsum()
    decided = verdicts.witness_models is not None
    keys, models = verdicts.keys or (), verdicts.models or ()
    neighbours, lacking = verdicts.neighbours, verdicts.incomplete
    bodies: list[VerdictBody | dict[str, Any]] = [
        VerdictBody(
            row=row,
            key=json_value(keys[place]) if with_keys else UNSET,
            model=models[place] if decided else UNSET,
            violation=count > 0,
            comparable=comparable,
            count=count,
            omitted=count - stop + start or UNSET,
            witnesses=named[start:stop],
            neighbours=near,
            alarm=alarm,
            missing=verdicts.missing or UNSET,
            incomplete=UNSET if lacking is None else int(lacking[place]) or UNSET,
        )
        for place, row, count, comparable, start, stop, near, alarm in zip(
            places.tolist(),
            _rows_at(verdicts, places),
            _at(verdicts.counts, places),
            _at(verdicts.comparable, places),
            _at(stops - told, places),
            _at(stops, places),
            _at(neighbours, places),
            _at(None if neighbours is None else verdicts.alarms, places),
            strict=True,
        )
    ]
    if verdicts.repeats is not None:
        for i, place in enumerate(places.tolist()):
            before = verdicts.repeats[place]
            if before is not None:
                bodies[i] = answer(before, witnesses, keyed=keyed)
    return bodies


def _witness_bodies(verdicts: Verdicts, places: Rows, with_keys: bool) -> list[WitnessBody]:
    """Those at some places among the witnesses of a batch."""
    found, models = verdicts.witnesses, verdicts.witness_models
    keys = verdicts.witness_keys if with_keys else None
    columns = zip(
        found.rows[places].tolist(),
        found.input_distances[places].tolist(),
        found.output_distances[places].tolist(),
        strict=True,
    )
    if keys is None and models is None:
        return [
            WitnessBody(row=row, input_distance=near, output_distance=far)
            for row, near, far in columns
        ]
    return [
        WitnessBody(
            row=row,
            key=UNSET if keys is None else json_value(keys[i]),
            model=UNSET if models is None else models[i],
            input_distance=near,
            output_distance=far,
        )
        for i, (row, near, far) in zip(places.tolist(), columns, strict=True)
    ]


def _rows_at(verdicts: Verdicts, places: Rows) -> Sequence[int | None]:
    """None for decisions that were only checked."""
    if verdicts.values is not None:
        return [None] * len(places)
    if verdicts.row_numbers is not None:
        return _at(verdicts.row_numbers, places)
    rows: list[int] = (places + verdicts.first_row).tolist()
    return rows


def _at(column: Any, places: Rows) -> Sequence[Any]:
    """What a column has at some places; UNSET if there is no such column."""
    return [UNSET] * len(places) if column is None else column[places].tolist()
