"""Rules about people: two large tables of mixed columns, beside a ball tree of their vectors."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.measure import Timing, timed, wall_us
from benchmarks.people import ACS, CENSUS, People, acs, census
from benchmarks.workloads import SEED

Array = NDArray[Any]
QUERIES = 300
COLUMNS = {
    "who": "table",
    "rows": "rows",
    "columns": "columns",
    "coordinates": "coordinates",
    "flagged": "flagged",
    "pairs": "pairs",
    "us": "likewise, the table read, compared and kept",
    "vectors_us": "its vectors compared",
    "balltree_us": "scikit-learn's BallTree, query alone",
    "ratio": "BallTree ÷ likewise",
}


def ask(setting: Setting) -> Answer:
    if importlib.util.find_spec("sklearn") is None:
        raise Skipped("scikit-learn is not installed.")
    rows, checks = [], []
    for people in (census(setting.data_file(CENSUS)), acs(setting.data_file(ACS))):
        row, told = _row(setting, people)
        rows.append(row)
        checks.append(told)
    return Answer(
        "People: tables of mixed columns",
        {"people": Table(COLUMNS, rows, "Microseconds per decision or query, one thread.")},
        checks,
        ["The ball tree is built over the same vectors (Chebyshev) and only answers queries."],
    )


def _row(setting: Setting, people: People) -> tuple[dict[str, Any], str]:
    from sklearn.neighbors import BallTree

    n = setting.rows(len(people.table))
    table, outputs = people.table[:n], people.outputs[:n]
    warm = lw.Monitor(people.rule)
    warm.observe_many(table[:1_000], outputs[:1_000], threads=1)
    runs: dict[str, list[Timing]] = {"us": [], "vectors_us": []}
    for _ in range(setting.rounds):
        monitor: Any = lw.Monitor(people.rule)
        verdicts, timing = timed(monitor.observe_many, table, outputs, threads=1)
        runs["us"].append(timing)
        vectors = monitor._engine.history.rows[:n].copy()
        plain = lw.Monitor(monitor._reader.plain)
        same, timing = timed(plain.observe_many, vectors, outputs, threads=1)
        runs["vectors_us"].append(timing)
        oracle.require(same.pairs == verdicts.pairs > 0, "vectors and tables differ")
    weights = np.array(monitor._reader.plain.weights)
    scaled = vectors * weights
    tree = BallTree(scaled, metric="chebyshev")
    drawn = np.random.default_rng(SEED).choice(n, min(QUERIES, n), replace=False)
    reach = 1.0 + 1e-9

    def query() -> list[Array]:
        return [tree.query_radius(scaled[i : i + 1], reach)[0] for i in drawn]

    near, timing = timed(query)
    for i, found in zip(drawn.tolist(), near, strict=True):
        expected = np.sort(found[(found < i) & (outputs[found] != outputs[i])])
        oracle.require(
            np.array_equal(expected, verdicts[i].witnesses.rows), f"row {i}: the ball tree differs"
        )
    us = {name: wall_us(times, n)["us"] for name, times in runs.items()}
    balltree = timing.wall / len(drawn) * 1e6
    row = {
        "who": people.name,
        "rows": n,
        "columns": people.columns,
        "coordinates": vectors.shape[1],
        "flagged": int(verdicts.violations.sum()),
        "pairs": verdicts.pairs,
        **us,
        "balltree_us": balltree,
        "ratio": balltree / us["us"],
    }
    return row, f"{people.name}: the ball tree names the same witnesses for {len(drawn)} rows"
