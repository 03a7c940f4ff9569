"""The quantitative monitor: how fast do outputs change with inputs, at worst, so far?

For each decision it names the past decision against which the slope is steepest,

    output distance / input distance ** input_exponent

so there is no radius and no threshold to choose beforehand; a `level` only says which slopes count
as violations. Exact, against the whole past, by branch and bound (kernels/nearest.py).

What the edges mean:
- Equal outputs take no part. Different outputs at input distance 0 have an infinite slope; so has a
  quotient that is too large for a float, or whose power of a distance vanishes.
- A quotient that vanishes, or whose distance is too large for a float, takes no part.
- Of equally steep pairs the one whose outputs are farthest apart is named, then the earliest.

The rule's epsilon and delta take no part in the answer: epsilon is only the first guess at how long
the unit of the tree's codes should be. The signature is a rule all the same, so that one rule says
what near and different are measured by for every monitor. A rule whose `compare` is not "all" is
refused: every decision is compared with all earlier ones, whichever model made them.

Invariant: a rejected decision, or batch, leaves no trace.
Cost: one traversal for each decision; memory as for a `Monitor`.
Not here: the whole set of pairs above a level.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.kernels import table as t
from likewise.monitors.hunting import hunting_monitor
from likewise.reading.protocol import FROM_ROW
from likewise.rules.rule import Rule
from likewise.values.errors import BadRule
from likewise.values.explanation import Explanation
from likewise.values.past import Past
from likewise.values.printing import missing_in_words
from likewise.values.verdicts import Floats, Rows, Verdict, Verdicts, Witnesses

_EXPONENTS = (0.01, 100.0)


@dataclass(frozen=True, slots=True)
class SlopeVerdict:
    """The steepest slope between a decision and the past. No witness: no past output differs.

    `row` is the decision's place in the history, or None if it was only checked.
    """

    row: int | None
    slope: float
    witness: int | None
    input_distance: float
    output_distance: float
    violation: bool
    """Whether the slope is above the monitor's level."""
    missing: int = 0
    """How many decisions were known to be missing from the history when it was judged."""

    @property
    def clean(self) -> bool:
        """Whether it is no violation, and nothing is known to be missing."""
        return not self.violation and self.missing == 0

    def __str__(self) -> str:
        name = "this decision" if self.row is None else f"row {self.row}"
        missing = missing_in_words(self.missing)
        if self.witness is None:
            return f"{name}: no past output differs{missing}"
        return (
            f"{name}: slope {self.slope:.6g} against row {self.witness}, outputs"
            f" {self.output_distance:.6g} apart, inputs {self.input_distance:.6g}{missing}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SlopeVerdicts:
    """The verdicts of a batch, in its order. Where no past output differs, the witness is -1."""

    first_row: int | None
    """None for decisions that were only checked."""
    slopes: Floats
    witnesses: Rows
    input_distances: Floats
    output_distances: Floats
    violations: npt.NDArray[np.bool_]
    missing: int = 0
    """How many decisions were known to be missing from the history when these were judged."""

    def __post_init__(self) -> None:
        columns = (self.slopes, self.witnesses, self.input_distances, self.output_distances)
        for array in (*columns, self.violations):
            array.flags.writeable = False

    @property
    def rows(self) -> Rows:
        """The batch's rows in the history; none of decisions that were only checked."""
        if self.first_row is None:
            return np.empty(0, np.int64)
        return np.arange(self.first_row, self.first_row + len(self), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.slopes)

    def __getitem__(self, i: int) -> SlopeVerdict:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"this batch has {n} verdicts, there is no number {i}")
        i %= n
        witness = int(self.witnesses[i])
        return SlopeVerdict(
            None if self.first_row is None else self.first_row + i,
            float(self.slopes[i]),
            None if witness < 0 else witness,
            float(self.input_distances[i]),
            float(self.output_distances[i]),
            bool(self.violations[i]),
            self.missing,
        )

    def __iter__(self) -> Iterator[SlopeVerdict]:
        return (self[i] for i in range(len(self)))


class SlopeMonitor:
    """Watches how steeply a model's outputs change from one past input to another.

    >>> monitor = SlopeMonitor(Rule("l2", 1, output="number"), level=3)
    >>> monitor.observe([0.0, 0.0], 0.2).witness is None
    True
    >>> print(monitor.observe([0.3, 0.4], 0.7))
    row 1: slope 1 against row 0, outputs 0.5 apart, inputs 0.5
    >>> verdict = monitor.observe([0.3, 0.5], 0.2)
    >>> verdict.witness, round(verdict.slope, 6), verdict.violation
    (1, 5.0, True)

    rule            its metrics and weights; epsilon and delta take no part in the answer.
    input_exponent  p in output distance / input distance ** p, from 0.01 to 100.
    level           a steeper slope is a violation; None: nothing is.
    """

    def __init__(
        self, rule: Rule, *, input_exponent: float = 1.0, level: float | None = None
    ) -> None:
        low, high = _EXPONENTS
        if not _is_number(input_exponent) or not low <= input_exponent <= high:
            raise BadRule(
                f"input_exponent is {input_exponent!r}; expected a number from {low:g} to {high:g}"
            )
        if level is not None and (not _is_number(level) or not level >= 0):
            raise BadRule(f"level is {level!r}; expected a number from 0, or None")
        self.rule = rule
        self.input_exponent = float(input_exponent)
        self.level = math.inf if level is None else float(level)
        self._monitor = hunting_monitor(rule, question=t.STEEPEST, exponent=self.input_exponent)

    @property
    def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""
        return self._monitor.rows

    @property
    def past(self) -> Past:
        """The only way to look back."""
        return self._monitor.past

    def observe(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
    ) -> SlopeVerdict:
        """Compare (x, z) with the past, then make it part of the past."""
        return self._verdict(self._monitor.observe(x, z, key=key, time=time, model=model))

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> SlopeVerdict:
        """The verdict on (x, z) as if it came now; nothing is remembered."""
        return self._verdict(self._monitor.check(x, z, time=time, model=model))

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: str | Sequence[str | None] | None = None,
        threads: int | None = None,
    ) -> SlopeVerdicts:
        """The same verdicts as `observe` would give one by one; all are remembered, or none."""
        found = self._monitor.observe_many(
            x, z, keys=keys, times=times, models=models, threads=threads
        )
        return self._verdicts(found)

    def check_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        time: Any = None,
        models: str | Sequence[str | None] | None = None,
    ) -> SlopeVerdicts:
        """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
        return self._verdicts(self._monitor.check_many(x, z, time=time, models=models))

    def _verdicts(self, verdicts: Verdicts) -> SlopeVerdicts:
        some, found = verdicts.violations, verdicts.witnesses
        slopes, near, far = np.zeros(len(some)), np.full(len(some), np.inf), np.zeros(len(some))
        witnesses = np.full(len(some), -1, dtype=np.int64)
        slopes[some] = self._slopes(found)
        witnesses[some] = found.rows
        near[some], far[some] = found.input_distances, found.output_distances
        first = None if verdicts.values is not None else verdicts.first_row
        steep = slopes > self.level
        return SlopeVerdicts(first, slopes, witnesses, near, far, steep, verdicts.missing)

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: str | Sequence[str | None] | None = None,
    ) -> range:
        """Remember decisions without judging them; their rows."""
        return self._monitor.load(x, z, keys=keys, times=times, models=models)

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""
        return self._monitor.forget(rows)

    def lost(
        self,
        count: int,
        reason: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: Any = None,
        until: Any = None,
    ) -> None:
        """So many decisions were made and will never be observed; every later verdict says so."""
        self._monitor.lost(count, reason, first=first, last=last, since=since, until=until)

    @property
    def missing(self) -> int:
        """Decisions known to be missing from this history: the sum of what `lost` was told."""
        return self._monitor.missing

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """What is remembered of these rows, in the shape and type in which it is kept."""
        return self._monitor.inputs(rows)

    def explain(self) -> Explanation:
        """What index is in use, and what it costs; its radius is only the unit of its codes."""
        return self._monitor.explain()

    def close(self) -> None:
        """Let go of the history."""
        self._monitor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Decisions remembered now."""
        return len(self._monitor)

    def _verdict(self, verdict: Verdict) -> SlopeVerdict:
        found = verdict.witnesses
        if len(found) == 0:
            return SlopeVerdict(verdict.row, 0.0, None, math.inf, 0.0, False, verdict.missing)
        row, near, far = found.first
        slope = self._slope(near, far)
        steep = slope > self.level
        return SlopeVerdict(verdict.row, slope, row, near, far, steep, verdict.missing)

    def _slope(self, near: float, far: float) -> float:
        """The kernel's slope, to the last bit: its powers are the C library's."""
        power = near if self.input_exponent == 1.0 else math.pow(near, self.input_exponent)
        return far / power if power > 0.0 else math.inf

    def _slopes(self, found: Witnesses) -> Floats:
        columns = (found.input_distances, found.output_distances)
        slopes = map(self._slope, *(column.tolist() for column in columns))
        return np.fromiter(slopes, dtype=np.float64, count=len(found))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
