"""A verdict as a dictionary: one schema for Python, the command line, and whatever sends JSON.

    row         its place in the history; None if the decision was only checked
    known       true if it was sent before, and this is what was answered then
    key         the caller's own key, where the monitor has keys
    model       the model that decided, where the monitor has models
    violation   whether there is a witness
    comparable  whether there was a near past input at all, whatever its output, where that is asked
    count       how many witnesses there are
    omitted     how many of them are not told, where some are not
    witnesses   the nearest of them, nearest first, the earlier row first where equally near; each
                has row, key and model (where the monitor has any), input_distance and
                output_distance
    neighbours  how many of the last decisions had a near input, where a burst is counted
    alarm       whether they are so many that the burst's alarm is raised, likewise
    over        the rows that it was compared with, where a ledger keeps that: first, stop, absent
    missing     how many decisions were known to be missing from the history then, if there were any
    incomplete  how many past decisions it was not compared with, since shards were down, if any

Reserved for later, and not to be used for anything else: exact.

Invariant: JSON can hold every value. What it cannot hold is text; a number that is not finite is
None.
"""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from likewise.values.plain import json_value

if TYPE_CHECKING:
    from likewise.values.verdicts import Compared, Verdict, Witness


def verdict_dict(
    verdict: "Verdict", witnesses: int | None = None, *, keyed: bool = True, over: bool = True
) -> dict[str, Any]:
    """The fields of a verdict.

    witnesses   how many are named; all of them if it is None
    keyed       whether keys are told, where there are any
    over        whether it is told what it was compared with, where that is kept
    """
    found = verdict.witnesses
    order = found.nearest_places(witnesses) if len(found) else []
    keys = verdict.beside.witness_keys if keyed else None
    models = verdict.beside.witness_models
    return put_together(
        verdict.row,
        verdict.count,
        found.pick(order),
        key=verdict.key,
        witness_keys=None if keys is None else [keys[i] for i in order],
        model=verdict.model,
        witness_models=None if models is None else [models[i] for i in order],
        comparable=verdict.comparable,
        neighbours=verdict.neighbours,
        alarm=verdict.alarm,
        over=verdict.over if over else None,
        known=verdict.known,
        missing=verdict.missing,
        incomplete=verdict.incomplete,
    )


def put_together(
    row: int | None,
    count: int,
    nearest: "Sequence[Witness]",
    *,
    key: Any = None,
    witness_keys: Sequence[Any] | None = None,
    model: str | None = None,
    witness_models: Sequence[str | None] | None = None,
    comparable: bool | None = None,
    neighbours: int | None = None,
    alarm: bool = False,
    over: "Compared | None" = None,
    known: bool = False,
    missing: int = 0,
    incomplete: int = 0,
) -> dict[str, Any]:
    """The fields, in the order of the schema; those of which nothing is known are left out.

    witness_keys    of `nearest`, in its order; None where there are no keys, `key` included
    witness_models  likewise; None where there are no models, `model` included
    """
    fields: dict[str, Any] = {"row": row}
    if known:
        fields["known"] = True
    if witness_keys is not None:
        fields["key"] = json_value(key)
    if witness_models is not None:
        fields["model"] = model
    fields["violation"] = count > 0
    if comparable is not None:
        fields["comparable"] = comparable
    fields["count"] = count
    if count > len(nearest):
        fields["omitted"] = count - len(nearest)
    fields["witnesses"] = [
        _witness(
            witness,
            {} if witness_keys is None else {"key": json_value(witness_keys[i])},
            {} if witness_models is None else {"model": witness_models[i]},
        )
        for i, witness in enumerate(nearest)
    ]
    if neighbours is not None:
        fields["neighbours"] = neighbours
        fields["alarm"] = alarm
    if over is not None:
        fields["over"] = {"first": over.first, "stop": over.stop, "absent": over.absent}
    if missing:
        fields["missing"] = missing
    if incomplete:
        fields["incomplete"] = incomplete
    return fields


def _witness(
    witness: "Witness", key: dict[str, Any], model: dict[str, str | None]
) -> dict[str, Any]:
    near, far = witness.input_distance, witness.output_distance
    return {
        "row": witness.row,
        **key,
        **model,
        "input_distance": near if isfinite(near) else None,
        "output_distance": far if isfinite(far) else None,
    }
