"""American Community Survey, 207,546 people × 16: real decisions, many exact duplicates."""

from __future__ import annotations

import numpy as np

from benchmarks.answer import Answer, Setting, Table
from benchmarks.beside import COLUMNS, SINGLE_COLUMNS, Workload, build_peers, compare, wide_check
from benchmarks.contenders import Question
from benchmarks.workloads import SEED, acs

RADII = (0.02, 0.1)  # about one row in a hundred is flagged; about one in four, with many pairs
WIDE = 0.05
QUERIES = 2_000


def ask(setting: Setting) -> Answer:
    points, outputs = acs(setting.data_file("acs_ma_2015_2017.npz"))
    n = setting.rows(len(points))
    points, outputs = points[:n], outputs[:n]
    drawn = np.random.default_rng(SEED).choice(n, min(QUERIES, n), replace=False)
    peers = build_peers(setting, points, "linf")
    load = Workload("ACS × 16", points, outputs, points[drawn], outputs[drawn], peers)
    rows, checks = [], []
    for epsilon in RADII:
        row, told = compare(setting, Question("linf", epsilon), load)
        rows.append(row)
        checks.append(told)
    checks.append(wide_check(Question("linf", RADII[0]), WIDE, load))
    return Answer(
        "Beside neighbour searches, American Community Survey",
        {
            "contenders": Table(COLUMNS, rows, "Microseconds per decision or query, medians."),
            "single": Table(SINGLE_COLUMNS, rows, "One `observe` after another, microseconds."),
        },
        checks,
        ["Columns are min-max scaled. The queries are rows of the stream, drawn at random."],
    )
