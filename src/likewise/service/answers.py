"""Verdicts as they are sent.

Most verdicts of single decisions have no witness and nothing beside it; these are written without
making a dictionary first. The verdicts of a batch are made in one pass over its arrays.

Invariant: the bytes are those that `Verdict.to_dict()` would become, without `over`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import UNSET

from likewise.intake.verdict_json import answer
from likewise.service.wire import VerdictBody, WitnessBody, encode
from likewise.values.plain import json_value
from likewise.values.verdicts import NO_WITNESSES, Rows, Verdict, Verdicts

_PLAIN = {
    None: b'{"row":%d,"violation":false,"count":0,"witnesses":[]}',
    True: b'{"row":%d,"violation":false,"comparable":true,"count":0,"witnesses":[]}',
    False: b'{"row":%d,"violation":false,"comparable":false,"count":0,"witnesses":[]}',
}


def verdict_bytes(verdict: Verdict, witnesses: int) -> bytes:
    """A verdict as JSON, with so many of its nearest witnesses."""
    beside = verdict.beside
    if (
        verdict.row is not None
        and (verdict.witnesses is NO_WITNESSES or len(verdict.witnesses) == 0)
        and beside.witness_keys is None
        and beside.witness_models is None
        and beside.neighbours is None
        and not (beside.known or beside.missing or beside.omitted or beside.incomplete)
    ):
        return _PLAIN[beside.comparable] % verdict.row
    return encode(answer(verdict, witnesses, keyed=True))


def verdict_bodies(
    verdicts: Verdicts, witnesses: int, places: Rows
) -> list[VerdictBody | dict[str, Any]]:
    """The verdicts at some places of a batch, each with so many of its nearest witnesses."""
    if len(places) == 0:
        return []
    owners, nearest = verdicts.nearest_witnesses(witnesses)
    named = _witness_bodies(verdicts, nearest)
    told = np.bincount(owners, minlength=len(verdicts))
    stops = told.cumsum()
    keyed, decided = verdicts.witness_keys is not None, verdicts.witness_models is not None
    keys, models = verdicts.keys or (), verdicts.models or ()
    neighbours, lacking = verdicts.neighbours, verdicts.incomplete
    bodies: list[VerdictBody | dict[str, Any]] = [
        VerdictBody(
            row=row,
            key=json_value(keys[place]) if keyed else UNSET,
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
                bodies[i] = answer(before, witnesses, keyed=True)
    return bodies


def _witness_bodies(verdicts: Verdicts, places: Rows) -> list[WitnessBody]:
    """Those at some places among the witnesses of a batch."""
    found, keys, models = verdicts.witnesses, verdicts.witness_keys, verdicts.witness_models
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
