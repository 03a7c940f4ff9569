"""Columns about people: which are protected by their names, and which may stand for such a one.

Laws protect groups, and a rule must know which columns name them. Names tell most of it, whichever
of seven languages they are in (column_words.py). Age is protected in some places and a reason in
others; a district, a surname or a language may stand for a group that is protected. Those two stay
what they are and get a note.

Invariant: the columns of a one-hot family are protected together or not at all.
"""

from collections.abc import Mapping, Sequence

from likewise.proposing import column_names
from likewise.proposing.column_notes import ColumnNote
from likewise.proposing.families import Family, families_of
from likewise.proposing.profile import Profile
from likewise.rule.feature import Feature

_AGE = 'Age is protected in some places and for some decisions: then kind = "protected" alone.'
_PROXY = (
    "It may stand for a protected group (a proxy). Ask whether it is a reason for another answer;"
    ' if not: kind = "ignore".'
)


def protected_by_name(profiles: Mapping[str, Profile], outputs: Sequence[str]) -> list[str]:
    """The inputs that are called like a protected group, each family by its own name."""
    inputs = {name: one for name, one in profiles.items() if name not in outputs and one.comparable}
    names = _names(families_of(inputs))
    return [name for name in inputs if column_names.is_protected(names.get(name, name))]


def notes_on_people(
    features: Mapping[str, Feature], profiles: Mapping[str, Profile]
) -> list[ColumnNote]:
    """One note for each column, or family, that is about a group of people."""
    inputs = {name: profiles[name] for name in features if profiles[name].comparable}
    names = _names(families_of(inputs))
    told: dict[str, list[str]] = {}
    for name in inputs:
        told.setdefault(names.get(name, name), []).append(name)
    notes = []
    for called, columns in told.items():
        kinds = {features[name].kind for name in columns}
        if kinds == {"protected"}:
            text = "Protected, by its name."
            if len(columns) > 1:
                text = (
                    f"Protected, by their name: {len(columns)} columns that together say one"
                    f" thing, {called!r}."
                )
            notes.append(ColumnNote("protected", tuple(columns), text))
        elif column_names.is_age(called) and not column_names.is_identifier(called):
            notes.append(ColumnNote("age", tuple(columns), _AGE))
        elif column_names.is_proxy(called) and any(features[name].is_compared for name in columns):
            notes.append(ColumnNote("proxy", tuple(columns), _PROXY))
    return notes


def _names(families: Sequence[Family]) -> dict[str, str]:
    """By column of a family, the family's name."""
    return {column: family.name for family in families for column in family.columns}
