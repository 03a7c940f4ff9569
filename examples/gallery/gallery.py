"""A report with pictures: for models whose inputs are pictures or texts, not people in a table.

A script adds what it found, piece by piece, and the page shows the pieces in that order. Like the
report of an audit it is one HTML file that loads nothing, here without any script, and every value
given to it is escaped.

A piece that is refused is refused when it is added, and leaves the page as it was. How a picture, a
text or a rate is drawn is in pictures.py, texts.py and rates.py.
"""

import datetime
import os
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from likewise.reports.document import document, write_document
from likewise.tables.printing import display_value, format_number, shorten
from likewise.verdict.html import escape_html
from likewise.version import __version__

from .pictures import difference as difference_of
from .pictures import image, pixels_of
from .rates import heat_table, line_plot, numbers_of
from .texts import marked

_STYLE = Path(__file__).with_name("gallery.css")
_LONG = 2_000  # characters of a paragraph


class Gallery:
    """A page with pictures, texts and rates, for a script to fill and to write.

    >>> gallery = Gallery("Digits, attacked", "What a small change to a picture does.")
    >>> gallery.figures([("attacked pictures that flipped the model", "412 of 500")])
    >>> gallery.pair([[0.0, 1.0]], [[0.25, 1.0]], "Picture 7", outputs=("1", "7"), difference=True)
    >>> gallery.page().startswith("<!doctype html>")
    True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self._title, self._lead = title, lead
        self._made = datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds")
        self._parts: list[tuple[str, str, list[tuple[str, str]]]] = [("", "", [])]

    def _add(self, kind: str, html: str) -> None:
        self._parts[-1][2].append((kind, html))

    def section(self, title: str, lead: str = "") -> None:
        """Begin a part of the page under a heading of its own."""
        self._parts.append((title, lead, []))

    def say(self, words: str) -> None:
        """A paragraph; a line's end in it is a space."""
        self._add("words", f"<p>{_prose(words)}</p>\n")

    def figures(self, told: Sequence[tuple[str, Any]]) -> None:
        """A row of key numbers: what each is, and the number."""
        tiles = "".join(
            f"<div><dt>{escape_html(words)}</dt><dd>{escape_html(_told(value))}</dd></div>"
            for words, value in told
        )
        self._add("figures", f'<dl class="tiles">{tiles}</dl>\n')

    def table(self, rows: Sequence[Sequence[Any]], columns: Sequence[str], title: str = "") -> None:
        """A small table; the first column names its rows, numbers stand on the right."""
        lines = [list(row) for row in rows]
        for i, line in enumerate(lines):
            if len(line) != len(columns):
                raise ValueError(
                    f"row {i} of the table has {len(line)} cells; expected {len(columns)}, one for"
                    " each column"
                )
        numeric = [
            bool(lines) and all(_is_number(line[j]) for line in lines) for j in range(len(columns))
        ]
        kinds = [' class="number"' * one for one in numeric]
        head = "".join(
            f'<th scope="col"{kind}>{escape_html(one)}</th>'
            for kind, one in zip(kinds, columns, strict=True)
        )
        body = "".join(
            f'<tr><th scope="row">{_cell(line[0])}</th>'
            + "".join(
                f'<td{kind} data-label="{escape_html(name)}">{_cell(one)}</td>'
                for kind, name, one in zip(kinds[1:], columns[1:], line[1:], strict=True)
            )
            + "</tr>"
            for line in lines
        )
        self._add(
            "table",
            f"{_titled(title)}"
            '<div class="scroll" tabindex="0" role="region"'
            f' aria-label="{escape_html(title or "Table")}">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n",
        )

    def heatmap(
        self,
        matrix: Any,
        rows: Sequence[Any],
        columns: Sequence[Any],
        title: str = "",
        *,
        caption: str = "",
        most: float | None = None,
        as_shares: bool = True,
    ) -> None:
        """A shaded table, or several side by side with one scale: {name: matrix, ...}.

        most: what has the deepest shade; the largest value unless told otherwise.
        as_shares: whether values are written as percentages.

        NaN leaves a cell empty.
        """
        panels = matrix if isinstance(matrix, Mapping) else {"": matrix}
        values = {str(name): numbers_of(one, f"heat map {name!r}") for name, one in panels.items()}
        deepest = most
        if deepest is None:
            deepest = max((float(np.nanmax(one, initial=0)) for one in values.values()), default=0)
        drawn = "".join(
            '<div class="panel" tabindex="0" role="region"'
            f' aria-label="{escape_html(name or title)}">'
            f"{heat_table(one, rows, columns, name, deepest, as_shares)}</div>"
            for name, one in values.items()
        )
        self._add(
            "figure",
            f'{_titled(title)}<figure><div class="heats">{drawn}</div>{_caption(caption)}'
            "</figure>\n",
        )

    def lines(
        self,
        series: Mapping[str, Sequence[float]],
        at: Sequence[Any],
        title: str = "",
        *,
        across: str = "",
        up: str = "",
        caption: str = "",
    ) -> None:
        """A line of shares (0 to 1) for each name, over the same places.

        across: what the places are.
        up: what the shares are shares of.
        """
        values = {str(name): numbers_of(one, f"line {name!r}") for name, one in series.items()}
        plot = line_plot(values, at, across, up)
        self._add("figure", f"{_titled(title)}<figure>{plot}{_caption(caption)}</figure>\n")

    def pair(
        self,
        left: Any,
        right: Any,
        caption: str = "",
        *,
        note: str = "",
        names: tuple[str, str] = ("earlier", "later"),
        outputs: tuple[Any, Any] | None = None,
        difference: bool = False,
    ) -> None:
        """Two inputs side by side: two texts, or two pictures (grey or RGB; uint8, or 0 to 1).

        note: a small line below the caption, such as how far apart the two are.
        outputs: what the model said to each; marked if that differs.
        difference: whether a third picture shows where the second is brighter (rust) or darker.

        Pairs that follow each other stand in a grid.
        """
        if isinstance(left, str) != isinstance(right, str):
            raise ValueError("the pair is one text and one picture; expected two of a kind")
        if isinstance(left, str):
            drawn = [f"<blockquote><bdi>{one}</bdi></blockquote>" for one in marked(left, right)]
        else:
            pictures = [pixels_of(left), pixels_of(right)]
            told = [f"{caption}: {name}".removeprefix(": ") for name in names]
            drawn = [image(one, words) for one, words in zip(pictures, told, strict=True)]
        sides = [_side(drawn[i], names[i], outputs, i) for i in (0, 1)]
        if difference and not isinstance(left, str):
            changed, largest = difference_of(left, right)
            most = f"up to {format_number(float(f'{largest:.3g}'))}" if largest else "none"
            sides.append(_figure(image(changed, "where they differ"), "difference", most, ""))
        kind = "texts" if isinstance(left, str) else "three" if len(sides) == 3 else "two"
        small = f'<p class="small">{escape_html(note, 600)}</p>' if note else ""
        head = f"<h3>{escape_html(caption)}</h3>" if caption else ""
        self._add(
            "pair",
            f'<article class="pair">{head}{small}<div class="sides {kind}">{"".join(sides)}</div>'
            "</article>\n",
        )

    def page(self) -> str:
        """The page as one self-contained HTML document."""
        lead = f'<p class="lead">{_prose(self._lead)}</p>\n' if self._lead else ""
        top = (
            '<header class="top">\n<p class="brand"><b>likewise</b> · report of'
            f" {escape_html(self._day)}</p>\n<h1>{escape_html(self._title)}</h1>\n{lead}</header>"
        )
        (_, _, opening), *parts = self._parts
        main = f'<div class="opening">\n{_drawn(opening)}</div>\n' if opening else ""
        for i, (title, words, blocks) in enumerate(parts, 1):
            about = f'<p class="lead">{_prose(words)}</p>\n' if words else ""
            main += (
                f'<section aria-labelledby="part-{i}">\n<h2'
                f' id="part-{i}">{escape_html(title)}</h2>\n'
                f"{about}{_drawn(blocks)}\n</section>\n"
            )
        return document(
            "reports/document.html",
            title=f"{shorten(self._title, 80)} · likewise",
            top=Markup(top),
            main=Markup(main),
            foot=f"Made by likewise {__version__} on {self._day}. This page is one file and"
            " loads nothing; it contains the pictures and texts that it shows.",
            more_style=_STYLE.read_text("utf-8"),
        )

    @property
    def _day(self) -> str:
        return self._made.replace("+00:00", " UTC")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page whole or not at all; BadFile says why it could not be."""
        write_document(self.page(), path)


def _drawn(blocks: list[tuple[str, str]]) -> str:
    """The pieces in their order, pairs that follow each other in a grid."""
    drawn = []
    for kind, group in groupby(blocks, key=lambda block: block[0]):
        inside = "".join(html for _, html in group)
        drawn.append(f'<div class="pairs">{inside}</div>\n' if kind == "pair" else inside)
    return "".join(drawn)


def _side(drawn: str, name: str, outputs: tuple[Any, Any] | None, which: int) -> str:
    if outputs is None:
        return _figure(drawn, name, "", "")
    differs = " differs" if outputs[0] != outputs[1] else ""
    return _figure(drawn, name, display_value(outputs[which]), f"answer{differs}")


def _figure(drawn: str, name: str, said: str, kind: str) -> str:
    value = (
        f'<span class="{kind or "small"}"><bdi>{escape_html(said, 60)}</bdi></span>' if said else ""
    )
    return (
        f'<figure class="side">{drawn}<figcaption><span'
        f' class="name">{escape_html(name, 60)}</span>{value}'
        "</figcaption></figure>"
    )


def _prose(words: str) -> str:
    return escape_html(re.sub(r"[ \n]+", " ", words), _LONG)


def _titled(title: str) -> str:
    return f"<h3>{escape_html(title)}</h3>\n" if title else ""


def _caption(caption: str) -> str:
    return f"<figcaption>{_prose(caption)}</figcaption>" if caption else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _told(value: Any) -> str:
    """A number as a person would write it, anything else as it is."""
    return (
        format_number(float(value))
        if _is_number(value) and np.isfinite(value)
        else display_value(value)
    )


def _cell(value: Any) -> str:
    return f"<bdi>{escape_html(_told(value))}</bdi>"
