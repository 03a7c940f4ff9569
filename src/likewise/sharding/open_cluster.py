"""`lw.cluster` opens a monitor with a ledger whose rows are searched by shards.

The ledger is the only log. Each opening is an epoch (ledger/epochs.py), which tells a coordinator
up to which row a shard that it finds can be relied on; the rest is replayed.
Invariant: verdicts are those of `lw.open` on the same decisions, to the last witness.
Cost: that of `lw.open` with inputs in a file, and a round trip to all shards for each call.
Not here: shards (shard.py), asking them (sharded_index.py), their failures (fleet.py).
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

from likewise.errors import BadRule
from likewise.ledger import folder
from likewise.ledger.epochs import begin_epoch, stored_plans
from likewise.ledger.store import Store
from likewise.monitor.monitor import Monitor
from likewise.monitor.opening import LedgerOptions, open_ledger
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.search.engine.engine import Engine
from likewise.sharding.fleet import Fleet
from likewise.sharding.placement import Placement
from likewise.sharding.protocol import ClusterSettings, ShardBackend
from likewise.sharding.shard_calls import INCOMPLETE, MonitorShards, read_incomplete_ranges
from likewise.sharding.sharded_index import ShardedIndexFactory

COMPILED = ("auto", "live", "flat")

ShardBackendFactory = Callable[[str, ClusterSettings], ShardBackend]
"""Makes the shards of a cluster, from its name and settings."""

_UNSUPPORTED_SETTINGS = {"slope", "slope_limit", "input_exponent", "inputs"}
"""Settings of `lw.open` that shards do not have."""


def cluster(
    path: str | os.PathLike[str],
    rule: Rule | None = None,
    *,
    address: str | None = None,
    shards: int = 4,
    name: str | None = None,
    when_down: Literal["block", "incomplete"] = "block",
    patience_seconds: float = 5.0,
    keep: bool = False,
    segment_rows: int = 65_536,
    micro_batch: int = 1_024,
    ahead: int = 4,
    cpus: float = 0.25,
    index: str = "auto",
    burst: Burst | None = None,
    comparable: bool = False,
    support: bool = False,
    models: bool | None = None,
    **ledger_options: Any,
) -> Monitor:
    """Open a monitor with a ledger, whose history is searched by shards on a Ray cluster.

    path, rule  the ledger, as for `lw.open`: a new one, or one that was used with or without shards
    address     of a Ray cluster, such as "auto" or "10.0.0.7:6379", on whose machines likewise is
                installed. Without it Ray is started here, for this process
    shards      how many; a ledger can be opened with more than before, and nothing moves
    name        of the shards in that cluster; without it, one that goes with the ledger
    when_down   "block": a call waits for a shard that is down. "incomplete": after
                `patience_seconds` it is answered without that shard
    keep        whether shards keep running after `close`, for whoever opens the ledger next
    segment_rows  consecutive rows that go to the same shard
    micro_batch, ahead  how many decisions shards are sent together, and how many of these batches
                are under way at once
    cpus        how many cores of a machine Ray reserves for each shard
    index       of each shard: "auto", "live" or "flat"
    burst, comparable, support, models, and all further settings: as for `lw.open`, but for slopes
                and `rows`, which shards do not have

    Verdicts are those of `lw.open`, to the last witness. Send batches: a call costs a round trip.
    """
    for setting in _UNSUPPORTED_SETTINGS & ledger_options.keys():
        raise BadRule(
            f"{setting} is {ledger_options[setting]!r}, and shards keep rows in memory and search"
            " for contradictions alone. Leave it out, or open the ledger with lw.open.",
            setting=setting,
        )
    settings = ClusterSettings(
        address=address,
        shards=shards,
        name=name,
        when_down=when_down,
        patience_seconds=patience_seconds,
        keep=keep,
        segment_rows=segment_rows,
        micro_batch=micro_batch,
        ahead=ahead,
        cpus=cpus,
    )
    return open_cluster(
        path,
        rule,
        settings,
        LedgerOptions(**ledger_options),
        index=index,
        burst=burst,
        comparable=comparable,
        support=support,
        models=models,
    )


def open_cluster(
    path: str | os.PathLike[str],
    rule: Rule | None,
    settings: ClusterSettings,
    keeping: LedgerOptions,
    *,
    index: str = "auto",
    burst: Burst | None = None,
    comparable: bool = False,
    support: bool = False,
    models: bool | None = None,
    make_backend: ShardBackendFactory | None = None,
) -> Monitor:
    """Open a cluster from settings that were checked.

    make_backend    makes the shards; Ray actors unless given
    """
    if index not in COMPILED:
        raise BadRule(
            f"index is {index!r}; shards have one of {', '.join(COMPILED)}", setting="index"
        )
    factories: list[ShardedIndexFactory] = []

    def take_over(store: Store) -> ShardedIndexFactory:
        factories.append(_take_over_shards(store, settings, index, make_backend or _on_ray))
        return factories[0]

    new = rule is not None and not folder.exists(Path(path))
    try:
        with _join_ray(settings.address) if new and make_backend is None else nullcontext():
            monitor = open_ledger(
                path,
                rule,
                keeping,
                models=models,
                inputs="disk",
                engine=partial(Engine, burst=burst, comparable=comparable, support=support),
                index=take_over,
            )
    except BaseException:
        for factory in factories:
            factory.fleet.backend.close()
        raise
    monitor.core.use_shards(MonitorShards(factories[0]))
    return monitor


def _join_ray(address: str | None) -> AbstractContextManager[None]:
    """Join Ray before a new ledger is created: if that fails, no ledger is left behind."""
    from likewise.sharding.on_ray import join_ray

    return join_ray(address)


def _on_ray(name: str, settings: ClusterSettings) -> ShardBackend:
    from likewise.sharding.on_ray import RayShards

    return RayShards(name, settings.shards, address=settings.address, cpus=settings.cpus)


def _take_over_shards(
    store: Store, settings: ClusterSettings, index: str, make: ShardBackendFactory
) -> ShardedIndexFactory:
    """Begin an epoch: record it in the chain, then take the shards over."""
    placement = Placement.of(
        stored_plans(store), store.rows, settings.shards, settings.segment_rows
    )
    name = settings.name or f"likewise-{store.reader.events()[0].link.hex()[:16]}"
    backend = make(name, settings)
    try:
        epoch = begin_epoch(store, placement.to_lists())
    except BaseException:
        backend.close()
        raise
    fleet = Fleet(
        backend,
        placement,
        epoch=epoch.number,
        coordinator=epoch.writer,
        trust=epoch.trust,
        ahead=settings.ahead,
        patience=settings.patience,
    )
    fleet.incomplete_ranges = read_incomplete_ranges(store.reader.events(), store.first)
    fleet.on_incomplete = lambda rows: store.event(INCOMPLETE, rows._asdict())
    return ShardedIndexFactory(
        fleet, index=index, batch_rows=settings.micro_batch, keep=settings.keep
    )
