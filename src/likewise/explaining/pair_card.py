"""The card of a pair: two decisions side by side as HTML, for reports, pages and notebooks.

The earlier decision is on the left, and what differs is marked. What the rule ignores is folded
away. How a card looks is said by a style sheet: that of reports and pages, or `NOTEBOOK` here.

Invariant: the same pair gives the same card wherever it is shown. Every value is made safe.
Not here: the pair as text, or as a dictionary (side_by_side.py); many cards (reports/cards.py).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from likewise.rules.feature import Feature
from likewise.rules.labels import named
from likewise.rules.rule import Rule
from likewise.values.printing import figure, listed
from likewise.values.safe import both_shown, folded, safe, safe_name, shown

if TYPE_CHECKING:
    from likewise.explaining.side_by_side import Pair

_ALIKE = 8  # columns without a difference that are shown; the rest by name
_IGNORED = 40  # columns that the rule ignores, of which values are shown

NOTEBOOK = """<style>
.likewise-pairs .pair { margin: 0 0 1em; }
.likewise-pairs h3 { margin: .2em 0; font-size: 1em; }
.likewise-pairs .small, .likewise-pairs .gap { font-size: .85em; font-weight: 400; opacity: .75; }
.likewise-pairs .gap { display: block; }
.likewise-pairs th, .likewise-pairs td { text-align: left; vertical-align: top; }
.likewise-pairs tr.differs td, .likewise-pairs tr.differs th { font-weight: 700; }
.likewise-pairs .on-paper { display: none; }
</style>"""
"""What a notebook has to be told, which has no style sheet of ours."""


@dataclass(frozen=True)
class Whereabouts:
    """What is known of a decision beside what is remembered of it."""

    place: int | None = None
    """Its line in a text file, else its row, from 1."""
    unit: str = "line"
    time: str | None = None
    """When it was made, in UTC."""
    ignored: tuple[tuple[str, Any], ...] = ()
    """Columns of the file that the rule ignores, or does not know, with their values."""
    file: str | None = None
    """The file in which it stood, where there are several."""


def pair_card(
    pair: "Pair",
    rule: Rule,
    *,
    later: Whereabouts | None = None,
    earlier: Whereabouts | None = None,
    anchor: str | None = None,
) -> str:
    """Two decisions side by side.

    later, earlier   what else is known of the two
    anchor           what the card is called in links; unique on a page
    """
    features: dict[str, Feature] = dict(rule.features or {})
    keys = [name for name in pair.columns if name in features and features[name].kind == "key"]
    mine, other = ([side[name] for name in keys] for side in (pair.mine, pair.other))
    heads = [
        _head("earlier", pair.witness.row, other, earlier, pair.models[1]),
        _head("later" if pair.row is not None else "now", pair.row, mine, later, pair.models[0]),
    ]
    columns = [name for name in pair.columns if name not in keys]
    differ = [name for name in columns if name in pair.outputs or pair.differs(name)]
    alike = [name for name in columns if name not in differ]
    allowed = rule.epsilon if rule.metric == "linf" else 1.0  # tolerances in each column
    lines = [_line(pair, name, rule, allowed) for name in (*differ, *alike[:_ALIKE])]
    more = []
    if alike[_ALIKE:]:
        more.append(f"The same in both: {listed(alike[_ALIKE:], 30)}.")
    if pair.hidden:
        more.append(f"{pair.hidden:,} more coordinates differ less or not at all.")
    note = "".join(f'<p class="small">{safe(one, 600)}</p>' for one in more)
    name = "" if anchor is None else f' id="{anchor}"'
    return (
        f'<article class="pair"{name}><h3>{_title(pair, later, earlier)}</h3>'
        f'<p class="small">{_distance(pair, rule)}</p>'
        f'<table><thead><tr><th scope="col"><span class="small">column</span></th>'
        f"{''.join(heads)}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>{note}{_ignored(later, earlier)}</article>\n"
    )


def called(rule: Rule, name: str, value: Any) -> Any:
    """A value by its label, where the rule has one."""
    feature = (rule.features or {}).get(name)
    if feature is not None and feature.labels is not None and value is not None:
        return named(feature.labels, value)
    return value


def _title(pair: "Pair", later: Whereabouts | None, earlier: Whereabouts | None) -> str:
    if later is None or earlier is None or later.place is None or earlier.place is None:
        mine = "This one" if pair.row is None else f"Row {pair.row:,}"
        return f"{mine} contradicts row {pair.witness.row:,}"
    unit = safe(later.unit)
    return f"{unit.capitalize()} {later.place:,} contradicts {unit} {earlier.place:,}"


def _head(
    when: str, row: int | None, keys: list[object], where: Whereabouts | None, model: str | None
) -> str:
    facts = ["this one" if row is None else f"row {row:,}"]
    if where is not None and where.place is not None:
        facts = [f"{safe(where.unit)} {where.place:,}"]
        facts += [] if where.file is None else [f"of <bdi>{safe(where.file, 60)}</bdi>"]
    facts += [f"<bdi>{safe(one, 60)}</bdi>" for one in keys]
    facts += [] if model is None else [f"model <bdi>{safe(model, 60)}</bdi>"]
    if where is not None and where.time is not None:
        day, _, rest = where.time.partition(" ")
        facts.append(f'<span class="when">{safe(day)}</span> {safe(f"{rest} UTC".strip())}')
    small = "".join(f'<span class="gap">{one}</span>' for one in facts)
    return f'<th scope="col">{when}{small}</th>'


def _ignored(later: Whereabouts | None, earlier: Whereabouts | None) -> str:
    """The columns that the rule ignores, folded away."""
    if later is None or earlier is None or not later.ignored:
        return ""
    both = list(zip(earlier.ignored, later.ignored, strict=True))
    rows = []
    for (name, other), (_, mine) in both[:_IGNORED]:
        cells = "".join(f"<td><bdi>{safe(shown(one))}</bdi></td>" for one in (other, mine))
        kind = "ignored" if mine == other else "ignored apart"
        rows.append(f'<tr class="{kind}"><th scope="row">{safe_name(name)}</th>{cells}</tr>')
    many = len(both)
    words = "1 column that the rule ignores" if many == 1 else f"{many:,} columns ignored"
    rest = f'<p class="small">and {many - _IGNORED:,} more</p>' if many > _IGNORED else ""
    said = "column that the rule ignores is" if many == 1 else "columns that the rule ignores are"
    return folded(
        words,
        f'<table><thead><tr><th scope="col"><span class="small">column</span></th>'
        f'<th scope="col">earlier</th><th scope="col">later</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>{rest}",
        f"{many:,} {said} in the page and not printed.",
    )


def _distance(pair: "Pair", rule: Rule) -> str:
    apart = pair.witness.input_distance
    if apart == 0:
        return "The same in everything that counts."
    distance = figure(float(f"{apart:.3g}"))
    return f"At distance {distance}, where up to {figure(rule.epsilon)} counts as alike."


def _line(pair: "Pair", name: str, rule: Rule, allowed: float) -> str:
    feature = (rule.features or {}).get(name)
    values = (called(rule, name, one) for one in (pair.mine[name], pair.other[name]))
    mine, other = both_shown(*values)
    differs = pair.differs(name)
    kind = "output" if name in pair.outputs else "differs" if differs else "alike"
    note = ""
    if feature is not None and feature.kind in ("protected", "person"):
        note = f'<span class="gap">{feature.kind}</span>'
    elif differs and 0 < pair.gaps.get(name, 0.0) < float("inf") and feature is not None:
        part = figure(float(f"{100 * pair.gaps[name] / allowed:.2g}"))
        note = f'<span class="gap">{part}% of the tolerance</span>'
    mark = '<span aria-hidden="true">≠&nbsp;</span>' if differs and kind != "output" else ""
    cells = "".join(f"<td><bdi>{safe(one)}</bdi></td>" for one in (other, mine))
    return (
        f'<tr class="{kind}{" differs" * (kind == "output")}"><th scope="row">{mark}'
        f"{safe_name(name)}{note}</th>{cells}</tr>"
    )
