"""Streams of many coordinates, each hard on something a high-dimensional index relies on.

A sketch keeps a few coordinates, a rotation the directions in which the first rows varied. So here
are streams in which those say nothing: nothing varies at first, or only in a plane; the coordinates
that vary change over time; one of thousands tells rows apart; differences are small and far from
the origin; all pairs lie within a rounding step of the radius.

Each maker takes a random generator and the metric; `CASES` says under which rules it is played.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

import likewise as lw
from tests.support.play import Foreseen, radius_on_an_edge
from tests.support.strategies import METRICS

Random = np.random.Generator
EUCLIDEAN = ("l2", "cosine")
NO_L1 = ("linf", "l2", "cosine")
INDEXES = {
    metric: ("auto", "live", "flat")[: 3 if metric in EUCLIDEAN else 2] for metric in METRICS
}


def clusters(rng: Random, n: int, width: int, centres: int = 100, noise: float = 0.1) -> np.ndarray:
    middles = rng.normal(size=(centres, width))
    return middles[rng.integers(centres, size=n)] + noise * rng.normal(size=(n, width))


def embeddings(rng: Random, metric: str, n: int = 1_700) -> np.ndarray:
    points = clusters(rng, n, 96, 30, noise=0.6)
    return (points / np.linalg.norm(points, axis=1)[:, None]).astype(np.float32)


def pictures(rng: Random, metric: str, n: int = 1_200, side: int = 8) -> np.ndarray:
    """Smooth pictures, each seen about twenty times with some noise."""
    coarse = rng.integers(0, 190, (n // 20, side // 4, side // 4, 3))
    smooth = coarse.repeat(4, axis=1).repeat(4, axis=2)[rng.integers(n // 20, size=n)]
    return (smooth + rng.integers(0, 12, smooth.shape)).astype(np.uint8)


def scaled_pictures(rng: Random, metric: str) -> np.ndarray:
    return (pictures(rng, metric, n=1_000) / 255).astype(np.float32)


def large_pictures(rng: Random, metric: str) -> np.ndarray:
    return pictures(rng, metric, n=220, side=32)


def low_rank(rng: Random, metric: str) -> np.ndarray:
    return rng.normal(size=(900, 3)) @ rng.normal(size=(3, 400))


def all_equal(rng: Random, metric: str) -> np.ndarray:
    """All but a few, which are three away in a single coordinate."""
    points = np.full((800, 200), 7, dtype=np.int16)
    odd = np.flatnonzero(rng.random(len(points)) < 0.05)
    points[odd, rng.integers(200, size=odd.size)] += 3
    return points


def one_coordinate_tells(rng: Random, metric: str) -> np.ndarray:
    points = 0.5 + 1e-6 * rng.random((400, 3_000))
    points[:, 1_777] = rng.random(len(points)) * 100
    return points.astype(np.float32)


def five_coordinates_tell(rng: Random, metric: str) -> np.ndarray:
    points = 1e-3 * rng.random((1_500, 300))
    points[:, [7, 61, 143, 202, 299]] = clusters(rng, len(points), 5)
    return points


def nothing_varies_at_first(rng: Random, metric: str) -> np.ndarray:
    points = clusters(rng, 1_600, 100)
    points[:600] = points[0]
    return points


def a_plane_at_first_far_away(rng: Random, metric: str) -> np.ndarray:
    points = clusters(rng, 1_600, 100, noise=0.02)
    points[:600] = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 100))
    return 1e6 + 0.01 * points


def far_away_in_float32(rng: Random, metric: str) -> np.ndarray:
    """Differences of a few rounding steps: hundreds of pairs at the very same distance."""
    return (1e4 + 0.02 * rng.integers(0, 3, (1_000, 40)) * rng.random(40)).astype(np.float32)


def coordinates_take_turns(rng: Random, metric: str) -> np.ndarray:
    points = 1e-3 * rng.random((2_100, 120))
    for turn in range(3):
        rows, columns = slice(turn * 700, turn * 700 + 700), slice(turn * 40, turn * 40 + 40)
        points[rows, columns] += clusters(rng, 700, 40)
    return points.astype(np.float32)


def with_outliers(points: np.ndarray, rng: Random, size: float) -> np.ndarray:
    """One row in fifty is enormous; some of those are equal."""
    outliers = np.flatnonzero(rng.random(len(points)) < 0.02)
    points[outliers] *= size
    points[outliers[1::3]] = points[outliers[0]]
    return points


def outliers(rng: Random, metric: str) -> np.ndarray:
    return with_outliers(clusters(rng, 1_100, 64), rng, 1e30).astype(np.float32)


def outliers_whose_squares_overflow(rng: Random, metric: str) -> np.ndarray:
    return with_outliers(clusters(rng, 1_100, 64), rng, 1e200)


def loud_coordinates_of_no_weight(rng: Random, metric: str) -> np.ndarray:
    points = clusters(rng, 1_000, 120)
    points[:, ::2] *= 1e4
    return points


def halves(rng: Random, metric: str) -> np.ndarray:
    return clusters(rng, 1_000, 48).astype(np.float16)


def near_the_radius(
    rng: Random, metric: str, storage: str = "float32", radius: float = 0.3, away: float = 0.0
) -> np.ndarray:
    """Every row of the second half is one radius from one of the first, up to rounding."""
    first = away + rng.normal(size=(700, 64))
    steps = rng.normal(size=first.shape)
    if metric == "linf":
        steps = np.sign(steps)
    elif metric == "cosine":  # sideways
        steps -= first * (steps * first).sum(axis=1)[:, None] / (first * first).sum(axis=1)[:, None]
    power = {"l1": 1, "linf": np.inf}.get(metric, 2)
    steps /= np.linalg.norm(steps, power, axis=1)[:, None]
    if metric == "cosine":
        steps *= np.linalg.norm(first, axis=1)[:, None]
    return np.concatenate([first, (first + radius * steps)[rng.permutation(700)]]).astype(storage)


def near_a_small_radius(rng: Random, metric: str) -> np.ndarray:
    """So small that coordinates in float32 say little about a difference."""
    return near_the_radius(rng, metric, "float64", radius=1e-4)


def near_the_radius_far_away(rng: Random, metric: str) -> np.ndarray:
    """So far that products in float64 say little about a difference."""
    return near_the_radius(rng, metric, "float64", away=1e11)


def long(rng: Random, metric: str) -> np.ndarray:
    return clusters(rng, 3_500, 64, 250, noise=0.3).astype(np.float32)


# Outputs, and the rule for them


def two_labels(rng: Random, n: int) -> list[str]:
    return rng.choice(["yes", "no"], size=n).tolist()


def thirty_labels(rng: Random, n: int) -> list[int]:
    return rng.integers(30, size=n).tolist()


def one_label_then_thirty(rng: Random, n: int) -> list[int]:
    return [0] * (n // 3) + thirty_labels(rng, n - n // 3)


def rare_label(rng: Random, n: int) -> list[bool]:
    return (rng.random(n) < 0.02).tolist()


def numbers(rng: Random, n: int) -> np.ndarray:
    return rng.normal(size=n).round(1)


def chances(rng: Random, n: int) -> np.ndarray:
    return rng.dirichlet([0.5] * 4, n)


OUTPUT_RULES: dict[Callable[..., Any], dict[str, Any]] = {
    numbers: {"output": "number", "delta": 0.5},
    chances: {"output": "probabilities", "output_metric": "tv", "delta": 0.3},
}


@dataclass(frozen=True)
class Case:
    """A maker of inputs, a maker of outputs, and the radius as witnesses per row."""

    inputs: Callable[[Random, str], np.ndarray]
    outputs: Callable[[Random, int], Any] = two_labels
    per_row: float = 3
    metrics: tuple[str, ...] = METRICS
    options: dict[str, Any] = field(default_factory=dict)


HALF_OF_NO_WEIGHT = {"weights": [0.0, 0.5, 0.0, 2.0] * 30}

CASES = {
    "embeddings": Case(embeddings, thirty_labels, 3, EUCLIDEAN),
    "embeddings with many neighbours": Case(embeddings, thirty_labels, 40, EUCLIDEAN),
    "pictures": Case(pictures, two_labels, 3, ("linf", "l1", "l2")),
    "pictures with many neighbours": Case(pictures, two_labels, 30, ("linf",)),
    "pictures between 0 and 1": Case(scaled_pictures, chances, 3, ("linf", "l2")),
    "large pictures": Case(large_pictures, thirty_labels, 3, ("linf", "l2")),
    "rank 3 in 400 coordinates": Case(low_rank, numbers, 3, NO_L1),
    "all equal, one label": Case(all_equal, rare_label, 1, NO_L1),
    "one coordinate of 3,000 tells": Case(one_coordinate_tells, chances, 3, ("linf", "l2")),
    "five coordinates of 300 tell": Case(five_coordinates_tell, two_labels, 3, ("linf",)),
    "nothing varies at first": Case(nothing_varies_at_first, one_label_then_thirty, 3, NO_L1),
    "a plane at first, far away": Case(a_plane_at_first_far_away, numbers, 3, ("linf", "l2")),
    "float32, far away": Case(far_away_in_float32, thirty_labels),
    "coordinates take turns": Case(coordinates_take_turns, two_labels, 3, ("linf", "l2")),
    "outliers": Case(outliers, thirty_labels),
    "outliers whose squares overflow": Case(
        outliers_whose_squares_overflow, numbers, 3, ("l1", "l2")
    ),
    "loud coordinates of no weight": Case(
        loud_coordinates_of_no_weight, two_labels, options=HALF_OF_NO_WEIGHT
    ),
    "float16": Case(halves, thirty_labels, 3, ("linf", "l2")),
    "all near the radius": Case(near_the_radius, thirty_labels, 0.25),
    "all near a small radius": Case(near_a_small_radius, numbers, 0.2, NO_L1),
    "all near the radius, far away": Case(
        near_the_radius_far_away, thirty_labels, 0.25, ("linf", "l2"), {"weights": [3.0] * 64}
    ),
    "long": Case(long, chances, 5, ("linf", "l2")),
}

EVERY = [
    (name, metric, index)
    for name, case in CASES.items()
    for metric in case.metrics
    for index in INDEXES[metric]
]


def seed_of(*names: object) -> int:
    return crc32(repr(names).encode())


@lru_cache(maxsize=1)
def wide_stream(name: str, metric: str) -> tuple[lw.Rule, np.ndarray, Any, Foreseen]:
    """The case under a metric: rule, inputs, outputs, and the oracle that foresees them.

    Without slack, and with a pair of decisions exactly on the radius.
    """
    case, rng = CASES[name], np.random.default_rng(seed_of(name, metric))
    X = case.inputs(rng, metric)
    Z = case.outputs(rng, len(X))
    rule = lw.Rule(metric, 1.0, slack=0, **OUTPUT_RULES.get(case.outputs, {}), **case.options)
    rule = replace(rule, epsilon=radius_on_an_edge(rule, X, Z, case.per_row))
    return rule, X, Z, Foreseen(rule, X, Z)
