"""A thousand labels instead of two, on the same rows: what do they cost?"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, judge_all, warm_up
from benchmarks.measure import alternate, wall_us
from benchmarks.workloads import many_labels

COLUMNS_WIDE = 12
LABELS = 1_000
RADII = (0.01, 0.025, 0.05)

COLUMNS = {
    "question": "near",
    "rows": "rows",
    "two_us": "2 labels, µs",
    "many_us": "1,000 labels, µs",
    "ratio": "ratio",
    "two_pairs": "pairs, 2 labels",
    "many_pairs": "pairs, 1,000 labels",
}


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    n = setting.rows(1_000_000)
    points, two = source.rows(n, COLUMNS_WIDE)
    outputs = {"two": two, "many": many_labels(two, LABELS)}
    rows, checks = [], []
    for epsilon in RADII:
        question = Question("linf", epsilon)
        pairs: dict[str, int] = {}
        for labels in outputs.values():
            warm_up(question, points, labels)

        def keep(which: str, result: Any, pairs: dict[str, int] = pairs) -> None:
            _, verdicts = result
            known = pairs.setdefault(which, int(verdicts.pairs))
            oracle.require(known == verdicts.pairs, f"{which}: runs disagree on the pairs")

        runs = {
            which: partial(judge_all, question, points, labels) for which, labels in outputs.items()
        }
        times = alternate(runs, setting.rounds, keep)
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
    for which, labels in outputs.items():
        checks.append(
            f"{which} labels: " + oracle.prove(Question("linf", RADII[-1]), points, labels)
        )
    return Answer(
        f"Many labels, {COLUMNS_WIDE} columns",
        {"labels": Table(COLUMNS, rows, "`observe_many`, one thread, microseconds per decision.")},
        checks,
        ["The thousand labels are drawn at random, so nearly every near pair differs."],
    )
