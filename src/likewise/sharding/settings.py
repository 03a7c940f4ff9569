"""The settings of a cluster, from `lw.cluster` or from a file of settings."""

from typing import Literal

from msgspec import Struct

from likewise.errors import BadRule


class ClusterSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Says where the shards of a monitor are, and how they are asked."""

    address: str | None = None
    """A Ray cluster, such as "auto" or "10.0.0.7:6379"; None: Ray is started here."""
    shards: int = 4
    name: str | None = None
    """The name of the shards in that cluster; None: one made from the ledger."""
    when_down: Literal["block", "incomplete"] = "block"
    """What happens while a shard is down: calls "block", or verdicts are "incomplete"."""
    patience_seconds: float = 5.0
    """How long a call waits for a shard before its verdict is incomplete."""
    keep: bool = False
    """Whether shards keep running after `close`, for whoever opens the ledger next."""
    segment_rows: int = 65_536
    """Consecutive rows that go to the same shard."""
    micro_batch: int = 1_024
    """How many decisions shards are sent together."""
    ahead: int = 4
    """How many micro-batches are under way at once."""
    cpus: float = 0.25
    """How many cores of a machine Ray reserves for each shard."""

    def __post_init__(self) -> None:
        for name in ("shards", "segment_rows", "micro_batch", "ahead"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadRule(f"{name} is {value!r}; expected a whole number from 1", setting=name)
        if self.when_down not in ("block", "incomplete"):
            raise BadRule(
                f"when_down is {self.when_down!r}; expected block or incomplete",
                setting="when_down",
            )
        if not self.patience_seconds > 0 or not self.cpus >= 0:
            raise BadRule("patience_seconds is more than 0, and cpus is at least 0")

    @property
    def patience(self) -> float | None:
        """Seconds after which a shard is left out; None: never."""
        return self.patience_seconds if self.when_down == "incomplete" else None
