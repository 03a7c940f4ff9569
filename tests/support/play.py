"""Play a stream to a monitor and to the oracle, and compare everything they said.

`play` does the same steps to both: decisions one by one, in batches, loaded, only checked, rows
forgotten in between. `Foreseen` stands in for the oracle on long and wide streams: it knows all
witnesses beforehand, because the decisions come in the order of the stream. A lower bound on the
distance rules out most pairs; what is left is measured by the oracle itself.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import likewise as lw
from tests.support.oracle import (
    Expected,
    Oracle,
    as_stored,
    assert_same_verdict,
    assert_same_verdicts,
    input_distances,
    output_distances,
    slack_of,
    storage_of,
    weights_of,
)

Step = tuple[str, int, int]  # verb, how many decisions, seed

VERBS = ("observe", "observe_many", "load", "check", "forget")  # check: and then observe
KEPT = 3  # `thin` forgets rows too, but never one whose number is a multiple of this

THREADS = (None, 1, 2, 3)
BOUND_BY = 16  # coordinates that bound the distance of a pair from below
BLOCK = 128  # rows, and
PIECE = 1 << 20  # coordinates, looked at together


class Foreseen(Oracle):
    """An oracle for one stream, whose decisions must come in order."""

    def __init__(self, rule: lw.Rule, X: np.ndarray, Z: Sequence[Any]) -> None:
        super().__init__(rule)
        self.storage = storage_of(rule, X)
        self.known = known_witnesses(rule, X.reshape(len(X), -1), Z)
        self.alive = np.zeros(len(X), dtype=bool)

    def afresh(self) -> "Foreseen":
        """The same answers, for another monitor that has seen nothing yet."""
        other = object.__new__(Foreseen)
        vars(other).update(vars(self))
        other.outputs, other.alive = [], np.zeros_like(self.alive)
        return other

    @property
    def pairs(self) -> int:
        return sum(len(rows) for rows, _, _ in self.known)

    def _judge(self, row: int | None, x: Any, z: Any, model: Any = None) -> Expected:
        rows, near, apart = self.known[len(self.outputs)]
        alive = self.alive[rows]
        return Expected(row, rows[alive], near[alive], apart[alive])

    def _remember(self, x: Any, z: Any, model: Any = None) -> None:
        self.alive[len(self.outputs)] = True
        self.outputs.append(z)


def known_witnesses(rule: lw.Rule, X: np.ndarray, Z: Sequence[Any]) -> list[tuple[np.ndarray, ...]]:
    """For each row its witnesses among all earlier rows: rows and both distances."""
    stored = as_stored(storage_of(rule, X), X)
    reach = rule.epsilon * (1.0 + slack_of(rule, storage_of(rule, X)))
    known: list[tuple[np.ndarray, ...]] = []
    for block in blocks_within(rule, stored, reach):
        start, possible = len(known), []
        for row, maybe in enumerate(block, start):
            rows = np.flatnonzero(maybe[:row])
            apart = output_distances(rule, [Z[i] for i in rows], Z[row])
            possible.append((rows[apart > rule.delta], apart[apart > rule.delta]))
        counts = [len(rows) for rows, _ in possible]
        later = np.repeat(np.arange(start, start + len(block)), counts)
        earlier = np.concatenate([rows for rows, _ in possible])
        piece = max(1, PIECE // stored.shape[1])
        distances = [
            input_distances(rule, stored[earlier[i : i + piece]], stored[later[i : i + piece]])
            for i in range(0, len(later), piece)
        ]
        for (rows, apart), near in zip(
            possible,
            np.split(np.concatenate([[], *distances]), np.cumsum(counts)[:-1]),
            strict=True,
        ):
            known.append((rows[near <= reach], near[near <= reach], apart[near <= reach]))
    return known


def blocks_within(rule: lw.Rule, points: np.ndarray, reach: float) -> Iterator[np.ndarray]:
    """For a block of rows at a time, which others may be within reach: all that are, and more."""
    weights = weights_of(rule, points.shape[1])
    if rule.metric in ("l2", "cosine"):
        bounds = squares_between(rule.metric, points, np.sqrt(weights))
        limit = reach * reach if rule.metric == "l2" else 2 * reach + 1e-9
    else:
        spread = weights * np.subtract(*np.quantile(points, [0.9, 0.1], axis=0))
        columns = np.argsort(-spread, kind="stable")[:BOUND_BY]
        add = np.maximum if rule.metric == "linf" else np.add
        bounds = gaps_between(add, points[:, columns], weights[columns])
        limit = reach
    for block in bounds:  # a bound that overflowed rules nothing out
        yield ~(block > limit * (1 + 1e-9))


def squares_between(metric: str, points: np.ndarray, scales: np.ndarray) -> Iterator[np.ndarray]:
    """Squared distances of a block of rows to all up to it, by matrix product, less rounding."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if metric == "cosine":  # on the unit sphere
            points = points / np.linalg.norm(points * scales, axis=1)[:, None]
        points = (points - np.median(points, axis=0)) * scales
        norms = (points * points).sum(axis=1)
        for start in range(0, len(points), BLOCK):
            block = slice(start, start + BLOCK)
            both = norms[block, None] + norms[: block.stop]
            yield both * (1 - 1e-11) - 2 * points[block] @ points[: block.stop].T


def gaps_between(add: np.ufunc, points: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
    """Distances, on these columns, of a block of rows to all up to it."""
    with np.errstate(over="ignore"):
        for start in range(0, len(points), BLOCK):
            block = slice(start, start + BLOCK)
            total = np.zeros((len(points[block]), len(points[: block.stop])))
            for column, weight in zip(points.T, weights, strict=True):
                gaps = np.abs(column[block, None] - column[: block.stop])
                add(total, weight * gaps, out=total)
            yield total


def radius_on_an_edge(
    rule: lw.Rule, X: np.ndarray, Z: Sequence[Any], per_row: float, among: int = 40
) -> float:
    """The distance of a real pair, such that each row has about `per_row` witnesses.

    The later of the two is one of the last `among` rows, the earlier one is older and `KEPT`.
    """
    stored = as_stored(storage_of(rule, X), X.reshape(len(X), -1))
    older, old_outputs = stored[:-among:KEPT], Z[:-among:KEPT]
    pool = []
    for x, z in zip(stored[-among:], Z[-among:], strict=True):
        different = output_distances(rule, old_outputs, z) > rule.delta
        pool.append(input_distances(rule, older[different], x))
    distances = np.sort(np.concatenate(pool))
    distances = distances[(distances >= 1e-150) & (distances <= 1e150)]
    return float(distances[min(int(2 * per_row * among / KEPT), distances.size - 1)])


def steps_through(n: int, seed: int, load: int = 0) -> list[Step]:
    """Steps of every kind that lead through n decisions.

    The first `load` come all at once. The pair of `radius_on_an_edge` is left alone: it is
    remembered, and found at the end.
    """
    rng = np.random.default_rng(seed)
    steps: list[Step] = [("load", load, 0)] if load else []
    left = n - 80 - load
    while left > 0:
        verb = str(rng.choice(["observe", "observe_many", "observe_many", "load", "check", "thin"]))
        size = min(left, int(rng.choice([1, 5, 40, 64, 129, 300, 700])))
        size = min(size, 80) if verb in ("check", "thin") else size
        steps.append((verb, size, int(rng.integers(2**32))))
        left -= 0 if verb == "thin" else size
    return [*steps, ("check", 40, 0), ("observe_many", 40, 2)]


def play(
    monitor: lw.Monitor,
    oracle: Oracle,
    X: np.ndarray,
    Z: Any,
    steps: Sequence[Step],
    models: Sequence[Any] | None = None,
) -> list[Expected]:
    """Do the steps to both; compare at the end, when all is said.

    models: of each decision, if they are to be told
    """
    return play_together([monitor], oracle, X, Z, steps, models)


def play_together(
    monitors: Sequence[lw.Monitor],
    oracle: Oracle,
    X: np.ndarray,
    Z: Any,
    steps: Sequence[Step],
    models: Sequence[Any] | None = None,
) -> list[Expected]:
    """Do the steps to all of them and, once, to the oracle."""
    said: list[tuple[list[Any], Any]] = []  # by the monitors, and by the oracle
    position = 0
    for verb, size, seed in steps:
        xs, zs = X[position : position + size], Z[position : position + size]
        told = {} if models is None else {"models": models[position : position + size]}
        if verb in ("forget", "thin"):
            rng = np.random.default_rng(seed)
            rows = rng.integers(0, position, size if position else 0)
            rows = rows[rows % KEPT > 0] if verb == "thin" else rows
            gone = oracle.forget(rows)
            assert all(monitor.forget(rows) == gone for monitor in monitors)
        elif verb == "load":
            loaded = oracle.load(xs, zs, **told)
            assert all(monitor.load(xs, zs, **told) == loaded for monitor in monitors)
        elif verb == "observe_many":
            threads = THREADS[seed % len(THREADS)]
            verdicts = [
                monitor.observe_many(xs, zs, threads=threads, **told) for monitor in monitors
            ]
            said.append((verdicts, oracle.observe_many(xs, zs, **told)))
        else:
            for i, (x, z) in enumerate(zip(xs, zs, strict=True)):
                mine = {} if models is None else {"model": models[position + i]}
                if verb == "check":
                    verdicts = [monitor.check(x, z, **mine) for monitor in monitors]
                    said.append((verdicts, oracle.check(x, z, **mine)))
                verdicts = [monitor.observe(x, z, **mine) for monitor in monitors]
                said.append((verdicts, oracle.observe(x, z, **mine)))
        position += 0 if verb in ("forget", "thin") else len(xs)
        assert all(len(monitor) == len(oracle) for monitor in monitors)
    expected: list[Expected] = []
    for verdicts, one in said:
        several = isinstance(one, list)
        for verdict, monitor in zip(verdicts, monitors, strict=True):
            try:
                (assert_same_verdicts if several else assert_same_verdict)(verdict, one)
            except AssertionError as error:
                error.add_note(f"said by {monitor!r}")
                raise
        expected += one if several else [one]
    return expected
