"""A rule for a table from beginning to end: proposed, tried, loosened where it compares nothing.

It is written as TOML that `Rule.from_toml` reads, with a reason beside each line.

Invariant: what is said of the trial is said of the rule that is written. Without its comments the
text is the rule; nothing from the data leaves its comment, and a terminal obeys nothing in it.
Cost: one look at every value, then what a trial costs (loosening.py).
"""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.errors import BadDecision
from likewise.proposing.column_notes import ColumnNote
from likewise.proposing.loosening import ROWS, LoosenedRule, loosen_rule
from likewise.proposing.output_column import favourable_of, truth_note
from likewise.proposing.people_columns import notes_on_people, protected_by_name
from likewise.proposing.profile import Profile
from likewise.proposing.proposal import Proposal, propose_from
from likewise.rule.feature import Feature, to_plain_value
from likewise.rule.rule import Rule, toml_value
from likewise.tables.frames import is_missing, table_columns
from likewise.tables.printing import escape_unprintable

_VALUES = 5
_WIDTH = 40
_LINE = 100
_BEYOND_ASCII = re.compile(r"[^\n -~]")

_HEAD = """\
# When are two decisions of {name} alike, and when do they differ?
# Proposed by `likewise init` from {rows:,} rows. It knows the values and the names of columns, not
# what they mean: read every line, and change what is not meant.
#
#   kind = "number"     near within the tolerance: 5, or "10%"
#   kind = "ordinal"    near within `tolerance` steps of `order = ["low", "middle", "high"]`
#   kind = "category"   must be the same
#   kind = "protected"  no part in likeness; violations are counted by it
#   kind = "person"     who it is about: decisions about one person are never compared
#   kind = "key"        your own name for a decision, unique
#   kind = "ignore"     not looked at
#   missing = "reject" refuses a decision without a value, "mismatch" makes that a value of its own,
#   "match" makes it near everything.
{tried}
metric = {metric}  # "linf": near in every column; "l1" or "l2": differences add up
"""


@dataclass(frozen=True)
class ProposedRule:
    """A rule, its text with comments, and what was noticed on the way."""

    rule: Rule
    text: str
    notes: tuple[ColumnNote, ...]
    loosened: LoosenedRule | None
    """None if the rule could not be tried; then a note says why."""


def propose_and_try(
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
    notes = [ColumnNote("output", tuple(outputs), said)] if said else []
    notes += [*notes_on_people(proposal.features, profiles), *proposal.notes]
    reasons = dict(proposal.reasons)
    tried = None
    try:
        tried = _try_rule(rule, table, proposal, profiles, outputs)
    except BadDecision as error:
        notes.append(ColumnNote("output", tuple(outputs), f"The rule could not be tried: {error}"))
    else:
        rule = tried.rule
        notes += tried.notes
        for column, steps in tried.widened.items():
            reasons[column] += "; then a step wider" if steps == 1 else "; then two steps wider"
    text = _write_toml(
        rule,
        profiles,
        name=name,
        notes=notes,
        reasons=reasons,
        delta_reason=proposal.delta_reason,
        tried=tried.sentences() if tried else (),
    )
    return ProposedRule(rule, text, tuple(notes), tried)


def _try_rule(
    rule: Rule,
    table: Any,
    proposal: Proposal,
    profiles: dict[str, Profile],
    outputs: Sequence[str],
) -> LoosenedRule:
    """The rule tried on the first rows that have an output."""
    known = [
        i
        for i in range(min(len(table), ROWS))
        if not any(is_missing(profiles[name].values[i]) for name in outputs)
    ]
    complete = len(known) == min(len(table), ROWS)
    some = table[:ROWS] if complete else _rows(table, known)
    return loosen_rule(rule, some, table_columns(some), proposal.families, profiles)


def _rows(table: Any, rows: Sequence[int]) -> Any:
    return [table[i] for i in rows] if isinstance(table, list) else table[list(rows)]


# As text


def _write_toml(
    rule: Rule,
    profiles: Mapping[str, Profile],
    *,
    name: str,
    notes: Sequence[ColumnNote],
    reasons: Mapping[str, str],
    delta_reason: str,
    tried: Sequence[str],
) -> str:
    """The rule as TOML with comments.

    notes: on columns, and on the output
    reasons: by column, where its tolerance comes from
    tried: what came out when the rule was tried, in sentences
    """
    rows = len(next(iter(profiles.values())))
    told = "".join(f"#\n{_comment(one)}\n" for one in tried)
    metric = toml_value(rule.metric)
    parts = [_HEAD.format(name=_format_value(name), rows=rows, metric=metric, tried=told)]
    parts.append(_output(rule, profiles, notes, delta_reason))
    for column, feature in (rule.features or {}).items():
        assert isinstance(feature, Feature)
        lines = [f"[features.{_key(column)}]", *_notes(column, feature.kind, notes)]
        lines += _settings(feature, profiles[column], reasons.get(column, ""))
        parts.append("\n".join(lines) + "\n")
    return _BEYOND_ASCII.sub(_escape_character, "\n".join(parts))


def _comment(text: str) -> str:
    """Text as lines of a comment."""
    return "\n".join(
        textwrap.wrap(
            escape_unprintable(text), _LINE - 2, initial_indent="# ", subsequent_indent="# "
        )
    )


def _notes(column: str, kind: str, notes: Sequence[ColumnNote]) -> list[str]:
    """The notes on a column; one on several columns stands at the first of them."""
    lines = []
    for note in notes:
        by_kind = note.about == "protected" and len(note.columns) == 1  # said beside it
        if note.about == "output" or column not in note.columns or by_kind:
            continue
        if note.columns[0] == column and (note.about != "loosened" or kind == "ignore"):
            lines.append(_comment(note.text))
        elif note.about == "loosened" and kind == "ignore":
            lines.append(_comment(f"Left out as {note.columns[0]!r} was: see there."))
    return lines


def _escape_character(match: re.Match[str]) -> str:
    """A character; one that cannot be printed as TOML writes it in a string."""
    code = ord(match[0])
    if match[0].isprintable():
        return match[0]
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _output(
    rule: Rule, profiles: Mapping[str, Profile], notes: Sequence[ColumnNote], delta_reason: str
) -> str:
    columns = rule.output_columns
    value = columns[0] if len(columns) == 1 else list(columns)
    seen = _describe_values(profiles[columns[0]]) if len(columns) == 1 else "probabilities"
    lines = [
        "[output]",
        *(_comment(note.text) for note in notes if note.about == "output"),
        f"column = {toml_value(value)}  # {seen}",
        f"kind = {toml_value(rule.output)}"
        '  # "label": the same or not; "number": apart by more than delta',
    ]
    if rule.output == "label":
        hidden = "# " if rule.favourable is None else ""
        good = _some_value(profiles[columns[0]]) if rule.favourable is None else rule.favourable
        why = "a guess: what everyone wants; needed to count who lost"
        lines.append(f"{hidden}favourable = {_one_line(good)}  # {why}")
    else:
        lines += [_comment(f"delta: {delta_reason}."), f"delta = {_figure_in_toml(rule.delta)}"]
        if rule.output == "number":
            lines.append('# favourable = "high"  # or "low"; needed to count who lost')
    return "\n".join(lines) + "\n"


def _settings(feature: Feature, profile: Profile, reason: str) -> list[str]:
    seen = _describe_values(profile)
    why = {
        "protected": f"by its name; {seen}",
        "key": "",
        "ignore": "",
    }.get(feature.kind, seen)
    lines = []
    for setting, value in feature.to_dict().items():
        comment = {"kind": why, "missing": _describe_missing(profile), "tolerance": reason}.get(
            setting, ""
        )
        written = _figure_in_toml(value) if isinstance(value, float) else toml_value(value)
        lines.append(f"{setting} = {written}" + (f"  # {comment}" if comment else ""))
    return lines


def _figure_in_toml(value: float) -> str:
    whole = value.is_integer() and value < 1e15
    return toml_value(int(value) if whole else value)


def _key(column: str) -> str:
    """A column's name, bare where TOML lets it be."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column)
    return column if bare else toml_value(column)


def _some_value(profile: Profile) -> Any:
    return max(map(to_plain_value, profile.different), key=str, default="")


def _one_line(value: Any) -> str:
    written = toml_value(value)
    return written if written.isprintable() and len(written) <= 2 * _WIDTH else '"…"'


def _describe_values(profile: Profile) -> str:
    different = profile.different
    if not different:
        return "no values"
    if profile.numeric and len(different) > _VALUES:
        return f"from {_figure(min(different))} to {_figure(max(different))}"
    ordered = sorted(different, key=str)
    listed = ", ".join(_format_value(one) for one in ordered[:_VALUES])
    count = len(different)
    return f"{count:,} value{'s' * (count != 1)}: {listed}{', …' * (count > _VALUES)}"


def _figure(number: float) -> str:
    try:
        return f"{float(number):.6g}"
    except OverflowError:
        return "beyond 1e308"


def _describe_missing(profile: Profile) -> str:
    count = sum(map(is_missing, profile.values))
    return f"{count:,} of {len(profile):,} have no value: near each other, and nothing else"


def _format_value(value: Any) -> str:
    """A value for a comment, on one line whatever it holds."""
    text = str(value)
    text = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
    return text if text.isprintable() else json.dumps(text)
