"""A program that fills a disk with a ledger, then makes room; `test_full_disk.py` runs it.

    python filling.py DISK DURABILITY

DISK is a small file system of its own. Beside the ledger stands a monitor in memory that gets only
what the ledger did not refuse. Prints how much was taken and refused, as JSON.
"""

import json
import sys
from pathlib import Path

import numpy as np

import likewise as lw

RULE = lw.Rule("linf", 0.05)
BALLAST = 400_000
FURTHER = 40
"""Decisions that there is room for afterwards, with SQLite's log, which is larger than they are."""


def main(disk, durability):
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST))
    drawn = np.random.default_rng(1)
    x = drawn.random((40_000, 2)).round(3)
    z = [("yes", "no")[i] for i in drawn.integers(0, 2, len(x))]
    beside = lw.Monitor(RULE)
    at = taken = refused = 0
    monitor = lw.open(disk / "ledger", RULE, durability=durability, batch_rows=20)

    def one():
        """The next decision; whether it was taken."""
        nonlocal at, taken, refused
        at += 1
        try:
            verdict = monitor.observe(x[at], z[at], key=at)
        except lw.errors.BadFile as error:
            assert "Make room" in str(error), error
            refused += 1
            return False
        found = beside.observe(x[at], z[at])
        assert verdict.row == taken
        assert verdict.witnesses.rows.tolist() == found.witnesses.rows.tolist()
        taken += 1
        return True

    in_a_row = 0  # SQLite's log is emptied after a failure, which makes room once more
    while in_a_row < 5:
        in_a_row = 0 if one() else in_a_row + 1
    rows = monitor.rows  # a batch that cannot be written: all of it is refused
    try:
        monitor.observe_many(x[at + 1 : at + 8001], z[at + 1 : at + 8001])
    except lw.errors.BadFile as error:
        stored = monitor.rows - rows
        assert stored == 0 or f"Decisions {rows} to {rows + stored - 1} are stored" in str(error)
        refused += 8000 - stored
    else:
        raise AssertionError("the disk is not full")
    beside.observe_many(x[at + 1 : at + 1 + stored], z[at + 1 : at + 1 + stored])
    taken, at = taken + stored, at + 8000
    full = taken
    assert monitor.rows == taken, (monitor.rows, taken)
    assert not any([one() for _ in range(3)])
    ballast.unlink()
    assert all([one() for _ in range(FURTHER)])
    monitor.flush()
    assert taken == full + FURTHER
    assert monitor.rows == taken
    assert monitor.ledger.verify().ok, monitor.ledger.verify()
    monitor.close()
    with lw.open(disk / "ledger") as again:
        assert again.rows == taken and len(again) == taken
    assert lw.replay(disk / "ledger").ok
    with lw.Ledger(disk / "ledger") as ledger:
        faults = [event.kind for event in ledger.events()].count("fault")
    print(json.dumps({"taken": taken, "full": full, "refused": refused, "faults": faults}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
