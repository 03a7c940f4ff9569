"""Streams of decisions made to be awkward: ties, boundaries, duplicates, extreme magnitudes.

Hypothesis draws the shape of a stream (how many points, which kind of cloud, which order); NumPy
fills it in from a drawn seed, so that streams are long enough to split an index several times
and still take milliseconds to make.

Epsilon and delta are distances between points of the stream itself. Some pair therefore lies
exactly on the boundary, or one rounding step beside it, every time. `Tally` fails a property run
that met too few witnesses to have proved anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import likewise as lw
from likewise.search.kernels.compile import way
from tests.support.oracle import (
    Expected,
    as_stored,
    input_distances,
    output_distances,
    slack_of,
    squared_norms,
    storage_of,
)

METRICS = ("linf", "l1", "l2", "cosine")
OUTPUTS = ("label", "number", "probabilities")
OUTPUT_METRICS = ("linf", "l1", "l2", "tv")
FAMILIES = {
    "float64": ("float64",),
    "float32": ("float32",),
    "bytes": ("uint8", "int8"),
    "integers": ("int16", "uint16", "int32", "uint32", "int64", "uint64"),
}
SIZES = (2, 3, 5, 17, 60, 127, 128, 129, 130, 200, 257, 258, 300, 385, 450, 513, 600)
DIMS = (1, 2, 3, 4, 5, 8, 9, 16, 17, 24, 32, 33, 40)
CLOUDS = ("grid", "clusters", "uniform", "sparse", "line", "offset", "tiny", "spread", "huge")
ORDERS = ("as drawn", "sorted", "reversed", "by cluster", "drifting")
LABELS = (0, "a", None, (1, "x"), 2.5, "b", 1, False, ("y",), -1, -2, b"a", frozenset({3}), "")
LARGEST_INTEGER = 2**53

every_kind = pytest.mark.parametrize(
    ("metric", "output", "family"),
    [
        pytest.param(
            metric, output, family, marks=() if k == (i + j) % len(OUTPUTS) else pytest.mark.long
        )
        for i, metric in enumerate(METRICS)
        for j, family in enumerate(FAMILIES)
        for k, output in enumerate(OUTPUTS)
    ],
)
"""Any two of metric, output and storage meet in the quick tests, all three in the long ones."""


def examples(budget: int) -> int:
    """Half of a large `budget` in the quick profile, all of a small one; more in a thorough one."""
    share = budget * settings.default.max_examples // 100
    return max(share, 1 if way == "plain" else min(budget, 15))


def prove(
    budget: int, always: Sequence[dict[str, Any]] = (), **draws: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], None]:
    """Decorate a property to run it at once; what the test asserts afterwards sees the run.

    always: examples that every run has. The drawn ones change with the modules that are loaded,
        since Hypothesis also draws constants that it finds in them.
    """

    def run(holds: Callable[..., None]) -> None:
        test = given(**draws)(holds)
        for certain in always:
            test = example(**certain)(test)
        settings(max_examples=examples(budget), deadline=None)(test)()

    return run


class Tally:
    """Counts the examples of a property run that had something to find."""

    def __init__(self) -> None:
        self.examples = 0
        self.found = 0

    def note(self, expected: Sequence[Expected]) -> None:
        self.examples += 1
        self.found += any(len(one.rows) for one in expected)

    def assert_enough(self, share: float = 0.0) -> None:
        assert self.found > 0, f"none of {self.examples} examples had a witness to find"
        assert self.found >= share * self.examples, f"{self.found} of {self.examples} had witnesses"


@dataclass(frozen=True, repr=False)
class Stream:
    """A rule, and decisions on which it has something to say."""

    rule: lw.Rule
    X: np.ndarray
    Z: Any  # a list of labels, or an array of numbers or probabilities
    made_from: str

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        return f"Stream({self.rule}, {self.X.dtype}{self.X.shape}, {self.made_from})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis prints a failing example: without its thousands of numbers."""
        printer.text(repr(self))


@st.composite
def streams(
    draw: st.DrawFn,
    metric: str | None = None,
    output: str | None = None,
    family: str | None = None,
    most: int = 700,
    widths: Sequence[int] = DIMS,
    cells: int = 10**9,
) -> Stream:
    """Decisions and a rule that fits them; whatever is not named is drawn.

    cells: at most so many coordinates in all, however many rows that leaves.
    """
    metric = metric or draw(st.sampled_from(METRICS))
    output = output or draw(st.sampled_from(OUTPUTS))
    storage = draw(st.sampled_from(FAMILIES[family or draw(st.sampled_from(sorted(FAMILIES)))]))
    dims = draw(st.sampled_from(widths))
    most = max(2, min(most, cells // dims))
    n = draw(st.sampled_from([size for size in SIZES if size < most] + [most]))
    seed = draw(st.integers(0, 2**32 - 1))
    cloud, order = draw(st.sampled_from(CLOUDS)), draw(st.sampled_from(ORDERS))
    rng = np.random.default_rng(seed)

    weights = draw(st.sampled_from(("none", "random", "zeros", "wide")))
    rule = lw.Rule(
        metric,
        1.0,
        weights=weights_for(rng, weights, dims),
        output=output,
        output_metric=draw(st.sampled_from(OUTPUT_METRICS))
        if output == "probabilities"
        else "linf",
        slack=draw(st.sampled_from((0.0, None, 1e-3))),
        storage=draw(st.sampled_from(("auto", storage))),
    )
    points = inputs(rng, cloud, n, dims, np.dtype(storage), metric)
    spoil(rng, points, draw(st.sampled_from(("", "repeats", "constants", "repeats, constants"))))
    arrange(points, order)
    if metric == "cosine":
        points[out_of_reach(rule, points)] = 1
    outcome = draw(st.sampled_from(("random", "by place", "in runs", "unique")))
    results = outputs(rng, output, outcome, points)
    rule = with_real_delta(draw, rng, rule, results)
    rule = with_real_epsilon(draw, rng, rule, points, results)
    return Stream(rule, points, results, f"{cloud}, {order}, {outcome}, seed={seed}")


def weights_for(rng: np.random.Generator, kind: str, dims: int) -> list[float] | None:
    if kind == "none":
        return None
    weights = 10 ** rng.uniform(-3, 3, dims) if kind == "wide" else rng.uniform(0.1, 10, dims)
    if kind == "zeros":
        weights[rng.random(dims) < 0.5] = 0.0
        weights[rng.integers(dims)] = 1.5
    return [float(weight) for weight in weights]


def inputs(
    rng: np.random.Generator, cloud: str, n: int, dims: int, storage: np.dtype, metric: str
) -> np.ndarray:
    """n points of one kind, already of the storage type."""
    if storage.kind != "f":
        return integers(rng, cloud, n, dims, storage)
    limit = 30 if storage == np.float32 else 60 if metric == "cosine" else 200
    least = 30 if storage == np.float32 else 60 if metric == "cosine" else 120
    shape = (n, dims)
    points = rng.normal(size=shape)
    if cloud == "grid":
        points = rng.integers(-1, 3, shape) * rng.choice([0.1, 1.0, 1 / 3])
    elif cloud == "clusters":
        centres = rng.normal(size=(rng.integers(1, 7), dims))
        points = centres[rng.integers(len(centres), size=n)] + 0.02 * points
    elif cloud == "uniform":
        points = rng.random(shape)
    elif cloud == "sparse":
        points[rng.random(shape) < 0.6] = 0.0
    elif cloud == "line":
        points = rng.random((n, 1)) * rng.normal(size=(1, dims))
    elif cloud == "offset":  # far from the origin, and close together
        points = points + rng.choice([0.0, 1e6, -1e12], size=(1, dims))
    elif cloud == "tiny":
        points = points * 10.0**-least
    elif cloud == "spread":  # every magnitude there is
        points = points * 10 ** rng.uniform(-least, limit, (n, 1))
    elif cloud == "huge":  # a few monsters among ordinary values
        monsters = rng.random(shape) < 0.1
        points[monsters] *= 10 ** rng.uniform(12, limit, int(monsters.sum()))
    return points.astype(storage)


def integers(
    rng: np.random.Generator, cloud: str, n: int, dims: int, storage: np.dtype
) -> np.ndarray:
    limits = np.iinfo(storage)
    low, high = max(limits.min, -LARGEST_INTEGER), min(limits.max, LARGEST_INTEGER)
    shape = (n, dims)
    if cloud in ("huge", "offset"):  # both ends of the range
        ends = rng.integers(0, 3, shape)
        return np.where(rng.random(shape) < 0.5, low + ends, high - ends).astype(storage)
    if cloud in ("uniform", "spread"):
        return rng.integers(low, high, shape, endpoint=True).astype(storage)
    if cloud == "clusters":
        centres = rng.integers(low // 2, high // 2, (rng.integers(1, 7), dims))
        steps = rng.integers(0, 4, shape)
        return (centres[rng.integers(len(centres), size=n)] + steps).astype(storage)
    if cloud == "line":
        return np.repeat(rng.integers(0, min(high, 1_000), (n, 1)), dims, axis=1).astype(storage)
    points = rng.integers(0, 4 if cloud == "grid" else 30, shape)
    if cloud == "sparse":
        points[rng.random(shape) < 0.6] = 0
    return points.astype(storage)


def spoil(rng: np.random.Generator, points: np.ndarray, how: str) -> None:
    """Whole rows repeated (some a rounding step off), columns that never change."""
    n, dims = points.shape
    if "repeats" in how:
        rows = rng.integers(n, size=n // 3)
        points[rows] = points[rng.integers(n, size=rows.size)]
        if points.dtype.kind == "f":
            points[rows[::4]] = np.nextafter(points[rows[::4]], points.dtype.type(0))
    if "constants" in how:
        columns = rng.random(dims) < 0.4
        points[:, columns] = points[0, columns]


def arrange(points: np.ndarray, order: str) -> None:
    n, _ = points.shape
    if order in ("sorted", "reversed"):
        points[:] = points[np.lexsort(points.T[::-1])][:: 1 if order == "sorted" else -1]
    elif order == "by cluster":
        points[:] = points[np.argsort(points[:, 0] > points[n // 2, 0], kind="stable")]
    elif order == "drifting" and points.dtype.kind == "f":
        points += (np.arange(n)[:, None] * 0.01).astype(points.dtype)
    elif order == "drifting":
        points += (np.arange(n)[:, None] * 100 // n).astype(points.dtype) * (points < 27)


def out_of_reach(rule: lw.Rule, points: np.ndarray) -> np.ndarray:
    """Rows without a direction, as cosine sees them."""
    norms = squared_norms(rule, points.astype(np.float64))
    return ~((norms >= 1e-150) & (norms <= 1e150))


def outputs(rng: np.random.Generator, output: str, outcome: str, points: np.ndarray) -> Any:
    """One output per point: unrelated to it, constant over regions or times, or all distinct."""
    n = len(points)
    kinds = int(rng.choice([1, 2, 3, 8, 14], p=[0.05, 0.35, 0.3, 0.15, 0.15]))
    if outcome == "by place":
        group = np.searchsorted(np.quantile(points[:, 0], [0.3, 0.6]), points[:, 0])
    elif outcome == "in runs":
        group = np.arange(n) * kinds // n
    elif outcome == "unique":
        group = rng.permutation(n)
    else:
        group = rng.integers(kinds, size=n)
    if output == "label":
        known = [LABELS[i] if i < len(LABELS) else i for i in range(max(n, len(LABELS)))]
        return [known[i] for i in group]
    if output == "number":
        values = rng.normal(size=group.max() + 1) * rng.choice([1.0, 1e-3, 1e9, 1e-200, 1e200])
        return values[group] if rng.random() < 0.7 else group.astype(np.float64)
    classes = int(rng.integers(2, 6))
    chances = rng.dirichlet(np.full(classes, rng.choice([0.2, 1.0, 20.0])), group.max() + 1)
    if rng.random() < 0.3:
        chances = np.eye(classes)[rng.integers(classes, size=len(chances))]
    return chances[group]


def with_real_delta(draw: st.DrawFn, rng: np.random.Generator, rule: lw.Rule, z: Any) -> lw.Rule:
    """Delta is a gap that occurs between outputs, just below one, or 0."""
    choice = draw(st.sampled_from(("zero", "gap", "below a gap")))
    if rule.output == "label":
        return replace(rule, delta=0.5 if choice == "gap" else 0.0)
    gaps = np.unique(output_distances(rule, z, z[rng.integers(len(z))]))  # sorted, 0 among them
    rank = draw(st.sampled_from((0.0, 0.1, 0.5)))
    if choice == "zero" or gaps.size == 1:
        return rule
    if choice == "gap":  # never the largest: nothing would differ
        return _with_delta(rule, gaps[int(rank * (gaps.size - 2)) + (gaps.size > 2)])
    return _with_delta(rule, np.nextafter(gaps[int(rank * (gaps.size - 2)) + 1], 0))


def _with_delta(rule: lw.Rule, delta: float) -> lw.Rule:
    """A rule with this delta, or one just below what no probabilities exceed."""
    farthest = {"linf": 1.0, "tv": 1.0, "l2": 2**0.5, "l1": 2.0}[rule.output_metric]
    if rule.output == "probabilities":
        delta = min(delta, np.nextafter(farthest, 0))
    return replace(rule, delta=float(delta))


def with_real_epsilon(
    draw: st.DrawFn, rng: np.random.Generator, rule: lw.Rule, points: np.ndarray, z: Any
) -> lw.Rule:
    """Epsilon puts a pair of decisions with different outputs on the boundary, or beside it."""
    stored = as_stored(storage_of(rule, points), points)
    rank = draw(st.sampled_from((0.0, 0.005, 0.02, 0.1, 0.4, 1.0)))
    beside = draw(
        st.sampled_from(("on epsilon", "on epsilon", "on epsilon and slack", "just outside"))
    )
    epsilon = 1.0
    for anchor in rng.permutation(len(points))[:10]:
        distances = input_distances(rule, stored, stored[anchor])
        usable = (distances >= 1e-149) & (distances <= 1e149)
        different = usable & (output_distances(rule, z, z[anchor]) > rule.delta)
        pick = np.sort(distances[different if different.any() else usable])
        if pick.size:
            epsilon = float(pick[int(rank * (pick.size - 1))])
        if different.any():
            break
    if beside == "on epsilon and slack":
        epsilon /= 1.0 + slack_of(rule, storage_of(rule, points))
    if beside == "just outside":
        epsilon = float(np.nextafter(epsilon, 0))
    return replace(rule, epsilon=epsilon)
