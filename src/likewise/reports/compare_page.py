"""Renders the comparison of two histories as one self-contained HTML document (compare_page.html).

Not here: sentences (compare_words.py), groups (group_section.py), pairs (cards.py).
"""

from typing import Any

from likewise.reports.cards import pair_cards
from likewise.reports.compare_words import (
    INTERVALS,
    conclusion,
    count_other_pairs,
    describe_comparison,
    describe_cut,
    interval_of,
    name_side,
    share_interval,
)
from likewise.reports.comparison import ComparedHistory, Comparison
from likewise.reports.document import document
from likewise.reports.finding_words import describe_time_limit, word_rule
from likewise.reports.group_section import group_section
from likewise.reports.group_words import how_compared, points
from likewise.reports.plots import WIDE, draw_both_widths, draw_interval, line, picture, text, ticks
from likewise.reports.report_page import day_of
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


def compare_page(comparison: Comparison) -> str:
    """Render the comparison as one self-contained HTML document."""
    done, sides, apart = (
        comparison.one.computed,
        (comparison.one, comparison.other),
        comparison.difference,
    )
    names = " and ".join(shorten(side.name, 60) for side in sides)
    wording = word_rule(comparison.rule)
    groups = [
        group_section(
            side.groups, comparison.no_groups, f"groups-{i}", f": {shorten(side.name, 60)}"
        )
        for i, side in enumerate(sides)
        if not (comparison.no_groups and i)
    ]
    return document(
        "reports/compare_page.html",
        title=f"{names} · likewise compare",
        made_by=done.version,
        script="tables.js",
        comparison=comparison,
        day=day_of(done),
        names=names,
        hero=_hero(comparison),
        sentences=describe_comparison(comparison),
        tiles=_tiles(comparison),
        plot=_plot(comparison),
        intervals=INTERVALS,
        difference=apart
        and f"Difference: {points(apart.value).replace('-', chr(0x2212))}, interval"
        f" {interval_of(apart)}, {conclusion(apart)}.",
        heads=_HEADS,
        rows=[(shorten(side.name, 60), _cells(side)) for side in sides],
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
    apart = comparison.difference
    big, what = "–", "nothing could be compared, so nothing follows"
    if apart is not None:
        sign = "+" if apart.value > 0 else "\u2212" if apart.value < 0 else "±"
        big = f"{sign}{points(abs(apart.value)).removesuffix(' points')}"
        what = f"percentage points; the interval is {interval_of(apart)}"
    return {"nothing": comparison.nothing_compared, "big": big, "what": what}


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
    sides = comparison.one, comparison.other
    most = max((side.share.high for side in sides if side.share.of), default=1.0)
    marks = ticks(most)

    def draw(width: int) -> str:
        def x(share: float) -> float:
            return 16 + share / marks[-1] * (width - 48)

        bottom = _TOP + _STEP * len(sides)
        parts = [
            line(x(mark), 8, x(mark), bottom, "grid")
            + text(x(mark), bottom + 16, percent(mark), "tick", "middle")
            for mark in marks
        ]
        for i, side in enumerate(sides):
            y, share, rate = _TOP + i * _STEP, side.share, _rate(side)
            name = shorten(side.name, 60 if width == WIDE else 22)
            if share.rate is None:
                parts += [text(0, y, name, "group"), text(width, y, rate, "count", "end")]
                continue
            tip = f"{side.name}: {rate}, interval {share_interval(share)}"
            parts += draw_interval(
                width, x, y, (name, rate, tip), (share.low, share.high, share.rate)
            )
        return picture(width, bottom + 24, *parts)

    return draw_both_widths(draw, "; ".join(f"{side.name}: {_rate(side)}" for side in sides))


def _rate(side: ComparedHistory) -> str:
    return "nothing comparable" if side.share.rate is None else percent(side.share.rate)


def _cells(side: ComparedHistory) -> tuple[str, ...]:
    rate = side.share.rate
    return (
        f"{side.compared:,}",
        f"{side.comparable:,}",
        f"{side.flagged:,}",
        "–" if rate is None else percent(rate),
        share_interval(side.share),
        f"{side.in_any_pair.count:,}",
        f"{side.pairs:,}",
    )


def _kinds(comparison: Comparison) -> list[dict[str, Any]]:
    """List the pairs that are new, gone and persisting, each with some cards."""
    kinds = (
        ("new", f"New in {name_side(comparison.other)}", comparison.new),
        ("gone", f"Gone from {name_side(comparison.one)}", comparison.gone),
        (
            "persisting",
            f"Persisting, as {name_side(comparison.other)} has them",
            comparison.persisting,
        ),
    )
    return [
        {
            "title": title,
            "count": kind.count,
            "of_common": kind.of_common,
            "others": count_other_pairs(kind),
            "cards": pair_cards([one.pair for one in kind.shown], comparison.rule, name)
            if kind.count
            else "",
            "places": "; ".join(
                f"{one.unit}s {one.place:,} and {one.witness_place:,}" for one in kind.shown
            ),
        }
        for name, title, kind in kinds
    ]
