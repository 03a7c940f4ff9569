"""How near is near: one pass that answers for every radius, beside one monitoring run."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.measure import timed
from benchmarks.workloads import acs

Array = NDArray[Any]
COLUMNS = {
    "workload": "workload",
    "rows": "rows",
    "epsilon": "median ε",
    "flagged": "flagged there",
    "monitor_s": "one run of a monitor, s",
    "calibrate_s": "calibrate, s",
    "ratio": "calibrate ÷ monitor",
}


def ask(setting: Setting) -> Answer:
    rows = []
    higgs = setting.rows_source()
    points, outputs = acs(setting.data_file("acs_ma_2015_2017.npz"))
    count = setting.rows(len(points))
    rows.append(_row(setting, "ACS × 16", points[:count], outputs[:count]))
    rows.append(_row(setting, "HIGGS-like × 12", *higgs.rows(setting.rows(1_000_000), 12)))
    return Answer(
        "Calibration: every radius at once",
        {"calibrate": Table(COLUMNS, rows, "Seconds, all threads, medians.")},
        ["at the median radius, the rate is the share that a monitor flags"],
        [],
    )


def _row(setting: Setting, name: str, points: Array, outputs: Array) -> dict[str, Any]:
    rule = lw.Rule("linf", 0.05)
    lw.calibrate(rule, points[:1_000], outputs[:1_000])
    times: dict[str, list[float]] = {"monitor": [], "calibrate": []}
    for _ in range(setting.rounds):
        found, timing = timed(lw.calibrate, rule, points, outputs)
        times["calibrate"].append(timing.wall)
        known = found.distances[(found.distances > 0) & np.isfinite(found.distances)]
        epsilon = float(np.median(known))
        verdicts, timing = timed(lw.Monitor(lw.Rule("linf", epsilon)).observe_many, points, outputs)
        times["monitor"].append(timing.wall)
        flagged = int(verdicts.violations.sum())
        oracle.require(
            flagged == round(found.rate(epsilon) * len(points)) > 0, f"{name}: rates differ"
        )
    monitor, calibrate = (statistics.median(times[key]) for key in ("monitor", "calibrate"))
    return {
        "workload": name,
        "rows": len(points),
        "epsilon": epsilon,
        "flagged": flagged,
        "monitor_s": monitor,
        "calibrate_s": calibrate,
        "ratio": calibrate / monitor,
    }
