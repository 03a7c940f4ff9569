"""The demo's decisions come to a service one after another, and pages show them."""

import asyncio
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from likewise.auditing.demo_loans import RULE
from likewise.cli.demo import MODELS, MONITOR, ArrivingDecisions
from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import MonitorSettings, ServiceSettings

SECONDS = 120


def row(i):
    return {
        "application": f"A-{i:05}",
        "applied": "2026-01-05",
        "income": 3000,
        "debt": 5000,
        "age": 40,
        "months_employed": 60,
        "purpose": "car",
        "district": "Mill",
        "birthplace": "born here",
        "decision": "approved" if i % 2 else "declined",
    }


def test_every_decision_comes_once_in_order_and_with_its_model(tmp_path):
    rule = tmp_path / "loans.toml"
    rule.write_text(RULE)
    settings = MonitorSettings(rule=str(rule), ledger=str(tmp_path / "ledger"))

    async def play():
        service = Service(ServiceSettings({MONITOR: settings}))
        App(service, [ArrivingDecisions([row(i) for i in range(60)], 35, seconds=0.3)])
        (run,) = service.background_tasks
        await asyncio.to_thread(service.open)
        try:
            await asyncio.wait_for(run(), SECONDS)
            served = service.get_monitor(MONITOR)
            return await served.read_ledger(
                lambda ledger: [(one.key, one.model, one.count) for one in ledger.entries()]
            )
        finally:
            await service.drain(30)
            service.close()

    entries = asyncio.run(play())
    assert [key for key, _, _ in entries] == [f"A-{i:05}" for i in range(60)]
    assert [model for _, model, _ in entries] == [MODELS[i >= 35] for i in range(60)]
    assert entries[1][2] == 1  # a contradiction, which waits in the queue


@pytest.mark.slow
def test_demo_serves_until_it_is_ended(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "likewise", "demo", "--serve", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    reading = threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True)
    reading.start()
    try:
        where = wait(lambda: re.search(r"http://127\.0\.0\.1:(\d+)/", "".join(lines)))
        port = int(where[1])
        assert ask(port, "/").getheader("location") == f"/m/{MONITOR}/overview"
        some = wait(lambda: (told := overview(port)) and told["rows"] > 200 and told)
        assert some["decisions_per_second"] >= 0
        assert list(tmp_path.iterdir()) == []  # nothing is left behind here
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait(SECONDS)
        reading.join(SECONDS)
        process.stderr.close()


def wait(asked):
    end = time.monotonic() + SECONDS
    while not (found := asked()):
        assert time.monotonic() < end
        time.sleep(0.2)
    return found


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.text = answer.read()
    connection.close()
    return answer


def overview(port):
    answer = ask(port, f"/m/{MONITOR}/overview.json")
    return json.loads(answer.text) if answer.status == 200 else None
