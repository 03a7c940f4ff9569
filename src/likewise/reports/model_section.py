"""Renders the part of the report about models: how many decisions and contradictions each has."""

from collections.abc import Sequence

from likewise.tables.printing import percent
from likewise.verdict.html import render
from likewise.verdict.model_counts import ModelCounts

_TABLE = 20  # models in the table before the rest is folded away
_LEAD = (
    "Which model decided is known. A decision may contradict an earlier one of the same model, or"
    " one of another model: the first says that a model is not consistent with itself, the second"
    " that two models do not agree. Each count is of the decisions that had such an earlier similar"
    " case."
)


def model_section(models: Sequence[ModelCounts], compare: str) -> str:
    """Render a table by model; nothing where no model is known.

    compare: which decisions the rule compares
    """
    if not models:
        return ""
    heads = ["model", "decisions", "contradict an earlier one"]
    for side, whose in ((models[0].within, "its own"), (models[0].across, "another model’s")):
        heads += [f"contradict {whose}"] * side.compared
    return render(
        "reports/model_section.html",
        lead=_LEAD + _only(compare),
        heads=heads,
        rows=[(name_of(one.model), _cells(one)) for one in models],
        most=_TABLE,
        not_looked_at=compare == "all" and any(one.within.comparable is None for one in models),
    )


def _only(compare: str) -> str:
    if compare == "all":
        return ""
    kind = "of the same model" if compare == "within" else "of different models"
    return f" By the rule, only decisions {kind} are compared."


def _cells(one: ModelCounts) -> list[str]:
    cells = [f"{one.decisions:,}", _format_flagged(one.flagged, one.comparable)]
    for side in (one.within, one.across):
        cells += [_format_flagged(side.flagged, side.comparable)] * side.compared
    return cells


def _format_flagged(flagged: int, comparable: int | None) -> str:
    """Format how many contradict, of those that could; how many could is not always known."""
    if comparable is None:
        return f"{flagged:,}"
    share = f" ({percent(flagged / comparable)})" if comparable else ""
    return f"{flagged:,} of {comparable:,}{share}"


def name_of(model: str | None) -> str:
    """Name a model for people."""
    return "no model given" if model is None else model
