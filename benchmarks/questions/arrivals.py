"""Insertion in the order of arrival: does drift unbalance the tree, and what does that cost?

At a radius of 1e-9 a query visits next to nothing, so the time is that of insertion. Each order
is held against the very same rows in random order.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, judge_all, warm_up
from benchmarks.measure import alternate, wall_us
from benchmarks.workloads import drifting, shuffled, sorted_line

EPSILON = 1e-9
COLUMNS_WIDE = 12

COLUMNS = {
    "arrivals": "arrivals",
    "rows": "rows",
    "us": "µs per row",
    "cpu_us": "processor µs per row",
    "shuffled_us": "same rows shuffled, µs",
    "ratio": "ratio",
    "cpu_ratio": "processor ratio",
    "depth": "depth",
    "depth_limit": "3 log₂ n",
}


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    n = setting.rows(1_000_000)
    points, outputs = source.rows(n, COLUMNS_WIDE)
    question = Question("linf", EPSILON)
    warm_up(question, points, outputs)
    rows, checks = [], []
    for arrivals, stream in (
        ("drifting", drifting(points)),
        ("sorted line", sorted_line(n, COLUMNS_WIDE, step=1e-5)),
    ):
        orders = {"arrivals": stream, "shuffled": shuffled(stream)}
        depth: dict[str, int] = {}

        def keep(which: str, result: Any, depth: Any = depth, stream: Any = stream) -> None:
            monitor, verdicts = result
            depth[which] = int(monitor.explain().depth)
            oracle.require(len(monitor) == len(stream), f"{which}: rows are missing")
            oracle.require(verdicts.pairs == 0, f"{which}: no two rows are that near")

        runs = {which: partial(judge_all, question, x, outputs) for which, x in orders.items()}
        times = alternate(runs, setting.rounds, keep)
        mine, control = (wall_us(times[which], n) for which in orders)
        rows.append(
            {
                "arrivals": arrivals,
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
        checks.append(f"{arrivals}: " + oracle.prove(question.at(0.025), stream, outputs))
    return Answer(
        "Insertion, rows drifting in every coordinate",
        {"insertion": Table(COLUMNS, rows, "`observe_many`, one thread, ε=1e-9.")},
        checks,
        [
            "Drifting: over the stream every coordinate moves by ten times its whole range. Sorted"
            " line: points of the diagonal, in order. Processor time counts background threads.",
        ],
    )
