"""Renders and writes self-contained HTML documents, which every page of a report is.

No network, nothing to install: a page can be mailed, printed, and read in ten years. Its content
policy forbids to load anything. A script may add controls (tables.js); the policy names it by its
hash, so that no other script runs, and the page says everything without it.

Not here: what is on a page; its template extends document.html.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from likewise.errors import BadFile, BadRule
from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.pairs import DecisionOrigin, display_values, pair_card
from likewise.reports.selected_pairs import WorstPair
from likewise.rule.rule import Rule
from likewise.runtime.private_files import write_atomically
from likewise.tables.printing import json_text
from likewise.verdict.html import render
from likewise.version import __version__

_OPEN = 6  # pairs that are shown at once; the rest is folded away
_GLANCE = 3  # with at least as many pairs there is a table of them


# Renders contradicting pairs: all of them in a table, and each side by side in a card.
# Not here: the card of one pair (explaining/pairs.py).


def pair_cards(worst: Sequence[WorstPair], rule: Rule, name: str = "pair") -> str:
    """Render all pairs as cards; those after the first few are folded away.

    name: with a number behind it, the anchor of a card; unique on a page
    """
    cards = [
        pair_card(one.pair, rule, later=one.later, earlier=one.earlier, anchor=f"{name}-{number}")
        for number, one in enumerate(worst, 1)
    ]
    glance = _glance(worst, rule) if len(worst) >= _GLANCE else None
    return render("reports/cards.html", cards=cards, open=_OPEN, glance=glance, name=name)


def _glance(worst: Sequence[WorstPair], rule: Rule) -> dict[str, Any]:
    """Return one line for each pair: places, times, and values in some columns."""
    columns = (*worst[0].pair.outputs, *protected_columns(rule))
    origins = [(one.earlier or DecisionOrigin(), one.later or DecisionOrigin()) for one in worst]
    times = any(later.time for _, later in origins)
    unit = origins[0][1].unit if all(later.place is not None for _, later in origins) else "row"
    heads = ["pair", f"earlier {unit}", f"later {unit}"]
    heads += ["earlier time (UTC)", "later time (UTC)"] if times else []
    rows = []
    for one, both in zip(worst, origins, strict=True):
        pair, cells = one.pair, []
        for where, row in zip(both, (pair.witness.row, pair.row), strict=True):
            cells.append(f"{row if where.place is None else where.place:,}")
        moments = [where.time for where in both] if times else []
        changes = [display_values(pair, name) for name in columns]
        rows.append((cells, moments, changes, pair.witness.input_distance))
    return {"heads": heads, "columns": columns, "rows": rows}


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def document(
    template: str, *, title: str, more_style: str = "", script: str = "", **data: Any
) -> str:
    """Render a whole document from a template that extends document.html, or from that itself.

    more_style   CSS that follows the common style sheet
    script       a script of this folder, put at the end
    """
    policy, text = _POLICY, ""
    if script:
        text = f"\n{_file(script)}"
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        policy = f"{_POLICY}; script-src 'sha256-{digest}'"
    style = Markup(_file("style.css") + more_style)
    fixed = {"title": title, "policy": policy, "style": style, "script": Markup(text)}
    defaults = {"made_by": __version__, "top": "", "main": "", "foot": ""}
    return render(template, **defaults | data | fixed) + "\n"


def _file(name: str) -> str:
    return (files("likewise.reports") / name).read_text("utf-8")


def write_document(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page atomically; raise BadFile if that is not possible."""
    target = Path(path)
    try:
        with write_atomically(target) as file:
            file.write(text.encode("utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
        raise BadFile(
            f"the report cannot be written to {str(target)!r}: {why}. Nothing was written there:"
            " name a file in a folder that exists, may be written to and has room.",
            path=target,
        ) from None


def save_result(
    path: str | os.PathLike[str],
    make_page: Callable[[], str],
    make_numbers: Callable[[], Mapping[str, Any]],
) -> None:
    """Write a page to a file that ends in .html, or numbers to one that ends in .json."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".htm", ".json"):
        raise BadRule(f"{str(path)!r} ends in {suffix!r}; expected .html or .json")
    text = f"{json_text(make_numbers())}\n" if suffix == ".json" else make_page()
    write_document(text, path)
