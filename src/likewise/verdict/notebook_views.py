"""Verdicts as small tables for notebooks. Without Jinja2 there are none: the text is shown."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from likewise.tables.printing import format_value, missing_in_words
from likewise.tables.rows import Rows
from likewise.verdict.context import AnyVerdict
from likewise.verdict.html import format_count, render_in_notebook

MOST_SHOWN = 10
"""Witnesses of a verdict, and verdicts of a batch, that a table has."""


class AnyVerdicts(Protocol):
    """A batch of verdicts, as the table reads it."""

    @property
    def keys(self) -> tuple[Any, ...] | None: ...

    @property
    def models(self) -> tuple[str | None, ...] | None: ...

    @property
    def neighbours(self) -> Rows | None: ...

    @property
    def values(self) -> Any: ...

    @property
    def missing(self) -> int: ...

    @property
    def incomplete(self) -> Rows | None: ...

    @property
    def violations(self) -> npt.NDArray[np.bool_]: ...

    @property
    def alarms(self) -> npt.NDArray[np.bool_]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, place: int) -> AnyVerdict: ...


def html_of_verdict(verdict: AnyVerdict) -> str | None:
    """A decision and its nearest witnesses."""
    found, keys = verdict.witnesses, verdict.context.witness_keys
    order = found.nearest_places(MOST_SHOWN)
    columns: dict[str, Sequence[Any]] = {"contradicts row": found.rows[order].tolist()}
    if keys is not None:
        columns["key"] = [keys[i] for i in order]
    if verdict.context.witness_models is not None:
        columns["model"] = [verdict.context.witness_models[i] for i in order]
    columns["input distance"] = found.input_distances[order].tolist()
    columns["output distance"] = found.output_distances[order].tolist()
    return _table(_title(verdict), columns, len(found))


def html_of_verdicts(verdicts: AnyVerdicts) -> str | None:
    """The first decisions of a batch that violate or raise an alarm."""
    flagged = np.flatnonzero(verdicts.violations | verdicts.alarms)
    shown = [verdicts[i] for i in flagged[:MOST_SHOWN].tolist()]
    title = (
        f"{format_count(len(verdicts), 'decision')}, {int(verdicts.violations.sum()):,} violating"
    )
    if verdicts.neighbours is not None:
        title += f", {int(verdicts.alarms.sum()):,} raising an alarm"
    lacking = 0 if verdicts.incomplete is None else int(verdicts.incomplete.max())
    title += missing_in_words(verdicts.missing, lacking)
    columns: dict[str, Sequence[Any]] = {"row": [verdict.row for verdict in shown]}
    if verdicts.values is not None:  # they were only checked, and have no rows
        columns = {"place": flagged[:MOST_SHOWN].tolist()}
    if verdicts.keys is not None:
        columns["key"] = [verdict.context.key for verdict in shown]
    if verdicts.models is not None:
        columns["model"] = [verdict.context.model for verdict in shown]
    columns["witnesses"] = [len(verdict.witnesses) for verdict in shown]
    nearest = [verdict.witnesses.nearest(1) for verdict in shown]
    columns["nearest row"] = ["".join(str(one.row) for one in some) for some in nearest]
    if verdicts.neighbours is not None:
        columns["neighbours"] = [verdict.context.neighbours for verdict in shown]
        columns["alarm"] = ["yes" if verdict.context.alarm else "" for verdict in shown]
    return _table(title, columns, len(flagged))


def _title(verdict: AnyVerdict) -> str:
    beside, count = verdict.context, len(verdict.witnesses)
    mine = "this one" if verdict.row is None else f"row {verdict.row}"
    named = "" if beside.key is None else f", key {format_value(beside.key)},"
    named += "" if beside.model is None else f", model {format_value(beside.model)},"
    told = (
        f"contradicts {format_count(count, 'earlier decision')}" if count else "contradicts nothing"
    )
    missing = missing_in_words(beside.missing, beside.incomplete)
    if beside.neighbours is None:
        return f"{mine}{named} {told}{missing}"
    alarm = " and raises an alarm" if beside.alarm else ""
    near = format_count(beside.neighbours, "neighbour")
    return f"{mine}{named} {told}, has {near}{alarm}{missing}"


def _table(title: str, columns: dict[str, Sequence[Any]], count: int) -> str | None:
    """`count` is how many lines there would be if all were shown."""
    lines = [[format_value(one) for one in line] for line in zip(*columns.values(), strict=True)]
    return render_in_notebook(
        "verdict/verdict.html", title=title, columns=columns, lines=lines, count=count
    )
