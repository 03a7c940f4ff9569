"""What is kept of alerts: over reopening, within bounds, for whom it is meant."""

import json
import stat
from dataclasses import asdict

import pytest

from likewise.errors import BadFile
from likewise.service.alerts.conditions import (
    AlertChange,
    MonitorActivity,
    Thresholds,
    advance,
    begin_state,
)
from likewise.service.alerts.outbox import Outbox
from likewise.service.alerts.settings import AlertReceiver, AlertSettings
from tests.support.refusals import raises

HOOK = AlertReceiver(
    "hook", "webhook", url="http://127.0.0.1:1/", secret="s" * 16, repeat_seconds=100.0
)
MANAGER = AlertReceiver("manager", "alertmanager", url="http://127.0.0.1:1/", repeat_seconds=60.0)
BEGUN = AlertChange("begun", "burst", 10.0, {"count": 1})
ENDED = AlertChange("ended", "burst", 50.0)
SEEN = begin_state(5.0, missing=0, head="a")


def keep(outbox, monitor, rows, changes):
    """As they happen."""
    outbox.save_state(monitor, SEEN, rows, changes, now=changes[0].time)


@pytest.fixture
def made(tmp_path):
    """Opens an outbox with these settings; again and again in the same file."""
    opened = []

    def make(*receivers, **settings):
        while opened:
            opened.pop().close()
        opened.append(
            Outbox(AlertSettings(outbox=tmp_path / "alerts", receivers=receivers, **settings))
        )
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_what_was_seen_comes_back_as_it_was(made):
    seen = SEEN
    thresholds = Thresholds(window_seconds=10.0)
    for i in range(30):
        news = MonitorActivity(
            5.0 + 3 * i, decisions=5, comparable=4, violations=i % 3, same_input=i % 4 == 0
        )
        seen, _ = advance(seen, news, thresholds)
    made().save_state("loans", seen, 17, [], now=95.0)
    assert made().load_state("loans") == (seen, 17)
    assert made().load_state("other") is None
    assert json.loads(json.dumps(asdict(seen)))  # plain values all the way down


def test_only_the_owner_may_read_it(made, tmp_path):
    made()
    assert stat.S_IMODE((tmp_path / "alerts").stat().st_mode) == 0o600


def test_an_alert_is_due_until_it_is_told_and_again_when_it_ends(made):
    outbox = made(HOOK)
    keep(outbox, "loans", 1, [BEGUN])
    outbox = made(HOOK)
    (alert,) = outbox.find_due(HOOK, 10.0, 100)
    assert (alert.status, alert.kind, alert.details) == ("firing", "burst", {"count": 1})
    outbox.mark_told(HOOK, [alert], 11.0)
    assert outbox.find_due(HOOK, 110.0, 100) == []
    assert outbox.find_next_due(HOOK) == 111.0
    assert outbox.find_due(HOOK, 111.0, 100) == [alert]  # told again while it lasts
    keep(outbox, "loans", 2, [ENDED])
    outbox = made(HOOK)
    (over,) = outbox.find_due(HOOK, 50.0, 100)
    assert (over.id, over.ended) == (alert.id, 50.0)
    outbox.mark_told(HOOK, [over], 51.0)
    assert outbox.find_next_due(HOOK) is None


def test_an_alert_that_ends_while_it_is_told_is_told_again(made):
    outbox = made(HOOK)
    keep(outbox, "loans", 1, [BEGUN])
    firing = outbox.find_due(HOOK, 10.0, 100)
    keep(outbox, "loans", 2, [ENDED])
    outbox.mark_told(HOOK, firing, 51.0)
    assert [alert.status for alert in outbox.find_due(HOOK, 51.0, 100)] == ["resolved"]


def test_an_acknowledged_alert_is_not_repeated_except_to_alertmanager(made):
    outbox = made(HOOK, MANAGER)
    keep(outbox, "loans", 1, [BEGUN])
    (alert,) = outbox.find_due(HOOK, 10.0, 100)
    outbox.mark_told(HOOK, [alert], 11.0)
    outbox.mark_told(MANAGER, [alert], 11.0)
    seen = outbox.acknowledge("loans", alert.id, "ada", 12.0)
    assert (seen.acknowledged, seen.acknowledged_by) == (12.0, "ada")
    assert outbox.acknowledge("loans", alert.id, "bob", 13.0) == seen  # the first is kept
    assert outbox.acknowledge("other", alert.id, "bob", 13.0) is None
    assert outbox.find_next_due(HOOK) is None
    assert outbox.find_next_due(MANAGER) == 71.0
    keep(outbox, "loans", 2, [ENDED])
    assert [one.status for one in outbox.find_due(HOOK, 50.0, 100)] == ["resolved"]


def test_an_alert_that_was_acknowledged_before_it_was_told_is_told(made):
    outbox = made(HOOK)
    keep(outbox, "loans", 1, [BEGUN])
    (alert,) = outbox.find_due(HOOK, 10.0, 100)
    outbox.acknowledge("loans", alert.id, "ada", 10.5)
    (seen,) = outbox.find_due(HOOK, 11.0, 100)
    outbox.mark_told(HOOK, [seen], 11.0)
    assert outbox.find_next_due(HOOK) is None


def test_receivers_hear_of_their_monitors_only(made):
    mine = AlertReceiver(
        "mine", "webhook", url="http://127.0.0.1:1/", secret="s" * 16, monitors=("loans",)
    )
    outbox = made(HOOK, mine)
    keep(outbox, "other", 1, [BEGUN])
    assert len(outbox.find_due(HOOK, 10.0, 100)) == 1
    assert outbox.find_due(mine, 10.0, 100) == []


def test_what_waits_is_bounded_and_what_is_given_up_is_counted(made):
    outbox = made(HOOK, waiting=5, kept=3)
    for i in range(20):
        keep(outbox, "loans", i, [BEGUN, ENDED])
    assert len(outbox.find_due(HOOK, 100.0, 100)) == 5
    assert outbox.count_given_up() == {"hook": 15}
    outbox.mark_told(HOOK, outbox.find_due(HOOK, 100.0, 100), 100.0)
    keep(outbox, "loans", 20, [BEGUN])
    assert len(outbox.find_alerts("loans")) == 4  # three that are over, and this one
    assert outbox.give_up(HOOK, 10.0 + HOOK.give_up_seconds) == 0
    assert outbox.give_up(HOOK, 11.0 + HOOK.give_up_seconds) == 1
    assert outbox.count_given_up() == {"hook": 16}


def test_alerts_of_what_is_no_longer_watched_end(made):
    outbox = made(HOOK)
    keep(outbox, "loans", 1, [BEGUN])
    keep(outbox, "gone", 1, [BEGUN])
    outbox.end_unwatched(["loans"], ["burst"], 99.0)
    assert [alert.ended for alert in outbox.find_alerts("gone")] == [99.0]
    assert [alert.ended for alert in outbox.find_alerts("loans")] == [None]


def test_a_transaction_that_fails_leaves_no_trace(made):
    outbox = made(HOOK)
    keep(outbox, "loans", 1, [BEGUN])
    with pytest.raises(Exception, match="UNIQUE"):
        keep(outbox, "loans", 2, [AlertChange("ended", "losses", 20.0), BEGUN])
    assert outbox.load_state("loans") == (SEEN, 1)
    keep(outbox, "loans", 3, [ENDED])


def test_a_file_that_is_none_is_refused(tmp_path):
    path = tmp_path / "alerts"
    path.write_bytes(b"something else entirely, and long enough to be looked at" * 20)
    with raises(BadFile):
        Outbox(AlertSettings(outbox=path))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with raises(BadFile):
        Outbox(AlertSettings(outbox=link))
