"""Writes verdicts with exact values (tables/exact_values.py), and makes equal verdicts of them.

The body of a verdict is that of `VerdictBody`, but its witnesses are columns, its key and slope are
exact, and it has `values` of a decision that was only checked and the `question` of a monitor of
slopes. The body of a batch has the columns of `Verdicts`, by the names that they have there.
Invariant: the verdict that is read equals the one written to the last bit, and so does its context.
"""

from dataclasses import fields
from typing import Any

import numpy as np

from likewise.verdict.context import ComparedRows, VerdictContext, VerdictPast
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdict_body import read_context_fields, write_body
from likewise.verdict.verdicts import Verdict, Verdicts
from likewise.verdict.witnesses import NO_WITNESSES, Witnesses

EXACT_CONTENT_TYPE = "application/vnd.likewise+msgpack"
"""The content type of bodies with exact values."""
_COLUMNS = tuple(field.name for field in fields(Verdicts))
_NAMES = ("keys", "witness_keys", "models", "witness_models")


def exact_body(verdict: Verdict, most: int | None = None) -> dict[str, Any]:
    """Write the exact body of a verdict.

    most    how many witnesses are named, the nearest; None names all
    """
    listed = verdict if most is None else verdict.keep_nearest(most)
    witnesses, context = listed.witnesses, listed.context
    named = {"keys": context.witness_keys, "models": context.witness_models}
    exact = {
        "key": context.key,
        "values": context.values,
        "slope": verdict.slope,
        "question": None if context.question is None else context.question.to_dict(),
        "witnesses": (_columns(witnesses) if len(witnesses) else {}) | _drop_none(named),
    }
    body = write_body(verdict, 0) | _drop_none(exact)
    for name in ("omitted_witnesses", "missing_decisions"):
        body[name] = getattr(context, name)
    return body


def verdict_of(body: dict[str, Any], past: VerdictPast | None) -> Verdict:
    """Make the verdict of an exact body, whose rows can be looked up in a past."""
    columns, question = body["witnesses"], body.get("question")
    compared = body.get("compared_with")
    keys, models = columns.get("keys"), columns.get("models")
    context = VerdictContext(
        past=past,
        compared_with=None if compared is None else ComparedRows(**compared),
        witness_keys=None if keys is None else tuple(keys),
        witness_models=None if models is None else tuple(models),
        question=None if question is None else SlopeQuestion.of(question),
        **read_context_fields(body),
    )
    witnesses = _witnesses_of(columns) if "rows" in columns else NO_WITNESSES
    return Verdict(body["row"], witnesses, context)


def exact_columns(verdicts: Verdicts, most: int | None = None) -> dict[str, Any]:
    """Write the verdicts of a batch as columns, each with at most so many of its witnesses."""
    first_verdicts, unlisted = verdicts.first_verdicts, verdicts.unlisted_witnesses
    if most is not None and (np.diff(verdicts.offsets) > most).any():
        before = np.diff(verdicts.offsets)
        verdicts = verdicts.select_witnesses(verdicts.mark_nearest(most))
        cut = before - np.diff(verdicts.offsets)
        unlisted = cut if unlisted is None else cut + unlisted
    columns = {name: getattr(verdicts, name) for name in _COLUMNS}
    columns |= {"unlisted_witnesses": unlisted, "past": None}
    columns["witnesses"] = _columns(verdicts.witnesses)
    if first_verdicts is not None:
        columns["first_verdicts"] = [
            None if one is None else exact_body(one, most) for one in first_verdicts
        ]
    if verdicts.question is not None:
        columns["question"] = verdicts.question.to_dict()
    for name in (*_NAMES, "values"):
        if columns[name] is not None:
            columns[name] = list(columns[name])
    return _drop_none(columns)


def verdicts_of(columns: dict[str, Any], past: VerdictPast | None) -> Verdicts:
    """Make the verdicts of a batch from their columns."""
    values = {name: columns[name] for name in _COLUMNS if name in columns}
    for name in _NAMES:
        if name in values:
            values[name] = tuple(values[name])
    if "first_verdicts" in values:
        values["first_verdicts"] = tuple(
            None if one is None else verdict_of(one, past) for one in values["first_verdicts"]
        )
    if "question" in values:
        values["question"] = SlopeQuestion.of(values["question"])
    return Verdicts(**values | {"witnesses": _witnesses_of(columns["witnesses"]), "past": past})


def _columns(witnesses: Witnesses) -> dict[str, Any]:
    rows, near, far = witnesses.columns()
    return {"rows": rows, "input_distances": near, "output_distances": far}


def _witnesses_of(columns: dict[str, Any]) -> Witnesses:
    return Witnesses(columns["rows"], columns["input_distances"], columns["output_distances"])


def _drop_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
