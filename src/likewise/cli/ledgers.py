"""What the commands about ledgers share: opening one to look at, and findings from one."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.cli.endings import DATA, USAGE, Stop
from likewise.explaining.pair_card import Whereabouts
from likewise.ledger.ledger import Ledger
from likewise.ledger.losses import is_at_least, missing_in
from likewise.monitors.monitor import Monitor
from likewise.monitors.rejudge import judge_again, monitor_again
from likewise.reports.evidence import Evidence
from likewise.reports.findings import Findings, Tally
from likewise.reports.worst import told_time
from likewise.runtime.load import Load
from likewise.values.errors import BadFile, CannotLook
from likewise.values.verdicts import Rows, Verdicts


def look(path: Path) -> Ledger:
    """A ledger to read; another process may be writing it."""
    if not path.exists():
        raise Stop(f"the ledger {path} is not there; expected the folder of one.", DATA)
    try:
        return Ledger(path)
    except BadFile as error:
        code = USAGE if isinstance(error, CannotLook) else DATA
        raise Stop(f"the ledger {path}: {error}", code) from None


def row_of(ledger: Ledger, row: int | None, key: str | None) -> int:
    """The row that is meant: by its number, or by its key, as text or as a whole number."""
    if (row is None) == (key is None):
        raise Stop("which decision? Give its ROW, or its --key.")
    if row is not None:
        return row
    assert key is not None
    for one in keys_meant(key):
        found = ledger.row_of(one)
        if found is not None:
            return found
    raise Stop(f"no decision in {ledger.path} has the key {key!r}.", DATA)


def keys_meant(key: str) -> list[str | int]:
    """A key from the command line: text, or the whole number that it says."""
    whole = key.removeprefix("-").isdecimal() and str(int(key)) == key
    return [key, int(key)] if whole else [key]


def findings_of(ledger: Ledger, command: str | None = None) -> Findings:
    """What a monitor finds in what a ledger still holds, each decision compared as far as it was.

    Verdicts are computed again: a ledger keeps the nearest witnesses only, and findings need all.
    """
    began, load = time.perf_counter(), Load()
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
    took = time.perf_counter() - began
    found = tally.findings(source=evidence_of(ledger, command, took, load.so_far()))
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


def evidence_of(
    ledger: Ledger, command: str | None, seconds: float, load: float | None
) -> Evidence:
    """What is known of a ledger that was judged again."""
    gone, events = len(ledger.erased()), ledger.events()
    missing, at_least = missing_in(events), "at least " * is_at_least(events)
    return Evidence(
        f"the ledger {ledger.path}"
        + (f", {gone:,} erased" if gone else "")
        + (f", {at_least}{missing:,} known to be missing" if missing else ""),
        command=command,
        head=str(ledger.head),
        seconds=seconds,
        load=load,
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
        Whereabouts(time=None if np.isnat(moments[row]) else told_time(moments[row]))
        for row in (pair.row, pair.witness.row)
    )
    witness = replace(pair.witness, row=int(place_of[pair.witness.row]))
    renumbered = replace(pair, row=int(place_of[pair.row]), witness=witness)
    return replace(worst, pair=renumbered, later=later, earlier=earlier)
