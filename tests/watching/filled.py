"""A program whose watched model goes on while a ledger's disk is full; `test_failures.py` runs it.

    python filled.py DISK

DISK is a small file system of its own. Prints, as JSON, how many decisions were watched before the
disk was full, how many were not while it was, and how many were again when there was room.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import likewise as lw


def main(disk):
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(400_000))
    X = np.random.default_rng(1).random((20_000, 2)).round(3)
    monitor = lw.open(disk / "ledger", lw.Rule("linf", 0.05))
    watched = lw.watch(lambda x: float(x[0]) > 0.5, monitor)
    calls = iter(X)

    def call():
        x = next(calls)
        assert watched(x) == (x[0] > 0.5)
        assert watched.flush()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        while watched.counts.failures < 20:
            call()
        full = watched.counts
        ballast.unlink()
        for _ in range(40):
            call()
    after = watched.counts
    assert {type(failure.error) for failure in watched.failures} == {lw.errors.BadFile}
    assert all(warning.category is lw.errors.FailureWarning for warning in warned)
    monitor.close()
    with lw.open(disk / "ledger") as again:
        assert again.rows == after.decisions
        assert again.ledger.verify().ok
    found = {
        "watched": full.decisions,
        "failed": full.failures,
        "again": after.decisions - full.decisions,
        "warned": len(warned),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
