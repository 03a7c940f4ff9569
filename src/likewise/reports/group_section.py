"""The part of the report about groups: a picture of what was tested, a table of all comparisons.

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
from likewise.verdict.group_effects import GroupComparison, GroupEffects, GroupSide
from likewise.verdict.html import display_value, readable, render, shorten

_COMPARED = 8  # comparisons in a picture, at most
_STEP, _TOP, _EDGE = 58, 44, 16
_TABLE = 8  # comparisons in the table before the rest is folded away
_LEAD = (
    "Two groups can be compared where their members are alike. How many of each group have a like"
    " case in the other, earlier or later, and how did they fare? The picture shows how much less"
    " the first of two groups got than the second among like cases. The band is what comes about by"
    " chance: groups were shuffled among like cases, and 95% of the differences lie in it."
)


def group_section(
    columns: Sequence[GroupEffects], no_groups: str | None, name: str = "groups", of: str = ""
) -> str:
    """All protected columns; no_groups: why nothing is compared, if so.

    name, of: what the part of the page is called, and whose decisions it is about
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
        why = "No decision has a like case in another group: nothing follows."
    elif not drawn:
        why = "There are too few like cases to conclude anything."
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
            "have a like case in the other group",
            f"{good} among these",
            f"{good} of their like cases",
            "got less than some like case",
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
            "chance": chance(groups, comparison),
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


# The picture


def _choose_drawn(groups: GroupEffects) -> list[GroupComparison]:
    """The comparisons that a picture shows: tested ones, in the order in which they are told."""
    return [one for one in groups.comparisons if one.test is not None][:_COMPARED]


def _plot(groups: GroupEffects) -> str:
    """For each two groups the difference within neighbourhoods, on the band of chance."""
    drawn = _choose_drawn(groups)
    ends = [0.0]
    for one in drawn:
        assert one.test is not None
        ends += [one.test.low, one.test.high, one.test.difference]
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
        for i, one in enumerate(drawn):
            test = one.test
            assert test is not None
            told = difference(groups, test.difference)
            told = f"{told}, {one.conclusion}" if width == WIDE else told
            texts = (
                " · ".join(_names(one, 32 if width == WIDE else 13)),
                told,
                _describe_test(groups, one),
            )
            values = test.low, test.high, test.difference
            kind = "dot" if one.is_supported else "dot open"
            parts += draw_interval(width, x, _TOP + i * _STEP, texts, values, kind)
        return picture(width, bottom, *parts)

    return draw_both_widths(
        draw, f"By {groups.column}: {'; '.join(_describe_test(groups, one) for one in drawn)}."
    )


def _names(comparison: GroupComparison, longest: int) -> list[str]:
    sides = comparison.one, comparison.other
    return [shorten(display_value(side.group.name), longest) for side in sides]


def _describe_test(groups: GroupEffects, comparison: GroupComparison) -> str:
    test = comparison.test
    assert test is not None
    one, other = _names(comparison, 60)
    return (
        f"{one} got less than {other} by {difference(groups, test.difference)}, chance gives"
        f" {chance(groups, comparison)}: {comparison.conclusion}"
    )
