"""Which group got less: two groups of a protected column, compared where members are similar.

Every count comes with its denominator: similar pairs across the groups, decisions with a similar
case in the other group, and people. `ShuffleTest` says how large the difference would be by chance.
Invariant: frozen, and independent of the order in which decisions came.
Not here: the counting (explaining/compare_groups.py), the words (reports/group_section.py).
"""

from dataclasses import asdict, dataclass
from typing import Any

from likewise.tables.printing import format_value
from likewise.verdict.html import make_table


class _Others:
    """Stands for all groups that are too small to be compared one by one."""

    def __repr__(self) -> str:
        return "all others"


OTHERS = _Others()


@dataclass(frozen=True)
class Group:
    """One group of a column, whether or not it has similar cases anywhere."""

    value: Any
    """The value in the data; OTHERS for all small groups together."""
    name: str
    """The name that the rule's labels give it."""
    decisions: int
    people: int
    """Distinct values of the person column; without one, each decision counts as a person."""
    favourable: float
    """The share of its decisions with the favourable output; for numbers the mean."""


@dataclass(frozen=True)
class GroupSide:
    """One of the two groups of a comparison, with its similar cases in the other group."""

    group: Group
    comparable: int
    """Decisions that have a similar case in the other group, earlier or later."""
    comparable_people: int
    favourable: float | None
    """The share of favourable outputs among the comparable decisions; for numbers the mean."""
    similar_favourable: float | None
    """That share among their similar cases: the mean for each decision, averaged over them."""
    got_less: int
    """Decisions that got less than some similar case in the other group."""
    got_less_people: int
    gap: float | None
    """How much better the similar cases fared, on average: `similar_favourable` minus `favourable`,
    with the sign reversed where low numbers are wanted. Below 0: they fared worse."""
    in_test: int
    """People in neighbourhoods that have members of both groups."""


@dataclass(frozen=True)
class ShuffleTest:
    """The difference within neighbourhoods, and the differences that shuffled groups give.

    Computed by explaining/permutation.py.
    """

    difference: float
    """How much better `other` fared than `one`, within neighbourhoods."""
    low: float
    high: float
    """By chance alone, 95 % of the differences lie between `low` and `high`."""
    p: float
    """The two-sided p-value: the share of shuffles with a difference at least as large."""
    p_corrected: float
    """The p-value, corrected for the number of comparisons (Holm)."""
    shuffles: int
    neighbourhoods: int

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the difference is significant among all comparisons that were made."""
        return self.p_corrected <= 0.05


@dataclass(frozen=True)
class GroupComparison:
    """The comparison of two groups; `one` got less within neighbourhoods, if either did."""

    one: GroupSide
    other: GroupSide
    pairs: int
    """Similar pairs across the two groups, whatever the outcomes."""
    one_less: int
    """Pairs in which the member of `one` got less."""
    other_less: int
    test: ShuffleTest | None
    """None if there are too few to conclude anything."""

    @property
    def neither_less(self) -> int:
        """Pairs in which neither member got less."""
        return self.pairs - self.one_less - self.other_less

    @property
    def is_one_directional(self) -> bool:
        """Whether the similar cases of both sides show the same direction as the test.

        They weigh people, and the test weighs neighbourhoods. Where a group got less among many
        similar cases and more among few, the two may disagree, and no one sentence is true.
        """
        return (self.one.gap or 0.0) > 0.0 > (self.other.gap or 0.0)

    @property
    def is_supported(self) -> bool:
        """Whether `one` got less than `other` beyond chance, by either weighting."""
        return self.test is not None and self.test.is_beyond_chance and self.is_one_directional

    @property
    def conclusion(self) -> str:
        """The conclusion in a few words."""
        if self.pairs == 0:
            return "nothing to compare"
        if self.test is None:
            return "too few to conclude anything"
        if not self.test.is_beyond_chance:
            return "not beyond chance"
        return (
            "beyond chance" if self.is_one_directional else "beyond chance, but in no one direction"
        )


@dataclass(frozen=True)
class GroupEffects:
    """The groups of one protected column, and their comparisons."""

    column: str
    outcome: str
    """The meaning of `favourable`: "share" for labels, "mean" for numbers."""
    higher_is_better: bool
    """False where the rule wants low numbers: then a mean of 2 is better than one of 3."""
    groups: tuple[Group, ...]
    """The largest first."""
    comparisons: tuple[GroupComparison, ...]
    """Each pair of groups once: supported ones first, then those with the most similar pairs."""
    without_group: int
    """Decisions without a group; they are not compared."""
    forgotten: int
    """Decisions that are no longer remembered; they are not compared."""
    inconsistent: int
    """People recorded in several groups; they are not compared."""
    pooled: int
    """Groups too small to be compared one by one, which are pooled as OTHERS."""
    person: str | None
    """The column that identifies people, if there is one."""
    seed: int
    sampled: float
    """The share of distinct inputs that were compared: 1, unless there are too many pairs."""

    def find_comparison(self, one: Any, other: Any) -> GroupComparison | None:
        """Return the comparison of two groups, given by value in either order."""
        for comparison in self.comparisons:
            if {comparison.one.group.value, comparison.other.group.value} == {one, other}:
                return comparison
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON: numbers, text, lists and dictionaries only."""
        return asdict(self) | {
            "groups": [asdict(group) | {"value": str(group.value)} for group in self.groups],
            "comparisons": [_comparison_dict(comparison) for comparison in self.comparisons],
        }

    def __str__(self) -> str:
        decisions = sum(group.decisions for group in self.groups)
        lines = [f"who got less, by {format_value(self.column)}: {decisions:,} decisions"]
        for comparison in self.comparisons:
            lines += _comparison_lines(comparison)
        if len(self.groups) == 1:
            lines.append(
                f"  all of them are {format_value(self.groups[0].name)}: nothing to compare"
            )
        return "\n".join([*lines, *(f"  {note}" for note in self.left_out)])

    def _repr_html_(self) -> str | None:
        decisions = sum(group.decisions for group in self.groups)
        title = [f"who got less, by {format_value(self.column)}: {decisions:,} decisions"]
        lines = [_comparison_line(one) for one in self.comparisons]
        columns = {name: [line[name] for line in lines] for name in (lines[0] if lines else ())}
        return make_table("; ".join([*title, *self.left_out]), columns)

    @property
    def left_out(self) -> list[str]:
        """Sentences about those that are not compared."""
        return [
            f"{count:,} {single} and takes no part"
            if count == 1
            else f"{count:,} {several} and take no part"
            for count, single, several in (
                (self.without_group, "decision has no group", "decisions have no group"),
                (self.forgotten, "decision is forgotten", "decisions are forgotten"),
                (self.inconsistent, "person is in several groups", "people are in several groups"),
            )
            if count
        ]


def _comparison_dict(comparison: GroupComparison) -> dict[str, Any]:
    def side_dict(side: GroupSide) -> dict[str, Any]:
        return asdict(side) | {"group": str(side.group.value), "name": side.group.name}

    test = comparison.test
    return {
        "one": side_dict(comparison.one),
        "other": side_dict(comparison.other),
        "pairs": comparison.pairs,
        "one_less": comparison.one_less,
        "other_less": comparison.other_less,
        "neither_less": comparison.neither_less,
        "test": None if test is None else asdict(test),
        "supported": comparison.is_supported,
    }


def _comparison_line(comparison: GroupComparison) -> dict[str, Any]:
    """Return one line of a table."""
    one, other, test = comparison.one, comparison.other, comparison.test
    between = "" if test is None else f"{test.low:.4g} to {test.high:.4g}"
    return {
        "group": one.group.name,
        "compared with": other.group.name,
        "similar pairs": f"{comparison.pairs:,}",
        "got less in": f"{comparison.one_less:,}",
        "got more in": f"{comparison.other_less:,}",
        "others fared better by": "" if test is None else f"{test.difference:.4g}",
        "chance alone": between,
        "conclusion": comparison.conclusion,
    }


def _comparison_lines(comparison: GroupComparison) -> list[str]:
    one, other = comparison.one, comparison.other
    first, second = format_value(one.group.name), format_value(other.group.name)
    if comparison.pairs == 0:
        return [f"  {first} and {second}: no similar pair"]
    lines = [
        f"  {first} and {second}: {comparison.pairs:,} similar"
        f" pair{'s' * (comparison.pairs != 1)}; {first} got less in {comparison.one_less:,},"
        f" {second} in {comparison.other_less:,}, neither in {comparison.neither_less:,}"
    ]
    for side, own, others in ((one, first, second), (other, second, first)):
        lines.append(
            f"    {side.comparable:,} of {side.group.decisions:,} {own} have a similar case among"
            f" {others}: favourable {side.favourable:.4g}, their similar cases"
            f" {side.similar_favourable:.4g}; {side.got_less:,} got less than some"
        )
    test = comparison.test
    if test is None:
        lines.append(f"    {comparison.conclusion}")
    else:
        lines.append(
            f"    {second} fared better by {test.difference:.4g} within neighbourhoods (chance"
            f" alone: {test.low:.4g} to {test.high:.4g}; p = {test.p:.3g}, {test.shuffles:,}"
            f" shuffles): {comparison.conclusion}"
        )
    return lines
