"""Group commit: calls of several threads share transactions, and nothing else changes."""

import asyncio
import os
import sys
import threading

import numpy as np
import pytest

import likewise as lw
from likewise.monitor import group_commit
from tests.support.interruptions import at_step
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.2)


def decisions(count, seed=3):
    rng = np.random.default_rng(seed)
    return rng.random((count, 2)), rng.choice(["yes", "no"], count).tolist()


def from_threads(monitor, x, z, threads):
    """Observe from several threads; the verdicts in the order of x."""
    verdicts = [None] * len(x)

    def work(start):
        for i in range(start, len(x), threads):
            verdicts[i] = monitor.observe(x[i], z[i], key=f"case {i}")

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return verdicts


@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_verdicts_of_several_threads_are_those_of_the_order_in_which_they_were_taken(
    tmp_path, durability
):
    x, z = decisions(400)
    with lw.open(tmp_path, RULE, durability=durability) as monitor:
        verdicts = from_threads(monitor, x, z, 8)
        order = np.argsort([verdict.row for verdict in verdicts])
        twin = lw.Monitor(RULE).observe_many(x[order], [z[i] for i in order])
        for i, theirs in zip(order.tolist(), twin, strict=True):
            assert (verdicts[i].row, verdicts[i].witnesses) == (theirs.row, theirs.witnesses)
            assert verdicts[i].key == f"case {i}"
        assert twin.pairs > 500
        assert monitor.ledger.verify().ok
    if durability == "commit":
        with lw.Ledger(tmp_path) as ledger:
            query = "SELECT count(*), max(stop - first) FROM event WHERE kind = 'judged'"
            ((runs, longest),) = ledger.reader.all(query)
        assert runs < 400 and longest > 1, "no two calls shared a transaction"
    assert lw.replay(tmp_path).ok


def test_a_submitted_decision_is_answered_in_its_turn_and_can_be_awaited(tmp_path):
    x, z = decisions(60)
    twin = lw.Monitor(RULE).observe_many(x, z)
    with lw.open(tmp_path, RULE) as monitor:
        given = x.copy()
        answers = [monitor.submit(given[i], z[i]) for i in range(30)]
        given[:] = 9.0  # what was submitted may be changed

        async def rest():
            return await asyncio.gather(*(monitor.submit(x[i], z[i]) for i in range(30, 60)))

        verdicts = [answer.result() for answer in answers] + asyncio.run(rest())
    for mine, theirs in zip(verdicts, twin, strict=True):
        assert (mine.row, mine.witnesses) == (theirs.row, theirs.witnesses)
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.rows == 60


def test_a_refused_call_refuses_no_other(tmp_path):
    with lw.open(tmp_path, RULE) as monitor:
        answers = [
            monitor.submit([0.1, 0.1], "yes"),
            monitor.submit([0.1, float("nan")], "yes"),
            monitor.submit([0.1, 0.1], "no", key=1.5),
            monitor.submit([0.1, 0.1], "no"),
        ]
        assert answers[0].result().row == 0
        for refused in answers[1:3]:
            with pytest.raises(lw.errors.BadDecision):
                refused.result()
        assert answers[3].result().witnesses.rows.tolist() == [0]
        assert monitor.rows == 2


def test_calls_whose_transaction_fails_are_refused_together_and_leave_no_trace(
    tmp_path, monkeypatch
):
    with lw.open(tmp_path, RULE) as monitor:
        monitor.observe([0.1, 0.1], "yes")
        store, append = monitor.core.ledger.journal.store, monitor.core.ledger.journal.store.append

        def fail(entries):
            raise lw.errors.BadFile("the disk is full")

        monkeypatch.setattr(store, "append", fail)
        with monitor.core.lock:  # so that they wait for each other
            answers = [monitor.submit([0.1, 0.1], "no", key=f"k{i}") for i in range(5)]
        for answer in answers:
            with raises(lw.errors.BadFile):
                answer.result(30)
        monkeypatch.setattr(store, "append", append)
        assert monitor.rows == 1 and len(monitor) == 1
        assert monitor.observe([0.1, 0.1], "no", key="k0").row == 1
        assert monitor.ledger.verify().ok


def test_submitting_works_in_memory_and_after_a_fork(tmp_path):
    monitor = lw.Monitor(RULE)
    assert monitor.submit([0.1, 0.1], "yes").result().row == 0
    child = os.fork()
    if child == 0:
        try:
            done = monitor.submit([0.1, 0.1], "no").result(20).witnesses.rows.tolist() == [0]
        finally:
            os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert monitor.submit([0.1, 0.1], "no").result().row == 1
    monitor.close()


def test_calls_that_wait_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(group_commit, "MOST_WAITING", 3)
    with lw.open(tmp_path, RULE) as monitor:
        answers = []

        def submit_all():
            for i in range(8):
                answers.append(monitor.submit([0.1 * i, 0.1], "yes"))

        with monitor.core.lock:  # so that none of them is made yet
            submitter = threading.Thread(target=submit_all)
            submitter.start()
            submitter.join(0.5)
            assert submitter.is_alive(), "more calls wait than may"
            assert monitor.core.commits._state.waiting.qsize() == 3
        submitter.join(30)
        assert [answer.result(30).row for answer in answers] == list(range(8))


def test_a_transaction_waits_for_as_many_callers_as_the_last_one_had(tmp_path):
    x, z = decisions(640)
    runs = []
    for attempt in range(4):  # on a busy machine callers may come later than anybody waits
        with lw.open(tmp_path / str(attempt), RULE) as monitor:
            from_threads(monitor, x, z, 16)
        with lw.Ledger(tmp_path / str(attempt)) as ledger:
            runs += ledger.reader.all("SELECT count(*) FROM event WHERE kind = 'judged'")[0]
        if runs[-1] <= 640 / 10:
            return
    pytest.fail(f"transactions have less than ten of sixteen callers: {runs} of them")


def test_a_lone_caller_is_not_kept_waiting_by_the_many_before(tmp_path):
    x, z = decisions(200)
    with lw.open(tmp_path, RULE) as monitor:
        from_threads(monitor, x[:160], z[:160], 16)
        state = monitor.core.commits._state
        for i in range(160, 200):
            monitor.observe(x[i], z[i])
        assert state.expected == 1, "a lone caller is still taken for one of several"
        assert state.free == [True]
        assert state.bell.qsize() <= 16, "bells that nobody heard are kept"


def _committers(monitor):
    """How many threads commit for the monitor: each waits in `_serve` with the claim."""
    state = monitor.core.commits._state
    count = 0
    for last in sys._current_frames().values():
        frame = last
        while frame is not None:
            count += frame.f_code.co_name == "_serve" and frame.f_locals["state"] is state
            frame = frame.f_back
    return count


def test_the_first_submit_may_be_interrupted_at_any_bytecode_and_one_thread_commits():
    step, where = 0, "begin"
    while where:
        monitor = lw.Monitor(RULE)
        where = at_step(step, lambda one=monitor: one.submit([0.1, 0.1], "yes"), signals=True)
        assert monitor.submit([0.1, 0.1], "no").result(30).row in (0, 1), where
        assert _committers(monitor) == 1, where
        closer = threading.Thread(target=monitor.close, daemon=True)
        closer.start()
        closer.join(30)
        assert not closer.is_alive(), f"close does not return after a signal in {where}"
        assert _committers(monitor) == 0, where
        step += 1
    assert step > 8


def test_closing_may_be_interrupted_at_any_bytecode_and_returns_when_called_again(tmp_path):
    step, where = 0, "begin"
    while where:
        monitor = lw.Monitor(RULE)
        answer = monitor.submit([0.1, 0.1], "yes")
        where = at_step(step, monitor.core.commits.finish, signals=True)
        late = monitor.submit([0.1, 0.1], "no")
        monitor.core.commits.finish()
        assert (answer.result(30).row, late.result(30).row) == (0, 1), where
        assert _committers(monitor) == 0 and monitor.core.commits._state.waiting.empty(), where
        monitor.close()
        step += 1
    assert step > 4


def test_a_callback_of_an_answer_may_close_the_monitor(tmp_path):
    monitor = lw.open(tmp_path, RULE)
    closed = threading.Event()

    def close(_):
        monitor.close()
        closed.set()

    with monitor.core.lock:
        answer = monitor.submit([0.1, 0.1], "yes")
        answer.add_done_callback(close)
    assert closed.wait(30) and answer.result().row == 0
    monitor.close()
