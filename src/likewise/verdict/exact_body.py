"""Verdicts with exact values: the body of verdict_body.py, from which an equal Verdict can be made.

The body is that of `VerdictBody`, in which witnesses are columns and the key and the slope are
exact. Two fields are added: `values` of a decision that was only checked, and `question` of a
monitor of slopes.
The verdicts of a batch are the columns of `Verdicts`, by their names there.

Invariant: a verdict made from its exact body equals the one that it was made from, to the last bit
of its distances, and says the same beside its witnesses.
"""

from dataclasses import fields
from typing import Any

import numpy as np

from likewise.verdict.context import ComparedRows, VerdictContext, VerdictPast
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdict_body import write_body
from likewise.verdict.verdicts import Verdict, Verdicts
from likewise.verdict.witnesses import NO_WITNESSES, Witnesses

EXACT_CONTENT_TYPE = "application/vnd.likewise+msgpack"
"""The content type of bodies with exact values (tables/exact_values.py)."""
_COLUMNS = tuple(one.name for one in fields(Verdicts) if one.name not in ("past", "witnesses"))
_STRUCTURED = ("past", "over", "witness_keys", "witness_models", "question")
_CONTEXT_FIELDS = tuple(name for name in VerdictContext._fields if name not in _STRUCTURED)


def exact_body(verdict: Verdict, most: int | None = None) -> dict[str, Any]:
    """Write the exact body of a verdict.

    most    how many witnesses are named, the nearest; all of them if it is None
    """
    found, beside = verdict.witnesses, verdict.context
    keys, models, omitted = beside.witness_keys, beside.witness_models, beside.omitted
    if most is not None and len(found) > most:
        places = sorted(found.nearest_places(most))
        omitted += len(found) - len(places)
        found = found.select(np.array(places, np.int64))
        keys = None if keys is None else tuple(keys[i] for i in places)
        models = None if models is None else tuple(models[i] for i in places)
    body = write_body(verdict, 0)
    named: dict[str, Any] = {} if not len(found) else _columns(found)
    exact = {"key": beside.key, "values": beside.values, "slope": verdict.slope}
    named |= _drop_none({"keys": keys, "models": models})
    exact["question"] = None if beside.question is None else beside.question.to_dict()
    exact["witnesses"] = named
    return body | _drop_none(exact) | {"omitted": omitted, "missing": beside.missing}


def verdict_of(body: dict[str, Any], past: VerdictPast | None) -> Verdict:
    """Make the verdict of an exact body, whose rows can be looked up in a past."""
    named, over, question = body["witnesses"], body.get("over"), body.get("question")
    keys, models = named.get("keys"), named.get("models")
    beside = VerdictContext(
        past=past,
        over=None if over is None else ComparedRows(**over),
        witness_keys=None if keys is None else tuple(keys),
        witness_models=None if models is None else tuple(models),
        question=None if question is None else SlopeQuestion.of(question),
        **{name: body[name] for name in _CONTEXT_FIELDS if name in body},
    )
    return Verdict(body["row"], _witnesses_of(named) if "rows" in named else NO_WITNESSES, beside)


def exact_columns(verdicts: Verdicts, most: int | None = None) -> dict[str, Any]:
    """Write the verdicts of a batch by column, each with at most so many of its witnesses."""
    repeats, left_out = verdicts.repeats, verdicts.left_out
    if most is not None and (np.diff(verdicts.offsets) > most).any():
        before = np.diff(verdicts.offsets)
        verdicts = verdicts.select_witnesses(verdicts.mark_nearest(most))
        cut = before - np.diff(verdicts.offsets)
        left_out = cut if left_out is None else cut + left_out
    named = {name: getattr(verdicts, name) for name in _COLUMNS}
    named |= {"left_out": left_out, "witnesses": _columns(verdicts.witnesses)}
    if repeats is not None:
        named["repeats"] = [None if one is None else exact_body(one, most) for one in repeats]
    if verdicts.question is not None:
        named["question"] = verdicts.question.to_dict()
    for name in ("keys", "witness_keys", "models", "witness_models", "values"):
        if named[name] is not None:
            named[name] = list(named[name])
    return _drop_none(named)


def verdicts_of(columns: dict[str, Any], past: VerdictPast | None) -> Verdicts:
    """Make the verdicts of a batch from their columns."""
    made: dict[str, Any] = {name: columns.get(name) for name in _COLUMNS if name in columns}
    for name in ("keys", "witness_keys", "models", "witness_models"):
        if name in made:
            made[name] = tuple(made[name])
    if "repeats" in made:
        made["repeats"] = tuple(
            None if one is None else verdict_of(one, past) for one in made["repeats"]
        )
    if "question" in made:
        made["question"] = SlopeQuestion.of(made["question"])
    return Verdicts(**made, witnesses=_witnesses_of(columns["witnesses"]), past=past)


def _columns(found: Witnesses) -> dict[str, Any]:
    rows, near, far = found.columns()
    return {"rows": rows, "input_distances": near, "output_distances": far}


def _witnesses_of(named: dict[str, Any]) -> Witnesses:
    return Witnesses(named["rows"], named["input_distances"], named["output_distances"])


def _drop_none(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None}
