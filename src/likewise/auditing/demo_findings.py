"""Watches the generated decisions of `likewise demo`, and returns what is found in them.

Invariant: the monitor sees applicants and answers, but no model, district or reason.
"""

import hashlib
import time
from dataclasses import replace

import numpy as np

from likewise.auditing.demo_loans import RULE, SEED, Row, to_csv
from likewise.auditing.kept_rows import KeptRows
from likewise.monitor.calibration import calibrate, calibrate_like_cases
from likewise.monitor.monitor import Monitor
from likewise.reports.evidence import Evidence, JudgingOrder
from likewise.reports.findings import Findings, Tally, curve_of
from likewise.rule.rule import Rule
from likewise.runtime.machine import MachineLoad
from likewise.sources.protocol import Chunk

DATA = "likewise-demo.csv"
"""The file that the decisions are written to."""
_BATCH = 500  # decisions watched at a time


def watch_rows(rows: list[Row], command: str | None = None) -> Findings:
    """Return what a monitor finds in the stream, which comes in batches."""
    began, load = time.perf_counter(), MachineLoad()
    rule = Rule.from_toml(RULE)
    monitor = Monitor(rule, comparable=True, support=True)
    tally = Tally(monitor)
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        tally.add(monitor.observe_many(batch), times=[row["applied"] for row in batch])
    data = to_csv(rows)
    days = [row["applied"] for row in rows]
    evidence = Evidence(
        f"{DATA} (generated loan decisions)",
        JudgingOrder("applied", ties=len(days) - len(set(days)), lines=True),
        hashlib.sha256(data).hexdigest(),
        len(data),
        command,
        "line",
        seconds=time.perf_counter() - began,
        machine_load=load.measure(),
        seeds=(("applicants", SEED),),
    )
    findings = tally.findings(source=evidence)
    curve = curve_of(calibrate(rule, rows), rule, calibrate_like_cases(rule, rows))
    kept_rows = KeptRows(["district"], ["district"], "line")
    lines = np.arange(len(rows)) + 2  # below the header
    kept_rows.add(Chunk(rows, lines, times=np.array(days, dtype="datetime64[us]")))
    return kept_rows.add_all_origins(replace(findings, curve=curve))
