"""`likewise bench` times a monitor and a NumPy scan on generated decisions.

The scan is what anyone would write first: the distance to every past input, vectorised. It is timed
at the end of the history, on the same decisions as the monitor.
Invariant: a figure is given only if both name the same witnesses, and there are some.
"""

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.cli.terminal import print_json, say
from likewise.monitor.monitor import Monitor
from likewise.rule.rule import Rule
from likewise.runtime.machine import NOT_FINAL, count_cores, is_final
from likewise.search.kernels.compile import way
from likewise.version import __version__

_PROBES = 100


@dataclass(frozen=True)
class Workload:
    """Names a kind of generated decisions, and the rule for them."""

    name: str
    rule: Rule
    make: Callable[[int], tuple[npt.NDArray[Any], list[int]]]
    rows: int
    quick_rows: int


@dataclass(frozen=True)
class BenchResult:
    """Holds the decisions per second of a workload, by method."""

    name: str
    rows: int
    violations: int
    observe_many: float
    observe: float
    scan: float


def measure(workload: Workload, quick: bool) -> BenchResult:
    """Time a history in one call, then some decisions one by one, then these by scanning."""
    rows = workload.quick_rows if quick else workload.rows
    inputs, outputs = workload.make(rows + 2 * _PROBES)
    monitor = Monitor(workload.rule)
    began = time.perf_counter()
    verdicts = monitor.observe_many(inputs[:rows], outputs[:rows])
    seconds_together = time.perf_counter() - began
    singles = range(rows, rows + _PROBES)
    began = time.perf_counter()
    witnesses = [monitor.observe(inputs[i], outputs[i]).witnesses.rows for i in singles]
    seconds_apart = time.perf_counter() - began
    scan = _make_scan(workload.rule, inputs, np.array(outputs))
    began = time.perf_counter()
    expected = [scan(i) for i in singles]
    seconds_scanned = time.perf_counter() - began
    flagged = int(verdicts.violations.sum())
    same = all(map(np.array_equal, witnesses, expected))
    if not same or flagged == 0 or not any(map(len, expected)):
        raise AssertionError(
            f"{workload.name}: the monitor and the scan do not name the same witnesses"
        )
    return BenchResult(
        workload.name,
        rows,
        flagged,
        observe_many=rows / seconds_together,
        observe=_PROBES / seconds_apart,
        scan=_PROBES / seconds_scanned,
    )


def warm_up(workload: Workload) -> None:
    """Compile everything that is going to be timed."""
    inputs, outputs = workload.make(600)
    monitor = Monitor(workload.rule)
    monitor.observe_many(inputs[:500], outputs[:500])
    for i in range(500, 600):
        monitor.observe(inputs[i], outputs[i])


def _make_scan(
    rule: Rule, inputs: npt.NDArray[Any], outputs: npt.NDArray[np.int64]
) -> Callable[[int], npt.NDArray[np.int64]]:
    """Return a function that finds all earlier rows that are near and differ, by a full scan."""
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


# What is printed


def _describe_machine() -> dict[str, Any]:
    return {
        "likewise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": way,
        "machine": platform.machine(),
        "cores": count_cores(),
    }


def print_results(results: list[BenchResult], load: float | None, *, as_json: bool) -> None:
    """Print what was measured, the machine and its load."""
    if as_json:
        state = {"machine_load": None if load is None else round(load, 2), "final": is_final(load)}
        workloads = [asdict(result) for result in results]
        print_json({**_describe_machine(), **state, "workloads": workloads})
        return
    say("Decisions per second", "bold")
    say()
    lines: list[tuple[str, ...]] = [
        ("", "past", "flagged", "observe_many", "observe", "NumPy scan", "faster")
    ]
    for one in results:
        speeds = (f"{speed:,.0f}" for speed in (one.observe_many, one.observe, one.scan))
        flagged, faster = f"{one.violations / one.rows:.1%}", f"{one.observe / one.scan:,.0f}x"
        lines.append((one.name, f"{one.rows:,}", flagged, *speeds, faster))
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    for name, *cells in lines:
        say("  ".join([name.ljust(first), *map(str.rjust, cells, widths)]))
    say()
    say("observe_many judges all decisions in one call, observe a single one after them; `faster`")
    say("compares observe with a scan of the same past. Both named the same witnesses.")
    say(", ".join(f"{name} {value}" for name, value in _describe_machine().items()))
    if load is not None:
        say(f"Load of the machine {load:.2f}, where 1 is this measurement alone.")
    if not is_final(load):
        say(f"Not final: above {NOT_FINAL} other programs slow down what is measured.", "bold")
