"""Four real workers of uvicorn and one service find what one monitor finds, not what four find."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request

import pytest

import likewise as lw
from tests.service.alerts.receivers import SERVE, free_port, until
from tests.support.example_scripts import EXAMPLES

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("example serving")]

FOLDER = EXAMPLES / "serving"
WORKERS = 4


@pytest.fixture
def example(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(FOLDER))
    import model

    yield model
    sys.modules.pop("model", None)


def decisions(example):
    """What the model says of each applicant, and what that is told as."""
    people = example.applicants()
    inputs = [[one["income"], one["debt"]] for one in people]
    return people, list(zip(inputs, example.trained().predict(inputs).tolist(), strict=True))


def violations(decided, monitors):
    """Decisions that contradict an earlier one, if monitors take turns."""
    rule = lw.Rule.from_toml((FOLDER / "loans.toml").read_text())
    each = [lw.Monitor(rule) for _ in range(monitors)]
    return sum(each[i % monitors].observe(x, z).violation for i, (x, z) in enumerate(decided))


@contextlib.contextmanager
def running(*command, **environment):
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def answered(url):
    """What an address answers, in a list; none if it does not, or not well."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
        return [answer.read()]
    return []


def asked(url, body):
    """On a connection of its own, so that any of the workers may take it."""
    headers = {"content-type": "application/json", "connection": "close"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def test_one_monitor_finds_eighteen_and_four_that_take_turns_find_eight(example):
    people, decided = decisions(example)
    assert len(people) == 200
    assert violations(decided, 1) == 18
    assert violations(decided, WORKERS) == 8


@pytest.mark.slow
def test_four_workers_that_share_a_service_find_what_one_monitor_finds(example, tmp_path):
    pytest.importorskip("fastapi")
    people, decided = decisions(example)
    service, web = free_port(), free_port()
    serve = [*SERVE, "--rule", FOLDER / "loans.toml", "--ledger", tmp_path / "ledger"]
    uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", FOLDER, "app:app"]
    with (
        running(*serve, "--port", str(service)),
        running(
            *uvicorn, "--workers", str(WORKERS), "--port", str(web),
            LIKEWISE_URL=f"http://127.0.0.1:{service}",
        ),
    ):  # fmt: skip
        until(lambda: answered(f"http://127.0.0.1:{service}/readyz"))
        seen: set[bytes] = set()
        until(lambda: len(seen) > 1 or seen.update(answered(f"http://127.0.0.1:{web}/worker")))
        found = [asked(f"http://127.0.0.1:{web}/score", one) for one in people]
    assert [one["decision"] for one in found] == [z for _, z in decided]
    by_worker = {one["worker"] for one in found}
    assert len(by_worker) > 1, "one worker took all requests, which shows nothing"
    assert sum(one["contradicts"] > 0 for one in found) == violations(decided, 1) == 18
    # And the ledger has them, in the order in which they came.
    with lw.Ledger(tmp_path / "ledger") as ledger:
        kept = [(entry.key, entry.count) for entry in ledger.entries()]
    expected = [
        (one["id"], answer["contradicts"]) for one, answer in zip(people, found, strict=True)
    ]
    assert kept == expected
