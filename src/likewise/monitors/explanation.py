"""What a monitor says about itself: the index in use, its shape, its work, its memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """What a monitor is doing, and why."""

    index: str
    reason: str
    remembered: int
    forgotten: int
    width: int | None
    storage: str
    slack: float | None
    reach: float | None
    leaves: int
    depth: int
    blocks_per_search: float
    share_visited: float
    planes_lifted: int
    subtrees_rebuilt: int
    bytes_per_decision: float

    def __str__(self) -> str:
        if self.width is None:
            return f"index {self.index}: {self.reason}; nothing observed yet"
        return "\n".join(
            (
                f"index            {self.index}: {self.reason}",
                f"history          {self.remembered:,} decisions remembered,"
                f" {self.forgotten:,} forgotten, {self.width} coordinates kept as {self.storage}",
                f"near             distance <= {self.reach:.12g} (slack {self.slack:g} of epsilon)",
                f"tree             {self.leaves:,} leaves, depth {self.depth},"
                f" {self.planes_lifted:,} planes lifted,"
                f" {self.subtrees_rebuilt:,} subtrees rebuilt",
                f"a search visits  {self.blocks_per_search:.1f} blocks of 128 on average,"
                f" {self.share_visited:.2%} of the history",
                f"memory           {self.bytes_per_decision:.1f} bytes per decision",
            )
        )
