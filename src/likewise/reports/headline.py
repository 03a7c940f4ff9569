"""Says how far similar cases agree: the first sentences of terminal, page and JSON.

The order is fixed: the index beside what chance would give, then the decisions to look into, then
pairs as counts. Invariant: where nothing can be concluded, a reason stands in place of a number.
Not here: the numbers (explaining/agreement.py), what they do not show (not_shown.py).
"""

from dataclasses import dataclass

from likewise.explaining.agreement import (
    FEWEST_SIMILAR,
    NOT_COUNTED,
    Agreement,
    required_categories,
)
from likewise.rule.rule import Rule
from likewise.tables.printing import join_names, percent
from likewise.verdict.html import format_count


@dataclass(frozen=True)
class Headline:
    """Holds the first sentences of a report, and the number that is printed large."""

    big: str
    what: str
    index: tuple[str, ...]
    """How far similar cases agree, beside chance; or why that cannot be concluded."""
    opposed: tuple[str, ...]
    """Which decisions to look into."""
    pairs: tuple[str, ...]
    """How many pairs there are."""
    tiles: tuple[tuple[str, str], ...]
    """Counts, each with what it counts."""
    is_concluded: bool

    @property
    def sentences(self) -> list[str]:
        """All sentences, the most important first."""
        return [*self.index, *self.opposed, *self.pairs]


def describe_agreement(agreement: Agreement, rule: Rule) -> Headline:
    """Describe how far similar cases agree under a rule."""
    is_concluded = agreement.index is not None
    return Headline(
        format_index(agreement.index),
        _name_big(agreement) if is_concluded else "no agreement index: nothing can be concluded",
        tuple(_describe_index(agreement, rule)),
        tuple(_describe_opposed(agreement)),
        _describe_pairs(agreement),
        tuple(_list_tiles(agreement)),
        is_concluded,
    )


def is_counted(agreement: Agreement) -> bool:
    """Tell whether similar cases were counted at all."""
    return agreement.how.code not in NOT_COUNTED


def format_index(index: float | None) -> str:
    """Format an index; 1 stands for exactly that.

    >>> [format_index(one) for one in (0.2714, -0.0004, 0.9991, 1.0, None)]
    ['0.27', '0.00', '0.999', '1', '–']
    """
    if index is None:
        return "–"
    if index == 1:
        return "1"
    if index > 0.995:
        return f"{min(index, 0.9999):.4g}"
    return f"{index:.2f}".replace("-0.00", "0.00")


def format_interval(agreement: Agreement) -> str:
    """Format the interval of an index; nothing where there is none."""
    if agreement.low is None or agreement.high is None:
        return ""
    return f"95% interval {format_index(agreement.low)} to {format_index(agreement.high)}"


def _name_big(agreement: Agreement) -> str:
    interval = format_interval(agreement)
    return f"agreement index{f', {interval}' if interval else ''}"


def _describe_index(agreement: Agreement, rule: Rule) -> list[str]:
    index, low, high = agreement.index, agreement.low, agreement.high
    if index is None or agreement.disagreement is None or agreement.expected is None:
        return [f"How far similar cases agree cannot be concluded: {agreement.how.sentence}"]
    interval = format_interval(agreement)
    sentences = [
        "Take a decision at random, then one of its similar cases:"
        f" {percent(agreement.disagreement)} disagree. Had the same answers been dealt at random"
        f" among these cases: {percent(agreement.expected)}. Agreement index {format_index(index)}"
        f"{f' ({interval})' if interval else ''}: 0 is dice, 1 is always the same answer."
    ]
    if low is not None and high is not None:
        if low > 0:
            than = "Similar cases agree more often than answers dealt at random would."
        elif high < 0:
            than = "Similar cases agree less often than answers dealt at random would."
        else:
            than = "Taken together, these answers cannot be told from answers dealt at random."
        sentences.append(than)
    names = required_categories(rule)
    if agreement.index_within_categories is not None and names:
        sentences.append(
            f"Dealt only among cases with the same {join_names(names, 4)}, the index is"
            f" {format_index(agreement.index_within_categories)}."
        )
    return sentences


def _describe_opposed(agreement: Agreement) -> list[str]:
    by_most, of, hubs = agreement.opposed_by_most, agreement.opposed_of, agreement.hubs
    sentences = []
    if of:
        chance = agreement.opposed_expected
        clear = f"{agreement.opposed_clearly:,}" if agreement.opposed_clearly else "none"
        clearly = f"; {clear} clearly (95% interval above half)" if by_most else ""
        sentences.append(
            f"{f'{by_most:,}' if by_most else 'None'} of {format_count(of, 'decision')} with at"
            f" least {FEWEST_SIMILAR} similar cases {'is' if by_most <= 1 else 'are'} opposed by"
            f" most of them{'' if chance is None else f' (dealt at random: {chance:,.0f})'}"
            f"{clearly}." + " This is a list to look into, not a rate of errors." * bool(by_most)
        )
    if hubs is not None and agreement.disagreeing_pairs:
        are = "is" if hubs == 1 else "together are"
        sentences.append(
            f"{hubs:,} of {format_count(agreement.comparable, 'decision')} with a similar case"
            f" {are} in half of all pairs that disagree."
        )
    return sentences


def _describe_pairs(agreement: Agreement) -> tuple[str, ...]:
    pairs, disagree = agreement.like_pairs, agreement.disagreeing_pairs
    if not pairs:
        return ()
    them = f"{disagree:,} of them" if disagree else "none of them"
    verb = "disagrees" if disagree <= 1 else "disagree"
    return (f"There are {format_count(pairs, 'pair')} of similar cases; {them} {verb}.",)


def _list_tiles(agreement: Agreement) -> list[tuple[str, str]]:
    tiles = []
    if agreement.opposed_of:
        tiles += [
            (f"{agreement.opposed_by_most:,}", "opposed by most of their similar cases"),
            (f"{agreement.opposed_clearly:,}", "of these clearly"),
        ]
    if agreement.hubs is not None and agreement.disagreeing_pairs:
        tiles.append((f"{agreement.hubs:,}", "decisions in half of all pairs that disagree"))
    return [
        *tiles,
        (f"{agreement.like_pairs:,}", "pairs of similar cases"),
        (f"{agreement.disagreeing_pairs:,}", "of these pairs disagree"),
    ]
