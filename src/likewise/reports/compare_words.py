"""Two histories compared, in plain words: the same on the screen and on the page.

Values from the data stand in the text as they are: whoever prints it makes it safe.
"""

from collections.abc import Iterable

from likewise.reports.comparison import ComparedHistory, Comparison, PairChanges
from likewise.reports.group_words import group_sentences, points
from likewise.reports.intervals import Difference, Share
from likewise.tables.printing import join_names, percent
from likewise.verdict.html import shorten

INTERVALS = (
    "Intervals are of 95% (Wilson's for a share, Newcombe's for a difference). They take decisions"
    " for independent draws. Decisions of one history are not quite that, and two models that"
    " answered the same cases are not either: take an interval for how exact a number is, not for"
    " a proof."
)
_NAME = 60


def describe_comparison(found: Comparison) -> list[str]:
    """What was found, one sentence each, the most important first."""
    return [
        *_difference(found),
        *(_side(side) for side in (found.one, found.other)),
        *describe_cut(found),
        *_pairs(found),
        *_groups(found),
    ]


def name_side(side: ComparedHistory) -> str:
    """What a side is called."""
    return shorten(side.name, _NAME)


def _difference(found: Comparison) -> Iterable[str]:
    nothing = found.nothing_compared
    if nothing:
        names = join_names([name_side(side) for side in nothing])
        yield (
            f"Nothing could be compared in {names}, so nothing follows about a difference: no"
            " decision there had an earlier like case."
        )
        return
    apart = found.difference
    assert apart is not None
    one, other = name_side(found.one), name_side(found.other)
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
    """What an interval lets one say."""
    if apart.beyond_chance:
        return "which leaves out 0: more than chance alone would give"
    return "which has 0 in it: it may be chance"


def interval_of(apart: Difference) -> str:
    low = points(apart.low).removesuffix(" points")
    return f"{low} to {points(apart.high)}".replace("-", "\u2212")


def share_interval(share: Share) -> str:
    """From where to where a share may lie."""
    return "–" if share.of == 0 else f"{percent(share.low)} to {percent(share.high)}"


def _side(side: ComparedHistory) -> str:
    verb = "contradicts" if side.flagged == 1 else "contradict"
    start = (
        f"{name_side(side)}: {side.comparable:,} of {side.compared:,} decisions had an earlier like"
    )
    if side.comparable == 0:
        return f"{start} case."
    assert side.share.rate is not None
    return (
        f"{start} case; {side.flagged:,} of these ({percent(side.share.rate)}, interval"
        f" {share_interval(side.share)}) {verb} one."
    )


def describe_cut(found: Comparison) -> Iterable[str]:
    """How the histories were made equally long."""
    one, other = found.one, found.other
    longer = max(one, other, key=lambda side: side.decisions)
    left = longer.decisions - longer.compared
    if left:
        yield (
            f"Both histories are equally long: the first {longer.compared:,} decisions of each, in"
            f" the order judged, since a longer past has more to contradict. The last {left:,} of"
            f" {name_side(longer)} are left out."
        )


def _pairs(found: Comparison) -> Iterable[str]:
    cases = _cases(found)
    if found.common == 0:
        yield (
            f"No case is in both ({cases}), so every contradicting pair is new or gone, and"
            " nothing follows from that."
        )
        return
    yield (
        f"{found.common:,} cases are in both ({cases}). Of their contradicting pairs"
        f" {found.persisting.count:,} persist, {found.new.of_common:,} are new in"
        f" {name_side(found.other)}, {found.gone.of_common:,} are gone."
    )
    for kind, what, side in ((found.new, "new", found.other), (found.gone, "gone", found.one)):
        more = count_other_pairs(kind)
        if more:
            yield (
                f"{more:,} more are {what} because a case of theirs is only in {name_side(side)}."
            )


def count_other_pairs(kind: PairChanges) -> int:
    """Pairs of which a case is in one history only."""
    return kind.count - kind.of_common


def _cases(found: Comparison) -> str:
    if found.matched_by == "keys":
        return f"by the same {found.rule.key_column or 'key'}"
    place = "number among the decisions of a model" if found.column else "place"
    return f"by the same {place} and the same values, since there are no keys"


def _groups(found: Comparison) -> Iterable[str]:
    for side in (found.one, found.other):
        for sentence in group_sentences(side.groups) if side.pairs else ():
            yield f"{name_side(side)}: {sentence}"
