"""Renders contradicting pairs: all of them in a table, and each side by side in a card.

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

_OPEN = 6  # pairs that are shown at once; the rest is folded away
_GLANCE = 3  # with at least as many pairs there is a table of them


def pair_cards(worst: Sequence[WorstPair], rule: Rule, name: str = "pair") -> str:
    """Render all pairs as cards; those after the first few are folded away.

    name: with a number behind it, the anchor of a card; unique on a page
    """
    cards = [
        pair_card(one.pair, rule, later=one.later, earlier=one.earlier, anchor=f"{name}-{number}")
        for number, one in enumerate(worst, 1)
    ]
    glance = _glance(worst, rule) if len(worst) >= _GLANCE else None
    return render("reports/cards.html", cards=cards, open=_OPEN, glance=glance, name=name)


def _glance(worst: Sequence[WorstPair], rule: Rule) -> dict[str, Any]:
    """Return one line for each pair: places, times, and values in some columns."""
    columns = (*worst[0].pair.outputs, *protected_columns(rule))
    lines = [one.later and one.later.place for one in worst]
    unit = (worst[0].later and worst[0].later.unit) or "row"
    times = any(one.later and one.later.time for one in worst)
    unit = unit if all(line is not None for line in lines) else "row"
    heads = ["pair", f"earlier {unit}", f"later {unit}"]
    heads += ["earlier time (UTC)", "later time (UTC)"] if times else []
    rows = []
    for one in worst:
        pair, cells = one.pair, []
        for where, row in ((one.earlier, pair.witness.row), (one.later, pair.row)):
            place = where.place if where is not None and where.place is not None else row
            cells.append(f"{place:,}")
        if times:
            cells += [(at and at.time) or "–" for at in (one.earlier, one.later)]
        changes = [_change(pair, name, rule) for name in columns]
        rows.append((cells, changes, pair.witness.input_distance))
    return {"heads": heads, "columns": columns, "rows": rows}


def _change(pair: Pair, name: str, rule: Rule) -> tuple[str, str]:
    """Return the values of a column of the earlier and the later decision."""
    return display_both(
        *(label_value(rule, name, one) for one in (pair.other[name], pair.mine[name]))
    )
