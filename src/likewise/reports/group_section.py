"""Renders the part of the report about groups: a plot of what was tested, and all comparisons."""

from collections.abc import Sequence
from typing import Any

from likewise.explaining.compare_groups import FEWEST_PEOPLE
from likewise.reports.charts import WIDE, draw_both_widths, draw_interval, line, picture, text
from likewise.tables.printing import display_value, format_number, percent, shorten
from likewise.verdict.group_effects import GroupComparison, GroupEffects, GroupSide, ShuffleTest
from likewise.verdict.html import readable, render
from likewise.verdict.model_counts import ModelCounts

_MODEL_TABLE = 20  # models in the table before the rest is folded away
_MODEL_LEAD = (
    "Which model decided is known. A decision may contradict an earlier one of the same model, or"
    " one of another model: the first says that a model is not consistent with itself, the second"
    " that two models do not agree."
)
_COUNTED = " Each count is of the decisions that had such an earlier similar case."
_UNCOUNTED = "there are too many similar pairs, or earlier decisions are forgotten"

_ONLY = {
    "all": "",
    "within": " By the rule, only decisions of the same model are compared.",
    "across": " By the rule, only decisions of different models are compared.",
}


def model_section(
    models: Sequence[ModelCounts], compare: str, *, uncounted: str = _UNCOUNTED
) -> str:
    """Render a table by model; nothing where no model is known.

    compare: which decisions the rule compares
    uncounted: why the similar cases within and across models are not counted, where they are not
    """
    if not models:
        return ""
    is_counted = compare != "all" or all(one.within.comparable is not None for one in models)
    heads = ["model", "decisions", "contradict an earlier one"]
    for side, whose in ((models[0].within, "its own"), (models[0].across, "another model’s")):
        heads += [f"contradict {whose}"] * side.compared
    return render(
        "reports/model_section.html",
        lead=_MODEL_LEAD + (_COUNTED if is_counted else "") + _ONLY[compare],
        heads=heads,
        rows=[(name_of(one.model), _cells(one)) for one in models],
        most=_MODEL_TABLE,
        uncounted="" if is_counted else uncounted,
    )


def _cells(one: ModelCounts) -> list[str]:
    cells = [f"{one.decisions:,}", _format_flagged(one.violations, one.comparable)]
    for side in (one.within, one.across):
        cells += [_format_flagged(side.violations, side.comparable)] * side.compared
    return cells


def _format_flagged(flagged: int, comparable: int | None) -> str:
    """Format how many contradict, of those that could; how many could is not always known."""
    if comparable is None:
        return f"{flagged:,}"
    share = f" ({percent(flagged / comparable)})" if comparable else ""
    return f"{flagged:,} of {comparable:,}{share}"


def name_of(model: str | None) -> str:
    """Name a model for people."""
    return "no model given" if model is None else model


_NAMED = 2  # comparisons of a column that get a sentence of their own
_LONGEST = 60  # letters of a name
_BOTH_WAYS = "similar cases of two groups fared differently beyond chance, but in no one direction"
_NOTHING = "no difference between similar cases of two groups goes beyond chance"
_TOO_FEW = "too few similar cases across groups to conclude anything"


# Describes in words which groups got less: what a test supports, and what cannot be concluded.
# Values from the data are not escaped: whoever prints the text has to.


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


def _describe_supported(groups: GroupEffects, found: GroupComparison, test: ShuffleTest) -> str:
    one, other = (_name(side.group.name) for side in (found.one, found.other))
    what = f"got a worse output than similar {other}, on average by"
    if groups.outcome == "share":
        what = f"got the favourable answer less often than similar {other}, by"
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


_COMPARED = 8  # the most comparisons in a plot
_STEP, _TOP, _EDGE = 58, 44, 16
_TABLE = 8  # comparisons in the table before the rest is folded away
_LEAD = (
    "Two groups can be compared where their members are similar. How many of each group have a"
    " similar case in the other, earlier or later, and how did they fare? The plot shows how much"
    " less the first of two groups got than the second among similar cases. The band shows what"
    " chance alone gives: groups were shuffled among similar cases, and 95% of the differences lie"
    " in it."
)


def group_section(
    columns: Sequence[GroupEffects], no_groups: str | None, name: str = "groups", of: str = ""
) -> str:
    """Render all protected columns; no_groups: why nothing is compared, if so.

    name, of: the name of this part of the page, and whose decisions it is about
    """
    compared = [_column(groups) for groups in columns if groups.groups]
    if not compared and not no_groups:
        return ""
    return render(
        "reports/group_section.html",
        no_groups=None if no_groups is None else readable(no_groups, 400),
        name=name,
        title=f"Who got less{of}",
        lead=_LEAD,
        columns=compared,
        most=_TABLE,
    )


def _column(groups: GroupEffects) -> dict[str, Any]:
    drawn = _choose_drawn(groups)
    why = ""
    if not any(one.pairs for one in groups.comparisons):
        why = "No decision has a similar case in another group: nothing follows."
    elif not drawn:
        why = "There are too few similar cases to conclude anything."
    tested = sum(one.test is not None for one in groups.comparisons)
    is_share = groups.outcome == "share"
    good = "favourable answer" if is_share else "mean output"
    return {
        "name": groups.column,
        "plot": _plot(groups) if drawn else None,
        "first": f"The first {_COMPARED} of {tested:,} tested comparisons. " * (tested > _COMPARED),
        "what": "the share of favourable answers" if is_share else "the mean output",
        "only": display_value(groups.groups[0].name) if len(groups.groups) == 1 else None,
        "why": why,
        "heads": (
            "group",
            "decisions",
            good,
            "have a similar case in the other group",
            f"{good} among these",
            f"{good} of their similar cases",
            "got less than some similar case",
        ),
        "comparisons": [_comparison(groups, one) for one in groups.comparisons],
        "left_out": left_out(groups),
    }


def _comparison(groups: GroupEffects, comparison: GroupComparison) -> dict[str, Any]:
    test = comparison.test
    sides = [_side(groups, side) for side in (comparison.one, comparison.other)]
    words = test and {
        "difference": difference(groups, test.difference),
        "chance": chance(groups, test),
        "p": p_value(test.p),
        "corrected": p_value(test.p_corrected),
    }
    return {"found": comparison, "test": words, "sides": sides}


def _side(groups: GroupEffects, side: GroupSide) -> dict[str, Any]:
    cells = (
        format_count(groups, side.group.decisions, side.group.people),
        outcome(groups, side.group.favourable),
        format_count(groups, side.comparable, side.comparable_people),
        outcome(groups, side.favourable),
        outcome(groups, side.similar_favourable),
        format_count(groups, side.got_less, side.got_less_people),
    )
    return {"name": display_value(side.group.name), "cells": cells}


# The plot


def _choose_drawn(groups: GroupEffects) -> list[tuple[GroupComparison, ShuffleTest]]:
    """Choose the comparisons that a plot shows: the first that were tested."""
    tested = [(one, one.test) for one in groups.comparisons if one.test is not None]
    return tested[:_COMPARED]


def _plot(groups: GroupEffects) -> str:
    """Draw for each two groups the difference within neighbourhoods, on the band of chance."""
    drawn = _choose_drawn(groups)
    ends = [0.0]
    for _, test in drawn:
        ends += [test.low, test.high, test.difference]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0

    def draw(width: int) -> str:
        def x(value: float) -> float:
            return _EDGE + (value - low) / span * (width - 2 * _EDGE)

        bottom = _TOP + _STEP * len(drawn)
        anchor = "start" if x(0.0) < 60 else "end" if x(0.0) > width - 60 else "middle"
        parts = [
            text(x(0.0), 14, "no difference", "axis", anchor),
            line(x(0.0), 20, x(0.0), bottom - 10, "grid"),
        ]
        for i, (one, test) in enumerate(drawn):
            result = difference(groups, test.difference)
            texts = (
                " · ".join(_names(one, 32 if width == WIDE else 13)),
                f"{result}, {one.conclusion}" if width == WIDE else result,
                _describe_test(groups, one, test),
            )
            values = test.low, test.high, test.difference
            kind = "dot" if one.is_supported else "dot open"
            parts += draw_interval(width, x, _TOP + i * _STEP, texts, values, kind)
        return picture(width, bottom, *parts)

    tests = "; ".join(_describe_test(groups, *one) for one in drawn)
    return draw_both_widths(draw, f"By {groups.column}: {tests}.")


def _names(comparison: GroupComparison, longest: int) -> list[str]:
    sides = comparison.one, comparison.other
    return [shorten(display_value(side.group.name), longest) for side in sides]


def _describe_test(groups: GroupEffects, comparison: GroupComparison, test: ShuffleTest) -> str:
    one, other = _names(comparison, 60)
    return (
        f"{one} got less than {other} by {difference(groups, test.difference)}, chance alone gives"
        f" {chance(groups, test)}: {comparison.conclusion}"
    )
