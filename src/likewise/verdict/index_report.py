"""The report of a monitor on itself: the index in use, its work, its memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """The index that a monitor uses, why, and what its decisions cost."""

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
    """The current form of the index, in one line."""
    tau: int | None
    """Rows between two builds, for a periodic index."""
    predicted_us: float | None
    """The paper's T(tau) for that tau: microseconds per decision."""
    share_visited: float
    """The share of the history that each of the last thousand decisions visited, on average."""
    rows_read: float
    """The rows that each of them read in full, on average."""
    changes: int
    planes_lifted: int
    subtrees_rebuilt: int
    bytes_per_decision: float
    bytes_on_disk: float
    """Bytes per decision; 0 where rows are kept in memory."""
    burst: str | None = None
    """What is counted for a burst, and its cost; None without a burst."""

    def __str__(self) -> str:
        if self.width is None:
            return "index            none yet: the first decision determines the shape of inputs"
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
                f"changes          {self.changes:,} times to another index or sketch",
                f"memory           {self.bytes_per_decision:,.1f} bytes per decision{disk}",
                *burst,
            )
        )
