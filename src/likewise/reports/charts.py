"""Draws the plots of the report: rate over time, margins, and the epsilon curves."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from likewise.reports.findings import Curve
from likewise.reports.timeline import Stretch
from likewise.reports.totals import Margins
from likewise.tables.printing import format_number, percent
from likewise.verdict.html import escape_html

WIDE, NARROW = 760, 340


# Draws plots as inline SVG; colours come from the page's style sheet.
# Every plot is drawn twice, for a wide page and for a phone, and the style sheet shows the one that
# fits: text in a plot that shrinks with its page could not be read. A plot has a label that says
# what it shows, and each bar or point has a tooltip with its numbers.
#
# Invariant: values from the data are escaped here, so that a plot is `Markup`.


@dataclass(frozen=True)
class Frame:
    """Holds the margins of a plot, and converts values to places in it."""

    width: int
    height: int
    bottom: int
    low: float
    high: float
    most: float
    left: int = 46
    right: int = 16
    top: int = 34

    def x(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        return self.left + (value - self.low) / span * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        room = self.height - self.top - self.bottom
        return self.height - self.bottom - value / (self.most or 1.0) * room

    @property
    def base(self) -> float:
        return self.y(0.0)


def draw_both_widths(draw: Callable[[int], str], label: str) -> Markup:
    """Draw a plot for wide and for narrow pages."""
    return Markup(
        "".join(
            f'<div class="{name}">{draw(width)}</div>'.replace(
                "<svg ", f'<svg role="img" aria-label="{escape_html(label, None)}" ', 1
            )
            for name, width in (("wide", WIDE), ("narrow", NARROW))
        )
    )


def picture(width: int, height: int, *parts: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"{''.join(parts)}</svg>"
    )


def text(x: float, y: float, words: str, kind: str = "tick", anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"'
        f' text-anchor="{anchor}">{escape_html(words)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def box(x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> str:
    inside = f"<title>{escape_html(tip)}</title>" if tip else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}"'
        f' height="{max(height, 0):.1f}">{inside}</rect>'
    )


def dot(x: float, y: float, kind: str = "dot") -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def path(points: Sequence[tuple[float, float]], kind: str, close_at: float | None = None) -> str:
    """Draw a line through points; with `close_at`, the area between it and that height."""
    drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    if close_at is not None:
        drawn += f"L{points[-1][0]:.1f} {close_at:.1f}L{points[0][0]:.1f} {close_at:.1f}Z"
    return f'<path class="{kind}" d="M{drawn}"/>'


def draw_interval(
    width: int,
    x: Callable[[float], float],
    y: float,
    texts: tuple[str, str, str],
    values: tuple[float, float, float],
    kind: str = "dot",
) -> list[str]:
    """Draw one row of a plot: an interval as a band, and a value in it as a dot.

    texts   the name at its beginning, the text at its end, and the tooltip
    values  where the band begins and ends, and where the dot is
    """
    name, result, tip = texts
    low, high, value = map(x, values)
    return [
        text(0, y, name, "group"),
        text(width, y, result, "count", "end"),
        box(low, y + 12, max(high - low, 2.0), 14, "chance", tip),
        dot(value, y + 19, kind),
    ]


def chart(frame: Frame, marks: Sequence[float], above: str, below: str, *parts: str) -> str:
    """Draw a plot with an axis of shares at its left; `above` and `below` name both axes."""
    at = frame.width - frame.right, frame.height - 4
    axes = text(0, 14, above, "axis"), share_axis(frame, marks), text(*at, below, "axis", "end")
    return picture(frame.width, frame.height, *axes, *parts)


def ticks(most: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 up to `most` or just above."""
    if not most > 0 or not math.isfinite(most):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(most / count))
    step = next(
        (one * power for one in (1, 2, 2.5, 5, 10) if one * power * count >= most * (1 - 1e-9)),
        10 * power,
    )
    return [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]


def share_ticks(most: float) -> list[float]:
    """Return round shares up to `most` or just above; an axis of shares ends at 100 %."""
    return ticks(min(most, 1.0))


def share_axis(frame: Frame, marks: Sequence[float]) -> str:
    """Draw horizontal lines, with shares in percent beside them."""
    digits = 0 if len(marks) < 2 or (100 * marks[1]) % 1 < 1e-9 else 1
    digits = 2 if len(marks) > 1 and 100 * marks[1] < 0.1 else digits
    return "".join(
        line(frame.left, frame.y(one), frame.width - frame.right, frame.y(one), "grid")
        + text(frame.left - 8, frame.y(one) + 4, f"{100 * one:.{digits}f}%", "tick", "end")
        for one in marks
    )


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
    highest = max(stretches, key=lambda one: one.rate)
    by_time = isinstance(stretches[0].start, str)
    what = "decisions" if stretches[0].comparable is None else "comparable decisions"

    def draw(width: int) -> str:
        marks = share_ticks(highest.rate * 1.08)
        frame = Frame(width, 250, 44, *ends, marks[-1])
        points = [
            (frame.x((start + stop) / 2), frame.y(one.rate))
            for one, (start, stop) in zip(stretches, places, strict=True)
        ]
        points = [(frame.x(places[0][0]), points[0][1]), *points]
        points.append((frame.x(places[-1][1]), points[-1][1]))
        x, y = frame.x(sum(places[stretches.index(highest)]) / 2), frame.y(highest.rate)
        anchor = "end" if x > width - 120 else "start" if x < 140 else "middle"

        def hover(one: Stretch, left: float, right: float) -> str:
            return box(left, frame.top, right - left, frame.base - frame.top, "hover", _tip(one))

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
                hover(one, *map(frame.x, place))
                for one, place in zip(stretches, places, strict=True)
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
    return f"{_name(one)}: {one.violations:,} of {one.of:,}{compared} ({percent(one.rate)})"


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
        marks = share_ticks(max(counts) / total * 1.05)
        frame = Frame(width, 230, 60, -1.6, parts, marks[-1])
        bars = []
        for i, count in enumerate(counts, -1):
            left = frame.x(i - 0.6 if i < 0 else i)
            wide = frame.x(1) - frame.x(0) - 2
            where = "the same" if i < 0 else f"above {i / parts:.2g} up to {(i + 1) / parts:.2g} ε"
            top, kind = frame.y(count / total), "bar" if i < 0 else "bar soft"
            tip = f"{where}: {count:,} ({percent(count / total)})"
            bars.append(box(left, top, wide, frame.base - top, kind, tip))
        below, right, bottom = frame.base + 18, width - frame.right, frame.height - 22
        bars.append(text(frame.x(-1.1), below, "same", "tick", "middle"))
        for one, anchor in ((0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1, "end")):
            bars.append(text(frame.x(parts * one), below, f"{one:g} ε", "tick", anchor))
        return chart(
            frame,
            marks,
            "share of the flagged decisions",
            "just near enough ▸",
            *bars,
            text(right, bottom, "distance to the nearest contradicting decision", "axis", "end"),
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
        marks = share_ticks(max(*rates, 1e-6) * 1.02)
        frame = Frame(width, 260, 44, 0.0, curve.epsilons[-1], marks[-1])
        points = [(frame.x(0.0), frame.y(rates[0]))]
        for one, rate in zip(curve.epsilons, rates, strict=True):
            points += [(frame.x(one), points[-1][1]), (frame.x(one), frame.y(rate))]
        x, y = frame.x(curve.chosen), frame.y(at_chosen)
        aside, anchor = (10, "start") if x < width * 0.6 else (-10, "end")
        low = at_chosen < 0.6 * marks[-1]  # then there is room at the top
        height = frame.top + 14 if low else min(y + 30, frame.base - 6)
        note = f"ε = {format_number(curve.chosen)}: {percent(at_chosen)}"
        return chart(
            frame,
            marks,
            f"share of decisions that would be {what}",
            "ε: how far apart still counts as similar",
            path(points, "area", frame.base),
            line(x, frame.top, x, frame.base, "marker"),
            path(points, "line"),
            dot(x, y),
            text(x + aside, height, note, "note", anchor),
            *(
                _tick(frame, one, format_number(one))
                for one in ticks(curve.epsilons[-1], 5 if width == WIDE else 3)
                if one <= curve.epsilons[-1]
            ),
        )

    return draw_both_widths(draw, label)
