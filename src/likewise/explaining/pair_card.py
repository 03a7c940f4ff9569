"""Render a pair as a card: two decisions side by side as HTML, for reports, pages and notebooks.

The earlier decision is on the left, differences are marked, ignored columns are folded away.
Invariant: the same pair gives the same card wherever it is shown (pair_card.html).
Not here: style sheets; the pair as text, or as a dictionary (verdict/side_by_side.py).
"""

from dataclasses import dataclass
from typing import Any

from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.rule.value_names import name_value
from likewise.tables.printing import format_number, join_names
from likewise.verdict.html import display_both, render
from likewise.verdict.side_by_side import Pair

_ALIKE = 8  # equal columns that are shown with values; the rest only by name


@dataclass(frozen=True)
class DecisionOrigin:
    """Says where a decision comes from, and what its file has that a monitor does not remember."""

    place: int | None = None
    """Its line in a text file, else its row, from 1."""
    unit: str = "line"
    time: str | None = None
    """When it was made, in UTC."""
    ignored: tuple[tuple[str, Any], ...] = ()
    """Columns of the file that the rule ignores, or does not know, with their values."""
    file: str | None = None
    """The file that it comes from, if there are several."""


def pair_card(
    pair: Pair,
    rule: Rule,
    *,
    later: DecisionOrigin | None = None,
    earlier: DecisionOrigin | None = None,
    anchor: str | None = None,
) -> str:
    """Render two decisions side by side as HTML.

    later, earlier   what else is known about the two
    anchor           the name of the card in links; unique on a page
    """
    features: dict[str, Feature] = dict(rule.features or {})
    keys = [name for name in pair.columns if name in features and features[name].kind == "key"]
    mine, other = ([side[name] for name in keys] for side in (pair.mine, pair.other))
    columns = [name for name in pair.columns if name not in keys]
    differ = [name for name in columns if name in pair.outputs or pair.differs(name)]
    alike = [name for name in columns if name not in differ]
    allowed = rule.epsilon if rule.metric == "linf" else 1.0  # tolerances in each column
    notes = []
    if alike[_ALIKE:]:
        notes.append(f"The same in both: {join_names(alike[_ALIKE:], 30)}.")
    if pair.hidden:
        notes.append(f"{pair.hidden:,} more coordinates differ less or not at all.")
    now = "later" if pair.row is not None else "now"
    return render(
        "explaining/pair_card.html",
        anchor=anchor,
        title=_title(pair, later, earlier),
        distance=_distance(pair, rule),
        heads=[
            _head("earlier", pair.witness.row, other, earlier, pair.models[1]),
            _head(now, pair.row, mine, later, pair.models[0]),
        ],
        lines=[_line(pair, name, rule, allowed) for name in (*differ, *alike[:_ALIKE])],
        notes=notes,
        ignored=_list_ignored(later, earlier),
    )


def label_value(rule: Rule, name: str, value: Any) -> Any:
    """Return the label of a value if the rule has one, else the value."""
    feature = (rule.features or {}).get(name)
    if feature is not None and feature.labels is not None and value is not None:
        return name_value(feature.labels, value)
    return value


def _title(pair: Pair, later: DecisionOrigin | None, earlier: DecisionOrigin | None) -> str:
    if later is None or earlier is None or later.place is None or earlier.place is None:
        mine = "This one" if pair.row is None else f"Row {pair.row:,}"
        return f"{mine} contradicts row {pair.witness.row:,}"
    unit = later.unit
    return f"{unit.capitalize()} {later.place:,} contradicts {unit} {earlier.place:,}"


def _head(
    when: str, row: int | None, keys: list[object], where: DecisionOrigin | None, model: str | None
) -> dict[str, Any]:
    place, file, time = "this one" if row is None else f"row {row:,}", None, None
    if where is not None and where.place is not None:
        place, file = f"{where.unit} {where.place:,}", where.file
    if where is not None and where.time is not None:
        day, _, rest = where.time.partition(" ")
        time = day, f"{rest} UTC".strip()
    return {
        "when": when,
        "place": place,
        "file": file,
        "keys": keys,
        "model": model,
        "time": time,
    }


def _list_ignored(
    later: DecisionOrigin | None, earlier: DecisionOrigin | None
) -> list[tuple[str, Any, Any]]:
    """List the columns that the rule ignores, with the values of the earlier and the later one."""
    if later is None or earlier is None:
        return []
    both = zip(earlier.ignored, later.ignored, strict=True) if later.ignored else ()
    return [(name, other, mine) for (name, other), (_, mine) in both]


def _distance(pair: Pair, rule: Rule) -> str:
    apart = pair.witness.input_distance
    if apart == 0:
        return "The same in everything that counts."
    distance = format_number(float(f"{apart:.3g}"))
    return f"At distance {distance}, where up to {format_number(rule.epsilon)} counts as alike."


def _line(pair: Pair, name: str, rule: Rule, allowed: float) -> dict[str, Any]:
    feature = (rule.features or {}).get(name)
    values = (label_value(rule, name, one) for one in (pair.mine[name], pair.other[name]))
    mine, other = display_both(*values)
    differs = pair.differs(name)
    kind = "output differs" if name in pair.outputs else "differs" if differs else "alike"
    note = ""
    if feature is not None and feature.kind in ("protected", "person"):
        note = feature.kind
    elif differs and 0 < pair.gaps.get(name, 0.0) < float("inf") and feature is not None:
        part = format_number(float(f"{100 * pair.gaps[name] / allowed:.2g}"))
        note = f"{part}% of the tolerance"
    return {
        "name": name,
        "kind": kind,
        "mark": differs and name not in pair.outputs,
        "note": note,
        "texts": (other, mine),
    }
