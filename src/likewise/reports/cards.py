"""Contradicting pairs: all at a glance in a table, and side by side in cards.

In a card the earlier decision is on the left, and what differs is marked. What the rule ignores is
folded away.
"""

from collections.abc import Sequence
from typing import Any

from likewise.explaining.comparing import protected_columns
from likewise.explaining.side_by_side import Pair
from likewise.reports.document import folded
from likewise.reports.safe import both_shown, safe, safe_name, shown
from likewise.reports.words import figure, listed
from likewise.reports.worst import Whereabouts, WorstPair
from likewise.rules.feature import Feature
from likewise.rules.labels import named
from likewise.rules.rule import Rule

_OPEN = 6  # pairs that are shown at once; the rest on demand
_ALIKE = 8  # columns without a difference that are shown; the rest by name
_IGNORED = 40  # columns that the rule ignores, of which values are shown
_GLANCE = 3  # pairs, from which on there is a table of them


def pair_cards(worst: Sequence[WorstPair], rule: Rule, name: str = "pair") -> str:
    """All pairs as cards; those after the first few fold away.

    name: with a number behind it, what a card is called in links; unique on a page
    """
    cards = [_card(f"{name}-{number}", one, rule) for number, one in enumerate(worst, 1)]
    visible = f'<div class="pairs">{"".join(cards[:_OPEN])}</div>\n'
    if len(cards) > _OPEN:
        rest = f'<div class="pairs">{"".join(cards[_OPEN:])}</div>'
        many = f"{len(cards) - _OPEN} more pair{'s' * (len(cards) - _OPEN != 1)}"
        visible += folded(
            many, rest, f"Side by side, {many} can be seen in the page: not printed here."
        )
    return visible + (_glance(worst, rule, name) if len(worst) >= _GLANCE else "")


def _glance(worst: Sequence[WorstPair], rule: Rule, name: str) -> str:
    """One line for each pair."""
    protected = protected_columns(rule)
    outputs = worst[0].pair.outputs
    lines = [one.later and one.later.place for one in worst]
    unit = (worst[0].later and worst[0].later.unit) or "row"
    times = any(one.later and one.later.time for one in worst)
    place = unit if all(line is not None for line in lines) else "row"
    heads = ["pair", f"earlier {place}", f"later {place}"]
    heads += ["earlier time (UTC)", "later time (UTC)"] if times else []
    heads += [safe_name(name) for name in (*outputs, *protected)]
    heads += ["distance"]
    top = "".join(f'<th scope="col">{head}</th>' for head in heads)
    rows = []
    for number, one in enumerate(worst, 1):
        pair = one.pair
        cells = [f'<a href="#{name}-{number}">{number}</a>']
        for where, row in ((one.earlier, pair.witness.row), (one.later, pair.row)):
            known = where.place if where is not None and where.place is not None else row
            cells.append(f"{known:,}")
        if times:
            cells += [safe((at and at.time) or "–") for at in (one.earlier, one.later)]
        cells += [_change(pair, name, rule) for name in (*outputs, *protected)]
        cells.append(figure(float(f"{pair.witness.input_distance:.3g}")))
        labelled = "".join(
            f'<td data-label="{safe(_plain(head))}">{cell}</td>'
            for head, cell in zip(_labels(heads, outputs, protected), cells, strict=True)
        )
        rows.append(f'<tr data-card="{name}-{number}">{labelled}</tr>')
    return (
        f"<h3>All {len(worst)} in a table</h3>\n"
        '<div class="scroll glance" tabindex="0" role="region" aria-label="All pairs shown here">'
        f'<table class="sortable"><thead><tr>{top}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>\n"
    )


def _labels(heads: Sequence[str], outputs: Sequence[str], protected: Sequence[str]) -> list[str]:
    """The heads as plain text."""
    names = [*outputs, *protected]
    return [*heads[: len(heads) - len(names) - 1], *names, heads[-1]]


def _plain(head: str) -> str:
    return head if len(head) <= 60 else f"{head[:59]}…"


def _change(pair: Pair, name: str, rule: Rule) -> str:
    """What a column is of the earlier and of the later one."""
    mine, other = (_called(rule, name, one) for one in (pair.mine[name], pair.other[name]))
    texts = both_shown(other, mine)
    if texts[0] == texts[1]:
        return f"<bdi>{safe(texts[0], 60)}</bdi>"
    return f"<span><bdi>{safe(texts[0], 60)}</bdi> → <bdi>{safe(texts[1], 60)}</bdi></span>"


def _called(rule: Rule, name: str, value: Any) -> Any:
    """A value by its label, where the rule has one."""
    feature = (rule.features or {}).get(name)
    if feature is not None and feature.labels is not None and value is not None:
        return named(feature.labels, value)
    return value


def _card(anchor: str, worst: WorstPair, rule: Rule) -> str:
    pair = worst.pair
    features: dict[str, Feature] = dict(rule.features or {})
    keys = [name for name in pair.columns if name in features and features[name].kind == "key"]
    mine, other = ([side[name] for name in keys] for side in (pair.mine, pair.other))
    heads = [
        _head("earlier", pair.witness.row, other, worst.earlier, pair.models[1]),
        _head("later", pair.row, mine, worst.later, pair.models[0]),
    ]
    columns = [name for name in pair.columns if name not in keys]
    differ = [name for name in columns if name in pair.outputs or pair.differs(name)]
    alike = [name for name in columns if name not in differ]
    allowed = rule.epsilon if rule.metric == "linf" else 1.0  # tolerances in each column
    lines = [_line(pair, name, rule, allowed) for name in (*differ, *alike[:_ALIKE])]
    more = []
    if alike[_ALIKE:]:
        more.append(f"The same in both: {listed(alike[_ALIKE:], 30)}.")
    if worst.left_out:
        more.append(f"{worst.left_out:,} more coordinates differ less or not at all.")
    note = "".join(f'<p class="small">{safe(one, 600)}</p>' for one in more)
    return (
        f'<article class="pair" id="{anchor}"><h3>{_title(worst)}</h3>'
        f'<p class="small">{_distance(pair, rule)}</p>'
        f'<table><thead><tr><th scope="col"><span class="small">column</span></th>'
        f"{''.join(heads)}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>{note}{_ignored(worst)}</article>\n"
    )


def _title(worst: WorstPair) -> str:
    later, earlier, pair = worst.later, worst.earlier, worst.pair
    if later is None or earlier is None or later.place is None or earlier.place is None:
        return f"Row {pair.row:,} contradicts row {pair.witness.row:,}"
    unit = safe(later.unit)
    return f"{unit.capitalize()} {later.place:,} contradicts {unit} {earlier.place:,}"


def _head(
    when: str, row: int | None, keys: list[object], where: Whereabouts | None, model: str | None
) -> str:
    facts = [f"row {row:,}"]
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


def _ignored(worst: WorstPair) -> str:
    """The columns that the rule ignores, folded away."""
    if worst.later is None or worst.earlier is None or not worst.later.ignored:
        return ""
    both = list(zip(worst.earlier.ignored, worst.later.ignored, strict=True))
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


def _distance(pair: Pair, rule: Rule) -> str:
    apart = pair.witness.input_distance
    if apart == 0:
        return "The same in everything that counts."
    distance = figure(float(f"{apart:.3g}"))
    return f"At distance {distance}, where up to {figure(rule.epsilon)} counts as alike."


def _line(pair: Pair, name: str, rule: Rule, allowed: float) -> str:
    feature = (rule.features or {}).get(name)
    values = (_called(rule, name, one) for one in (pair.mine[name], pair.other[name]))
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
