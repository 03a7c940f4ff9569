"""Describe an engine: the index in use, its shape, its work and its memory."""

from likewise.rule.rule import Rule
from likewise.search.engine.chooser import Chooser
from likewise.search.indexes.protocol import RebuiltIndex
from likewise.search.kernels import table as t
from likewise.verdict.index_report import Explanation


def explanation_of(rule: Rule, storage: str, chooser: Chooser | None) -> Explanation:
    """Return the explanation of an engine; `chooser` is None before the first decision."""
    if chooser is None:
        return Explanation(
            index="none",
            shape="none",
            reason="nothing observed yet",
            remembered=0,
            forgotten=0,
            width=None,
            storage=storage,
            slack=None,
            reach=None,
            coordinates=0,
            leaves=0,
            depth=0,
            form="none",
            tau=None,
            predicted_us=None,
            share_visited=0.0,
            rows_read=0.0,
            changes=0,
            planes_lifted=0,
            subtrees_rebuilt=0,
            bytes_per_decision=0.0,
            bytes_on_disk=0.0,
        )
    history, index = chooser.history, chooser.index
    table = index.state.table
    slack = rule.slack_for(storage)
    live = max(history.live, 1)
    inner = getattr(index, "index", None)
    periodic = inner if isinstance(inner, RebuiltIndex) else None
    return Explanation(
        index=index.name,
        shape=index.shape,
        reason=chooser.reason,
        remembered=history.live,
        forgotten=history.total - history.live,
        width=history.width,
        storage=storage,
        slack=slack,
        reach=rule.epsilon * (1.0 + slack),
        coordinates=index.state.layout.axes,
        leaves=index.leaves(),
        depth=index.depth(),
        form=index.describe(),
        tau=periodic.tau if periodic else None,
        predicted_us=periodic.predicted_us if periodic else None,
        share_visited=chooser.share(),
        rows_read=chooser.rows_read(),
        changes=chooser.changes,
        planes_lifted=int(table[t.LIFTS]),
        subtrees_rebuilt=int(table[t.REBUILDS]),
        bytes_per_decision=(history.used_bytes + index.state.used_bytes) / live,
        bytes_on_disk=history.disk_bytes / live,
    )
