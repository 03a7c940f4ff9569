"""What shards on Ray cost, what they bring, and how long a loss takes to mend.

Everything on one machine: what a batch costs beside a monitor in this process and beside bare calls
of as many actors; two shards beside one where a batch takes long; a shard killed; a shard that
stands still while decisions keep coming.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import likewise as lw
from benchmarks import oracle, workloads
from benchmarks.harness import Answer, Row, Setting, Skipped, address, benchmark
from benchmarks.measure import cpu_seconds, medians, rss_bytes
from benchmarks.processes import PROJECT, call, scratch

WIDE, EPSILON = 12, 0.05
BEFORE = 100_000  # decisions in the history before a batch is measured
SHARDS = (1, 2, 4)
BATCHES = {1: 100, 64: 60, 1024: 20}
"""Decisions of a batch, and how many batches are measured."""
LONG_WIDTH, LONG_BEFORE, LONG_BATCH = 96, (160_000, 320_000), 512
LONG_SETTLING, LONG_COUNT = 4, 12
"""Batches before the first that counts, and those that count."""
LONG_MS = 100  # a batch takes long if one shard works as much for it
REPLAYED = 400_000


@benchmark("Shards on Ray")
def cluster(setting: Setting) -> Answer:
    """What do shards cost beside one process, and beside calls that do nothing?

    One machine: shards, the coordinator and Ray itself share its cores. Ledgers are not forced to
    disk. A kill is timed from the signal, so noticing it is included.

    Overhead: milliseconds of a batch by one process (alone, p50), by actors that do nothing
    (bare, p50) and by the cluster; work_ms is the CPU of all shards (mean). Scaling: the median
    batch, the CPU of the shard that has most to do, and one process on all threads. Stall: memory
    after 5 s of a shard that stands still.
    """
    python = str(PROJECT) if PROJECT.exists() else sys.executable
    if not PROJECT.exists() and importlib.util.find_spec("ray") is None:
        raise Skipped("ray is not installed: pip install 'likewise[ray]'")
    works = {
        "overhead": measure_overhead,
        "scaling": measure_scaling,
        "losses": measure_losses,
        "stall": measure_stall,
    }
    tables = {}
    for name, work in works.items():
        runs = [
            call(address(work), {"scale": min(1.0, setting.scale)}, python=python)["rows"]
            for _ in range(setting.rounds)
        ]
        tables[name] = [medians(several) for several in zip(*runs, strict=True)]
    return Answer(tables, ["every verdict of a cluster named the witnesses that one process named"])


def _stream(rows: int, wide: int = WIDE) -> tuple[Any, Any]:
    return workloads.generated().rows(rows, wide)


def _require_alike(mine: Any, theirs: Any) -> None:
    same = np.array_equal(mine.offsets, theirs.offsets) and mine.witnesses == theirs.witnesses
    oracle.require(same, "a cluster named other witnesses than one process")


@contextmanager
def _cluster(rule: lw.Rule, shards: int, segment_rows: int, **options: Any) -> Iterator[Any]:
    """Start shards with a ledger in a folder of their own, which is not forced to disk."""
    with (
        tempfile.TemporaryDirectory(dir=scratch()) as folder,
        lw.cluster(
            Path(folder) / "ledger",
            rule,
            shards=shards,
            segment_rows=segment_rows,
            durability="off",
            **options,
        ) as started,
    ):
        yield started


def measure_overhead(given: Mapping[str, Any]) -> Row:
    """Return milliseconds of batches: of a cluster, of one process, of calls that do nothing."""
    scale = given["scale"]
    before = max(2_000, int(BEFORE * scale))
    asked = {size: max(3, int(count * scale)) for size, count in BATCHES.items()}
    points, labels = _stream(before + sum(size * count for size, count in asked.items()))
    rule, rows, pairs = lw.Rule("linf", EPSILON), [], 0
    for shards in SHARDS:
        with (
            tempfile.TemporaryDirectory(dir=scratch()) as folder,
            lw.open(Path(folder) / "alone", rule, durability="off") as alone,
            _cluster(rule, shards, max(256, before // (4 * shards))) as cluster,
        ):
            for monitor in (alone, cluster):
                monitor.load(points[:before], labels[:before])
            bare = _bare_actors(shards)
            processes = cluster.core.shards.fleet.backend.processes()
            position = before
            for size, count in asked.items():
                began = sum(map(cpu_seconds, processes))
                spent: dict[str, list[float]] = {"cluster": [], "alone": [], "bare": []}
                for _ in range(count):
                    part = slice(position, position + size)
                    batch = points[part], labels[part]
                    position += size
                    mine = _timed(spent["cluster"], cluster.observe_many, *batch)
                    theirs = _timed(spent["alone"], alone.observe_many, *batch)
                    _timed(spent["bare"], bare, *batch)
                    _require_alike(mine, theirs)
                    pairs += theirs.pairs
                worked = sum(map(cpu_seconds, processes)) - began
                p50, p95, p99 = np.percentile(spent["cluster"], (50, 95, 99)).tolist()
                alone_ms = float(np.median(spent["alone"]))
                rows.append(
                    {
                        "batch": size,
                        "shards": shards,
                        "alone_ms": alone_ms,
                        "above_alone_ms": p50 - alone_ms,
                        "bare_ms": float(np.median(spent["bare"])),
                        "p50_ms": p50,
                        "p95_ms": p95,
                        "p99_ms": p99,
                        "work_ms": 1e3 * worked / count,
                    }
                )
    oracle.require(pairs > 0, "nothing was found")
    return {"rows": rows}


def _timed(into: list[float], work: Callable[..., Any], *args: Any) -> Any:
    """Call it, and note the milliseconds."""
    began = time.perf_counter()
    answer = work(*args)
    into.append(1e3 * (time.perf_counter() - began))
    return answer


def _bare_actors(count: int) -> Any:
    """Return what sends a batch to so many actors that do nothing, and waits for all of them."""
    import ray

    @ray.remote(num_cpus=0.1)
    class Idle:
        def take(self, points: Any, labels: Any) -> int:
            return len(points)

    actors = [Idle.remote() for _ in range(count)]

    def send(points: Any, labels: Any) -> None:
        ray.get([actor.take.remote(points, labels) for actor in actors])

    send(np.zeros((1, 1)), np.zeros(1))
    return send


def measure_scaling(given: Mapping[str, Any]) -> Row:
    """Return milliseconds of a batch of which searching takes most, by one shard and by two.

    Long vectors with few witnesses, of which a search looks at most of the history: the work of a
    shard grows with its rows. Batches before the first that counts have the shards settle on an
    index. What a shard works for a batch is told beside it, so that one sees what was measured.
    """
    scale = given["scale"]
    histories = [max(3_000, int(rows * scale)) for rows in LONG_BEFORE]
    return {"rows": [row for before in histories for row in _scaling(before, scale)]}


def _scaling(before: int, scale: float) -> list[Row]:
    """Measure over a history of so many rows."""
    size = LONG_BATCH if scale == 1 else 64
    points, labels, rule = _long_stream(before, size * (LONG_SETTLING + LONG_COUNT))
    starts = range(before, len(points), size)
    rows: list[Row] = []
    alone, threads_ms, expected = lw.Monitor(rule), list[float](), []
    alone.load(points[:before], labels[:before])
    for start in starts:
        part = slice(start, start + size)
        expected.append(_timed(threads_ms, alone.observe_many, points[part], labels[part]))
    pairs = sum(one.pairs for one in expected)
    oracle.require(pairs > 0, "nothing was found")
    for shards in (1, 2):
        segment = max(64, before // (8 * shards))
        with _cluster(rule, shards, segment, micro_batch=size) as cluster:
            cluster.load(points[:before], labels[:before])
            processes = cluster.core.shards.fleet.backend.processes()
            spent, worked = list[float](), []
            for i, start in enumerate(starts):
                part = slice(start, start + size)
                began = [cpu_seconds(process) for process in processes]
                found = _timed(spent, cluster.observe_many, points[part], labels[part])
                worked.append([cpu_seconds(process) for process in processes])
                worked[-1] = [after - was for after, was in zip(worked[-1], began, strict=True)]
                _require_alike(found, expected[i])
            batch_ms = float(np.median(spent[LONG_SETTLING:]))
            times = (rows[0]["batch_ms"] if rows else batch_ms) / batch_ms
            work_ms = float(1e3 * np.mean(worked[LONG_SETTLING:], axis=0).max())
            is_long = (rows[0]["work_ms"] if rows else work_ms) >= LONG_MS
            rows.append(
                {
                    "rows": before,
                    "shards": shards,
                    "batch_ms": batch_ms,
                    "work_ms": work_ms,
                    "times": times,
                    "times_if_long": times if is_long else None,
                    "threads_ms": float(np.median(threads_ms[LONG_SETTLING:])),
                    "witnesses": pairs / (size * len(expected)),
                }
            )
    return rows


def _long_stream(before: int, more: int) -> tuple[Any, Any, lw.Rule]:
    """Long vectors in clusters, and a rule by which each has a witness or two."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(200, LONG_WIDTH))
    owners = rng.integers(0, 200, before + more)
    points = centres[owners] + 0.5 * rng.normal(size=(len(owners), LONG_WIDTH))
    some = np.linalg.norm(points[before : before + 50, None] - points[None, :2_000], axis=2)
    epsilon = float(np.sort(some, axis=1)[:, 0].min())
    return points, rng.integers(0, 2, len(owners)), lw.Rule("l2", epsilon)


def measure_losses(given: Mapping[str, Any]) -> Row:
    """Return seconds from a kill to the next answer, and rows that are replayed a second."""
    scale = given["scale"]
    before = max(4_000, int(REPLAYED * scale))
    points, labels = _stream(before + 100)
    rule, rows = lw.Rule("linf", EPSILON), []
    alone = lw.Monitor(rule)
    alone.load(points[:before], labels[:before])
    expected = alone.observe_many(points[before:], labels[before:])
    for shards in (1, 2):
        with _cluster(rule, shards, max(64, before // (8 * shards))) as cluster:
            cluster.load(points[:before], labels[:before])
            cluster.check(points[0], labels[0])
            fleet = cluster.core.shards.fleet
            os.kill(fleet.backend.processes()[0], signal.SIGKILL)
            began = time.monotonic()
            _require_alike(cluster.observe_many(points[before:], labels[before:]), expected)
            seconds = time.monotonic() - began
            rows.append(
                {
                    "shards": shards,
                    "rows": fleet.replayed,
                    "answered_s": seconds,
                    "without_replay_s": seconds - fleet.replay_seconds,
                    "replay_s": fleet.replay_seconds,
                    "rows_per_second": fleet.replayed / fleet.replay_seconds,
                }
            )
    return {"rows": rows}


def measure_stall(given: Mapping[str, Any]) -> Row:
    """Return the memory of the coordinator while a shard stands still and decisions keep coming."""
    scale = given["scale"]
    count = max(5_000, int(200_000 * scale))
    points, labels = _stream(count)
    rule = lw.Rule("linf", EPSILON / 4)
    alone = lw.Monitor(rule)
    expected = alone.observe_many(points, labels)
    with _cluster(rule, 2, 1_024) as cluster:
        cluster.observe_many(points[:4_096], labels[:4_096])
        process = cluster.core.shards.fleet.backend.processes()[0]
        found: list[Any] = []
        feeding = threading.Thread(
            target=lambda: found.append(cluster.observe_many(points[4_096:], labels[4_096:]))
        )
        feeding.start()
        time.sleep(0.2)
        os.kill(process, signal.SIGSTOP)
        time.sleep(1.0)
        before = rss_bytes()
        time.sleep(5.0 if scale == 1 else 1.0)
        during = rss_bytes()
        os.kill(process, signal.SIGCONT)
        feeding.join(600)
    oracle.require(len(found) == 1, "a shard that stood still was waited for in vain")
    named = expected.witnesses.rows[expected.offsets[4_096] :]
    oracle.require(np.array_equal(found[0].witnesses.rows, named), "other witnesses")
    grown = {"grown_mb": (during - before) / 1e6}
    return {"rows": [{"before_mb": before / 1e6, "during_mb": during / 1e6, **grown}]}
