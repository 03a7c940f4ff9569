"""Contradicting pairs: all at a glance in a table, and side by side in cards.

Not here: the card of one pair (explaining/pair_card.py).
"""

from collections.abc import Sequence
from typing import Any

from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.pair_card import label_value, pair_card
from likewise.reports.selected_pairs import WorstPair
from likewise.rule.rule import Rule
from likewise.verdict.html import display_both, render
from likewise.verdict.side_by_side import Pair

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
    glance = _glance(worst, rule) if len(worst) >= _GLANCE else None
    return render("reports/cards.html", cards=cards, open=_OPEN, glance=glance, name=name)


def _glance(worst: Sequence[WorstPair], rule: Rule) -> dict[str, Any]:
    """One line for each pair: where the two are and when, and what they are in some columns."""
    columns = (*worst[0].pair.outputs, *protected_columns(rule))
    lines = [one.later and one.later.place for one in worst]
    unit = (worst[0].later and worst[0].later.unit) or "row"
    times = any(one.later and one.later.time for one in worst)
    place = unit if all(line is not None for line in lines) else "row"
    heads = ["pair", f"earlier {place}", f"later {place}"]
    heads += ["earlier time (UTC)", "later time (UTC)"] if times else []
    rows = []
    for one in worst:
        pair, cells = one.pair, []
        for where, row in ((one.earlier, pair.witness.row), (one.later, pair.row)):
            known = where.place if where is not None and where.place is not None else row
            cells.append(f"{known:,}")
        if times:
            cells += [(at and at.time) or "–" for at in (one.earlier, one.later)]
        changes = [_change(pair, name, rule) for name in columns]
        rows.append((cells, changes, pair.witness.input_distance))
    return {"heads": heads, "columns": columns, "rows": rows}


def _change(pair: Pair, name: str, rule: Rule) -> tuple[str, str]:
    """What a column is of the earlier and of the later one."""
    return display_both(
        *(label_value(rule, name, one) for one in (pair.other[name], pair.mine[name]))
    )
