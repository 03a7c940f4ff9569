"""What the commands about ledgers share: opening one to look at, and findings from one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.cli.endings import DATA, USAGE, Stop
from likewise.ledger.ledger import Ledger
from likewise.monitors.rejudge import judge_again, monitor_again
from likewise.reports.findings import Findings, Tally
from likewise.values.errors import BadFile, CannotLook
from likewise.values.verdicts import Rows


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


def findings_of(ledger: Ledger) -> Findings:
    """What a monitor finds in what a ledger still holds, each decision compared as far as it was.

    Verdicts are computed again: a ledger keeps the nearest witnesses only, and findings need all.
    """
    monitor = monitor_again(ledger)
    tally = Tally(monitor)
    place_of: Rows = np.empty(0, np.int64)  # by row of this monitor: the ledger's
    for columns in ledger.columns():
        there = np.flatnonzero(~columns.erased)
        if len(there) == 0:
            continue
        keys = columns.decisions.keys
        own = None if keys is None else [keys[i] for i in there.tolist()]
        verdicts = judge_again(monitor, columns, there, own)
        place_of = np.concatenate([place_of, columns.first + there])
        firsts = columns.decisions.firsts[there]
        times = columns.decisions.times[there].astype("datetime64[us]")
        within = place_of[verdicts.witnesses.rows] >= firsts[verdicts.owners]
        tally.add(verdicts.some_witnesses(within), times)
    gone = len(ledger.erased())
    found = tally.findings(
        source=f"the ledger {ledger.path}" + (f", {gone:,} erased" if gone else ""),
        head=str(ledger.head),
    )
    return replace(found, worst=tuple(_renumbered(one, place_of) for one in found.worst))


def _renumbered(worst: Any, place_of: Rows) -> Any:
    """A pair by the rows of the ledger."""
    pair = worst.pair
    witness = replace(pair.witness, row=int(place_of[pair.witness.row]))
    return replace(worst, pair=replace(pair, row=int(place_of[pair.row]), witness=witness))
