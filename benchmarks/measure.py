"""Clocks, percentiles and memory, and the facts of the machine they were taken on.

Invariant: a timed piece of work returns its result, so nothing is freed while the clock runs;
the garbage collector is off inside every timed loop.
Not here: what is measured. A question brings that.
"""

from __future__ import annotations

import array
import gc
import importlib.metadata
import math
import mmap
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
P = ParamSpec("P")
T = TypeVar("T")
PACKAGES = (
    "likewise",
    "numpy",
    "numba",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "clemont",
    "pandas",
    "dd",
)


@contextmanager
def no_collector() -> Iterator[None]:
    """Keep Python's garbage collector out of the measurement."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True)
class Timing:
    """Seconds on the clock, and seconds of processor over all threads."""

    wall: float
    cpu: float


def timed(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, Timing]:
    """Call it once; background threads show up in `cpu`."""
    with no_collector():
        cpu, wall = time.process_time(), time.perf_counter()
        result = work(*args, **kwargs)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, Timing(wall, cpu)


def time_in_turns(
    runs: Mapping[str, Callable[[], Any]],
    rounds: int,
    keep: Callable[[str, Any], None] = lambda name, result: None,
) -> dict[str, list[Timing]]:
    """Time each run in turn, `rounds` times; `keep` sees each result after its clock stopped."""
    timings: dict[str, list[Timing]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            result, timing = timed(run)
            timings[name].append(timing)
            keep(name, result)
            del result
    return timings


def wall_us(timings: Sequence[Timing], decisions: int) -> dict[str, float]:
    """Median, least and most microseconds per decision, and processor time beside."""
    each = [t.wall / decisions * 1e6 for t in timings]
    return {
        "us": statistics.median(each),
        "us_low": min(each),
        "us_high": max(each),
        "cpu_us": statistics.median(t.cpu / decisions * 1e6 for t in timings),
    }


def percentiles_us(us: Array) -> dict[str, float]:
    """Return p50, p99, p99.9, max and mean."""
    p50, p99, p999 = np.percentile(us, (50, 99, 99.9)).tolist()
    most, mean = float(us.max()), float(us.mean())
    return {"p50_us": p50, "p99_us": p99, "p999_us": p999, "max_us": most, "mean_us": mean}


@dataclass(frozen=True)
class Singles:
    """The time of every single call of one run, and what was kept of its answer."""

    nanoseconds: Array
    kept: list[Any]

    @property
    def us(self) -> Array:
        return np.asarray(self.nanoseconds / 1e3)

    @property
    def counts(self) -> Array:
        """How many witnesses each call found, where that was kept."""
        return np.array(self.kept, np.int64)

    def percentiles(self) -> dict[str, Any]:
        """Return the percentiles in microseconds; p50 of the calls with witnesses too."""
        found = self.us[self.counts > 0]
        alarm = float(np.median(found)) if len(found) else None
        return {**percentiles_us(self.us), "p50_alarm_us": alarm}


def count_witnesses(verdict: Any) -> int:
    return len(verdict.witnesses)


def time_calls(
    call: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    keep: Callable[[Any], Any] = count_witnesses,
    pause_us: float = 0.0,
    seconds: float = math.inf,
) -> Singles:
    """Time each call, the clock itself included, until the arguments or the seconds run out.

    Arguments are made, and answers kept, off the clock; in a pause the caller computes.
    """
    clock = time.perf_counter_ns
    spent, kept = array.array("q"), []
    deadline = time.perf_counter() + seconds
    with no_collector():
        for given in arguments:
            if time.perf_counter() >= deadline:
                break
            start = clock()
            answer = call(*given)
            stop = clock()
            spent.append(stop - start)
            kept.append(keep(answer))
            while clock() - stop < 1000 * pause_us:
                pass
    return Singles(np.array(spent, np.int64), kept)


def single_calls(observe: Callable[[Any, Any], Any], points: Array, outputs: Array) -> Singles:
    """Time each `observe(x, z)`, its verdict included."""
    return time_calls(observe, zip(list(points), outputs.tolist(), strict=True))


def worst_pause_us(seconds: float) -> float:
    """The longest gap that this machine itself puts into an idle loop of that length."""
    clock = time.perf_counter_ns
    worst = 0
    with no_collector():
        now = clock()
        end = now + int(seconds * 1e9)
        while now < end:
            before, now = now, clock()
            worst = max(worst, now - before)
    return worst / 1e3


def fresh_memory_us(row_bytes: int, most_bytes: int = 256_000_000) -> float:
    """What writing one row costs where no one has written before: mean microseconds.

    A history that grows pays at least this on this machine; it can exceed all other work.
    """
    rows = max(1, min(2_000, most_bytes // row_bytes))
    row = np.ones(row_bytes, np.uint8)
    with no_collector(), mmap.mmap(-1, rows * row_bytes) as memory:
        start = time.perf_counter()
        for i in range(rows):
            memory[i * row_bytes : (i + 1) * row_bytes] = row.data
        return (time.perf_counter() - start) / rows * 1e6


def rss_bytes() -> int:
    """Memory of this process that is really there."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import psutil

    return int(psutil.Process().memory_info().rss)


def cpu_seconds(process: int) -> float:
    """Return what a process of this machine has worked so far, in steps of a clock tick (Linux)."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def peak_rss_bytes() -> int:
    """The most that was ever there, by the kernel's own account; what is there now without one."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return rss_bytes()


def medians(
    runs: Sequence[Mapping[str, Any]], worst: Sequence[str] = ("max_us",)
) -> dict[str, Any]:
    """Of several runs' numbers the median each, of the `worst` keys the most."""
    found: dict[str, Any] = {}
    for key in runs[0]:
        values = [run[key] for run in runs if run[key] is not None]
        pick = max if key in worst else statistics.median
        found[key] = pick(values) if values else None
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def machine() -> dict[str, Any]:
    """What a reader needs to compare: no name of the machine, no path."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return {
        "processor": _processor(),
        "cores": cores,
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }
