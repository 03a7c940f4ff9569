"""A picture of the differences between groups, each beside what chance gives."""

from likewise.explaining.groups import GroupComparison, Groups
from likewise.reports.group_words import chance, difference
from likewise.reports.plots import WIDE, box, dot, line, picture, text, twice
from likewise.values.safe import shortened, shown

COMPARED = 8  # comparisons in a picture, at most
_STEP, _TOP, _EDGE = 58, 44, 16


def drawn_of(groups: Groups) -> list[GroupComparison]:
    """The comparisons that a picture shows: tested ones, in the order in which they are told."""
    return [one for one in groups.comparisons if one.test is not None][:COMPARED]


def group_plot(groups: Groups) -> str:
    """For each two groups the difference within neighbourhoods, on the band of chance."""
    drawn = drawn_of(groups)
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
            test, y = one.test, _TOP + i * _STEP
            assert test is not None
            told = difference(groups, test.difference)
            told = f"{told}, {one.conclusion}" if width == WIDE else told
            wide = x(test.high) - x(test.low)
            parts += [
                text(0, y, _names(one, 32 if width == WIDE else 13), "group"),
                text(width, y, told, "count", "end"),
                box(x(test.low), y + 12, max(wide, 2.0), 14, "chance", _said(groups, one)),
                dot(x(test.difference), y + 19, "dot" if one.supported else "dot open"),
            ]
        return picture(width, bottom, *parts)

    return twice(draw, f"By {groups.column}: {'; '.join(_said(groups, one) for one in drawn)}.")


def _names(comparison: GroupComparison, longest: int) -> str:
    one, other = (
        shortened(shown(side.group.name), longest) for side in (comparison.one, comparison.other)
    )
    return f"{one} · {other}"


def _said(groups: Groups, comparison: GroupComparison) -> str:
    test = comparison.test
    assert test is not None
    one, other = (
        shortened(shown(side.group.name), 60) for side in (comparison.one, comparison.other)
    )
    return (
        f"{one} got less than {other} by {difference(groups, test.difference)}, chance gives"
        f" {chance(groups, comparison)}: {comparison.conclusion}"
    )
