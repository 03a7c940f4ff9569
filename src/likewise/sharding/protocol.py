"""The contract between a coordinator and its shards.

A shard holds some rows of a history, in their order, under numbers of its own from 0 on. It knows
nothing of the rows that others hold. The coordinator says with every call which session it belongs
to, and how many rows the shard must have by then. A shard that has others refuses (`OutOfStep`);
the coordinator opens it again, sends the rows that it lacks, and repeats what was not answered. So
an answer follows from the history alone, however often shards fail.

Invariant: a shard answers calls of its latest session only. A session of a lower epoch, or of
another coordinator of the same epoch, is refused (`Fenced`) for ever.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from likewise.errors import Unreachable
from likewise.rule.rule import Rule


class Session(NamedTuple):
    """Whose calls a shard answers.

    epoch       counts the openings of a ledger by coordinators; the ledger's chain has each
    coordinator a random name, so that two with the same epoch are told apart
    attempt     counts how often this coordinator has opened this shard
    """

    epoch: int
    coordinator: str
    attempt: int


@dataclass(frozen=True)
class ShardSpec:
    """What a shard compares, and how: the same for all shards of a history."""

    rule: Rule
    index: str
    shape: tuple[int, ...]
    storage: str
    out_width: int


class ShardDown(Exception):
    """A shard did not answer, and may have lost its rows."""


class OutOfStep(Exception):
    """A shard has other rows, or another session, than the call expects."""


class Fenced(Unreachable):
    """Another coordinator has taken these shards over. Nothing was stored."""

    code = "fenced"


class ShardBackend(Protocol):
    """Where shards live. Calls of one shard are made in the order in which they are sent."""

    def send(self, shard: int, call: str, *given: Any) -> Any:
        """Have a shard make a call (a method of `Shard`); its handle."""

    def result(self, handle: Any, seconds: float | None = None) -> Any:
        """What the call answered; raises ShardDown, OutOfStep or Fenced.

        seconds: how long to wait before that counts as being down; None: as long as it takes
        """

    def ensure_running(self, shard: int, seconds: float | None) -> None:
        """Have a shard there, empty or not; raise ShardDown if that takes longer."""

    def describe(self) -> str:
        """Where the shards are, in a few words."""

    def end(self, shard: int, coordinators: Collection[str]) -> None:
        """End a shard, if it is there and nobody's or of one of these coordinators."""

    def close(self) -> None:
        """Let go of the shards; they go on."""


Trust = Mapping[str, int]
"""By coordinator: how many of the rows that a shard has from it are as the ledger has them."""
