"""`likewise serve` with shards: a table of its settings, and the server over real HTTP.

The server is a process of its own, as are the shards; each is killed by the number of its process.
"""

import http.client
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.service.service import make_monitor
from likewise.service.settings import Limits, ServiceSettings
from likewise.sharding.on_ray import NAMESPACE
from likewise.sharding.protocol import ClusterSettings
from tests.support.oracle import Oracle
from tests.support.ray_cluster import cluster_address, joined
from tests.support.refusals import raises
from tests.support.serving import settings, started

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("ray")]

RULE = lw.Rule("linf", 0.1)


def told(cluster: dict, **more) -> dict:
    table = {"rule": "rule.toml", "ledger": "a.ledger", "cluster": cluster, **more}
    return {"monitors": {"loans": table}}


def test_settings_of_a_cluster_are_read():
    settings = ServiceSettings.from_tables(told({"shards": 8, "address": "auto"}), Path("folder"))
    assert settings.monitors["loans"].cluster == ClusterSettings(address="auto", shards=8)


@pytest.mark.parametrize(
    "cluster",
    [
        {"shard": 8},
        {"shards": "8"},
        {"when_down": "hope"},
    ],
)
def test_settings_that_make_no_sense_are_refused(cluster):
    with raises(lw.errors.BadRule):
        ServiceSettings.from_tables(told(cluster), Path("folder"))


def test_a_cluster_without_a_ledger_is_refused():
    table = {"rule": "rule.toml", "cluster": {"shards": 2}}
    with raises(lw.errors.BadRule):
        ServiceSettings.from_tables({"monitors": {"loans": table}}, Path("folder"))


def test_a_served_monitor_is_searched_by_shards(tmp_path):
    joined()
    (tmp_path / "rule.toml").write_text(RULE.to_toml())
    cluster = {
        "shards": 2,
        "segment_rows": 16,
        "address": cluster_address(),
        "name": f"served-{os.getpid()}",
    }
    settings = ServiceSettings.from_tables(told(cluster, comparable=False), tmp_path)
    rng = np.random.default_rng(1)
    X, Z = rng.integers(0, 5, (100, 3)) * 0.1, rng.integers(0, 3, 100)
    with make_monitor(settings.monitors["loans"], Limits()) as monitor:
        assert isinstance(monitor, lw.Monitor) and monitor.ledger.incomplete_count == 0
        mine, theirs = monitor.observe_many(X, Z), lw.Monitor(RULE).observe_many(X, Z)
        assert mine.witnesses == theirs.witnesses and theirs.pairs > 100
        assert "2 shards on Ray" in monitor.explain().form


class Clients:
    """Threads that tell a server decisions, and send again what was not answered."""

    THREADS, BATCH = 3, 8

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.answered: dict[int, dict] = {}
        """By row: the key, the decision, and the verdict."""
        self.sent_again = 0
        self.failed: list[BaseException] = []
        self.server = None
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(self.THREADS)]

    def start(self, server) -> None:
        self.server = server
        for thread in self._threads:
            thread.start()

    def wait_for(self, rows: int) -> None:
        end = time.monotonic() + 120
        while len(self.answered) < rows:
            assert not self.failed, self.failed
            assert time.monotonic() < end, f"{len(self.answered)} rows were answered"
            time.sleep(0.01)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(120)
        assert not self.failed, self.failed

    def _run(self, number: int) -> None:
        rng = np.random.default_rng(number)
        try:
            for batch in range(self.batches):
                size = self.BATCH if batch % 2 else 1
                x = (rng.integers(0, 6, (size, 4)) * 0.1).tolist()
                z = rng.integers(0, 3, size).tolist()
                self._tell(x, z, [f"{number}-{batch}-{i}" for i in range(size)])
        except BaseException as error:
            self.failed.append(error)

    def _tell(self, x, z, keys) -> None:
        if len(x) == 1:
            verb, body = "observe?wait=durable", {"x": x[0], "z": z[0], "key": keys[0]}
        else:
            verb, body = "batch?wait=durable&verdicts=all", {"x": x, "z": z, "keys": keys}
        while True:
            try:
                answer = self.server.post(verb, body)
            except (OSError, http.client.HTTPException):
                answer = None  # the server was killed
            if answer is not None and answer.status == 200:
                break
            assert answer is None or answer.status == 503, answer.body
            self.sent_again += 1
            time.sleep(0.05)
        told = answer.json()
        verdicts = [told] if len(x) == 1 else told["verdicts"]
        with self._lock:
            for key, point, output, verdict in zip(keys, x, z, verdicts, strict=True):
                assert verdict["row"] not in self.answered, "one row for two decisions"
                assert verdict["key"] == key
                self.answered[verdict["row"]] = {"x": point, "z": output, **verdict}


def processes_of(name: str, shards: int) -> list[int]:
    ray = joined()
    actors = [ray.get_actor(f"{name}/{shard}", namespace=NAMESPACE) for shard in range(shards)]
    end = time.monotonic() + 60
    while True:
        try:
            return ray.get([actor.process.remote() for actor in actors], timeout=60)
        except ray.exceptions.RayActorError:  # one that was killed is being started again
            assert time.monotonic() < end, "a shard does not come back"
            time.sleep(0.1)


@pytest.mark.long
def test_a_server_with_shards_answers_as_the_oracle_while_both_are_killed(tmp_path):
    joined()
    name = f"http-{os.getpid()}"
    path = settings(
        tmp_path,
        monitors=f"""[monitors.default]
rule = "rule.toml"
ledger = "ledger"
[monitors.default.cluster]
shards = 2
segment_rows = 32
micro_batch = 16
keep = true
address = "{cluster_address()}"
name = "{name}"
""",
    )
    clients = Clients(batches=40)
    server = started(path)
    try:
        clients.start(server)
        clients.wait_for(100)
        before = processes_of(name, 2)
        os.kill(before[0], signal.SIGKILL)
        clients.wait_for(200)
        struck = processes_of(name, 2)
        assert struck[0] != before[0] and struck[1] == before[1]
        port = server.port
        server.kill()
        server = clients.server = started(path, port=port)  # the shards have waited for it
        clients.join()
        assert processes_of(name, 2) == struck, "shards were not found again"
        assert clients.sent_again > 0
        assert server.get().json()["rows"] == len(clients.answered)
        assert server.end() == 0
        assert processes_of(name, 2) == struck, "shards that are kept have ended"
        server.kill()
        server = started(path)
        one = clients.answered[0]
        again = server.post("observe", {name: one[name] for name in ("x", "z", "key")}).json()
        assert again["repeated"] and again["row"] == 0
        assert processes_of(name, 2) == struck
        assert server.end() == 0
    finally:
        server.kill()
        ray = joined()
        for shard in range(2):
            ray.kill(ray.get_actor(f"{name}/{shard}", namespace=NAMESPACE))
    rows = [clients.answered[row] for row in range(len(clients.answered))]
    oracle = Oracle(lw.Rule("linf", 0.1))
    expected = oracle.observe_many(np.array([one["x"] for one in rows]), [one["z"] for one in rows])
    assert sum(len(one.rows) for one in expected) > 1_000
    for told, due in zip(rows, expected, strict=True):
        assert told["count"] == len(due.rows)
        witnesses = [one["row"] for one in told["witnesses"]]
        if "known" in told:  # sent again: what the ledger keeps of its witnesses
            assert set(witnesses) <= set(due.rows.tolist())
        else:
            assert sorted(witnesses) == due.rows.tolist()
    with lw.open(tmp_path / "ledger") as ledger:
        assert ledger.ledger.verify().ok and ledger.rows == len(rows)
