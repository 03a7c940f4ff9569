"""Ray for tests: started once, by whoever needs it first, for all processes of a test run.

Where Ray is not installed, tests that need it are skipped; with LIKEWISE_RAY=required they fail.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from likewise.sharding.on_ray import NAMESPACE, SETTINGS, RayShards
from likewise.sharding.open_cluster import open_cluster
from likewise.sharding.protocol import ClusterSettings

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
NO_RAY = "ray is not installed here, so nothing was tested on it: pip install '.[ray]'"


_daemons: list[subprocess.Popen[bytes]] = []  # which end by themselves


def _run() -> int:
    """The process with which the test run ends."""
    if "LIKEWISE_TEST_RUN" in os.environ:
        return int(os.environ["LIKEWISE_TEST_RUN"])
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def _started() -> dict[str, Any]:
    """The cluster of this test run; started if there is none yet."""
    file = Path(tempfile.gettempdir()) / f"likewise-ray-{os.getuid()}-{_run()}.json"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            with file.with_suffix(".log").open("w") as log:
                daemon = subprocess.Popen(
                    [
                        sys.executable,
                        str(ROOT / "tests" / "support" / "ray_daemon.py"),
                        str(file),
                        str(_run()),
                    ],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            _daemons.append(daemon)
            until = time.monotonic() + PATIENCE
            while not file.exists():
                told = file.with_suffix(".log").read_text()
                assert daemon.poll() is None and time.monotonic() < until, told
                time.sleep(0.1)
    told: dict[str, Any] = json.loads(file.read_text())
    return told


def cluster_address() -> str:
    """The address of Ray; this process is ready to join it."""
    if find_spec("ray") is None:
        if os.environ.get("LIKEWISE_RAY") == "required":
            pytest.fail(NO_RAY)
        pytest.skip(NO_RAY)
    told = _started()
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=told["token"])
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    address: str = told["address"]
    return address


def joined() -> Any:
    """Ray, connected to the cluster of the tests."""
    address = cluster_address()
    import ray

    if not ray.is_initialized():
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    return ray


class ReusedShards(RayShards):
    """The same actors for one monitor after another, emptied for each: starting one takes long."""

    def __init__(self, name: str, settings: ClusterSettings) -> None:
        joined()
        count = settings.shards
        super().__init__(f"reused-{os.getpid()}", count, address=None, cpus=settings.cpus)
        made_again = [self.send(shard, "__init__") for shard in range(count)]
        for handle in made_again:
            self.result(handle)


def reused(folder: Path, rule: Any, keeping: Any, **settings: Any) -> Any:
    """A monitor over shards that other tests have used, with segments of a few rows."""
    small = {"shards": 2, "segment_rows": 16, "micro_batch": 8, "keep": True, **settings}
    return open_cluster(folder, rule, ClusterSettings(**small), keeping, make_backend=ReusedShards)
