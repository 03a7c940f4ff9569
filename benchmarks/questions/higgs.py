"""HIGGS-like rows, a million of them: how does a decision compare with a neighbour search?"""

from __future__ import annotations

from benchmarks.answer import Answer, Setting, Table
from benchmarks.beside import COLUMNS, SINGLE_COLUMNS, Workload, build_peers, compare, wide_check
from benchmarks.contenders import Question
from benchmarks.workloads import FRESH

# columns, metric, radii that are timed, a wider one where every answer can be checked
CASES = (
    (12, "linf", (0.01, 0.025, 0.05), 0.1),
    (24, "linf", (0.01, 0.025, 0.05), 0.2),
    (12, "l2", (0.05,), 0.2),
)


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    n = setting.rows(1_000_000)
    rows, checks = [], []
    for columns, metric, radii, wide in CASES:
        points, outputs = source.rows(n, columns)
        fresh = source.rows(5_000, columns, FRESH)
        name = f"{source.name} × {columns}"
        peers = build_peers(setting, points, metric)
        load = Workload(name, points, outputs, *fresh, peers)
        for epsilon in radii:
            row, told = compare(setting, Question(metric, epsilon), load)
            rows.append(row)
            checks.append(told)
        checks.append(wide_check(Question(metric, radii[-1]), wide, load))
    return Answer(
        "Beside neighbour searches, HIGGS-like rows",
        {
            "contenders": Table(COLUMNS, rows, "Microseconds per decision or query, medians."),
            "single": Table(SINGLE_COLUMNS, rows, "One `observe` after another, microseconds."),
        },
        checks,
        [
            "likewise starts empty and compares and inserts every row; the others were built over"
            " the same rows beforehand and only search. They return all neighbours, whatever the"
            " label.",
            "FAISS and scikit-learn are timed on a few queries only, because of their time.",
        ],
    )
