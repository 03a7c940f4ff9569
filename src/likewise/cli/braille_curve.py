"""This draws the epsilon curve on a terminal: braille dots, eight to a character, and axes.

    rate
    23% ┤          ⢀⡠⠤⠒
        ┤     ⣀⠤⠒⠉
     0% ┼────────┬──────
        0       0.16

Invariant: no line is wider than the given width.
"""

from bisect import bisect_right

from likewise.reports.findings import Curve
from likewise.tables.printing import format_number

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row, then column
_HEIGHT = 12
_LEFT = 8


def draw_curve(curve: Curve, width: int) -> list[str]:
    """Return the lines of the curve with its axes; the chosen epsilon is marked."""
    cells = max(20, width - _LEFT - 2)
    most = max(curve.rates) or 1.0
    reach = curve.epsilons[-1] or 1.0
    canvas = [[0] * cells for _ in range(_HEIGHT)]
    lowest = 4 * _HEIGHT - 1
    before = lowest
    for x in range(2 * cells):
        y = round(lowest * (1.0 - _rate(curve, reach * x / (2 * cells - 1)) / most))
        for dot in range(y, (before if x else y) + 1):  # rates never fall, so y never rises
            canvas[dot // 4][x // 2] |= _DOTS[dot % 4][x % 2]
        before = y
    chosen = min(cells - 1, round(curve.chosen / reach * (cells - 1)))
    lines = []
    for i, row in enumerate(canvas):
        text = [chr(0x2800 + dots) if dots else " " for dots in row]
        if text[chosen] == " ":
            text[chosen] = "┊"
        label = ""
        if i % 4 == 0:
            label = f"{100 * most * (1.0 - i / _HEIGHT):.3g}%"
        lines.append(f"{label:>{_LEFT - 2}} ┤{''.join(text)}".rstrip())
    axis = ["─"] * cells
    axis[chosen] = "┴"
    lines.append(f"{'0%':>{_LEFT - 2}} ┼{''.join(axis)}")
    lines.append(" " * _LEFT + _axis_labels(cells, chosen, curve.chosen, reach))
    return lines


def _rate(curve: Curve, epsilon: float) -> float:
    """Return the rate at an epsilon: the curve is a step function."""
    step = bisect_right(curve.epsilons, epsilon * (1 + 1e-12)) - 1
    return curve.rates[max(0, step)]


def _axis_labels(cells: int, chosen: int, epsilon: float, reach: float) -> str:
    """Return the labels below the axis: 0, the chosen epsilon, and its end."""
    line = [" "] * cells
    for at, text in (
        (0, "0"),
        (cells - 1, format_number(reach)),
        (chosen, f"ε = {format_number(epsilon)}"),
    ):
        start = min(max(0, at - len(text) // 2), max(0, cells - len(text)))
        for i, character in enumerate(text[:cells]):
            line[start + i] = character
        for gap in (start - 1, start + len(text)):
            if 0 <= gap < cells and text.startswith("ε"):
                line[gap] = " "
    return "".join(line).rstrip()
