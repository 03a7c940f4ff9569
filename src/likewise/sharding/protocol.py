"""The contract between a coordinator and its shards.

A shard holds some rows of a history, in their order, numbered from 0. Every call names its session
and how many rows the shard must have; a shard that has others refuses (`OutOfStep`), is opened
again and sent the rows that it lacks. So an answer depends on the history alone.
Invariant: a shard answers calls of its latest session only. A session of a lower epoch, or of
another coordinator of the same epoch, is refused (`Fenced`) for ever.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from likewise.errors import BadRule, Unreachable
from likewise.rule.rule import Rule
from likewise.tables.known_names import check_one_of
from likewise.tables.setting_checks import check_whole_number


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
            check_whole_number(name, getattr(self, name))
        check_one_of("when_down", self.when_down, ("block", "incomplete"))
        if not self.patience_seconds > 0 or not self.cpus >= 0:
            raise BadRule("patience_seconds is more than 0, and cpus is at least 0")

    @property
    def patience(self) -> float | None:
        """Seconds after which a shard is left out; None: never."""
        return self.patience_seconds if self.when_down == "incomplete" else None


class Session(NamedTuple):
    """Names the coordinator whose calls a shard answers.

    epoch       counts the openings of a ledger by coordinators; the ledger's chain has each
    coordinator a random name, so that two with the same epoch are told apart
    attempt     counts how often this coordinator has opened this shard
    """

    epoch: int
    coordinator: str
    attempt: int


@dataclass(frozen=True)
class ShardSpec:
    """Says what a shard compares, and how; all shards of a history have the same."""

    rule: Rule
    index: str
    shape: tuple[int, ...]
    storage: str
    out_width: int


class ShardDown(Exception):
    """Says that a shard did not answer, and may have lost its rows."""


class OutOfStep(Exception):
    """Says that a shard has other rows, or another session, than the call expects."""


class Fenced(Unreachable):
    """Says that another coordinator has taken these shards over; nothing was stored."""

    code = "fenced"


class ShardBackend(Protocol):
    """Runs shards. The calls of one shard are made in the order in which they are sent."""

    def send(self, shard: int, call: str, *arguments: Any) -> Any:
        """Have a shard make a call (a method of `Shard`); return a handle of it."""

    def result(self, handle: Any, seconds: float | None = None) -> Any:
        """Return what the call answered; raise ShardDown, OutOfStep or Fenced.

        seconds     after which the shard counts as down; None: never
        """

    def ensure_running(self, shard: int, seconds: float | None) -> None:
        """Have a shard running, empty or not; raise ShardDown if that takes longer."""

    def describe(self) -> str:
        """Say where the shards are, in a few words."""

    def end(self, shard: int, coordinators: Collection[str]) -> None:
        """End a shard, if it runs and answers nobody, or one of these coordinators."""

    def close(self) -> None:
        """Let go of the shards; they keep running."""


Trust = Mapping[str, int]
"""By coordinator, how many of the rows that a shard has from it are as the ledger has them."""
