"""Guesses which column is the output by its name, or lists candidates where names do not tell.

What a model predicted and what was decided are outputs. An outcome or a result may be known later,
a score may be one of several, a label is more often the truth than the decision: each of those is
taken only if it is the only one, and always with a note.

Invariant: a column is chosen for one reason, which the note says; in doubt none is chosen.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.proposing import column_names
from likewise.proposing.column_names import is_score
from likewise.proposing.profile import Profile
from likewise.tables.array_types import Floats, Rows
from likewise.tables.setting_checks import to_plain_value

EACH = 8  # rows with an output; by chance 8 and 8 are separated once in 12,870 columns
_MOST_OUTPUTS = 20  # the most values of a column that may stand for outputs
_ROWS_FOR_EACH = 5
_LABELS = 10  # the most outputs that a threshold may separate
_RANKED = 0.97  # the share of pairs with different outputs that a score ranks


# Detects columns that give the output away: scores, copies, complements, what is known later.
# Decisions that agree in such a column agree in their output, so as an input it would hide every
# contradiction. A column gives the output away if
#
# - each of its few values goes with one output (a copy, `declined` beside `approved`, a reason);
# - it is known for some outputs only, and missing for the others (an interest rate once approved);
# - thresholds on it separate the outputs without exception (a score, a probability);
# - it is called a score and ranks nearly all decisions of one output above those of the other;
# - it goes up or down with an output that is a number (p0 = 1 - p1), or has a value for each range
#   of it (the label that was made of a probability).
#
# Invariant: chance is ruled out: two outputs at least have EACH rows or more.
# Cost: a sort of the column.


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
    if not outputs <= many <= _MOST_OUTPUTS + 1 or len(codes) < _ROWS_FOR_EACH * many:
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


_FEW = 10  # the most different values of an output that names do not tell
_SHOWN = 6
_ANSWERS = 3


class OutputGuess(NamedTuple):
    """Names the output column, with a note on how it was chosen."""

    column: str
    note: str


def guess_output(profiles: Mapping[str, Profile]) -> OutputGuess | None:
    """Guess the output column by its name; None where names do not tell."""
    plain = {name: one for name, one in profiles.items() if one.comparable and one.known}
    for is_named, note in _NAMED:
        named = [name for name in plain if is_named(name)]
        if not named:
            continue
        chosen = named[0] if len(named) == 1 else _choose_one(named, plain)
        return None if chosen is None else OutputGuess(chosen, note)
    return None


def candidates(profiles: Mapping[str, Profile]) -> list[str]:
    """List columns that may be the output: by name, then those of few values, the last first."""
    named = [name for is_named, _ in _NAMED for name in profiles if is_named(name)]
    few = [
        name
        for name, one in reversed(list(profiles.items()))
        if 2 <= len(one.different) <= _FEW and not column_names.is_protected(name)
    ]
    return list(dict.fromkeys([*named, *few]))[:_SHOWN]


def truth_note(name: str) -> str | None:
    """Return a note if the name of the output says that it is the truth."""
    return _TRUTH if _may_be_truth(name) else None


def favourable_of(output: Profile) -> Any:
    """Return the output that everyone wants, if one of two or three values says so."""
    values = {to_plain_value(value) for value in output.different}
    if not 1 <= len(values) <= _ANSWERS:
        return None
    adverse = column_names.is_adverse(output.name)
    return next(
        (one for one in sorted(values, key=str) if column_names.is_good(one, adverse=adverse)), None
    )


def _choose_one(names: list[str], profiles: Mapping[str, Profile]) -> str | None:
    """Choose one of several columns that are called outputs if it says what all others say."""
    ordered = sorted(names, key=column_names.is_refusal)
    first = profiles[ordered[0]]
    if len(first.different) > _FEW:
        return None
    others = [profiles[name] for name in ordered[1:]]
    same = all(leak_of(one, first, numeric=False) is not None for one in others)
    return first.name if same else None


def _may_be_truth(name: str) -> bool:
    return column_names.is_truth(name) or column_names.is_class(name)


_TRUTH = (
    "By its name the output is the truth rather than a decision: the audit then finds similar cases"
    " that turned out differently, not decisions that contradict each other. If a model or a person"
    " decided, name that column with --output-column."
)
_NAMED: tuple[tuple[Callable[[str], bool], str], ...] = (
    (
        lambda name: column_names.is_answer(name) or column_names.is_decision(name),
        "The output, by its name.",
    ),
    (
        column_names.may_be_output,
        "By its name the output is what was decided, or the result of that. If another column says"
        " what was decided, name that with --output-column.",
    ),
    (
        column_names.is_score_of_a_model,
        "By its name the output is a score, and no column says what was decided. If one does, name"
        " that with --output-column.",
    ),
    (_may_be_truth, _TRUTH),
)
