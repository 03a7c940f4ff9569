"""Somebody else's index: scikit-learn's BallTree, made usable on a stream by Periodic.

A BallTree is built once over a matrix. Periodic builds it anew every so often and looks at the
latest rows one by one. The tree only proposes candidates; likewise decides them, so verdicts are
exact as long as nothing near is left out. Hence the radius is widened, by more than all roundings.

    python examples/balltree.py
"""

import numpy as np
from sklearn.neighbors import BallTree

import likewise as lw

METRICS = {"linf": "chebyshev", "l1": "manhattan", "l2": "euclidean"}


class BallTreeIndex:
    """A BallTree over a matrix of points."""

    def __init__(self, points, space):
        self._tree = BallTree(points, metric=METRICS[space.metric])
        self._slip = 1e-12 * np.abs(points).max()  # of the tree's balls, if they are large

    def within(self, point, reach):
        return self._tree.query_radius(point[None], reach * (1 + 1e-9) + self._slip)[0]


def applications(n: int, seed: int = 7) -> tuple[np.ndarray, list[str]]:
    """Income and debt between 0 and 1. Who owes much less than they earn is approved, as a rule."""
    rng = np.random.default_rng(seed)
    inputs = rng.random((n, 2)).round(3)
    approved = inputs[:, 0] > inputs[:, 1] + rng.normal(0.2, 0.05, n)
    return inputs, ["approved" if yes else "declined" for yes in approved]


def main() -> None:
    inputs, outputs = applications(1_000)
    monitor = lw.Monitor(lw.Rule("linf", 0.02), index=lw.Periodic(BallTreeIndex))
    contradicting = 0
    for x, z in zip(inputs, outputs, strict=True):
        verdict = monitor.observe(x, z)
        contradicting += verdict.violation
        if verdict.violation and contradicting <= 3:
            row = int(verdict.witnesses.rows[0])
            print(f"Decision {verdict.row}, {x.tolist()}, was {z},")
            print(f"but decision {row}, {inputs[row].tolist()}, was {outputs[row]}.")
    print(f"{contradicting} of {len(monitor):,} decisions contradict an earlier one close by.")


if __name__ == "__main__":
    main()
