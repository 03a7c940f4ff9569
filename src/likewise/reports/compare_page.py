"""Two histories compared, as one HTML document that needs nothing beside it (compare_page.html).

Not here: what is said (compare_words.py), groups (group_section.py), pairs (cards.py).
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
from likewise.tables.printing import percent
from likewise.verdict.html import shorten

_STEP, _TOP = 58, 24
_HEADS = (
    "history",
    "decisions",
    "had an earlier like case",
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


def compare_page(found: Comparison) -> str:
    """The comparison as one self-contained HTML document."""
    done, sides, apart = found.one.computed, (found.one, found.other), found.difference
    names = " and ".join(shorten(side.name, 60) for side in sides)
    said = word_rule(found.rule)
    groups = [
        group_section(side.groups, found.no_groups, f"groups-{i}", f": {shorten(side.name, 60)}")
        for i, side in enumerate(sides)
        if not (found.no_groups and i)
    ]
    return document(
        "reports/compare_page.html",
        title=f"{names} · likewise compare",
        made_by=done.version,
        script="tables.js",
        found=found,
        day=day_of(done),
        names=names,
        hero=_hero(found),
        sentences=describe_comparison(found),
        tiles=_tiles(found),
        plot=_plot(found),
        intervals=INTERVALS,
        difference=apart
        and f"Difference: {points(apart.value).replace('-', chr(0x2212))}, interval"
        f" {interval_of(apart)}, {conclusion(apart)}.",
        heads=_HEADS,
        rows=[(shorten(side.name, 60), _cells(side)) for side in sides],
        cut=describe_cut(found),
        kinds=_kinds(found),
        groups=groups,
        said=said,
        notes=[*said.notes, *describe_time_limit(done.order.within)],
        sides=sides,
        same_cases=_SAME_CASES[found.matched_by],
        how_compared=how_compared(found.one.groups, done.order.within),
    )


def _hero(found: Comparison) -> dict[str, Any]:
    apart = found.difference
    big, what = "–", "nothing could be compared, so nothing follows"
    if apart is not None:
        sign = "+" if apart.value > 0 else "\u2212" if apart.value < 0 else "±"
        big = f"{sign}{points(abs(apart.value)).removesuffix(' points')}"
        what = f"percentage points; the interval is {interval_of(apart)}"
    return {"nothing": found.nothing_compared, "big": big, "what": what}


def _tiles(found: Comparison) -> list[tuple[str, str]]:
    counts = [
        (found.common, "cases are in both"),
        (found.new.of_common, "contradicting pairs of these are new"),
        (found.gone.of_common, "contradicting pairs of these are gone"),
        (found.persisting.count, "contradicting pairs of these persist"),
        (count_other_pairs(found.new), "pairs are new with a case that only the second has"),
        (count_other_pairs(found.gone), "pairs are gone with a case that only the first has"),
    ]
    shown = [*counts[:4], *(one for one in counts[4:] if one[0])]
    return [(f"{number:,}", words) for number, words in shown]


def _plot(found: Comparison) -> str:
    sides = found.one, found.other
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
            y, share, told = _TOP + i * _STEP, side.share, _rate(side)
            name = shorten(side.name, 60 if width == WIDE else 22)
            if share.rate is None:
                parts += [text(0, y, name, "group"), text(width, y, told, "count", "end")]
                continue
            tip = f"{side.name}: {told}, interval {share_interval(share)}"
            parts += draw_interval(
                width, x, y, (name, told, tip), (share.low, share.high, share.rate)
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


def _kinds(found: Comparison) -> list[dict[str, Any]]:
    """The pairs that are new, gone and persisting, each with some cards."""
    kinds = (
        ("new", f"New in {name_side(found.other)}", found.new),
        ("gone", f"Gone from {name_side(found.one)}", found.gone),
        ("persisting", f"Persisting, as {name_side(found.other)} has them", found.persisting),
    )
    return [
        {
            "title": title,
            "count": kind.count,
            "of_common": kind.of_common,
            "others": count_other_pairs(kind),
            "cards": pair_cards([one.pair for one in kind.shown], found.rule, name)
            if kind.count
            else "",
            "places": "; ".join(
                f"{one.unit}s {one.place:,} and {one.witness_place:,}" for one in kind.shown
            ),
        }
        for name, title, kind in kinds
    ]
