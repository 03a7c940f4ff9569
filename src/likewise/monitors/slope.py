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

With a ledger (`SlopeMonitor.open`) decisions and verdicts are on disk before they are answered, as
with `lw.open`. A verdict's one witness is written, with its distances, from which slopes follow.

Invariant: a rejected decision, or batch, leaves no trace.
Cost: one traversal for each decision; memory as for a `Monitor`. Where a window has left behind the
steepest of all, the rows in the window are gone through instead.
Not here: the whole set of pairs above a level.
"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.ledger.erasure import Erasure
from likewise.ledger.heads import Head
from likewise.ledger.verify import Verification
from likewise.ledger.window import Window
from likewise.monitors.hunting import refuse_unhuntable, slope_monitor
from likewise.monitors.monitor import Monitor
from likewise.monitors.opening import Durability, Keeping, open_ledger
from likewise.reading.protocol import FROM_ROW
from likewise.rules.rule import Rule
from likewise.rules.steepest import Steepest
from likewise.values.explanation import Explanation
from likewise.values.past import Past
from likewise.values.printing import missing_in_words
from likewise.values.verdicts import (
    Compared,
    Floats,
    Rows,
    Verdict,
    Verdicts,
    Witnesses,
    same_fields,
)


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
    known: bool = False
    """Whether the decision was sent before, under its key: this is what was answered then. Its
    distances and slope are NaN if they were destroyed since, by an erasure."""
    over: Compared | None = None
    """With a ledger: which rows it was compared with."""

    def __bool__(self) -> bool:
        raise TypeError(
            "a verdict is neither true nor false: ask verdict.violation, whether the slope is above"
            " the level, or verdict.clean."
        )

    @property
    def clean(self) -> bool:
        """Whether it is no violation, nothing is known to be missing, and its slope is there."""
        return not self.violation and self.missing == 0 and not math.isnan(self.slope)

    def __str__(self) -> str:
        name = "this decision" if self.row is None else f"row {self.row}"
        missing = missing_in_words(self.missing)
        if self.witness is None:
            return f"{name}: no past output differs{missing}"
        return (
            f"{name}: slope {self.slope:.6g} against row {self.witness}, outputs"
            f" {self.output_distance:.6g} apart, inputs {self.input_distance:.6g}{missing}"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
    repeats: tuple[SlopeVerdict | None, ...] | None = None
    """For each decision that was sent before, under its key, what was answered then; None for the
    others. None if there is none."""
    row_numbers: Rows | None = None
    """The row of each, where some were sent before; else they count from `first_row` on."""
    firsts: Rows | None = None
    """With a ledger: the first row that each was compared with."""
    absent: Rows | None = None
    """How many rows since then were erased, and could not be compared with."""

    def __post_init__(self) -> None:
        columns = (self.slopes, self.witnesses, self.input_distances, self.output_distances)
        for array in (*columns, self.violations, self.row_numbers, self.firsts, self.absent):
            if array is not None:
                array.flags.writeable = False

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether each was sent before, under its key: then this is what was answered then."""
        each = self.repeats or (None,) * len(self)
        return np.array([one is not None for one in each], np.bool_)

    @property
    def rows(self) -> Rows:
        """The batch's rows in the history; none of decisions that were only checked."""
        if self.first_row is None:
            return np.empty(0, np.int64)
        if self.row_numbers is not None:
            return self.row_numbers
        return np.arange(self.first_row, self.first_row + len(self), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.slopes)

    def __bool__(self) -> bool:
        raise TypeError(
            "several verdicts are neither true nor false: ask verdicts.violations.any(), or"
            " len(verdicts)."
        )

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other) if isinstance(other, SlopeVerdicts) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        how = "checked" if self.first_row is None else f"from row {self.first_row} on"
        return (
            f"<SlopeVerdicts: {len(self):,} decisions {how}, {int(self.violations.sum()):,}"
            " violations>"
        )

    def __getitem__(self, i: int) -> SlopeVerdict:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"this batch has {n} verdicts, there is no number {i}")
        i %= n
        repeated = None if self.repeats is None else self.repeats[i]
        if repeated is not None:
            return repeated
        witness = int(self.witnesses[i])
        row = None if self.first_row is None else int(self.rows[i])
        over = None
        if self.firsts is not None and self.absent is not None and row is not None:
            over = Compared(int(self.firsts[i]), row, int(self.absent[i]))
        return SlopeVerdict(
            row,
            float(self.slopes[i]),
            None if witness < 0 else witness,
            float(self.input_distances[i]),
            float(self.output_distances[i]),
            bool(self.violations[i]),
            self.missing,
            over=over,
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
        question = Steepest(input_exponent, math.inf if level is None else level)
        self._begin(slope_monitor(rule, question), question)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        rule: Rule | None = None,
        *,
        input_exponent: float | None = None,
        level: float | None = None,
        durability: Durability = "commit",
        batch_rows: int | None = None,
        batch_seconds: float | None = None,
        window: str | None = None,
        max_ahead: str | float = "5 minutes",
        check: bool = True,
        wait: float = 0.0,
    ) -> Self:
        """A monitor of slopes whose history is a ledger: a folder, begun or gone on with.

        >>> import likewise as lw, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> rule = lw.Rule("l2", 1, output="number")
        >>> with lw.SlopeMonitor.open(folder, rule, level=3) as monitor:
        ...     monitor.observe([0.0, 0.0], 0.2, key="case 17").witness is None
        True
        >>> with lw.SlopeMonitor.open(folder) as monitor:  # in another process, another year
        ...     print(monitor.observe([0.3, 0.4], 0.7), monitor.level, monitor.verify().ok)
        row 1: slope 1 against row 0, outputs 0.5 apart, inputs 0.5 3.0 True

        input_exponent  of a new ledger, 1 unless given; of one that is there it must be the same
        level           as it was unless given; math.inf: nothing is a violation from now on

        All else is as for `lw.open`. The ledger says in its chain that it holds slopes: `lw.open`
        refuses it, as this refuses one of contradictions.
        """
        keeping = Keeping(durability, batch_rows, batch_seconds, window, 1, max_ahead, check, wait)
        if rule is not None:
            refuse_unhuntable(rule)
        given = _given(input_exponent, level)
        monitor, question = open_ledger(path, rule, keeping, steepest=given)
        assert question is not None
        slopes = cls.__new__(cls)
        slopes._begin(monitor, question)
        return slopes

    def _begin(self, monitor: Monitor, question: Steepest) -> None:
        self._monitor = monitor
        self.rule = monitor.rule
        self.question = question
        """What is asked of the past beside the rule."""

    @property
    def input_exponent(self) -> float:
        return float(self.question.input_exponent)

    @property
    def level(self) -> float:
        """A steeper slope is a violation; infinity: nothing is."""
        return float(self.question.level)

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
        repeats = None
        if verdicts.repeats is not None:
            repeats = tuple(None if one is None else self._verdict(one) for one in verdicts.repeats)
        return SlopeVerdicts(
            first,
            slopes,
            witnesses,
            near,
            far,
            slopes > self.level,
            verdicts.missing,
            repeats,
            verdicts.row_numbers,
            verdicts.firsts,
            verdicts.absent,
        )

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

    def erase(self, *, key: Any = None, rows: Any = None) -> Erasure:
        """Destroy inputs, outputs and keys, in memory and in every file of a ledger.

        key     one key, or a list of them
        rows    rows, instead of keys
        """
        return self._monitor.erase(key=key, rows=rows)

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

    # With a ledger

    @property
    def durable(self) -> bool:
        """Whether its history outlives this process: it has a ledger."""
        return self._monitor.durable

    @property
    def path(self) -> Path:
        """The folder of the ledger."""
        return self._monitor.path

    @property
    def durability(self) -> str:
        return self._monitor.durability

    @property
    def window(self) -> Window:
        """How much of the past is kept."""
        return self._monitor.window

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        self._monitor.flush()

    def verify(self, head: Head | str | None = None) -> Verification:
        """Walk the ledger's chain; name the first row that is not as it was written."""
        return self._monitor.verify(head)

    def head(self) -> Head:
        """The end of the ledger's chain, to be kept elsewhere."""
        return self._monitor.head()

    # The end

    def close(self) -> None:
        """Let go of the history; a ledger keeps what was observed."""
        self._monitor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Decisions remembered now."""
        return len(self._monitor)

    def _verdict(self, verdict: Verdict) -> SlopeVerdict:
        found, beside = verdict.witnesses, (verdict.missing, verdict.known, verdict.over)
        if len(found) == 0:
            return SlopeVerdict(verdict.row, 0.0, None, math.inf, 0.0, False, *beside)
        row, near, far = found.first
        slope = self.question.slope(near, far)
        return SlopeVerdict(verdict.row, slope, row, near, far, slope > self.level, *beside)

    def _slopes(self, found: Witnesses) -> Floats:
        columns = (found.input_distances, found.output_distances)
        slopes = map(self.question.slope, *(column.tolist() for column in columns))
        return np.fromiter(slopes, dtype=np.float64, count=len(found))


def _given(input_exponent: float | None, level: float | None) -> dict[str, float]:
    """What is asked, as far as it is said."""
    given = {"input_exponent": input_exponent, "level": level}
    return {name: value for name, value in given.items() if value is not None}
