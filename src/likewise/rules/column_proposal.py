"""What one column is proposed as, and why: a feature, notes, the reason for a tolerance.

A column is left out because it is no input (nested, empty, a time, a truth, another decision, a
score, a survey's weight, constant, an index, an identifier, text that hardly repeats, or it gives
the output away: leakage.py); it is a category if it is text or its numbers are codes; else a number
with a tolerance from its spread (tolerances.py).

Invariant: a column that is left out has a note that says why. With few rows nothing is left out
for what its values are: they tell too little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from likewise.rules import naming
from likewise.rules.column_kinds import (
    CODES,
    FEW,
    ROWS,
    codes_why,
    counts_rows,
    hardly_repeats,
    is_time,
    key_rank,
)
from likewise.rules.feature import Feature, Missing
from likewise.rules.leakage import leak_of
from likewise.rules.notes import About, Note
from likewise.rules.profile import Profile
from likewise.rules.tolerances import tolerance_of

_IGNORE = Feature("ignore")


@dataclass(frozen=True)
class ColumnProposal:
    """One column."""

    feature: Feature
    notes: tuple[Note, ...] = ()
    reason: str = ""
    """Where the tolerance comes from."""
    key_rank: int | None = None
    """How well the column would do as the key, 0 the best; None if it would not."""


def propose_column(
    profile: Profile, outputs: Sequence[Profile], *, numeric_output: bool, one_hot: bool
) -> ColumnProposal:
    """What an input is proposed as.

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
    if profile.rounded:
        text = "Whole numbers beyond 2**53 cannot be compared as float64."
        return ColumnProposal(_IGNORE, (_note("rounded", profile, text),))
    why = codes_why(profile)
    if why is not None:
        text = f'{why}. If they are amounts: kind = "number" and a tolerance.'
        return ColumnProposal(Feature("category", missing=missing), (_note("code", profile, text),))
    return _number(profile, missing)


def missing_of(profile: Profile) -> Missing:
    """What a missing place means at first: a value of its own, where there is any."""
    return "mismatch" if profile.has_missing else "reject"


def _left_out(
    profile: Profile, outputs: Sequence[Profile], numeric_output: bool, one_hot: bool
) -> tuple[About, str] | None:
    """Why a column is no input, if it is none."""
    if not profile.comparable:
        return "nested", "It holds lists or the like, which cannot be compared."
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
    if counts_rows(profile):
        return "index", "It counts the rows."
    leaks = (leak_of(profile, output, numeric=numeric_output) for output in outputs)
    leak = next((one for one in leaks if one is not None), None)
    if leak is not None:
        return "leak", f"{leak}. As an input it would hide contradictions."
    unlike = hardly_repeats(profile)
    if unlike is None:
        return None
    return ("identifier" if naming.is_identifier(profile.name) else "text"), unlike


def _left_out_by_name(profile: Profile) -> tuple[About, str] | None:
    name = profile.name
    if naming.is_truth(name):
        return "truth", "By its name the true answer, which is no input."
    if naming.is_answer(name) or naming.is_decision(name):
        return "decision", "By its name another decision, which is no input."
    if profile.numeric and naming.is_score_of_a_model(name) and _may_be_score(profile):
        return "score", "By its name a score of the model, which is no input."
    if profile.numeric and naming.is_survey_weight(name):
        return "weight", "By its name how many people a row of a survey stands for."
    return None


def _may_be_score(profile: Profile) -> bool:
    """Whether a column that is called p1 holds probabilities; other names need no proof."""
    if not naming.is_probability_of_class(profile.name):
        return True
    return bool(min(profile.different) >= 0 and max(profile.different) <= 1)


def _number(profile: Profile, missing: Missing) -> ColumnProposal:
    numbers = profile.numbers[~np.isnan(profile.numbers)]
    figure = tolerance_of(numbers, whole=profile.whole)
    notes = []
    if profile.whole and len(profile.different) <= 2 * CODES and len(profile) >= ROWS:
        text = (
            "Taken for a count or a grade. If its numbers are codes, or each must be the same: kind"
            ' = "category".'
        )
        notes.append(_note("count", profile, text))
    if naming.is_score(profile.name):
        text = 'A score, taken for an input. If the model made it, it is none: kind = "ignore".'
        notes.append(_note("score", profile, text))
    feature = Feature("number", tolerance=figure.value, missing=missing)
    return ColumnProposal(feature, tuple(notes), figure.why)


def _note(about: About, profile: Profile, text: str) -> Note:
    return Note(about, (profile.name,), text)
