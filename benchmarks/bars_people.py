"""The bars for rules about people: tables, comparables, calibration, slope."""

from __future__ import annotations

from benchmarks.bar import Bar, value_of

BARS = [
    *(
        Bar(
            f"{table}: BallTree's query alone ÷ likewise",
            "people",
            20.0,
            True,
            "×",
            value_of("people", "people", "ratio", who=table),
        )
        for table in ("Census-Income", "American Community Survey")
    ),
    *(
        Bar(
            f"{table}: `observe_many` that says what was comparable ÷ one that does not",
            "comparable",
            1.5,
            False,
            "×",
            value_of("comparable", "comparable", "ratio", who=table),
        )
        for table in ("Census-Income", "American Community Survey")
    ),
    *(
        Bar(
            f"calibrate over one run of a monitor, {workload}",
            "calibrate",
            4.0,
            False,
            "×",
            value_of("calibrate", "calibrate", "ratio", workload=workload),
        )
        for workload in ("ACS × 16", "HIGGS-like × 12")
    ),
    *(
        Bar(
            f"slope, {workload}: doubling k ÷ {what}",
            "slope",
            20.0,
            True,
            "×",
            value_of("slope", "slope", ratio, workload=workload),
        )
        for workload in ("Adult, probability of the model", "HIGGS-like × 12, made-up score")
        for what, ratio in (("one `observe`", "ratio"), ("`observe_many`", "batch_ratio"))
    ),
]
