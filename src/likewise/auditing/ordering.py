"""Finds the order of all rows of all files: by time, then by file and line.

Rows are numbered through all files (base of the file plus place among its good rows), and each has
a rank: its row in the history that one monitor would have. Where files are in order of time, or
hold the newest first, ranks follow from numbers. Else times are sorted, one stretch of time after
the other, and ranks are stored in a file.

A key may be used once. The earlier decision keeps it, and later ones with the same key are refused,
as one monitor would do; they take no part and have no rank.

Invariant: ranks are 0 up to the number of rows that take part, each once.
Cost: STRETCH rows in memory; eight bytes for each row on disk where times are sorted, and a look
through all times for each stretch. Keys: two numbers for each row on disk, STRETCH in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from likewise.auditing.cell_folder import AuditFolder, write_json
from likewise.auditing.feeding import count_ties
from likewise.auditing.job import Job
from likewise.auditing.spreading import SpreadFile, TimeTrend
from likewise.runtime.private_files import write_atomically
from likewise.sources.time_columns import AS_IT_IS, NEWEST_FIRST, SORTED, Arrangement
from likewise.tables.array_types import Rows

STRETCH = 1 << 23
"""About how many rows are sorted together."""
_PROBES = 1 << 16  # times that stretches are chosen by


@dataclass(frozen=True)
class RowOrder:
    """Ranks rows."""

    rows: int
    """How many rows take part."""
    bases: tuple[int, ...]
    """By file, the number of its first row; then the number of all rows."""
    arrangement: Arrangement
    ties: int
    """How many rows have the time of the row before."""

    def ranks(self, folder: AuditFolder, number: int, index: Rows) -> Rows:
        """Return the ranks of rows of a file; -1 for those that take no part."""
        numbers = self.bases[number] + index
        if self.arrangement == SORTED:
            stored = np.memmap(folder.ranks, np.int64, "r", shape=(self.bases[-1],))
            return np.array(stored[numbers])
        left_out = read_left_out(folder)
        ranks: Rows = numbers - np.searchsorted(left_out, numbers)
        if self.arrangement == NEWEST_FIRST:
            ranks = self.rows - 1 - ranks
        return np.where(np.isin(numbers, left_out), -1, ranks) if len(left_out) else ranks


def read_left_out(folder: AuditFolder) -> Rows:
    """Read the numbers of rows that take no part since an earlier row has their key."""
    if not folder.left_out.exists():
        return np.empty(0, np.int64)
    return np.asarray(np.load(folder.left_out, allow_pickle=False))


def find_order(job: Job, folder: AuditFolder, files: Sequence[SpreadFile]) -> None:
    """Find the order of all rows of the files, unless it is stored already."""
    if folder.order.exists():
        return
    counts = [one.rows for one in files]
    bases = (0, *np.cumsum(counts, dtype=np.int64).tolist())
    arrangement = _arrangement([one.times for one in files])
    columns = _Columns(folder, bases)
    timed = job.options.time_column is not None
    left_out = np.empty(0, np.int64)
    if job.rule.key_column is not None:
        left_out = _find_repeated_keys(columns, arrangement if timed else AS_IT_IS, timed)
        if len(left_out):
            with write_atomically(folder.left_out) as file:
                np.save(file, left_out)
    rows = bases[-1] - len(left_out)
    ties = 0
    if timed and arrangement == SORTED:
        ties = _sort(columns, left_out, folder.ranks)
    elif timed:
        ties = _ties(columns, left_out)
    write_json(folder.order, RowOrder(rows, bases, arrangement, ties))


class _Columns:
    """Reads times and keys of all rows, file by file."""

    def __init__(self, folder: AuditFolder, bases: Sequence[int]) -> None:
        self._folder = folder
        self.bases = bases

    def __call__(self, name: str) -> Iterator[tuple[int, Rows]]:
        """Yield the number of the first row of each file, and the column."""
        for number, base in enumerate(self.bases[:-1]):
            with np.load(self._folder.spread(number, "npz"), allow_pickle=False) as arrays:
                yield base, arrays[name]


def _arrangement(files: Sequence[TimeTrend]) -> Arrangement:
    """Tell how the rows of all files are arranged, one file after the other."""
    rises = falls = False
    last: int | None = None
    for one in files:
        if one.first is None:
            continue
        if last is not None:
            rises |= one.first > last
            falls |= one.first < last
        rises |= one.rises
        falls |= one.falls
        last = one.last
    if not falls:
        return AS_IT_IS
    return SORTED if rises else NEWEST_FIRST


def _ties(columns: _Columns, left_out: Rows) -> int:
    """Count rows with the time of the one before, for rows in order of time."""
    ties, last = 0, None
    for base, times in columns("times"):
        first, stop = np.searchsorted(left_out, (base, base + len(times)))
        taken = np.delete(times, left_out[first:stop] - base)
        if len(taken):
            ties += count_ties(taken, last)
            last = taken[-1]
    return ties


def _sort(columns: _Columns, left_out: Rows, path: Path) -> int:
    """Write the rank of every row; return how many have the time of the one before."""
    total = columns.bases[-1]
    ranks = np.memmap(path, np.int64, "w+", shape=(total,))
    rank = ties = 0
    for low, high in _stretches(columns, "times", total):
        numbers, times = _read_between(columns, "times", low, high)
        takes_part = ~np.isin(numbers, left_out)
        ranks[numbers[~takes_part]] = -1
        numbers, times = numbers[takes_part], times[takes_part]
        by_time = np.argsort(times, kind="stable")  # of equal times, the upper line first
        ranks[numbers[by_time]] = np.arange(rank, rank + len(numbers))
        rank += len(numbers)
        ties += len(numbers) - len(np.unique(times))
    ranks.flush()
    return ties


def _stretches(columns: _Columns, name: str, total: int) -> list[tuple[int, int]]:
    """Return bounds between which there are about STRETCH values each; together, all values."""
    step = max(1, total // _PROBES)
    probes = np.sort(np.concatenate([column[::step].reshape(-1) for _, column in columns(name)]))
    parts = -(-total // STRETCH)
    inner = probes[np.linspace(0, len(probes) - 1, parts + 1).astype(np.int64)[1:-1]]
    edges = [np.iinfo(np.int64).min, *np.unique(inner).tolist(), np.iinfo(np.int64).max]
    return list(pairwise(edges))


def _read_between(columns: _Columns, name: str, low: int, high: int) -> tuple[Rows, Rows]:
    """Return numbers and values of rows from `low` up to `high`; the last stretch includes it."""
    numbers, values = [], []
    last = high == np.iinfo(np.int64).max
    for base, column in columns(name):
        first = column if column.ndim == 1 else column[:, 0]
        at = np.flatnonzero((first >= low) & ((first < high) | last))
        numbers.append(base + at)
        values.append(column[at])
    return np.concatenate(numbers), np.concatenate(values)


def _find_repeated_keys(columns: _Columns, arrangement: Arrangement, timed: bool) -> Rows:
    """Return the numbers of rows whose key an earlier one has, ascending."""
    total = columns.bases[-1]
    repeated = []
    times = np.concatenate([column for _, column in columns("times")]) if timed else None
    parts = max(1, -(-total // STRETCH))
    edges = np.linspace(0, 1 << 63, parts + 1)[1:-1].astype(np.int64).tolist()
    bounds = [0, *edges, np.iinfo(np.int64).max]
    for low, high in pairwise(bounds):
        numbers, keys = _read_between(columns, "keys", low, high)
        line = -numbers if arrangement == NEWEST_FIRST else numbers
        moment = np.zeros(len(numbers), np.int64) if times is None else times[numbers]
        by_key = np.lexsort((line, moment, keys[:, 1], keys[:, 0]))
        same = (keys[by_key[1:]] == keys[by_key[:-1]]).all(axis=1)
        repeated.append(numbers[by_key[1:][same]])
    return np.sort(np.concatenate(repeated))
