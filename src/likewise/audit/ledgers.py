"""What a ledger holds, judged again: findings of it, as of any file.

Verdicts are computed again, each decision compared as far back as it was: a ledger keeps the
nearest witnesses only, and findings need all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.explaining.pair_card import Whereabouts
from likewise.ledger.ledger import Ledger
from likewise.ledger.losses import bound_of, missing_in
from likewise.monitors.monitor import Monitor
from likewise.monitors.rejudge import judge_again, monitor_again
from likewise.reports.evidence import Evidence
from likewise.reports.findings import Findings, Tally
from likewise.runtime.load import Load
from likewise.values.times import readable_time
from likewise.values.verdicts import Verdicts
from likewise.values.witnesses import Rows


def audit_ledger(ledger: Ledger, command: str | None = None) -> Findings:
    """Return what a monitor finds in what a ledger still holds."""
    load = Load()
    monitor = monitor_again(ledger, comparable=True)
    windowed = False
    tally = Tally(monitor)
    places = [np.empty(0, np.int64)]  # by row of this monitor: the ledger's
    moments = [np.empty(0, "datetime64[us]")]
    for part in judged_again(ledger, monitor):
        windowed |= part.windowed
        places.append(part.places)
        moments.append(part.times)
        tally.add(part.verdicts, part.times)
    place_of, times = np.concatenate(places), np.concatenate(moments)
    found = tally.findings(source=evidence_of_ledger(ledger, command, load))
    found = replace(
        found,
        worst=tuple(_renumbered(one, place_of, times) for one in found.worst),
        missing=missing_in(ledger.events()),
    )
    return _not_compared(found) if windowed else found


@dataclass(frozen=True, eq=False)
class JudgedAgain:
    """Some decisions of a ledger, judged as far back as they were."""

    verdicts: Verdicts
    times: Any
    places: Rows
    """Their rows in the ledger."""
    keys: list[Any] | None
    windowed: bool
    """Whether some were compared with a part of the past only."""


def judged_again(ledger: Ledger, monitor: Monitor) -> Iterator[JudgedAgain]:
    """What a ledger still holds, part by part, through an empty monitor of its rule."""
    place_of: Rows = np.empty(0, np.int64)  # by row of this monitor: the ledger's
    for columns in ledger.columns():
        there = np.flatnonzero(~columns.erased)
        if len(there) == 0:
            continue
        keys = columns.decisions.keys
        own = None if keys is None else [keys[i] for i in there.tolist()]
        verdicts = judge_again(monitor, columns, there, own)
        places = columns.first + there
        place_of = np.concatenate([place_of, places])
        firsts = columns.decisions.firsts[there]
        times = columns.decisions.times[there].astype("datetime64[us]")
        within = place_of[verdicts.witnesses.rows] >= firsts[verdicts.owners]
        some = verdicts.some_witnesses(within)
        yield JudgedAgain(some, times, places, own, bool(firsts.any()))


def evidence_of_ledger(ledger: Ledger, command: str | None, load: Load) -> Evidence:
    """What is known of a ledger that was judged again."""
    gone, events = len(ledger.erased()), ledger.events()
    missing, bound = missing_in(events), bound_of(events)
    return Evidence(
        f"the ledger {ledger.path}"
        + (f", {gone:,} erased" if gone else "")
        + (f", {bound}{missing:,} known to be missing" if missing else ""),
        command=command,
        head=str(ledger.head),
        seconds=load.seconds,
        load=load.so_far(),
    )


def _not_compared(found: Findings) -> Findings:
    """Without comparables: those of rows that had left the window were counted, too."""
    by_row, by_time = (
        tuple(replace(one, comparable=None) for one in stretches)
        for stretches in (found.by_row, found.by_time)
    )
    by_model = tuple(one.without_comparable() for one in found.by_model)
    return replace(found, comparable=None, by_row=by_row, by_time=by_time, by_model=by_model)


def _renumbered(worst: Any, place_of: Rows, moments: Any) -> Any:
    """A pair by the rows of the ledger, with its times."""
    pair = worst.pair
    later, earlier = (
        Whereabouts(time=None if np.isnat(moments[row]) else readable_time(moments[row]))
        for row in (pair.row, pair.witness.row)
    )
    witness = replace(pair.witness, row=int(place_of[pair.witness.row]))
    renumbered = replace(pair, row=int(place_of[pair.row]), witness=witness)
    return replace(worst, pair=renumbered, later=later, earlier=earlier)
