"""Erase people from a ledger: values, salts and words, in memory and in every file.

Invariant: afterwards nothing in the folder holds an erased input, output or key, in use or free.
Whatever can fail is computed before the store is changed; if something fails after that, memory is
made from the disk again.
What stays: the row's number, its time, its commitment, and verdicts that name the row.
Cost: the database is written anew, a second for a million rows, so name many people at once.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from likewise.ledger.store import Store
from likewise.monitor.memory import Memory, WordCodes
from likewise.tables.printing import with_bounded_repr
from likewise.tables.rows import Rows

_NO_ROWS: Rows = np.empty(0, np.int64)


@with_bounded_repr
@dataclass(frozen=True)
class Erasure:
    """What was erased."""

    rows: tuple[int, ...]
    """Rows that were there until now."""
    complete: bool
    """False while a reader looks at an old state of the database, or if a service could not take
    the rows out of its alerts. When that is over, erase the same rows again, or close and open the
    ledger."""


@dataclass(frozen=True)
class UnusedWords:
    """Words that no row on disk has."""

    numbers: list[int]
    by_column: dict[str, list[int]]
    """Their codes."""


def find_unused_words(store: Store, memory: Memory, without: Rows = _NO_ROWS) -> UnusedWords:
    """Words that no row on disk has, the rows `without` left out.

    Rows that left the window are no longer in memory, so their codes are read from the disk.
    """
    left = store.reader.words_left()
    counts: dict[str, int] = defaultdict(int)
    for _, column, code in left:
        counts[column] = max(counts[column], code + 1)
    used = {column: np.zeros(count, np.bool_) for column, count in counts.items()}
    if left:
        first, codes = memory.word_codes()
        _mark(used, codes, first, without)
        layout = store.reader.layout
        waiting = store.reader.all_decisions(max(store.first, store.judged), store.rows)
        for chunk in chain(store.reader.all_decisions(store.first, first), waiting):
            assert layout is not None
            codes = memory.word_codes_in(layout.dtype, chunk.records["input"], chunk.outputs)
            _mark(used, codes, chunk.first, without)
        for row in np.setdiff1d(store.reader.superseded_rows(), without).tolist():
            if row >= first:  # memory has forgotten it, the disk has not
                chunk = store.reader.decisions(row, row + 1, keys=False, witnesses=False)
                assert layout is not None
                codes = memory.word_codes_in(layout.dtype, chunk.records["input"], chunk.outputs)
                _mark(used, codes, row, without)
    unused = [(number, column, code) for number, column, code in left if not used[column][code]]
    by_column: dict[str, list[int]] = defaultdict(list)
    for _, column, code in unused:
        by_column[column].append(code)
    return UnusedWords([number for number, *_ in unused], dict(by_column))


def _mark(
    used: dict[str, npt.NDArray[np.bool_]], codes: dict[str, WordCodes], first: int, without: Rows
) -> None:
    """Note which codes rows from `first` on have."""
    for column, seen in used.items():
        some = codes[column]
        there = (some >= 0) & (some < len(seen))
        places = without - first
        there[places[(places >= 0) & (places < len(some))]] = False
        seen[some[there]] = True
