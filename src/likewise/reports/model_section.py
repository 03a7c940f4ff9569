"""The part of the report about models: who decided how much, and who contradicts whom.

Every value from the data is made safe (safe.py).
"""

from collections.abc import Sequence

from likewise.reports.document import section
from likewise.values.model_counts import ModelCounts
from likewise.values.printing import percent
from likewise.values.safe import folded, safe

_TABLE = 20  # models in the table before the rest is folded away
_LEAD = (
    "Which model decided is known. A decision may contradict an earlier one of the same model, or"
    " one of another model: the first says that a model is not consistent with itself, the second"
    " that two models do not agree. Each count is of the decisions that had such an earlier like"
    " case."
)
_NOT_LOOKED_AT = (
    "How many had a like case within and across models was not looked at: there are too many like"
    " pairs, or earlier decisions are forgotten."
)


def model_section(models: Sequence[ModelCounts], compare: str) -> str:
    """A table by model; nothing where no model is known.

    compare: which decisions the rule compares
    """
    if not models:
        return ""
    some, rest = models[:_TABLE], models[_TABLE:]
    inside = _table(some)
    if rest:
        more = f"{len(rest):,} more model{'s' * (len(rest) != 1)}"
        inside += folded(more, _table(rest), f"{more} are in the page and not printed.")
    if compare == "all" and any(one.within.comparable is None for one in models):
        inside += f'<p class="small">{_NOT_LOOKED_AT}</p>\n'
    return section("models", "By model", _LEAD + _only(compare), inside)


def _only(compare: str) -> str:
    if compare == "all":
        return ""
    kind = "of the same model" if compare == "within" else "of different models"
    return f" By the rule, only decisions {kind} are compared."


def _table(models: Sequence[ModelCounts]) -> str:
    heads = ["decisions", "contradict an earlier one"]
    for side, whose in ((models[0].within, "its own"), (models[0].across, "another model’s")):
        heads += [f"contradict {whose}"] * side.compared
    top = "".join(f'<th scope="col" class="number">{head}</th>' for head in heads)
    rows = "".join(_row(one, heads) for one in models)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Decisions by model">'
        f'<table class="sortable"><thead><tr><th scope="col">model</th>{top}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _row(one: ModelCounts, heads: Sequence[str]) -> str:
    cells = [f"{one.decisions:,}", _flagged(one.flagged, one.comparable)]
    for side in (one.within, one.across):
        cells += [_flagged(side.flagged, side.comparable)] * side.compared
    numbers = "".join(
        f'<td class="number" data-label="{head}">{cell}</td>'
        for head, cell in zip(heads, cells, strict=True)
    )
    return f'<tr><th scope="row"><bdi>{safe(name_of(one.model), 60)}</bdi></th>{numbers}</tr>'


def _flagged(flagged: int, comparable: int | None) -> str:
    """How many contradict, of those that could; how many could is not always known."""
    if comparable is None:
        return f"{flagged:,}"
    share = f" ({percent(flagged / comparable)})" if comparable else ""
    return f"{flagged:,} of {comparable:,}{share}"


def name_of(model: str | None) -> str:
    """A model for people, not yet safe."""
    return "no model given" if model is None else model
