"""Who got less: two groups of a protected column, compared where their members are alike.

Every count has its denominator beside it: like pairs across the two groups whatever the outcome,
decisions that have a like case in the other group at all, and people. `ShuffleTest` says how large
the difference would be if group played no role (permutation.py).

Invariant: frozen, and free of the order in which decisions came.
Not here: how it is counted (comparing.py), how it is told (reports/group_words.py).
"""

from dataclasses import asdict, dataclass
from typing import Any

from likewise.tables.printing import format_value


class _Others:
    """All groups beyond those that are compared one by one."""

    def __repr__(self) -> str:
        return "all others"


OTHERS = _Others()


@dataclass(frozen=True)
class Group:
    """One group of a column, whether or not it has a like case anywhere."""

    value: Any
    """As it is in the data; OTHERS for all small groups together."""
    name: str
    """As the rule's labels call it."""
    decisions: int
    people: int
    """Distinct values of the person column; without one each decision counts as a person."""
    favourable: float
    """The share of its decisions with the favourable output; for numbers the mean."""


@dataclass(frozen=True)
class GroupSide:
    """One of two groups that are compared, seen from its own side."""

    group: Group
    comparable: int
    """Decisions that have a like case in the other group, earlier or later."""
    comparable_people: int
    favourable: float | None
    """The share of favourable outputs among the comparable ones; for numbers the mean."""
    like_favourable: float | None
    """The same of their like cases in the other group: the mean for each, averaged over them."""
    got_less: int
    """Decisions that got less than some like case in the other group."""
    got_less_people: int
    gap: float | None
    """How much better the like cases fared, on average: the difference of the two above, with its
    sign turned where low numbers are wanted. Below 0: they fared worse."""
    in_test: int
    """People in neighbourhoods that have members of both groups."""


@dataclass(frozen=True)
class ShuffleTest:
    """A difference within neighbourhoods, beside what shuffled groups give (permutation.py)."""

    difference: float
    """How much better `other` fared than `one`, within neighbourhoods."""
    low: float
    high: float
    """95 % of the differences lie between these if group played no role."""
    p: float
    """The share of shuffles with a difference as large, in either direction; two-sided."""
    p_corrected: float
    """The same for all comparisons that were looked at together (Holm)."""
    shuffles: int
    neighbourhoods: int

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the difference stands out among all comparisons that were looked at."""
        return self.p_corrected <= 0.05


@dataclass(frozen=True)
class GroupComparison:
    """Two groups; `one` is the one that got less within neighbourhoods, if any did."""

    one: GroupSide
    other: GroupSide
    pairs: int
    """Like pairs across the two groups, whatever the outcomes."""
    one_less: int
    """Pairs in which the member of `one` got less."""
    other_less: int
    test: ShuffleTest | None
    """None: too few to conclude anything."""

    @property
    def neither_less(self) -> int:
        """Pairs that were treated alike: neither got less."""
        return self.pairs - self.one_less - self.other_less

    @property
    def is_one_directional(self) -> bool:
        """Whether the like cases of either side tell the same direction as the test.

        They weigh people, and the test neighbourhoods. Where a group got less among many like cases
        and more among few, the two may part ways, and nothing can be said in one sentence.
        """
        return (self.one.gap or 0.0) > 0.0 > (self.other.gap or 0.0)

    @property
    def is_supported(self) -> bool:
        """Whether `one` got less than `other`, beyond chance and whichever way it is weighed."""
        return self.test is not None and self.test.is_beyond_chance and self.is_one_directional

    @property
    def conclusion(self) -> str:
        """What may be said of it, in a few words."""
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
    """Everything about one protected column."""

    column: str
    outcome: str
    """What `favourable` is: "share" for labels, "mean" for numbers."""
    higher_is_better: bool
    """False where the rule wants low numbers: then a mean of 2 is better than one of 3."""
    groups: tuple[Group, ...]
    """The largest first."""
    comparisons: tuple[GroupComparison, ...]
    """Each two groups once: first what is supported, then those with the most like pairs."""
    missing: int
    """Decisions without a group; they take no part."""
    forgotten: int
    """Decisions that are no longer remembered; they take no part."""
    inconsistent: int
    """People recorded under several groups; they take no part."""
    pooled: int
    """Groups too small to be compared one by one, which are together under OTHERS."""
    person: str | None
    """The column that tells people apart, if there is one."""
    seed: int
    sampled: float
    """The share of distinct inputs that were looked at: 1, unless there are too many like pairs."""

    def find_comparison(self, one: Any, other: Any) -> GroupComparison | None:
        """The comparison of two groups by value, whichever way round it is kept."""
        for comparison in self.comparisons:
            if {comparison.one.group.value, comparison.other.group.value} == {one, other}:
                return comparison
        return None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers, text, lists and dictionaries only."""
        return asdict(self) | {
            "groups": [asdict(one) | {"value": str(one.value)} for one in self.groups],
            "comparisons": [_comparison_dict(one) for one in self.comparisons],
        }

    def __str__(self) -> str:
        many = sum(one.decisions for one in self.groups)
        lines = [f"who got less, by {format_value(self.column)}: {many:,} decisions"]
        for one in self.comparisons:
            lines += _lines(one)
        if len(self.groups) == 1:
            lines.append(
                f"  all of them are {format_value(self.groups[0].name)}: nothing to compare"
            )
        return "\n".join([*lines, *(f"  {note}" for note in self.left_out)])

    @property
    def left_out(self) -> list[str]:
        """Who takes no part, one sentence each."""
        return [
            f"{count:,} {one} and takes no part"
            if count == 1
            else f"{count:,} {many} and take no part"
            for count, one, many in (
                (self.missing, "decision has no group", "decisions have no group"),
                (self.forgotten, "decision is forgotten", "decisions are forgotten"),
                (self.inconsistent, "person is in several groups", "people are in several groups"),
            )
            if count
        ]


def _comparison_dict(comparison: GroupComparison) -> dict[str, Any]:
    def side(one: GroupSide) -> dict[str, Any]:
        return asdict(one) | {"group": str(one.group.value), "name": one.group.name}

    test = comparison.test
    return {
        "one": side(comparison.one),
        "other": side(comparison.other),
        "pairs": comparison.pairs,
        "one_less": comparison.one_less,
        "other_less": comparison.other_less,
        "neither_less": comparison.neither_less,
        "test": None if test is None else asdict(test),
        "supported": comparison.is_supported,
    }


def _lines(comparison: GroupComparison) -> list[str]:
    one, other = comparison.one, comparison.other
    names = format_value(one.group.name), format_value(other.group.name)
    if comparison.pairs == 0:
        return [f"  {names[0]} and {names[1]}: no like pair"]
    lines = [
        f"  {names[0]} and {names[1]}: {comparison.pairs:,} like"
        f" pair{'s' * (comparison.pairs != 1)}; {names[0]} got less in {comparison.one_less:,},"
        f" {names[1]} in {comparison.other_less:,}, neither in {comparison.neither_less:,}"
    ]
    for side, own, like in ((one, names[0], names[1]), (other, names[1], names[0])):
        lines.append(
            f"    {side.comparable:,} of {side.group.decisions:,} {own} have a like case among"
            f" {like}: favourable {side.favourable:.4g}, their like cases"
            f" {side.like_favourable:.4g}; {side.got_less:,} got less than some"
        )
    test = comparison.test
    if test is None:
        lines.append(f"    {comparison.conclusion}")
    else:
        lines.append(
            f"    {names[1]} fared better by {test.difference:.4g} within neighbourhoods;"
            f" {test.low:.4g} to {test.high:.4g} if group played no role"
            f" (p = {test.p:.3g}, {test.shuffles:,} shuffles): {comparison.conclusion}"
        )
    return lines
