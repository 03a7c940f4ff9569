"""The paper's own decision sequences: exact counts, and time beside the paper's tool.

likewise must report exactly the flagged rows and pairs that brute force gives for each file.
Clemont is reported, not asserted: its answers are known to be inexact in places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import (
    ClemontBrute,
    ClemontFRNNFaiss,
    ClemontFRNNTree,
    ClemontTree,
    Question,
    ScipyMonitor,
    has_clemont_frnn,
    installed,
    run_stream,
    warm_up,
)
from benchmarks.measure import Timing, medians, single_calls, timed, wall_us
from benchmarks.workloads import paper

FILES = (
    "adult-base-P2",
    "adult-global-P2",
    "compas-base-P2",
    "compas-global-P2",
    "german-base-P2",
    "german-global-P2",
)
EPSILON = 0.16
BUDGET_SECONDS = 120.0
RUNS = 5  # the files are small, so likewise is timed before and after each other contender

COLUMNS = {
    "file": "file",
    "contender": "contender",
    "rows": "rows",
    "flagged": "flagged",
    "pairs": "pairs",
    "us": "µs per decision",
    "ratio": "÷ `observe_many`",
    "single_ratio": "÷ one `observe`",
    "mean_us": "mean of single ones",
    "p50_us": "p50",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "max_us": "max",
    "bytes_per_decision": "bytes per decision",
    "note": "",
}


def ask(setting: Setting) -> Answer:
    archive = setting.data_file("certifair_P2_base_global.zip")
    expected = setting.data_file("certifair_expected.json")
    rows: list[dict[str, Any]] = []
    checks = []
    for name in FILES:
        checks.append(_file(setting, archive, expected, name, rows))
    total = sum(row["pairs"] for row in rows if row["contender"] == "likewise")
    oracle.require(total > 0, "no file holds a violation")
    return Answer(
        "The paper's decision sequences, L∞ ε=0.16",
        {"contenders": Table(COLUMNS, rows, "Microseconds per decision; one thread each.")},
        checks,
        [
            "Clemont's counts are as it reports them; likewise's and SciPy's are asserted.",
            "A contender that met its time limit was measured on the first rows only, where its"
            " history is still short: that favours it.",
        ],
    )


def _file(
    setting: Setting, archive: Any, expected: Any, name: str, rows: list[dict[str, Any]]
) -> str:
    data = paper(archive, expected, name, EPSILON)
    whole = len(data.points)
    n = setting.rows(whole)
    points, outputs = data.points[:n], data.outputs[:n]
    question = Question("linf", EPSILON, slack=1e-9)
    warm_up(question, points, outputs)
    times: list[Timing] = []
    verdicts: Any = None
    monitor: Any = None

    def run_likewise() -> None:
        nonlocal verdicts, monitor
        for _ in range(RUNS):
            monitor = question.monitor()
            verdicts, timing = timed(monitor.observe_many, points, outputs, threads=1)
            times.append(timing)

    run_likewise()
    others: list[Any] = [ScipyMonitor] if any(p.package == "scipy" for p in setting.peers) else []
    if setting.with_clemont and installed("clemont"):
        others += [ClemontTree, ClemontBrute]
        others += [ClemontFRNNTree, ClemontFRNNFaiss] if has_clemont_frnn() else []
    streamed = {}
    budget = BUDGET_SECONDS * max(setting.scale, 0.01)
    for make in others:
        streamed[make] = run_stream(make(question, data.columns, points, outputs), n, budget)
        run_likewise()

    flagged, pairs = int(np.count_nonzero(verdicts.violations)), int(verdicts.pairs)
    if n == whole:
        oracle.require(
            (flagged, pairs) == (data.flagged, data.pairs),
            f"{name}: {flagged} flagged and {pairs} pairs,"
            f" expected {data.flagged} and {data.pairs}",
        )
        told = f"{name}: {flagged:,} flagged and {pairs:,} pairs, as by brute force"
    else:
        told = f"{name}, first {n:,} rows: " + oracle.prove(question, points, outputs)
    singles = []
    for _ in range(setting.rounds):
        single = single_calls(question.monitor().observe, points, outputs)
        oracle.require(
            np.array_equal(single.counts, verdicts.counts),
            f"{name}: observe and observe_many count differently",
        )
        singles.append(single.percentiles())
    one = medians(singles)
    us = wall_us(times, n)
    rows.append(
        {
            "file": name,
            "contender": "likewise",
            "whole": n == whole,
            "rows": n,
            "flagged": flagged,
            "pairs": pairs,
            **us,
            "ratio": 1.0,
            "single_ratio": 1.0,
            **one,
            "bytes_per_decision": float(monitor.explain().bytes_per_decision),
            "note": "observe_many; percentiles of single `observe`",
        }
    )
    for make, run in streamed.items():
        mine = verdicts.counts[: run.rows]
        if make.exact:
            oracle.require(
                np.array_equal(run.counts, mine), f"{name}: {make.name} and likewise disagree"
            )
        p50, p99, p999 = (np.percentile(run.nanoseconds, (50, 99, 99.9)) / 1e3).tolist()
        notes = [] if run.rows == n else [f"first {run.rows:,} rows only"]
        if not np.array_equal(run.counts, mine):
            notes.append(f"exact: {int((mine > 0).sum()):,} flagged, {int(mine.sum()):,} pairs")
        rows.append(
            {
                "file": name,
                "contender": make.name,
                "whole": run.rows == whole,
                "rows": run.rows,
                "flagged": int(np.count_nonzero(run.counts)),
                "pairs": int(run.counts.sum()),
                "us": run.us_per_decision,
                "ratio": run.us_per_decision / us["us"],
                "single_ratio": run.us_per_decision / one["mean_us"],
                "p50_us": p50,
                "p99_us": p99,
                "p999_us": p999,
                "max_us": float(run.nanoseconds.max()) / 1e3,
                "note": "; ".join(notes),
            }
        )
    return told
