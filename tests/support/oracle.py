"""What likewise must answer, worked out the slow and obvious way.

`witnesses` is the promise of the project in a few lines of NumPy: no index, no threads, no early
exit. `Oracle` wraps it as a monitor that remembers everything in order. Distances of inputs are
added up in eight lanes (`in_lanes`) and those of outputs in order (`in_order`), as the engine
defines them, so a correct engine agrees to the last bit. Inputs of any shape are laid out flat.

Cost: every question reads the whole history.
Not here: refusing bad input. The oracle trusts its caller.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import likewise as lw

SLACK = {"f8": 1e-9, "f4": 1e-5}  # integers have none


def storage_of(rule: lw.Rule, first: Any) -> np.dtype:
    """The type that inputs are kept in, given the first input (or batch of inputs)."""
    if rule.storage != "auto":
        return np.dtype(rule.storage)
    given = first.dtype if isinstance(first, np.ndarray) else np.dtype(np.float64)
    if given.kind == "f" and given.itemsize <= 4:
        return np.dtype(np.float32)
    if given.kind in "iu" and given.itemsize <= 4:
        return given.newbyteorder("=")
    return np.dtype(np.float64)


def slack_of(rule: lw.Rule, storage: np.dtype) -> float:
    if rule.slack is not None:
        return rule.slack
    return SLACK.get(f"{storage.kind}{storage.itemsize}", 0.0)


def as_stored(storage: np.dtype, x: Any) -> np.ndarray:
    """The values that take part in comparisons: cast to the storage type, then to float64."""
    return np.asarray(x).astype(storage, copy=False).astype(np.float64, copy=False)


def in_order(terms: np.ndarray) -> np.ndarray:
    return np.cumsum(terms, axis=1)[:, -1]


def in_lanes(terms: np.ndarray) -> np.ndarray:
    """Lane k adds columns k, k + 8, k + 16, ... in order; then the lanes are added pairwise."""
    lanes = np.zeros((len(terms), 8))
    for start in range(0, terms.shape[1], 8):
        part = terms[:, start : start + 8]
        lanes[:, : part.shape[1]] += part
    while lanes.shape[1] > 1:
        lanes = lanes[:, ::2] + lanes[:, 1::2]
    return lanes[:, 0]


def weights_of(rule: lw.Rule, width: int) -> np.ndarray:
    return np.ones(width) if rule.weights is None else np.array(rule.weights, dtype=float)


def squared_norms(rule: lw.Rule, points: np.ndarray) -> np.ndarray:
    return in_lanes(weights_of(rule, points.shape[1]) * points * points)


@np.errstate(over="ignore", invalid="ignore", under="ignore")
def input_distances(rule: lw.Rule, past: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Distances from x (or from each row of x) to each row of `past`, all float64 as stored."""
    if rule.metric == "cosine":
        norms, norm = squared_norms(rule, past), squared_norms(rule, np.atleast_2d(x))
        products = in_lanes(weights_of(rule, past.shape[1]) * x * past)
        return np.maximum(0.0, 1.0 - products / np.sqrt(norms * norm))
    gaps = weighted = np.abs(past - x)
    if rule.weights is not None:  # else each is 1
        weights = weights_of(rule, past.shape[1])
        gaps = np.where(weights > 0, gaps, 0.0)  # weight 0 takes no part, however large
        weighted = weights * gaps
    if rule.metric == "linf":
        return weighted.max(axis=1)
    return in_lanes(weighted) if rule.metric == "l1" else np.sqrt(in_lanes(weighted * gaps))


def output_distances(rule: lw.Rule, past: Sequence[Any], z: Any) -> np.ndarray:
    if rule.output == "label":
        same = {z}  # Python's ==, asked in Python's way: by hash first
        return np.array([0.0 if past_z in same else 1.0 for past_z in past])
    if len(past) == 0:
        return np.empty(0)
    gaps = np.abs(np.array(past, dtype=float) - np.array(z, dtype=float))
    if rule.output == "number":
        return gaps
    return {
        "linf": lambda: gaps.max(axis=1),
        "l1": lambda: in_order(gaps),
        "l2": lambda: np.sqrt(in_order(gaps * gaps)),
        "tv": lambda: in_order(gaps) / 2,
    }[rule.output_metric]()


def like_cases(rule, slack, past_x, alive, x):
    """Rows and input distances of all that is near x, whatever its output; values as stored."""
    distances = input_distances(rule, past_x, x)
    rows = np.flatnonzero(alive & (distances <= rule.epsilon * (1.0 + slack)))
    return rows, distances[rows]


def witnesses(rule, near, distances, past_z, z):
    """Rows, input distances and output distances of those near ones that differ from z."""
    apart = output_distances(rule, [past_z[row] for row in near.tolist()], z)
    different = apart > rule.delta
    return near[different], distances[different], apart[different]


@dataclass(frozen=True)
class Expected:
    """A verdict as the oracle sees it."""

    row: int | None
    rows: np.ndarray
    input_distances: np.ndarray
    output_distances: np.ndarray
    comparable: bool | None = None
    near: int | None = None


def same_or_not(compare: str, models: Sequence[Any], model: Any) -> np.ndarray:
    """Which decisions of these models count for one of this model."""
    if compare == "all":
        return np.ones(len(models), dtype=bool)
    same = np.array([one == model for one in models], dtype=bool)
    return {"within": same, "across": ~same}[compare]


class Oracle:
    """The monitor's interface over `witnesses`.

    left_out   witnesses that there would be if all models were compared
    hidden     comparable decisions that have near rows of both kinds: those that count, and others
    """

    def __init__(self, rule: lw.Rule, *, comparable: bool = False) -> None:
        self.rule = rule
        self.comparable = comparable
        self.storage: np.dtype | None = None
        self.inputs = np.empty((0, 0))
        self.values = np.empty((0, 0))  # the inputs as float64
        self.outputs: list[Any] = []
        self.models: list[Any] = []
        self.alive = np.zeros(0, dtype=bool)
        self.left_out = self.hidden = 0

    def __len__(self) -> int:
        return int(self.alive.sum())

    def check(self, x: Any, z: Any, *, model: Any = None) -> Expected:
        return self._judge(None, x, z, model)

    def observe(self, x: Any, z: Any, *, model: Any = None) -> Expected:
        expected = self._judge(len(self.outputs), x, z, model)
        self._remember(x, z, model)
        return expected

    def observe_many(self, xs: Any, zs: Any, *, models: Any = None) -> list[Expected]:
        models = [None] * len(xs) if models is None else models
        each = zip(xs, zs, models, strict=True)
        return [self.observe(x, z, model=model) for x, z, model in each]

    def load(self, xs: Any, zs: Any, *, models: Any = None) -> range:
        first = len(self.outputs)
        models = [None] * len(xs) if models is None else models
        for x, z, model in zip(xs, zs, models, strict=True):
            self._remember(x, z, model)
        return range(first, len(self.outputs))

    def forget(self, rows: int | Iterable[int]) -> int:
        before = len(self)
        self.alive[: len(self.outputs)][np.array(rows, dtype=int)] = False
        return before - len(self)

    def _judge(self, row: int | None, x: Any, z: Any, model: Any = None) -> Expected:
        n = len(self.outputs)
        if n == 0:
            like = False if self.comparable else None
            none = 0 if self.comparable else None
            return Expected(row, np.empty(0, dtype=int), np.empty(0), np.empty(0), like, none)
        assert self.storage is not None
        slack = slack_of(self.rule, self.storage)
        x = as_stored(self.storage, x).ravel()
        near, distances = like_cases(self.rule, slack, self.values[:n], self.alive[:n], x)
        counts = same_or_not(self.rule.compare, self.models, model)
        rows, distances, apart = witnesses(self.rule, near, distances, self.outputs, z)
        kept = counts[rows]
        self.left_out += int((~kept).sum())
        found = rows[kept], distances[kept], apart[kept]
        if not self.comparable:
            return Expected(row, *found)
        self.hidden += bool(counts[near].any() and not counts[near].all())
        return Expected(row, *found, bool(counts[near].any()), int(counts[near].sum()))

    def like(self, x: Any, *, model: Any = None, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows from `first` on and distances of all that is near x and counts, nearest first."""
        n = len(self.outputs)
        if n == 0:
            return np.empty(0, dtype=int), np.empty(0)
        assert self.storage is not None
        slack = slack_of(self.rule, self.storage)
        x = as_stored(self.storage, x).ravel()
        rows, distances = like_cases(self.rule, slack, self.values[:n], self.alive[:n], x)
        counts = same_or_not(self.rule.compare, self.models, model)[rows] & (rows >= first)
        rows, distances = rows[counts], distances[counts]
        order = np.lexsort((rows, distances))
        return rows[order], distances[order]

    def _remember(self, x: Any, z: Any, model: Any = None) -> None:
        n = len(self.outputs)
        if self.storage is None:
            self.storage = storage_of(self.rule, x)
        x = np.asarray(x).astype(self.storage).ravel()
        if n == len(self.inputs):  # twice the room, so that long streams stay linear
            room = np.zeros((max(16, n), x.size), dtype=self.storage)
            self.inputs = np.concatenate([self.inputs, room]) if n else room
            self.values = as_stored(self.storage, self.inputs).copy()
            self.alive = np.concatenate([self.alive, np.zeros(len(room), dtype=bool)])
        self.inputs[n] = self.values[n] = x
        self.alive[n] = True
        self.outputs.append(z)
        self.models.append(model)


def assert_same_verdict(verdict: lw.Verdict, expected: Expected) -> None:
    """Same row, same witnesses, and distances equal to the last bit."""
    found, where = verdict.witnesses, f"decision {expected.row}"
    assert verdict.row == expected.row
    assert verdict.comparable == expected.comparable, where
    if verdict.support is not None:
        assert verdict.support == (expected.near, expected.near - len(expected.rows)), where
    named, due = found.rows.tolist(), expected.rows.tolist()
    if named != due:
        missed, invented = sorted(set(due) - set(named)), sorted(set(named) - set(due))
        assert not missed, f"{where}: rows {missed[:20]} are witnesses, yet were not named"
        assert not invented, f"{where}: rows {invented[:20]} were named, yet are no witnesses"
        pytest.fail(f"{where}: rows not ascending, or twice")
    assert len(found) == len(expected.rows)
    assert verdict.violation == bool(len(expected.rows))
    for mine, theirs in (
        (found.input_distances, expected.input_distances),
        (found.output_distances, expected.output_distances),
    ):
        assert mine.dtype == np.float64
        assert mine.tobytes() == theirs.tobytes(), f"{where}: {mine} is not exactly {theirs}"


def assert_same_verdicts(verdicts: lw.Verdicts, expected: list[Expected]) -> None:
    """A batch says, as a whole and verdict by verdict, what was expected of each decision."""
    counts = [len(one.rows) for one in expected]
    assert len(verdicts) == len(expected)
    assert verdicts.rows.tolist() == [one.row for one in expected]
    for verdict, one in zip(verdicts, expected, strict=True):
        assert_same_verdict(verdict, one)
    assert verdicts.counts.tolist() == counts
    assert verdicts.violations.tolist() == [count > 0 for count in counts]
    if verdicts.comparable is not None:
        assert verdicts.comparable.dtype == np.bool_ and not verdicts.comparable.flags.writeable
        assert verdicts.comparable.tolist() == [one.comparable for one in expected]
    if verdicts.near is not None:
        assert verdicts.near.dtype == np.int64 and not verdicts.near.flags.writeable
        assert verdicts.near.tolist() == [one.near for one in expected]
    assert verdicts.pairs == sum(counts)
    assert verdicts.offsets.tolist() == [0, *np.cumsum(counts, dtype=int).tolist()]
    assert len(verdicts.witnesses) == sum(counts)
    everything = [row for one in expected for row in one.rows.tolist()]
    assert verdicts.witnesses.rows.tolist() == everything
