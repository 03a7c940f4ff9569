"""What do shards on Ray cost, what do they bring, and how long does a loss take to mend?

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import likewise as lw
from benchmarks import oracle, workloads
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.child import PROJECT, call
from benchmarks.measure import cpu_seconds, medians, rss_bytes
from benchmarks.scratch import scratch

WIDE, EPSILON = 12, 0.05
BEFORE = 100_000  # decisions in the history before a batch is measured
SHARDS = (1, 2, 4)
BATCHES = {1: 100, 64: 60, 1024: 20}
"""Decisions of a batch, and how many batches are measured."""
LONG_WIDTH, LONG_BEFORE, LONG_BATCH = 96, (160_000, 320_000), 512
LONG_SETTLING, LONG_COUNT = 4, 12
"""Batches before the first that counts, and those that count."""
REPLAYED = 400_000
OVERHEAD = {
    "batch": "decisions of a batch",
    "shards": "shards",
    "alone_ms": "one process p50, ms",
    "bare_ms": "bare calls p50, ms",
    "p50_ms": "cluster p50, ms",
    "p95_ms": "p95",
    "p99_ms": "p99",
    "work_ms": "CPU of all shards, ms (mean)",
}
SCALING = {
    "rows": "rows of the history",
    "shards": "shards",
    "batch_ms": "batch, ms (median)",
    "work_ms": "CPU of the shard that has most to do, ms",
    "times": "times as fast as one shard",
    "threads_ms": "one process, all threads, ms",
    "witnesses": "witnesses of a decision",
}
LOSSES = {
    "shards": "shards",
    "rows": "rows of a shard",
    "answered_s": "from kill to answer, s",
    "replay_s": "of which replay, s",
    "rows_per_second": "rows replayed a second",
}
STALL = {"before_mb": "before, MB", "during_mb": "after 5 s of a shard that stands still, MB"}


def ask(setting: Setting) -> Answer:
    python = str(PROJECT) if PROJECT.exists() else sys.executable
    if not PROJECT.exists() and importlib.util.find_spec("ray") is None:
        raise Skipped("ray is not installed: pip install 'likewise[ray]'")
    given = {"scale": setting.scale}
    runs = {
        name: [
            call(f"benchmarks.questions.cluster:{name}", given, python=python)
            for _ in range(setting.rounds)
        ]
        for name in ("overhead", "scaling", "losses", "stall")
    }
    tables = {
        name: Table(columns, _rows([run["rows"] for run in runs[name]]))
        for name, columns in (
            ("overhead", OVERHEAD),
            ("scaling", SCALING),
            ("losses", LOSSES),
            ("stall", STALL),
        )
    }
    return Answer(
        "Shards on Ray",
        tables,
        ["every verdict of a cluster named the witnesses that one process named"],
        [
            "One machine: shards, the coordinator and Ray itself share its cores. Ledgers are not"
            " forced to disk. A kill is timed from the signal, so noticing it is included."
        ],
    )


def _rows(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Row by row, the medians of several runs."""
    return [medians(several) for several in zip(*runs, strict=True)]


def _stream(rows: int, wide: int = WIDE) -> tuple[Any, Any]:
    return workloads.generated().rows(rows, wide)


def _alike(mine: Any, theirs: Any) -> None:
    same = np.array_equal(mine.offsets, theirs.offsets) and mine.witnesses == theirs.witnesses
    oracle.require(same, "a cluster named other witnesses than one process")


def overhead(given: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds of batches: by a cluster, by one process, and of calls that do nothing."""
    scale = min(1.0, given["scale"])
    before = max(2_000, int(BEFORE * scale))
    asked = {size: max(3, int(count * scale)) for size, count in BATCHES.items()}
    points, labels = _stream(before + sum(size * count for size, count in asked.items()))
    rule, rows, pairs = lw.Rule("linf", EPSILON), [], 0
    for shards in SHARDS:
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            alone = lw.open(Path(folder) / "alone", rule, durability="off")
            segment = max(256, before // (4 * shards))
            cluster = lw.cluster(
                Path(folder) / "cluster",
                rule,
                shards=shards,
                segment_rows=segment,
                durability="off",
            )
            with alone, cluster:
                for monitor in (alone, cluster):
                    monitor.load(points[:before], labels[:before])
                bare = _bare_actors(shards)
                processes = cluster._shards.fleet.backend.processes()
                position = before
                for size, count in asked.items():
                    began = sum(map(cpu_seconds, processes))
                    spent: dict[str, list[float]] = {"cluster": [], "alone": [], "bare": []}
                    for _ in range(count):
                        batch = (
                            points[position : position + size],
                            labels[position : position + size],
                        )
                        position += size
                        mine = _timed(spent["cluster"], cluster.observe_many, *batch)
                        theirs = _timed(spent["alone"], alone.observe_many, *batch)
                        _timed(spent["bare"], bare, *batch)
                        _alike(mine, theirs)
                        pairs += theirs.pairs
                    worked = sum(map(cpu_seconds, processes)) - began
                    p50, p95, p99 = np.percentile(spent["cluster"], (50, 95, 99)).tolist()
                    rows.append(
                        {
                            "batch": size,
                            "shards": shards,
                            "alone_ms": float(np.median(spent["alone"])),
                            "bare_ms": float(np.median(spent["bare"])),
                            "p50_ms": p50,
                            "p95_ms": p95,
                            "p99_ms": p99,
                            "work_ms": 1e3 * worked / count,
                        }
                    )
    oracle.require(pairs > 0, "nothing was found")
    return {"rows": rows}


def _timed(into: list[float], work: Any, *args: Any) -> Any:
    began = time.perf_counter()
    answer = work(*args)
    into.append(1e3 * (time.perf_counter() - began))
    return answer


def _bare_actors(count: int) -> Any:
    """What sends a batch to so many actors that do nothing, and waits for all of them."""
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


def scaling(given: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds of a batch of which searching takes most, by one shard and by two.

    Long vectors with few witnesses, of which a search looks at most of the history: the work of a
    shard grows with its rows. Batches before the first that counts have the shards settle on an
    index. What a shard works for a batch is told beside it, so that one sees what was measured.
    """
    scale = min(1.0, given["scale"])
    histories = [max(3_000, int(rows * scale)) for rows in LONG_BEFORE]
    return {"rows": [row for before in histories for row in _scaling(before, scale)]}


def _scaling(before: int, scale: float) -> list[dict[str, Any]]:
    """The same over a history of so many rows."""
    size = LONG_BATCH if scale == 1 else 64
    points, labels, rule = _long_stream(before, size * (LONG_SETTLING + LONG_COUNT))
    starts = range(before, len(points), size)
    rows: list[dict[str, Any]] = []
    alone, threads_ms, expected = lw.Monitor(rule), list[float](), []
    alone.load(points[:before], labels[:before])
    for start in starts:
        part = slice(start, start + size)
        expected.append(_timed(threads_ms, alone.observe_many, points[part], labels[part]))
    pairs = sum(one.pairs for one in expected)
    oracle.require(pairs > 0, "nothing was found")
    for shards in (1, 2):
        with (
            tempfile.TemporaryDirectory(dir=scratch()) as folder,
            lw.cluster(
                Path(folder) / "ledger",
                rule,
                shards=shards,
                segment_rows=max(64, before // (8 * shards)),
                micro_batch=size,
                durability="off",
            ) as cluster,
        ):
            cluster.load(points[:before], labels[:before])
            processes = cluster._shards.fleet.backend.processes()
            spent, worked = list[float](), []
            for i, start in enumerate(starts):
                part = slice(start, start + size)
                began = [cpu_seconds(process) for process in processes]
                found = _timed(spent, cluster.observe_many, points[part], labels[part])
                worked.append([cpu_seconds(process) for process in processes])
                worked[-1] = [after - was for after, was in zip(worked[-1], began, strict=True)]
                _alike(found, expected[i])
            batch_ms = float(np.median(spent[LONG_SETTLING:]))
            first = rows[0]["batch_ms"] if rows else batch_ms
            each = 1e3 * np.mean(worked[LONG_SETTLING:], axis=0)
            rows.append(
                {
                    "rows": before,
                    "shards": shards,
                    "batch_ms": batch_ms,
                    "work_ms": float(each.max()),
                    "times": first / batch_ms,
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


def losses(given: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds from a kill to the next answer, and rows that are replayed a second."""
    scale = min(1.0, given["scale"])
    before = max(4_000, int(REPLAYED * scale))
    points, labels = _stream(before + 100)
    rule, rows = lw.Rule("linf", EPSILON), []
    alone = lw.Monitor(rule)
    alone.load(points[:before], labels[:before])
    expected = alone.observe_many(points[before:], labels[before:])
    for shards in (1, 2):
        with (
            tempfile.TemporaryDirectory(dir=scratch()) as folder,
            lw.cluster(
                Path(folder) / "ledger",
                rule,
                shards=shards,
                segment_rows=max(64, before // (8 * shards)),
                durability="off",
            ) as cluster,
        ):
            cluster.load(points[:before], labels[:before])
            cluster.check(points[0], labels[0])
            fleet = cluster._shards.fleet
            os.kill(fleet.backend.processes()[0], signal.SIGKILL)
            began = time.monotonic()
            _alike(cluster.observe_many(points[before:], labels[before:]), expected)
            rows.append(
                {
                    "shards": shards,
                    "rows": fleet.replayed,
                    "answered_s": time.monotonic() - began,
                    "replay_s": fleet.replay_seconds,
                    "rows_per_second": fleet.replayed / fleet.replay_seconds,
                }
            )
    return {"rows": rows}


def stall(given: Mapping[str, Any]) -> dict[str, Any]:
    """Memory of the coordinator while a shard stands still and decisions keep coming."""
    scale = min(1.0, given["scale"])
    count = max(5_000, int(200_000 * scale))
    points, labels = _stream(count)
    rule = lw.Rule("linf", EPSILON / 4)
    alone = lw.Monitor(rule)
    expected = alone.observe_many(points, labels)
    with (
        tempfile.TemporaryDirectory(dir=scratch()) as folder,
        lw.cluster(
            Path(folder) / "ledger", rule, shards=2, segment_rows=1_024, durability="off"
        ) as cluster,
    ):
        cluster.observe_many(points[:4_096], labels[:4_096])
        process = cluster._shards.fleet.backend.processes()[0]
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
    return {"rows": [{"before_mb": before / 1e6, "during_mb": during / 1e6}]}
