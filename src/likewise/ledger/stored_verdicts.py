"""Load the verdicts of decisions that are sent again, from the disk or from the write queue.

Cost: decisions that lie close are read together.
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from likewise.ledger.reader import CHUNK, LedgerReader, close_runs
from likewise.ledger.stored import StoredDecisions
from likewise.ledger.verdict_facts import Facts
from likewise.ledger.write_buffer import UnwrittenDecisions, WriteQueue

_GAP = 8  # rows from one to the next, up to which they are read together


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """The stored verdict on one decision."""

    count: int
    witnesses: npt.NDArray[Any]
    """The stored witnesses, as WITNESS, in order of their rows."""
    facts: Facts


def load_stored_verdicts(
    reader: LedgerReader, queue: WriteQueue, rows: list[int]
) -> dict[int, StoredVerdict]:
    """Return the verdicts of rows that are on disk, or wait in the queue behind them."""
    verdicts: dict[int, StoredVerdict] = {}
    for run in close_runs(sorted(row for row in rows if row < queue.first), _GAP, CHUNK):
        stored = reader.decisions(run[0], run[-1] + 1, keys=False, witnesses=True)
        verdicts |= _verdicts_in(stored, run[0], run)
    waiting = [row for row in rows if row >= queue.first]
    return verdicts | _verdicts_in(queue.join_all(), queue.first, waiting) if waiting else verdicts


def _verdicts_in(
    decisions: StoredDecisions | UnwrittenDecisions, first: int, rows: list[int]
) -> dict[int, StoredVerdict]:
    """Return the verdicts of rows among decisions that begin with row `first`."""
    verdicts = {}
    for row in rows:
        count, facts = decisions.counts[row - first], decisions.facts[row - first]
        witnesses = decisions.witnesses.of(row - first)
        verdicts[row] = StoredVerdict(int(count), witnesses, Facts.of(facts))
    return verdicts
