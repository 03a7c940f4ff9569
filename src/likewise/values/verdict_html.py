"""Verdicts as small tables for notebooks. Every value is escaped: keys hold whatever was sent."""

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.values.printing import missing_in_words, text_of

if TYPE_CHECKING:
    from likewise.values.verdicts import Verdict, Verdicts

MOST_SHOWN = 10
"""Witnesses of a verdict, and verdicts of a batch, that a table has."""


def html_of_verdict(verdict: "Verdict") -> str:
    """A decision and its nearest witnesses."""
    found, keys = verdict.witnesses, verdict.beside.witness_keys
    order = found.nearest_places(MOST_SHOWN)
    columns: dict[str, Sequence[Any]] = {"contradicts row": found.rows[order].tolist()}
    if keys is not None:
        columns["key"] = [keys[i] for i in order]
    if verdict.beside.witness_models is not None:
        columns["model"] = [verdict.witness_models[i] for i in order]
    columns["input distance"] = found.input_distances[order].tolist()
    columns["output distance"] = found.output_distances[order].tolist()
    return _table(_title(verdict), columns, len(found))


def html_of_verdicts(verdicts: "Verdicts") -> str:
    """The first decisions of a batch that violate or raise an alarm."""
    flagged = np.flatnonzero(verdicts.violations | verdicts.alarms)
    shown = [verdicts[i] for i in flagged[:MOST_SHOWN].tolist()]
    title = f"{_counted(len(verdicts), 'decision')}, {int(verdicts.violations.sum()):,} violating"
    if verdicts.neighbours is not None:
        title += f", {int(verdicts.alarms.sum()):,} raising an alarm"
    lacking = 0 if verdicts.incomplete is None else int(verdicts.incomplete.max())
    title += missing_in_words(verdicts.missing, lacking)
    columns: dict[str, Sequence[Any]] = {"row": [verdict.row for verdict in shown]}
    if verdicts.values is not None:  # they were only checked, and have no rows
        columns = {"place": flagged[:MOST_SHOWN].tolist()}
    if verdicts.keys is not None:
        columns["key"] = [verdict.key for verdict in shown]
    if verdicts.models is not None:
        columns["model"] = [verdict.model for verdict in shown]
    columns["witnesses"] = [len(verdict.witnesses) for verdict in shown]
    nearest = [verdict.witnesses.nearest(1) for verdict in shown]
    columns["nearest row"] = ["".join(str(one.row) for one in some) for some in nearest]
    if verdicts.neighbours is not None:
        columns["neighbours"] = [verdict.neighbours for verdict in shown]
        columns["alarm"] = ["yes" if verdict.alarm else "" for verdict in shown]
    return _table(title, columns, len(flagged))


def _title(verdict: "Verdict") -> str:
    mine = "this one" if verdict.row is None else f"row {verdict.row}"
    named = "" if verdict.key is None else f", key {text_of(verdict.key)},"
    named += "" if verdict.model is None else f", model {text_of(verdict.model)},"
    count = len(verdict.witnesses)
    told = f"contradicts {_counted(count, 'earlier decision')}" if count else "contradicts nothing"
    missing = missing_in_words(verdict.missing, verdict.incomplete)
    if verdict.neighbours is None:
        return f"{mine}{named} {told}{missing}"
    alarm = " and raises an alarm" if verdict.alarm else ""
    near = _counted(verdict.neighbours, "neighbour")
    return f"{mine}{named} {told}, has {near}{alarm}{missing}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _table(title: str, columns: dict[str, Sequence[Any]], count: int) -> str:
    """`count` is how many lines there would be if all were shown."""
    if count == 0:
        return f"<p>{html.escape(title)}</p>"
    lines = list(zip(*columns.values(), strict=True))
    head = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{_cells(line)}</tr>" for line in lines)
    more = f"<p>and {count - len(lines):,} more</p>" if count > len(lines) else ""
    return f"<table><caption>{html.escape(title)}</caption><tr>{head}</tr>{body}</table>{more}"


def _cells(line: Iterable[Any]) -> str:
    return "".join(f"<td>{html.escape(text_of(value))}</td>" for value in line)
