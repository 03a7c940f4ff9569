"""Programs that fork, or end, with decisions waiting; `test_processes.py` runs them.

python -m tests.queueing.leaving WHAT FOLDER
"""

import sys
import threading
import warnings
from pathlib import Path

import likewise as lw
from tests.queueing.slow import RULE, Gated, decisions, is_balanced
from tests.support.programs import answer_in_child

X, Z = decisions(400)
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks with threads


def fill(buffer, count):
    for i in range(count):
        buffer.submit(X[i], Z[i])


def forked(folder):
    """In the child the buffer refuses; the parent keeps what waits."""
    monitor = Gated()
    buffer = lw.buffered(monitor, 50, batch_rows=1)
    buffer.submit(X[0], Z[0])
    assert monitor.began.wait(60)
    for i in range(1, 41):
        buffer.submit(X[i], Z[i])
    waiting = buffer.stats.waiting

    def submit():
        buffer.submit([0.1], "yes")

    said = answer_in_child(submit)
    assert said.startswith("BadFile: this buffer belongs to process"), said
    assert "Make another with lw.buffered(monitor)" in said

    def rest():
        assert buffer.stats.submitted == 0 and buffer.flush(1) and buffer.close(1)
        assert list(buffer.results()) == []
        return f"missing {monitor.missing_decisions}"

    assert answer_in_child(rest) == f"missing {waiting}", "its copy of the monitor lacks what waits"

    def another():
        monitor.gate.set()
        with lw.buffered(monitor) as mine:
            for i in range(60):
                mine.submit(X[i], Z[i])
        missing = monitor.missing_decisions
        return f"{mine.stats.answered} answered, {monitor.rows} rows, {missing} missing"

    said = answer_in_child(another)
    assert said == f"60 answered, 60 rows, {waiting} missing", said
    monitor.gate.set()
    assert buffer.close()
    stats = buffer.stats
    assert stats.answered == stats.submitted == waiting and monitor.missing_decisions == 0
    assert [one.number for one in buffer.results()] == list(range(waiting))


def forked_ledger(folder):
    """A ledger is the parent's; nothing is told to it by a child."""
    monitor = lw.open(folder / "ledger", RULE)
    buffer = lw.buffered(monitor, 20, when_full="accept")

    def submit():
        buffer.submit([0.1], "yes")

    over = threading.Event()

    def busy():
        i = 0
        while not over.is_set():
            buffer.submit(X[i % 400], Z[i % 400])
            i += 1

    thread = threading.Thread(target=busy)
    thread.start()
    for _ in range(10):
        said = answer_in_child(submit)
        assert said.startswith("BadFile: this buffer belongs"), said
    over.set()
    thread.join()
    assert buffer.close()
    stats = buffer.stats
    assert is_balanced(stats) and stats.total_lost == 0 and monitor.missing_decisions == 0
    assert monitor.rows == stats.submitted and monitor.ledger.verify().ok
    monitor.close()
    with lw.open(folder / "ledger") as again:
        assert again.missing_decisions == 0


def ended(folder):
    """The program ends with decisions waiting."""
    monitor = lw.open(folder / "ledger", RULE)
    buffer = lw.buffered(monitor, batch_rows=10)
    fill(buffer, 300)


def ended_at_once(folder):
    """The same with a monitor that never gets done: what is left is lost, and told."""

    class Stuck(lw.Monitor):
        def observe_many(self, *args, **kwargs):
            threading.Event().wait()

    from likewise.queueing import buffer as buffered

    buffered._EXIT_SECONDS = 0.3
    buffer = lw.buffered(Stuck(RULE))
    fill(buffer, 3)


def ended_by_an_exit_function(folder):
    """Something is submitted after the interpreter has begun to end."""
    import atexit

    monitor = lw.open(folder / "ledger", RULE)
    buffer = lw.buffered(monitor)
    atexit.register(lambda: fill(buffer, 300))  # runs before the buffer's own end


def forgotten(folder):
    """A buffer that nobody holds judges what waits all the same."""
    monitor = lw.open(folder / "ledger", RULE)
    fill(lw.buffered(monitor), 300)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
    print("done")
