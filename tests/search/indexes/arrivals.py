"""Ways in which a past arrives at an index and goes again, walked (audit.py) after every step."""

from collections.abc import Callable

import numpy as np

from tests.search.indexes.beside import Beside
from tests.search.indexes.shapes import random

Arrival = Callable[[Beside, np.ndarray], None]

ORDERS = {
    "oldest first": np.arange,
    "newest first": lambda n: np.arange(n)[::-1],
    "in any order": lambda n: random().permutation(n),
}


def arrivals(batches: tuple[int, ...], first: int, loaded: int) -> dict[str, Arrival]:
    """One by one, in batches of these sizes, and loaded on top of the first rows."""

    def observe_each(both: Beside, X: np.ndarray) -> None:
        for part in np.array_split(X, 4):
            both.observe(part)
            both.audit()

    def observe_batches(both: Beside, X: np.ndarray) -> None:
        start = 0
        for size in (*batches, len(X)):
            both.observe_many(X[start : start + size], threads=2)
            both.audit()
            start += size

    def load_on_top(both: Beside, X: np.ndarray) -> None:
        both.observe(X[:first])
        both.load(X[first:loaded])
        both.audit()
        both.load(X[loaded : loaded + 100])  # too few to build anew
        both.observe(X[loaded + 100 :])
        both.audit()

    return {
        "one by one": observe_each,
        "in batches": observe_batches,
        "loaded on top": load_on_top,
    }


def choose_outputs(output: str, n: int) -> list | np.ndarray:
    """More labels than an index has groups, numbers that drift, or probabilities."""
    rng = random(8)
    if output == "label":
        return rng.integers(0, 14, n).tolist()
    if output == "number":
        return np.sin(np.arange(n) / 300) + 0.01 * rng.normal(size=n)
    return rng.dirichlet([0.3] * (17 if output.startswith("many") else 3), n)


def forget_everything(both: Beside, count: int, order: Callable[[int], np.ndarray]) -> None:
    """Forget the last rows of a past in five steps; nothing is near any more."""
    rows = order(count) + len(both.oracle.outputs) - count
    for part in np.array_split(rows, 5):
        both.forget(part)
        both.audit()
    assert len(both.monitor) == 0
    assert both.ask_some(random(), 5) == 0
