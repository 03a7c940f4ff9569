"""With `background=True` the model's caller does not wait for the monitor, and nothing is lost."""

import asyncio
import os
import textwrap
import threading
import warnings

import numpy as np
import pytest

import likewise as lw
from likewise.watching.delivery import Backlog
from likewise.watching.watch_records import Counts
from tests.support.interruptions import at_step
from tests.support.programs import run_python
from tests.support.refusals import raises
from tests.watching.models import RULE, classifier, flowers


class Gated(lw.Monitor):
    """A monitor that judges once it is let."""

    def __init__(self):
        super().__init__(RULE)
        self.gate, self.began = threading.Event(), threading.Event()

    def observe(self, *args, **kwargs):
        self.began.set()
        assert self.gate.wait(60)
        return super().observe(*args, **kwargs)

    def observe_many(self, *args, **kwargs):
        self.began.set()
        assert self.gate.wait(60)
        return super().observe_many(*args, **kwargs)


def decide(x):
    return "yes" if x[0] > 1 else "no"


def test_model_answers_before_its_decision_is_judged():
    monitor = Gated()
    watched = lw.watch(decide, monitor, background=True)
    assert [watched([value]) for value in (1.2, 0.9)] == ["yes", "no"]
    assert watched.counts.decisions == 0 and watched.waiting_count == 2
    assert not watched.flush(seconds=0.01)
    monitor.gate.set()
    assert watched.flush() and watched.waiting_count == 0
    assert watched.counts == Counts(2, 1, 0)
    watched.close()


def test_verdicts_are_those_of_a_monitor_that_is_told_in_the_same_order():
    flower, tree = flowers(), classifier()
    told = lw.Monitor(RULE).observe_many(flower, tree.predict(flower))
    for model in (tree, tree.predict):
        watched = lw.watch(model, RULE, background=True, keep=1000)
        call = watched.predict if model is tree else watched
        for i in range(len(flower)):
            call(flower[i : i + 1])
        assert watched.flush()
        found = [one for one in told if one.violation]
        assert watched.counts == Counts(150, len(found), 0)
        assert [one.verdict for one in watched.violations] == found
        watched.close()


def test_what_is_judged_is_what_was_given_and_answered_though_both_change_afterwards():
    monitor = Gated()
    buffer = np.zeros(3)

    def model(X):
        buffer[:] = X[:, 0]
        return buffer

    watched = lw.watch(
        model, monitor, batched=True, background=True, on_failure="record"
    )  # fmt: skip
    X = np.array([[1.0], [1.1], [9.0]])
    watched(X)
    X[:], buffer[:] = 7.0, 7.0
    monitor.gate.set()
    assert watched.flush()
    assert watched.counts == Counts(3, 1, 0)
    assert monitor.past.inputs([0, 1, 2]).tolist() == [[1.0], [1.1], [9.0]]


def test_full_queue_says_so_counts_what_it_drops_and_never_waits():
    monitor = Gated()
    watched = lw.watch(decide, monitor, background=True, queue_calls=3)
    watched([1.0])
    assert monitor.began.wait(60)  # one is being judged; three more may wait
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for i in range(8):
            assert watched([1.0 + i]) == ("yes" if i else "no")
    assert [one.category for one in warned] == [lw.errors.FailureWarning]
    assert "full" in str(warned[0].message) and "queue_calls" in str(warned[0].message)
    assert warned[0].filename == __file__
    monitor.gate.set()
    assert watched.flush()
    counts = watched.counts
    assert (counts.decisions, counts.dropped, counts.failures) == (4, 5, 5)
    assert "5 dropped" in repr(watched) and "dropped=5" in repr(counts)
    watched.close()


def test_what_was_dropped_is_missing_from_the_history_and_later_verdicts_say_so():
    gate, began = threading.Event(), threading.Event()

    class Waiting(lw.Monitor):
        def observe(self, *args, **kwargs):
            began.set()
            assert gate.wait(60)
            return super().observe(*args, **kwargs)

    monitor = Waiting(RULE)
    watched = lw.watch(decide, monitor, background=True, queue_calls=3, on_failure="record")
    watched([1.0])
    assert began.wait(60)
    for i in range(8):
        watched([1.0 + i])
    gate.set()
    assert watched.flush()
    assert watched.counts.dropped == monitor.missing_decisions == 5
    assert monitor.observe([9.0], "yes").missing_decisions == 5
    watched.close()


def test_dropped_batch_counts_all_its_decisions():
    monitor = Gated()
    watched = lw.watch(
        lambda X: [1] * len(X), monitor, batched=True, background=True, queue_calls=1,
        on_failure="record",
    )  # fmt: skip
    watched(np.zeros((2, 1)))
    assert monitor.began.wait(60)
    watched(np.zeros((3, 1))), watched(np.zeros((5, 1)))
    monitor.gate.set()
    watched.close()
    assert watched.counts == Counts(5, 0, 1, dropped=5)


def test_close_judges_what_waits():
    with lw.watch(decide, RULE, background=True) as watched:
        for _ in range(50):
            watched([1.2])
    assert watched.counts.decisions == 50
    assert watched([0.9]) == "no" and watched.counts.decisions == 50


def test_failures_and_violations_in_the_background_go_where_they_were_sent():
    failed, flagged = [], []
    watched = lw.watch(
        decide, RULE, background=True, on_failure=failed.append, on_violation=flagged.append
    )
    watched([1.2]), watched([np.nan]), watched([0.9])
    assert watched.flush()
    assert [one.call for one in failed] == [2] and [one.verdict.row for one in flagged] == [1]


def test_warnings_from_the_background_name_the_line_of_the_caller():
    watched = lw.watch(decide, RULE, background=True, on_violation="warn")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        watched([1.2]), watched([0.9]), watched([np.nan])
        assert watched.flush()
    assert [one.category for one in warned] == [
        lw.errors.ViolationWarning,
        lw.errors.FailureWarning,
    ]
    assert {one.filename for one in warned} == {__file__}


def test_flush_and_close_within_a_callable_of_the_watch_do_not_wait_for_themselves():
    def on_violation(record):
        watched.flush()
        watched.close()

    watched = lw.watch(decide, RULE, background=True, on_violation=on_violation)
    watched([1.2]), watched([0.9])
    assert watched.flush()
    assert watched.counts == Counts(2, 1, 0)


def test_callable_that_exits_does_not_end_the_background():
    def on_violation(record):
        raise SystemExit

    watched = lw.watch(decide, RULE, background=True, on_violation=on_violation)
    for value in (1.2, 0.9, 1.2):
        watched([value])
    assert watched.flush()
    assert watched.counts.decisions == 3
    watched.close()


def test_event_loop_is_not_held_up():
    monitor = Gated()

    @lw.watch(rule=monitor, background=True)
    async def serve(x):
        return decide(x)

    async def main():
        answers = await asyncio.wait_for(
            asyncio.gather(*(serve([value]) for value in (1.2, 0.9))), timeout=30
        )
        monitor.gate.set()  # not before: a loop that waits for the monitor never comes here
        return answers

    assert asyncio.run(main()) == ["yes", "no"]
    assert serve.flush() and serve.counts == Counts(2, 1, 0)


def test_threads_lose_nothing():
    watched = lw.watch(decide, RULE, background=True, queue_calls=10_000)

    def serve(offset):
        for i in range(100):
            watched([10.0 * offset + i / 100])

    threads = [threading.Thread(target=serve, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    watched.close()
    assert watched.counts.decisions == 800 and watched.counts.dropped == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_forked_process_watches_on_and_leaves_what_waited_to_its_parent():
    code = textwrap.dedent(
        """
        import os, sys, threading, warnings
        import likewise as lw

        warnings.simplefilter("ignore", DeprecationWarning)
        rule = lw.Rule("linf", 0.5)
        gate = threading.Event()

        class Gated(lw.Monitor):
            def observe(self, *args, **kwargs):
                gate.wait(60)
                return super().observe(*args, **kwargs)

        monitor = Gated(rule)
        monitor.load([[50.0]], ["far"])
        watched = lw.watch(lambda x: x[0] > 1, monitor, background=True)
        watched([1.2]), watched([1.3])
        child = os.fork()
        gate.set()
        if not child:
            watched([0.9])
            ok = watched.flush(seconds=60) and watched.counts.decisions == 1
            watched.close()
            os._exit(0 if ok else 1)
        watched.close()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, watched.counts.decisions)
        """
    )
    done = run_python("-c", code, code=None)
    assert done.stdout == "0 2\n", done.stderr


def test_what_waits_at_the_end_of_the_program_is_judged(tmp_path):
    code = textwrap.dedent(
        f"""
        import likewise as lw
        ledger = lw.open({str(tmp_path)!r}, lw.Rule("linf", 0.5))
        watched = lw.watch(lambda x: "yes", ledger, background=True)
        for i in range(100):
            watched([float(i)])
        """
    )
    done = run_python("-c", code, code=None)
    assert done.returncode == 0 and not done.stderr, done.stderr
    with lw.open(tmp_path) as ledger:
        assert ledger.rows == 100


@pytest.mark.parametrize(
    "settings",
    [
        {"on_violation": "raise"},
        {"on_failure": "raise"},
        {"queue_calls": 0},
    ],
)
def test_what_cannot_be_done_in_the_background_is_refused(settings):
    (setting,) = settings
    with raises(lw.errors.BadRule, setting=setting):
        lw.watch(decide, RULE, background=True, **settings)


def test_without_a_background_nothing_waits():
    watched = lw.watch(decide, RULE)
    watched([1.2])
    assert watched.flush() and watched.waiting_count == 0


def test_a_signal_in_the_middle_of_handing_over_work_stops_nothing():
    backlog = Backlog(lambda pieces: [piece() for piece in pieces], most=10**6)
    done, where, step = [], "", 0
    while step == 0 or where:
        where = at_step(step, lambda: backlog.put(lambda: None), signals=True)
        assert backlog.put(lambda step=step: done.append(step)), where
        another = threading.Thread(target=lambda: backlog.waiting_count, daemon=True)
        another.start()
        another.join(30)
        assert not another.is_alive(), f"locked for ever by a signal in {where}"
        step += 1
    assert backlog.drain(30)
    assert done == list(range(step)) and step >= 5  # fewer places while the thread is awake
