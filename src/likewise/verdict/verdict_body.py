"""Writes the body of a verdict: the one shape that Python, the command line, HTTP and streams send.

`write_body` writes it from a `Verdict`, `write_bodies` those of a batch in one pass over its
arrays; `VerdictBody` describes the fields, also for /openapi.json.
Invariant: a body does not depend on the batch of its decision, and unknown fields are left out.
JSON can hold every value. The field name `exact` is reserved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from likewise.tables.array_types import Rows
from likewise.tables.codec import json_value
from likewise.verdict.context import AnyVerdict, VerdictContext

_STRUCTURED = ("past", "compared_with", "witness_keys", "witness_models", "question")
_CONTEXT_FIELDS = tuple(name for name in VerdictContext._fields if name not in _STRUCTURED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessBody:
    """A past decision that the new one contradicts."""

    row: int
    key: Any = None
    model: str | None = None
    input_distance: float | None
    """None if it was destroyed with an erased decision."""
    output_distance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBody:
    """The rows that a decision was compared with: from `first` up to `stop`, less those absent."""

    first: int
    stop: int
    absent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportBody:
    """How many past decisions were near, whatever their output, and how many of them agree."""

    near: int
    agree: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictBody:
    """The verdict on one decision."""

    row: int | None
    """The decision's row in the history; None if it was only checked."""
    repeated: bool = False
    """Whether the decision was sent before, under its key; this is the answer of that time."""
    key: Any = None
    """The caller's own key, if the decision has one."""
    model: str | None = None
    """The model that made the decision, if that is known."""
    violation: bool
    comparable: bool | None = None
    """Whether there was a near past input, whatever its output; None where that is not asked."""
    count: int
    """How many witnesses there are, including omitted ones."""
    support: SupportBody | None = None
    """How many past inputs were near; None where that is not asked."""
    omitted_witnesses: int = 0
    """How many witnesses are not listed."""
    witnesses: list[WitnessBody]
    """The nearest witnesses, nearest first; equally near ones by row."""
    neighbours: int | None = None
    """How many of the last decisions had a near input, where a burst is counted."""
    alarm: bool | None = None
    """Whether the neighbours raise the burst's alarm; None where no burst is counted."""
    compared_with: ComparedBody | None = None
    """The rows that it was compared with, where a ledger records them."""
    missing_decisions: int = 0
    """Decisions that were known to be missing from the history at that time."""
    not_compared: int = 0
    """Past decisions that were not compared, since their shards were down."""
    slope: float | None = None
    """The slope to its witness, for a monitor of slopes; None if infinite or destroyed."""


def write_body(
    verdict: AnyVerdict,
    witnesses: int | None = None,
    *,
    keys: bool = True,
    compared_with: bool = True,
) -> dict[str, Any]:
    """Write the body of a verdict: the fields of `VerdictBody`, without those that are unknown.

    witnesses      how many witnesses are listed; None lists all
    keys           whether to write keys
    compared_with  whether to write the rows that it was compared with
    """
    context = verdict.context
    near = len(verdict.witnesses)
    count = near + context.omitted_witnesses
    body: dict[str, Any] = {"row": verdict.row}
    if context.repeated:
        body["repeated"] = True
    if keys and context.key is not None:
        body["key"] = json_value(context.key)
    if context.model is not None:
        body["model"] = context.model
    body["violation"] = count > 0 if context.question is None else verdict.violation
    if context.comparable is not None:
        body["comparable"] = context.comparable
    body["count"] = count
    if context.near is not None:
        body["support"] = {"near": context.near, "agree": context.near - count}
    listed = _nearest_fields(verdict, witnesses, keys) if near else []
    if count > len(listed):
        body["omitted_witnesses"] = count - len(listed)
    body["witnesses"] = listed
    if context.neighbours is not None:
        body["neighbours"], body["alarm"] = context.neighbours, context.alarm
    if compared_with and context.compared_with is not None:
        rows = context.compared_with
        compared = {"first": rows.first, "stop": rows.stop, "absent": rows.absent}
        body["compared_with"] = compared
    if context.missing_decisions:
        body["missing_decisions"] = context.missing_decisions
    if context.not_compared:
        body["not_compared"] = context.not_compared
    if context.question is not None and verdict.slope is not None:
        body["slope"] = _if_finite(verdict.slope)
    return body


def read_context_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `VerdictContext` that are plain values, as far as a body has them."""
    fields = {name: body[name] for name in _CONTEXT_FIELDS if name in body}
    return fields | {"near": body["support"]["near"]} if "support" in body else fields


def _nearest_fields(verdict: AnyVerdict, most: int | None, keys: bool) -> list[dict[str, Any]]:
    """Write the nearest witnesses of a verdict."""
    rows, near, far = verdict.witnesses.columns()
    nearest = near.argsort(kind="stable")[:most]
    context = verdict.context
    named = context.witness_keys if keys else None
    return _witness_fields(nearest, (rows, near, far), named, context.witness_models)


def _if_finite(number: float) -> float | None:
    return number if isfinite(number) else None


def _finite(column: Any) -> list[float | None]:
    numbers: list[float | None] = column.tolist()
    if np.isfinite(column).all():
        return numbers
    return [_if_finite(number) for number in numbers if number is not None]


def write_bodies(
    verdicts: Any, witnesses: int, places: Rows, *, keys: bool = True
) -> list[dict[str, Any]]:
    """Write the bodies of the verdicts at some places of a batch, without `compared_with`.

    This makes no `Verdict`, which would take ten times as long.

    verdicts: a `Verdicts`, whose module imports this one
    """
    if len(places) == 0:
        return []
    owners, nearest = verdicts.nearest_witnesses(witnesses)
    listed = _witness_fields(
        nearest,
        verdicts.witnesses.columns(),
        verdicts.witness_keys if keys else None,
        verdicts.witness_models,
    )
    sizes = np.bincount(owners, minlength=len(verdicts))
    stops = sizes.cumsum()
    own_keys = (verdicts.keys if keys else None) or (None,) * len(verdicts)
    models = verdicts.models or (None,) * len(verdicts)
    first_verdicts, missing = verdicts.first_verdicts, verdicts.missing_decisions
    bodies: list[dict[str, Any]] = []
    for (
        place,
        row,
        violation,
        count,
        comparable,
        similar,
        start,
        stop,
        near,
        alarm,
        lacking,
        slope,
    ) in zip(
        places.tolist(),
        _rows_at(verdicts, places),
        _at(verdicts.violations, places),
        _at(verdicts.counts, places),
        _at(verdicts.comparable, places),
        _at(verdicts.near, places),
        _at(stops - sizes, places),
        _at(stops, places),
        _at(verdicts.neighbours, places),
        _at(verdicts.alarms, places),
        _at(verdicts.not_compared, places),
        _at(None if verdicts.question is None else verdicts.slopes, places),
        strict=True,
    ):
        before = None if first_verdicts is None else first_verdicts[place]
        if before is not None:
            bodies.append(write_body(before, witnesses, keys=keys, compared_with=False))
            continue
        body: dict[str, Any] = {"row": row}
        if own_keys[place] is not None:
            body["key"] = json_value(own_keys[place])
        if models[place] is not None:
            body["model"] = models[place]
        body["violation"] = violation
        if comparable is not None:
            body["comparable"] = comparable
        body["count"] = count
        if similar is not None:
            body["support"] = {"near": similar, "agree": similar - count}
        if count > stop - start:
            body["omitted_witnesses"] = count - stop + start
        body["witnesses"] = listed[start:stop]
        if near is not None:
            body["neighbours"] = near
            body["alarm"] = alarm
        if missing:
            body["missing_decisions"] = missing
        if lacking:
            body["not_compared"] = lacking
        if slope is not None:
            body["slope"] = _if_finite(slope)
        bodies.append(body)
    return bodies


def _witness_fields(
    places: Rows,
    columns: tuple[Rows, Any, Any],
    keys: Sequence[Any] | None,
    models: Sequence[str | None] | None,
) -> list[dict[str, Any]]:
    """Write the witnesses at some places of their columns: rows, input and output distances."""
    rows = columns[0][places].tolist()
    near, far = _finite(columns[1][places]), _finite(columns[2][places])
    if keys is None and models is None:
        return [
            {"row": row, "input_distance": one, "output_distance": other}
            for row, one, other in zip(rows, near, far, strict=True)
        ]
    fields: list[dict[str, Any]] = []
    for place, row, one, other in zip(places.tolist(), rows, near, far, strict=True):
        body: dict[str, Any] = {"row": row}
        if keys is not None and keys[place] is not None:
            body["key"] = json_value(keys[place])
        if models is not None and models[place] is not None:
            body["model"] = models[place]
        body["input_distance"], body["output_distance"] = one, other
        fields.append(body)
    return fields


def _rows_at(verdicts: Any, places: Rows) -> Sequence[int | None]:
    """Return the rows of decisions; None for those that were only checked."""
    if verdicts.values is not None:
        return [None] * len(places)
    rows: list[int] = verdicts.rows[places].tolist()
    return rows


def _at(column: Any, places: Rows) -> Sequence[Any]:
    """Return the values of a column at some places; None for each if there is no such column."""
    return [None] * len(places) if column is None else column[places].tolist()
