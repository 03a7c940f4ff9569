"""Renders the part of the report about groups: a plot of what was tested, and all comparisons.

Not here: the words (group_words.py).
"""

from collections.abc import Sequence
from typing import Any

from likewise.reports.group_words import (
    chance,
    difference,
    format_count,
    left_out,
    outcome,
    p_value,
)
from likewise.reports.plots import WIDE, draw_both_widths, draw_interval, line, picture, text
from likewise.tables.printing import display_value, shorten
from likewise.verdict.group_effects import GroupComparison, GroupEffects, GroupSide, ShuffleTest
from likewise.verdict.html import readable, render

_COMPARED = 8  # the most comparisons in a plot
_STEP, _TOP, _EDGE = 58, 44, 16
_TABLE = 8  # comparisons in the table before the rest is folded away
_LEAD = (
    "Two groups can be compared where their members are alike. How many of each group have a"
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
        "first": f"The first {_COMPARED} of {tested:,} tested comparisons. "
        if tested > _COMPARED
        else "",
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
    return {
        "found": comparison,
        "test": test
        and {
            "difference": difference(groups, test.difference),
            "chance": chance(groups, test),
            "p": p_value(test.p),
            "corrected": p_value(test.p_corrected),
        },
        "sides": [_side(groups, side) for side in (comparison.one, comparison.other)],
    }


def _side(groups: GroupEffects, side: GroupSide) -> dict[str, Any]:
    cells = (
        format_count(groups, side.group.decisions, side.group.people),
        outcome(groups, side.group.favourable),
        format_count(groups, side.comparable, side.comparable_people),
        outcome(groups, side.favourable),
        outcome(groups, side.like_favourable),
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
