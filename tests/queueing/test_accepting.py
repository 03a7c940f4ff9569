"""A buffer before a ledger that is full writes what waits there: accepted now, judged later."""

import operator
import os
import threading
import time

import numpy as np
import pytest

import likewise as lw
from likewise.ledger.loss_events import bound_of
from tests.queueing.slow import RULE, decisions, inline, is_balanced, slow_ledger
from tests.support.refusals import raises

X, Z = decisions(3000)


def submit(buffer, stop, first=0):
    return [buffer.submit(X[i], Z[i], key=i) for i in range(first, stop)]


def until(something, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not something():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def accepting(monitor, capacity=40, **settings):
    return lw.buffered(monitor, capacity, when_full="accept", **settings)


def test_accepted_decisions_are_judged_before_newer_ones_with_the_same_verdicts(tmp_path):
    most = 0
    with slow_ledger(tmp_path / "ledger") as monitor, accepting(monitor) as buffer:
        for i in range(1500):
            assert buffer.submit(X[i], Z[i], key=i) == (i, None, None, None, None, None)
            stats = buffer.stats
            assert is_balanced(stats) and stats.waiting <= 2 * 40
            most = max(most, stats.accepted)
        assert buffer.flush(60)
        assert (buffer.stats.accepted, buffer.stats.answered) == (0, 1500)
        submit(buffer, 1510, first=1500)
        assert buffer.flush(60)
        answers = list(buffer.results())
        assert (
            monitor.past.keys(range(1510)) == list(range(1510)) and monitor.missing_decisions == 0
        )
    assert most > 300, "a test on nothing"
    assert [one.number for one in answers] == [one.row for one in answers] == list(range(1510))
    assert [one.verdict for one in answers] == inline(X[:1510], Z[:1510])
    assert all(one.delay >= 0 and one.verdict.key == one.number for one in answers)
    with lw.Ledger(tmp_path / "ledger") as ledger:
        assert ledger.verify().ok and ledger.pending == 0
    assert lw.replay(tmp_path / "ledger").ok


def test_submit_does_not_wait_for_judging(tmp_path):
    """Judging everything would take 50 seconds."""
    with slow_ledger(tmp_path / "ledger", seconds=0.05) as monitor:
        monitor.observe(X[0], Z[0])
        buffer = accepting(monitor, 400, batch_rows=1)
        began = time.monotonic()
        submit(buffer, 1000)
        assert time.monotonic() - began < 10
        assert buffer.stats.total_lost == 0
        assert not buffer.close(0.0)
        stats = buffer.stats
        assert is_balanced(stats) and stats.total_lost == stats.waiting == 0
        assert stats.accepted == 1000 - stats.answered > 300
        assert not buffer.flush(0.01)
    with lw.open(tmp_path / "ledger") as monitor:
        assert (monitor.rows, monitor.ledger.accepted_count, monitor.missing_decisions) == (
            1001,
            0,
            0,
        )
        assert monitor.past.keys(range(1001)) == [None, *range(1000)]


def test_large_decisions_are_accepted_when_their_bytes_fill_the_queue(tmp_path):
    x = np.arange(60)[:, None] + np.zeros((60, 1000))
    with slow_ledger(tmp_path / "ledger", lw.Rule("linf", 0.1), seconds=0.02) as monitor:
        with accepting(monitor, 1000, max_bytes=50_000, batch_rows=1) as buffer:
            for i, row in enumerate(x):
                buffer.submit(row, i)
                assert buffer.stats.waiting_bytes <= 50_000
            assert buffer.stats.accepted > 10
            with pytest.raises(lw.errors.BadDecision):
                buffer.submit(np.zeros(10_000), 0)
        assert monitor.past.inputs(range(60))[:, 0].tolist() == list(range(60))


def test_what_is_refused_is_told_in_the_order_of_numbers(tmp_path):
    bad = {i for i in range(600) if i % 37 == 5}
    with slow_ledger(tmp_path / "ledger") as monitor, accepting(monitor) as buffer:
        for i in range(600):
            buffer.submit([np.nan] * 3 if i in bad else X[i], Z[i])
            assert is_balanced(buffer.stats)
        assert buffer.stats.accepted > 50
        assert buffer.flush(60)
        answers = list(buffer.results())
        stats = buffer.stats
        assert (stats.answered, stats.refused, monitor.missing_decisions) == (
            600 - len(bad),
            len(bad),
            0,
        )
    assert [one.number for one in answers] == list(range(600))
    assert {one.number for one in answers if one.refusal is not None} == bad
    good = [one for one in answers if one.refusal is None]
    assert [one.row for one in good] == list(range(len(good)))
    numbers = [one.number for one in good]
    assert [one.verdict for one in good] == inline(X[numbers], [Z[i] for i in numbers])


def test_what_the_ledger_has_already_is_answered_as_before(tmp_path):
    with slow_ledger(tmp_path / "ledger") as monitor, accepting(monitor) as buffer:
        for i in range(400):
            buffer.submit(X[i], Z[i], key=i)
            if i % 50 == 30:
                buffer.submit(X[i - 3], Z[i - 3], key=i - 3)
        buffer.submit([9.0, 9.0, 9.0], "other", key=7)
        assert buffer.flush(60)
        answers = list(buffer.results())
        assert monitor.rows == 400
    assert [one.number for one in answers] == list(range(409))
    assert sum(one.verdict.repeated for one in answers[:-1]) == 8
    assert isinstance(answers[-1].refusal, lw.errors.RepeatedKey)


def test_what_was_erased_before_it_was_judged_has_a_row_and_no_verdict(tmp_path):
    with slow_ledger(tmp_path / "ledger", seconds=0.01) as monitor, accepting(monitor) as buffer:
        submit(buffer, 400)
        until(lambda: buffer.stats.accepted > 100 and not buffer.stats.waiting)
        last = monitor.ledger.rows_taken - 1
        gone = monitor.erase(rows=[*range(last - 60, last - 20), last - 5, last]).rows
        assert len(gone) == 42 and buffer.stats.accepted > 70
        assert buffer.flush(60)
        answers = list(buffer.results())
        assert buffer.stats.answered == monitor.rows == 400
        assert len(monitor) == 400 - 42
    assert [one.row for one in answers] == list(range(400))
    assert {one.row for one in answers if one.verdict is None} == set(gone)
    with lw.Ledger(tmp_path / "ledger") as ledger:
        counts = [entry.count for entry in ledger.entries()]
    assert counts == [None if one.verdict is None else one.verdict.count for one in answers]


@pytest.mark.parametrize("kind", ["label", "table"])
def test_rows_and_labels_may_all_be_erased_before_anything_is_judged(tmp_path, kind):
    """No label is left that could stand for that of an erased row."""
    rule = RULE
    rows = [([0.1 * i, 0.0], label) for i, label in enumerate("abca")]
    if kind == "table":
        age = lw.Feature("number", tolerance=1, missing="match")
        features = {"age": age, "place": lw.Feature("category")}
        rule = lw.Rule(features=features, output_column="answer")
        rows = [({"age": n, "place": z}, z) for n, z in zip((1, 2, None, 4), "abca", strict=True)]
    for gone, left in (([0, 1], 2), ([0, 1, 2], 1), ([0, 1, 2, 3], 0)):
        folder = tmp_path / str(left)
        with lw.open(folder, rule) as monitor:
            monitor.observe(*rows[0])
            monitor.erase(rows=[0])
            monitor.ledger.accept(*zip(*rows[1:], strict=True))
            monitor.erase(rows=gone)
            assert len(monitor) == left and monitor.ledger.accepted_count == 0
            twin = lw.Monitor(rule)
            for row in range(max(gone) + 1, 4):
                twin.observe(*rows[row])
            verdict, expected = monitor.observe(*rows[1]), twin.observe(*rows[1])
            found = verdict.witnesses.rows - (4 - left)
            assert found.tolist() == expected.witnesses.rows.tolist()
            assert monitor.ledger.verify().ok
        with lw.open(folder) as monitor:
            assert (monitor.rows, len(monitor), monitor.ledger.verify().ok) == (5, left + 1, True)


def test_whoever_looks_has_the_accepted_judged_and_no_receipt_lacks_its_verdict(tmp_path):
    with slow_ledger(tmp_path / "ledger", witnesses=1000) as monitor, accepting(monitor) as buffer:
        looks = 0
        for i in range(1000):
            buffer.submit(X[i], Z[i])
            if i % 100 == 99:
                until(lambda: buffer.stats.accepted > 20 or not buffer.stats.waiting)
                looks += buffer.stats.accepted > 0
                rows = len(monitor)
                assert rows > 0 and is_balanced(buffer.stats)
        assert buffer.flush(60)
        answers = list(buffer.results())
    assert looks > 2, "a test on nothing"
    assert [one.row for one in answers] == list(range(1000))
    assert [one.verdict for one in answers] == inline(X[:1000], Z[:1000])
    assert not any(one.verdict.repeated for one in answers)


def test_a_loss_is_told_before_anything_later_is_accepted_or_judged(tmp_path):
    with slow_ledger(tmp_path / "ledger", seconds=0.05) as monitor:
        monitor.observe(X[0], Z[0])
        with accepting(monitor, 4, timeout=0.0) as buffer:
            receipts = submit(buffer, 1000)
            assert buffer.flush(60)
            answers = list(buffer.results())
            lost = sum(one.lost is not None for one in receipts)
            assert (
                lost > 10
                and buffer.stats.lost == {"timeout": lost}
                and monitor.missing_decisions == lost
            )
    known = [one.verdict.missing_decisions for one in answers]
    lost_before = [
        sum(receipt.lost is not None for receipt in receipts[: one.number]) for one in answers
    ]
    assert known == sorted(known) and known[-1] == lost
    assert all(map(operator.le, lost_before, known)), "never one too few"


@pytest.mark.parametrize("what", ["accept", "judge_accepted", "observe_many"])
@pytest.mark.parametrize("stored", [False, True], ids=["before", "after"])
def test_a_disk_that_fails_loses_and_repeats_nothing(tmp_path, what, stored):
    """Also where the call fails after its transaction has come through."""
    with slow_ledger(tmp_path / "ledger", seconds=0.005) as monitor:
        owner = monitor if what == "observe_many" else monitor.ledger
        call, failed = getattr(owner, what), []

        def failing(*args, **kwargs):
            if len(failed) < 3 and (what != "observe_many" or monitor.rows):
                failed.append(what)
                if stored:
                    call(*args, **kwargs)
                raise lw.errors.BadFile("the disk fails")
            return call(*args, **kwargs)

        setattr(owner, what, failing)
        with accepting(monitor) as buffer:
            for i in range(500):
                buffer.submit(X[i], Z[i], key=i)
                assert is_balanced(buffer.stats)
                if what == "observe_many" and i % 100 == 0:
                    assert buffer.flush(60)
            assert buffer.flush(60)
            answers = list(buffer.results())
            assert monitor.past.keys(range(500)) == list(range(500))
            assert buffer.stats.answered == 500 and buffer.stats.failing is None
    assert len(failed) == 3
    expected = inline(X[:500], Z[:500])
    assert [one.row for one in answers] == list(range(500))
    assert [one.verdict.count for one in answers] == [one.count for one in expected]


def test_tables_with_keys_and_models_can_be_accepted(tmp_path):
    rule = lw.Rule(
        features={"id": lw.Feature("key"), "age": lw.Feature("number", tolerance=5)},
        output_column="approved",
    )
    rows = [{"id": i, "age": 20 + i % 40, "approved": "yes" if i % 3 else "no"} for i in range(300)]
    with slow_ledger(tmp_path / "ledger", rule) as monitor, accepting(monitor) as buffer:
        for i, row in enumerate(rows):
            buffer.submit(row, model=f"v{i % 2}")
        assert buffer.stats.accepted > 50
        assert buffer.flush(60)
        answers = list(buffer.results())
    expected = lw.Monitor(rule).observe_many(rows, models=[f"v{i % 2}" for i in range(300)])
    assert [one.verdict for one in answers] == list(expected)
    assert [one.verdict.model for one in answers] == [f"v{i % 2}" for i in range(300)]
    assert [one.verdict.key for one in answers] == list(range(300))


def test_two_buffers_may_accept_into_one_ledger(tmp_path):
    with slow_ledger(tmp_path / "ledger") as monitor:
        monitor.observe(X[0], Z[0])
        with accepting(monitor) as one, accepting(monitor) as other:
            for i in range(0, 600, 2):
                one.submit(X[i], Z[i], key=i)
                other.submit(X[i + 1], Z[i + 1], key=i + 1)
            assert one.flush(60) and other.flush(60)
            answers = [*one.results(), *other.results()]
        assert monitor.rows == 601
        keys = monitor.past.keys(range(1, 601))
        assert [key for key in keys if key % 2 == 0] == list(range(0, 600, 2))
        assert [key for key in keys if key % 2] == list(range(1, 600, 2))
    assert [one.verdict.row for one in answers] == [one.row for one in answers]


def test_it_needs_a_ledger():
    for monitor in (lw.Monitor(RULE), lw.connect("http://127.0.0.1:9")):
        with raises(lw.errors.BadRule, setting="when_full"):
            accepting(monitor)


# What a kill takes


def left(folder, open_buffers):
    """A process that ends without closing anything."""
    child = os.fork()
    if child == 0:
        try:
            monitor = lw.open(folder, RULE)
            buffers = open_buffers(monitor)
            os._exit(0 if buffers is not None else 1)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def losses(folder):
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().ok
        return [
            (event.body["count"], event.body["reason"])
            for event in ledger.events()
            if event.kind == "lost"
        ]


KILLED = "killed while a buffer held decisions in memory"


@pytest.mark.parametrize(
    ("settings", "most", "how"),
    [
        ({}, 200, ", at most so many"),
        ({"batch_rows": 10}, 110, ", at most so many"),
        ({"when_full": "accept", "batch_rows": 10}, 200, ", at most so many"),
        ({"when_full": "drop_newest"}, 200, ", at least or about so many"),
        ({"timeout": 1.0}, 200, ", at least or about so many"),
    ],
    ids=str,
)
def test_an_opening_after_a_kill_counts_what_a_buffer_may_have_held(tmp_path, settings, most, how):
    left(tmp_path, lambda monitor: lw.buffered(monitor, 100, **settings))
    assert losses(tmp_path) == [], "whoever only looks changes nothing"
    for _ in range(2):
        with lw.open(tmp_path) as monitor:
            assert monitor.missing_decisions == most
            assert not monitor.observe([9.0, 9.0, 9.0], "yes").clean
    assert losses(tmp_path) == [(most, KILLED + how)]
    with lw.Ledger(tmp_path) as ledger:
        assert bound_of(ledger.events()) == ("at most " if "most" in how else "at least ")


def test_every_buffer_that_was_left_is_counted_once(tmp_path):
    def three(monitor):
        lw.buffered(monitor, 1000, batch_rows=1).close()
        return lw.buffered(monitor, 10, batch_rows=1), lw.buffered(monitor, 20, batch_rows=1)

    left(tmp_path, three)
    left(tmp_path, lambda monitor: lw.buffered(monitor, 5, batch_rows=1))
    left(tmp_path, lambda monitor: lw.buffered(monitor, 7, batch_rows=1))
    with lw.open(tmp_path) as monitor:
        assert monitor.missing_decisions == 11 + 21 + 6 + 8
    assert [count for count, _ in losses(tmp_path)] == [32, 6, 8]


def test_a_buffer_that_was_closed_leaves_nothing_to_count(tmp_path):
    with lw.open(tmp_path, RULE) as monitor:
        for when_full in ("block", "drop_newest", "accept"):
            with lw.buffered(monitor, when_full=when_full) as buffer:
                buffer.submit(X[0], Z[0])
        buffer.close()
    with lw.open(tmp_path) as monitor:
        assert monitor.missing_decisions == 0
    assert losses(tmp_path) == []


def test_what_a_buffer_may_hold_is_known_though_the_rows_of_its_time_have_left(tmp_path):
    from tests.support.segments import small_segments

    with small_segments(), lw.open(tmp_path, RULE, window="50 rows") as monitor:
        buffer = lw.buffered(monitor, 100, batch_rows=10)
        monitor.observe_many(np.arange(3000.0)[:, None] + np.zeros((3000, 3)), [0] * 3000)
        with lw.Ledger(tmp_path) as ledger:
            assert ledger.first > 0
            kinds = [event.kind for event in ledger.events()]
        assert kinds.count("buffers") == 1
        monitor.close()  # before its buffer, which therefore cannot say that it has ended
        assert buffer.close()
    with lw.open(tmp_path) as monitor:
        assert monitor.missing_decisions == 110


def test_a_forked_process_leaves_the_parents_buffer_alone(tmp_path):
    with lw.open(tmp_path, RULE) as monitor, lw.buffered(monitor) as buffer:
        child = os.fork()
        if child == 0:
            buffer.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        buffer.submit(X[0], Z[0])
        assert buffer.flush(60)
        with lw.Ledger(tmp_path) as ledger:
            assert [event.kind for event in ledger.events()].count("buffers") == 1
    with lw.open(tmp_path) as monitor:
        assert (monitor.rows, monitor.missing_decisions) == (1, 0)


def test_close_always_returns_though_judging_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr("likewise.queueing.buffer._EXIT_SECONDS", 0.2)
    with slow_ledger(tmp_path / "ledger") as monitor:
        monitor.observe(X[0], Z[0])
        submitted, observe = threading.Event(), monitor.observe_many
        monitor.observe_many = lambda **given: submitted.wait(60) and observe(**given)
        gate, judge = threading.Event(), monitor.ledger.judge_accepted
        monitor.ledger.judge_accepted = lambda most: gate.wait(60) and judge(most)
        buffer = accepting(monitor, 110)  # has room for all, and is more than half full
        submit(buffer, 100)
        submitted.set()
        assert not buffer.close(0.1)
        gate.set()
        until(lambda: buffer.close() or "closed" in repr(buffer))
        stats = buffer.stats
        assert is_balanced(stats) and stats.total_lost == 0 and monitor.rows == 101
