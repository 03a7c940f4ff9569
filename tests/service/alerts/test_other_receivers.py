"""Alertmanager, a real one, and Apprise, which posts to a real receiver."""

import asyncio
import json
import shutil
import subprocess
import time
import urllib.request

import pytest

from likewise.errors import BadRule
from likewise.service.alerts.alert import Alert
from likewise.service.alerts.sending import AppriseSender, HTTPSender, NotDelivered, text_of
from likewise.service.alerts.settings import AlertReceiver
from tests.service.alerts.receivers import Receiver as Listening
from tests.service.alerts.receivers import free_port, until
from tests.support.refusals import raises

ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


def alert(**changes):
    return Alert(
        **{
            "id": "0123456789abcdef",
            "kind": "violation_rate",
            "monitor": "loans",
            "started": time.time() - 60,
            "details": {
                "finding": "above",
                "violations": 41,
                "comparable": 1020,
                "usual_violations": 203,
                "usual_comparable": 20300,
                "usual_low": 0.0075,
                "usual_high": 0.0133,
            },
            **changes,
        }
    )


@pytest.fixture
def alertmanager(tmp_path):
    if ALERTMANAGER is None:
        pytest.skip("Alertmanager is not installed (Debian: prometheus-alertmanager)")
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            ALERTMANAGER,
            f"--config.file={config}",
            f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ],
        stderr=subprocess.DEVNULL,
    )

    def ready():
        assert process.poll() is None, "Alertmanager has ended"
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    try:
        until(ready)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def sent(receiver, alerts):
    async def run():
        sender = HTTPSender(receiver, "https://likewise.example.org")
        try:
            await sender.send(alerts, time.time())
        finally:
            await sender.close()

    asyncio.run(run())


def test_alertmanager_takes_an_alert_and_its_end(alertmanager):
    receiver = AlertReceiver("manager", "alertmanager", url=alertmanager, repeat_seconds=60.0)

    def listed():
        with urllib.request.urlopen(f"{alertmanager}/api/v2/alerts", timeout=5) as answer:
            return json.loads(answer.read())

    firing = alert()
    sent(receiver, [firing, alert(id="1", kind="burst", details={"count": 2, "row": 7})])
    found = {one["labels"]["alertname"]: one for one in listed()}
    assert set(found) == {"LikewiseViolationRate", "LikewiseBurst"}
    told = found["LikewiseViolationRate"]
    assert told["labels"]["monitor"] == "loans"
    assert told["annotations"]["summary"] == firing.summary
    assert "41 of 1,020 comparable decisions" in firing.summary
    assert told["generatorURL"] == "https://likewise.example.org/v1/monitors/loans/alerts"
    assert told["status"]["state"] == "active"
    sent(receiver, [alert(ended=time.time() - 1)])
    until(lambda: [one["labels"]["alertname"] for one in listed()] == ["LikewiseBurst"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Apprise's own, of imghdr
def test_apprise_tells_people():
    pytest.importorskip("apprise")
    listening = Listening()
    listening.start()
    try:
        receiver = AlertReceiver("people", "apprise", url=f"json://127.0.0.1:{listening.port}/hook")
        sender = AppriseSender(receiver)
        alerts = [alert(), alert(ended=time.time())]
        asyncio.run(sender.send(alerts, time.time()))
        ((_, _, body),) = listening.taken
        told = json.loads(body)
        assert told["title"] == "likewise: 1 firing, 1 resolved"
        assert told["message"] == text_of(alerts)[1]
        assert told["message"].count(alert().summary) == 2
        listening.status = 500
        with pytest.raises(NotDelivered, match="could not send"):
            asyncio.run(sender.send([alert()], time.time()))
    finally:
        listening.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_address_that_apprise_does_not_know_is_refused_without_being_shown():
    pytest.importorskip("apprise")
    with raises(BadRule) as refused:
        AppriseSender(AlertReceiver("people", "apprise", url="nonsense://secret-word"))
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize(("status", "too_large"), [(500, False), (301, False), (413, True)])
def test_what_is_not_taken_says_so_without_where_it_was_sent(status, too_large):
    listening = Listening()
    listening.status = status
    listening.start()
    try:
        receiver = AlertReceiver(
            "hook", "webhook", url=listening.url, secret="a secret of some length"
        )
        with pytest.raises(NotDelivered, match=f"it answered {status}") as refused:
            sent(receiver, [alert()])
        assert refused.value.too_large == too_large
    finally:
        listening.stop()
    with pytest.raises(NotDelivered, match=r"^ConnectError$"):
        sent(receiver, [alert()])
