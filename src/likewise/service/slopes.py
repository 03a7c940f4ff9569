"""A monitor of slopes that is served: which of its verdicts are violations, and what is told.

It judges as a `SlopeMonitor` does: the one witness of a verdict is the steepest past decision. A
verdict has the fields of any other and its `slope`; `violation` says whether that is above the
level. Whatever asks a ledger for its contradictions is refused, since there every decision with a
witness would be one.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.intake.verdict_json import answer
from likewise.rules.steepest import Steepest
from likewise.values.errors import BadRule
from likewise.values.plain import json_value
from likewise.values.verdicts import Verdict, Verdicts


@dataclass(frozen=True)
class Slopes:
    """What is asked of a monitor of slopes."""

    question: Steepest

    @property
    def level(self) -> float | None:
        """A steeper slope is a violation; None: nothing is."""
        return None if math.isinf(self.question.level) else float(self.question.level)

    def is_violation(self, verdict: Verdict) -> bool:
        return any(self._slopes(verdict.witnesses) > self.question.level)

    def violations(self, verdicts: Verdicts) -> npt.NDArray[np.bool_]:
        """Whether each verdict of a batch is one."""
        found = verdicts.violations
        steep = np.zeros(len(found), np.bool_)
        steep[found] = self._slopes(verdicts.witnesses) > self.question.level
        return steep

    def told(self, verdict: Verdict, witnesses: int) -> dict[str, Any]:
        """A verdict for JSON; its slope is null if it is infinite, or was destroyed."""
        slopes = self._slopes(verdict.witnesses)
        slope = float(slopes[0]) if len(slopes) else 0.0
        told = answer(verdict, witnesses, keyed=True)
        return {**told, "violation": slope > self.question.level, "slope": json_value(slope)}

    def _slopes(self, witnesses: Any) -> npt.NDArray[np.float64]:
        columns = (witnesses.input_distances, witnesses.output_distances)
        slopes = map(self.question.slope, *(column.tolist() for column in columns))
        return np.fromiter(slopes, dtype=np.float64, count=len(witnesses))


def insist_on_contradictions(name: str, slopes: Slopes | None) -> None:
    """Raise BadRule if a monitor is asked for contradictions, and names slopes."""
    if slopes is not None:
        raise BadRule(
            f"the monitor {name!r} names slopes, and this is about contradictions. Ask it for"
            " observe, batch, stream, check, decisions, events, stats, head, verify or erase."
        )
