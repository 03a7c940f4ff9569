"""Machines that are lost: `python losing_nodes.py FOLDER`, over a Ray cluster of three raylets.

Kills a raylet and the processes on it while decisions are judged, and compares every verdict with
those of one monitor. Says how long the judging stood still.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import likewise as lw
from likewise.sharding.on_ray import set_up

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


def main(folder: Path) -> None:
    set_up(os.environ)
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
    X, Z = rng.integers(0, 6, (3_000, 4)) * 0.1, rng.integers(0, 3, 3_000)
    alone = lw.Monitor(RULE)
    settings = {"shards": 3, "segment_rows": 100, "micro_batch": 50}
    seconds = []
    with lw.cluster(folder, RULE, address="auto", durability="off", **settings) as monitor:
        for start in range(0, 3_000, 100):
            if start in (1_000, 2_000):
                node = nodes.pop(0)
                raylets = [one.process.pid for one in node.all_processes["raylet"]]
                lost = [pid for raylet in raylets for pid in (raylet, *children(raylet))]
                for pid in lost:
                    os.kill(pid, signal.SIGKILL)
                assert len(lost) > 1
                nodes.append(cluster.add_node(num_cpus=2, **small))
            began = time.monotonic()
            mine = monitor.observe_many(X[start : start + 100], Z[start : start + 100])
            if start in (1_000, 2_000):
                seconds.append(time.monotonic() - began)
            theirs = alone.observe_many(X[start : start + 100], Z[start : start + 100])
            assert np.array_equal(mine.offsets, theirs.offsets)
            assert mine.witnesses == theirs.witnesses
        assert monitor._sharded.fleet.recoveries > 0, "no shard was on a machine that was lost"
    print("stood still for", *(f"{one:.1f}" for one in seconds), "seconds")
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
