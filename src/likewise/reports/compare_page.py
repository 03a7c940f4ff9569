"""Renders the comparison of two histories as one self-contained HTML document (compare_page.html).

Not here: words (compare_words.py), groups (group_section.py), pairs (document.py).
"""

import math
from typing import Any

from likewise.reports import charts
from likewise.reports.charts import line, text
from likewise.reports.compare_words import (
    INTERVALS,
    count_other_pairs,
    describe_agreement,
    describe_cut,
    describe_effect,
    describe_pairs,
    describe_test,
    name_side,
    share_interval,
    write_index,
    write_sign,
)
from likewise.reports.comparison import ComparedHistory, Comparison
from likewise.reports.document import document, pair_cards
from likewise.reports.finding_words import describe_time_limit
from likewise.reports.group_section import group_section, how_compared
from likewise.tables.printing import percent, shorten

_STEP, _TOP = 58, 24
_HEADS = (
    "history",
    "decisions",
    "had an earlier similar case",
    "of these contradict it",
    "share",
    "interval",
    "in a contradicting pair, in any order",
    "contradicting pairs",
)
_SAME_CASES = {
    "keys": "by their keys",
    "places and values": "by their places, and the same values in all columns but the output",
}


_AGREEMENT_HEADS = (
    "history",
    "had a similar case, earlier or later",
    "pairs of similar cases",
    "of these disagree",
    "of a decision's similar cases disagree",
    "dealt at random",
    "agreement index",
    "interval",
)
_BALANCE_HEADS = ("column", "second minus first, in tolerances", "interval", "above a quarter")


def compare_page(comparison: Comparison) -> str:
    """Render the comparison as one self-contained HTML document."""
    done, sides = comparison.one.computed, comparison.sides
    names = " and ".join(map(name_side, sides))
    wording = comparison.rule.explain()
    groups = [
        group_section(
            side.groups, comparison.no_groups_reason, f"groups-{i}", f": {name_side(side)}"
        )
        for i, side in enumerate(sides)
        if not (comparison.no_groups_reason and i)
    ]
    return document(
        "reports/compare_page.html",
        title=f"{names} · likewise compare",
        made_by=done.version,
        script="tables.js",
        comparison=comparison,
        day=done.made_at,
        names=names,
        hero=_hero(comparison),
        sentences=[
            *describe_test(comparison),
            *map(describe_agreement, sides),
            *describe_effect(comparison),
            *describe_pairs(comparison),
        ],
        tiles=_tiles(comparison),
        plot=_plot(comparison),
        intervals=INTERVALS,
        agreement_heads=_AGREEMENT_HEADS,
        agreements=[(name_side(side), _agreement_cells(side)) for side in sides],
        why_no_index=[
            f"{name_side(side)}: {side.agreement.how.sentence}"
            for side in sides
            if side.agreement.index is None
        ],
        effects=describe_effect(comparison),
        balance_heads=_BALANCE_HEADS,
        balance=_balance(comparison),
        heads=_HEADS,
        rows=[(name_side(side), _cells(side)) for side in sides],
        cut=describe_cut(comparison),
        kinds=_kinds(comparison),
        groups=groups,
        wording=wording,
        notes=[*wording.notes, *describe_time_limit(done.order.within)],
        sides=sides,
        same_cases=_SAME_CASES[comparison.matched_by],
        how_compared=how_compared(comparison.one.groups, done.order.within),
    )


def _hero(comparison: Comparison) -> dict[str, Any]:
    found, big, what = comparison.compared, "–", "nothing could be compared, so nothing follows"
    nothing = comparison.nothing_compared or found.test is None
    if found.test is not None and not comparison.nothing_compared:
        value = found.test.difference
        if found.tested_by == "swapped answers":
            big, what = write_sign(value), "difference of the agreement indices on the same cases"
        else:
            big = write_sign(100 * value, "+.1f")
            what = "percentage points more disagreement among similar cases that both decided"
        what += ": beyond chance" if found.beyond_chance else ": may be chance"
    elif not comparison.nothing_compared:
        what = "it cannot be told whether one contradicts itself more often"
    return {"nothing": nothing, "big": big, "what": what}


def _tiles(comparison: Comparison) -> list[tuple[str, str]]:
    counts = [
        (comparison.common, "cases are in both"),
        (comparison.new.of_common, "contradicting pairs of these are new"),
        (comparison.gone.of_common, "contradicting pairs of these are gone"),
        (comparison.persisting.count, "contradicting pairs of these persist"),
        (count_other_pairs(comparison.new), "pairs are new with a case that only the second has"),
        (count_other_pairs(comparison.gone), "pairs are gone with a case that only the first has"),
    ]
    shown = [*counts[:4], *(one for one in counts[4:] if one[0])]
    return [(f"{number:,}", words) for number, words in shown]


def _plot(comparison: Comparison) -> str:
    """Draw the agreement indices with their intervals; empty if there is none."""
    sides = comparison.sides
    lows = [one.agreement.low for one in sides if one.agreement.low is not None]
    if not lows:
        return ""
    first = min(0, math.floor(4 * min(lows)))
    marks = [quarter / 4 for quarter in range(first, 5)]

    def draw(width: int) -> str:
        def x(index: float) -> float:
            return 16 + (index - marks[0]) / (1 - marks[0]) * (width - 48)

        bottom = _TOP + _STEP * len(sides)
        parts = [
            line(x(mark), 8, x(mark), bottom, "grid")
            + text(x(mark), bottom + 16, write_sign(mark, "g"), "tick", "middle")
            for mark in marks
        ]
        for i, side in enumerate(sides):
            y, found = _TOP + i * _STEP, side.agreement
            name = shorten(side.name, 60 if width == charts.WIDE else 22)
            if found.index is None or found.low is None or found.high is None:
                parts += [text(0, y, name, "group"), text(width, y, "no index", "count", "end")]
                continue
            tip = f"{side.name}: {write_index(found)}"
            ends = max(found.low, marks[0]), found.high, found.index
            texts = name, write_sign(found.index, ".2f"), tip
            parts += charts.draw_interval(width, x, y, texts, ends)
        return charts.picture(width, bottom + 24, *parts)

    label = "; ".join(f"{side.name}: {write_index(side.agreement)}" for side in sides)
    return charts.draw_both_widths(draw, label)


def _agreement_cells(side: ComparedHistory) -> tuple[str, ...]:
    found = side.agreement
    shares = ["–" if one is None else percent(one) for one in (found.disagreement, found.expected)]
    index, interval = "–", "–"
    if found.index is not None:
        index = write_sign(found.index, ".2f")
    if found.low is not None and found.high is not None:
        interval = f"{write_sign(found.low, '.2f')} to {write_sign(found.high, '.2f')}"
    counts = (found.comparable, found.like_pairs, found.disagreeing_pairs)
    return (*(f"{count:,}" for count in counts), *shares, index, interval)


def _balance(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (
            one.column,
            (
                write_sign(one.effect.value),
                f"{write_sign(one.effect.low)} to {write_sign(one.effect.high)}",
                "yes" if one.is_unbalanced else "no",
            ),
        )
        for one in comparison.compared.effect.balance
    ]


def _cells(side: ComparedHistory) -> tuple[str, ...]:
    rate = side.share.rate
    return (
        f"{side.compared:,}",
        f"{side.comparable:,}",
        f"{side.violations:,}",
        "–" if rate is None else percent(rate),
        share_interval(side.share),
        f"{side.in_any_pair.count:,}",
        f"{side.pairs:,}",
    )


def _kinds(comparison: Comparison) -> list[dict[str, Any]]:
    """List the pairs that are new, gone and persisting, each with some cards."""
    one, other = map(name_side, comparison.sides)
    kinds = (
        ("new", f"New in {other}", comparison.new),
        ("gone", f"Gone from {one}", comparison.gone),
        ("persisting", f"Persisting, as {other} has them", comparison.persisting),
    )
    return [
        {
            "title": title,
            "count": kind.count,
            "of_common": kind.of_common,
            "others": count_other_pairs(kind),
            "cards": pair_cards([one.pair for one in kind.shown], comparison.rule, name),
            "places": "; ".join(
                f"{one.unit}s {one.place:,} and {one.witness_place:,}" for one in kind.shown
            ),
        }
        for name, title, kind in kinds
    ]
