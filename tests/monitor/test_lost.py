"""Decisions that are known to be missing: a verdict that would be clean does not look so."""

import numpy as np
import pytest

import likewise as lw
from likewise.ledger import record_files
from likewise.ledger.loss_events import missing_in
from likewise.verdict.losses import Loss
from tests.support.interruptions import at_step
from tests.support.slopes import slope_monitor

RULE = lw.Rule("linf", 0.1)


def test_losses_of_one_reason_are_one_loss():
    both = Loss(2, "full", 7, 8, 100, 110).merge(Loss(1, "full", 12, 12, 130, 130))
    assert both == Loss(3, "full", 7, 12, 100, 130)
    assert Loss(1, "full").merge(Loss(1, "full", last=4)) == Loss(2, "full", last=4)
    assert Loss(1, "crash").to_dict() == {"count": 1, "reason": "crash"}


@pytest.mark.parametrize(
    ("settings", "told", "clean"),
    [
        ({}, [([0.5], "yes")], True),
        ({}, [([0.5], "yes"), ([0.5], "no")], False),
        ({"comparable": True}, [([0.5], "yes")], False),
        ({"comparable": True}, [([0.5], "yes"), ([0.5], "yes")], True),
        ({"burst": lw.Burst(5, alarm=1)}, [([0.5], "yes"), ([0.5], "yes")], False),
    ],
    ids=["alone", "violation", "no like case", "like case", "alarm"],
)
def test_clean_means_that_nothing_stands_against_it(settings, told, clean):
    monitor = lw.Monitor(RULE, **settings)
    *_, verdict = (monitor.observe(*one) for one in told)
    assert verdict.clean is clean
    again = lw.Monitor(RULE, **settings)
    verdicts = again.observe_many([x for x, _ in told], [z for _, z in told])
    assert verdicts.clean.tolist() == [one.clean for one in verdicts]
    assert bool(verdicts.clean[-1]) is clean
    again.record_loss(1, "full")
    assert not again.observe([9.0], "yes").clean
    assert not again.observe_many([[9.0], [9.0]], ["yes", "yes"]).clean.any()


def test_what_is_shown_of_a_verdict_says_how_many_are_missing():
    monitor = lw.Monitor(RULE)
    assert "missing" not in monitor.observe([0.1], "yes")._repr_html_()
    assert "missing" not in monitor.observe([0.1], "yes").to_dict()
    monitor.record_loss(1, "full")
    verdict = monitor.observe([0.9], "yes")
    assert verdict._repr_html_().endswith("; 1 earlier decision is known to be missing</p>")
    assert verdict.to_dict()["missing_decisions"] == 1
    monitor.record_loss(1_233, "full")
    verdicts = monitor.observe_many([[0.7], [0.7]], ["yes", "no"])
    assert "1,234 earlier decisions are known to be missing" in verdicts._repr_html_()
    assert [one["missing_decisions"] for one in verdicts.to_dicts()] == [1_234, 1_234]
    assert str(verdicts[0].explain()) == (
        "nothing contradicts it; 1,234 earlier decisions are known to be missing"
    )
    assert "1,234 earlier" in verdicts[0].explain()._repr_html_()


def test_slope_says_how_many_are_missing():
    slopes = slope_monitor(lw.Rule("l2", 1, output="number"))
    slopes.record_loss(2, "timeout")
    first, second = slopes.observe([0.5], 0.2), slopes.observe([0.6], 0.3)
    assert (first.missing_decisions, first.slope, second.missing_decisions) == (
        2,
        0.0,
        2,
    ) and second.slope > 0
    assert not first.clean


def events(folder):
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().ok
        return [event for event in ledger.events() if event.kind == "lost"]


@pytest.mark.parametrize("durability", ["commit", "batch", "off"])
def test_ledger_keeps_losses_as_events_of_its_chain(tmp_path, durability):
    with lw.open(tmp_path, RULE, durability=durability) as monitor:
        monitor.observe([0.1], "yes")
        monitor.record_loss(2, "full", first=1, last=2, since=1_700_000_000)
        monitor.observe([0.2], "yes")
        monitor.record_loss(3, "crash")
        assert monitor.durable and monitor.missing_decisions == 5
        assert monitor.observe([0.3], "yes").missing_decisions == 5
    lost = events(tmp_path)
    assert [(one.at_row, one.body["count"], one.body["missing"]) for one in lost] == [
        (1, 2, 2),
        (2, 3, 5),
    ]
    assert lost[0].body == {
        "count": 2, "reason": "full", "first": 1, "last": 2, "since": 1_700_000_000_000_000,
        "missing": 2,
    }  # fmt: skip
    with lw.open(tmp_path) as monitor:
        assert monitor.missing_decisions == 5
        assert monitor.check([9.0], "yes").missing_decisions == 5
        assert monitor.observe([9.0], "yes").missing_decisions == 5
    assert missing_in(lost) == 5 and missing_in([]) == 0
    with lw.Ledger(tmp_path) as ledger:
        assert [entry.missing_decisions for entry in ledger.entries()] == [0, 2, 5, 5]


def test_losses_are_remembered_when_their_events_have_left_the_window(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "SEGMENT_BYTES", 1 << 12)
    x = np.random.default_rng(1).random((4_000, 2))
    with lw.open(tmp_path, RULE, durability="off", window="100 rows") as monitor:
        monitor.observe_many(x[:50], [0] * 50)
        monitor.record_loss(7, "full")
        for start in range(50, 4_000, 50):
            assert monitor.observe_many(x[start : start + 50], [0] * 50).missing_decisions == 7
        assert monitor.missing_decisions == 7
    kept = events(tmp_path)
    assert kept[0].at_row > 1_000, "the event of the loss has left"
    assert len(kept) < 10 and {one.body["missing"] for one in kept} == {7}
    with lw.Ledger(tmp_path) as ledger:
        assert {entry.missing_decisions for entry in ledger.entries()} == {7}
    with lw.open(tmp_path) as monitor:
        assert monitor.missing_decisions == 7


def test_a_loss_may_be_interrupted_at_any_bytecode(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        monitor.observe([0.5], "yes")
        told, step, where = 0, 0, "begin"
        while where:
            where = at_step(5 * step, lambda: monitor.record_loss(2, "full"))
            now = monitor.missing_decisions
            assert now in (told, told + 2), where
            verdict = monitor.observe([float(step)], "yes")
            assert verdict.missing_decisions == now, where
            told, step = now, step + 1
        assert step > 20
    assert sum(one.body["count"] for one in events(tmp_path / "ledger")) == told
    with lw.open(tmp_path / "ledger") as monitor:
        assert monitor.missing_decisions == told


def test_a_loss_in_memory_may_be_interrupted_at_any_bytecode():
    monitor = lw.Monitor(RULE)
    told, step, where = 0, 0, "begin"
    while where:
        where = at_step(step, lambda: monitor.record_loss(2, "full"))
        now = monitor.missing_decisions
        assert now in (told, told + 2) and monitor.observe([0.5], "yes").missing_decisions == now, (
            where
        )
        told, step = now, step + 1
    assert told > 0 and step > 20
