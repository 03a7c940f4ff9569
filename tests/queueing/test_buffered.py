"""A buffer: decisions are judged in the order in which they were submitted, and each is accounted
for, whatever the queue does when it is full."""

import gc
import threading
import time
import tracemalloc
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

import likewise as lw
from likewise.queueing.buffer import DecisionBuffer
from tests.queueing.slow import RULE, Gated, Slow, decisions, inline, is_balanced, slow_ledger
from tests.support.letter_embedders import letters
from tests.support.looping import each
from tests.support.refusals import raises
from tests.support.slopes import slope_monitor

POLICIES = ("block", "drop_newest", "accept")


@contextmanager
def monitor_of(policy, folder, rule=RULE):
    """A monitor that a buffer of this policy can stand before: a slow ledger for "accept"."""
    if policy != "accept":
        yield lw.Monitor(rule)
        return
    with slow_ledger(folder / "ledger", rule) as monitor:
        yield monitor


# Verdicts and receipts


@pytest.mark.parametrize("rows", [1, 7, 1024])
@pytest.mark.parametrize("policy", POLICIES)
def test_verdicts_are_those_of_a_monitor_told_one_by_one(tmp_path, policy, rows):
    x, z = decisions(600)
    capacity = {"block": 16, "accept": 16, "drop_newest": 1000}[policy]
    with (
        monitor_of(policy, tmp_path) as monitor,
        lw.buffered(monitor, capacity, batch_rows=rows, when_full=policy) as buffer,
    ):
        receipts = [buffer.submit(*one) for one in zip(x, z, strict=True)]
        assert [one.number for one in receipts] == list(range(600))
        assert buffer.flush(60)
        answers = list(buffer.results())
    expected = inline(x, z)
    assert sum(one.violation for one in expected) > 100, "a test on nothing"
    assert [one.number for one in answers] == [one.row for one in answers] == list(range(600))
    assert [one.verdict for one in answers] == expected
    assert all(one.delay >= 0 and one.refusal is None and one.lost is None for one in answers)
    assert buffer.stats.answered == buffer.stats.submitted == 600


def test_what_is_judged_is_what_was_submitted_though_it_changes_afterwards():
    monitor = Gated()
    x, z = np.array([0.5, 0.5]), ["yes"]
    with lw.buffered(monitor) as buffer:
        buffer.submit(x, z[0])
        x[:] = 9.0
        buffer.submit(x, "no")
        x[:] = 0.5
        monitor.gate.set()
    assert monitor.past.inputs([0, 1]).tolist() == [[0.5, 0.5], [9.0, 9.0]]


PEOPLE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected"),
        "id": lw.Feature("key"),
    },
    output_column="approved",
)


def people(count):
    rng = np.random.default_rng(3)
    return [
        {
            "age": int(rng.integers(20, 60)),
            "job": str(rng.choice(["cook", "nurse"])),
            "sex": str(rng.choice(["f", "m"])),
            "id": i,
            "approved": str(rng.choice(["yes", "no"])),
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("policy", ["block", "accept"])
def test_rows_of_a_table_may_have_their_output_in_them_or_beside_them(tmp_path, policy):
    rows = people(200)
    expected = lw.Monitor(PEOPLE).observe_many(rows)
    assert expected.violations.sum() > 50
    with (
        monitor_of(policy, tmp_path, PEOPLE) as monitor,
        lw.buffered(monitor, 8, when_full=policy) as buffer,
    ):
        for i, row in enumerate(rows):
            if i % 3:
                buffer.submit(row)
            else:
                rest = {name: value for name, value in row.items() if name != "approved"}
                buffer.submit(rest, row["approved"])
        assert buffer.flush(60)
        found = list(buffer.results())
    assert [one.verdict for one in found] == list(expected)
    assert [one.verdict.key for one in found] == list(range(200))


def test_frames_of_one_row_named_tuples_and_other_rows_are_taken():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    rows = people(4)
    monitor = lw.Monitor(PEOPLE)
    with lw.buffered(monitor) as buffer:
        buffer.submit(pandas.DataFrame(rows[:1]))
        buffer.submit(polars.DataFrame(rows[1:2]))
        buffer.submit(pandas.DataFrame(rows).iloc[2])
        buffer.submit(rows[3])
        with raises(lw.errors.WrongShape):
            buffer.submit(pandas.DataFrame(rows[:2]))
        with raises(lw.errors.UnexpectedValue):
            buffer.submit(17)
    assert [monitor.past.values(row) for row in range(4)] == rows
    assert buffer.stats.submitted == 4


def test_texts_are_embedded_by_the_monitor():
    rule = lw.Rule("l1", 4, embed=letters)
    with lw.buffered(lw.Monitor(rule)) as buffer:
        for text, z in (("abc", "yes"), ("abd", "no"), ("hhhhhhh", "no")):
            buffer.submit(text, z)
    assert [one.verdict.violation for one in buffer.results()] == [False, True, False]


def test_slopes_are_buffered_as_any_monitor():
    slopes = slope_monitor(lw.Rule("l2", 1, output="number"), slope_limit=3)
    with lw.buffered(slopes) as buffer:
        for x, z in (([0.0, 0.0], 0.2), ([0.3, 0.4], 0.7), ([0.3, 0.5], 0.2)):
            buffer.submit(x, z)
    assert [one.verdict.violation for one in buffer.results()] == [False, False, True]


def test_keys_and_times_go_with_their_decisions(tmp_path):
    with lw.open(tmp_path, RULE) as monitor, lw.buffered(monitor) as buffer:
        buffer.submit([0.1], "yes", key="first", time="2024-03-01")
        before = time.time()
        buffer.submit([0.2], "yes")
        after = time.time()
        buffer.submit([0.3], "yes", key=17)
        assert buffer.flush(60)
        with lw.Ledger(tmp_path) as ledger:
            entries = list(ledger.entries())
    assert [one.key for one in entries] == ["first", None, 17]
    assert entries[0].time.startswith("2024-03-01")
    when = np.datetime64(entries[1].time.rstrip("Z")).astype("datetime64[us]").astype(int) / 1e6
    assert before - 1e-3 <= when <= after + 1e-3, "a decision is made when it is submitted"


@pytest.mark.parametrize("first", [np.uint8, np.float32, np.int64])
def test_types_of_inputs_are_not_mixed_by_being_judged_together(first):
    """An array of several types would change some of them, or settle another storage type."""
    monitor = Gated(lw.Rule("linf", 1.5))
    told = [np.array([1, 2]).astype(first), np.array([2.5, 3.5]), [1, 2], [2.0, 3.0]]
    with lw.buffered(monitor) as buffer:
        for x in told:
            buffer.submit(x, "yes")
        monitor.gate.set()
    alone = lw.Monitor(lw.Rule("linf", 1.5))
    for receipt, x in zip(buffer.results(), told, strict=True):
        try:
            assert alone.observe(x, "yes") == receipt.verdict
        except lw.errors.BadDecision as error:
            assert str(receipt.refusal) == str(error)
    assert alone.explain().storage == monitor.explain().storage


def test_model_is_passed_on_where_the_monitor_keeps_it():
    class Keeping(lw.Monitor):
        told = ()

        def observe_many(self, x, z, *, keys=None, times=None, models=None, threads=None):
            Keeping.told += (models,)
            return super().observe_many(x, z, keys=keys, times=times)

    with lw.buffered(Keeping(RULE)) as buffer:
        buffer.submit([0.1], "yes", model="v2")
        buffer.submit([0.2], "yes")
    assert [one for some in Keeping.told for one in some or [None]] == ["v2", None]


# Refusals


@pytest.mark.parametrize("policy", POLICIES)
def test_refused_decision_is_told_by_its_number_and_its_neighbours_are_judged(tmp_path, policy):
    x, z = decisions(300)
    bad = {0, 7, 8, 100, 299}
    good = [i for i in range(300) if i not in bad]
    capacity = 16 if policy == "accept" else 1000
    with (
        monitor_of(policy, tmp_path) as monitor,
        lw.buffered(monitor, capacity, when_full=policy) as buffer,
    ):
        for i in range(300):
            buffer.submit([np.nan] * 3 if i in bad else x[i], z[i])
        assert buffer.flush(60)
        assert monitor.missing_decisions == 0
        answers = list(buffer.results())
    assert [one.number for one in answers] == list(range(300))
    assert {one.number for one in answers if one.refusal is not None} == bad
    assert all("nan" in str(one.refusal) for one in answers if one.number in bad)
    expected = inline(x[good], [z[i] for i in good])
    assert [one.verdict for one in answers if one.refusal is None] == expected
    assert [one.row for one in answers if one.refusal is None] == list(range(295))
    stats = buffer.stats
    assert (stats.answered, stats.refused, stats.total_lost) == (295, 5, 0)


def test_repeated_key_is_a_refusal():
    with lw.buffered(lw.Monitor(RULE)) as buffer:
        for key in ("a", "b", "a", "c"):
            buffer.submit([0.5], "yes", key=key)
    answers = list(buffer.results())
    assert [type(one.refusal) for one in answers] == [type(None), type(None), lw.errors.RepeatedKey,
                                                      type(None)]  # fmt: skip


def test_key_that_is_none_is_a_refusal_and_its_neighbours_are_judged():
    with lw.buffered(lw.Monitor(RULE)) as buffer:
        for key in ("a", np.array([1, 2]), object(), "b"):
            buffer.submit([0.5], "yes", key=key)
    answers = list(buffer.results())
    assert [one.refusal is None for one in answers] == [True, False, False, True]


def test_what_cannot_be_read_is_refused_at_once_and_gets_no_number():
    with lw.buffered(lw.Monitor(RULE)) as buffer:
        for x in (object(), [[1], [1, 2]], np.ma.masked_array([1, 2], [0, 1])):
            with pytest.raises(lw.errors.BadDecision):
                buffer.submit(x, "yes")
        with raises(lw.errors.UnexpectedValue):
            buffer.submit([0.1], "yes", time="soon")
        assert buffer.submit([0.1], "yes").number == 0


def test_error_of_somebody_elses_is_told_by_its_number_and_ends_nothing():
    def embed(texts):
        if any(text == "bad" for text in texts):
            raise RuntimeError("no words for it")
        if any(text == "exit" for text in texts):
            raise SystemExit
        return letters(texts)

    with lw.buffered(lw.Monitor(lw.Rule("l1", 4, embed=embed))) as buffer:
        for text in ("abc", "bad", "abd", "exit", "abe"):
            buffer.submit(text, "yes")
        assert buffer.flush(60)
        answers = list(buffer.results())
    assert [one.number for one in answers if one.refusal is not None] == [1, 3]
    assert "no words for it" in str(answers[1].refusal)
    assert [one.row for one in answers] == [0, None, 1, None, 2]
    assert is_balanced(buffer.stats)


# When it is full


def filled(buffer, monitor, x, z, count):
    """Submit until `count` wait behind what the monitor has in hand; the next number."""
    buffer.submit(x[0], z[0])
    assert monitor.began.wait(60)
    while len(buffer._queue):
        time.sleep(0.001)
    for i in range(1, count + 1):
        assert buffer.submit(x[i], z[i]).lost is None
    return count + 1


def test_drop_newest_loses_at_once_and_tells_the_monitor_before_it_judges_on():
    x, z = decisions(100)
    monitor = Gated()
    with lw.buffered(monitor, 10, when_full="drop_newest", batch_rows=1) as buffer:
        at = filled(buffer, monitor, x, z, 10)
        lost = [buffer.submit(x[i], z[i]) for i in range(at, at + 5)]
        assert [(one.number, one.lost) for one in lost] == [(at + i, "full") for i in range(5)]
        stats = buffer.stats
        assert (stats.lost, stats.waiting) == ({"full": 5}, 11) and is_balanced(stats)
        monitor.gate.set()
        assert buffer.flush(60)
        buffer.submit(x[99], z[99])
        assert buffer.flush(60)
        answers = list(buffer.results())
    assert [one.number for one in answers] == [*range(11), 16]
    assert [one.row for one in answers] == list(range(12)), "rows are dense, numbers are not"
    missing = [one.verdict.missing_decisions for one in answers]
    assert missing[0] == 0 and missing[1:] == [5] * 11, "the first was judged before the loss"
    assert monitor.missing_decisions == 5
    assert [one.verdict.witnesses.rows.tolist() for one in answers] == [
        one.witnesses.rows.tolist() for one in inline(x[[*range(11), 99]], [*z[:11], z[99]])
    ]


def test_block_waits_for_room_and_loses_nothing():
    x, z = decisions(400)
    with lw.buffered(Slow(RULE), 8, batch_rows=4) as buffer:
        for one in zip(x, z, strict=True):
            buffer.submit(*one)
            assert buffer.stats.waiting <= 8 + 4
    assert [one.verdict for one in buffer.results()] == inline(x, z)


def test_block_with_a_timeout_loses_when_it_is_over():
    x, z = decisions(40)
    monitor = Gated()
    with lw.buffered(monitor, 3, timeout=0.05, batch_rows=1) as buffer:
        at = filled(buffer, monitor, x, z, 3)
        began = time.monotonic()
        receipt = buffer.submit(x[at], z[at])
        assert 0.04 < time.monotonic() - began < 20
        assert receipt == (at, "timeout", None, None, None, None)
        monitor.gate.set()
        assert buffer.flush(60)
        assert buffer.submit(x[9], z[9]).lost is None
    assert buffer.stats.lost == {"timeout": 1} and monitor.missing_decisions == 1
    assert is_balanced(buffer.stats)


@pytest.mark.parametrize("policy", ["block", "drop_newest"])
def test_bytes_are_bounded_as_well_as_rows(policy):
    monitor = Gated(lw.Rule("linf", 0.1))
    x = np.zeros((40, 1000))
    x += np.arange(40)[:, None]
    settings = {"when_full": policy, "batch_rows": 1}
    if policy == "block":
        settings["timeout"] = 0.01
    with lw.buffered(monitor, 1000, 50_000, **settings) as buffer:
        buffer.submit(x[0], 0)
        assert monitor.began.wait(60)
        for i in range(1, 20):
            buffer.submit(x[i], 0)
        stats = buffer.stats
        assert 30_000 < stats.waiting_bytes <= 50_000
        assert stats.total_lost == 19 - 5 and is_balanced(stats)
        with raises(lw.errors.BadDecision):
            buffer.submit(np.zeros(10_000), 0)
        monitor.gate.set()
        assert buffer.flush(60)
        assert is_balanced(buffer.stats)


# Many threads


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
def test_every_decision_of_many_threads_is_accounted_for_and_in_order(tmp_path, policy):
    x, z = decisions(4000)
    monitor = Slow(RULE)
    receipts = {}
    with ExitStack() as stack:
        if policy == "accept":
            monitor = stack.enter_context(slow_ledger(tmp_path / "ledger", RULE))
        buffer = stack.enter_context(lw.buffered(monitor, 50, batch_rows=40, when_full=policy))

        def submit(places):
            for i in places:
                receipts[i] = buffer.submit(x[i], z[i], key=i)

        threads = [threading.Thread(target=submit, args=(range(k, 4000, 8),)) for k in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert is_balanced(buffer.stats)
        for thread in threads:
            thread.join()
        assert buffer.flush(60)
        answers = list(buffer.results())
        numbers = sorted(one.number for one in receipts.values())
        assert numbers == list(range(4000))
        stats = buffer.stats
        assert is_balanced(stats) and stats.submitted == 4000
        assert stats.answered == len(answers) == monitor.rows
        assert stats.total_lost == sum(one.lost is not None for one in receipts.values())
        assert (stats.total_lost > 0) == (policy == "drop_newest"), "a test on nothing"
        assert monitor.missing_decisions == stats.total_lost
        by_number = {one.number: i for i, one in receipts.items()}
        assert [by_number[one.number] for one in answers] == monitor.past.keys(range(monitor.rows))
        assert [one.number for one in answers] == sorted(one.number for one in answers)
        told = [by_number[one.number] for one in answers]
        expected = inline(x[told], [z[i] for i in told])
        assert [one.verdict.witnesses.rows.tolist() for one in answers] == [
            one.witnesses.rows.tolist() for one in expected
        ]


# Answers


def test_on_verdict_is_told_of_every_answer_in_order_and_may_fail():
    x, z = decisions(50)
    told = []

    def on_verdict(receipt):
        told.append(receipt)
        if receipt.number == 3:
            raise ValueError("mine")
        if receipt.number == 4:
            raise SystemExit

    with lw.buffered(lw.Monitor(RULE), on_verdict=on_verdict) as buffer:
        for i in range(50):
            buffer.submit([np.nan] * 3 if i == 9 else x[i], z[i])
        assert buffer.flush(60)
        with raises(lw.errors.BadRule):
            next(buffer.results())
    assert [one.number for one in told] == list(range(50))
    assert told[9].refusal is not None and told[10].verdict.row == 9


def test_on_verdict_may_use_the_buffer_and_never_waits_for_itself():
    done = []

    def on_verdict(receipt):
        if receipt.number < 3:
            done.append(buffer.submit([9.0], "yes").lost)
        assert not buffer.flush(10)
        if receipt.number == 3:
            assert not buffer.close()
            with raises(lw.errors.BadFile):
                buffer.submit([9.0], "yes")

    buffer = lw.buffered(lw.Monitor(RULE), 2, batch_rows=1, on_verdict=on_verdict)
    buffer.submit([1.0], "yes")
    deadline = time.monotonic() + 60
    while not buffer._state and time.monotonic() < deadline:
        time.sleep(0.001)
    assert buffer.close() and done[0] is None
    assert is_balanced(buffer.stats)


def test_results_can_be_waited_for_until_the_buffer_is_closed():
    x, z = decisions(200)
    found = []
    buffer = lw.buffered(lw.Monitor(RULE), 10)
    reader = threading.Thread(target=lambda: found.extend(buffer.results(wait=True)))
    reader.start()
    for one in zip(x, z, strict=True):
        buffer.submit(*one)
    assert buffer.close()
    reader.join(60)
    assert not reader.is_alive()
    assert [one.verdict for one in found] == inline(x, z)


def test_answers_that_nobody_reads_are_let_go_of_and_counted(monkeypatch):
    monkeypatch.setattr("likewise.queueing.buffer._ANSWERS", 1)
    x, z = decisions(500)
    with lw.buffered(lw.Monitor(RULE), 100, batch_rows=10) as buffer:
        for one in zip(x, z, strict=True):
            buffer.submit(*one)
        assert buffer.flush(60)
        answers = list(buffer.results())
        stats = buffer.stats
    assert len(answers) <= 100 and stats.unread + len(answers) == 500
    assert [one.number for one in answers] == list(range(500 - len(answers), 500))
    assert stats.answered == 500


# The end


def test_close_judges_what_waits_and_then_takes_no_more():
    x, z = decisions(100)
    monitor = Slow(RULE)
    buffer = lw.buffered(monitor, batch_rows=5)
    for one in zip(x, z, strict=True):
        buffer.submit(*one)
    assert buffer.close() and monitor.rows == 100
    assert buffer.close(), "once more, which is nothing"
    with raises(lw.errors.BadFile):
        buffer.submit(x[0], z[0])
    assert buffer.flush() and "closed" in repr(buffer)
    assert monitor.observe(x[0], z[0]).row == 100, "the monitor is the caller's"


def test_close_that_runs_out_of_time_records_the_rest_as_lost():
    x, z = decisions(100)
    monitor = Gated()
    buffer = lw.buffered(monitor, batch_rows=10)
    at = filled(buffer, monitor, x, z, 50)
    threading.Timer(0.2, monitor.gate.set).start()
    assert not buffer.close(timeout=0.05)
    stats = buffer.stats
    assert stats.answered == 1 and stats.lost == {"closed": at - 1} and is_balanced(stats)
    assert monitor.rows == 1 and monitor.missing_decisions == at - 1


def test_monitor_that_is_closed_first_closes_its_buffer(tmp_path):
    monitor = lw.open(tmp_path / "ledger", RULE)
    buffer = lw.buffered(monitor)
    buffer.submit([0.1], "yes")
    assert buffer.flush(60)
    monitor.close()
    buffer.submit([0.2], "yes")
    assert not buffer.close(30)
    assert buffer.stats.lost == {"closed": 1} and is_balanced(buffer.stats)


def test_two_buffers_may_stand_before_one_monitor():
    x, z = decisions(400)
    monitor = lw.Monitor(RULE)
    with lw.buffered(monitor, 10) as one, lw.buffered(monitor, 10) as other:
        for i in range(0, 400, 2):
            one.submit(x[i], z[i], key=i)
            other.submit(x[i + 1], z[i + 1], key=i + 1)
    keys = monitor.past.keys(range(400))
    assert [key for key in keys if key % 2 == 0] == list(range(0, 400, 2))
    assert [key for key in keys if key % 2] == list(range(1, 400, 2))


def test_thread_ends_with_its_buffer():
    with lw.buffered(lw.Monitor(RULE)) as buffer:
        buffer.submit([0.1], "yes")
        thread = buffer._worker._thread
        assert thread.is_alive() and thread.daemon
    thread.join(30)
    assert not thread.is_alive()


# Memory


def test_memory_is_bounded_by_the_queue_and_not_by_what_was_submitted(monkeypatch):
    monkeypatch.setattr("likewise.queueing.buffer._ANSWERS", 1)
    monitor = Gated(lw.Rule("linf", 0.1))

    def held(count):
        buffer = lw.buffered(monitor, 200, when_full="drop_newest", batch_rows=1)
        buffer.submit(np.zeros(1000), 0)
        assert monitor.began.wait(60)
        gc.collect()
        tracemalloc.start()
        for i in range(count):
            buffer.submit(np.full(1000, float(i)), 0)
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        stats = buffer.stats
        assert stats.waiting_bytes <= 200 * 8600 and is_balanced(stats)
        monitor.gate.set()
        buffer.close()
        monitor.gate.clear()
        monitor.began.clear()
        return size

    few, many = held(400), held(4000)
    assert few > 200 * 8000, "what waits is there"
    assert many < 1.2 * few, f"{many:,} bytes after ten times as many, {few:,} before"


def test_answers_take_bounded_memory(monkeypatch):
    monkeypatch.setattr("likewise.queueing.buffer._ANSWERS", 1)

    def held(count):
        x, z = decisions(count)
        monitor = lw.Monitor(lw.Rule("linf", 10.0))
        with lw.buffered(monitor, 100, 400_000, batch_rows=20) as buffer:
            for one in zip(x, z, strict=True):
                buffer.submit(*one)
            assert buffer.flush(60)
            answers = buffer._answers
            pairs = sum(part.verdicts.pairs for part in answers._parts)
            return len(answers), 24 * pairs

    few, many = held(500), held(1500)
    assert few[1] > 0 and many[1] <= 500_000 and many[0] <= 100, (few, many)


# Settings


@each(
    ("settings", "setting"),
    [
        ({"capacity": 0}, "capacity"),
        ({"max_bytes": -1}, "max_bytes"),
        ({"batch_rows": True}, "batch_rows"),
        ({"batch_seconds": -1}, "batch_seconds"),
        ({"timeout": "long"}, "timeout"),
        ({"when_full": "drop_oldest"}, "when_full"),
        ({"when_full": "accept"}, "when_full"),
        ({"on_verdict": 3}, "on_verdict"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, setting):
    with raises(lw.errors.BadRule, setting=setting):
        lw.buffered(lw.Monitor(RULE), **settings)


def test_a_timeout_is_refused_where_nothing_blocks():
    with raises(lw.errors.BadRule):
        lw.buffered(lw.Monitor(RULE), timeout=1, when_full="drop_newest")


def test_buffer_is_what_lw_buffered_makes():
    with lw.buffered(lw.Monitor(RULE)) as buffer:
        assert isinstance(buffer, DecisionBuffer)
        assert isinstance(buffer.submit([0.1], 0), lw.Receipt)


def test_what_a_ledger_has_already_is_answered_as_before_and_stored_once(tmp_path):
    with lw.open(tmp_path, lw.Rule("linf", 0.1)) as monitor:
        monitor.observe([0.5], "a", key="k")
        with lw.buffered(monitor) as buffer:
            for key, z in (("k", "a"), ("l", "b"), (None, "b"), ("l", "b"), ("k", "b")):
                buffer.submit([0.5], z, key=key)
            assert buffer.flush(60)
            answers = list(buffer.results())
        assert [one.row for one in answers[:4]] == [0, 1, 2, 1]
        assert [one.verdict.repeated for one in answers[:4]] == [True, False, False, True]
        assert isinstance(answers[4].refusal, lw.errors.RepeatedKey)
        assert monitor.rows == 3
