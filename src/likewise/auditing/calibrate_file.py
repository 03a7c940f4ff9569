"""Calibrates a file of decisions: what would be comparable, and flagged, at every epsilon.

It also says how both change with each line of the rule.
Cost: all decisions of the file are in memory at once; a few passes over them.
"""

import math
from dataclasses import dataclass
from typing import Any

from likewise.auditing.feeding import BadRowPolicy, RefusedRows, judge_chunks
from likewise.auditing.job import Progress, ignore_progress
from likewise.errors import BadRule
from likewise.monitor.calibration import Calibration, calibrate, calibrate_like_cases
from likewise.monitor.factory import make_reader
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.monitor.sensitivity import SensitivityTable, vary
from likewise.reports.curve_page import TargetRate, curve_page
from likewise.reports.findings import Curve, curve_of
from likewise.sources.binding import Binding
from likewise.sources.file_source import DecisionFile
from likewise.sources.protocol import Chunk, join_chunks

_RATES = (0.001, 0.01, 0.05, 0.1)


@dataclass(frozen=True)
class FileCalibration:
    """Holds the calibration of a file, and how the file was read."""

    flagged: Calibration
    """Distances to the nearest contradiction."""
    alike: Calibration
    """Distances to the nearest similar case of any output."""
    refused: RefusedRows
    rate: float | None
    """The share for which an epsilon is sought."""
    source: DecisionFile
    varied: SensitivityTable | None
    """The effect of each line of the rule; None without a rule and without an epsilon."""

    @property
    def epsilon(self) -> float:
        """The rule's epsilon."""
        return self.flagged.rule.epsilon

    @property
    def violations(self) -> int:
        """How many decisions have a contradiction in their past, at any epsilon."""
        return int((self.flagged.rows >= 0).sum())

    @property
    def comparable(self) -> int:
        """How many decisions could be compared at the rule's epsilon."""
        return round(self.alike.rate(self.epsilon) * len(self.alike))

    @property
    def rate_among_comparable(self) -> float | None:
        """The share of these that are flagged at the rule's epsilon."""
        flagged = self.flagged.rate(self.epsilon) * len(self.flagged)
        return flagged / self.comparable if self.comparable else None

    @property
    def curve(self) -> Curve:
        """The shares that are flagged and comparable, over epsilon."""
        return curve_of(self.flagged, self.flagged.rule, self.alike)

    def epsilon_for(self, rate: float) -> float | None:
        """Return the largest epsilon that flags at most this share; None if there is none."""
        try:
            return self.flagged.epsilon_for(rate)
        except BadRule:
            return None  # equal inputs got different outputs more often than that

    def find_targets(self) -> list[TargetRate]:
        """Return rates, each with the largest epsilon that flags no more."""
        rates = sorted({*_RATES, *([] if self.rate is None else [self.rate])})
        epsilons = [_round_down(self.epsilon_for(rate)) for rate in rates]
        shares = [None if one is None else self.alike.rate(one) for one in epsilons]
        return list(map(TargetRate, rates, epsilons, shares))

    def to_html(self) -> str:
        """Return the curve as a page."""
        name = self.source.name
        return curve_page(self.flagged, self.alike, self.find_targets(), name, self.varied)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        curve = self.curve
        return {
            "rows": len(self.flagged),
            "violations": self.violations,
            "epsilon": self.epsilon,
            "rate": self.flagged.rate(self.epsilon),
            "comparable": self.comparable,
            "target_rate": self.rate,
            "epsilon_for_target": None if self.rate is None else self.epsilon_for(self.rate),
            "targets": [one._asdict() for one in self.find_targets()],
            "curve": {
                "epsilons": list(curve.epsilons),
                "rates": list(curve.rates),
                "comparable": list(curve.comparable or ()),
            },
            "varied": self.varied and self.varied.to_dict(),
            "closest": [pair._asdict() for pair in self.flagged.closest(10)],
            "bad_rows": self.refused.count,
            "bad_row_examples": self.refused.to_dicts(self.source.unit),
            "remarks": [remark.to_dict() for remark in self.source.remarks],
        }


def _round_down(epsilon: float | None) -> float | None:
    """Round to digits that a person would type; a smaller epsilon flags no more."""
    if epsilon is None or not 0 < epsilon < math.inf:
        return epsilon
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 5)
    steps = math.floor(epsilon / unit)
    return next(
        value for value in (float(f"{(steps - i) * unit:.6g}") for i in (0, 1)) if value <= epsilon
    )


def calibrate_file(
    source: DecisionFile,
    binding: Binding,
    *,
    skip: bool,
    rate: float | None,
    varies: bool,
    progress: Progress = ignore_progress,
) -> FileCalibration:
    """Calibrate all decisions of a file.

    skip    leave out and count bad rows; else the first one is an error
    rate    a share for which an epsilon is sought
    varies  whether to say what each line of the rule does
    """
    bad = BadRowPolicy(source, skip)
    reader = make_reader(binding.rule)

    def read_inputs(rows: Chunk) -> Any:
        arguments = binding.arguments(rows.table)
        return arguments if len(arguments) > 1 else reader.read_many(arguments[0], FROM_ROW)

    parts = []
    for part in judge_chunks(source, binding, read_inputs, bad):
        parts.append(part.rows)
        progress(*source.progress, "reading")
    table = join_chunks(parts).table
    progress(0, None, f"{len(table):,} decisions")
    arguments = binding.arguments(table)
    flagged = calibrate(binding.rule, *arguments)
    alike = calibrate_like_cases(binding.rule, *arguments)
    varied = None
    if varies:
        varied = vary(binding.rule, *arguments, columns=binding.inputs or None)
    return FileCalibration(flagged, alike, bad.rows, rate, source, varied)
