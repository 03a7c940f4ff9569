"""The page's four pictures: rate over time, who lost, margins, and the epsilon curve."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.explaining.groups import Groups
from likewise.reports.findings import Curve, Margins
from likewise.reports.plots import (
    WIDE,
    Frame,
    box,
    dot,
    line,
    path,
    picture,
    share_axis,
    text,
    ticks,
    twice,
)
from likewise.reports.safe import shortened, shown
from likewise.reports.timeline import Stretch
from likewise.reports.words import between, figure, percent

COMPARED = 6  # pairs of groups in a picture, at most


# Rate over time


def rate_plot(stretches: Sequence[Stretch], overall: float) -> str:
    """The share that was flagged, stretch by stretch, by row or by time."""
    places = [(_place(one.start), _place(one.stop)) for one in stretches]
    usual = max(one.decisions for one in stretches)
    highest = max(
        (one for one in stretches if 4 * one.decisions >= usual), key=lambda one: one.rate
    )
    by_time = isinstance(stretches[0].start, str)

    def draw(width: int) -> str:
        marks = ticks(max(one.rate for one in stretches) * 1.08, 4)
        frame = Frame(width, 250, 46, 16, 34, 44, places[0][0], places[-1][1], marks[-1])
        points = [
            (frame.x((start + stop) / 2), frame.y(one.rate))
            for one, (start, stop) in zip(stretches, places, strict=True)
        ]
        points = [(frame.x(places[0][0]), points[0][1]), *points]
        points.append((frame.x(places[-1][1]), points[-1][1]))
        peak = places[stretches.index(highest)]
        x, y = frame.x((peak[0] + peak[1]) / 2), frame.y(highest.rate)
        anchor = "end" if x > width - 120 else "start" if x < 140 else "middle"
        return picture(
            width,
            frame.height,
            text(0, 14, "share of decisions that contradict an earlier one", "axis"),
            share_axis(frame, marks),
            path(points, "area", frame.base),
            path(points, "line"),
            line(frame.left, frame.y(overall), width - frame.right, frame.y(overall), "overall"),
            dot(x, y),
            text(x, y - 10, f"highest: {percent(highest.rate)}", "note", anchor),
            _row_ticks(frame) if not by_time else _time_ticks(frame, stretches, places),
            text(
                width - frame.right,
                frame.height - 4,
                "time" if by_time else "decision, in order of arrival",
                "axis",
                "end",
            ),
            *(
                box(
                    frame.x(start),
                    frame.top,
                    frame.x(stop) - frame.x(start),
                    frame.base - frame.top,
                    "hover",
                    f"{_name(one)}: {one.flagged:,} of {one.decisions:,} ({percent(one.rate)})",
                )
                for one, (start, stop) in zip(stretches, places, strict=True)
            ),
        )

    return twice(
        draw,
        f"Rate over time: from {percent(stretches[0].rate)} at the beginning to"
        f" {percent(stretches[-1].rate)} at the end; highest {percent(highest.rate)}, in"
        f" {_name(highest)}; {percent(overall)} overall.",
    )


def _place(where: int | str) -> float:
    """A row, or the seconds of a time, as a number."""
    return float(where if isinstance(where, int) else np.datetime64(where, "s").astype(np.int64))


def _name(stretch: Stretch) -> str:
    if isinstance(stretch.start, str) or isinstance(stretch.stop, str):
        return f"{stretch.start} up to {stretch.stop}"
    return f"rows {stretch.start:,} to {stretch.stop - 1:,}"


def _row_ticks(frame: Frame) -> str:
    marks = [one for one in ticks(frame.high, 5 if frame.width == WIDE else 3)]
    marks = [one for one in marks if frame.low <= one <= frame.high]
    return "".join(
        text(frame.x(one), frame.base + 18, f"{one:,.0f}", "tick", _anchor(frame, one))
        for one in marks
    )


def _time_ticks(
    frame: Frame, stretches: Sequence[Stretch], places: Sequence[tuple[float, float]]
) -> str:
    apart = -(-len(stretches) // (5 if frame.width == WIDE else 2))
    return "".join(
        text(
            frame.x(places[i][0]),
            frame.base + 18,
            str(stretches[i].start).replace("T", " "),
            "tick",
            _anchor(frame, places[i][0]),
        )
        for i in range(0, len(stretches), apart)
        if i == 0 or frame.x(places[i][0]) - frame.left > 100
    )


def _anchor(frame: Frame, value: float) -> str:
    x = frame.x(value)
    if x > frame.width - 50:
        return "end"
    return "start" if x < frame.left + 20 else "middle"


# Who lost


def group_plot(groups: Groups) -> str:
    """Two groups on two sides, and how often a member of each got less than one of the other."""
    pairs = between(groups)[:COMPARED]
    most = max(lost for _, _, lost, _ in pairs)

    def draw(width: int) -> str:
        middle, step, top = width / 2, 54, 40
        longest = 34 if width == WIDE else 14
        room = middle - 4
        parts = [
            text(middle - 8, 14, "the left one got less", "axis", "end"),
            text(middle + 8, 14, "the right one got less", "axis", "start"),
            line(middle, 24, middle, top + step * len(pairs) - 12, "spine"),
        ]
        for i, (loser, winner, lost, won) in enumerate(pairs):
            y = top + i * step
            parts += [
                text(middle - 8, y + 4, _side(loser, longest), "group", "end"),
                text(middle + 8, y + 4, _side(winner, longest), "group", "start"),
                _bar(middle, y + 12, -room * lost / most, "bar", _lost(loser, winner, lost)),
                _bar(middle, y + 12, room * won / most, "bar quiet", _lost(winner, loser, won)),
                _count(middle, y + 26, -room * lost / most, lost, "inside"),
                _count(middle, y + 26, room * won / most, won, "inside quiet"),
            ]
        return picture(width, top + step * len(pairs), *parts)

    said = "; ".join(
        f"{_lost(loser, winner, lost)}, {_lost(winner, loser, won)}"
        for loser, winner, lost, won in pairs
    )
    return twice(draw, f"By {groups.column}: {said}.")


def _side(group: Any, longest: int) -> str:
    return shortened(shown(group), longest)


def _lost(loser: Any, winner: Any, count: int) -> str:
    times = "once" if count == 1 else f"{count:,} times"
    return f"{_side(loser, 60)} got less than a like {_side(winner, 60)} {times}"


def _bar(middle: float, y: float, length: float, kind: str, tip: str) -> str:
    return box(min(middle, middle + length), y, abs(length), 20, kind, tip)


def _count(middle: float, y: float, length: float, count: int, kind: str) -> str:
    """Inside the bar where it is long enough, beyond its end otherwise."""
    inside = abs(length) > 70
    sign = -1 if length < 0 else 1
    at = middle + length + (-sign if inside else sign) * 8
    anchor = ("start" if sign < 0 else "end") if inside else ("end" if sign < 0 else "start")
    return text(at, y, f"{count:,}", kind if inside else "count", anchor)


# Margins


def margin_plot(margins: Margins) -> str:
    """How near the nearest contradiction of each flagged decision is."""
    counts = (margins.identical, *margins.counts)
    parts = len(margins.counts)
    total = sum(counts)

    def draw(width: int) -> str:
        marks = ticks(max(counts) / total * 1.05, 4)
        frame = Frame(width, 230, 46, 16, 34, 60, -1.6, parts, marks[-1])
        bars = []
        for i, count in enumerate(counts, -1):
            left = frame.x(i - 0.6 if i < 0 else i)
            wide = frame.x(1) - frame.x(0) - 2
            said = "the same" if i < 0 else f"above {i / parts:.2g} up to {(i + 1) / parts:.2g} ε"
            bars.append(
                box(
                    left,
                    frame.y(count / total),
                    wide,
                    frame.base - frame.y(count / total),
                    "bar" if i < 0 else "bar soft",
                    f"{said}: {count:,} ({percent(count / total)})",
                )
            )
        return picture(
            width,
            frame.height,
            text(0, 14, "share of the flagged decisions", "axis"),
            share_axis(frame, marks),
            *bars,
            text(frame.x(-1.1), frame.base + 18, "same", "tick", "middle"),
            *(
                text(
                    frame.x(parts * one),
                    frame.base + 18,
                    f"{one:g} ε",
                    "tick",
                    "end" if one == 1 else "middle",
                )
                for one in (0.25, 0.5, 0.75, 1)
            ),
            text(
                width - frame.right,
                frame.height - 22,
                "distance to the nearest contradicting decision",
                "axis",
                "end",
            ),
            text(frame.left, frame.height - 4, "◂ clearest", "axis"),
            text(width - frame.right, frame.height - 4, "just near enough ▸", "axis", "end"),
        )

    half = sum(counts[: 1 + parts // 2])
    return twice(
        draw,
        f"Of {total:,} flagged decisions {margins.identical:,} contradict one that is the same in"
        f" everything that counts, and {half:,} contradict one within half of epsilon.",
    )


# The epsilon curve


def curve_plot(curve: Curve) -> str:
    """The share flagged at every epsilon, with the chosen one marked."""

    def draw(width: int) -> str:
        marks = ticks(max(*curve.rates, 1e-6) * 1.02, 4)
        frame = Frame(width, 260, 46, 16, 34, 44, 0.0, curve.epsilons[-1], marks[-1])
        points = [(frame.x(0.0), frame.y(curve.rates[0]))]
        for one, rate in zip(curve.epsilons, curve.rates, strict=True):
            points += [(frame.x(one), points[-1][1]), (frame.x(one), frame.y(rate))]
        x, y = frame.x(curve.chosen), frame.y(curve.rate_at_chosen)
        after = x < width * 0.6
        low = curve.rate_at_chosen < 0.6 * marks[-1]  # then there is room at the top
        said = f"ε = {figure(curve.chosen)}: {percent(curve.rate_at_chosen)}"
        return picture(
            width,
            frame.height,
            text(0, 14, "share of decisions that would be flagged", "axis"),
            share_axis(frame, marks),
            path(points, "area", frame.base),
            line(x, frame.top, x, frame.base, "marker"),
            path(points, "line"),
            dot(x, y),
            text(
                x + (10 if after else -10),
                frame.top + 14 if low else min(y + 30, frame.base - 6),
                said,
                "note",
                "start" if after else "end",
            ),
            *(
                text(frame.x(one), frame.base + 18, figure(one), "tick", _anchor(frame, one))
                for one in ticks(curve.epsilons[-1], 5 if width == WIDE else 3)
                if one <= curve.epsilons[-1]
            ),
            text(
                width - frame.right,
                frame.height - 4,
                "ε: how far apart still counts as alike",
                "axis",
                "end",
            ),
        )

    return twice(
        draw,
        f"At the chosen epsilon of {figure(curve.chosen)}, {percent(curve.rate_at_chosen)} are"
        f" flagged; at {figure(curve.epsilons[-1])} it would be {percent(curve.rates[-1])}.",
    )
