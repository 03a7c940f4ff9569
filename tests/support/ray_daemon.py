"""A Ray cluster for tests, as a process of its own: `python tests/support/ray_daemon.py FILE PID`.

Writes its address, its token and the numbers of its processes to FILE, and ends with process PID:
with the tests, however these end. What is left of its processes then is ended by their numbers.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from likewise.sharding.on_ray import set_ray_environment

HEAD = {"num_cpus": 8, "object_store_memory": 120_000_000, "include_dashboard": False}


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def main(file: Path, parent: int) -> None:
    # All tests use this cluster, and none of them takes its machine away: on a busy machine it is
    # not to be given up because it answered late.
    os.environ.update({"RAY_health_check_failure_threshold": "60"})
    set_ray_environment(os.environ)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    processes = [
        started.process.pid
        for several in cluster.head_node.all_processes.values()
        for started in several
    ]
    told = {
        "address": cluster.address,
        "token": os.environ["RAY_AUTH_TOKEN"],
        "processes": processes,
        "daemon": os.getpid(),
    }
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(told))
    fresh.replace(file)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while alive(parent):
        time.sleep(0.5)
    for left in (file, file.with_suffix(".lock"), file.with_suffix(".log")):
        left.unlink(missing_ok=True)
    cluster.shutdown()
    for process in processes:
        if alive(process):
            os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
