"""Describes the comparison of two histories in plain words, for the terminal and for pages.

Values from the data are not escaped: whoever prints the text has to.
"""

from collections.abc import Iterable

from likewise.reports.comparison import ComparedHistory, Comparison, PairChanges
from likewise.reports.group_words import group_sentences, points
from likewise.reports.intervals import Difference, Share
from likewise.tables.printing import join_names, percent, shorten

INTERVALS = (
    "Intervals are 95% intervals (Wilson's for a share, Newcombe's for a difference). They assume"
    " that decisions are independent. Decisions of one history are not quite independent, nor are"
    " two models that answered the same cases: an interval shows how exact a number is, and is no"
    " proof."
)
_NAME = 60


def describe_comparison(comparison: Comparison) -> list[str]:
    """Describe what was found, sentence by sentence, the most important first."""
    return [
        *_difference(comparison),
        *(_side(side) for side in (comparison.one, comparison.other)),
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
    one, other = name_side(comparison.one), name_side(comparison.other)
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
    verb = "contradicts" if side.flagged == 1 else "contradict"
    start = (
        f"{name_side(side)}: {side.comparable:,} of {side.compared:,} decisions had an earlier"
        " similar case"
    )
    if side.comparable == 0:
        return f"{start}."
    assert side.share.rate is not None
    return (
        f"{start}; {side.flagged:,} of these ({percent(side.share.rate)}, interval"
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
    for side in (comparison.one, comparison.other):
        for sentence in group_sentences(side.groups) if side.pairs else ():
            yield f"{name_side(side)}: {sentence}"
