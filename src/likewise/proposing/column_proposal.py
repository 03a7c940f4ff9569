"""Proposes what one column is, and why: a feature, notes, the reason for a tolerance.

A column is left out if it is no input (nested, empty, a time, a truth, another decision, a score, a
survey weight, constant, an index, an identifier, text that hardly repeats, or it gives the output
away: output_column.py). It is a category if it is text or its numbers are codes; else a number with
a tolerance from its spread (tolerances.py).

Invariant: a column that is left out has a note that says why. With few rows no column is left out
because of its values.
"""

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.proposing import column_names
from likewise.proposing.output_column import leak_of
from likewise.proposing.profile import About, ColumnNote, Profile
from likewise.proposing.tolerances import tolerance_of
from likewise.rule.feature import Feature, Missing

ROWS = 20
"""With fewer rows, values say too little about what a column is."""
FEW = 3
"""Up to so many different numbers are codes, whatever the column is called."""
CODES = 10
"""Up to so many different whole numbers are codes unless the column's name counts something."""
_REPEATS = 5  # how often a code repeats at least, on average
_DIFFERENT = 0.9  # the share of different values from which text hardly repeats
_FREE = 0.5  # the same share for text of several words
_BY_CHANCE = 7.0  # repeats to expect; by chance only about exp(-7) of such columns have none
_MANY = 50  # the most values of an identifier that several rows share
_TIME = re.compile(
    r"\s*(\d{4}-\d\d?-\d\d?|\d\d?\.\d\d?\.\d{4}|\d\d?/\d\d?/\d{4}|\d{4}/\d\d?/\d\d?)([T\s].*)?\s*"
)


def is_time(profile: Profile) -> bool:
    """Tell whether all values are times, text that begins with a time, or numbers named so."""
    if all(isinstance(one, datetime.date | datetime.time) for one in profile.different):
        return True
    if all(isinstance(one, str) and _TIME.fullmatch(one) for one in profile.different):
        return True
    large = profile.whole and min(profile.different) >= 1e7
    return large and column_names.is_time(profile.name)


def is_row_counter(profile: Profile) -> bool:
    """Tell whether the column counts the rows, or its name says so and no value repeats."""
    if not profile.whole or not profile.unique or column_names.is_identifier(profile.name):
        return False
    if column_names.is_index(profile.name):
        return True
    first = int(profile.values[0])
    return any(
        all(int(value) == first + step * i for i, value in enumerate(profile.values))
        for step in (1, -1)
    )


def key_rank(profile: Profile) -> int | None:
    """Rank how sure it is that a column identifies decisions, 0 the surest; None if it does not."""
    if not profile.unique or len(profile) <= FEW or (profile.numeric and not profile.whole):
        return None
    if column_names.is_identifier(profile.name):
        return 0
    if not profile.numeric:
        return 1 if all(map(_like_a_key, profile.different)) else None
    if len(profile) < ROWS or profile.is_mostly_rounded:
        return None
    expected = len(profile) ** 2 / (2.0 * _span(profile))  # repeats among numbers drawn by chance
    return 2 if expected > _BY_CHANCE else None


def _span(profile: Profile) -> float:
    """Count the whole numbers from the smallest to the largest."""
    try:
        return float(max(profile.different) - min(profile.different)) + 1.0
    except OverflowError:
        return math.inf


def _like_a_key(value: Any) -> bool:
    text = str(value)
    return not re.search(r"\s", text) and re.search(r"\d", text) is not None


def why_hardly_repeats(profile: Profile) -> str | None:
    """Say why text, or what is called an identifier, is no input; None if it may be."""
    share = len(profile.different) / len(profile.known)
    if column_names.is_identifier(profile.name) and not profile.unique:
        if len(profile.different) > _MANY or share > _FREE:
            return (
                "By its name it identifies a person or a thing that several decisions share. If it"
                ' identifies people: kind = "person", so that nobody is compared with themselves.'
            )
        return None
    if profile.numeric or key_rank(profile) is not None:
        return None
    words = sum(len(str(one).split()) for one in profile.different) / len(profile.different)
    if share >= _DIFFERENT or (share >= _FREE and words >= FEW):
        return f"{share:.0%} of its values are different: no two decisions would be similar."
    return None


def why_codes(profile: Profile) -> str | None:
    """Say why numbers are taken for codes, if they are."""
    if not profile.whole or column_names.is_score(profile.name):
        return None
    if column_names.is_code(profile.name) or column_names.is_identifier(profile.name):
        return "By its name its numbers are codes, which must be the same"
    count = len(profile.different)
    dense = _span(profile) <= 2 * count
    repeats = len(profile.known) >= max(ROWS, _REPEATS * count)
    if count <= CODES and dense and repeats and not column_names.is_count(profile.name):
        return "Few different whole numbers: codes, which must be the same"
    return None


_IGNORE = Feature("ignore")


@dataclass(frozen=True)
class ColumnProposal:
    """Proposes a feature for one column."""

    feature: Feature
    notes: tuple[ColumnNote, ...] = ()
    reason: str = ""
    """Where the tolerance comes from."""
    key_rank: int | None = None
    """How well the column would do as the key, 0 the best; None if not at all."""


def propose_column(
    profile: Profile, outputs: Sequence[Profile], *, numeric_output: bool, one_hot: bool
) -> ColumnProposal:
    """Propose a feature for an input.

    one_hot: whether it is one of a family of columns, whose name ends in a value
    """
    left_out = _left_out(profile, outputs, numeric_output, one_hot)
    if left_out is not None:
        return ColumnProposal(_IGNORE, (_note(left_out[0], profile, left_out[1]),))
    rank = key_rank(profile)
    if rank is not None:
        return ColumnProposal(Feature("key"), key_rank=rank)
    missing = missing_of(profile)
    if not profile.numeric or len(profile.different) <= FEW:
        return ColumnProposal(Feature("category", missing=missing))
    if profile.is_mostly_rounded:
        text = "Whole numbers beyond 2**53 cannot be compared as float64."
        return ColumnProposal(_IGNORE, (_note("rounded", profile, text),))
    why = why_codes(profile)
    if why is not None:
        text = f'{why}. If they are amounts: kind = "number" and a tolerance.'
        return ColumnProposal(Feature("category", missing=missing), (_note("code", profile, text),))
    return _number(profile, missing)


def missing_of(profile: Profile) -> Missing:
    """Return what a missing value means at first: a value of its own, if any is missing."""
    return "mismatch" if profile.has_missing else "reject"


def _left_out(
    profile: Profile, outputs: Sequence[Profile], numeric_output: bool, one_hot: bool
) -> tuple[About, str] | None:
    """Say why a column is no input, if it is none."""
    if not profile.comparable:
        return "nested", "It holds lists or other nested values, which cannot be compared."
    if not profile.known:
        return "empty", "It has no values."
    if is_time(profile):
        return "time", "A time. `likewise audit --time-column` shows rates by it."
    named = None if one_hot else _left_out_by_name(profile)
    if named is not None or len(profile) < ROWS:
        return named
    return _left_out_by_values(profile, outputs, numeric_output)


def _left_out_by_values(
    profile: Profile, outputs: Sequence[Profile], numeric_output: bool
) -> tuple[About, str] | None:
    if len(profile.different) == 1 and not profile.has_missing:
        return "constant", "It is the same in every row."
    if is_row_counter(profile):
        return "index", "It counts the rows."
    for output in outputs:
        leak = leak_of(profile, output, numeric=numeric_output)
        if leak is not None:
            return "leak", f"{leak}. As an input it would hide contradictions."
    unlike = why_hardly_repeats(profile)
    if unlike is None:
        return None
    return ("identifier" if column_names.is_identifier(profile.name) else "text"), unlike


def _left_out_by_name(profile: Profile) -> tuple[About, str] | None:
    name = profile.name
    if column_names.is_truth(name):
        return "truth", "By its name the true answer, which is no input."
    if column_names.is_answer(name) or column_names.is_decision(name):
        return "decision", "By its name another decision, which is no input."
    if profile.numeric and column_names.is_score_of_a_model(name) and _may_be_score(profile):
        return "score", "By its name a score of the model, which is no input."
    if profile.numeric and column_names.is_survey_weight(name):
        return "weight", "By its name the number of people that a row of a survey stands for."
    return None


def _may_be_score(profile: Profile) -> bool:
    """Tell whether a column that is called p1 holds probabilities; other names need no proof."""
    if not column_names.is_probability_of_class(profile.name):
        return True
    return bool(min(profile.different) >= 0 and max(profile.different) <= 1)


def _number(profile: Profile, missing: Missing) -> ColumnProposal:
    numbers = profile.numbers[~np.isnan(profile.numbers)]
    suggested = tolerance_of(numbers, whole=profile.whole)
    notes = []
    if profile.whole and len(profile.different) <= 2 * CODES and len(profile) >= ROWS:
        text = (
            "Taken for a count or a grade. If its numbers are codes, or each must be the same: kind"
            ' = "category".'
        )
        notes.append(_note("count", profile, text))
    if column_names.is_score(profile.name):
        text = 'A score, taken for an input. If the model made it, it is none: kind = "ignore".'
        notes.append(_note("score", profile, text))
    feature = Feature("number", tolerance=suggested.value, missing=missing)
    return ColumnProposal(feature, tuple(notes), suggested.why)


def _note(about: About, profile: Profile, text: str) -> ColumnNote:
    return ColumnNote(about, (profile.name,), text)
