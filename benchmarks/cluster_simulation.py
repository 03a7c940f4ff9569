"""`python -m benchmarks.cluster_simulation`: what a cluster would do at 10⁹ and 10¹⁰ decisions.

A plan on paper. Batches go through one coordinator and a bounded window to all shards, over links
of some latency and bandwidth; each shard serves its queue in order; a batch is answered when the
last shard has answered. Machines are lost at random, come back after a while, get their rows;
meanwhile everything waits. Costs are numbers that were measured (`Costs`), and the first thing it
does is to say what it makes of the small cases that were measured too, of which it was told those
of one shard only.

Not here: anything that was not measured at small size, such as a network that drops packets, or a
disk of the coordinator that is slower than what arrives.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

DAY = 86_400.0


@dataclass(frozen=True)
class Costs:
    """Seconds, measured on one machine with two slow cores."""

    call: float = 0.8e-3
    """Of the coordinator, for one call of one shard: packing, sending, receiving."""
    trip: float = 2.0e-3
    """From a call to its answer, whatever it asks: what Ray takes, most of it waiting."""
    batch: float = 2.0e-3
    """Of the coordinator, for one batch, whatever is in it."""
    decision: float = 12e-6
    """Of the coordinator, for one decision: reading, checking, writing to the ledger."""
    search: float = 10e-6
    """Of a shard, for one decision against `rows` rows of its own."""
    rows: float = 1e5
    growth: float = 0.15
    """Searching grows with this power of the rows, where witnesses do not grow with them."""
    replay: float = 1 / 500_000
    """Of a row that is sent again."""
    notice: float = 3.0
    """From a loss to an empty shard that answers."""


@dataclass(frozen=True)
class Plan:
    """A cluster and what is asked of it."""

    shards: int
    rows: float
    batch: int = 1024
    ahead: int = 4
    row_bytes: int = 100
    latency: float = 0.0
    bandwidth: float = 1e12
    """Bytes a second of the coordinator's link, which all shards share."""
    shared_cores: int | None = None
    """Cores for everything, where all is on one machine; None: each shard has its own."""
    days_between_losses: float = 0.0
    """Of one shard, on average; 0: none is lost."""


def simulated(plan: Plan, costs: Costs, batches: int = 2_000, seed: int = 1) -> dict[str, float]:
    """Seconds of a batch, and decisions a second while nothing is lost."""
    rng = np.random.default_rng(seed)
    per_search = costs.search * (max(1.0, plan.rows / plan.shards) / costs.rows) ** costs.growth
    send = plan.batch * plan.row_bytes / plan.bandwidth
    free = np.zeros(plan.shards)
    coordinator = 0.0
    done: list[float] = []
    spent = np.empty(batches)
    for i in range(batches):
        if i >= plan.ahead:
            coordinator = max(coordinator, done[i - plan.ahead])
        began = coordinator
        coordinator += costs.batch + plan.batch * costs.decision
        coordinator += plan.shards * (costs.call + send)
        noise = rng.lognormal(0.0, 0.15, plan.shards)
        work = plan.batch * per_search * noise
        if plan.shared_cores is not None:  # they take turns; waiting for Ray takes no core
            work *= max(1.0, plan.shards / plan.shared_cores)
        free = np.maximum(free, coordinator + plan.latency) + work
        done.append(float(free.max()) + costs.trip + plan.latency)
        spent[i] = done[-1] - began
    rate = batches * plan.batch / done[-1]
    return {
        "batch_ms": 1e3 * float(np.median(spent)),
        "p99_ms": 1e3 * float(np.percentile(spent, 99)),
        "rate": rate,
    }


def lost_share(plan: Plan, costs: Costs) -> tuple[float, float]:
    """Seconds that one loss costs, and the share of the time in which a shard is being mended."""
    mend = costs.notice + plan.rows / plan.shards * costs.replay
    if plan.days_between_losses == 0:
        return mend, 0.0
    between = plan.days_between_losses * DAY / plan.shards
    return mend, mend / (between + mend)


def measured_cases(found: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Each measured batch of a cluster on one machine: what was measured, what this says; ms.

    Costs come from batches of one shard, calls that do nothing, and the processor time of shards;
    how long batches of two and four shards took is not among what it is told.
    """
    told = []
    costs = fitted(found)
    for row in found["overhead"]:
        plan = Plan(row["shards"], costs.rows, row["batch"], ahead=1, shared_cores=2)
        name = f"{row['shards']} shards, batches of {row['batch']}"
        told.append((name, row["p50_ms"], simulated(plan, costs, 300)["batch_ms"]))
    return told


def fitted(found: dict[str, Any]) -> Costs:
    """Costs that follow from batches of one shard, from calls that do nothing, and from losses."""
    rows = {(row["shards"], row["batch"]): row for row in found["overhead"]}
    bare = {shards: rows[shards, 1]["bare_ms"] / 1e3 for shards in (1, 4)}
    call = max(1e-5, (bare[4] - bare[1]) / 3)  # what a further shard adds to calls
    trip = max(0.0, bare[1] - call)
    small, large = (rows[1, batch]["p50_ms"] / 1e3 for batch in (1, 1024))
    works = {shards: rows[shards, 1024]["work_ms"] / 1e3 / shards for shards in (1, 4)}
    growth = np.log(works[1] / works[4]) / np.log(4) if works[4] > 0 else 0.0
    search = works[1] / 1024
    loss = found["losses"][0]
    return replace(
        Costs(),
        call=call,
        trip=trip,
        batch=max(0.0, small - call - trip),
        decision=max(1e-7, (large - small) / 1023 - search),
        search=search,
        growth=float(np.clip(growth, 0.0, 1.0)),
        replay=1 / loss["rows_per_second"],
        notice=loss["answered_s"] - loss["replay_s"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=Path("docs/benchmarks.json"))
    answers = json.loads(parser.parse_args().results.read_text(encoding="utf-8"))["answers"]
    found = answers["cluster"]["tables"]
    costs = fitted(found)
    print("measured and simulated, milliseconds of a batch:")
    for name, measured, simulation in measured_cases(found):
        print(f"  {name:32} {measured:8.2f} {simulation:8.2f} {simulation / measured - 1:+7.0%}")
    print("decisions, shards: batch ms (p99), decisions a second, one loss mends in, time lost")
    large = replace(costs, growth=Costs().growth)  # in small cases witnesses grow with the history
    for rows, shards in ((1e9, 8), (1e9, 32), (1e10, 64), (1e10, 256)):
        plan = Plan(
            shards, rows, batch=16_384, latency=2e-4, bandwidth=1.25e9, days_between_losses=30.0
        )
        told, (mend, share) = simulated(plan, large), lost_share(plan, large)
        print(
            f"  {rows:7.0e} {shards:4} {told['batch_ms']:8.1f} ({told['p99_ms']:.1f})"
            f" {told['rate']:10,.0f} {mend:8.0f} s {share:8.3%}"
        )


if __name__ == "__main__":
    main()
