"""Pieces of HTML that several screens show: counts with their denominator, tables, fields."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from likewise.pages.visit import Visit
from likewise.values.printing import figure, percent
from likewise.values.safe import safe, shown


def counted(counts: Mapping[str, Any]) -> str:
    """How many contradict, of how many that could."""
    flagged, comparable = counts["violations"], counts["comparable"]
    if comparable is None:
        of = f"{counts['judged']:,} judged decisions"
        rate = counts["rate"]
        note = "How many could be compared is not known: the monitor does not ask that."
    else:
        of = f"{comparable:,} decisions that could be compared"
        rate = counts["comparable_rate"]
        note = f"{counts['judged']:,} were judged in all."
    share = "" if rate is None else f", {percent(rate)}"
    if counts["of"] == "process":
        note += " Counted since the server was started; this monitor is in memory."
    elif counts["rows_counted"] < counts["rows"]:
        note += (
            f" Counted up to row {counts['rows_counted']:,} of {counts['rows']:,}; the rest is"
            " being counted."
        )
    return (
        f'<p class="lead"><b>{flagged:,}</b> contradict an earlier one, of {of}{share}.'
        f' <span class="small">{note}</span></p>\n'
    )


def value(told: Any, longest: int = 60) -> str:
    """A value from the data."""
    return "–" if told is None else f"<bdi>{safe(shown(told), longest)}</bdi>"


def distance(told: float | None) -> str:
    return "–" if told is None else figure(float(f"{told:.3g}"))


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    label: str,
    *,
    numbers: Sequence[int] = (),
    kind: str = "",
) -> str:
    """A table; heads are plain text, cells are HTML, and `numbers` are columns of numbers."""
    right = [' class="number"' if i in numbers else "" for i in range(len(heads))]
    top = "".join(
        f'<th scope="col"{at}>{safe(head)}</th>' for head, at in zip(heads, right, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{at} data-label="{safe(head)}"><span>{cell}</span></td>'
            for head, at, cell in zip(heads, right, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    named = f" {kind}" if kind else ""
    return (
        f'<div class="scroll lines{named}" tabindex="0" role="region" aria-label="{safe(label)}">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )


def choice(name: str, label: str, options: Iterable[tuple[str, str]], chosen: str | None) -> str:
    """One of several, or any."""
    inside = "".join(
        f'<option value="{safe(told, None)}"{" selected" * (told == (chosen or ""))}>'
        f"{safe(words, 60)}</option>"
        for told, words in options
    )
    return (
        f'<p class="field"><label for="{name}">{safe(label)}</label>'
        f'<select id="{name}" name="{name}">{inside}</select></p>'
    )


def field(name: str, label: str, told: Any, **attributes: str) -> str:
    """A line of text."""
    more = "".join(f' {key}="{safe(text, None)}"' for key, text in attributes.items())
    content = safe("" if told is None else told, None)
    return (
        f'<p class="field"><label for="{name}">{safe(label)}</label>'
        f'<input id="{name}" name="{name}" value="{content}"{more}></p>'
    )


def filter_form(visit: Visit, path: str, inside: str, button: str) -> str:
    """A form that asks for another address of the same screen."""
    return (
        f'<form method="get" action="{safe(visit.url(path), None)}" class="filters">{inside}'
        f"<p><button>{safe(button)}</button></p></form>\n"
    )


def link(visit: Visit, words: str, path: str, **query: Any) -> str:
    """A link to a page of the same monitor; words are HTML."""
    return f'<a href="{safe(visit.url(path, **query), None)}">{words}</a>'
