"""Describes in words which groups got less: what a test supports, and what cannot be concluded.

Values from the data are not escaped: whoever prints the text has to.
"""

from collections.abc import Sequence

from likewise.explaining.compare_groups import FEWEST_PEOPLE
from likewise.tables.printing import display_value, format_number, percent, shorten
from likewise.verdict.group_effects import GroupComparison, GroupEffects, ShuffleTest

_NAMED = 2  # comparisons of a column that get a sentence of their own
_LONGEST = 60  # letters of a name
_BOTH_WAYS = "similar cases of two groups fared differently beyond chance, but in no one direction"
_NOTHING = "no difference between similar cases of two groups goes beyond chance"
_TOO_FEW = "too few similar cases across groups to conclude anything"


def group_sentences(columns: Sequence[GroupEffects]) -> list[str]:
    """Describe what tests support, and which columns show nothing beyond chance, or too little."""
    sentences = []
    unsupported: dict[str, list[str]] = {_BOTH_WAYS: [], _NOTHING: [], _TOO_FEW: []}
    for groups in columns:
        supported = [one for one in groups.comparisons if one.is_supported]
        sentences += [
            _describe_supported(groups, one, one.test) for one in supported[:_NAMED] if one.test
        ]
        more = len(supported) - _NAMED
        if more > 0:
            differ = "comparison goes" if more == 1 else "comparisons go"
            sentences.append(f"By {_name(groups.column)}: {more:,} more {differ} beyond chance.")
        if supported or len(groups.groups) < 2:
            continue
        tests = [one.test for one in groups.comparisons if one.test is not None]
        beyond = any(test.is_beyond_chance for test in tests)
        why = _BOTH_WAYS if beyond else _NOTHING if tests else _TOO_FEW
        unsupported[why].append(_name(groups.column))
    sentences += [
        f"By {' and '.join(names)}: {why}." for why, names in unsupported.items() if names
    ]
    return sentences


def _describe_supported(
    groups: GroupEffects, comparison: GroupComparison, test: ShuffleTest
) -> str:
    one, other = (_name(side.group.name) for side in (comparison.one, comparison.other))
    if groups.outcome == "share":
        what = f"got the favourable answer less often than similar {other}, by"
    else:
        what = f"got a worse output than similar {other}, on average by"
    size = difference(groups, test.difference).replace(" points", " percentage points")
    by_chance = chance(groups, test).removesuffix(" points")
    return f"By {_name(groups.column)}: {one} {what} {size} (chance alone: {by_chance})."


def difference(groups: GroupEffects, value: float) -> str:
    """Format a difference of shares, in percentage points, or of numbers."""
    return points(value) if groups.outcome == "share" else format_number(float(f"{value:.3g}"))


def points(share: float) -> str:
    """Format a difference of shares, in percentage points."""
    hundred = 100 * share
    text = f"{hundred:.1f}" if abs(hundred) >= 0.95 or hundred == 0 else f"{hundred:.2g}"
    return f"{text} points"


def chance(groups: GroupEffects, test: ShuffleTest) -> str:
    """Format the interval that holds 95 % of the differences if group plays no role."""
    low = difference(groups, test.low).removesuffix(" points")
    return f"{low} to {difference(groups, test.high)}"


def outcome(groups: GroupEffects, value: float | None) -> str:
    """Format how a group fared: a share in percent, or a mean."""
    if value is None:
        return "–"
    return percent(value) if groups.outcome == "share" else format_number(float(f"{value:.6g}"))


def p_value(p: float) -> str:
    """Format p with the digits that matter; never as 0."""
    return f"{p:.2f}" if p >= 0.1 else f"{p:.2g}"


def format_count(groups: GroupEffects, decisions: int, people: int) -> str:
    """Format a number of decisions and, where people are known, of people."""
    if groups.person is None:
        return f"{decisions:,}"
    return f"{decisions:,} ({people:,} {'person' if people == 1 else 'people'})"


def left_out(groups: GroupEffects) -> list[str]:
    """Say who is left out, and what was computed from a part."""
    notes = [f"{note}." for note in groups.left_out]
    if groups.pooled:
        notes.append(f"The {groups.pooled:,} smallest groups are compared as one: all others.")
    if groups.sampled < 1:
        notes.append(
            f"There are too many decisions or similar pairs: a random {percent(groups.sampled)} of"
            f" the distinct inputs was used (seed {groups.seed})."
        )
    return notes


def how_compared(columns: Sequence[GroupEffects], within: str | None = None) -> str:
    """Say how groups were compared, for someone who wants to repeat it; empty if none were."""
    tests = [one.test for groups in columns for one in groups.comparisons if one.test]
    if not any(groups.comparisons for groups in columns):
        return ""
    text = (
        "all similar pairs of decisions from two groups were counted, whatever their outcomes and"
        " whichever came first"
        f"{'' if within is None else f', at most {within} apart'}."
    )
    if not tests:
        return text
    shuffles = sorted({test.shuffles for test in tests})
    several = f" to {shuffles[-1]:,}" if len(shuffles) > 1 else ""
    unit = "people" if any(groups.person for groups in columns) else "decisions"
    return (
        f"{text} For the test, decisions are sorted into neighbourhoods in which every two are"
        f" alike, and groups are shuffled within them, {shuffles[0]:,}{several} times (seed"
        f" {columns[0].seed}). The difference is that of the two groups' mean outcomes within each"
        " neighbourhood, weighted by n·m/(n+m) for n and m members; p is two-sided and counts the"
        " groups as they are among the shuffles; p corrected is Holm's, for"
        f" {len(tests):,} comparison{'s' * (len(tests) != 1)}. With fewer than {FEWEST_PEOPLE}"
        f" {unit} of a group in neighbourhoods with both there is no test."
    )


def _name(text: str) -> str:
    return shorten(display_value(text), _LONGEST)
