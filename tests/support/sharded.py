"""Monitors whose rows are searched by shards in this process, some of which fail.

Segments and batches are a few rows long here, so that short streams, which an oracle can follow,
cross many of them.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

import likewise as lw
from likewise.monitor.factory import make_reader
from likewise.monitor.monitor import assemble_monitor
from likewise.monitor.opening import LedgerOptions
from likewise.search.engine.engine import Engine
from likewise.sharding.fleet import Fleet
from likewise.sharding.open_cluster import open_cluster
from likewise.sharding.placement import Placement, PlacementPlan
from likewise.sharding.protocol import ClusterSettings, ShardDown
from likewise.sharding.shard import Shard
from likewise.sharding.sharded_index import ShardedIndexFactory


class LocalShards:
    """Holds shards. A call is made when it is sent; its handle is the answer or the error."""

    def __init__(self, count: int) -> None:
        self.shards = [Shard() for _ in range(count)]

    def send(self, shard: int, call: str, *arguments: Any) -> Any:
        try:
            return self.shards[shard].call(call, *arguments), None
        except Exception as error:
            return None, error

    def result(self, handle: Any, seconds: float | None = None) -> Any:
        answer, error = handle
        if error is not None:
            raise error
        return answer

    def ensure_running(self, shard: int, seconds: float | None) -> None:
        """Do nothing: the shard is in this process."""

    def lose(self, shard: int) -> None:
        """Have a shard lose its rows, as a process does that is killed."""
        self.shards[shard] = Shard()

    def describe(self) -> str:
        return f"{len(self.shards)} shards in this process"

    def end(self, shard: int, coordinators: Collection[str]) -> None:
        if self.shards[shard].owner() in (None, *coordinators):
            self.lose(shard)

    def close(self) -> None:
        """Do nothing: the shards end with this object."""


class FailingShards(LocalShards):
    """Shards of which some lose everything before a call, and some after it, unheard."""

    def __init__(self, count: int, seed: int, often: float) -> None:
        super().__init__(count)
        self._rng = np.random.default_rng(seed)
        self.often = often
        self.lost = 0

    def send(self, shard: int, call: str, *given: Any) -> Any:
        chance = self._rng.random()
        if chance < self.often / 3:  # killed before the call
            self.lose(shard)
            return self._unheard()
        handle = super().send(shard, call, *given)
        if chance < 2 * self.often / 3:  # killed after it
            self.lose(shard)
            return self._unheard()
        if chance < self.often:  # it goes on, but the answer is lost
            return self._unheard()
        return handle

    def _unheard(self) -> Any:
        self.lost += 1
        return None, ShardDown("it failed on purpose")


def fleet_of(
    backend: Any, *, shards: int, segment: int = 7, ahead: int = 3, patience: Any = None
) -> Fleet:
    return Fleet(
        backend,
        Placement([PlacementPlan(0, shards, segment)]),
        epoch=1,
        coordinator="test",
        trust={},
        ahead=ahead,
        patience=patience,
    )


def sharded(
    rule: lw.Rule,
    shards: int = 3,
    *,
    backend: Any = None,
    segment: int = 7,
    batch_rows: int = 5,
    index: str = "auto",
    **more: Any,
) -> lw.Monitor:
    """A monitor in memory, over shards in this process."""
    fleet = fleet_of(backend or LocalShards(shards), shards=shards, segment=segment)
    reader = make_reader(rule)
    made = ShardedIndexFactory(fleet, index=index, batch_rows=batch_rows, keep=False)
    return assemble_monitor(reader, Engine(reader.vector_rule, index=made, **more))


def in_process(
    folder: Any,
    rule: lw.Rule | None,
    backend: Any = None,
    *,
    settings: Any = None,
    keeping: Any = None,
    **more: Any,
) -> Any:
    """A monitor with a ledger, over shards in this process."""
    settings = settings or ClusterSettings(shards=3, segment_rows=7, micro_batch=5, keep=True)
    return open_cluster(
        folder,
        rule,
        settings,
        keeping or LedgerOptions(durability="off"),
        make_backend=lambda _, told: backend or LocalShards(told.shards),
        **more,
    )
