"""What was found about decisions that are sent again: read from the disk, or from what waits.

Cost: decisions that lie close are read together.
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from likewise.ledger.reader import CHUNK, LedgerReader
from likewise.ledger.verdict_facts import Facts
from likewise.ledger.write_buffer import WriteQueue

_CLOSE = 8  # rows from one to the next, up to which they are read together


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """What was found about one decision."""

    count: int
    witnesses: npt.NDArray[Any]
    """Those that are kept, as WITNESS, in order of their rows."""
    facts: Facts


def load_stored_verdicts(
    reader: LedgerReader, queue: WriteQueue, rows: list[int]
) -> dict[int, StoredVerdict]:
    """Of rows that are on disk, or in a queue of what is to be behind them there."""
    told: dict[int, StoredVerdict] = {}
    for run in _close_runs([row for row in rows if row < queue.first]):
        told |= _on_disk(reader, run)
    waiting = [row for row in rows if row >= queue.first]
    return told | _in_queue(queue, waiting) if waiting else told


def _on_disk(reader: LedgerReader, rows: list[int]) -> dict[int, StoredVerdict]:
    first = rows[0]
    stored = reader.decisions(first, rows[-1] + 1, keys=False, witnesses=True)
    told = {}
    for row in rows:
        i = row - first
        facts = Facts.of(stored.facts[i])
        told[row] = StoredVerdict(int(stored.counts[i]), stored.witnesses.of(i), facts)
    return told


def _in_queue(queue: WriteQueue, rows: list[int]) -> dict[int, StoredVerdict]:
    some, told = queue.join_all(), {}
    for row in rows:
        i = row - queue.first
        told[row] = StoredVerdict(
            int(some.counts[i]), some.witnesses.of(i), Facts.of(some.facts[i])
        )
    return told


def _close_runs(rows: list[int]) -> list[list[int]]:
    """Rows in order, in runs of such as lie close."""
    runs: list[list[int]] = []
    for row in sorted(rows):
        if runs and row - runs[-1][-1] <= _CLOSE and row - runs[-1][0] < CHUNK:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs
