"""Describes the comparison of two histories in plain words, for the terminal and for pages.

Values from the data are not escaped: whoever prints the text has to.
"""

from collections.abc import Iterable

from likewise.explaining.agreement import Agreement
from likewise.explaining.side_tests import ChanceTest
from likewise.reports.comparison import ComparedHistory, Comparison, PairChanges
from likewise.reports.group_section import group_sentences, points
from likewise.reports.totals import Share
from likewise.tables.printing import format_number, format_value, join_names, percent, shorten

INTERVALS = (
    "Intervals are 95% intervals. An agreement index depends on which cases came, and a share also"
    " on how many similar ones came before, so two of them are not compared: what is tested is"
    " whether one disagrees with itself more on similar cases that both decided."
)
_NAME = 60


def describe_comparison(comparison: Comparison) -> list[str]:
    """Describe what was found, sentence by sentence, the most important first."""
    return [
        *describe_test(comparison),
        *map(describe_agreement, comparison.sides),
        *describe_effect(comparison),
        *map(_side, comparison.sides),
        *describe_cut(comparison),
        *describe_pairs(comparison),
        *_groups(comparison),
    ]


def name_side(side: ComparedHistory) -> str:
    """Name a side in a sentence."""
    return shorten(side.name, _NAME)


def describe_test(comparison: Comparison) -> Iterable[str]:
    """Say whether one side disagrees with itself more, and how that was tested."""
    nothing, found = comparison.nothing_compared, comparison.compared
    if nothing:
        names = join_names([name_side(side) for side in nothing])
        yield (
            f"Nothing could be compared in {names}, so nothing follows about a difference: no"
            " decision there had an earlier similar case."
        )
        return
    one, other = map(name_side, comparison.sides)
    test = found.test
    if test is None:
        yield f"It cannot be told whether {one} or {other} contradicts itself more often."
        yield found.how.sentence
        return
    if found.tested_by == "swapped answers":
        more, where = test.difference < 0, "on the same cases"
        size = f"its agreement index is {abs(test.difference):.2f} {'lower' if more else 'higher'}"
    else:
        more, where = test.difference > 0, "on similar cases that both decided"
        size = f"{points(abs(test.difference))} {'more' if more else 'fewer'} of its pairs disagree"
    chance = f"{size}; chance alone gives as much in {_chance(test)} of shuffles"
    if found.beyond_chance:
        often = "more" if more else "less"
        yield f"{other} contradicts itself {often} often than {one} {where}: {chance}."
    else:
        yield (
            f"No difference goes beyond chance: {where}, {other} contradicts itself about as often"
            f" as {one} ({chance}). That does not show that they are alike."
        )
    yield found.how.sentence


def _chance(test: ChanceTest) -> str:
    """Format a p-value."""
    return (
        f"less than {percent(1 / test.shuffles)}"
        if test.p * test.shuffles <= 1
        else percent(test.p)
    )


def write_sign(value: float, form: str = "+.2f") -> str:
    """Format a number with its sign."""
    return format(value, form).replace("-", "\u2212")


def describe_agreement(side: ComparedHistory) -> str:
    """Say how well similar cases agree in one history."""
    found = side.agreement
    if found.index is None or found.disagreement is None or found.expected is None:
        return f"{name_side(side)}: no agreement index. {found.how.sentence}"
    return (
        f"{name_side(side)}: agreement index {write_index(found)}: of a decision's similar cases"
        f" {percent(found.disagreement)} disagree on average, and {percent(found.expected)} if the"
        " same answers were dealt at random."
    )


def write_index(found: Agreement) -> str:
    """Format an agreement index with its interval."""
    if found.index is None:
        return "–"
    if found.low is None or found.high is None:
        return f"{found.index:.2f}".replace("-", "\u2212")
    text = f"{found.index:.2f} (95% interval {found.low:.2f} to {found.high:.2f})"
    return text.replace("-", "\u2212")


def describe_effect(comparison: Comparison) -> Iterable[str]:
    """Say how differently both sides answer similar cases."""
    effect = comparison.compared.effect
    one, other = map(name_side, comparison.sides)
    if effect.adjusted is None:
        if effect.how.code != comparison.compared.how.code:
            yield "It cannot be told whether they answer similar cases differently."
            yield effect.how.sentence
        return
    what = format_value(effect.outcome)

    def size(value: float) -> str:
        return points(value) if effect.is_share else format_number(float(f"{value:.3g}"))

    def compare(value: float) -> str:
        if effect.is_share:
            return f"{size(abs(value))} {'more' if value > 0 else 'less'} often"
        return f"{size(abs(value))} {'higher' if value > 0 else 'lower'}"

    found, raw = effect.adjusted, effect.raw
    low, high = (size(value).removesuffix(" points") for value in (found.low, found.high))
    interval = f"{low} to {high}".replace("-", "\u2212")
    verb = f"answers {what}" if effect.is_share else f"has {what}"
    adjusted = size(found.value).replace("-", "\u2212")
    by = f"{compare(raw.value)}; {adjusted}" if raw is not None else f"{compare(found.value)},"
    differently = "differently" if effect.is_beyond_chance else "with no difference beyond chance"
    yield (
        f"{other} and {one} answer similar cases {differently}: {other} {verb} {by}"
        " if adjusted for differences inside the tolerances (95% interval"
        f" {interval}). Differences under {size(found.smallest_detectable)} could well be missed."
    )
    uneven = [column for column in effect.balance if column.is_unbalanced]
    if uneven:
        listed = [
            f"{format_value(column.column)} ({write_sign(column.effect.value)})"
            for column in uneven
        ]
        yield (
            f"Their similar cases differ inside the tolerances, in {join_names(listed)} by more"
            " than a quarter of a tolerance; so only the adjusted number is shown."
        )


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


def describe_pairs(comparison: Comparison) -> Iterable[str]:
    """Say how many contradicting pairs are new, gone and persisting."""
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
