"""Machines that are lost: `python losing_nodes.py FOLDER KILLS`, over three raylets of Ray.

Kills raylets and the processes on them while decisions are judged, and compares every verdict with
those of one monitor. Says how long the judging stood still.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import likewise as lw
from likewise.sharding.on_ray import set_ray_environment

RULE = lw.Rule("linf", 0.1)


def children(parent: int) -> list[int]:
    """Processes that a process has started, and those that these have."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == parent:
            found += [int(entry.name), *children(int(entry.name))]
    return found


def main(folder: Path, kills: int) -> None:
    set_ray_environment(os.environ)
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80_000_000}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small}
    )
    ray.init(address=cluster.address, namespace="likewise", log_to_driver=False)
    nodes = [cluster.add_node(num_cpus=2, **small) for _ in range(2)]
    cluster.wait_for_nodes()
    rng = np.random.default_rng(3)
    alone = lw.Monitor(RULE)
    settings = {"shards": 3, "segment_rows": 100, "micro_batch": 50}
    seconds = list[float]()

    def judge(size: int) -> None:
        batch = rng.integers(0, 6, (size, 4)) * 0.1, rng.integers(0, 3, size)
        mine, theirs = monitor.observe_many(*batch), alone.observe_many(*batch)
        assert np.array_equal(mine.offsets, theirs.offsets)
        assert mine.witnesses == theirs.witnesses

    with lw.cluster(folder, RULE, address="auto", durability="off", **settings) as monitor:
        judge(400)
        for _ in range(kills):
            node = nodes.pop(int(rng.integers(len(nodes))))
            raylets = [one.process.pid for one in node.all_processes["raylet"]]
            lost = [pid for raylet in raylets for pid in (raylet, *children(raylet))]
            assert len(lost) > 1
            striking = threading.Timer(rng.uniform(0, 0.05), kill, [lost])
            began = time.monotonic()
            striking.start()
            while striking.is_alive():
                judge(int(rng.integers(1, 150)))
            judge(150)
            seconds.append(time.monotonic() - began)
            nodes.append(cluster.add_node(num_cpus=2, **small))
        recoveries = monitor.core.shards.fleet.recoveries
        assert recoveries >= kills / 2, "no shard was on a machine that was lost"
        assert (monitor.rows, len(monitor)) == (alone.rows, len(alone))
        assert monitor.ledger.verify().ok
        decisions = monitor.rows
    print(f"{kills} machines lost, {recoveries} recoveries, {decisions} decisions")
    print("stood still for", *(f"{one:.1f}" for one in seconds), "seconds")
    ray.shutdown()
    cluster.shutdown()


def kill(processes: list[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
