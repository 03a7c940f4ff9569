"""Models and versions: what each decided over one history, within itself and across models."""

from typing import Any

from likewise.pages import parts
from likewise.pages.screen import Part, Screen
from likewise.pages.tally import totals
from likewise.pages.visit import Visit
from likewise.reports.model_section import model_section
from likewise.values.model_counts import ModelCounts, ModelSide
from likewise.values.safe import safe


async def known(visit: Visit) -> dict[str, Any]:
    hosted = visit.hosted
    compare = hosted.monitor.rule.compare
    counts = await totals(hosted, visit.state.tally)
    if hosted.monitor.durable:
        by_model = (await visit.state.tally.read()).by_model(compare)
    else:
        by_model = [
            _since_start(name, many, hosted.counts.violations[name], compare)
            for name, many in hosted.counts.decisions.most_common()
        ]
    return {
        "monitor": hosted.name,
        "source": "ledger" if hosted.monitor.durable else "memory",
        "compare": compare,
        "counts": counts,
        "models": [one.to_dict() for one in by_model],
    }


def _since_start(name: str, decisions: int, violations: int, compare: str) -> ModelCounts:
    """What a monitor in memory knows of a model: not whom its decisions contradict."""
    nothing = ModelSide(False, None, 0, 0)
    return ModelCounts(name or None, decisions, None, violations, 0, nothing, nothing)


def shown(told: dict[str, Any], visit: Visit) -> str:
    counts = [
        ModelCounts(
            **{**one, "within": ModelSide(**one["within"]), "across": ModelSide(**one["across"])}
        )
        for one in told["models"]
    ]
    words = parts.counted(told["counts"])
    if not counts or all(one.model is None for one in counts):
        words += (
            "<p>No decision says which model made it. Send <code>model</code> with each one, and"
            " they are told apart here.</p>\n"
        )
        return words
    words += model_section(counts, told["compare"])
    if told["source"] == "ledger":
        words += (
            '<p class="small">Whom a decision contradicts is known of the nearest witnesses, which'
            " the ledger keeps.</p>\n"
        )
    else:
        words += (
            '<p class="small">This monitor is in memory: counted since the server was started.'
            " Whether a decision contradicts its own model or another one is not kept.</p>\n"
        )
    links = ", ".join(
        parts.link(visit, f"<bdi>{safe(one.model, 60)}</bdi>", "violations", model=one.model)
        for one in counts[:60]
        if one.model is not None
    )
    return words + f"<p>Contradictions of {links}</p>\n"


PARTS: tuple[Part, ...] = (Screen("models", "read", "Models and versions", known, shown),)
