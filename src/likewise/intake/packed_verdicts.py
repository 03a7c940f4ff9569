"""Verdicts as they travel between a service and a client: all of it but the monitor's past.

Invariant: a verdict that travelled equals the one that was made, to the last bit of its distances,
and says the same beside its witnesses; where witnesses were left out, it says how many.
"""

from dataclasses import fields
from typing import Any

import numpy as np

from likewise.values.past import Past
from likewise.values.verdicts import Beside, Compared, Rows, Verdict, Verdicts, Witnesses

_BYTES = 24  # of a witness: its row and two distances


def told_of_verdict(verdict: Verdict, most: int | None) -> dict[str, Any]:
    """A verdict with at most so many of its witnesses, the nearest; all of them if it is None."""
    found, beside = verdict.witnesses, verdict.beside
    keys, models, omitted = beside.witness_keys, beside.witness_models, beside.omitted
    if most is not None and len(found) > most:
        places = sorted(found.nearest_places(most))
        omitted += len(found) - len(places)
        found = found.some(np.array(places, np.int64))
        keys = None if keys is None else tuple(keys[i] for i in places)
        models = None if models is None else tuple(models[i] for i in places)
    over = beside.over
    return {
        "row": verdict.row,
        "witnesses": _columns(found),
        "beside": {
            **beside._replace(
                past=None, witness_keys=keys, witness_models=models, omitted=omitted
            )._asdict(),
            "over": None if over is None else (over.first, over.stop, over.absent),
        },
    }


def verdict_of(told: dict[str, Any], past: Past | None) -> Verdict:
    """The verdict that was told, whose rows can be looked up in a past."""
    beside = dict(told["beside"])
    over = beside["over"]
    beside.update(past=past, over=None if over is None else Compared(*over))
    return Verdict(told["row"], Witnesses(*told["witnesses"]), Beside(**beside))


def told_of_verdicts(verdicts: Verdicts, most: int | None) -> dict[str, Any]:
    """The verdicts of a batch, each with at most so many of its witnesses; all if it is None."""
    repeats, left_out = verdicts.repeats, verdicts.left_out
    if most is not None and (np.diff(verdicts.offsets) > most).any():
        before = np.diff(verdicts.offsets)
        verdicts = verdicts.some_witnesses(verdicts.are_nearest(most))
        cut = before - np.diff(verdicts.offsets)
        left_out = cut if left_out is None else cut + left_out
    told = {one.name: getattr(verdicts, one.name) for one in fields(verdicts)}
    del told["past"]
    told.update(witnesses=_columns(verdicts.witnesses), left_out=left_out)
    if repeats is not None:
        told["repeats"] = [one and told_of_verdict(one, most) for one in repeats]
    if verdicts.values is not None:
        told["values"] = list(verdicts.values)
    return told


def verdicts_of(told: dict[str, Any], past: Past | None) -> Verdicts:
    """The verdicts that were told."""
    repeats = told["repeats"]
    if repeats is not None:
        repeats = tuple(one and verdict_of(one, past) for one in repeats)
    witnesses = Witnesses(*told["witnesses"])
    return Verdicts(**{**told, "witnesses": witnesses, "repeats": repeats, "past": past})


def most_witnesses(verdicts: Verdict | Verdicts, asked: int | None, bytes_: int, cut: int) -> Any:
    """How many witnesses of each verdict are told: as many as were asked for, if they fit.

    bytes_  that the witnesses of an answer may take
    cut     of each verdict, if they do not fit
    """
    room = bytes_ // _BYTES
    counts: Rows = (
        np.diff(verdicts.offsets)
        if isinstance(verdicts, Verdicts)
        else np.array([len(verdicts.witnesses)])
    )
    wanted = counts if asked is None else np.minimum(counts, asked)
    if int(wanted.sum()) <= room:
        return asked
    return cut if asked is None else min(asked, cut)


def _columns(found: Witnesses) -> tuple[Any, ...]:
    return found.rows, found.input_distances, found.output_distances
