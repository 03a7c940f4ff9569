"""Proposes, tries and, if it compares nothing, loosens a rule; and writes it as commented TOML.

Names tell which columns are protected. Age is protected in some places and a reason in others; a
district, a surname or a language may stand for a protected group: those only get a note.

Invariant: the trial is of the rule that is written. Without its comments the text is the rule;
nothing from the data gets out of a comment, and no control character reaches a terminal. The
columns of a one-hot family are protected together or not at all.
Cost: one look at every value, then what a trial costs (loosening.py).
"""

import json
import os
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from likewise.errors import BadDecision, BadRule, BadTable
from likewise.proposing import column_names
from likewise.proposing.loosening import ROWS, LoosenedRule, loosen_rule
from likewise.proposing.output_column import candidates, favourable_of, guess_output, truth_note
from likewise.proposing.profile import SAMPLE_ROWS, ColumnNote, Profile, profiles_of
from likewise.proposing.proposal import UntriedProposal, propose_features
from likewise.proposing.tolerances import families_of
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule, toml_value
from likewise.tables.frames import ColumnTable, is_missing, table_columns
from likewise.tables.known_names import did_you_mean
from likewise.tables.printing import escape_unprintable
from likewise.tables.setting_checks import to_plain_value
from likewise.verdict.html import render_in_notebook

if TYPE_CHECKING:
    from likewise.sources.remarks import Remark

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


_NAMES = 6  # of columns in a line


@dataclass(frozen=True, repr=False)
class Proposal:
    """Holds a proposed rule, to be read and corrected by someone who knows what columns mean."""

    rule: Rule
    text: str
    """The rule as TOML, with comments."""
    notes: tuple[ColumnNote, ...]
    """What to check, column by column."""
    loosened: LoosenedRule | None
    """The trial of the rule; None if it was not, or could not be, tried; then a note says why."""
    reading: "tuple[Remark, ...]" = ()
    """Remarks on how a file was read."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to check, in sentences; columns with the same note are in one."""
        columns_by_text: dict[str, list[str]] = {}
        for note in self.notes:
            columns_by_text.setdefault(note.text, []).extend(note.columns)
        return tuple(f"{_join_few(names)}: {text}" for text, names in columns_by_text.items())

    @property
    def trial(self) -> tuple[str, ...]:
        """What the rule found on the first rows, in sentences."""
        return () if self.loosened is None else tuple(self.loosened.sentences())

    @property
    def overview(self) -> tuple[str, ...]:
        """Which columns are compared, protected, not compared, and the output."""
        features = self.rule.features or {}
        lines = []
        for words, kinds in (
            ("columns compared", ("number", "ordinal", "category")),
            ("protected, by their names", ("protected",)),
            ("not compared", ("ignore", "key")),
        ):
            names = [name for name, feature in features.items() if feature.kind in kinds]
            lines.append(f"{words}: {len(names):,}" + (f" ({_join_few(names)})" if names else ""))
        return (*lines, f"the output: {_join_few(self.rule.output_columns)}")

    def to_toml(self) -> str:
        """Return the rule as TOML, with comments on what is a guess."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return what `likewise init --json` prints: plain values for JSON."""
        rule = self.rule
        return {
            "output_column": rule.output_column,
            "output": rule.output,
            "delta": rule.delta,
            "kinds": {name: feature.kind for name, feature in (rule.features or {}).items()},
            "notes": [note.to_dict() for note in self.notes],
            "trial": self.loosened and self.loosened.to_dict(),
            "rule": self.text,
            "remarks": [remark.to_dict() for remark in self.reading],
        }

    def __str__(self) -> str:
        check = ("", "Check these:", *(f"  {one}" for one in self.remarks)) if self.notes else ()
        return "\n".join([*self.overview, *check, *(("", *self.trial) if self.trial else ())])

    def __repr__(self) -> str:
        rule = self.rule
        compared = sum(one.is_compared for one in (rule.features or {}).values())
        outputs = _join_few(rule.output_columns)
        return f"<Proposal: {compared:,} columns compared, output {outputs}; .rule has the rule>"

    def _repr_html_(self) -> str | None:
        return render_in_notebook("proposing/proposal.html", proposal=self)


def _join_few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + ", …" * (len(names) > _NAMES)


def propose_rule(
    data: Any,
    *,
    output: str | Sequence[str] | None = None,
    protected: str | Sequence[str] | None = None,
    trial: bool = True,
    **reading: Any,
) -> Proposal:
    """Propose a first rule for a table or a file, as `likewise init` does: see `.rule`.

    output     the column of the output, several for probabilities; guessed by names unless given
    protected  protected columns; known by their names unless given
    trial      whether to try the rule, and to loosen it if it compares hardly anything
    reading    how a file is read: format, delimiter, missing, decimal, encoding, header, sheet

    Columns that are no inputs are left out: times, truths, scores, identifiers, constants, text
    that hardly repeats, and what gives the output away; `.remarks` say so.
    """
    name, remarks = "the table", cast("tuple[Remark, ...]", ())
    if isinstance(data, str | os.PathLike):
        from likewise.proposing.first_rows import read_sample
        from likewise.sources.file_source import open_source

        with closing(open_source(os.fspath(data), **reading)) as source:
            sample = read_sample(source)
        name, data, remarks = sample.name, sample.table, sample.remarks
    elif reading:
        raise BadRule(f"{', '.join(reading)}: settings for reading a file; expected its path")
    columns = table_columns(data)
    about_output, profiles = (
        "",
        profiles_of({name: one[:SAMPLE_ROWS] for name, one in columns.items()}),
    )
    outputs, named = _list_names(output), _list_names(protected)
    check_named(name, [*outputs, *named], profiles)
    if not outputs:
        guess = guess_output(profiles)
        if guess is None:
            likely = ", ".join(map(repr, candidates(profiles))) or "none of them"
            raise BadRule(
                f"which column of {name} is the output, what was decided? The names do not tell;"
                f" expected output=… By their values it may be {likely}; the columns are"
                f" {', '.join(map(repr, profiles))}."
            )
        outputs, about_output = [guess.column], guess.note
    proposal = propose_and_try(
        profiles, outputs, name, about_output, None if protected is None else named, trial=trial
    )
    return replace(proposal, reading=tuple(remarks))


def _list_names(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def check_named(table: str, names: Iterable[str], columns: Collection[str]) -> None:
    """Raise BadTable if one of the names is no column of the table."""
    for name in names:
        if name not in columns:
            listed = ", ".join(map(repr, columns))
            meant = did_you_mean(name, columns) or "."
            text = f"{table} has no column {name!r}; it has {listed}{meant}"
            raise BadTable(text, path=table, columns=[name])


def propose_and_try(
    profiles: dict[str, Profile],
    outputs: Sequence[str],
    name: str,
    about_output: str = "",
    protected: Sequence[str] | None = None,
    *,
    trial: bool = True,
) -> Proposal:
    """Propose a rule for the columns of a table, and try it.

    name          what the table is called
    about_output  a note on how the output was chosen
    protected     protected columns; None: by their names
    """
    titles = _name_inputs(profiles, outputs)
    if protected is None:
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
        tried = _try_rule(rule, proposal, profiles, outputs) if trial else None
    except BadDecision as error:
        notes.append(ColumnNote("output", tuple(outputs), f"The rule could not be tried: {error}"))
    if tried is not None:
        rule = tried.rule
        notes += tried.notes
        for column, steps in tried.widened.items():
            reasons[column] += "; then a step wider" if steps == 1 else "; then two steps wider"
    results = tried.sentences() if tried else ()
    text = _write_toml(rule, profiles, name, notes, reasons, proposal.delta_reason, results)
    return Proposal(rule, text, tuple(notes), tried)


def _try_rule(
    rule: Rule,
    proposal: UntriedProposal,
    profiles: Mapping[str, Profile],
    outputs: Sequence[str],
) -> LoosenedRule:
    """Try the rule on the first rows that have an output."""
    table = ColumnTable({name: one.values[:ROWS] for name, one in profiles.items()})
    answers = [table.columns[name] for name in outputs]
    rows = [i for i in range(len(table)) if not any(is_missing(one[i]) for one in answers)]
    first = table if len(rows) == len(table) else table.take(rows)
    return loosen_rule(rule, first, first.columns, proposal.families, profiles)


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
