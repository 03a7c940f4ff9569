"""Draws the plots of the report: rate over time, margins, and the epsilon curves."""

from collections.abc import Sequence

import numpy as np

from likewise.reports.findings import Curve
from likewise.reports.plots import (
    WIDE,
    Frame,
    box,
    chart,
    dot,
    draw_both_widths,
    line,
    path,
    text,
    ticks,
)
from likewise.reports.timeline import Stretch
from likewise.reports.totals import Margins
from likewise.tables.printing import format_number, percent

MIN_POINT = 10  # a stretch with fewer comparable decisions is not drawn

# Rate over time


def choose_drawn(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Choose the stretches whose rate is drawn: not a share of a handful of decisions."""
    large = [one for one in stretches if one.comparable is None or one.of >= MIN_POINT]
    return large or [one for one in stretches if one.of] or list(stretches)


def rate_plot(every: Sequence[Stretch], overall: float) -> str:
    """Draw the share that was flagged, stretch by stretch, by row or by time."""
    stretches = choose_drawn(every)
    places = [(_place(one.start), _place(one.stop)) for one in stretches]
    ends = _place(every[0].start), _place(every[-1].stop)
    usual = max(one.of for one in stretches)
    highest = max((one for one in stretches if 4 * one.of >= usual), key=lambda one: one.rate)
    by_time = isinstance(stretches[0].start, str)
    what = "decisions" if stretches[0].comparable is None else "comparable decisions"

    def draw(width: int) -> str:
        marks = ticks(max(one.rate for one in stretches) * 1.08, 4)
        frame = Frame(width, 250, 44, *ends, marks[-1])
        points = [
            (frame.x((start + stop) / 2), frame.y(one.rate))
            for one, (start, stop) in zip(stretches, places, strict=True)
        ]
        points = [(frame.x(places[0][0]), points[0][1]), *points]
        points.append((frame.x(places[-1][1]), points[-1][1]))
        peak = places[stretches.index(highest)]
        x, y = frame.x((peak[0] + peak[1]) / 2), frame.y(highest.rate)
        anchor = "end" if x > width - 120 else "start" if x < 140 else "middle"
        return chart(
            frame,
            marks,
            f"share of {what} that contradict",
            "time (UTC)" if by_time else "decision, in the order judged",
            path(points, "area", frame.base),
            path(points, "line"),
            line(frame.left, frame.y(overall), width - frame.right, frame.y(overall), "overall"),
            dot(x, y),
            text(x, y - 10, f"highest: {percent(highest.rate)}", "note", anchor),
            _row_ticks(frame) if not by_time else _time_ticks(frame, stretches, places),
            *(
                box(
                    frame.x(start),
                    frame.top,
                    frame.x(stop) - frame.x(start),
                    frame.base - frame.top,
                    "hover",
                    _tip(one),
                )
                for one, (start, stop) in zip(stretches, places, strict=True)
            ),
        )

    return draw_both_widths(
        draw,
        f"Rate over time: from {percent(stretches[0].rate)} at the beginning to"
        f" {percent(stretches[-1].rate)} at the end; highest {percent(highest.rate)}, in"
        f" {_name(highest)}; {percent(overall)} overall.",
    )


def _place(where: int | str) -> float:
    """Return a row, or the seconds of a time, as a number."""
    return float(where if isinstance(where, int) else np.datetime64(where, "s").astype(np.int64))


def _name(stretch: Stretch) -> str:
    if isinstance(stretch.start, str) or isinstance(stretch.stop, str):
        return f"{stretch.start} up to {stretch.stop} (UTC)"
    return f"rows {stretch.start:,} to {stretch.stop - 1:,}"


def _tip(one: Stretch) -> str:
    compared = "" if one.comparable is None else f" comparable of {one.decisions:,}"
    return f"{_name(one)}: {one.flagged:,} of {one.of:,}{compared} ({percent(one.rate)})"


def _row_ticks(frame: Frame) -> str:
    marks = ticks(frame.high, 5 if frame.width == WIDE else 3)
    return "".join(
        _tick(frame, one, f"{one:,.0f}") for one in marks if frame.low <= one <= frame.high
    )


def _time_ticks(
    frame: Frame, stretches: Sequence[Stretch], places: Sequence[tuple[float, float]]
) -> str:
    apart = -(-len(stretches) // (5 if frame.width == WIDE else 2))
    return "".join(
        _tick(frame, places[i][0], str(stretches[i].start).replace("T", " "))
        for i in range(0, len(stretches), apart)
        if i == 0 or frame.x(places[i][0]) - frame.left > 100
    )


def _tick(frame: Frame, value: float, words: str) -> str:
    x = frame.x(value)
    anchor = "end" if x > frame.width - 50 else "start" if x < frame.left + 20 else "middle"
    return text(x, frame.base + 18, words, "tick", anchor)


# Margins


def margin_plot(margins: Margins) -> str:
    """Draw how near the nearest contradiction of each flagged decision is."""
    counts = (margins.identical, *margins.counts)
    parts = len(margins.counts)
    total = sum(counts)

    def draw(width: int) -> str:
        marks = ticks(max(counts) / total * 1.05, 4)
        frame = Frame(width, 230, 60, -1.6, parts, marks[-1])
        bars = []
        for i, count in enumerate(counts, -1):
            left = frame.x(i - 0.6 if i < 0 else i)
            wide = frame.x(1) - frame.x(0) - 2
            where = "the same" if i < 0 else f"above {i / parts:.2g} up to {(i + 1) / parts:.2g} ε"
            top, kind = frame.y(count / total), "bar" if i < 0 else "bar soft"
            tip = f"{where}: {count:,} ({percent(count / total)})"
            bars.append(box(left, top, wide, frame.base - top, kind, tip))
        return chart(
            frame,
            marks,
            "share of the flagged decisions",
            "just near enough ▸",
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
        )

    half = sum(counts[: 1 + parts // 2])
    return draw_both_widths(
        draw,
        f"Of {total:,} flagged decisions {margins.identical:,} contradict one that is the same in"
        f" all compared columns, and {half:,} contradict one within half of epsilon.",
    )


# The epsilon curve


def curve_plot(curve: Curve) -> str:
    """Draw the share flagged at every epsilon, with the chosen one marked."""
    return _over_epsilon(curve, curve.rates, curve.rate_at_chosen, "flagged", "are flagged")


def comparable_plot(curve: Curve) -> str:
    """Draw the share of decisions with an earlier similar case, at every epsilon."""
    assert curve.comparable is not None and curve.comparable_at_chosen is not None
    at_chosen, words = curve.comparable_at_chosen, "have an earlier similar case"
    return _over_epsilon(curve, curve.comparable, at_chosen, "comparable", words)


def _over_epsilon(
    curve: Curve, rates: Sequence[float], at_chosen: float, what: str, words: str
) -> str:
    label = (
        f"At the chosen epsilon of {format_number(curve.chosen)}, {percent(at_chosen)} {words};"
        f" at {format_number(curve.epsilons[-1])} it would be {percent(rates[-1])}."
    )

    def draw(width: int) -> str:
        marks = ticks(max(*rates, 1e-6) * 1.02, 4)
        frame = Frame(width, 260, 44, 0.0, curve.epsilons[-1], marks[-1])
        points = [(frame.x(0.0), frame.y(rates[0]))]
        for one, rate in zip(curve.epsilons, rates, strict=True):
            points += [(frame.x(one), points[-1][1]), (frame.x(one), frame.y(rate))]
        x, y = frame.x(curve.chosen), frame.y(at_chosen)
        after = x < width * 0.6
        low = at_chosen < 0.6 * marks[-1]  # then there is room at the top
        note = f"ε = {format_number(curve.chosen)}: {percent(at_chosen)}"
        return chart(
            frame,
            marks,
            f"share of decisions that would be {what}",
            "ε: how far apart still counts as alike",
            path(points, "area", frame.base),
            line(x, frame.top, x, frame.base, "marker"),
            path(points, "line"),
            dot(x, y),
            text(
                x + (10 if after else -10),
                frame.top + 14 if low else min(y + 30, frame.base - 6),
                note,
                "note",
                "start" if after else "end",
            ),
            *(
                _tick(frame, one, format_number(one))
                for one in ticks(curve.epsilons[-1], 5 if width == WIDE else 3)
                if one <= curve.epsilons[-1]
            ),
        )

    return draw_both_widths(draw, label)
