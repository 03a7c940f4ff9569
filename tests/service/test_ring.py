"""The ring of latest verdicts: bounded, in order, and honest about what has left it."""

import asyncio
from functools import partial

import pytest

import likewise as lw
from likewise.monitor.readers.protocol import Decision
from likewise.service.http_errors import Refusal
from likewise.service.recent_verdicts import VerdictRing
from likewise.service.routes.verdict_events import _stream_verdicts
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings

LIMITS = Limits(recent=5, witnesses=2)


def served_monitor():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    return ServedMonitor("default", monitor, MonitorSettings(rule="-"), LIMITS)


def test_ring_keeps_the_latest_and_says_which_have_left():
    served = served_monitor()
    for i in range(12):
        served.record_verdict(served.monitor.observe([0.0], "ab"[i % 2]))
    assert [one.row for one in served.recent.after(-1)] == [7, 8, 9, 10, 11]
    assert served.recent.last_dropped == 6 and served.next_row == 12
    assert [one.row for one in served.recent.after(9)] == [10, 11]
    assert served.recent.find(8).count == 4 and served.recent.find(3) is None
    assert (
        len(served.recent.find(8).witnesses) == 2 and served.recent.find(8).omitted_witnesses == 2
    )
    served.close()


def test_a_batch_longer_than_the_ring_leaves_its_end_and_holds_no_arrays_of_the_batch():
    served = served_monitor()
    verdicts = served.monitor.observe_many([[0.0]] * 12, list("ab" * 6))
    served.record_verdicts(verdicts, served.trim_batch(verdicts))
    assert [one.row for one in served.recent.after(-1)] == [7, 8, 9, 10, 11]
    assert served.recent.last_dropped == 6
    assert sum(served.counts.violations.values()) == 11 and served.counts.pairs == 36
    assert all(one.witnesses.rows.base is None for one in served.recent.after(-1))
    served.close()


def test_listeners_hear_of_every_verdict_in_order():
    served, heard = served_monitor(), []
    served.listeners.append(lambda _, verdict: heard.append(verdict.row))

    async def run():
        batch = partial(served.monitor.observe_many, [[0.0]] * 12, list("ab" * 6))
        await served.observe_many(12, batch)
        await served.observe(Decision([0.0], "a"))

    asyncio.run(run())
    assert heard == list(range(1, 13))
    served.close()


def test_a_reader_that_is_too_slow_is_cut_off_and_told_so():
    async def run():
        served = served_monitor()
        service = Service(ServiceSettings({"default": MonitorSettings(rule="-")}, limits=LIMITS))
        reader = _stream_verdicts(service, served, -1)
        assert await anext(reader) == b"retry: 1000\n\n"
        for i in range(3):
            served.record_verdict(served.monitor.observe([0.0], "ab"[i % 2]))
        first = await anext(reader)
        assert b"id: 1\n" in first and b"id: 2\n" in first
        for i in range(12):  # while it does not read
            served.record_verdict(served.monitor.observe([0.0], "ab"[i % 2]))
        last = await anext(reader)
        assert b"event: cut\n" in last and b"id:" not in last
        assert [one async for one in reader] == []
        served.close()

    asyncio.run(run())


def test_a_reader_is_told_when_the_server_ends():
    async def run():
        served = served_monitor()
        service = Service(ServiceSettings({"default": MonitorSettings(rule="-")}, limits=LIMITS))
        service.monitors = {"default": served}
        reader = _stream_verdicts(service, served, -1)
        await anext(reader)
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0.01)
        service.stop()
        assert b"event: end\n" in await waiting
        served.close()

    asyncio.run(run())


def test_news_wakes_all_who_wait_and_ends_in_time():
    async def run():
        recent = VerdictRing(3, 1)
        assert await recent.wait_for_news(0.01) is False
        waiting = [asyncio.ensure_future(recent.wait_for_news(10)) for _ in range(3)]
        await asyncio.sleep(0)
        recent.wake()
        assert await asyncio.gather(*waiting) == [True] * 3

    asyncio.run(run())


def test_who_waits_for_room_gets_it_and_who_does_not_is_refused(tmp_path):
    async def run():
        limits = Limits(waiting_rows=10)
        monitor = lw.open(tmp_path / "l", lw.Rule("linf", 0.1))
        served = ServedMonitor("default", monitor, MonitorSettings(rule="-"), limits)
        waiting = [
            asyncio.ensure_future(served.observe(Decision([float(i)], "a"))) for i in range(10)
        ]
        await asyncio.sleep(0)
        try:
            await served.observe(Decision([50.0], "a"))
        except Refusal as error:
            assert error.status == 429 and error.retry_seconds
        else:
            raise AssertionError("there was no room")
        await served.wait_for_room(5)
        later = await served.observe_each([Decision([60.0], "a"), Decision(["x"], "a")])
        assert [one.row for one in await asyncio.gather(*waiting)] == list(range(10))
        assert later[0].row == 10 and isinstance(later[1], lw.errors.BadDecision)
        assert served.waiting_rows == 0 and served.oldest_wait_seconds == 0.0
        served.close()

    asyncio.run(run())


def test_a_caller_that_goes_away_takes_nothing_back(tmp_path):
    async def run():
        monitor = lw.open(tmp_path / "l", lw.Rule("linf", 0.1))
        served = ServedMonitor("default", monitor, MonitorSettings(rule="-"), Limits())
        await served.observe(Decision([0.0], "a"))
        gone = asyncio.ensure_future(served.observe(Decision([0.0], "b")))
        await asyncio.sleep(0)
        gone.cancel()
        await served.drain()
        assert monitor.rows == 2
        assert sum(served.counts.decisions.values()) == 2, "it is counted all the same"
        assert [one.row for one in served.recent.after(-1)] == [1], "and told"
        served.close()

    asyncio.run(run())


def test_ring_says_of_erased_decisions_what_their_ledger_says(tmp_path):
    """Verdicts that came one by one and in a batch, in memory and with a ledger."""
    rule = lw.Rule("linf", 0.5)
    x, z = [[0.0], [0.1], [0.2], [0.3], [0.35], [0.4], [9.0], [9.1]], list("abcabcab")
    keys = [f"k{i}" for i in range(8)]
    told = []
    for ledger in (False, True):
        path = tmp_path / "ledger"
        monitor = lw.open(path, rule, witnesses=10) if ledger else lw.Monitor(rule)
        served = ServedMonitor("default", monitor, MonitorSettings(rule="-"), Limits())
        for i in range(3):
            served.record_verdict(monitor.observe(x[i], z[i], key=keys[i]))
        verdicts = monitor.observe_many(x[3:], z[3:], keys=keys[3:])
        served.record_verdicts(verdicts, served.trim_batch(verdicts))
        assert monitor.erase(rows=[2, 5]).complete
        told.append([served.verdict_body(one) for one in served.recent.after(-1)])
        if ledger:
            with lw.Ledger(tmp_path / "ledger") as stored:
                entries = stored.violations()
                each = [stored.verdict_of(one) for one in entries]
                told.append([served.verdict_body(one) for one in each])
        served.close()
    assert told[0] == told[1] == told[2]
    assert [one["row"] for one in told[0]] == [1, 2, 3, 4, 5, 7]
    assert [one.get("key") for one in told[0]] == ["k1", None, "k3", "k4", None, "k7"]
    distances = [{one["input_distance"] for one in each["witnesses"]} for each in told[0]]
    assert [each == {None} for each in distances] == [False, True, True, True, True, False]


def test_slope_of_an_erased_decision_is_forgotten():
    monitor = lw.Monitor(lw.Rule("linf", 0.5, output="number"), slope=True, slope_limit=0.5)
    served = ServedMonitor("default", monitor, MonitorSettings(rule="-", kind="slopes"), Limits())
    for i, z in enumerate((0.0, 1.0, 7.0)):
        served.record_verdict(monitor.observe([i / 8], z, key=f"k{i}"))
    before = [served.verdict_body(one) for one in served.recent.after(-1)]
    assert [one["slope"] for one in before] == [8.0, 48.0]
    monitor.erase(key="k2")
    after = [served.verdict_body(one) for one in served.recent.after(-1)]
    assert after[0] == before[0]
    assert ("key" in after[1], after[1]["slope"]) == (False, None)
    assert after[1]["witnesses"] == [
        {"row": 1, "key": "k1", "input_distance": None, "output_distance": None}
    ]
    served.close()


def test_ring_forgets_all_if_an_erasure_fails_half_way(tmp_path, monkeypatch):
    monitor = lw.open(tmp_path / "ledger", lw.Rule("linf", 0.5))
    served = ServedMonitor("default", monitor, MonitorSettings(rule="-"), Limits())
    for i in range(4):
        served.record_verdict(monitor.observe([i / 8], "ab"[i % 2], key=f"k{i}"))

    def fail(*_):
        raise OSError("the disk is full")

    with pytest.raises(lw.errors.BadRow):
        monitor.erase(key="nobody")
    assert len(served.recent.after(-1)) == 3, "what is refused leaves no trace"
    monkeypatch.setattr(monitor.core.ledger.journal.store, "erase", fail)
    with pytest.raises(OSError):
        monitor.erase(key="k2")
    assert served.recent.after(-1) == [] and served.recent.last_dropped == 3
    served.close()


def test_erasure_is_complete_when_all_have_forgotten_it():
    monitor, told, fails = lw.Monitor(lw.Rule("linf", 0.5)), [], [True]

    def forget(rows):
        if fails:
            raise OSError(fails.pop())
        told.append(rows.tolist())

    monitor.core.erasure_listeners += [forget, lambda rows: told.append(rows.tolist())]
    monitor.observe_many([[0.0]] * 3, ["a"] * 3)
    assert monitor.erase(rows=[1]).complete is False
    assert told == [[1]], "the others are told"
    again = monitor.erase(rows=[1])
    assert (again.rows, again.complete) == ((), True)
    assert told == [[1]] * 3
