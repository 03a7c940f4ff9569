"""How one receiver is told: together, in messages that it takes, and beside others that do not."""

import asyncio
import contextlib
import logging
import time

import pytest

from likewise.service.alerts.conditions import AlertChange, begin_state
from likewise.service.alerts.outbox import Outbox
from likewise.service.alerts.sending import AlertDelivery, make_sender
from likewise.service.alerts.settings import AlertReceiver, AlertSettings
from tests.service.alerts.receivers import Receiver as Listening

SEEN = begin_state(5.0, missing=0, head="")


@pytest.fixture
def listening():
    made = Listening()
    made.start()
    yield made
    made.stop()


def hook(name, url, **settings):
    given = {"pause_seconds": 0.01, "backoff_seconds": 0.01, "timeout_seconds": 5.0, **settings}
    return AlertReceiver(name, "webhook", url=url, secret="a secret of some length", **given)


def told(tmp_path, receivers, alerts, is_done, waited_seconds=0.0):
    """Have so many alerts of as many monitors told, until that is done."""

    async def run(outbox):
        async def in_thread(call, *arguments):
            return await asyncio.to_thread(call, *arguments)

        deliveries = [
            AlertDelivery(one, make_sender(one, ""), outbox, in_thread) for one in receivers
        ]
        tasks = [asyncio.create_task(one.run()) for one in deliveries]
        try:
            async with asyncio.timeout(60):
                while not is_done(outbox):
                    await asyncio.sleep(0.02)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for one in deliveries:
                await one.close()
        return deliveries

    with contextlib.closing(
        Outbox(AlertSettings(outbox=tmp_path / "alerts", receivers=tuple(receivers)))
    ) as outbox:
        for i in range(alerts):
            change = AlertChange("begun", "burst", 10.0, {"count": i + 1})
            outbox.save_state(f"monitor-{i}", SEEN, 0, [change], now=time.time() - waited_seconds)
        return asyncio.run(run(outbox))


def test_what_waits_is_told_together(tmp_path, listening):
    receiver = hook("hook", listening.url, repeat_seconds=0.0)
    told(tmp_path, [receiver], 150, lambda outbox: not outbox.count_waiting())
    assert len(listening.taken) == 2
    assert len({one[2] for one in listening.alerts()}) == 150 == len(listening.alerts())


def test_a_message_that_is_too_large_is_made_smaller(tmp_path, listening):
    listening.most_bytes = 5_000
    receiver = hook("hook", listening.url, repeat_seconds=0.0)
    told(tmp_path, [receiver], 40, lambda outbox: not outbox.count_waiting())
    assert len({one[2] for one in listening.alerts()}) == 40 == len(listening.alerts())
    assert all(len(body) <= 5_000 for _, _, body in listening.taken)


def test_a_receiver_that_does_not_answer_holds_up_no_other(tmp_path, listening):
    stuck = Listening()
    stuck.slow_seconds = 30.0
    stuck.start()
    try:
        receivers = [
            hook("stuck", stuck.url, repeat_seconds=0.0),
            hook("well", listening.url, repeat_seconds=0.0),
        ]
        told(tmp_path, receivers, 3, lambda outbox: outbox.count_waiting() == {"stuck": 3})
        assert len(listening.alerts()) == 3
    finally:
        stuck.stop()


def test_an_alert_that_lasts_is_told_again(tmp_path, listening):
    receiver = hook("hook", listening.url, repeat_seconds=0.05)
    told(tmp_path, [receiver], 1, lambda _: len(listening.taken) >= 3)
    assert len({one[3] for one in listening.alerts()}) == 1


def test_what_is_not_taken_for_too_long_is_given_up_and_counted(tmp_path, listening):
    listening.status = 500
    receiver = hook("hook", listening.url, give_up_seconds=1000.0)
    (delivery,) = told(
        tmp_path, [receiver], 3, lambda outbox: outbox.count_given_up() == {"hook": 3}, 2000.0
    )
    assert delivery.last_failure == "it answered 500"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Apprise's own, of imghdr
@pytest.mark.parametrize("kind", ["webhook", "alertmanager", "apprise"])
@pytest.mark.parametrize("status", [200, 500])
def test_no_log_has_an_address_or_a_secret(tmp_path, listening, caplog, kind, status):
    if kind == "apprise":
        pytest.importorskip("apprise")
    listening.status = status
    caplog.set_level(logging.DEBUG)
    url = f"http://127.0.0.1:{listening.port}/a-secret-path"
    if kind == "apprise":
        url = url.replace("http", "json")
    secret = "" if kind == "apprise" else "a secret of some length"
    receiver = AlertReceiver(
        "hook",
        kind,
        url=url,
        secret=secret,
        pause_seconds=0.01,
        backoff_seconds=0.01,
        give_up_seconds=1000.0,
    )
    told(tmp_path, [receiver], 1, lambda _: listening.taken or listening.refused)
    assert "a-secret-path" not in caplog.text
    assert "a secret of" not in caplog.text
    assert str(listening.port) not in caplog.text
