"""The server is killed, the disk fills: nothing that was answered is lost, nothing is doubled."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from tests.service.crashing_clients import decision
from tests.support.serving import serving, settings, started
from tests.support.small_disk import MOUNT, skip_without

ROOT = Path(__file__).resolve().parents[2]


def killed_under_load(folder, kills):
    """Kill the server so many times while four processes send; what they were answered."""
    path = settings(folder)
    port_file = folder / "port"
    port_file.write_text("0")
    outs = [folder / f"client-{worker}" for worker in range(4)]
    module = [sys.executable, "-m", "tests.service.crashing_clients", str(port_file)]
    clients = [
        subprocess.Popen([*module, str(worker), str(out)], cwd=ROOT)
        for worker, out in enumerate(outs)
    ]
    rng = np.random.default_rng(5)
    try:
        for _ in range(kills):
            server = started(path)
            port_file.write_text(str(server.port))
            wait_for_answers(outs, int(rng.integers(0, 120)))
            time.sleep(float(rng.random()) * 0.01)
            server.kill()
        server = started(path)
        try:
            port_file.write_text(str(server.port))
            time.sleep(0.5)
            port_file.write_text("stop")
            assert [client.wait(60) for client in clients] == [0] * 4
        finally:
            server.kill()
    finally:
        for client in clients:
            client.kill()
            client.wait()
    return [[json.loads(one) for one in out.read_text().splitlines()] for out in outs]


def wait_for_answers(outs, count):
    """Wait until the clients were answered so often: a busy machine needs longer for that."""
    seen = {out: out.stat().st_size if out.exists() else 0 for out in outs}
    end = time.monotonic() + 60
    while count > 0:
        assert time.monotonic() < end, "nobody is answered"
        time.sleep(0.002)
        for out in outs:
            if out.exists():
                with out.open("rb") as file:
                    file.seek(seen[out])
                    fresh = file.read()
                seen[out] += len(fresh)
                count -= fresh.count(b"\n")


def check_history(folder, answers):
    """Every answered decision is there once, in order, judged as without any interruption."""
    rows = {}
    for worker, told in enumerate(answers):
        assert [one["key"] for one in told] == [f"{worker}-{i}" for i in range(len(told))]
        mine = [one["row"] for one in told]
        assert mine == sorted(mine)
        rows |= {one["row"]: one for one in told}
    total = sum(map(len, answers))
    assert sorted(rows) == list(range(total)), "one row for each key, and none without"
    sent = [decision(*map(int, rows[row]["key"].split("-"))) for row in range(total)]
    x, z = np.array([one["x"] for one in sent]), np.array([one["z"] for one in sent])
    wanted = lw.Monitor(lw.Rule("linf", 0.1)).observe_many(x, z.tolist()).counts
    few = slice(0, 2000)
    near = np.abs(x[few][:, None] - x[few][None]).max(axis=2) <= 0.1 * (1 + 1e-9)
    differ = z[few][:, None] != z[few][None]
    assert ((near & differ & np.tri(len(near), k=-1, dtype=bool)).sum(axis=1) == wanted[few]).all()
    assert wanted.sum() > 0
    with lw.Ledger(folder / "ledger") as ledger:
        assert ledger.verify().ok
        assert ledger.rows == total
        for entry in ledger.entries():
            assert entry.count == wanted[entry.row] == rows[entry.row]["count"]
            assert entry.key == rows[entry.row]["key"]
    return total


@pytest.mark.long
def test_kills_lose_nothing_that_was_answered_and_double_nothing(tmp_path):
    assert check_history(tmp_path, killed_under_load(tmp_path, kills=2)) > 100


@pytest.mark.slow
def test_three_hundred_kills_lose_nothing(tmp_path):
    assert check_history(tmp_path, killed_under_load(tmp_path, kills=300)) > 10_000


@contextmanager
def serving_from_small_disk(folder):
    """A server whose ledger is in a small file system, and where that is."""
    disk = folder / "disk"
    disk.mkdir()
    skip_without(disk)
    monitors = f'[monitors.default]\nrule = "rule.toml"\nledger = "{disk}/ledger"\n'
    before = ["unshare", "-rm", "sh", "-c", MOUNT, str(disk)]
    with serving(settings(folder, monitors=monitors), before=before) as server:
        yield server, disk


@pytest.mark.long
def test_a_full_disk_is_answered_with_503_and_what_was_answered_stays(tmp_path):
    with serving_from_small_disk(tmp_path) as (server, _):
        taken, refused = 0, None
        body = {"x": [[0.5] * 12] * 500, "z": ["a"] * 500}
        for _ in range(400):
            answer = server.post("batch", body)
            if answer.status != 200:
                refused = answer
                break
            taken = answer.json()["first_row"] + 500
        assert refused is not None and refused.status == 503, refused
        assert "retry-after" in refused.headers
        assert "could not store" in refused.json()["message"]
        stored = server.get().json()["rows"]
        assert taken <= stored <= taken + 500
        assert server.ask("GET", "/healthz").status == 200
        assert server.post("verify", {}).status in (200, 503)
        assert server.get().json()["rows"] == stored


@pytest.mark.long
def test_room_on_the_disk_is_enough_to_go_on(tmp_path):
    with serving_from_small_disk(tmp_path) as (server, disk):
        assert server.post("observe", {"x": [0.5], "z": "a"}).status == 200
        ballast = Path(f"/proc/{server.process.pid}/root{disk}") / "ballast"
        with ballast.open("wb") as file, pytest.raises(OSError):
            while True:
                os.write(file.fileno(), b"x" * 4096)
        statuses = [server.post("batch", {"x": [[0.6]] * 900, "z": ["b"] * 900}).status]
        while statuses[-1] == 200:
            statuses.append(server.post("batch", {"x": [[0.6]] * 900, "z": ["b"] * 900}).status)
        assert statuses[-1] == 503
        rows = server.get().json()["rows"]
        ballast.unlink()
        verdict = server.post("observe", {"x": [0.5], "z": "b"}).json()
        assert verdict["row"] == rows and verdict["count"] == 1
        assert server.post("verify", {}).json()["ok"]


@pytest.mark.long
def test_a_restart_under_traffic_loses_nothing_and_readyz_says_when(tmp_path):
    path = settings(tmp_path)
    answers, stop = [], threading.Event()
    server = started(path)
    port = server.port

    def send():
        number = 0
        while not stop.is_set():
            try:
                answer = server.post("observe", {"x": [1.0], "z": "a", "key": str(number)})
            except OSError:
                time.sleep(0.02)
                continue
            if answer.status == 200:
                answers.append(answer.json())
                number += 1
            else:
                assert answer.status == 503, answer
                time.sleep(0.02)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        while len(answers) < 20:
            time.sleep(0.01)
        assert server.end() == 0
        server.kill()
        server = started(path, port=port, ready=False)
        seen = set()
        while 200 not in seen:
            try:
                seen.add(server.ask("GET", "/readyz").status)
            except OSError:
                time.sleep(0.01)
        assert seen <= {200, 503}
        before = len(answers)
        end = time.monotonic() + 30
        while len(answers) < before + 20:
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        stop.set()
        sender.join(30)
        server.kill()
    assert [one["row"] for one in answers] == list(range(len(answers)))
