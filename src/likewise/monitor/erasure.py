"""Say what an erasure erased, and find the words that have to be destroyed with the rows.

Invariant: after an erasure no file of the folder holds an erased input, output or key, even in free
space. The row's number, its time, its commitment, and verdicts that name the row remain.
Cost: the database is rewritten, a second for a million rows, so erase many people at once.
Not here: the order of the steps (journal.py), overwriting values and then salts (ledger/store.py).
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from likewise.ledger.store import Store
from likewise.monitor.memory import Memory, WordCodes
from likewise.tables.array_types import Rows
from likewise.tables.printing import with_bounded_repr

_NO_ROWS: Rows = np.empty(0, np.int64)


@with_bounded_repr
@dataclass(frozen=True)
class Erasure:
    """Says what was erased."""

    rows: tuple[int, ...]
    """Rows that had not been erased before."""
    complete: bool
    """False while another process reads an old state of the database, or if a service could not
    remove the rows from its alerts. When that is over, erase the same rows again, or close and
    open the ledger."""


@dataclass(frozen=True)
class UnusedWords:
    """Lists words that no row on disk has."""

    numbers: list[int]
    """Their numbers in the ledger."""
    by_column: dict[str, list[int]]
    """Their codes."""


def find_unused_words(store: Store, memory: Memory, without: Rows = _NO_ROWS) -> UnusedWords:
    """Find the words that no row on disk has, apart from the rows `without`.

    Rows that left the window are no longer in memory, so their codes are read from the disk.
    """
    reader = store.reader
    words = reader.words_left()
    counts: dict[str, int] = defaultdict(int)
    for _, column, code in words:
        counts[column] = max(counts[column], code + 1)
    used = {column: np.zeros(count, np.bool_) for column, count in counts.items()}
    if words:
        first, codes = memory.word_codes()
        _mark_used(used, codes, first, without)
        superseded = (  # memory has forgotten them, the disk has not
            reader.decisions(row, row + 1, keys=False, witnesses=False)
            for row in np.setdiff1d(reader.superseded_rows(), without).tolist()
            if row >= first
        )
        on_disk = chain(
            reader.all_decisions(store.first, first),
            reader.all_decisions(max(store.first, store.judged), store.rows),
            superseded,
        )
        for chunk in on_disk:
            assert reader.layout is not None
            inputs, outputs = chunk.records["input"], chunk.outputs
            codes = memory.word_codes_in(reader.layout.dtype, inputs, outputs)
            _mark_used(used, codes, chunk.first, without)
    unused = [(number, column, code) for number, column, code in words if not used[column][code]]
    by_column: dict[str, list[int]] = defaultdict(list)
    for _, column, code in unused:
        by_column[column].append(code)
    return UnusedWords([number for number, *_ in unused], dict(by_column))


def _mark_used(
    used: dict[str, npt.NDArray[np.bool_]], codes: dict[str, WordCodes], first: int, without: Rows
) -> None:
    """Mark in `used` the codes that rows from `first` on have, apart from the rows `without`."""
    for column, is_used in used.items():
        own = codes[column]
        counts = (own >= 0) & (own < len(is_used))
        places = without - first
        counts[places[(places >= 0) & (places < len(own))]] = False
        is_used[own[counts]] = True
