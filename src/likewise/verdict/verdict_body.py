"""The body of a verdict: the one shape that Python, the command line, HTTP and streams send.

`write_body` writes it from a `Verdict`, whether that is fresh, answered again or read from a ledger
(`Ledger.verdict_of`). `write_bodies` writes those of a batch in one pass over its arrays.
`VerdictBody` describes the fields, for readers and for /openapi.json.

Invariant: a body depends on the decision and what was found about it, not on the batch it came in:
a field of which nothing is known is left out. JSON can hold every value.
Reserved for later, and not to be used for anything else: exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from likewise.tables.codec import json_value
from likewise.tables.rows import Rows
from likewise.verdict.context import AnyVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessBody:
    """A past decision that is contradicted."""

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
class VerdictBody:
    """What one decision revealed."""

    row: int | None
    """Its place in the history; None if the decision was only checked."""
    known: bool = False
    """It was sent before, under its key, and this is what was answered then."""
    key: Any = None
    """The caller's own key, if the decision has one."""
    model: str | None = None
    """The model that decided, if that was said."""
    violation: bool
    comparable: bool | None = None
    """Whether there was a near past input at all, whatever its output, where that is asked."""
    count: int
    """Witnesses, those that are left out included."""
    omitted: int = 0
    """How many witnesses are left out."""
    witnesses: list[WitnessBody]
    """The nearest, nearest first, the earlier row first where equally near."""
    neighbours: int | None = None
    """How many of the last decisions had a near input, where a burst is counted."""
    alarm: bool | None = None
    """Whether these raise the burst's alarm; None where no burst is counted."""
    over: ComparedBody | None = None
    """What it was compared with, where a ledger keeps that."""
    missing: int = 0
    """Decisions known to be missing from the history then."""
    incomplete: int = 0
    """Past decisions that it was not compared with, since shards were down."""
    slope: float | None = None
    """Of a monitor of slopes: against its witness; infinite, or NaN if it was destroyed."""


def write_body(
    verdict: AnyVerdict,
    witnesses: int | None = None,
    *,
    keys: bool = True,
    over: bool = True,
) -> dict[str, Any]:
    """Write the body of a verdict: the fields of `VerdictBody`, without those that are unknown.

    witnesses   how many are named; all of them if it is None
    keys        whether keys are named
    over        whether the rows that it was compared with are named
    """
    context = verdict.context
    near = len(verdict.witnesses)
    count = near + context.omitted
    body: dict[str, Any] = {"row": verdict.row}
    if context.known:
        body["known"] = True
    if keys and context.key is not None:
        body["key"] = json_value(context.key)
    if context.model is not None:
        body["model"] = context.model
    body["violation"] = count > 0 if context.question is None else verdict.violation
    if context.comparable is not None:
        body["comparable"] = context.comparable
    body["count"] = count
    named = _nearest_fields(verdict, witnesses, keys) if near else []
    if count > len(named):
        body["omitted"] = count - len(named)
    body["witnesses"] = named
    if context.neighbours is not None:
        body["neighbours"], body["alarm"] = context.neighbours, context.alarm
    if over and context.over is not None:
        rows = context.over
        body["over"] = {"first": rows.first, "stop": rows.stop, "absent": rows.absent}
    if context.missing:
        body["missing"] = context.missing
    if context.incomplete:
        body["incomplete"] = context.incomplete
    if context.question is not None and verdict.slope is not None:
        body["slope"] = _if_finite(verdict.slope)
    return body


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
    return [_if_finite(number) for number in column.tolist()]


def write_bodies(
    verdicts: Any, witnesses: int, places: Rows, *, keys: bool = True
) -> list[dict[str, Any]]:
    """Write the bodies of the verdicts at some places of a batch, without `over`.

    It makes no `Verdict`: a batch is written in a tenth of the time.

    verdicts: a `Verdicts`, which is above this module
    """
    if len(places) == 0:
        return []
    owners, nearest = verdicts.nearest_witnesses(witnesses)
    found = verdicts.witnesses
    named = _witness_fields(
        nearest,
        (found.rows, found.input_distances, found.output_distances),
        verdicts.witness_keys if keys else None,
        verdicts.witness_models,
    )
    told = np.bincount(owners, minlength=len(verdicts))
    stops = told.cumsum()
    own_keys = (verdicts.keys if keys else None) or (None,) * len(verdicts)
    models = verdicts.models or (None,) * len(verdicts)
    repeats, missing = verdicts.repeats, verdicts.missing
    bodies: list[dict[str, Any]] = []
    for place, row, violation, count, comparable, start, stop, near, alarm, lacking, slope in zip(
        places.tolist(),
        _rows_at(verdicts, places),
        _at(verdicts.violations, places),
        _at(verdicts.counts, places),
        _at(verdicts.comparable, places),
        _at(stops - told, places),
        _at(stops, places),
        _at(verdicts.neighbours, places),
        _at(verdicts.alarms, places),
        _at(verdicts.incomplete, places),
        _at(None if verdicts.question is None else verdicts.slopes, places),
        strict=True,
    ):
        before = None if repeats is None else repeats[place]
        if before is not None:
            bodies.append(write_body(before, witnesses, keys=keys, over=False))
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
        if count > stop - start:
            body["omitted"] = count - stop + start
        body["witnesses"] = named[start:stop]
        if near is not None:
            body["neighbours"] = near
            body["alarm"] = alarm
        if missing:
            body["missing"] = missing
        if lacking:
            body["incomplete"] = lacking
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
    near, far = (_finite(column[places]) for column in columns[1:])
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
    """None for decisions that were only checked."""
    if verdicts.values is not None:
        return [None] * len(places)
    rows: list[int] = verdicts.rows[places].tolist()
    return rows


def _at(column: Any, places: Rows) -> Sequence[Any]:
    """What a column has at some places; None if there is no such column."""
    return [None] * len(places) if column is None else column[places].tolist()
