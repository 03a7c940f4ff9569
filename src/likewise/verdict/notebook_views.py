"""Shows answers as small tables in notebooks; without Jinja2 a notebook shows their text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.tables.printing import format_value, missing_in_words
from likewise.verdict.context import AnyVerdict
from likewise.verdict.html import format_count, make_table

MOST_SHOWN = 10
"""How many witnesses of a verdict, or verdicts of a batch, a table has."""


def html_of_verdict(verdict: AnyVerdict) -> str | None:
    """Return a table of the nearest witnesses of a decision."""
    witnesses, keys, models = (
        verdict.witnesses,
        verdict.context.witness_keys,
        verdict.context.witness_models,
    )
    order = witnesses.nearest_places(MOST_SHOWN)
    columns: dict[str, Sequence[Any]] = {"contradicts row": witnesses.rows[order].tolist()}
    if keys is not None:
        columns["key"] = [keys[i] for i in order]
    if models is not None:
        columns["model"] = [models[i] for i in order]
    columns["input distance"] = witnesses.input_distances[order].tolist()
    columns["output distance"] = witnesses.output_distances[order].tolist()
    return make_table(_title(verdict), columns, len(witnesses))


def html_of_verdicts(verdicts: Any) -> str | None:
    """Return a table of the first decisions of a batch that violate or raise an alarm.

    verdicts: a `Verdicts`, whose module imports this one
    """
    flagged = np.flatnonzero(verdicts.violations | verdicts.alarms)
    shown = [verdicts[i] for i in flagged[:MOST_SHOWN].tolist()]
    title = (
        f"{format_count(len(verdicts), 'decision')}, {int(verdicts.violations.sum()):,} violating"
    )
    if verdicts.neighbours is not None:
        title += f", {int(verdicts.alarms.sum()):,} raising an alarm"
    incomplete = 0 if verdicts.not_compared is None else int(verdicts.not_compared.max())
    title += missing_in_words(verdicts.missing_decisions, incomplete)
    columns: dict[str, Sequence[Any]] = {"row": [verdict.row for verdict in shown]}
    if verdicts.values is not None:  # decisions that were only checked have no rows
        columns = {"place": flagged[:MOST_SHOWN].tolist()}
    if verdicts.keys is not None:
        columns["key"] = [verdict.context.key for verdict in shown]
    if verdicts.models is not None:
        columns["model"] = [verdict.context.model for verdict in shown]
    columns["witnesses"] = [len(verdict.witnesses) for verdict in shown]
    nearest = [verdict.witnesses.nearest(1) for verdict in shown]
    columns["nearest row"] = ["".join(str(one.row) for one in first) for first in nearest]
    if verdicts.neighbours is not None:
        columns["neighbours"] = [verdict.context.neighbours for verdict in shown]
        columns["alarm"] = ["yes" if verdict.context.alarm else "" for verdict in shown]
    return make_table(title, columns, len(flagged))


def _title(verdict: AnyVerdict) -> str:
    context, count = verdict.context, len(verdict.witnesses)
    title = "this one" if verdict.row is None else f"row {verdict.row}"
    if context.key is not None:
        title += f", key {format_value(context.key)},"
    if context.model is not None:
        title += f", model {format_value(context.model)},"
    title += f" contradicts {format_count(count, 'earlier decision') if count else 'nothing'}"
    if context.neighbours is not None:
        title += f", has {format_count(context.neighbours, 'neighbour')}"
        title += " and raises an alarm" if context.alarm else ""
    return title + missing_in_words(context.missing_decisions, context.not_compared)
