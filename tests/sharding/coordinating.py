"""A coordinator that is killed: `python coordinating.py FOLDER ADDRESS NAME COUNT SEED`.

Tells a cluster the decisions of a stream from where the ledger ends, in batches of random sizes,
until all are told. Run again after a kill, it goes on.
"""

import sys
from pathlib import Path

import numpy as np

import likewise as lw

RULE = lw.Rule("linf", 0.1)


def stream(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, (count, 4)) * 0.1, rng.integers(0, 3, count)


def main(folder: str, address: str, name: str, count: int, seed: int) -> None:
    X, Z = stream(count, seed)
    rng = np.random.default_rng()
    with lw.cluster(
        Path(folder),
        RULE,
        address=address,
        shards=3,
        name=name,
        segment_rows=50,
        micro_batch=20,
        keep=True,
        witnesses=10_000,
    ) as monitor:
        while monitor.rows < count:
            part = slice(monitor.rows, monitor.rows + int(rng.integers(1, 60)))
            monitor.observe_many(X[part], Z[part])
            print(monitor.rows, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
