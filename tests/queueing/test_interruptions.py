"""`submit` may be interrupted at any bytecode: the buffer has the decision, or has it not."""

import threading
import time
from contextlib import contextmanager

import pytest

import likewise as lw
from likewise.ledger.folder import WriterLock
from likewise.ledger.loss_events import missing_in
from tests.queueing.slow import RULE, Gated, decisions, inline, is_balanced, slow_ledger
from tests.support.interruptions import Interruptions, at_step
from tests.support.refusals import raises

X, Z = decisions(4000)


SETTINGS = {
    "room": {"capacity": 10_000},
    "blocked": {"capacity": 2},
    "dropping": {"capacity": 2, "when_full": "drop_newest"},
    "timed out": {"capacity": 2, "timeout": 0.001},
    "accepting": {"capacity": 2, "when_full": "accept"},
    "accepting in time": {"capacity": 2, "when_full": "accept", "timeout": 0.001},
}


@contextmanager
def monitor_of(kind, folder):
    """In memory, behind a gate; or with a ledger, which is slow."""
    if not kind.startswith("accepting"):
        yield Gated()
        return
    with slow_ledger(folder / "ledger", seconds=0.001) as monitor:
        monitor.gate = threading.Event()
        yield monitor


def check(buffer, monitor, answered):
    """Numbers are dense, rows are in their order, and everything is accounted for."""
    stats = buffer.stats
    assert is_balanced(stats)
    assert stats.answered == monitor.rows == len(answered)
    assert [one.number for one in answered] == sorted({one.number for one in answered})
    assert monitor.missing_decisions == stats.total_lost
    return stats


@pytest.mark.parametrize("kind", SETTINGS)
def test_submit_may_be_interrupted_at_any_bytecode(kind, tmp_path):
    with monitor_of(kind, tmp_path) as monitor:
        check_interrupted_submits(kind, monitor)


def check_interrupted_submits(kind, monitor):
    buffer = lw.buffered(monitor, batch_rows=3, **SETTINGS[kind])
    held = kind in ("dropping", "timed out")
    if held:  # else the thread that judges makes room meanwhile
        buffer.submit(X[0], Z[0], key=0)
        assert monitor.began.wait(60)
        while len(buffer._queue):
            time.sleep(0.001)
    else:
        monitor.gate.set()
    given, at, step, where = {}, 1, 0, "begin"
    while where:
        before = buffer.stats.submitted
        where = at_step(step, lambda at=at: buffer.submit(X[at], Z[at], key=at), signals=True)
        stats = buffer.stats
        assert stats.submitted in (before, before + 1), where
        assert is_balanced(stats), where
        receipt = buffer.submit(X[at + 1], Z[at + 1], key=at + 1)
        assert receipt.number == stats.submitted, where
        given[at + 1] = receipt
        at, step = at + 2, step + 1
        another = threading.Thread(target=lambda: buffer.stats, daemon=True)
        another.start()
        another.join(30)
        assert not another.is_alive(), f"locked for ever by a signal in {where}"
    assert step > 8
    monitor.gate.set()
    assert buffer.close()
    answered = list(buffer.results())
    check(buffer, monitor, answered)
    rows = {one.number: one.row for one in answered}
    for key, receipt in given.items():
        assert (receipt.number in rows) == (receipt.lost is None)
        if receipt.lost is None:
            assert monitor.past.row_of(key) == rows[receipt.number]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_life_of_interrupted_calls_loses_no_account(kind, tmp_path):
    with monitor_of(kind, tmp_path) as monitor:
        monitor.gate.set()
        check_a_life(kind, monitor)


def check_a_life(kind, monitor):
    buffer = lw.buffered(monitor, batch_rows=5, **SETTINGS[kind])
    answered, at = [], 0
    with Interruptions(len(kind)) as interruptions:
        while interruptions.inside < 60 and at < 3900:

            def submit():
                nonlocal at
                for _ in range(20):
                    at += 1
                    buffer.submit(X[at], Z[at])

            interruptions.call("submit", submit)
            if at % 7 == 0:
                interruptions.call("flush", lambda: buffer.flush(60))
            if at % 5 == 0:
                interruptions.call("stats", lambda: buffer.stats)
            assert is_balanced(buffer.stats)
            answered += buffer.results()
    assert buffer.close()
    answered += buffer.results()
    check(buffer, monitor, answered)
    assert interruptions.inside > 20


def test_close_may_be_interrupted_and_called_again(tmp_path):
    step, where = 0, "begin"
    while where:
        folder = tmp_path / f"{step}"
        with lw.open(folder, RULE, durability="off") as monitor:
            buffer = lw.buffered(monitor, 3, when_full="accept")
            for i in range(30):
                buffer.submit(X[i], Z[i])
            where = at_step(step, buffer.close, signals=True)
            assert buffer.close() and buffer.stats.answered == 30, where
            assert [one.verdict for one in buffer.results()] == inline(X[:30], Z[:30])
        with lw.open(folder) as monitor:
            assert (monitor.rows, monitor.missing_decisions) == (30, 0), where
        step += 41
    assert step > 200


def test_a_loss_told_while_decisions_wait_is_known_wherever_a_signal_arrives(tmp_path):
    step, where, told = 0, "begin", set()
    while where:
        folder = tmp_path / f"{step}"
        with lw.open(folder, RULE, durability="off") as monitor:
            monitor.observe(X[0], Z[0])
            monitor.ledger.accept(X[1:4], Z[1:4])

            def lose(monitor=monitor):
                monitor.record_loss(3, "full", source="a", position=7)

            where = at_step(step, lose, signals=True)
            missing = monitor.missing_decisions
            with lw.Ledger(folder) as ledger:
                assert missing == missing_in(ledger.events()), where
            told.add(missing)
            assert monitor.observe(X[4], Z[4]).missing_decisions == missing
            assert monitor.ledger.positions == ({"a": 7} if missing else {})
            if missing:
                with pytest.raises(lw.errors.BadDecision):
                    monitor.observe(X[5], Z[5], source="a", position=7)
            monitor.record_loss(2, "full")
        with lw.open(folder) as monitor:
            assert (monitor.rows, monitor.missing_decisions) == (5, missing + 2), where
        step += 2
    assert told == {0, 3} and step > 40


def test_the_lock_of_a_folder_is_released_once_wherever_a_signal_arrives(tmp_path):
    step, where = 0, "begin"
    while where:
        lock = WriterLock(tmp_path)
        where = at_step(step, lock.release, signals=True)
        lock.release()
        WriterLock(tmp_path).release()
        step += 1
    assert step > 1


def test_a_call_out_of_a_call_is_refused_and_changes_nothing():
    """A handler, or a finalizer, that submits in the very middle of a submit."""
    buffer = lw.buffered(lw.Monitor(RULE))
    queue = buffer._queue

    class Meddling(list):
        """Entries that call the buffer when one is appended, as a signal handler might."""

        def append(self, entry):
            with raises(lw.errors.NestedCall):
                buffer.submit([0.2], "inner")
            super().append(entry)

    before = queue._entries
    with queue.lock:
        queue._entries = Meddling()
        assert buffer.submit([0.1], "outer").number == 0
        before.extend(queue._entries)
        queue._entries = before
    assert buffer.close() and buffer.stats.submitted == 1
