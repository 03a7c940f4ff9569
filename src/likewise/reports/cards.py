"""Contradicting pairs: all at a glance in a table, and side by side in cards.

Not here: the card of one pair (explaining/pair_card.py).
"""

from collections.abc import Sequence

from likewise.explaining.comparing import protected_columns
from likewise.explaining.pair_card import called, pair_card
from likewise.explaining.side_by_side import Pair
from likewise.reports.worst import WorstPair
from likewise.rules.rule import Rule
from likewise.values.printing import figure
from likewise.values.safe import both_shown, folded, safe, safe_name

_OPEN = 6  # pairs that are shown at once; the rest on demand
_GLANCE = 3  # pairs, from which on there is a table of them


def pair_cards(worst: Sequence[WorstPair], rule: Rule, name: str = "pair") -> str:
    """All pairs as cards; those after the first few fold away.

    name: with a number behind it, what a card is called in links; unique on a page
    """
    cards = [
        pair_card(one.pair, rule, later=one.later, earlier=one.earlier, anchor=f"{name}-{number}")
        for number, one in enumerate(worst, 1)
    ]
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
    mine, other = (called(rule, name, one) for one in (pair.mine[name], pair.other[name]))
    texts = both_shown(other, mine)
    if texts[0] == texts[1]:
        return f"<bdi>{safe(texts[0], 60)}</bdi>"
    return f"<span><bdi>{safe(texts[0], 60)}</bdi> → <bdi>{safe(texts[1], 60)}</bdi></span>"
