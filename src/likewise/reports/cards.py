"""Contradicting pairs side by side: the earlier decision on the left, what differs marked."""

from collections.abc import Sequence

from likewise.explaining.side_by_side import Pair
from likewise.reports.safe import both_shown, safe, safe_name
from likewise.reports.words import figure, listed
from likewise.reports.worst import WorstPair
from likewise.rules.feature import Feature
from likewise.rules.rule import Rule

_OPEN = 6  # pairs that are shown at once; the rest on demand
_ALIKE = 8  # columns without a difference that are shown; the rest by name


def pair_cards(worst: Sequence[WorstPair], rule: Rule) -> str:
    """All pairs as cards; those after the first few fold away."""
    cards = [_card(one, rule) for one in worst]
    shown = f'<div class="pairs">{"".join(cards[:_OPEN])}</div>'
    if len(cards) <= _OPEN:
        return shown
    rest = "".join(cards[_OPEN:])
    return (
        f"{shown}\n<details><summary>{len(cards) - _OPEN} more pairs</summary>"
        f'<div class="pairs">{rest}</div></details>'
    )


def _card(worst: WorstPair, rule: Rule) -> str:
    pair = worst.pair
    features: dict[str, Feature] = dict(rule.features or {})
    keys = [name for name in pair.columns if name in features and features[name].kind == "key"]
    heads = [
        _head("earlier", pair.witness.row, [pair.other[name] for name in keys]),
        _head("later", pair.row, [pair.mine[name] for name in keys]),
    ]
    columns = [name for name in pair.columns if name not in keys]
    differ = [name for name in columns if name in pair.outputs or pair.differs(name)]
    alike = [name for name in columns if name not in differ]
    allowed = rule.epsilon if rule.metric == "linf" else 1.0  # tolerances in each column
    lines = [_line(pair, name, features.get(name), allowed) for name in (*differ, *alike[:_ALIKE])]
    more = []
    if alike[_ALIKE:]:
        more.append(f"The same in both: {listed(alike[_ALIKE:], 30)}.")
    if worst.left_out:
        more.append(f"{worst.left_out:,} more coordinates differ less or not at all.")
    note = "".join(f'<p class="small">{safe(one, 600)}</p>' for one in more)
    return (
        f'<article class="pair"><h3>Row {pair.row:,} contradicts row {pair.witness.row:,}</h3>'
        f'<p class="small">{_distance(pair, rule)}</p>'
        f'<table><thead><tr><th scope="col"><span class="small">column</span></th>'
        f"{''.join(heads)}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>{note}</article>\n"
    )


def _head(when: str, row: int | None, keys: list[object]) -> str:
    key = "".join(f'<span class="gap"><bdi>{safe(one, 60)}</bdi></span>' for one in keys)
    return f'<th scope="col">{when}<span class="gap">row {row:,}</span>{key}</th>'


def _distance(pair: Pair, rule: Rule) -> str:
    apart = pair.witness.input_distance
    if apart == 0:
        return "The same in everything that counts."
    distance = figure(float(f"{apart:.3g}"))
    return f"At distance {distance}, where up to {figure(rule.epsilon)} counts as alike."


def _line(pair: Pair, name: str, feature: Feature | None, allowed: float) -> str:
    mine, other = both_shown(pair.mine[name], pair.other[name])
    differs = pair.differs(name)
    kind = "output" if name in pair.outputs else "differs" if differs else "alike"
    note = ""
    if feature is not None and feature.kind == "protected":
        note = '<span class="gap">protected</span>'
    elif differs and 0 < pair.gaps.get(name, 0.0) < float("inf") and feature is not None:
        part = figure(float(f"{100 * pair.gaps[name] / allowed:.2g}"))
        note = f'<span class="gap">{part}% of the tolerance</span>'
    mark = '<span aria-hidden="true">≠&nbsp;</span>' if differs and kind != "output" else ""
    cells = "".join(f"<td><bdi>{safe(one)}</bdi></td>" for one in (other, mine))
    return (
        f'<tr class="{kind}{" differs" * (kind == "output")}"><th scope="row">{mark}'
        f"{safe_name(name)}{note}</th>{cells}</tr>"
    )
