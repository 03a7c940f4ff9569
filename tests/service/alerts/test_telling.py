"""Alerts reach a real receiver from a real service: at least once, whatever is killed or ill."""

import json
import random
import time

import pytest

from likewise.service.alerts.sending import SIGNATURE, verify_signature
from likewise.service.tokens import new_token
from tests.service.alerts.receivers import Receiver, Server, until

SECRET = "sixteen letters or more"
MONITOR = "/v1/monitors/loans"


@pytest.fixture
def receiver():
    made = Receiver()
    made.start()
    yield made
    made.stop()


def configured(folder, receiver, *, alerts="", ledger=True):
    (folder / "rule.toml").write_text('metric = "linf"\nepsilon = 0.1\n')
    config = folder / "service.toml"
    config.write_text(
        f"""
        [monitors.loans]
        rule = "rule.toml"
        {'ledger = "loans.ledger"' if ledger else ""}
        [labels]
        environment = "test"
        [alerts]
        outbox = "alerts.sqlite"
        every_seconds = 0.1
        quiet_seconds = 0.5
        no_decisions_seconds = 0
        {alerts}
        [[alerts.receivers]]
        name = "on-call"
        kind = "webhook"
        url = "{receiver.url}"
        secret_env = "ON_CALL"
        pause_seconds = 0.05
        timeout_seconds = 1.0
        backoff_seconds = 0.1
        """
    )
    return config


def contradict(server, place):
    """Two decisions on the same input with different outputs."""
    for z in ("yes", "no"):
        status, answer = server.post(
            f"{MONITOR}/observe", {"x": [float(place), 0.123], "z": z, "key": f"{place} {z}"}
        )
        assert status == 200
    assert answer["violation"]


@pytest.mark.long
@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "memory"])
def test_a_contradiction_on_one_input_is_told_signed_acknowledged_and_over(
    tmp_path, receiver, ledger
):
    config = configured(tmp_path, receiver, ledger=ledger)
    server = Server(config, ON_CALL=SECRET)
    try:
        contradict(server, 1)
        until(lambda: len(receiver.alerts()) >= 1)
        _, headers, body = receiver.taken[0]
        assert verify_signature(SECRET, headers[SIGNATURE.lower()], body, time.time())
        assert not verify_signature(SECRET, headers[SIGNATURE.lower()], body + b" ", time.time())
        told = json.loads(body)
        assert told["version"] == "4"
        assert told["status"] == "firing"
        assert told["alerts"][0]["labels"] == {
            "alertname": "LikewiseSameInput", "monitor": "loans", "severity": "critical",
            "source": "likewise", "environment": "test",
        }  # fmt: skip
        assert "0.123" not in body.decode()  # no value of an input
        assert "1 no" not in body.decode()  # and no key, unless the settings say so
        _, found = server.get(f"{MONITOR}/alerts")
        (alert,) = found["alerts"]
        assert alert["kind"] == "same_input"
        assert alert["details"] == {"count": 1, "row": 1}
        assert found["rate"]["finding"] == "cannot be concluded"
        status, seen = server.post(f"{MONITOR}/alerts/{alert['id']}/acknowledge", {})
        assert status == 200
        assert seen["acknowledged_by"] == "anyone"
        assert server.post(f"{MONITOR}/alerts/none/acknowledge", {})[0] == 404
        until(lambda: receiver.alerts()[-1][0] == "resolved")
        assert [one[0] for one in receiver.alerts()] == ["firing", "resolved"]
        assert len({one[3] for one in receiver.alerts()}) == 1
        assert server.get(f"{MONITOR}/alerts?status=firing")[1]["alerts"] == []
        assert server.get(f"{MONITOR}/alerts?limit=0")[0] == 400
    finally:
        server.stop()


@pytest.mark.long
def test_only_who_may_review_sees_and_acknowledges_alerts(tmp_path, receiver):
    config = configured(tmp_path, receiver)
    tokens = {scope: new_token() for scope in ("observe", "read", "review")}
    with config.open("a") as more:
        for scope, (_, hash) in tokens.items():
            more.write(f'[[tokens]]\nname = "who-{scope}"\nhash = "{hash}"\nscopes = ["{scope}"]\n')
    server = Server(config, ON_CALL=SECRET)

    def asked(path, scope, body):
        given = {} if scope is None else {"authorization": f"Bearer {tokens[scope][0]}"}
        return server.post(f"{MONITOR}/{path}", body, **given)

    try:
        for z in ("yes", "no"):
            assert asked("observe", "observe", {"x": [0.5], "z": z})[0] == 200
        until(lambda: receiver.taken)
        path = f"alerts/{receiver.alerts()[0][3]}/acknowledge"
        assert asked(path, None, {})[0] == 401
        assert asked(path, "observe", {})[0] == 403
        assert asked(path, "read", {})[0] == 403
        status, alert = asked(path, "review", {})
        assert (status, alert["acknowledged_by"]) == (200, "who-review")
        assert server.get(f"{MONITOR}/alerts")[0] == 401
    finally:
        server.stop()


@pytest.mark.slow
def test_a_receiver_that_is_down_ill_or_slow_is_told_when_it_is_well(tmp_path, receiver):
    receiver.stop()
    config = configured(tmp_path, receiver, alerts="keys = true")
    server = Server(config, ON_CALL=SECRET)
    try:
        contradict(server, 1)
        until(lambda: server.get(f"{MONITOR}/alerts")[1]["receivers"][0]["failures"] >= 1)
        receiver.status = 500
        receiver.start()
        until(lambda: receiver.refused >= 1)
        receiver.status, receiver.slow_seconds = 200, 1.5  # longer than it is waited for
        until(lambda: receiver.taken)
        receiver.slow_seconds = 0.0
        until(lambda: server.get(f"{MONITOR}/alerts")[1]["receivers"][0]["waiting"] == 0)
        assert {one[1] for one in receiver.alerts()} == {"LikewiseSameInput"}
        assert receiver.alerts()[-1][0] == "resolved"
        assert b"1 no" in receiver.taken[-1][2]  # the settings let keys be told
    finally:
        server.stop()


@pytest.mark.slow
def test_kills_lose_no_alert_and_no_contradiction(tmp_path, receiver):
    """The service is killed at any moment, while its receiver is down, ill, slow or well."""
    kills, rng = 12, random.Random(3)
    config = configured(tmp_path, receiver)
    for place in range(kills):
        receiver.status = rng.choice([200, 200, 500])
        receiver.slow_seconds = rng.choice([0.0, 0.0, 0.3])
        if rng.random() < 0.3:
            receiver.stop()
        server = Server(config, ON_CALL=SECRET)
        contradict(server, place)
        time.sleep(rng.choice([0.0, 0.0, 0.1, 0.3, 0.8]))
        server.kill()
        receiver.stop()
        receiver.start()
    receiver.status, receiver.slow_seconds = 200, 0.0
    server = Server(config, ON_CALL=SECRET)
    try:
        until(lambda: server.get(f"{MONITOR}/alerts?status=firing")[1]["alerts"] == [])
        until(lambda: server.get(f"{MONITOR}/alerts")[1]["receivers"][0]["waiting"] == 0)
        found = server.get(f"{MONITOR}/alerts")[1]
        listed = found["alerts"]
        told = {one[3]: one[0] for one in receiver.alerts()}  # the last that was told of each
        assert told == {one["id"]: "resolved" for one in listed}
        # Each of the contradictions is counted by an alert, once: none was lost with a kill.
        assert sum(one["details"]["count"] for one in listed) == kills
        assert found["receivers"][0]["given_up"] == 0
    finally:
        server.stop()
