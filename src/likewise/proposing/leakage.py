"""Detects columns that give the output away: scores, copies, complements, what is known later.

Decisions that agree in such a column agree in their output, so as an input it would hide every
contradiction. A column gives the output away if

- each of its few values goes with one output (a copy, `declined` beside `approved`, a reason);
- it is known for some outputs only, and missing for the others (an interest rate once approved);
- thresholds on it separate the outputs without exception (a score, a probability);
- it is called a score and ranks nearly all decisions of one output above those of the other;
- it goes up or down with an output that is a number (p0 = 1 - p1), or has a value for each range of
  it (the label that was made of a probability).

Invariant: chance is ruled out: two outputs at least have EACH rows or more.
Cost: a sort of the column.
"""

import numpy as np
import numpy.typing as npt

from likewise.proposing.column_names import is_score
from likewise.proposing.profile import Profile
from likewise.tables.array_types import Floats, Rows

EACH = 8  # rows with an output; by chance 8 and 8 are separated once in 12,870 columns
_FEW = 20  # the most values of a column that may stand for outputs
_ROWS_FOR_EACH = 5
_LABELS = 10  # the most outputs that a threshold may separate
_RANKED = 0.97  # the share of pairs with different outputs that a score ranks


def leak_of(column: Profile, output: Profile, *, numeric: bool) -> str | None:
    """Say how a column gives the output away; None if it does not.

    numeric: whether the output is a number
    """
    if numeric:
        return _leak_of_number(column, output)
    known = output.codes >= 0
    labels = output.codes[known]
    if _are_rare(labels):
        return None
    codes = column.codes[known]
    leak = _by_value(codes, labels) or _by_absence(codes, labels)
    if leak is None and column.is_measurable and len(column.different) > 2:
        leak = _by_threshold(column.numbers[known], labels, called_score=is_score(column.name))
    return leak


def _are_rare(labels: Rows) -> bool:
    """Tell whether fewer than two outputs have enough rows to conclude anything."""
    counts = np.sort(np.bincount(labels)) if len(labels) else np.zeros(0)
    return len(counts) < 2 or int(counts[-2]) < EACH


def _by_value(codes: Rows, labels: Rows) -> str | None:
    many = int(codes.max()) + 2  # with one for missing values
    outputs = int(labels.max()) + 1
    if not outputs <= many <= _FEW + 1 or len(codes) < _ROWS_FOR_EACH * many:
        return None
    table = np.zeros((many, outputs), dtype=np.int64)
    np.add.at(table, (codes + 1, labels), 1)
    goes_with = (table > 0).sum(axis=1)
    if goes_with.max() > 1:
        return None
    if int((goes_with == 1).sum()) == int((table.sum(axis=0) > 0).sum()):
        return "It says the same as the output in other words (a copy, or its complement)"
    return "Each of its values goes with one output: it is made from the output, or the reason"


def _by_absence(codes: Rows, labels: Rows) -> str | None:
    known, missing = labels[codes >= 0], labels[codes < 0]
    if min(len(known), len(missing)) < EACH or np.intersect1d(known, missing).size:
        return None
    return "It is known for some outputs only, so it came after the decision"


def _by_threshold(numbers: Floats, labels: Rows, *, called_score: bool) -> str | None:
    known = ~np.isnan(numbers)
    numbers, labels = numbers[known], labels[known]
    present = np.unique(labels)
    if len(present) > _LABELS or len(present) < 2 or _are_rare(labels):
        return None
    lowest = np.array([numbers[labels == one].min() for one in present])
    highest = np.array([numbers[labels == one].max() for one in present])
    order = np.argsort(lowest, kind="stable")
    if (highest[order][:-1] < lowest[order][1:]).all():
        return "Thresholds on it separate the outputs without exception: a score, or made from them"
    if called_score and len(present) == 2:
        ranked = _measure_ranking(numbers[labels == present[0]], numbers[labels == present[1]])
        if max(ranked, 1.0 - ranked) >= _RANKED:
            return "A score that ranks nearly all decisions of one output above those of the other"
    return None


def _measure_ranking(low: Floats, high: Floats) -> float:
    """Return the share of pairs in which the first is the smaller; ties count half."""
    ordered = np.sort(low)
    below = np.searchsorted(ordered, high, side="left")
    up_to = np.searchsorted(ordered, high, side="right")
    return float((below + up_to).mean()) / (2.0 * len(low))


def _leak_of_number(column: Profile, output: Profile) -> str | None:
    if not output.is_measurable:
        return None
    numbers = output.numbers
    if len(column.different) <= _LABELS:
        known = (column.codes >= 0) & ~np.isnan(numbers)
        codes = column.codes[known]
        if not _are_rare(codes) and _by_threshold(numbers[known], codes, called_score=False):
            return "Each of its values goes with a range of the output: it is made from the output"
    elif column.is_measurable and len(output.different) > _LABELS:
        both = ~np.isnan(numbers) & ~np.isnan(column.numbers)
        if int(both.sum()) >= 2 * EACH and _goes_with(numbers[both], column.numbers[both]):
            return "It goes up or down with the output: its complement, or made from it"
    return None


def _goes_with(numbers: Floats, others: Floats) -> bool:
    """Tell whether one order fits both, up or down."""

    def is_rising(one: Floats) -> bool:
        order: npt.NDArray[np.int64] = np.lexsort((one, numbers))
        return bool((np.diff(one[order]) >= 0).all())

    return is_rising(others) or is_rising(-others)
