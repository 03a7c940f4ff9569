"""A program whose spill folder, or whose ledger, fills a disk; `test_full_disk.py` runs it.

    python filling.py WHAT DISK FOLDER

DISK is a small file system of its own, FOLDER is on another. Prints what became of the decisions.
"""

import json
import sys
import time
from pathlib import Path

import likewise as lw

sys.path.insert(0, str(Path(__file__).parents[2]))  # it is run as a script
from tests.buffering.slow import RULE, Gated, decisions, is_balanced

X, Z = decisions(40_000)


def spill(disk, folder):
    """The spill folder is on the small disk: what finds no room is lost, told, and nothing else."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(900_000))
    monitor = Gated()
    with lw.buffered(monitor, 10, when_full="spill", spill=disk / "spill") as buffer:
        buffer.submit(X[0], Z[0])
        assert monitor.began.wait(60)
        lost = at = 0
        while lost < 100:
            at += 1
            lost += buffer.submit(X[at], Z[at]).lost == "spill_full"
            assert is_balanced(buffer.stats)
        ballast.unlink()
        for _ in range(500):
            at += 1
            assert buffer.submit(X[at], Z[at]).lost is None, "there is room again"
        monitor.gate.set()
        assert buffer.flush(120)
        stats = buffer.stats
        answers = [one.number for one in buffer.results()]
    assert is_balanced(stats) and stats.lost == {"spill_full": lost}
    assert len(answers) == stats.answered == monitor.rows and monitor.missing == lost
    assert answers == sorted(answers)
    inputs = monitor.past.inputs(range(monitor.rows))
    assert all((inputs[row] == X[number]).all() for row, number in enumerate(answers))
    return {"answered": stats.answered, "lost": lost}


def ledger(disk, folder):
    """The ledger is on the small disk: decisions wait until there is room."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(400_000))
    monitor = lw.open(disk / "ledger", RULE)
    buffer = lw.buffered(monitor, 200, when_full="spill", spill=folder / "spill", batch_rows=50)
    at = 0
    while buffer.stats.failing is None:
        for _ in range(100):
            buffer.submit(X[at], Z[at])
            at += 1
        time.sleep(0.01)
    assert "Make room" in buffer.stats.failing
    stuck = buffer.stats.answered
    for _ in range(1000):
        buffer.submit(X[at], Z[at])
        at += 1
    assert not buffer.flush(0.5)
    assert is_balanced(buffer.stats)
    ballast.unlink()
    deadline = time.monotonic() + 60
    while buffer.stats.answered < stuck + 500 and time.monotonic() < deadline:
        time.sleep(0.01)
    buffer.close(0.0)  # there is no room for all of it
    stats = buffer.stats
    assert is_balanced(stats) and stats.answered >= stuck + 500, stats
    numbers = [one.number for one in buffer.results()]
    assert numbers == sorted(numbers)
    rows = monitor.rows
    assert rows == stats.answered
    inputs = monitor.past.inputs(range(rows))
    unread = stats.unread
    assert all((inputs[unread + i] == X[number]).all() for i, number in enumerate(numbers))
    monitor.close()
    with lw.open(disk / "ledger") as again:
        assert again.rows == rows and again.verify().ok
    return {"answered": stats.answered, "stuck": stuck, "left": stats.spilled}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))))
