"""What does `submit` cost beside an `observe`, for whoever makes the decisions?

In memory and before a ledger that is durable with every answer; flat out, and with a pause between
decisions, in which the caller computes, as a model would.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle, workloads
from benchmarks.answer import Answer, Setting, Table
from benchmarks.measure import medians, no_collector
from benchmarks.scratch import scratch

Array = NDArray[Any]
COLUMNS_WIDE, EPSILON = 12, 0.05
BEFORE = 50_000  # decisions in the history before the first is measured
PLACES = {"memory": 50_000, "ledger": 2_000}
"""Where the history is, and how many decisions are measured."""
PAUSES = (0, 50)  # microseconds between two decisions
COLUMNS = {
    "place": "history",
    "pause_us": "pause, µs",
    "rows": "decisions",
    "flagged": "flagged",
    "observe_p50_us": "`observe` p50, µs",
    "observe_p99_us": "p99",
    "p50_us": "`submit` p50, µs",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "max_us": "max",
    "delay_ms": "answered after, ms (median)",
}


def ask(setting: Setting) -> Answer:
    folder = setting.folder_of("higgs_35k.npz")
    rows = []
    for place, full in PLACES.items():
        for pause in PAUSES:
            given = {
                "folder": folder,
                "place": place,
                "pause": pause,
                "before": setting.rows(BEFORE),
                "rows": setting.rows(full, 500),
            }
            where = "benchmarks.questions.buffering:measured"
            runs = [setting.alone(where, given) for _ in range(setting.rounds)]
            rows.append({"place": place, "pause_us": pause, **medians(runs)})
    return Answer(
        "Buffering",
        {
            "submit": Table(
                COLUMNS,
                rows,
                f"{COLUMNS_WIDE} columns, L∞ ε {EPSILON:g}, {setting.rows(BEFORE):,} decisions in"
                " the history before. The ledger is durable with every answer.",
            )
        },
        [
            "every decision was answered, in order, and flagged as `observe` flags it",
            "nothing was lost or refused",
        ],
        [
            "Percentiles are medians of the runs. Beside `submit` another thread of the same"
            " interpreter judges: the worst case is a switch between the two, and is not bounded."
        ],
    )


def measured(given: Mapping[str, Any]) -> dict[str, Any]:
    """One `observe` after another, then the same decisions through a buffer."""
    source = (
        workloads.generated() if given["folder"] is None else workloads.higgs(Path(given["folder"]))
    )
    before, count = given["before"], given["rows"]
    points, outputs = source.rows(before + count, COLUMNS_WIDE)
    labels = outputs.tolist()
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:

        def monitor(name: str) -> lw.Monitor:
            rule = lw.Rule("linf", EPSILON)
            in_memory = given["place"] == "memory"
            made = lw.Monitor(rule) if in_memory else lw.open(Path(folder) / name, rule)
            made.observe_many(points[:before], labels[:before])
            return made

        rows, rest = list(points[before:]), labels[before:]
        with monitor("inline") as one:
            observed, verdicts = _timed(one.observe, rows, rest, given["pause"])
        with monitor("buffered") as one, lw.buffered(one, count) as buffer:
            submitted, receipts = _timed(buffer.submit, rows, rest, given["pause"])
            oracle.require(buffer.flush(600), "not everything was judged")
            answers = list(buffer.results())
            stats = buffer.stats
    oracle.require(stats.answered == stats.submitted == count, "some are not answered")
    numbers = [one.number for one in answers]
    oracle.require(numbers == [one.number for one in receipts], "not in order")
    alike = all(
        mine.verdict.witnesses == theirs.witnesses
        for mine, theirs in zip(answers, verdicts, strict=True)
    )
    oracle.require(alike, "other witnesses than one by one")
    flagged = sum(one.verdict.violation for one in answers)
    oracle.require(flagged > 0, "nothing was found")
    p50, p99, p999 = np.percentile(submitted, (50, 99, 99.9)).tolist()
    inline = np.percentile(observed, (50, 99)).tolist()
    return {
        "rows": count,
        "flagged": flagged,
        "observe_p50_us": inline[0],
        "observe_p99_us": inline[1],
        "p50_us": p50,
        "p99_us": p99,
        "p999_us": p999,
        "max_us": float(submitted.max()),
        "delay_ms": 1e3 * float(np.median([one.delay for one in answers])),
    }


def _timed(
    call: Callable[[Any, Any], Any], rows: list[Any], labels: list[Any], pause: float
) -> tuple[Array, list[Any]]:
    """Microseconds of each call, and its answer; between two the caller computes."""
    clock = time.perf_counter_ns
    spent = np.zeros(len(rows), np.int64)
    answers: list[Any] = []
    with no_collector():
        for i, (x, z) in enumerate(zip(rows, labels, strict=True)):
            start = clock()
            answer = call(x, z)
            stop = clock()
            spent[i] = stop - start
            answers.append(answer)
            while clock() - stop < 1000 * pause:
                pass
    return spent / 1e3, answers
