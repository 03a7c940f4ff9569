"""A proposed rule as text: TOML that `Rule.from_toml` reads, with a reason beside each line.

Invariant: without its comments the text is the rule; nothing from the data leaves its comment, and
a terminal obeys nothing in the text.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from likewise.rules.feature import Feature, plain
from likewise.rules.proposal import comparable
from likewise.rules.rule import Rule, toml_value
from likewise.values.frames import Column, is_missing, values_of

_VALUES = 5
_WIDTH = 40
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
#   kind = "key"        your own name for a decision, unique
#   kind = "ignore"     not looked at
#   missing = "reject" refuses a decision without a value, "mismatch" makes that a value of its own,
#   "match" makes it near everything.

metric = {metric}  # "linf": near in every column; "l1" or "l2": differences add up
"""


def commented(
    rule: Rule,
    columns: Mapping[str, Column],
    *,
    name: str,
    notes: Mapping[str, str],
) -> str:
    """The rule as TOML with comments; notes are on columns."""
    rows = len(next(iter(columns.values())))
    parts = [_HEAD.format(name=_shown(name), rows=rows, metric=toml_value(rule.metric))]
    parts.append(_output(rule, columns))
    for column, feature in (rule.features or {}).items():
        assert isinstance(feature, Feature)
        lines = [f"[features.{_key(column)}]"]
        if column in notes:
            lines.append(f"# {notes[column]}")
        lines += _settings(feature, columns[column])
        parts.append("\n".join(lines) + "\n")
    return _BEYOND_ASCII.sub(_escaped, "\n".join(parts))


def _escaped(match: re.Match[str]) -> str:
    """A character; one that cannot be printed as TOML writes it in a string."""
    code = ord(match[0])
    if match[0].isprintable():
        return match[0]
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _output(rule: Rule, columns: Mapping[str, Column]) -> str:
    given = rule.output_column or ""
    listed = [given] if isinstance(given, str) else list(given)
    value = given if isinstance(given, str) else list(given)
    seen = _seen(columns[listed[0]]) if len(listed) == 1 else "probabilities"
    lines = [
        "[output]",
        f"column = {toml_value(value)}  # {seen}",
        f"kind = {toml_value(rule.output)}"
        '  # "label": the same or not; "number": apart by more than delta',
    ]
    if rule.output == "label":
        hidden = "# " if rule.favourable is None else ""
        good = _some_value(columns[listed[0]]) if rule.favourable is None else rule.favourable
        why = "what everyone wants; needed to count who lost"
        lines.append(f"{hidden}favourable = {_one_line(good)}  # {why}")
    else:
        lines.append("delta = 0.0  # how far apart outputs still count as the same")
        if rule.output == "number":
            lines.append('# favourable = "high"  # or "low"; needed to count who lost')
    return "\n".join(lines) + "\n"


def _settings(feature: Feature, column: Column) -> list[str]:
    seen = _seen(column)
    why = {
        "protected": f"by its name; {seen}",
        "key": "every value is different",
        "ignore": "",
    }.get(feature.kind, seen)
    lines = []
    for setting, value in feature.to_dict().items():
        comment = {"kind": why, "missing": _missing(column)}.get(setting, "")
        if setting == "tolerance":
            comment = "near within this; a tenth of the usual spread"
        whole = isinstance(value, float) and value.is_integer() and value < 1e15
        written = toml_value(int(value) if whole else value)
        lines.append(f"{setting} = {written}" + (f"  # {comment}" if comment else ""))
    return lines


def _key(column: str) -> str:
    """A column's name, bare where TOML lets it be."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column)
    return column if bare else toml_value(column)


def _some_value(column: Column) -> Any:
    there = {plain(value) for value in values_of(column) if not is_missing(value)}
    return max(there, key=str, default="")


def _one_line(value: Any) -> str:
    written = toml_value(value)
    return written if written.isprintable() and len(written) <= 2 * _WIDTH else '"…"'


def _seen(column: Column) -> str:
    there = [value for value in values_of(column) if not is_missing(value)]
    if not there or not comparable(column):
        return "no values"
    different = set(there)
    numeric = all(isinstance(one, int | float) and not isinstance(one, bool) for one in different)
    if numeric and len(different) > _VALUES:
        return f"from {_figure(min(different))} to {_figure(max(different))}"
    ordered = sorted(different, key=str)
    listed = ", ".join(_shown(one) for one in ordered[:_VALUES])
    count = len(different)
    return f"{count:,} value{'s' * (count != 1)}: {listed}{', …' * (count > _VALUES)}"


def _figure(number: float) -> str:
    try:
        return f"{float(number):.6g}"
    except OverflowError:
        return "beyond 1e308"


def _missing(column: Column) -> str:
    count = sum(map(is_missing, values_of(column)))
    return f"{count:,} of {len(column):,} have no value: near each other, and nothing else"


def _shown(value: Any) -> str:
    """A value for a comment, on one line whatever it holds."""
    text = str(value)
    text = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
    plain = text.isprintable()
    return text if plain else json.dumps(text)
