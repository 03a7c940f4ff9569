"""Which column is the output, by its name; and which it may be, where names do not tell.

What a model said and what was decided are outputs. An outcome or a result may be known later, a
score may be one of several, a label is more often the truth than the decision: each of those is
taken only if it is alone, and never without a note. Nothing else is.

Invariant: a column is chosen for one reason, which is said; in doubt none is.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from likewise.proposing import column_names
from likewise.proposing.leakage import leak_of
from likewise.proposing.profile import Profile
from likewise.rule.feature import to_plain_value

_FEW = 10  # different values that an output which nobody named may have
_SHOWN = 6
_ANSWERS = 3


class OutputGuess(NamedTuple):
    """The output, and what to say of it."""

    column: str
    note: str


def guess_output(profiles: Mapping[str, Profile]) -> OutputGuess | None:
    """The column that is the output by its name; None where names do not tell."""
    plain = {name: one for name, one in profiles.items() if one.comparable and one.known}
    for is_named, note in _NAMED:
        found = [name for name in plain if is_named(name)]
        if not found:
            continue
        chosen = found[0] if len(found) == 1 else _choose_one(found, plain)
        return None if chosen is None else OutputGuess(chosen, note)
    return None


def candidates(profiles: Mapping[str, Profile]) -> list[str]:
    """Columns that may be the output: by their names, then those of few values, the last first."""
    named = [name for is_named, _ in _NAMED for name in profiles if is_named(name)]
    few = [
        name
        for name, one in reversed(list(profiles.items()))
        if 2 <= len(one.different) <= _FEW and not column_names.is_protected(name)
    ]
    return list(dict.fromkeys([*named, *few]))[:_SHOWN]


def truth_note(name: str) -> str | None:
    """What to say where the output is by its name the truth."""
    return _TRUTH if column_names.is_truth(name) or column_names.is_class(name) else None


def favourable_of(output: Profile) -> Any:
    """The output that its name says everyone wants, if one of two or three does."""
    values = {to_plain_value(value) for value in output.different}
    if not 1 <= len(values) <= _ANSWERS:
        return None
    adverse = column_names.is_adverse(output.name)
    return next(
        (one for one in sorted(values, key=str) if column_names.is_good(one, adverse=adverse)), None
    )


def _choose_one(found: list[str], profiles: Mapping[str, Profile]) -> str | None:
    """Of several columns that are called outputs one that says what all the others say."""
    ordered = sorted(found, key=column_names.is_refusal)
    first = profiles[ordered[0]]
    if len(first.different) > _FEW:
        return None
    others = [profiles[name] for name in ordered[1:]]
    same = all(leak_of(one, first, numeric=False) is not None for one in others)
    return first.name if same else None


_TRUTH = (
    "By its name the output is the truth rather than a decision: what is found are then like cases"
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
        "By its name the output is what was decided, or what came of it. If another column says"
        " what was decided, name that with --output-column.",
    ),
    (
        column_names.is_score_of_a_model,
        "By its name the output is a score, and no column says what was decided. If one does, name"
        " that with --output-column.",
    ),
    (lambda name: column_names.is_truth(name) or column_names.is_class(name), _TRUTH),
)
