"""Renders the comparison of two histories as one self-contained HTML document (compare_page.html).

Not here: groups (group_section.py), pairs (document.py).
"""

from collections.abc import Iterable
from typing import Any

from likewise.reports import charts
from likewise.reports.charts import line, text
from likewise.reports.comparison import ComparedHistory, Comparison, PairChanges
from likewise.reports.document import document, pair_cards
from likewise.reports.finding_words import describe_time_limit, word_rule
from likewise.reports.group_section import group_section, group_sentences, how_compared, points
from likewise.reports.totals import Difference, Share
from likewise.tables.printing import join_names, percent, shorten

INTERVALS = (
    "Intervals are 95% intervals (Wilson's for a share, Newcombe's for a difference). They assume"
    " that decisions are independent. Decisions of one history are not quite independent, nor are"
    " two models that answered the same cases: an interval shows how exact a number is, and is no"
    " proof."
)
_NAME = 60


# Describes the comparison of two histories in plain words, for the terminal and for pages.
# Values from the data are not escaped: whoever prints the text has to.


def describe_comparison(comparison: Comparison) -> list[str]:
    """Describe what was found, sentence by sentence, the most important first."""
    return [
        *_difference(comparison),
        *map(_side, comparison.sides),
        *describe_cut(comparison),
        *_pairs(comparison),
        *_groups(comparison),
    ]


def name_side(side: ComparedHistory) -> str:
    """Name a side in a sentence."""
    return shorten(side.name, _NAME)


def _difference(comparison: Comparison) -> Iterable[str]:
    nothing = comparison.nothing_compared
    if nothing:
        names = join_names([name_side(side) for side in nothing])
        yield (
            f"Nothing could be compared in {names}, so nothing follows about a difference: no"
            " decision there had an earlier similar case."
        )
        return
    apart = comparison.difference
    assert apart is not None
    one, other = map(name_side, comparison.sides)
    if apart.value == 0:
        yield f"{other} contradicts itself as often as {one}, among comparable decisions."
    else:
        more = "more" if apart.value > 0 else "less"
        yield (
            f"{other} contradicts itself {more} often than {one}: by"
            f" {points(abs(apart.value))}, among comparable decisions."
        )
    yield f"The interval of the difference is {interval_of(apart)}, {conclusion(apart)}."


def conclusion(apart: Difference) -> str:
    """Say what follows from the interval of a difference."""
    if apart.beyond_chance:
        return "which does not contain 0: more than chance alone would give"
    return "which contains 0: it may be chance"


def interval_of(apart: Difference) -> str:
    low = points(apart.low).removesuffix(" points")
    return f"{low} to {points(apart.high)}".replace("-", "\u2212")


def share_interval(share: Share) -> str:
    """Format the interval of a share."""
    return "–" if share.of == 0 else f"{percent(share.low)} to {percent(share.high)}"


def _side(side: ComparedHistory) -> str:
    verb = "contradicts" if side.violations == 1 else "contradict"
    start = (
        f"{name_side(side)}: {side.comparable:,} of {side.compared:,} decisions had an earlier"
        " similar case"
    )
    if side.comparable == 0:
        return f"{start}."
    assert side.share.rate is not None
    return (
        f"{start}; {side.violations:,} of these ({percent(side.share.rate)}, interval"
        f" {share_interval(side.share)}) {verb} one."
    )


def describe_cut(comparison: Comparison) -> Iterable[str]:
    """Say how the histories were cut to the same length."""
    one, other = comparison.one, comparison.other
    longer = max(one, other, key=lambda side: side.decisions)
    left = longer.decisions - longer.compared
    if left:
        yield (
            f"Both histories are cut to the same length, since a longer past has more to"
            f" contradict: the first {longer.compared:,} decisions of each, in the order judged."
            f" The last {left:,} of {name_side(longer)} are left out."
        )


def _pairs(comparison: Comparison) -> Iterable[str]:
    cases = _cases(comparison)
    if comparison.common == 0:
        yield (
            f"No case is in both ({cases}), so every contradicting pair is new or gone, and"
            " nothing follows from that."
        )
        return
    yield (
        f"{comparison.common:,} cases are in both ({cases}). Of their contradicting pairs"
        f" {comparison.persisting.count:,} persist, {comparison.new.of_common:,} are new in"
        f" {name_side(comparison.other)}, {comparison.gone.of_common:,} are gone."
    )
    for kind, what, side in (
        (comparison.new, "new", comparison.other),
        (comparison.gone, "gone", comparison.one),
    ):
        more = count_other_pairs(kind)
        if more:
            yield (
                f"{more:,} more are {what} because a case of theirs is only in {name_side(side)}."
            )


def count_other_pairs(kind: PairChanges) -> int:
    """Count pairs of which a case is in one history only."""
    return kind.count - kind.of_common


def _cases(comparison: Comparison) -> str:
    if comparison.matched_by == "keys":
        return f"by the same {comparison.rule.key_column or 'key'}"
    place = "number among the decisions of a model" if comparison.column else "place"
    return f"by the same {place} and the same values, since there are no keys"


def _groups(comparison: Comparison) -> Iterable[str]:
    for side in comparison.sides:
        for sentence in group_sentences(side.groups) if side.pairs else ():
            yield f"{name_side(side)}: {sentence}"


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
    done, sides, apart = comparison.one.computed, comparison.sides, comparison.difference
    names = " and ".join(map(name_side, sides))
    wording = word_rule(comparison.rule)
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
        sentences=describe_comparison(comparison),
        tiles=_tiles(comparison),
        plot=_plot(comparison),
        intervals=INTERVALS,
        difference=apart
        and f"Difference: {points(apart.value).replace('-', chr(0x2212))}, interval"
        f" {interval_of(apart)}, {conclusion(apart)}.",
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
    sides = comparison.sides
    most = max((side.share.high for side in sides if side.share.of), default=1.0)
    marks = charts.ticks(most)

    def draw(width: int) -> str:
        def x(share: float) -> float:
            return 16 + share / marks[-1] * (width - 48)

        bottom = _TOP + _STEP * len(sides)
        parts = [
            line(x(mark), 8, x(mark), bottom, "grid")
            + text(x(mark), bottom + 16, f"{100 * mark:g}%", "tick", "middle")
            for mark in marks
        ]
        for i, side in enumerate(sides):
            y, share, rate = _TOP + i * _STEP, side.share, _rate(side)
            name = shorten(side.name, 60 if width == charts.WIDE else 22)
            if share.rate is None:
                parts += [text(0, y, name, "group"), text(width, y, rate, "count", "end")]
                continue
            tip = f"{side.name}: {rate}, interval {share_interval(share)}"
            ends = share.low, share.high, share.rate
            parts += charts.draw_interval(width, x, y, (name, rate, tip), ends)
        return charts.picture(width, bottom + 24, *parts)

    label = "; ".join(f"{side.name}: {_rate(side)}" for side in sides)
    return charts.draw_both_widths(draw, label)


def _rate(side: ComparedHistory) -> str:
    return "nothing comparable" if side.share.rate is None else percent(side.share.rate)


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
