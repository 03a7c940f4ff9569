"""A rule for a table from beginning to end: proposed, tried, loosened where it compares nothing.

Invariant: what is said of the trial is said of the rule that is written.
Cost: one look at every value, then what a trial costs (loosening.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from likewise.cli.loosening import ROWS, Loosened, loosened
from likewise.cli.proposing import commented
from likewise.cli.tried import Tried, tried_of
from likewise.rules.notes import Note
from likewise.rules.output_column import favourable_of, truth_note
from likewise.rules.people import notes_on_people, protected_by_name
from likewise.rules.profile import Profile
from likewise.rules.proposal import Proposal, propose_from
from likewise.rules.rule import Rule
from likewise.values.errors import BadDecision
from likewise.values.frames import is_missing, table_columns


@dataclass(frozen=True)
class ProposedRule:
    """A rule, its text with comments, and what was noticed on the way."""

    rule: Rule
    text: str
    notes: tuple[Note, ...]
    tried: Tried | None
    """None if the rule could not be tried; then a note says why."""


def propose_rule(
    table: Any,
    profiles: dict[str, Profile],
    outputs: Sequence[str],
    name: str,
    about_output: str = "",
) -> ProposedRule:
    """A rule for a table.

    about_output: what to say of how the output was chosen
    """
    protected = protected_by_name(profiles, outputs)
    proposal = propose_from(profiles, outputs, protected)
    output = outputs[0] if len(outputs) == 1 else list(outputs)
    label = proposal.output == "label"
    rule = Rule(
        features=proposal.features,
        output_column=output,
        output=proposal.output,
        delta=proposal.delta,
        favourable=favourable_of(profiles[outputs[0]]) if label else None,
    )
    said = about_output or truth_note(outputs[0]) or ""
    notes = [Note("output", tuple(outputs), said)] if said else []
    notes += [*notes_on_people(proposal.features, profiles), *proposal.notes]
    reasons = dict(proposal.reasons)
    tried = None
    try:
        found = _tried(rule, table, proposal, profiles, outputs)
    except BadDecision as error:
        notes.append(Note("output", tuple(outputs), f"The rule could not be tried: {error}"))
    else:
        rule, tried = found.rule, tried_of(found, len(table))
        notes += found.notes
        for column, steps in found.widened.items():
            reasons[column] += "; then a step wider" if steps == 1 else "; then two steps wider"
    text = commented(
        rule,
        profiles,
        name=name,
        notes=notes,
        reasons=reasons,
        delta_reason=proposal.delta_reason,
        tried=tried.sentences() if tried else (),
    )
    return ProposedRule(rule, text, tuple(notes), tried)


def _tried(
    rule: Rule,
    table: Any,
    proposal: Proposal,
    profiles: dict[str, Profile],
    outputs: Sequence[str],
) -> Loosened:
    """The rule tried on the first rows that have an output."""
    known = [
        i
        for i in range(min(len(table), ROWS))
        if not any(is_missing(profiles[name].values[i]) for name in outputs)
    ]
    complete = len(known) == min(len(table), ROWS)
    some = table[:ROWS] if complete else _rows(table, known)
    return loosened(rule, some, table_columns(some), proposal.families, profiles)


def _rows(table: Any, rows: Sequence[int]) -> Any:
    return [table[i] for i in rows] if isinstance(table, list) else table[list(rows)]
