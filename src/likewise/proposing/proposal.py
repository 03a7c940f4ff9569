"""Proposes features and an output for the columns of a table, before anything is tried.

Each column is looked at by itself (column_proposal.py); here one of several keys is chosen, one-hot
columns are put together, and the output's kind and delta are proposed. The caller says which
columns are protected.

Invariant: every input has a feature; whatever is left out or guessed has a note.
Cost: one look at every value, and a sort of the numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.errors import BadRule
from likewise.proposing import column_names
from likewise.proposing.column_proposal import (
    CODES,
    FEW,
    ROWS,
    ColumnProposal,
    missing_of,
    propose_column,
)
from likewise.proposing.profile import ColumnNote, Profile
from likewise.proposing.tolerances import Family, SuggestedValue, delta_of, families_of
from likewise.rule.feature import Feature, Output
from likewise.rule.rule import Rule


@dataclass(frozen=True)
class UntriedProposal:
    """Says what the columns of a table seem to be, and why."""

    features: Mapping[str, Feature]
    output_columns: tuple[str, ...]
    output: Output
    delta: float
    notes: tuple[ColumnNote, ...]
    reasons: Mapping[str, str]
    """By column, where its tolerance comes from."""
    delta_reason: str
    families: tuple[Family, ...]
    """One-hot columns that are compared together."""

    def to_rule(self, favourable: Any = None) -> Rule:
        """Make a rule of the proposal."""
        columns = self.output_columns
        return Rule(
            features=self.features,
            output_column=columns[0] if len(columns) == 1 else list(columns),
            output=self.output,
            delta=self.delta,
            favourable=favourable,
        )


def propose_features(
    profiles: Mapping[str, Profile], outputs: Sequence[str], protected: Sequence[str]
) -> UntriedProposal:
    """Propose features for the columns of a table, and what kind of output it has."""
    for name in (*outputs, *protected):
        if not profiles[name].comparable:
            raise BadRule(
                f"the column {name!r} holds values such as lists; expected plain values such as"
                " numbers and text, since a list can neither be an output nor protected"
            )
    answers = [profiles[name] for name in outputs]
    kind = output_kind(answers)
    inputs = {name: one for name, one in profiles.items() if name not in outputs}
    families = families_of(inputs)
    one_hot = {name for family in families for name in family.columns}
    proposed: dict[str, ColumnProposal] = {}
    for name, profile in inputs.items():
        if name in protected:
            proposed[name] = ColumnProposal(Feature("protected", missing=missing_of(profile)))
        else:
            proposed[name] = propose_column(
                profile, answers, numeric_output=kind != "label", one_hot=name in one_hot
            )
    proposed = _with_one_key(proposed)
    together = _select_measured(families, proposed)
    notes = [note for one in proposed.values() for note in one.notes]
    notes += [_family_note(family) for family in together]
    if not any(one.feature.is_compared for one in proposed.values()):
        why = "; ".join(f"{one.columns[0]!r}: {one.text}" for one in notes[:5])
        raise BadRule(
            "no feature takes part in the distance; expected an input to compare at least."
            f" {why or 'There is none.'} If one of them is an input, write a rule that says so."
        )
    delta = _delta(answers, kind)
    return UntriedProposal(
        features={name: one.feature for name, one in proposed.items()},
        output_columns=tuple(outputs),
        output=kind,
        delta=float(delta.value),
        notes=tuple(notes),
        reasons={name: one.reason for name, one in proposed.items() if one.reason},
        delta_reason=delta.why,
        families=together,
    )


def output_kind(outputs: Sequence[Profile]) -> Output:
    """Tell the kind of the output: several columns are probabilities, one a number or a label."""
    if len(outputs) > 1:
        return "probabilities"
    (output,) = outputs
    if not output.numeric:
        return "label"
    if not output.whole:
        return "number"
    codes = (
        column_names.is_code(output.name)
        or column_names.is_truth(output.name)
        or output.is_mostly_rounded
    )
    few = FEW if column_names.is_score(output.name) else CODES
    many = len(output.different) > few and len(output.known) >= ROWS
    return "number" if many and not codes else "label"


def _delta(outputs: Sequence[Profile], kind: Output) -> SuggestedValue:
    """Suggest the largest of the deltas of all outputs."""
    if kind == "label":
        return SuggestedValue(0.0, "")
    deltas = []
    for output in outputs:
        numbers = output.numbers if output.numeric else np.zeros(0)
        deltas.append(delta_of(numbers[~np.isnan(numbers)], whole=output.whole))
    return max(deltas, key=lambda delta: float(delta.value))


def _with_one_key(proposed: Mapping[str, ColumnProposal]) -> dict[str, ColumnProposal]:
    """Keep the best key, the first of several; leave out the others."""
    ranks = {name: one.key_rank for name, one in proposed.items() if one.key_rank is not None}
    key = min(ranks, key=lambda name: ranks[name], default=None)
    with_key = dict(proposed)
    for name in ranks:
        text = f"Every value is different, as in {key!r}, which is the key."
        if name == key:
            text = "Every value is different: it identifies decisions."
        feature = proposed[name].feature if name == key else Feature("ignore")
        with_key[name] = ColumnProposal(feature, (ColumnNote("identifier", (name,), text),))
    return with_key


def _select_measured(
    families: Sequence[Family], proposed: Mapping[str, ColumnProposal]
) -> tuple[Family, ...]:
    """Select the families of which at least two columns are compared, with those columns."""
    measured = [
        Family(one.name, tuple(name for name in one.columns if proposed[name].feature.is_compared))
        for one in families
    ]
    return tuple(family for family in measured if len(family.columns) > 1)


def _family_note(family: Family) -> ColumnNote:
    text = (
        f"{len(family.columns)} columns that together say one thing, {family.name!r}: two decisions"
        " are similar if all of them are the same."
    )
    return ColumnNote("family", family.columns, text)
