"""The work of `make paper`, cut into cells that each run in a process of their own.

A cell is a function of this file and what it is given, as JSON; it measures itself. Timed cells run
one after the other; cells that only count run two at a time.

Invariant: every cell whose answer is known checks it, and fails where it is another one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import workloads
from benchmarks.paper import streams

Array = NDArray[Any]
LENGTHS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
CLEAR_PEAK = "5"
WARM_ROWS = 50


def index_of(spec: Any) -> Any:
    """ "kdtree", or ["split", "kdtree", 2]."""
    return lw.Split(spec[1], parts=spec[2]) if isinstance(spec, list) else spec


def name_of(spec: Any) -> str:
    return f"{spec[1]}, {spec[2]} parts" if isinstance(spec, list) else spec


def _folder() -> Path:
    folder = workloads.data_folder()
    assert folder is not None, "the folder of real data is not here"
    return folder


def _require(found: Any, known: Any, what: str) -> None:
    if found != known:
        raise AssertionError(f"{what}: found {found}, known {known}")


def _status(field: str) -> float:
    """A line of what the system says about this process, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise ValueError(field)


def _warm(rule: lw.Rule, index: Any, points: Array, outputs: Array) -> None:
    """Have everything compiled, loaded and imported before a clock runs."""
    for count in (WARM_ROWS, WARM_ROWS):
        monitor = lw.Monitor(rule, index=index_of(index))
        for x, z in zip(points[:count], outputs[:count].tolist(), strict=True):
            monitor.observe(x, z)


def one_by_one(
    monitor: lw.Monitor, points: Array, outputs: Array, limit: float, edges: tuple[int, ...] = ()
) -> Iterator[tuple[int, int, int, Array]]:
    """Observe rows singly until time is up: rows done, flagged, pairs, nanoseconds of each.

    Yields at every edge and at the end.
    """
    clock = time.perf_counter_ns
    spent = np.zeros(len(points), np.int64)
    labels = outputs.tolist()
    flagged = pairs = 0
    stops = {*edges, len(points)}
    gc.collect()
    gc.disable()
    deadline = time.perf_counter() + limit
    for i, x in enumerate(points):
        start = clock()
        verdict = monitor.observe(x, labels[i])
        spent[i] = clock() - start
        if verdict.violation:
            flagged += 1
            pairs += len(verdict.witnesses)
        late = i % 64 == 0 and time.perf_counter() > deadline
        if late or i + 1 in stops:
            yield i + 1, flagged, pairs, spent[: i + 1]
        if late:
            return


def table(given: dict[str, Any]) -> dict[str, Any]:
    """One row and one index of Table 1: counts, time and memory."""
    stream = streams.stream(given["stream"], _folder())
    _warm(stream.rule, given["index"], stream.points, stream.outputs)
    gc.collect()
    Path("/proc/self/clear_refs").write_text(CLEAR_PEAK)
    before = _status("VmRSS")
    monitor = lw.Monitor(stream.rule, index=index_of(given["index"]))
    *_, (rows, flagged, pairs, spent) = one_by_one(
        monitor, stream.points, stream.outputs, given["limit"]
    )
    if rows == len(stream.points) and stream.known is not None:
        _require((flagged, pairs), stream.known, given["stream"])
    return {
        "what": stream.what,
        "rows": rows,
        "of": len(stream.points),
        "width": int(np.prod(stream.points.shape[1:])),
        "epsilon": stream.rule.epsilon,
        "flagged": flagged,
        "pairs": pairs,
        "us": float(spent.mean()) / 1e3,
        "max_us": float(spent.max()) / 1e3,
        "mb": _status("VmHWM") - before,
        "checked": stream.known is not None and rows == len(stream.points),
        "form": monitor.explain().form,
    }


def counts(given: dict[str, Any]) -> dict[str, Any]:
    """Flagged rows and pairs of one file at several radii, by one index, as they are known."""
    file = streams.stream(f"fair {given['file']}", _folder())
    known = {
        eps: (flagged, pairs) for eps, flagged, pairs in streams.radii(given["file"], _folder())
    }
    for epsilon in given["radii"]:
        monitor = lw.Monitor(lw.Rule("linf", epsilon), index=index_of(given["index"]))
        verdicts = monitor.observe_many(file.points, file.outputs, threads=1)
        found = int(verdicts.violations.sum()), verdicts.pairs
        _require(found, known[epsilon], f"{given['file']} at {epsilon} by {given['index']}")
    return {"equal": len(given["radii"])}


def length(given: dict[str, Any]) -> dict[str, Any]:
    """Figure 4: microseconds per decision between lengths of the history, until time is up."""
    points, outputs = workloads.higgs(_folder()).rows(LENGTHS[-1], given["columns"])
    rule = lw.Rule(given["metric"], given["epsilon"])
    _warm(rule, given["index"], points, outputs)
    monitor = lw.Monitor(rule, index=index_of(given["index"]))
    curve, before = [], 0
    for rows, flagged, pairs, spent in one_by_one(
        monitor, points, outputs, given["limit"], LENGTHS
    ):
        if rows > before:
            curve.append([rows, float(spent[before:rows].mean()) / 1e3, flagged, pairs])
        before = rows
    return {"curve": curve, "finished": before == len(points)}


def _noisy(width: int, count: int) -> tuple[Array, Array]:
    """Random pixels of real pictures with noise on top, and made-up decisions."""
    rng = np.random.default_rng([workloads.SEED, 5, width])
    with np.load(_folder() / "cifar10_test3000_jpeg.npz", allow_pickle=False) as file:
        pictures = file["x"].reshape(len(file["x"]), -1)
    pixels = np.sort(rng.choice(pictures.shape[1], width, replace=False))
    chosen = rng.integers(len(pictures), size=count)
    points = pictures[np.ix_(chosen, pixels)].astype(np.float32)
    points += rng.standard_normal(points.shape, np.float32)
    return points / np.float32(255), rng.integers(0, 2, count)


def width(given: dict[str, Any]) -> dict[str, Any]:
    """Figure 5, above: after loading a history, microseconds per decision at one width."""
    loaded = given["loaded"]
    points, outputs = _noisy(given["width"], loaded + given["rows"])
    # For l2 the radius grows with the width, so that the same pairs are near as for linf.
    metric = given["metric"]
    epsilon = 8 / 255 if metric == "linf" else 2.0 / 255 * float(np.sqrt(given["width"]))
    rule = lw.Rule(metric, epsilon)
    _warm(rule, given["index"], points, outputs)
    monitor = lw.Monitor(rule, index=index_of(given["index"]))
    start = time.perf_counter()
    monitor.load(points[:loaded], outputs[:loaded])
    monitor.check(points[loaded], 0)  # builds what is built late
    load_seconds = time.perf_counter() - start
    *_, (rows, _, pairs, spent) = one_by_one(
        monitor, points[loaded:], outputs[loaded:], given["limit"]
    )
    us = float(spent.mean()) / 1e3
    return {"us": us, "rows": rows, "pairs": pairs, "load_seconds": load_seconds}


def parts(given: dict[str, Any]) -> dict[str, Any]:
    """Figure 5, below: from an empty history, microseconds per decision by number of parts."""
    points, outputs = _noisy(given["width"], given["rows"])
    rule = lw.Rule("linf", 8 / 255)
    by_parts = {}
    for k in given["parts"]:
        spec = ["split", given["index"], k]
        _warm(rule, spec, points, outputs)
        monitor = lw.Monitor(rule, index=index_of(spec))
        *_, (rows, _, pairs, spent) = one_by_one(monitor, points, outputs, given["limit"])
        by_parts[str(k)] = {"us": float(spent.mean()) / 1e3, "rows": rows, "pairs": pairs}
    whole = {one["pairs"] for one in by_parts.values() if one["rows"] == len(points)}
    if len(whole) > 1:
        raise AssertionError(f"numbers of parts differ in pairs: {by_parts}")
    return by_parts
