"""Measure the agreement of drawn cases, from their near pairs."""

from __future__ import annotations

import numpy as np

from benchmarks.evidence.sources import Cases, Rows
from likewise.explaining.agreement import Agreement, make_units, measure_units


def measure(cases: Cases, later: Rows, earlier: Rows, delta: float | None) -> Agreement:
    """Measure how well similar cases agree; delta: how far apart numbers are that differ."""
    units = make_units(
        np.arange(len(cases.points)),
        np.asarray(cases.answers, np.float64)[:, None],
        "label" if delta is None else "number",
        delta or 0.0,
        person=cases.persons,
    )
    return measure_units(units, lambda: iter([(later, earlier)]))


def index_of(found: Agreement) -> float:
    """Compute the index even where it is too uncertain to be given; 0 if all answers agree."""
    if not found.expected or found.disagreement is None:
        return 0.0
    return 1 - found.disagreement / found.expected
