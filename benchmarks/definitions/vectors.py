"""Vectors in memory: beside neighbour searches, one by one, with growth, threads and labels."""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Mapping
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle, workloads
from benchmarks.beside import SHARE, Workload, build_peers, compare, wide_check
from benchmarks.contenders import Question, judge_all, warm_up
from benchmarks.harness import Answer, Row, Setting, Skipped, address, benchmark
from benchmarks.measure import (
    machine,
    medians,
    percentiles_us,
    rss_bytes,
    single_calls,
    time_in_turns,
    timed,
    wall_us,
    worst_pause_us,
)
from benchmarks.processes import call
from benchmarks.workloads import ACS_FILE, FRESH, SEED

Array = NDArray[Any]
WIDTH = 12
MILLION = 1_000_000


@benchmark("Beside neighbour searches, HIGGS-like rows")
def higgs(setting: Setting) -> Answer:
    """How does a decision among a million compare with a neighbour search?

    Microseconds per decision or query, medians; percentiles of one `observe` after another.

    likewise starts empty and compares and inserts every row; the others were built over the same
    rows beforehand and only search. They return all neighbours, whatever the label.

    FAISS and scikit-learn are timed on a few queries only, because of their time.
    """
    source = setting.rows_source()
    n = setting.rows(MILLION)
    rows, checks = [], []
    # columns, metric, radii that are timed, a wider one where every answer can be checked
    for columns, metric, radii, wide in (
        (12, "linf", (0.01, 0.025, 0.05), 0.1),
        (24, "linf", (0.01, 0.025, 0.05), 0.2),
        (12, "l2", (0.05,), 0.2),
    ):
        points, outputs = source.rows(n, columns)
        fresh = source.rows(5_000, columns, FRESH)
        peers = build_peers(setting, points, metric)
        load = Workload(f"{source.name} × {columns}", points, outputs, *fresh, peers)
        for epsilon in radii:
            row, checked = compare(setting, Question(metric, epsilon), load)
            rows.append(row)
            checks.append(checked)
        checks.append(wide_check(Question(metric, radii[-1]), wide, load))
    return Answer({"contenders": rows}, checks)


@benchmark("Beside neighbour searches, American Community Survey")
def acs(setting: Setting) -> Answer:
    """207,546 people × 16: real decisions, many exact duplicates.

    Microseconds per decision or query, medians; percentiles of one `observe` after another.

    Columns are min-max scaled. The queries are rows of the stream, drawn at random.
    """
    points, outputs = workloads.acs(setting.data_file(ACS_FILE))
    n = setting.rows(len(points))
    points, outputs = points[:n], outputs[:n]
    drawn = np.random.default_rng(SEED).choice(n, min(2_000, n), replace=False)
    peers = build_peers(setting, points, "linf")
    load = Workload("ACS × 16", points, outputs, points[drawn], outputs[drawn], peers)
    rows, checks = [], []
    for epsilon in (0.02, 0.1):  # one row in a hundred is flagged; one in four, with many pairs
        row, checked = compare(setting, Question("linf", epsilon), load)
        rows.append(row)
        checks.append(checked)
    checks.append(wide_check(Question("linf", 0.02), 0.05, load))
    return Answer({"contenders": rows}, checks)


SINGLE_EPSILON = 0.025


@benchmark("Single decisions from Python, 12 columns, L∞ ε=0.025")
def single(setting: Setting) -> Answer:
    """How long is one `observe` from Python, how long at worst, how much above its kernel?

    Microseconds of one `observe`, its Verdict included. Percentiles are medians of the runs; max
    is the worst of all runs. A stall that comes from the machine falls on another row the next
    time, so repeated_max_us is the largest time that one row took in every run. pause_us is the
    longest pause of an idle loop.

    The kernel is timed on the last rows of the shuffled stream.
    """
    n = setting.rows(MILLION)
    points, outputs = setting.rows_source().rows(n, WIDTH)
    question = Question("linf", SINGLE_EPSILON)
    warm_up(question, points, outputs)
    rows, checks, above = [], [], {}
    for arrivals, stream in (
        ("shuffled", points),
        ("drifting", workloads.drifting(points)),
        # Near is exactly the row before, so the witnesses can be counted without any index.
        ("sorted line", workloads.sorted_line(n, WIDTH, step=0.8 * SINGLE_EPSILON)),
    ):
        verdicts = question.monitor().observe_many(stream, outputs, threads=1)
        if arrivals == "sorted line":
            changes = int(np.count_nonzero(np.diff(outputs)))
            oracle.require(verdicts.pairs == changes, f"{verdicts.pairs} pairs, not {changes}")
        runs = []
        for _ in range(setting.rounds):
            run = single_calls(question.monitor().observe, stream, outputs)
            oracle.require(np.array_equal(run.counts, verdicts.counts), "other counts by observe")
            runs.append(run)
        each = [run.percentiles() for run in runs]
        slowest = np.min([run.nanoseconds for run in runs], axis=0)
        middle = medians(each)
        pause_us = worst_pause_us(float(runs[0].nanoseconds.sum()) / 1e9)
        rows.append(
            {
                "arrivals": arrivals,
                "rows": n,
                "flagged": int(np.count_nonzero(verdicts.violations)),
                "pairs": int(verdicts.pairs),
                **middle,
                "repeated_max_us": float(slowest.max()) / 1e3,
                "pause_us": pause_us,
                "above_pause_ms": (middle["max_us"] - pause_us) / 1e3,
            }
        )
        checks.append(f"{arrivals}: " + oracle.prove(question, stream, outputs))
        if arrivals == "shuffled":
            above = _above_kernel(question, points, outputs, [run.us for run in runs])
    return Answer({"single": rows, "kernel": [above]}, checks)


def _above_kernel(question: Question, points: Array, outputs: Array, runs: list[Array]) -> Row:
    """Tell how much of one `observe` at the end of the stream is Python around the kernel."""
    tail = min(max(2_000, len(points) // 50), len(points) // 2)
    ends = np.concatenate([run[-tail:] for run in runs])
    kernel = _kernel_us(question, points, outputs, tail)
    p50, mean = float(np.median(ends)), float(ends.mean())
    return {
        "rows": len(points),
        "p50_us": p50,
        "mean_us": mean,
        "kernel_us": kernel,
        "above_p50_us": p50 - kernel,
        "above_mean_us": mean - kernel,
    }


def _kernel_us(question: Question, points: Array, outputs: Array, tail: int) -> float:
    """Return the p50 of the call into the kernel alone, on the same rows at the same size."""
    monitor: Any = question.monitor()
    start = len(points) - tail
    monitor.observe_many(points[:start], outputs[:start], threads=1)
    engine = monitor.core.engine
    index, read, history = engine.index, engine.outputs.encode, engine.history
    times = np.empty(tail, dtype=np.int64)
    for i, (x, z) in enumerate(zip(points[start:], outputs[start:].tolist(), strict=True)):
        history.ensure(1)
        history.rows[history.total] = x
        read(z, index.given)
        begin = perf_counter_ns()
        index.observe()
        times[i] = perf_counter_ns() - begin
    return float(np.median(times)) / 1e3


CLOUD, SPREAD = 44, 0.02  # rows around one real row, and how far off
FEW, MANY = 4, 16  # witnesses of the decisions that are looked at


@benchmark("One `observe` with witnesses, 12 columns, L∞ ε=0.05")
def witnesses(setting: Setting) -> Answer:
    """Time one `observe` that finds some eight witnesses in a history of a million.

    Microseconds, the Verdict included. Rows lie in small clouds around real ones and have made-up
    labels; decisions with 4 to 16 witnesses are looked at.
    """
    n, queries = setting.rows(MILLION), setting.rows(20_000, least=500)
    random = np.random.default_rng(17)
    centres, _ = setting.rows_source().rows(max(2, n // CLOUD), WIDTH)
    total = n + queries * setting.rounds
    points = centres[random.integers(0, len(centres), total)]
    points = (points + random.normal(0.0, SPREAD, points.shape)).astype(np.float32)
    outputs = random.integers(0, 2, total)
    question = Question("linf", 0.05)
    warm_up(question, points, outputs)
    monitor = question.monitor()
    monitor.load(points[:n], outputs[:n])
    each, counts = [], []
    for start in range(n, total, queries):
        part = slice(start, start + queries)
        run = single_calls(monitor.observe, points[part], outputs[part])
        some = (run.counts >= FEW) & (run.counts <= MANY)
        oracle.require(bool(some.any()), "no decision has a few witnesses")
        counts.append(run.counts[some])
        each.append(percentiles_us(run.us[some]))
    found = np.concatenate(counts)
    row = {
        "rows": n,
        "looked_at": len(found),
        "witnesses": float(found.mean()),
        **medians(each),
    }
    return Answer({"witnesses": [row]}, [oracle.prove(question, points, outputs)])


LOOKUPS = 300


@benchmark("How similar cases were decided, HIGGS-like rows")
def lookups(setting: Setting) -> Answer:
    """What does one `like` cost beside one query of a neighbour search over the same rows?

    Microseconds of one call from Python, medians. `like` also sorts, counts the outputs of all and
    looks up those of the 100 nearest; a neighbour search names rows. The peers were built before.
    """
    source, n = setting.rows_source(), setting.rows(MILLION)
    rows, checks = [], []
    for metric, radii in (("linf", (0.025, 0.1)), ("l2", (0.05, 0.2))):
        points, outputs = source.rows(n, WIDTH)
        fresh, _ = source.rows(setting.rows(LOOKUPS, least=40), WIDTH, FRESH)
        peers = build_peers(setting, points, metric)
        for epsilon in radii:
            question = Question(metric, epsilon)
            monitor = question.monitor()
            monitor.load(points, outputs)
            monitor.like(fresh[0])
            found, us = _time_each(lambda x, ask=monitor: ask.like(x, limit=100), fresh)
            row: Row = {"metric": metric, "epsilon": epsilon, "rows": n}
            row |= {"near": float(np.mean([one.near for one in found])), **percentiles_us(us)}
            for peer in peers:
                part = fresh[: max(10, int(len(fresh) * SHARE[peer.package]))]
                reach = question.reach * (1 + peer.margin)
                answers, took = _time_each(
                    lambda x, ask=peer, reach=reach: ask.search(x[None], reach), part
                )
                row[f"{peer.package}_us"] = float(np.median(took))
                for x, mine, answer in zip(part, found, answers, strict=False):
                    proposed = points[np.asarray(peer.rows(answer)[0], dtype=np.int64)]
                    near = oracle.distances(metric, proposed, x) <= question.reach
                    oracle.require(near.sum() == mine.near, f"{peer.name} finds other rows")
            if "scipy_us" in row:
                row["ratio"] = row["scipy_us"] / row["p50_us"]
            rows.append(row)
            checks.append(f"{question.label}: {len(fresh)} look-ups name as many rows as peers do")
    return Answer({"lookups": rows}, checks)


def _time_each(ask: Any, inputs: Array) -> tuple[list[Any], Array]:
    """Return what each call answers, and the microseconds that it takes."""
    answers, took = [], []
    for x in inputs:
        begin = perf_counter_ns()
        answers.append(ask(x))
        took.append(perf_counter_ns() - begin)
    return answers, np.array(took) / 1e3


@benchmark("Insertion, rows drifting in every coordinate")
def arrivals(setting: Setting) -> Answer:
    """Does the order of arrival unbalance the tree, and what does that cost?

    `observe_many`, one thread, ε=1e-9; microseconds per row, beside the same rows shuffled.

    Drifting: over the stream every coordinate moves by ten times its whole range. Sorted line:
    points of the diagonal, in order. Processor time counts background threads.
    """
    n = setting.rows(MILLION)
    points, outputs = setting.rows_source().rows(n, WIDTH)
    # A query of so small a radius visits next to nothing, so the time is that of insertion.
    question = Question("linf", 1e-9)
    warm_up(question, points, outputs)
    rows, checks = [], []
    for name, stream in (
        ("drifting", workloads.drifting(points)),
        ("sorted line", workloads.sorted_line(n, WIDTH, step=1e-5)),
    ):
        depth: dict[str, int] = {}

        def keep(which: str, result: Any, depth: dict[str, int] = depth) -> None:
            monitor, verdicts = result
            depth[which] = int(monitor.explain().depth)
            oracle.require(len(monitor) == n, f"{which}: rows are missing")
            oracle.require(verdicts.pairs == 0, f"{which}: no two rows are that near")

        orders = {"arrivals": stream, "shuffled": workloads.shuffled(stream)}
        runs = {which: partial(judge_all, question, x, outputs) for which, x in orders.items()}
        times = time_in_turns(runs, setting.rounds, keep)
        mine, control = (wall_us(times[which], n) for which in orders)
        rows.append(
            {
                "arrivals": name,
                "rows": n,
                **mine,
                "shuffled_us": control["us"],
                "ratio": mine["us"] / control["us"],
                "cpu_ratio": mine["cpu_us"] / control["cpu_us"],
                "depth": depth["arrivals"],
                "shuffled_depth": depth["shuffled"],
                "depth_limit": 3 * math.log2(n),
            }
        )
        checks.append(f"{name}: " + oracle.prove(question.at(0.025), stream, outputs))
    return Answer({"insertion": rows}, checks)


BATCH = 1_000
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SMALL, SMALL_ROUNDS = 30_000, 9  # small histories have one batch a run, so they get more runs


@benchmark("Growth, 12 columns, L∞ ε=0.01")
def growth(setting: Setting) -> Answer:
    """Does a decision cost more as the history grows? Batches of 1,000 rows around each size.

    Time of one decision in a history of that size.
    """
    n = setting.rows(SIZES[-1])
    sizes = [size for size in SIZES if size <= n]
    points, outputs = setting.rows_source().rows(_window(sizes[-1])[1], WIDTH)
    question = Question("linf", 0.01)
    warm_up(question, points, outputs)
    batches: dict[int, list[float]] = {size: [] for size in sizes}

    def grow(upto: list[int]) -> None:
        monitor, done = question.monitor(), 0
        for size in upto:
            start, stop = _window(size)
            if start > done:
                monitor.observe_many(points[done:start], outputs[done:start], threads=1)
            for a in range(start, stop, BATCH):
                x, z = points[a : a + BATCH], outputs[a : a + BATCH]
                _, timing = timed(monitor.observe_many, x, z, threads=1)
                batches[size].append(timing.wall / BATCH * 1e6)
            done = stop
        oracle.require(len(monitor) == done, "rows are missing")

    for _ in range(SMALL_ROUNDS):
        grow([size for size in sizes if size <= SMALL])
    for _ in range(setting.rounds):
        grow(sizes)
    rows: list[Row] = [
        {
            "rows": size,
            "us": statistics.median(each),
            "us_low": min(each),
            "us_high": max(each),
            "batches": len(each),
        }
        for size, each in batches.items()
    ]
    us = {row["rows"]: row["us"] for row in rows}
    ratio = us[MILLION] / us[10_000] if MILLION in us else None  # from 10,000 to a million rows
    checks = [oracle.prove(question, points, outputs)]
    return Answer({"curve": rows, "growth": [{"ratio": ratio}]}, checks)


def _window(size: int) -> tuple[int, int]:
    """Return the first and last row of the batches around a size."""
    batches = max(1, size // 50 // BATCH)
    start = size - batches * BATCH // 2
    return start, start + batches * BATCH


@benchmark("Threads, L∞, 12 columns")
def threads(setting: Setting) -> Answer:
    """How much faster is a batch on two threads, and is it the same batch?

    `observe_many`, microseconds per decision.
    """
    if machine()["cores"] < 2:
        raise Skipped("this machine has one core")
    n = setting.rows(MILLION)
    points, outputs = setting.rows_source().rows(n, WIDTH)
    rows: list[Row] = []
    checks: list[str] = []
    for epsilon in (0.01, 0.05):
        question = Question("linf", epsilon)
        warm_up(question, points, outputs)
        first: Row = {}

        def keep(count: str, result: Any, first: Row = first) -> None:
            _, verdicts = result
            known = first.setdefault("verdicts", verdicts)
            same = known.witnesses == verdicts.witnesses and all(
                np.array_equal(getattr(known, part), getattr(verdicts, part))
                for part in ("offsets", "counts")
            )
            oracle.require(same, f"{count} threads: other witnesses")

        runs = {
            str(count): partial(judge_all, question, points, outputs, count) for count in (1, 2)
        }
        times = time_in_turns(runs, setting.rounds + 2, keep)
        pairs = int(first["verdicts"].pairs)
        us = {count: wall_us(spent, n) for count, spent in times.items()}
        rows += [
            {
                "epsilon": epsilon,
                "threads": int(count),
                "rows": n,
                "pairs": pairs,
                **one,
                "speedup": us["1"]["us"] / one["us"],
            }
            for count, one in us.items()
        ]
        checks.append(f"ε={epsilon:g}: the same {pairs:,} pairs, row by row, in every run")
        checks.append(oracle.prove(question, points, outputs))
    return Answer({"threads": rows}, checks)


@benchmark("Loading a history, 12 columns")
def load(setting: Setting) -> Answer:
    """How long does it take to remember a history that need not be judged?

    `load` into an empty monitor, all cores.
    """
    row, checked = _measure_load(setting, setting.rows(MILLION), setting.rounds)
    return Answer({"load": [row]}, [checked])


def _measure_load(setting: Setting, n: int, rounds: int) -> tuple[Row, str]:
    """Load `n` rows into fresh monitors; return the row, and what was checked."""
    source = setting.rows_source()
    points, outputs = source.rows(n, WIDTH)
    question = Question("linf", 0.1)  # so wide that fresh rows have witnesses, to check the tree
    warm_up(question, points, outputs)
    times = []
    monitor: Any = None
    for _ in range(rounds):
        monitor = question.monitor()
        rows, timing = timed(monitor.load, points, outputs)
        oracle.require(len(monitor) == n and rows == range(n), "rows are missing")
        times.append(timing)
    fresh, labels = source.rows(200, WIDTH, FRESH)
    verdicts = [monitor.check(x, z) for x, z in zip(fresh, labels.tolist(), strict=True)]
    order = np.argsort([-len(verdict.witnesses) for verdict in verdicts], kind="stable")
    found = 0
    for i in order[:8].tolist():  # the most eventful ones, held against looking at every row
        expected = oracle.witnesses(question, points, outputs, fresh[i], labels[i])
        same = np.array_equal(verdicts[i].witnesses.rows, expected)
        oracle.require(same, f"fresh row {i}: other witnesses")
        found += len(expected)
    oracle.require(found > 0, "nothing found, so nothing was checked")
    seconds = [timing.wall for timing in times]
    row = {
        "rows": n,
        "seconds": statistics.median(seconds),
        "seconds_low": min(seconds),
        "seconds_high": max(seconds),
        "cpu_seconds": statistics.median(timing.cpu for timing in times),
        "rounds": rounds,
    }
    return row, f"{n:,} rows: 8 fresh rows have {found:,} witnesses, as by brute force"


@benchmark("Ten million decisions, 12 columns, L∞ ε=0.05")
def huge(setting: Setting) -> Answer:
    """Ten million decisions: the time of each half million, memory on the way, and `load`.

    `observe_many`, one thread, block by block; `load` into an empty monitor, all cores.
    """
    if not setting.huge:
        raise Skipped("measured only with --huge")
    n = setting.rows(10_000_000, least=20_000)
    points, outputs = setting.rows_source().rows(n, WIDTH)
    question = Question("linf", 0.05)
    warm_up(question, points, outputs)
    before, monitor, block = rss_bytes(), question.monitor(), n // 20
    rows: list[Row] = []
    eventful, pairs, seconds = [], 0, 0.0
    for start in range(0, block * 20, block):
        x, z = points[start : start + block], outputs[start : start + block]
        verdicts, timing = timed(monitor.observe_many, x, z, threads=1)
        pairs += int(verdicts.pairs)
        seconds += timing.wall
        for i in np.flatnonzero(verdicts.violations)[-2:].tolist():
            eventful.append((start + i, verdicts[i].witnesses.rows.copy()))
        del verdicts
        rows.append(
            {
                "rows": start + block,
                "us": timing.wall / block * 1e6,
                "cpu_us": timing.cpu / block * 1e6,
                "pairs": pairs,
                "seconds": seconds,
                "rss_gb": (rss_bytes() - before) / 2**30,
            }
        )
    last = eventful[-10:]
    for row, found in last:
        expected = oracle.witnesses(
            question, points[:row], outputs[:row], points[row], outputs[row]
        )
        oracle.require(np.array_equal(found, expected), f"row {row}: other witnesses")
    checked = (
        f"{pairs:,} pairs; the last {len(last)} flagged rows looked at have the witnesses that"
        " brute force over all earlier rows gives"
    )
    checks = [checked if last else oracle.prove(question, points, outputs)]
    del monitor
    loaded, told = _measure_load(setting, n, rounds=2)
    return Answer(
        {"curve": rows, "load": [loaded]},
        [*checks, told],
        [f"{n:,} rows in {seconds:,.1f} seconds, insertion included."],
    )


@benchmark("Many labels, 12 columns")
def labels(setting: Setting) -> Answer:
    """What do a thousand labels instead of two cost, on the same rows?

    `observe_many`, one thread, microseconds per decision. The thousand labels are drawn at
    random, so nearly every near pair differs.
    """
    n = setting.rows(MILLION)
    points, two = setting.rows_source().rows(n, WIDTH)
    outputs = {"two": two, "many": workloads.many_labels(two, 1_000)}
    rows = []
    for epsilon in (0.01, 0.025, 0.05):
        question = Question("linf", epsilon)
        pairs: dict[str, int] = {}
        for some in outputs.values():
            warm_up(question, points, some)

        def keep(which: str, result: Any, pairs: dict[str, int] = pairs) -> None:
            _, verdicts = result
            known = pairs.setdefault(which, int(verdicts.pairs))
            oracle.require(known == verdicts.pairs, f"{which}: runs disagree on the pairs")

        runs = {which: partial(judge_all, question, points, z) for which, z in outputs.items()}
        times = time_in_turns(runs, setting.rounds, keep)
        two_us, many_us = (wall_us(times[which], n)["us"] for which in runs)
        rows.append(
            {
                "question": question.label,
                "epsilon": epsilon,
                "rows": n,
                "two_us": two_us,
                "many_us": many_us,
                "ratio": many_us / two_us,
                "two_pairs": pairs["two"],
                "many_pairs": pairs["many"],
            }
        )
    checks = [
        f"{which} labels: " + oracle.prove(Question("linf", 0.05), points, some)
        for which, some in outputs.items()
    ]
    return Answer({"labels": rows, "worst": [{"ratio": max(row["ratio"] for row in rows)}]}, checks)


@benchmark("Memory, float32")
def memory(setting: Setting) -> Answer:
    """How many bytes does a decision take, by its own account and by the process's?

    Bytes per decision after `observe_many`, in a fresh process: by `explain()`, and by growth of
    the process.
    """
    source = setting.rows_source()
    n = setting.rows(MILLION, least=10_000)
    made_up = source.name == workloads.generated().name
    given = {"folder": None if made_up else str(setting.data), "rows": n, "columns": WIDTH}
    found = call(address(measure_memory), given)
    oracle.require(found.pop("remembered") == n, "rows are missing")
    oracle.require(found.pop("witnesses") > 0, "the wide check found nothing")
    largest = max(found["explained_bytes"], found["rss_bytes"])
    row = {"rows": n, "columns": WIDTH, **found, "largest_bytes": largest}
    return Answer(
        {"memory": [row]},
        [f"{n:,} rows remembered; checks of stored rows with the other label find them"],
    )


def measure_memory(given: Mapping[str, Any]) -> Row:
    """Return bytes per decision, and whether stored rows are found again."""
    rows = given["rows"]
    points, outputs = workloads.mix_of(given["folder"]).rows(rows, given["columns"])
    question = Question("linf", 0.025)
    warm_up(question, points, outputs)
    gc.collect()
    before = rss_bytes()
    monitor = question.monitor()
    monitor.observe_many(points, outputs, threads=1)  # the verdicts are dropped at once
    gc.collect()
    grown = rss_bytes() - before
    found = 0
    for i in range(0, rows, max(1, rows // 20)):
        found += i in monitor.check(points[i], 1 - int(outputs[i])).witnesses.rows
    return {
        "remembered": len(monitor),
        "witnesses": int(found),
        "explained_bytes": float(monitor.explain().bytes_per_decision),
        "rss_bytes": grown / rows,
    }
