"""What a monitor says about itself: the index in use, its shape, its work, its memory."""

from dataclasses import dataclass

from likewise.engine.chooser import Chooser
from likewise.indexes.protocol import Rebuilds
from likewise.kernels import table as t
from likewise.rules.rule import Rule


@dataclass(frozen=True)
class Explanation:
    """What a monitor is doing, and why."""

    index: str
    shape: str
    reason: str
    remembered: int
    forgotten: int
    width: int | None
    storage: str
    slack: float | None
    reach: float | None
    coordinates: int
    leaves: int
    depth: int
    form: str
    """What has become of the index, in a line."""
    tau: int | None
    """Rows between two builds, for a periodic index."""
    predicted_us: float | None
    """The paper's T(tau) for that: microseconds per decision."""
    share_visited: float
    """Of the history, by each of the last thousand decisions, on average."""
    rows_read: float
    """In full, by each of them, on average."""
    changes: int
    planes_lifted: int
    subtrees_rebuilt: int
    bytes_per_decision: float
    bytes_on_disk: float
    """Per decision; 0 where rows are kept in memory."""
    burst: str | None = None
    """What is counted of a burst, if anything, and what that takes."""

    def __str__(self) -> str:
        if self.width is None:
            return "index            none yet: the first decision settles what inputs look like"
        disk = f", {self.bytes_on_disk:,.0f} on disk" if self.bytes_on_disk else ""
        burst = () if self.burst is None else (f"burst            {self.burst}",)
        return "\n".join(
            (
                f"index            {self.shape}: {self.reason}",
                f"history          {self.remembered:,} decisions remembered,"
                f" {self.forgotten:,} forgotten, {self.width:,} coordinates kept as {self.storage}",
                f"near             distance <= {self.reach:.12g} (slack {self.slack:g} of epsilon)",
                f"form             {self.form}",
                f"a decision       looks at {self.share_visited:.2%} of the history and reads"
                f" {self.rows_read:.1f} rows in full (mean of the last thousand)",
                f"changes          {self.changes:,} times another index or sketch took over",
                f"memory           {self.bytes_per_decision:,.1f} bytes per decision{disk}",
                *burst,
            )
        )


def explanation_of(rule: Rule, storage: str, chooser: Chooser | None) -> Explanation:
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
    periodic = inner if isinstance(inner, Rebuilds) else None
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
        form=index.form(),
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
