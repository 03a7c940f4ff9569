"""Proposes, tries and, if it compares nothing, loosens a rule; and writes it as commented TOML.

Names tell which columns are protected. Age is protected in some places and a reason in others; a
district, a surname or a language may stand for a protected group: those only get a note.

Invariant: the trial is of the rule that is written. Without its comments the text is the rule;
nothing from the data gets out of a comment, and no control character reaches a terminal. The
columns of a one-hot family are protected together or not at all.
Cost: one look at every value, then what a trial costs (loosening.py).
"""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.errors import BadDecision
from likewise.proposing import column_names
from likewise.proposing.loosening import ROWS, LoosenedRule, loosen_rule
from likewise.proposing.output_column import favourable_of, truth_note
from likewise.proposing.profile import ColumnNote, Profile
from likewise.proposing.proposal import Proposal, propose_features
from likewise.proposing.tolerances import families_of
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule, toml_value
from likewise.tables.frames import is_missing, table_columns
from likewise.tables.printing import escape_unprintable
from likewise.tables.setting_checks import to_plain_value

_VALUES = 5  # values of a column in a comment
_WIDTH = 40  # characters of a value
_LINE = 100
_BEYOND_ASCII = re.compile(r"[^\n -~]")

_HEAD = """\
# When are two decisions of {name} similar, and when do they differ?
# Proposed by `likewise init` from {rows:,} rows. It knows the values and the names of columns, not
# what they mean: read every line, and correct what is wrong.
#
#   kind = "number"     near within the tolerance: 5, or "10%"
#   kind = "ordinal"    near within `tolerance` steps of `order = ["low", "middle", "high"]`
#   kind = "category"   must be the same
#   kind = "protected"  not compared; violations are counted by it
#   kind = "person"     who it is about: decisions about one person are never compared
#   kind = "key"        identifies a decision: unique
#   kind = "ignore"     ignored
#   missing = "reject" refuses a decision without a value, "mismatch" makes that a value of its own,
#   "match" makes it near everything.
{tried}
metric = {metric}  # "linf": near in every column; "l1" or "l2": differences add up
"""


@dataclass(frozen=True)
class ProposedRule:
    """Holds a rule, its text with comments, and notes on columns."""

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
    """Propose a rule for a table, and try it.

    about_output: a note on how the output was chosen
    """
    titles = _name_inputs(profiles, outputs)
    protected = [name for name, title in titles.items() if column_names.is_protected(title)]
    proposal = propose_features(profiles, outputs, protected)
    label = proposal.output == "label"
    rule = proposal.to_rule(favourable_of(profiles[outputs[0]]) if label else None)
    about_output = about_output or truth_note(outputs[0]) or ""
    notes = [ColumnNote("output", tuple(outputs), about_output)] if about_output else []
    notes += [*_notes_on_people(proposal.features, titles), *proposal.notes]
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
    results = tried.sentences() if tried else ()
    text = _write_toml(rule, profiles, name, notes, reasons, proposal.delta_reason, results)
    return ProposedRule(rule, text, tuple(notes), tried)


def _try_rule(
    rule: Rule, table: Any, proposal: Proposal, profiles: dict[str, Profile], outputs: Sequence[str]
) -> LoosenedRule:
    """Try the rule on the first rows that have an output."""
    first = table[:ROWS]
    rows = [
        i
        for i in range(len(first))
        if not any(is_missing(profiles[name].values[i]) for name in outputs)
    ]
    if len(rows) < len(first):
        first = [table[i] for i in rows] if isinstance(table, list) else table[rows]
    return loosen_rule(rule, first, table_columns(first), proposal.families, profiles)


# Columns about people

_AGE = 'Age is protected in some places and for some decisions: then kind = "protected" alone.'
_PROXY = (
    "It may stand for a protected group (a proxy). Ask whether it is a reason for another answer;"
    ' if not: kind = "ignore".'
)


def _name_inputs(profiles: Mapping[str, Profile], outputs: Sequence[str]) -> dict[str, str]:
    """Return for each input its name, or that of its family."""
    inputs = {name: one for name, one in profiles.items() if name not in outputs and one.comparable}
    family_of = {name: family.name for family in families_of(inputs) for name in family.columns}
    return {name: family_of.get(name, name) for name in inputs}


def _notes_on_people(
    features: Mapping[str, Feature], titles: Mapping[str, str]
) -> list[ColumnNote]:
    """Return a note for each column, or family, that is about a group of people."""
    columns_by_name: dict[str, list[str]] = {}
    for name, title in titles.items():
        columns_by_name.setdefault(title, []).append(name)
    notes = []
    for name, columns in columns_by_name.items():
        kinds = {features[one].kind for one in columns}
        if kinds == {"protected"}:
            many = f"{len(columns)} columns that together say one thing, {name!r}."
            single = len(columns) == 1
            text = "Protected, by its name." if single else f"Protected, by their name: {many}"
            notes.append(ColumnNote("protected", tuple(columns), text))
        elif column_names.is_age(name) and not column_names.is_identifier(name):
            notes.append(ColumnNote("age", tuple(columns), _AGE))
        elif column_names.is_proxy(name) and any(features[one].is_compared for one in columns):
            notes.append(ColumnNote("proxy", tuple(columns), _PROXY))
    return notes


# As text


def _write_toml(
    rule: Rule,
    profiles: Mapping[str, Profile],
    name: str,
    notes: Sequence[ColumnNote],
    reasons: Mapping[str, str],
    delta_reason: str,
    tried: Sequence[str],
) -> str:
    """Write the rule as TOML with comments.

    notes    on columns, and on the output
    reasons  by column, where its tolerance comes from
    tried    the results of the trial, in sentences
    """
    rows = len(next(iter(profiles.values())))
    results = "".join(f"#\n{_comment(one)}\n" for one in tried)
    metric = toml_value(rule.metric)
    parts = [_HEAD.format(name=_format_value(name), rows=rows, metric=metric, tried=results)]
    parts.append(_output(rule, profiles, notes, delta_reason))
    for column, feature in (rule.features or {}).items():
        assert isinstance(feature, Feature)
        lines = [f"[features.{_key(column)}]", *_notes(column, feature.kind, notes)]
        lines += _settings(feature, profiles[column], reasons.get(column, ""))
        parts.append("\n".join(lines) + "\n")
    return _BEYOND_ASCII.sub(_escape_character, "\n".join(parts))


def _comment(text: str) -> str:
    """Wrap a text into lines of a comment."""
    return textwrap.fill(
        escape_unprintable(text), _LINE - 2, initial_indent="# ", subsequent_indent="# "
    )


def _notes(column: str, kind: str, notes: Sequence[ColumnNote]) -> list[str]:
    """Write the notes on a column; a note on several columns stands at the first of them."""
    lines = []
    for note in notes:
        by_kind = note.about == "protected" and len(note.columns) == 1  # said beside it
        if note.about == "output" or column not in note.columns or by_kind:
            continue
        if note.columns[0] == column and (note.about != "loosened" or kind == "ignore"):
            lines.append(_comment(note.text))
        elif note.about == "loosened" and kind == "ignore":
            lines.append(_comment(f"Left out for the same reason as {note.columns[0]!r}."))
    return lines


def _escape_character(match: re.Match[str]) -> str:
    """Escape a character as in a TOML string if it cannot be printed."""
    code = ord(match[0])
    if match[0].isprintable():
        return match[0]
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _output(
    rule: Rule, profiles: Mapping[str, Profile], notes: Sequence[ColumnNote], delta_reason: str
) -> str:
    columns = rule.output_columns
    value = columns[0] if len(columns) == 1 else list(columns)
    values = _describe_values(profiles[columns[0]]) if len(columns) == 1 else "probabilities"
    lines = [
        "[output]",
        *(_comment(note.text) for note in notes if note.about == "output"),
        f"column = {toml_value(value)}  # {values}",
        f"kind = {toml_value(rule.output)}"
        '  # "label": the same or not; "number": apart by more than delta',
    ]
    if rule.output == "label":
        hidden = "# " if rule.favourable is None else ""
        good = rule.favourable
        if good is None:  # any value, as an example
            good = max(map(to_plain_value, profiles[columns[0]].different), key=str, default="")
        why = "a guess: what everyone wants; needed to count who lost"
        lines.append(f"{hidden}favourable = {_one_line(good)}  # {why}")
    else:
        lines += [_comment(f"delta: {delta_reason}."), f"delta = {_figure_in_toml(rule.delta)}"]
        if rule.output == "number":
            lines.append('# favourable = "high"  # or "low"; needed to count who lost')
    return "\n".join(lines) + "\n"


def _settings(feature: Feature, profile: Profile, reason: str) -> list[str]:
    values = _describe_values(profile)
    why = {"protected": f"by its name; {values}", "key": "", "ignore": ""}.get(feature.kind, values)
    comments = {"kind": why, "missing": _describe_missing(profile), "tolerance": reason}
    lines = []
    for setting, value in feature.to_dict().items():
        comment = comments.get(setting, "")
        written = _figure_in_toml(value) if isinstance(value, float) else toml_value(value)
        lines.append(f"{setting} = {written}" + (f"  # {comment}" if comment else ""))
    return lines


def _figure_in_toml(value: float) -> str:
    whole = value.is_integer() and value < 1e15
    return toml_value(int(value) if whole else value)


def _key(column: str) -> str:
    """Write a column's name as a TOML key, bare if possible."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column)
    return column if bare else toml_value(column)


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
    """Format a value for a comment, on one line whatever it holds."""
    text = str(value)
    text = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
    return text if text.isprintable() else json.dumps(text)
