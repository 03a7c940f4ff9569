"""Looking at a ledger after the service was away: what happened meanwhile is found, as it was."""

import time

import numpy as np
import pytest

import likewise as lw
from likewise.service.alerts.alerting import _WatchedMonitor
from likewise.service.alerts.conditions import begin_state
from likewise.service.alerts.news import VerdictSignals
from likewise.service.alerts.outbox import Outbox
from likewise.service.alerts.settings import AlertReceiver, AlertSettings
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits, MonitorSettings

HOUR = 3600
START = 1_700_000_000 // HOUR * HOUR


@pytest.fixture
def loans(tmp_path):
    """A ledger with pairs of like decisions, of which a share contradict each other by the hour."""
    monitor = lw.open(
        tmp_path / "ledger", lw.Rule(metric="linf", epsilon=0.1), comparable=True, durability="off"
    )
    pairs, numbers = 250, np.arange(250)
    for hour, share in enumerate([0.02] * 20 + [0.2] + [0.02] * 2):
        x = (hour * pairs + np.repeat(numbers, 2)) + np.tile([0.0, 0.05], pairs)
        z = np.tile([0, 1], pairs) * np.repeat(numbers < pairs * share, 2)
        times = START + HOUR * hour + np.arange(2 * pairs) / 2
        monitor.observe_many(x[:, None], z, times=times)
    served = ServedMonitor("loans", monitor, MonitorSettings(rule="r"), Limits())
    yield served
    served.close()


def test_a_rate_that_rose_while_nobody_looked_is_told_with_its_counts(loans, tmp_path):
    hook = AlertReceiver("hook", "webhook", url="http://127.0.0.1:1/", secret="s" * 16)
    settings = AlertSettings(
        outbox=tmp_path / "alerts",
        no_decisions_seconds=0,
        receivers=(hook,),
    )
    outbox = Outbox(settings)
    try:
        outbox.save_state("loans", begin_state(START, missing=0, head=""), 0, [], now=START)
        watched = _WatchedMonitor(loans, settings, outbox)
        assert watched.look(VerdictSignals())
        (alert,) = outbox.find_alerts("loans")
        assert alert.kind == "violation_rate"
        assert alert.started >= START + 21 * HOUR  # when its window had closed
        assert alert.ended is not None
        assert alert.details["finding"] == "above"
        assert (alert.details["violations"], alert.details["comparable"]) == (50, 250)
        assert (alert.details["usual_violations"], alert.details["usual_comparable"]) == (100, 5000)
        assert "50 of 250 comparable decisions" in alert.summary
        assert not watched.look(VerdictSignals())  # and it is not told again
        again = _WatchedMonitor(loans, settings, outbox)
        assert not again.look(VerdictSignals())
        assert len(outbox.find_alerts("loans")) == 1
        assert [one.status for one in outbox.find_due(hook, time.time(), 100)] == ["resolved"]
        assert outbox.give_up(hook, time.time()) == 0  # it is years old, and due since now
    finally:
        outbox.close()


def test_what_was_there_before_alerts_were_wanted_is_not_told(loans, tmp_path):
    settings = AlertSettings(outbox=tmp_path / "alerts")
    outbox = Outbox(settings)
    try:
        watched = _WatchedMonitor(loans, settings, outbox)
        assert not watched.look(VerdictSignals())
        assert outbox.find_alerts("loans") == []
    finally:
        outbox.close()


def files_with(folder, word):
    return [one.name for one in folder.rglob("*") if one.is_file() and word in one.read_bytes()]


@pytest.mark.parametrize("ledger", [True, False])
def test_key_that_was_erased_is_in_no_alert_and_no_file(tmp_path, ledger):
    rule, settings = lw.Rule("linf", 0.1), AlertSettings(outbox=tmp_path / "alerts", keys=True)

    def opened():
        monitor = lw.open(tmp_path / "ledger", rule) if ledger else lw.Monitor(rule)
        return ServedMonitor("loans", monitor, MonitorSettings(rule="r"), Limits()), Outbox(
            settings
        )

    def decide(served, watched, key):
        """Two decisions with the same input; the second one is heard of."""
        x = [float(served.monitor.rows)]
        served.listeners[:] = [watched.signals.record]
        served.record_verdict(served.monitor.observe(x, "a"))
        served.record_verdict(served.monitor.observe(x, "b", key=key))

    served, outbox = opened()
    watched = _WatchedMonitor(served, settings, outbox)
    decide(served, watched, "keyxq1")
    assert watched.look(watched.signals.take())
    (alert,) = outbox.find_alerts("loans")
    assert alert.details == {"count": 1, "row": 1, "key": "keyxq1"}
    served.monitor.erase(key="keyxq1")
    (alert,) = outbox.find_alerts("loans")
    assert alert.details == {"count": 1, "row": 1}
    assert files_with(tmp_path, b"keyxq1") == []
    # heard of, and erased before anybody looked
    decide(served, watched, "keyxq2")
    heard = watched.signals.take()
    served.monitor.erase(key="keyxq2")
    watched.look(heard)
    count = 1 if ledger else 2  # of distances that were destroyed a ledger cannot say that
    assert outbox.find_alerts("loans")[0].details == {"count": count, "row": 2 * count - 1}
    # erased while no service ran; of a monitor in memory nothing is left then
    decide(served, watched, "keyxq3")
    watched.look(watched.signals.take())
    assert outbox.find_alerts("loans")[0].details["key"] == "keyxq3"
    served.close()
    outbox.close()
    if ledger:
        with lw.open(tmp_path / "ledger") as monitor:
            monitor.erase(key="keyxq3")
    served, outbox = opened()
    _WatchedMonitor(served, settings, outbox)
    assert "key" not in outbox.find_alerts("loans")[0].details
    assert files_with(tmp_path, b"keyxq") == []
    served.close()
    outbox.close()
