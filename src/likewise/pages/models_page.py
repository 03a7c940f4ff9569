"""The page of models: what each decided, and what contradicts within and across models."""

from typing import Any

from likewise.pages.frame import PageData, PagePart, Screen
from likewise.pages.page_state import Visit
from likewise.pages.running_tally import count_totals
from likewise.reports.group_section import model_section
from likewise.verdict.model_counts import ModelCounts, ModelSide


async def load(visit: Visit) -> PageData:
    served = visit.served
    compare = served.monitor.rule.compare
    totals = await count_totals(served, visit.state.tally)
    if served.monitor.durable:
        by_model = (await visit.state.tally.read()).by_model(compare)
    else:  # in memory it is not stored whether a model contradicts itself or another one
        unknown, violations = ModelSide(False, None, 0, 0), served.counts.violations
        by_model = [
            ModelCounts(name or None, count, None, violations[name], 0, unknown, unknown)
            for name, count in served.counts.decisions.most_common()
        ]
    data = {
        "monitor": served.name,
        "source": "ledger" if served.monitor.durable else "memory",
        "compare": compare,
        "counts": totals,
        "models": [model.to_dict() for model in by_model],
    }
    names = [counts.model for counts in by_model if counts.model is not None]

    def more() -> dict[str, Any]:
        uncounted = "the ledger does not store that" if served.monitor.durable else ""
        return {"names": names, "by_model": model_section(by_model, compare, uncounted=uncounted)}

    return PageData(data, more)


PARTS: tuple[PagePart, ...] = (
    Screen("models", "read", "Models and versions", load, "pages/models.html"),
)
