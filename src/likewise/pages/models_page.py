"""Models and versions: what each decided over one history, within itself and across models."""

from likewise.pages.page_state import Visit
from likewise.pages.running_tally import count_totals
from likewise.pages.screen import PageData, PagePart, Screen
from likewise.reports.model_section import model_section
from likewise.verdict.model_counts import ModelCounts, ModelSide


async def load(visit: Visit) -> PageData:
    hosted = visit.hosted
    compare = hosted.monitor.rule.compare
    counts = await count_totals(hosted, visit.state.tally)
    if hosted.monitor.durable:
        by_model = (await visit.state.tally.read()).by_model(compare)
    else:  # a monitor in memory does not know whom a model's decisions contradict
        nothing, violations = ModelSide(False, None, 0, 0), hosted.counts.violations
        by_model = [
            ModelCounts(name or None, many, None, violations[name], 0, nothing, nothing)
            for name, many in hosted.counts.decisions.most_common()
        ]
    data = {
        "monitor": hosted.name,
        "source": "ledger" if hosted.monitor.durable else "memory",
        "compare": compare,
        "counts": counts,
        "models": [one.to_dict() for one in by_model],
    }
    named = [one.model for one in by_model if one.model is not None]
    return PageData(data, lambda: {"named": named, "by_model": model_section(by_model, compare)})


PARTS: tuple[PagePart, ...] = (
    Screen("models", "read", "Models and versions", load, "pages/models.html"),
)
