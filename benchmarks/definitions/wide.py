"""Pictures: beside FAISS, with rows on disk, and how time grows with the number of coordinates.

Each storage has a process of its own: pictures as they are (uint8), and scaled to [0, 1] (float32).
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.contenders import Question, explained, warm_up
from benchmarks.flat import rows_of
from benchmarks.harness import TRIAL, Answer, Row, Setting, Skipped, address, benchmark
from benchmarks.measure import (
    fresh_memory_us,
    medians,
    peak_rss_bytes,
    rss_bytes,
    single_calls,
    time_calls,
    timed,
    wall_us,
)
from benchmarks.neighbours import NOBODY, near_rows, put_beside, releases, same_nearest
from benchmarks.pictures import CIFAR_FILE, EVERY, Scenes, album, as_storage, radius_of
from benchmarks.processes import call, scratch

Array = NDArray[Any]
STORAGES = ("uint8", "float32")


def _question(levels: int, storage: str) -> Question:
    slack = 0.0 if storage == "uint8" else 1e-5
    return Question("linf", radius_of(levels, storage), slack)


CIFAR_LEVELS = 8


@benchmark("Pictures, 20,000 × 3,072, L∞ within 8 of 255")
def pictures(setting: Setting) -> Answer:
    """How does a decision on a picture compare with FAISS's flat search?

    Microseconds per decision or query, one thread; mean_us and percentiles of `observe`, us of
    `observe_many`. share_visited and rows_read: work of the last 1,000 decisions. Resident memory
    is with the pictures given; fresh_us is writing such a row to fresh memory.

    The 3,000 real pictures in order, then one of them shifted by up to 4 pixels with noise; every
    20th row is an earlier one within 8 levels with another decision. likewise starts empty and
    compares and inserts every row; its times are means over the whole run, except percentiles
    (medians of the runs) and max (the worst of all).
    """
    folder = setting.folder_of(CIFAR_FILE)
    n = setting.rows(20_000, least=600)
    shape = {"kind": "album", "folder": folder, "levels": CIFAR_LEVELS}
    source = {**shape, "rows": n, "queries": EVERY}  # one of the fresh pictures is planted
    radius = radius_of(CIFAR_LEVELS, "float32") * (1 + 1e-5)
    flat = {
        "source": source,
        "metric": "linf",
        "radius": radius,
        "batch": 1,
        "rounds": setting.rounds,
        "answers": EVERY,
    }
    faiss = setting.beside(flat)
    rows, checks = [], []
    for storage in STORAGES:
        given = {**source, "storage": storage, "rounds": setting.rounds}
        row = setting.alone(measure_pictures, given)
        near = row.pop("near")
        for one in faiss.values():
            same_nearest(near, one["found"], radius)
        checks.append(
            f"{storage}: all {n:,} verdicts name the witnesses that looking at every row gives,"
            f" {row['pairs']:,} of them, by `observe` and by `observe_many`"
        )
        rows.append(row)
    faiss = setting.beside(flat, before=faiss)
    for row in rows:
        put_beside(row, faiss, {"ratio": row["mean_us"], "many_ratio": row["us"]})
    if faiss:
        checks.append(f"{EVERY} fresh pictures: FAISS's nearest is near where likewise says so")
    return Answer(
        {"pictures": rows},
        checks,
        [
            f"FAISS ({releases(faiss)}) has all rows as float32 and is asked for the nearest"
            " one, or for all within the radius where the release can; one fresh picture at a"
            " time, the best of one and two threads."
        ],
    )


def measure_pictures(given: Mapping[str, Any]) -> Row:
    """Measure likewise on one storage; return the row, and what is near the fresh pictures."""
    n, storage = given["rows"], given["storage"]
    made = album(given["folder"], given["levels"])
    pictures, outputs = made.rows(0, n + given["queries"])
    points = as_storage(pictures, storage)
    stream, labels = points[:n], outputs[:n]
    question = _question(given["levels"], storage)
    warm_up(question, stream, labels)
    before = rss_bytes()
    monitor: Any = question.monitor()
    monitor.observe_many(stream, labels, threads=1)  # not timed: it may compile a little more
    grown = rss_bytes() - before
    many, singles = [], []
    verdicts: Any = None
    for _ in range(given["rounds"]):
        monitor = question.monitor()
        verdicts, timing = timed(monitor.observe_many, stream, labels, threads=1)
        many.append(timing)
        run = single_calls(question.monitor().observe, stream, labels)
        oracle.require(np.array_equal(run.counts, verdicts.counts), "other counts by observe")
        singles.append(run.percentiles())
    oracle.require_all(question, stream, labels, verdicts)
    oracle.require(verdicts.pairs >= n // EVERY, "a planted row was missed")
    return {
        "source": made.name,
        "storage": storage,
        "rows": n,
        "pairs": int(verdicts.pairs),
        "flagged": int(np.count_nonzero(verdicts.violations)),
        **wall_us(many, n),
        **medians(singles),
        **explained(monitor),
        "fresh_us": fresh_memory_us(points[0].nbytes),
        "grown_mb": grown / 1e6,
        "rss_mb": rss_bytes() / 1e6,
        "peak_mb": peak_rss_bytes() / 1e6,
        "near": near_rows(monitor, points[n:]),
    }


SIDE, CHANNELS, LEVELS = 224, 3, 4
WARM_ROWS = 300
SAMPLE = 2  # rows held against every row of the file: the last planted one, and the last of all


@benchmark("Pictures of the size of ImageNet's, 10,000 × 150,528, rows on disk")
def imagenet_size(setting: Setting) -> Answer:
    """How long does a decision take, and how much memory, when rows are on disk?

    One `observe` at a time, L∞ within 4 of 255.

    Made-up pictures (32 scenes of smooth waves, shifted, faded, with noise), one at a time and
    off the clock; every 20th is an earlier one within 4 levels with another decision.

    Resident memory is that of the whole process, Python, the compiler and mapped pages of the
    file included. The peak is the larger of a look after every decision and the kernel's own
    account.
    """
    n = setting.rows(10_000, least=2 * EVERY)
    rows = []
    folder = scratch()
    for storage in STORAGES:
        needed = n * SIDE * SIDE * CHANNELS * np.dtype(storage).itemsize
        if shutil.disk_usage(folder).free < needed + 2e9:
            raise Skipped(f"{needed / 1e9:.1f} GB of rows do not fit on this disk")
        with tempfile.TemporaryDirectory(dir=folder) as place:
            given = {"rows": n, "storage": storage, "folder": place}
            if storage == "uint8":  # even a trial has one process of its own, to show that it runs
                rows.append(call(address(measure_on_disk), given))
            else:
                rows.append(setting.alone(measure_on_disk, given))
    return Answer(
        {"pictures": rows},
        [
            f"{row['storage']}: every verdict is as planted ({row['pairs']:,} pairs); the file on"
            f" disk holds the rows, and looking at all of them confirms {row['confirmed']} rows"
            for row in rows
        ],
    )


def measure_on_disk(given: Mapping[str, Any]) -> Row:
    """Measure the whole run of one storage.

    A picture is made just before it is observed, off the clock, so the process never holds more
    than one of them besides what the monitor keeps.
    """
    n, storage, folder = given["rows"], given["storage"], Path(given["folder"])
    stream = Scenes(LEVELS, SIDE, CHANNELS)
    question = _question(LEVELS, storage)
    with question.monitor(row_file=str(folder / "warm")) as monitor:
        for x, z in _decisions(stream, storage, 0, min(n, WARM_ROWS)):
            monitor.observe(x, z)
    (folder / "warm").unlink()

    before = peak = rss_bytes()
    path, found = folder / "rows", []

    def keep(verdict: Any) -> int:
        nonlocal peak
        peak = max(peak, rss_bytes())
        found.append(verdict.witnesses.rows.tolist())
        return len(verdict.witnesses)

    with question.monitor(row_file=str(path)) as monitor:
        run = time_calls(monitor.observe, _decisions(stream, storage, 0, n), keep)
        after, highest = rss_bytes(), peak_rss_bytes()
        index = explained(monitor)
    planted = [_planted(stream, i) for i in range(n)]
    oracle.require(found == planted, "other witnesses than planted")
    _confirm(question, stream, storage, path, planted)
    times = run.percentiles()
    return {
        "storage": storage,
        "rows": n,
        "width": SIDE * SIDE * CHANNELS,
        "pairs": int(run.counts.sum()),
        **{key.replace("_us", "_ms"): us and us / 1e3 for key, us in times.items()},
        "seconds": float(run.nanoseconds.sum()) / 1e9,
        "before_gb": before / 1e9,
        "rss_gb": after / 1e9,
        "peak_gb": max(peak, highest) / 1e9,
        "file_gb": path.stat().st_size / 1e9,
        **index,
        "confirmed": SAMPLE,
    }


def _decisions(stream: Scenes, storage: str, start: int, stop: int) -> Iterator[tuple[Array, int]]:
    for i in range(start, stop):
        row = stream.row(i)
        yield as_storage(row.picture, storage), row.decision


def _planted(stream: Scenes, i: int) -> list[int]:
    """Return the witnesses that row i has by construction."""
    origin = stream.row(i).origin if i % EVERY == EVERY - 1 else None
    return [] if origin is None else [origin]


def _confirm(
    question: Question, stream: Scenes, storage: str, path: Path, planted: list[list[int]]
) -> None:
    """Require that looking at every row of the file gives what was planted."""
    n = len(planted)
    kept = np.memmap(path, dtype=storage, mode="r").reshape(n, -1)
    outputs = np.array([stream.row(i).decision for i in range(n)])
    for i in ((n // EVERY) * EVERY - 1, n - 1):
        row = stream.row(i)
        x = as_storage(row.picture, storage)
        oracle.require(np.array_equal(kept[i], x.reshape(-1)), f"row {i} is not as it came")
        found = oracle.witnesses(question, kept[:i], outputs[:i], x, row.decision).tolist()
        oracle.require(found == planted[i], f"row {i}: the file has {found}, not {planted[i]}")


SIDES, TRIAL_SIDES = (2, 4, 8, 16, 32, 64, 128, 256), 4
FULL, BUDGET_BYTES = 100_000, 4_000_000_000
SETTLE, TIMED, CHECKED = 2_000, 500, 100
SCIPY_SECONDS = 20.0, 5.0  # a build or a query slower than this is the last


@benchmark("Dimensions, 4 to 65,536 coordinates, L∞ within 4 of 255")
def dimensions(setting: Setting) -> Answer:
    """How does a decision's time grow with the number of coordinates? The paper's Figure 5.

    Microseconds of one decision or query; resident memory of each process. Steps: from one width
    to the next, the ratio of the times over the ratio of the widths: 1 is linear, less is better.

    Made-up square pictures, grey: 32 scenes of smooth waves (a wave twice as fine is half as
    strong), shifted, faded, with noise of 3 levels; every 20th is an earlier one within 4 levels
    with another decision.

    likewise has 100,000 rows where they fit into 4 GB, else as many as fit; the time is the mean
    of 500 `observe` after the index has settled, the median of the rounds. FAISS (the pinned
    release, the faster one here) and SciPy have as many rows as likewise has of float32. FAISS
    looks for the nearest row, SciPy for all within the radius, one fresh row at a time; SciPy
    keeps float64 and stops where a build, a query or its memory gets too large.

    Fresh memory is the time of writing one such row where the process has not written before, and
    nothing else: a part of likewise's time that no index can save.
    """
    scipy = any(peer.package == "scipy" for peer in setting.peers)
    rows: list[Row] = []
    checked = 0
    for side in SIDES[:TRIAL_SIDES] if setting.scale < TRIAL else SIDES:
        row: Row = {"width": side * side}
        near: list[list[int]] = []
        for storage in STORAGES:
            fits = BUDGET_BYTES // (side * side * np.dtype(storage).itemsize)
            given = {
                "kind": "scenes",
                "levels": LEVELS,
                "side": side,
                "channels": 1,
                "rows": min(setting.rows(FULL, least=1_000), fits),
                "queries": EVERY,  # one of them is planted
                "storage": storage,
                "rounds": setting.rounds,
            }
            one = setting.alone(measure_width, given)
            near, checked = one.pop("near"), checked + one["checked"]
            row["neighbours"] = one.pop("neighbours")
            row.update({f"{storage}_{key}": value for key, value in one.items()})
        # The peers have the same rows as float32, the last of the two.
        if "pinned" in setting.faiss:
            row.update(_nearest_by_faiss(setting, given, near))
        if scipy:
            one = setting.alone(measure_tree, given)
            oracle.require(one.pop("near") == near, f"{side}: SciPy and likewise disagree")
            row.update({f"scipy_{key}": value for key, value in one.items()})
            scipy = one["build_seconds"] < SCIPY_SECONDS[0] and one["us"] < SCIPY_SECONDS[1] * 1e6
            scipy = scipy and 4 * int(given["rows"]) * side * side * 8 <= BUDGET_BYTES
        rows.append(row)
    steps = _steps(rows)
    worst = {f"{name}_step": max(step[f"{name}_step"] for step in steps) for name in STORAGES}
    return Answer(
        {"curve": rows, "steps": steps, "worst": [worst]},
        [
            f"{checked:,} fresh rows have the near rows that looking at every row gives, over all"
            " widths; FAISS and SciPy agree on theirs"
        ],
    )


def _nearest_by_faiss(setting: Setting, given: Row, near: list[list[int]]) -> Row:
    radius = radius_of(LEVELS, "float32") * (1 + 1e-5)
    flat = {"metric": "linf", "radius": radius, "batch": 1, "rounds": 1, "answers": EVERY}
    one = setting.beside({**flat, "source": given}, only="pinned")["pinned"]
    same_nearest(near, one["found"], radius)
    return {"faiss_us": one["us"], "faiss_rss_mb": one["rss_mb"], "faiss_best": one["best"]}


def _steps(rows: list[Row]) -> list[Row]:
    """Return the ratio of times over the ratio of widths, between neighbouring widths."""
    found = []
    for a, b in itertools.pairwise(rows):
        step = {"from": a["width"], "to": b["width"]}
        for storage in STORAGES:
            times = b[f"{storage}_us"] / a[f"{storage}_us"]
            step[f"{storage}_step"] = times / (b["width"] / a["width"])
        found.append(step)
    return found


def measure_width(given: Mapping[str, Any]) -> Row:
    """Measure likewise at one width: load, settle on an index, check, and time fresh rows.

    Before anything is timed, the near rows of fresh ones are held against looking at every row of
    the history while it is made.
    """
    n, storage = given["rows"], given["storage"]
    stream = Scenes(LEVELS, given["side"], given["channels"])
    question = _question(LEVELS, storage)
    few, labels = stream.rows(0, 200)
    warm_up(question, as_storage(few, storage), labels)
    fresh = as_storage(stream.rows(n, n + CHECKED)[0], storage)
    expected: list[list[int]] = [[] for _ in fresh]
    monitor: Any = question.monitor()
    settle = n - min(SETTLE, n // 4)
    for pictures, outputs in stream.blocks(n):
        points, start = as_storage(pictures, storage), len(monitor)
        sieve = oracle.Sieve(points)
        for x, known in zip(fresh, expected, strict=True):
            some = sieve.rows(x, question.reach, len(points))
            rows = oracle.decide(question, points, outputs, some, x, NOBODY)
            known.extend((start + rows).tolist())
        loaded = min(max(settle - start, 0), len(points))
        if loaded:
            monitor.load(points[:loaded], outputs[:loaded])
        for x, z in zip(points[loaded:], outputs[loaded:].tolist(), strict=True):
            monitor.observe(x, z)
    found = near_rows(monitor, fresh)
    oracle.require(found == expected, f"{given['side']}, {storage}: other rows are near")
    oracle.require(any(found), f"{given['side']}, {storage}: no row is near any")

    stop = n + given["rounds"] * TIMED
    us = time_calls(monitor.observe, _decisions(stream, storage, n, stop)).us.reshape(-1, TIMED)
    return {
        "rows": n,
        "us": statistics.median(us.mean(axis=1).tolist()),
        "p50_us": float(np.median(us)),
        "p99_us": float(np.percentile(us, 99)),
        "max_us": float(us.max()),
        **explained(monitor),
        "rss_mb": rss_bytes() / 1e6,
        "fresh_us": fresh_memory_us(fresh[0].nbytes),
        "checked": len(fresh),
        "neighbours": float(np.mean([len(rows) for rows in found])),
        "near": found[: given["queries"]],
    }


def measure_tree(given: Mapping[str, Any]) -> Row:
    """Ask SciPy's k-d tree over the same rows for all within the radius, one row at a time."""
    from scipy.spatial import cKDTree

    blocks, queries = rows_of(given)
    points = np.empty((given["rows"], queries.shape[1]))
    done = 0
    for block in blocks:
        points[done : done + len(block)] = block
        done += len(block)
    start = time.perf_counter()
    built = cKDTree(points)
    seconds = time.perf_counter() - start
    radius = radius_of(LEVELS, "float32") * (1 + 1e-5)
    run = time_calls(
        lambda x: built.query_ball_point(x, radius, p=np.inf, workers=1, return_sorted=False),
        ((x,) for x in queries),
        keep=sorted,
    )
    us, near = float(run.us.mean()), run.kept
    return {"us": us, "build_seconds": seconds, "rss_mb": rss_bytes() / 1e6, "near": near}
