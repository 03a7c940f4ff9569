"""One decision beside those that it contradicts, with their values and what people said of it.

A ledger shows every decision that it has. A monitor in memory has the values of all its decisions
and the verdicts of its latest ones (`Limits.recent`).
"""

from typing import Any

import numpy as np

from likewise.ledger.ledger import Entry, Ledger
from likewise.service.hosted import Hosted
from likewise.service.looking_back.plain_values import plain_position, plain_row
from likewise.service.wire import LookBody, ReviewSaid, SideBody
from likewise.values.codec import json_value
from likewise.values.errors import BadRow
from likewise.values.witnesses import Witness


async def look_at(hosted: Hosted, row: int) -> LookBody:
    """A decision by its row; BadRow if there is none, or if it has left the window."""
    if not hosted.monitor.durable:
        return await hosted.aside(lambda: _from_memory(hosted, row))
    await hosted.flush()
    return await hosted.look(lambda ledger: _from_ledger(ledger, row))


def _from_ledger(ledger: Ledger, row: int) -> LookBody:
    entry = ledger.entry(row)
    return LookBody(
        decision=_side(ledger, entry),
        count=entry.count,
        omitted=max(0, (entry.count or 0) - len(entry.nearest)),
        comparable=entry.comparable,
        missing=entry.missing,
        witnesses=[_witness_side(ledger, witness) for witness in entry.nearest],
        reviews=[
            ReviewSaid(
                review.row,
                review.witness,
                review.disposition,
                review.reason,
                review.reviewer,
                review.time,
                review.verified,
            )
            for review in ledger.reviews(row)
        ],
    )


def _witness_side(ledger: Ledger, witness: Witness) -> SideBody:
    try:
        entry = ledger.entry(witness.row)
    except BadRow:  # it has left the window
        return SideBody(witness.row, erased=True)
    return _side(ledger, entry, witness)


def _side(ledger: Ledger, entry: Entry, witness: Witness | None = None) -> SideBody:
    values = None if entry.erased else ledger.values(entry.row)
    vector = None if values is None or ledger.rule.features is not None else values["input"]
    return SideBody(
        entry.row,
        entry.erased,
        values=None if values is None or vector is not None else plain_row(values),
        x=None if vector is None else np.asarray(vector).tolist(),
        output=json_value(entry.output),
        key=json_value(entry.key),
        time=entry.time,
        model=entry.model,
        source=entry.source,
        position=None if entry.position is None else plain_position(entry.position),
        **_distances(witness),
    )


def _from_memory(hosted: Hosted, row: int) -> LookBody:
    """The same from memory, for as long as it is there."""
    monitor = hosted.monitor
    if row >= monitor.rows:
        raise BadRow(f"row {row} is not in this history, which has {monitor.rows} rows.", row=row)
    verdict = hosted.recent.of(row)
    witnesses = [] if verdict is None else list(verdict.witnesses)
    return LookBody(
        decision=_side_in_memory(hosted, row),
        count=None if verdict is None else verdict.count,
        omitted=0 if verdict is None else verdict.omitted,
        comparable=None if verdict is None else verdict.comparable,
        missing=0 if verdict is None else verdict.missing,
        witnesses=[_side_in_memory(hosted, witness.row, witness) for witness in witnesses],
        reviews=[],
    )


def _side_in_memory(hosted: Hosted, row: int, witness: Witness | None = None) -> SideBody:
    past = hosted.monitor.past
    distances = _distances(witness)
    if not past.alive([row])[0]:
        return SideBody(row, erased=True, **distances)
    table = hosted.monitor.rule.features is not None
    return SideBody(
        row,
        erased=False,
        values=plain_row(past.values(row)) if table else None,
        x=None if table else past.inputs([row])[0].tolist(),
        output=json_value(past.outputs([row])[0]),
        key=json_value(past.keys([row])[0]),
        model=past.models([row])[0],
        **distances,
    )


def _distances(witness: Witness | None) -> dict[str, Any]:
    if witness is None:
        return {}
    return {
        "input_distance": json_value(witness.input_distance),
        "output_distance": json_value(witness.output_distance),
    }
