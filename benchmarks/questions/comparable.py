"""What does it cost to say whether a decision could be compared at all?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.measure import Timing, alternate, timed, wall_us
from benchmarks.people import ACS, CENSUS, People, acs, census
from benchmarks.workloads import SEED

Array = NDArray[Any]
SAMPLE = 200
SINGLES = 20_000
COLUMNS = {
    "who": "table",
    "rows": "rows",
    "comparable": "comparable",
    "flagged": "flagged",
    "us": "table, not asked",
    "asked_us": "table, asked",
    "ratio": "ratio",
    "vectors_us": "vectors, not asked",
    "vectors_asked_us": "vectors, asked",
    "vectors_ratio": "ratio of vectors",
    "single_us": "one by one, not asked",
    "single_asked_us": "one by one, asked",
}


def ask(setting: Setting) -> Answer:
    rows, checks = [], []
    for people in (census(setting.data_file(CENSUS)), acs(setting.data_file(ACS))):
        row, told = _row(setting, people)
        rows.append(row)
        checks.append(told)
    return Answer(
        "Comparable: was there a like case at all?",
        {"comparable": Table(COLUMNS, rows, "Microseconds per decision, one thread.")},
        checks,
        [
            "`observe_many` of the table, which is read and kept too, and of the vectors that its"
            " rows become; `observe` of vectors, against half of the history."
        ],
    )


def _run(rule: lw.Rule, table: Any, outputs: Array, asked: bool) -> lw.Verdicts:
    return lw.Monitor(rule, comparable=asked).observe_many(table, outputs, threads=1)


def _singles(setting: Setting, rule: lw.Rule, vectors: Array, outputs: Array) -> dict[str, float]:
    """Decisions one by one, against the first half of the history."""
    half = len(vectors) // 2
    count = min(SINGLES, len(vectors) - half)
    labels = outputs[half : half + count].tolist()
    times: dict[str, list[Timing]] = {"single_us": [], "single_asked_us": []}

    def observe(monitor: lw.Monitor) -> None:
        for x, z in zip(vectors[half : half + count], labels, strict=True):
            monitor.observe(x, z)

    for _ in range(setting.rounds):
        for name, timings in times.items():
            monitor = lw.Monitor(rule, comparable=name == "single_asked_us")
            monitor.load(vectors[:half], outputs[:half])
            timings.append(timed(observe, monitor)[1])
    return {name: wall_us(timings, count)["us"] for name, timings in times.items()}


def _row(setting: Setting, people: People) -> tuple[dict[str, Any], str]:
    n = setting.rows(len(people.table))
    table, outputs = people.table[:n], people.outputs[:n]
    before: Any = lw.Monitor(people.rule)
    before.load(table, outputs)
    vectors, plain = before._engine.history.rows[:n].copy(), before._reader.plain
    said: dict[str, lw.Verdicts] = {}

    def keep(name: str, verdicts: Any) -> None:
        said[name] = verdicts

    runs = {
        "us": partial(_run, people.rule, table, outputs, False),
        "asked_us": partial(_run, people.rule, table, outputs, True),
        "vectors_us": partial(_run, plain, vectors, outputs, False),
        "vectors_asked_us": partial(_run, plain, vectors, outputs, True),
    }
    times = alternate(runs, setting.rounds, keep)
    us = {name: wall_us(timings, n)["us"] for name, timings in times.items()}
    comparable = said["asked_us"].comparable
    assert comparable is not None
    alike = np.array_equal(comparable, said["vectors_asked_us"].comparable)
    oracle.require(alike, "vectors and tables differ")
    oracle.require(said["us"].pairs == said["asked_us"].pairs > 0, "asking changes witnesses")
    us |= _singles(setting, plain, vectors, outputs)
    drawn = np.random.default_rng(SEED).choice(n, min(SAMPLE, n), replace=False)
    weights = np.array(plain.weights)
    for i in drawn.tolist():
        gaps = np.where(weights > 0, np.abs(vectors[:i] - vectors[i]), 0.0) * weights
        near = bool((gaps.max(axis=1, initial=0.0) <= plain.epsilon * (1.0 + 1e-9)).any())
        oracle.require(near == comparable[i], f"row {i}: all distances say otherwise")
    row = {
        "who": people.name,
        "rows": n,
        "comparable": int(comparable.sum()),
        "flagged": int(said["asked_us"].violations.sum()),
        **us,
        "ratio": us["asked_us"] / us["us"],
        "vectors_ratio": us["vectors_asked_us"] / us["vectors_us"],
    }
    return row, f"{people.name}: all distances say the same of {len(drawn)} rows"
