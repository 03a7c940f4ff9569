"""Shares on a page of pictures: heat maps, and lines that say their numbers in words too.

A heat map is a table whose cells are shaded: value and shade are in one place, for the eye and for
a screen reader. The style sheet (gallery.css) mixes the shade, so it fits a light and a dark page.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from likewise.reports.charts import (
    Frame,
    dot,
    draw_both_widths,
    path,
    picture,
    share_axis,
    text,
    ticks,
)
from likewise.tables.array_types import Floats
from likewise.tables.printing import display_value, format_number, percent, shorten
from likewise.verdict.html import escape_html

_MOST_LINES = 4  # that can still be told apart
_WHITE_BY_DAY, _BLACK_BY_NIGHT = 86, 61  # percent of shade beyond which text changes sides


def numbers_of(given: Any, name: str) -> Floats:
    """Numbers from 0, or NaN for those that are missing."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} holds {given!r}; expected numbers") from None
    if np.isinf(values).any() or (values < 0).any():
        raise ValueError(
            f"{name} holds {float(values[np.isinf(values) | (values < 0)][0]):g}; expected numbers"
            " from 0, or NaN where there is none"
        )
    return values


def short_share(share: float) -> str:
    """A share that fits a cell; never 0% for something, nor 100% for less."""
    whole = round(100 * share)
    if (whole == 0 and share > 0) or (whole == 100 and share < 1):
        return "<1%" if whole == 0 else ">99%"
    return f"{whole}%"


# Heat maps


def heat_table(
    values: Floats,
    rows: Sequence[Any],
    columns: Sequence[Any],
    name: str,
    most: float,
    as_shares: bool,
) -> str:
    """One heat map: `most` has the deepest shade, 0 none."""
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"heat map {name!r} has shape {values.shape}; expected one line for each of"
            f" {len(rows)} rows and one value for each of {len(columns)} columns"
        )
    heads = "".join(
        f'<th scope="col">{escape_html(display_value(one), 40)}</th>' for one in columns
    )
    lines = "".join(
        f'<tr><th scope="row">{escape_html(display_value(row), 60)}</th>'
        f"{''.join(_cell(float(one), most, as_shares) for one in line)}</tr>"
        for row, line in zip(rows, values, strict=True)
    )
    caption = f"<caption>{escape_html(name)}</caption>" if name else ""
    return (
        f'<table class="heat">{caption}<thead><tr><td></td>{heads}</tr>'
        f"</thead><tbody>{lines}</tbody></table>"
    )


def _cell(value: float, most: float, as_shares: bool) -> str:
    if math.isnan(value):
        return "<td>–</td>"
    shade = round(100 * min(1.0, value / most)) if most > 0 else 0
    kinds = "shade" + " deep" * (shade > _WHITE_BY_DAY) + " bright" * (shade > _BLACK_BY_NIGHT)
    words = escape_html(short_share(value) if as_shares else format_number(float(f"{value:.3g}")))
    return f'<td class="{kinds}" style="--shade:{shade}%">{words}</td>'


# Lines


def line_plot(series: Mapping[str, Floats], at: Sequence[Any], across: str, up: str) -> str:
    """A share for each place, one line for each name."""
    if not 0 < len(series) <= _MOST_LINES:
        raise ValueError(f"{len(series)} lines; expected 1 to {_MOST_LINES}, to be told apart")
    for name, values in series.items():
        if values.shape != (len(at),) or len(at) == 0 or not (values <= 1).all():
            raise ValueError(
                f"line {name!r} is {values!r}; expected a share from 0 to 1 for each of"
                f" {len(at)} places"
            )

    def draw(width: int) -> str:
        marks = ticks(max(*(values.max() for values in series.values()), 1e-6), 4)
        frame = Frame(width, 290, 44, 0.0, float(len(at)), marks[-1], top=48)
        letters = max(4, (width - 62) // len(at) // 8)
        parts = [text(0, 14, up, "axis"), share_axis(frame, marks)]
        for i, values in enumerate(series.values()):
            points = [(frame.x(j + 0.5), frame.y(one)) for j, one in enumerate(values.tolist())]
            parts += [path(points, f"line s{i}"), *(dot(x, y, f"dot s{i}") for x, y in points)]
        for j, place in enumerate(at):
            x = frame.x(j + 0.5)
            words = shorten(display_value(place), letters)
            parts.append(text(x, frame.base + 18, words, "tick", "middle"))
            parts += _ends(frame, x, [float(values[j]) for values in series.values()])
        parts.append(text(width - frame.right, frame.height - 4, across, "axis", "end"))
        return picture(width, frame.height, *parts)

    said = "; ".join(
        f"{shorten(name, 60)}: "
        + ", ".join(
            f"{percent(one)} at {shorten(display_value(place), 30)}"
            for place, one in zip(at, values.tolist(), strict=True)
        )
        for name, values in series.items()
    )
    return _legend(list(series)) + draw_both_widths(draw, f"{up} {said}".strip())


def _ends(frame: Frame, x: float, values: list[float]) -> list[str]:
    """The highest and the lowest number at a place, where there is room for them."""
    high, low = max(values), min(values)
    told = [text(x, frame.y(high) - 11, percent(high), "note", "middle")]
    fits = frame.y(low) + 20 <= frame.base + 5
    above = high if fits else min((one for one in values if one > low), default=low)
    if frame.y(low) - frame.y(above) > (12 if fits else 34):
        told.append(text(x, frame.y(low) + (20 if fits else -11), percent(low), "note", "middle"))
    return told


def _legend(names: list[str]) -> str:
    items = "".join(
        f'<li><svg class="plot key" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">'
        f"{path([(1, 6), (33, 6)], f'line s{i}')}{dot(17, 6, f'dot s{i}')}</svg>"
        f"<bdi>{escape_html(name, 60)}</bdi></li>"
        for i, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'
