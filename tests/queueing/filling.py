"""A program whose ledger fills a disk; `test_full_disk.py` runs it.

    python filling.py DISK WHEN_FULL

DISK is a small file system of its own. Prints what became of the decisions.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import likewise as lw

sys.path.insert(0, str(Path(__file__).parents[2]))  # it is run as a script
from tests.queueing.slow import RULE, decisions, is_balanced

X, Z = decisions(40_000)


def fill(disk, when_full):
    """Decisions wait until there is room: nothing is lost, and nothing is repeated."""
    ballast, reserve = disk / "ballast", disk / "reserve"
    ballast.write_bytes(bytes(400_000))
    reserve.write_bytes(bytes(400_000))
    monitor = lw.open(disk / "ledger", RULE)
    buffer = lw.buffered(monitor, 2000, when_full=when_full, batch_rows=50)
    at = 0
    while buffer.stats.failing is None:
        for _ in range(100):
            buffer.submit(X[at], Z[at])
            at += 1
        time.sleep(0.01)
    assert "Make room" in buffer.stats.failing
    stuck = buffer.stats.answered
    for _ in range(1000):
        if buffer.stats.waiting < 2000:
            buffer.submit(X[at], Z[at])
            at += 1
    assert not buffer.flush(0.5)
    assert is_balanced(buffer.stats)
    ballast.unlink()
    deadline = time.monotonic() + 60
    while buffer.stats.answered < stuck + 500 and time.monotonic() < deadline:
        time.sleep(0.01)
    buffer.close(0.0)  # there may be no room for all of it
    stats = buffer.stats
    assert is_balanced(stats) and stats.answered >= stuck + 500, stats
    numbers = [one.number for one in buffer.results()]
    assert numbers == list(range(stats.unread, stats.answered))
    reserve.unlink()  # the disk may be full again, and a monitor that it refused cannot answer
    assert monitor.missing_decisions <= stats.total_lost  # all of which a full disk cannot be told
    monitor.close()
    with lw.Ledger(disk / "ledger") as ledger:
        assert ledger.verify().ok
        rows = ledger.rows
        assert rows == stats.answered + stats.accepted
        inputs = np.concatenate([some.inputs["input"] for some in ledger.columns()])
    assert (inputs == X[:rows]).all()
    return {"answered": stats.answered, "stuck": stuck, "lost": stats.total_lost}


if __name__ == "__main__":
    print(json.dumps(fill(Path(sys.argv[1]), sys.argv[2])))
