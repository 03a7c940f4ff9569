"""Guesses which column is the output by its name, or lists candidates where names do not tell.

What a model predicted and what was decided are outputs. An outcome or a result may be known later,
a score may be one of several, a label is more often the truth than the decision: each of those is
taken only if it is the only one, and always with a note.

Invariant: a column is chosen for one reason, which the note says; in doubt none is chosen.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from likewise.proposing import column_names
from likewise.proposing.leakage import leak_of
from likewise.proposing.profile import Profile
from likewise.tables.setting_checks import to_plain_value

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
