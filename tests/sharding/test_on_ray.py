"""Shards on Ray: one, several or all are killed, the coordinator too; no verdict changes.

Real actors on a real cluster (tests/support/ray_cluster.py), killed by the number of their process.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.monitor.opening import LedgerOptions
from likewise.sharding.on_ray import NAMESPACE
from likewise.sharding.open_cluster import open_cluster
from likewise.sharding.protocol import ClusterSettings, Fenced
from tests.sharding.coordinating import RULE, stream
from tests.support.programs import run_python
from tests.support.ray_cluster import cluster_address, joined, reused
from tests.support.refusals import raises

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("ray")]

HERE = Path(__file__).parent
SCRIPT = HERE / "coordinating.py"
KILLS = int(os.environ.get("LIKEWISE_KILLS", "200"))
"""Of all slow tests here together: four fifths are shards, the others coordinators and machines."""
SMALL = {"shards": 3, "segment_rows": 50, "micro_batch": 20}
PATIENCE = 300.0


@pytest.fixture
def address():
    joined()
    return cluster_address()


def named(verdicts) -> list[list[int]]:
    return [verdict.witnesses.rows.tolist() for verdict in verdicts]


def shards_of(monitor):
    return monitor.core.shards.fleet.backend


def kill(processes: list[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


def test_a_killed_shard_and_all_of_them_change_no_verdict(address, tmp_path):
    X, Z = stream(900, 1)
    alone = lw.Monitor(RULE)
    with lw.cluster(tmp_path / "ledger", RULE, address=address, **SMALL) as monitor:
        for start in range(0, 900, 150):
            batch = X[start : start + 150], Z[start : start + 150]
            if start == 300:
                kill(shards_of(monitor).processes()[1:2])
            if start == 600:
                kill(shards_of(monitor).processes())
            mine, theirs = monitor.observe_many(*batch), alone.observe_many(*batch)
            assert named(mine) == named(theirs)
            assert mine.witnesses == theirs.witnesses
        fleet = monitor.core.shards.fleet
        assert fleet.recoveries >= 2 and fleet.replayed >= 600
        assert monitor.ledger.verify().ok
    ray = joined()
    with pytest.raises(ValueError):  # closed: the actors are gone
        ray.get_actor(shards_of(monitor).actor_name(0), namespace="likewise")


def test_shards_outlive_their_coordinator_and_are_found_again(address, tmp_path):
    X, Z = stream(400, 2)
    expected = named(lw.Monitor(RULE).observe_many(X, Z))
    name = f"outlive-{os.getpid()}"
    command = [
        sys.executable,
        str(HERE / "coordinating.py"),
        str(tmp_path / "ledger"),
        address,
        name,
    ]
    with subprocess.Popen([*command, "400", "2"], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        for line in killed.stdout:
            if int(line) >= 150:
                break
        killed.send_signal(signal.SIGKILL)
        killed.wait(PATIENCE)
    with lw.cluster(
        tmp_path / "ledger", RULE, address=address, name=name, witnesses=10_000, **SMALL
    ) as monitor:
        first = monitor.rows
        assert 150 <= first < 400
        found = named(monitor.observe_many(X[first:], Z[first:]))
        assert found == expected[first:]
        assert monitor.core.shards.fleet.replayed <= 60, "rows that shards had were sent again"
    assert stored(tmp_path / "ledger") == expected


def test_a_second_coordinator_fences_the_first(tmp_path):
    X, Z = stream(120, 3)
    expected = named(lw.Monitor(RULE).observe_many(X, Z))
    joined()
    first = reused(tmp_path / "ledger", RULE, LedgerOptions())
    first.observe_many(X[:60], Z[:60])
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    backend = shards_of(first)
    settings = ClusterSettings(shards=2, segment_rows=16, micro_batch=8, keep=True)
    second = open_cluster(
        tmp_path / "copy", None, settings, LedgerOptions(), make_backend=lambda name, told: backend
    )
    assert named(second.observe_many(X[60:], Z[60:])) == expected[60:]
    with raises(Fenced):
        first.observe_many(X[60:], Z[60:])
    assert first.rows == 60
    first.close()
    assert named([second.check(X[0], 99)]) == named([checked_alone(X, Z, X[0])])
    second.close()


def stored(folder: Path) -> list[list[int]]:
    """The witnesses of each decision, all of which the ledger has."""
    with lw.Ledger(folder) as ledger:
        entries = list(ledger.entries())
    assert all(entry.count == len(entry.nearest) for entry in entries)
    return [sorted(witness.row for witness in entry.nearest) for entry in entries]


def checked_alone(X, Z, x):
    monitor = lw.Monitor(RULE)
    monitor.load(X, Z)
    return monitor.check(x, 99)


def test_a_cluster_without_ray_installed_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "import likewise as lw\n"
        f"lw.cluster({str(tmp_path / 'ledger')!r}, lw.Rule('linf', 0.1))\n"
    )
    ended = run_python("-c", code, code=None)
    assert "pip install '.[ray]'" in ended.stderr


@pytest.mark.slow
def test_ray_is_started_here_where_there_is_no_address(tmp_path):
    code = (
        "import likewise as lw, numpy as np\n"
        f"monitor = lw.cluster({str(tmp_path / 'ledger')!r}, lw.Rule('linf', 0.1), shards=2,"
        " segment_rows=5)\n"
        "print(monitor.observe_many(np.zeros((20, 2)), np.arange(20)).pairs)\n"
        "print(monitor.explain().form)\n"
        "monitor.close()\n"
        "import ray; print(ray.is_initialized())\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ended = run_python("-c", code, code=None, timeout=PATIENCE, env=environment)
    pairs, form, there = ended.stdout.splitlines() or [ended.stderr, "", ""]
    assert pairs == "190", ended.stderr
    assert "2 shards on Ray at this machine" in form and there == "False"


@pytest.mark.slow
def test_shards_killed_at_random_change_no_verdict(address, tmp_path):
    rng = np.random.default_rng(6)
    alone, kills, pairs = lw.Monitor(RULE), 0, 0

    def judge(size: int) -> int:
        batch = rng.integers(0, 10, (size, 4)) * 0.1, rng.integers(0, 3, size)
        mine, theirs = monitor.observe_many(*batch), alone.observe_many(*batch)
        assert np.array_equal(mine.offsets, theirs.offsets)
        assert mine.witnesses == theirs.witnesses
        return theirs.pairs

    with lw.cluster(tmp_path / "ledger", RULE, address=address, **SMALL) as monitor:
        judge(160)
        while kills < KILLS * 4 // 5:
            processes = shards_of(monitor).processes()
            struck = [processes[i] for i in rng.permutation(3)[: rng.choice([1, 1, 1, 2, 3])]]
            striking = threading.Timer(rng.uniform(0, 0.06), kill, [struck])
            striking.start()
            while striking.is_alive():
                pairs += judge(int(rng.integers(1, 90)))
            kills += len(struck)
            if rng.random() < 0.3:
                gone = rng.integers(0, monitor.rows, 3)
                assert monitor.forget(gone) == alone.forget(gone)
            pairs += judge(30)
        recoveries = monitor.core.shards.fleet.recoveries
        assert recoveries >= kills / 3 and pairs > 100
        assert (monitor.rows, len(monitor)) == (alone.rows, len(alone))
        print(f"{kills} kills, {recoveries} recoveries, {monitor.rows} decisions, {pairs} pairs")


def processes_of(name: str, shards: int) -> list[int]:
    """Those of the shards of a cluster that are there."""
    ray, found = joined(), []
    for shard in range(shards):
        try:
            actor = ray.get_actor(f"{name}/{shard}", namespace=NAMESPACE)
            found.append(ray.get(actor.process.remote(), timeout=PATIENCE))
        except (ValueError, ray.exceptions.RayError):  # not made yet, or being started again
            pass
    return found


@pytest.mark.slow
def test_coordinators_and_shards_killed_at_random_lose_and_repeat_nothing(address, tmp_path):
    kills = max(KILLS // 8, 4)
    count, struck = 60 * kills, 0
    X, Z = stream(count, 7)
    expected = named(lw.Monitor(RULE).observe_many(X, Z))
    rng = np.random.default_rng(8)
    name = f"killed-{os.getpid()}"
    command = [
        sys.executable,
        str(HERE / "coordinating.py"),
        str(tmp_path / "ledger"),
        address,
        name,
    ]
    for _ in range(kills):
        told = [*command, str(count), "7"]
        shards = processes_of(name, 3)
        with subprocess.Popen(told, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for _ in zip(range(int(rng.integers(1, 4))), running.stdout, strict=False):
                pass
            with_it = rng.permutation(shards)[: rng.choice([0, 0, 1, 3])].tolist()
            kill(with_it)  # so that it is killed while it brings them back
            time.sleep(float(rng.uniform(0, 0.1)))
            running.send_signal(signal.SIGKILL)
            running.wait(PATIENCE)
        struck += len(with_it)
    subprocess.run([*command, str(count), "7"], check=True, timeout=PATIENCE, capture_output=True)
    with lw.cluster(tmp_path / "ledger", RULE, address=address, name=name, **SMALL) as monitor:
        assert monitor.ledger.verify().ok and monitor.rows == count
    assert stored(tmp_path / "ledger") == expected
    print(f"{kills} coordinators and {struck} shards killed, {count} decisions")


@pytest.mark.slow
def test_machines_that_are_lost_change_no_verdict(tmp_path):
    cluster_address()  # or a skip
    kills = max(KILLS // 20, 2)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ended = run_python(
        HERE / "losing_nodes.py",
        tmp_path / "ledger",
        kills,
        code=None,
        timeout=PATIENCE,
        env=environment,
    )
    assert "stood still for" in ended.stdout, ended.stderr
    print(ended.stdout)
