"""What `likewise bench` measures: generated decisions, judged by a monitor and by a NumPy scan.

The scan is what anyone would write first: the distance to every past input, by vectors. It is
timed, and compared, at the end of the history, on the same decisions.

Invariant: a figure is given only if the monitor's witnesses are exactly the scan's, and there are
some.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.monitor.monitor import Monitor
from likewise.rule.rule import Rule

_PROBES = 100


@dataclass(frozen=True)
class Workload:
    """Some kind of decisions, and the rule for them."""

    name: str
    rule: Rule
    make: Callable[[int], tuple[npt.NDArray[Any], list[int]]]
    rows: int
    quick_rows: int


@dataclass(frozen=True)
class BenchResult:
    """Decisions per second, and what they found."""

    name: str
    rows: int
    flagged: int
    observe_many: float
    observe: float
    scan: float


def measure(workload: Workload, quick: bool) -> BenchResult:
    """Judge a history together, then some decisions one by one, then these by scanning."""
    rows = workload.quick_rows if quick else workload.rows
    inputs, outputs = workload.make(rows + 2 * _PROBES)
    monitor = Monitor(workload.rule)
    began = time.perf_counter()
    verdicts = monitor.observe_many(inputs[:rows], outputs[:rows])
    together = time.perf_counter() - began
    singles = range(rows, rows + _PROBES)
    began = time.perf_counter()
    found = [monitor.observe(inputs[i], outputs[i]).witnesses.rows for i in singles]
    apart = time.perf_counter() - began
    scan = _scan_of(workload.rule, inputs, np.array(outputs))
    began = time.perf_counter()
    expected = [scan(i) for i in singles]
    scanned = time.perf_counter() - began
    flagged = int(verdicts.violations.sum())
    same = all(map(np.array_equal, found, expected))
    if not same or flagged == 0 or not any(map(len, expected)):
        raise AssertionError(
            f"{workload.name}: the monitor and the scan do not name the same witnesses"
        )
    return BenchResult(
        workload.name, rows, flagged, rows / together, _PROBES / apart, _PROBES / scanned
    )


def warm_up(workload: Workload) -> None:
    """Have everything compiled that is to be timed."""
    inputs, outputs = workload.make(600)
    monitor = Monitor(workload.rule)
    monitor.observe_many(inputs[:500], outputs[:500])
    for i in range(500, 600):
        monitor.observe(inputs[i], outputs[i])


def _scan_of(
    rule: Rule, inputs: npt.NDArray[Any], outputs: npt.NDArray[np.int64]
) -> Callable[[int], npt.NDArray[np.int64]]:
    """All earlier rows that are near and differ, by looking at every one."""
    storage = "float32" if inputs.dtype == np.float32 else "float64"
    whole = inputs.dtype.kind in "iu"
    reach = rule.epsilon * (1.0 + (0.0 if whole else rule.slack_for(storage)))

    def scan(i: int) -> npt.NDArray[np.int64]:
        gaps = inputs[:i] - inputs[i]
        if rule.metric == "linf":
            near = np.abs(gaps).max(axis=1) <= reach
        else:
            near = np.einsum("ij,ij->i", gaps, gaps, dtype=np.float64) <= reach * reach
        return np.flatnonzero(near & (outputs[:i] != outputs[i]))

    return scan


# Decisions


def _clusters(count: int, dims: int, spread: float, seed: int) -> npt.NDArray[np.float64]:
    random = np.random.default_rng(seed)
    centres = random.random((200, dims))
    return centres[random.integers(0, 200, count)] + random.normal(0.0, spread, (count, dims))


def _scores(count: int) -> tuple[npt.NDArray[Any], list[int]]:
    x = _clusters(count, 12, 0.02, 1)
    noise = np.random.default_rng(2).normal(0.0, 0.05, count)
    return x, (x.mean(axis=1) + noise > 0.5).astype(int).tolist()


def _whole_numbers(count: int) -> tuple[npt.NDArray[Any], list[int]]:
    x, z = _scores(count)
    return (np.clip(x, 0, 1)[:, :8] * 250).astype(np.int32), z


def _embeddings(count: int) -> tuple[npt.NDArray[Any], list[int]]:
    x = _clusters(count, 64, 0.01, 3)
    noise = np.random.default_rng(4).normal(0.0, 0.05, count)
    return x, (x.mean(axis=1) + noise > 0.5).astype(int).tolist()


WORKLOADS = (
    Workload("12 numbers, linf", Rule("linf", 0.03), _scores, 200_000, 20_000),
    Workload("8 whole numbers, linf", Rule("linf", 5), _whole_numbers, 200_000, 20_000),
    Workload("64 numbers, l2", Rule("l2", 0.1), _embeddings, 50_000, 10_000),
)
