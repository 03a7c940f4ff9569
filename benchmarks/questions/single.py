"""One `observe` after another from Python: how long, how long at worst, how much above its kernel?

Rows arrive shuffled, drifting in every coordinate, or exactly sorted along a line.
"""

from __future__ import annotations

import statistics
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, warm_up
from benchmarks.measure import single_calls, worst_pause_us
from benchmarks.workloads import drifting, sorted_line

Array = NDArray[Any]
EPSILON = 0.025
COLUMNS_WIDE = 12

COLUMNS = {
    "arrivals": "arrivals",
    "rows": "rows",
    "pairs": "pairs",
    "mean_us": "mean",
    "p50_us": "p50",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "max_us": "max",
    "repeated_max_us": "max that repeats",
    "p50_alarm_us": "p50 with witnesses",
    "pause_us": "longest pause of an idle loop",
}
KERNEL_COLUMNS = {
    "rows": "rows",
    "p50_us": "p50 of `observe`",
    "mean_us": "mean of `observe`",
    "kernel_us": "kernel",
    "above_p50_us": "p50 above kernel",
    "above_mean_us": "mean above kernel",
}


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    n = setting.rows(1_000_000)
    points, outputs = source.rows(n, COLUMNS_WIDE)
    streams = {
        "shuffled": points,
        "drifting": drifting(points),
        # Near is exactly the row before, so the witnesses can be counted without any index.
        "sorted line": sorted_line(n, COLUMNS_WIDE, step=0.8 * EPSILON),
    }
    question = Question("linf", EPSILON)
    warm_up(question, points, outputs)
    rows, checks, above = [], [], {}
    for arrivals, stream in streams.items():
        verdicts = question.monitor().observe_many(stream, outputs, threads=1)
        if arrivals == "sorted line":
            changes = int(np.count_nonzero(np.diff(outputs)))
            oracle.require(verdicts.pairs == changes, f"{verdicts.pairs} pairs, not {changes}")
        runs = []
        for _ in range(setting.rounds):
            run = single_calls(question.monitor().observe, stream, outputs)
            oracle.require(
                np.array_equal(run.counts, verdicts.counts),
                f"{arrivals}: observe and observe_many count differently",
            )
            runs.append(run)
        each = [run.percentiles() for run in runs]
        row: dict[str, Any] = {
            "arrivals": arrivals,
            "rows": n,
            "epsilon": EPSILON,
            "flagged": int(np.count_nonzero(verdicts.violations)),
            "pairs": int(verdicts.pairs),
        }
        for key in ("mean_us", "p50_us", "p99_us", "p999_us", "p50_alarm_us"):
            values = [one[key] for one in each]
            row[key] = None if None in values else statistics.median(values)
        row["max_us"] = max(one["max_us"] for one in each)
        slowest = np.min([run.nanoseconds for run in runs], axis=0)
        row["repeated_max_us"] = float(slowest.max()) / 1e3
        row["pause_us"] = worst_pause_us(float(runs[0].nanoseconds.sum()) / 1e9)
        rows.append(row)
        checks.append(f"{arrivals}: " + oracle.prove(question, stream, outputs))
        if arrivals == "shuffled":
            above = above_kernel(question, points, outputs, [r.nanoseconds for r in runs])
    return Answer(
        f"Single decisions from Python, {COLUMNS_WIDE} columns, {question.label}",
        {
            "single": Table(COLUMNS, rows, "Microseconds of one `observe`, its Verdict included."),
            "kernel": Table(KERNEL_COLUMNS, [above], "The last rows of the shuffled stream."),
        },
        checks,
        [
            f"Percentiles are medians of {setting.rounds} runs; max is the worst of all runs. A"
            " stall that comes from the machine falls on another row the next time, so 'max that"
            " repeats' is the largest time that one row took in every run.",
        ],
    )


def above_kernel(
    question: Question, points: Array, outputs: Array, runs: list[Array]
) -> dict[str, Any]:
    """How much of one `observe` at the end of the stream is Python around the kernel."""
    tail = max(2_000, len(points) // 50)
    tail = min(tail, len(points) // 2)
    ends = np.concatenate([run[-tail:] for run in runs]) / 1e3
    kernel = kernel_us(question, points, outputs, tail)
    p50, mean = float(np.median(ends)), float(ends.mean())
    return {
        "rows": len(points),
        "p50_us": p50,
        "mean_us": mean,
        "kernel_us": kernel,
        "above_p50_us": p50 - kernel,
        "above_mean_us": mean - kernel,
    }


def kernel_us(question: Question, points: Array, outputs: Array, tail: int) -> float:
    """p50 of the call into the kernel alone, on the same rows at the same size."""
    monitor: Any = question.monitor()
    start = len(points) - tail
    monitor.observe_many(points[:start], outputs[:start], threads=1)
    engine = monitor._engine
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
