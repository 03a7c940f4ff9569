"""Monitors open side by side: each is served when it is open, and one that fails stops no other."""

import asyncio
import contextlib
import json
import threading

import numpy as np

import likewise as lw
from likewise.ledger import reader
from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import MonitorSettings, ServiceSettings
from tests.service.asgi_calls import RULE, call
from tests.support.refusals import raises
from tests.support.serving import command, reached_end, settings, started

BODY = json.dumps({"x": [0.5, 0.2], "z": "yes"}).encode()


def filled(path, rows=200):
    """A ledger with some decisions."""
    with lw.open(path, lw.Rule.from_toml(RULE), durability="off") as monitor:
        monitor.observe_many(np.random.default_rng(0).random((rows, 2)), ["yes"] * rows)


def damage(path):
    """Alter a stored input."""
    (records,) = path.glob("*.rows")
    stored = bytearray(records.read_bytes())
    stored[len(stored) // 2] ^= 1
    records.write_bytes(bytes(stored))


def service_of(folder, *names):
    (folder / "rule.toml").write_text(RULE)
    rule = str(folder / "rule.toml")
    monitors = {name: MonitorSettings(rule=rule, ledger=str(folder / name)) for name in names}
    return Service(ServiceSettings(monitors))


async def observe(app, name):
    answer = await call(app, "POST", f"/v1/monitors/{name}/observe", BODY)
    return answer.status, answer.json.get("code"), answer.headers.get("retry-after"), answer.json


class Held:
    """Holds up whoever reads chunks of a ledger, after the first one."""

    def __init__(self, monkeypatch):
        self.reading, self.go_on = threading.Event(), threading.Event()
        whole = reader.LedgerReader.decisions
        outer = self

        def decisions(self, first, stop, **more):
            if first > 0:
                outer.reading.set()
                assert outer.go_on.wait(60)
            return whole(self, first, stop, **more)

        monkeypatch.setattr(reader.LedgerReader, "decisions", decisions)


def test_a_monitor_is_served_while_another_is_being_read(tmp_path, monkeypatch):
    filled(tmp_path / "large", 40_000)  # two chunks
    service = service_of(tmp_path, "large", "small")
    held = Held(monkeypatch)

    async def scenario():
        app = App(service)
        opening = asyncio.create_task(asyncio.to_thread(service.open))
        try:
            assert await asyncio.to_thread(held.reading.wait, 60)
            while "small" not in service.monitors:
                await asyncio.sleep(0.01)
            assert (await observe(app, "small"))[0] == 200
            status, code, retry, body = await observe(app, "large")
            assert (status, code, retry) == (503, "monitor-opening", "1")
            assert "of 40,000 rows" in body["message"]
            assert str(tmp_path) not in body["message"]
            listed = await call(app, "GET", "/v1/monitors")
            assert listed.json == {"monitors": ["small", "large"]}
            told = await call(app, "GET", "/readyz")
            assert (told.status, told.json["ready"]) == (503, False)
            (reason,) = told.json["reasons"]
            assert (reason["monitor"], reason["reason"], reason["of"]) == (
                "large",
                "opening",
                40_000,
            )
        finally:
            held.go_on.set()
            await opening
        assert (await observe(app, "large"))[0] == 200
        assert (await call(app, "GET", "/readyz")).json == {"ready": True}
        await service.drain(30)
        service.close()

    asyncio.run(scenario())


def test_a_damaged_ledger_stops_its_monitor_and_no_other(tmp_path):
    filled(tmp_path / "broken")
    damage(tmp_path / "broken")
    told = []
    service = service_of(tmp_path, "broken", "whole")
    service._tell = told.append

    async def scenario():
        app = App(service)
        await asyncio.to_thread(service.open)
        assert (await observe(app, "whole"))[0] == 200
        status, code, retry, body = await observe(app, "broken")
        assert (status, code, retry) == (503, "monitor-failed", "10")
        assert str(tmp_path) not in json.dumps(body)
        ready = await call(app, "GET", "/readyz")
        assert (ready.status, ready.json["ready"]) == (200, True)
        (failed,) = ready.json["failed"]
        assert (failed["monitor"], failed["reason"]) == ("broken", "altered")
        assert str(tmp_path) not in ready.body.decode()
        await service.drain(30)
        service.close()

    asyncio.run(scenario())
    (line,) = told
    assert "'broken'" in line
    assert str(tmp_path / "broken") in line


def test_the_service_ends_if_no_monitor_can_be_opened(tmp_path):
    for name in ("one", "other"):
        filled(tmp_path / name)
        damage(tmp_path / name)
    monitors = "".join(f'[monitors.{n}]\nledger = "{n}"\n' for n in ("one", "other"))
    code, said = reached_end(command(settings(tmp_path, monitors=monitors), "--port", 0))
    assert code == 3
    for name in ("one", "other"):
        assert f"monitor {name!r}, ledger {str(tmp_path / name)!r}, cannot be opened" in said


def test_a_mistake_in_the_settings_of_one_ends_the_service_and_names_it(tmp_path):
    service = service_of(tmp_path, "fine")
    wrong = MonitorSettings(rule=str(tmp_path / "nowhere.toml"))
    service = Service(ServiceSettings(dict(service.settings.monitors) | {"wrong": wrong}))
    with contextlib.closing(service), raises(lw.errors.BadRule) as refused:
        service.open()
    assert str(refused.value).startswith("monitor 'wrong': ")


def test_a_server_that_is_told_to_end_reads_no_further(tmp_path, monkeypatch):
    filled(tmp_path / "large", 40_000)
    service = service_of(tmp_path, "large")
    held = Held(monkeypatch)
    opening = threading.Thread(target=service.open)
    opening.start()
    assert held.reading.wait(60)
    service.stopping = True
    held.go_on.set()
    opening.join(60)
    assert not opening.is_alive()
    assert not service.monitors
    lw.open(tmp_path / "large").close()  # nobody has it


def test_the_log_names_the_monitor_that_failed(tmp_path):
    filled(tmp_path / "broken")
    damage(tmp_path / "broken")
    monitors = '[monitors.broken]\nledger = "broken"\n[monitors.fine]\nrule = "rule.toml"\n'
    server = started(settings(tmp_path, monitors=monitors), "--log-format", "json")
    try:
        lines = [json.loads(line) for line in server.told if line.startswith("{")]
        (failed,) = [line for line in lines if line.get("event") == "failed"]
        assert (failed["monitor"], failed["ledger"]) == ("broken", str(tmp_path / "broken"))
        assert server.ask("GET", "/readyz").status == 200
        assert server.end() == 0
    finally:
        server.kill()


def test_a_monitor_that_cannot_be_watched_lets_go_of_its_ledger(tmp_path):
    service = service_of(tmp_path, "unwatched", "whole")

    class Alerting:
        def watch(self, served):
            if served.name == "unwatched":
                raise OSError("the outbox is full")

    service.alerting = Alerting()
    service.open()
    assert list(service.monitors) == ["whole"]
    assert service.pending["unwatched"].error_code == "OSError"
    lw.open(tmp_path / "unwatched").close()  # nobody has it
    service.close()
