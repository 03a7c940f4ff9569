"""Draws plots as inline SVG; colours come from the page's style sheet.

Every plot is drawn twice, for a wide page and for a phone, and the style sheet shows the one that
fits: text in a plot that shrinks with its page could not be read. A plot has a label that says what
it shows, and each bar or point has a tooltip with its numbers.

Invariant: values from the data are escaped here, so that a plot is `Markup`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from likewise.verdict.html import escape_html

WIDE, NARROW = 760, 340


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


def share_axis(frame: Frame, marks: Sequence[float]) -> str:
    """Draw horizontal lines, with shares in percent beside them."""
    digits = 0 if len(marks) < 2 or (100 * marks[1]) % 1 < 1e-9 else 1
    digits = 2 if len(marks) > 1 and 100 * marks[1] < 0.1 else digits
    return "".join(
        line(frame.left, frame.y(one), frame.width - frame.right, frame.y(one), "grid")
        + text(frame.left - 8, frame.y(one) + 4, f"{100 * one:.{digits}f}%", "tick", "end")
        for one in marks
    )
