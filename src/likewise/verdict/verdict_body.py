"""The body of a verdict: the one shape that Python, the command line, HTTP and streams send.

`VerdictBody.of` makes it from a `Verdict`, whether that is fresh, answered again or read from a
ledger (`Ledger.verdict_of`). `write_bodies` writes those of a batch in one pass over its
arrays.

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
from likewise.verdict.context import AnyVerdict, Beside, Compared


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

    @classmethod
    def of(
        cls,
        verdict: AnyVerdict,
        witnesses: int | None = None,
        *,
        keys: bool = True,
        over: bool = True,
    ) -> "VerdictBody":
        """Make it from a verdict.

        witnesses   how many are named; all of them if it is None
        keys        whether keys are told
        over        whether it is told what it was compared with
        """
        beside = verdict.beside
        rows, near, far = verdict.witnesses.columns()
        nearest = near.argsort(kind="stable")[:witnesses]
        named = _witnesses_at(nearest, rows, near, far, beside, keys) if len(rows) else []
        count = len(rows) + beside.omitted
        return cls(
            row=verdict.row,
            known=beside.known,
            key=json_value(beside.key) if keys else None,
            model=beside.model,
            violation=count > 0 if beside.question is None else verdict.violation,
            comparable=beside.comparable,
            count=count,
            omitted=count - len(named),
            witnesses=named,
            neighbours=beside.neighbours,
            alarm=None if beside.neighbours is None else beside.alarm,
            over=_compared(beside.over) if over else None,
            missing=beside.missing,
            incomplete=beside.incomplete,
            slope=None if beside.question is None else verdict.slope,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, in order, without those of which nothing is known."""
        fields: dict[str, Any] = {"row": self.row}
        if self.known:
            fields["known"] = True
        if self.key is not None:
            fields["key"] = self.key
        if self.model is not None:
            fields["model"] = self.model
        fields["violation"] = self.violation
        if self.comparable is not None:
            fields["comparable"] = self.comparable
        fields["count"] = self.count
        if self.omitted:
            fields["omitted"] = self.omitted
        fields["witnesses"] = _fields_of(self.witnesses)
        if self.neighbours is not None:
            fields["neighbours"] = self.neighbours
            fields["alarm"] = self.alarm
        if self.over is not None:
            over = self.over
            fields["over"] = {"first": over.first, "stop": over.stop, "absent": over.absent}
        if self.missing:
            fields["missing"] = self.missing
        if self.incomplete:
            fields["incomplete"] = self.incomplete
        if self.slope is not None:
            fields["slope"] = _if_finite(self.slope)
        return fields


def _fields_of(witnesses: Sequence[WitnessBody]) -> list[dict[str, Any]]:
    """Return the fields of witnesses for JSON."""
    named = []
    for one in witnesses:
        fields: dict[str, Any] = {"row": one.row}
        if one.key is not None:
            fields["key"] = one.key
        if one.model is not None:
            fields["model"] = one.model
        fields["input_distance"] = one.input_distance
        fields["output_distance"] = one.output_distance
        named.append(fields)
    return named


def _witnesses_at(
    nearest: Rows, rows: Rows, near: Any, far: Any, beside: Beside, keys: bool
) -> list[WitnessBody]:
    """Make the bodies of the witnesses at these places of their columns."""
    named = beside.witness_keys if keys else None
    models = beside.witness_models
    bodies = []
    for place, row, one, other in zip(
        nearest.tolist(),
        rows[nearest].tolist(),
        _finite(near[nearest]),
        _finite(far[nearest]),
        strict=True,
    ):
        key = None if named is None else named[place]
        bodies.append(
            WitnessBody(
                row=row,
                key=key if type(key) is str else json_value(key),
                model=None if models is None else models[place],
                input_distance=one,
                output_distance=other,
            )
        )
    return bodies


def _compared(over: Compared | None) -> ComparedBody | None:
    if over is None:
        return None
    return ComparedBody(first=over.first, stop=over.stop, absent=over.absent)


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
    """Write `VerdictBody.to_dict` of the verdicts at some places of a batch, without `over`.

    It makes no `Verdict` and no `VerdictBody`: a batch is written in a tenth of the time.

    verdicts: a `Verdicts`, which is above this module
    """
    if len(places) == 0:
        return []
    owners, nearest = verdicts.nearest_witnesses(witnesses)
    named = _witness_fields(verdicts, nearest, keys)
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
            bodies.append(VerdictBody.of(before, witnesses, keys=keys, over=False).to_dict())
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


def _witness_fields(verdicts: Any, places: Rows, keys: bool) -> list[dict[str, Any]]:
    """The fields of those at some places among the witnesses of a batch."""
    found, models = verdicts.witnesses, verdicts.witness_models
    named = verdicts.witness_keys if keys else None
    rows = found.rows[places].tolist()
    near, far = (
        _finite(column[places]) for column in (found.input_distances, found.output_distances)
    )
    if named is None and models is None:
        return [
            {"row": row, "input_distance": one, "output_distance": other}
            for row, one, other in zip(rows, near, far, strict=True)
        ]
    fields: list[dict[str, Any]] = []
    for place, row, one, other in zip(places.tolist(), rows, near, far, strict=True):
        body: dict[str, Any] = {"row": row}
        if named is not None and named[place] is not None:
            body["key"] = json_value(named[place])
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
