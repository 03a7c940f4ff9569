"""What a monitor answers: frozen values, with read-only arrays inside.

A `Verdict` is what one decision revealed, its `Witnesses` are the past decisions it contradicts.
`Verdicts` hold a whole batch in four flat arrays, and make a `Verdict` when asked for one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRow, BadRule
from likewise.tables.rows import Floats, Rows
from likewise.verdict.context import EMPTY_CONTEXT, ComparedRows, VerdictContext, VerdictPast
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import ModelCounts
from likewise.verdict.notebook_views import html_of_verdict, html_of_verdicts
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdict_body import write_body
from likewise.verdict.witnesses import NO_WITNESSES, Witnesses

_FEW_RUNS = 16  # runs of distances that are sorted one by one
_SORTED_TOGETHER = 1 << 17  # distances, so that what is beside them fits into a cache


@dataclass(frozen=True, slots=True, init=False)
class Verdict:
    """What one decision revealed. No witnesses: nothing contradicts it yet.

    `row` is the decision's place in the history, or None if it was only checked.
    Verdicts are equal if they name the same row and witnesses, whatever else was counted.
    """

    row: int | None
    witnesses: Witnesses
    _context: VerdictContext = field(repr=False, compare=False)

    def __init__(
        self, row: int | None, witnesses: Witnesses, context: VerdictContext = EMPTY_CONTEXT
    ) -> None:
        _set_row(self, row)  # half the time of a frozen dataclass's own __init__, once a decision
        _set_witnesses(self, witnesses)
        _set_context(self, context)

    def __bool__(self) -> bool:
        raise TypeError(
            "a verdict is neither true nor false: ask verdict.violation, whether a near past input"
            " got a different output, or verdict.clean."
        )

    @property
    def violation(self) -> bool:
        """Whether a near past input got a different output; of slopes, one above the limit."""
        question = self._context.question
        if question is not None:
            return (self.slope or 0.0) > question.limit
        return len(self.witnesses) > 0 or self._context.omitted > 0

    @property
    def slope(self) -> float | None:
        """The steepest slope to a past decision, which is then the only witness.

        0 if no past output differs, NaN if an erasure has destroyed the distances. None where
        contradictions are asked for (`Monitor(rule, slope=True)` asks for slopes).
        """
        question = self._context.question
        if question is None:
            return None
        return question.slope(*self.witnesses.first[1:]) if len(self.witnesses) else 0.0

    @property
    def count(self) -> int:
        """How many witnesses there are, those that are not told included."""
        return len(self.witnesses) + self._context.omitted

    @property
    def known(self) -> bool:
        """Whether the decision was sent before, under its key: this is what was answered then.

        A ledger keeps the nearest witnesses only; `omitted` says how many there were beside them.
        """
        return self._context.known

    @property
    def omitted(self) -> int:
        """How many witnesses are counted but not told."""
        return self._context.omitted

    @property
    def comparable(self) -> bool | None:
        """Whether there was a near past input at all, whatever its output.

        None where that was not asked (`Monitor(rule, comparable=True)`).
        """
        return self._context.comparable

    @property
    def missing(self) -> int:
        """How many decisions were known to be missing from the history when it was judged.

        What is missing cannot contradict anything, so a verdict without a witness says less.
        """
        return self._context.missing

    @property
    def incomplete(self) -> int:
        """How many past decisions it was not compared with, since the shards of a cluster that hold
        them were down (`lw.cluster(when_down="incomplete")`). `late()` tells what was missed.
        """
        return self._context.incomplete

    @property
    def clean(self) -> bool:
        """Whether nothing contradicts it, and nothing that is known stands against saying so.

        No violation, no alarm, nothing missing or incomplete, and not known to have had no like
        case: where that was not asked (`comparable` is None), it is not held against it. What a
        window or an erasure left out of the comparison was the owner's choice; `over` tells it.
        """
        beside = self._context
        return (
            not self.violation
            and (beside.question is None or not isnan(self.slope or 0.0))
            and not beside.alarm
            and beside.missing == 0
            and beside.incomplete == 0
            and beside.comparable is not False
        )

    @property
    def over(self) -> ComparedRows | None:
        """What it was compared with, where a ledger keeps that; else all remembered then."""
        return self._context.over

    @property
    def neighbours(self) -> int | None:
        """How many of the last decisions had a near input, whatever their output.

        None where the monitor has no burst to count.
        """
        return self._context.neighbours

    @property
    def alarm(self) -> bool:
        """Whether there are so many neighbours that the burst's alarm is raised."""
        return self._context.alarm

    @property
    def key(self) -> Any:
        """The caller's own key of this decision, if it was given one."""
        return self._context.key

    @property
    def witness_keys(self) -> tuple[Any, ...]:
        """The keys of the witnesses, in their order; None for a decision without one."""
        known = self._context.witness_keys
        return (None,) * len(self.witnesses) if known is None else known

    @property
    def model(self) -> str | None:
        """The model that made this decision, if that was said."""
        return self._context.model

    @property
    def witness_models(self) -> tuple[str | None, ...]:
        """The models of the witnesses, in their order; None for a decision without one."""
        known = self._context.witness_models
        return (None,) * len(self.witnesses) if known is None else known

    def explain(self, count: int = 3) -> SideBySide:
        """The decision beside its nearest witnesses, what differs first, in its own units."""
        if self._context.past is None:
            raise BadRow("this verdict was made without a monitor, so its rows cannot be shown.")
        _require_contradictions(self._context.question)
        return self._context.past.explain(self, count)

    @property
    def context(self) -> VerdictContext:
        """All that is said beside the witnesses."""
        return self._context

    @property
    def values(self) -> Mapping[str, Any] | None:
        """The row of a table as it came, if it was only checked; else the monitor's past has it."""
        return self._context.values

    def __reduce__(self) -> Any:
        """What is pickled or copied: all but the monitor's past."""
        return Verdict, (self.row, self.witnesses, self._context._replace(past=None))

    def detach(self) -> "Verdict":
        """The same verdict, without the arrays of a batch behind its witnesses."""
        if isinstance(self.witnesses._rows, bytes):  # a verdict alone has no batch behind it
            return self
        return Verdict(
            self.row, self.witnesses.select(np.arange(len(self.witnesses))), self._context
        )

    def to_dict(self, witnesses: int | None = None) -> dict[str, Any]:
        """For JSON, by the names that every verdict has there; see verdict_body.py.

        witnesses: how many are named, nearest first; all of them unless given

        >>> Verdict(1, NO_WITNESSES).to_dict()
        {'row': 1, 'violation': False, 'count': 0, 'witnesses': []}
        """
        return write_body(self, witnesses)

    def _repr_html_(self) -> str | None:
        return html_of_verdict(self) if self._context.question is None else None


_set_row = vars(Verdict)["row"].__set__
_set_witnesses = vars(Verdict)["witnesses"].__set__
_set_context = vars(Verdict)["_context"].__set__


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Verdicts:
    """The verdicts of a batch, in its order.

    The witnesses of decision i are `witnesses` from offsets[i] up to offsets[i + 1].
    Verdicts are equal if all that they say is; the monitor that they come from plays no part.
    """

    first_row: int
    offsets: Rows
    witnesses: Witnesses
    firsts: Rows | None = None
    """The first row that each was compared with, where a ledger keeps that."""
    absent: Rows | None = None
    """How many rows since then were erased, and could not be compared with."""
    neighbours: Rows | None = None
    """How many of the last decisions had a near input, where a burst is counted."""
    alarm_from: int | None = None
    """How many neighbours raise an alarm."""
    keys: tuple[Any, ...] | None = None
    """The key of each decision, where the monitor has keys; None for one without."""
    witness_keys: tuple[Any, ...] | None = None
    """The key of each of `witnesses`, likewise."""
    comparable: npt.NDArray[np.bool_] | None = None
    """Whether each had a near past input at all, whatever its output, where that is asked."""
    models: tuple[str | None, ...] | None = None
    """The model that made each decision, where the monitor has models; None for one without."""
    witness_models: tuple[str | None, ...] | None = None
    """The model of each of `witnesses`, likewise."""
    missing: int = 0
    """How many decisions were known to be missing from the history when these were judged."""
    left_out: Rows | None = None
    """How many witnesses of each a service has counted and not told; None if it told all."""
    repeats: tuple[Verdict | None, ...] | None = None
    """For each decision that was sent before, under its key, what was answered then; None for the
    others. None if there is none."""
    row_numbers: Rows | None = None
    """The row of each, where some were sent before; else they count from `first_row` on."""
    incomplete: Rows | None = None
    """How many past decisions each was not compared with, since shards were down; None: none."""
    question: SlopeQuestion | None = None
    """Where slopes are asked for: the one witness of each is the steepest past decision."""

    past: VerdictPast | None = None
    """Where the rows that the verdicts name can be looked up."""
    values: Sequence[Mapping[str, Any] | None] | None = None
    """Of decisions that were only checked: rows of a table as they came. They have no rows."""

    def __post_init__(self) -> None:
        counted = (self.firsts, self.absent, self.neighbours, self.comparable, self.left_out)
        for array in (self.offsets, self.row_numbers, self.incomplete, *counted):
            if array is not None:
                array.flags.writeable = False

    def __reduce__(self) -> Any:
        """What is pickled or copied: all but the monitor's past."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return _verdicts_of, ({**given, "past": None},)

    @classmethod
    def of(cls, first_row: int, each: Sequence[Witnesses], **beside: Any) -> "Verdicts":
        """Verdicts put together from the witnesses of each decision."""
        each = [NO_WITNESSES, *each]  # there may be none
        offsets = np.cumsum([len(found) for found in each], dtype=np.int64)
        witnesses = Witnesses(
            np.concatenate([found.rows for found in each]),
            np.concatenate([found.input_distances for found in each]),
            np.concatenate([found.output_distances for found in each]),
        )
        return cls(first_row, offsets, witnesses, **beside)

    @classmethod
    def of_checks(
        cls, first_row: int, checks: "Sequence[Verdict]", *, comparable: bool = False
    ) -> "Verdicts":
        """The verdicts of decisions that were only checked, put together.

        comparable: whether each says if it was
        """
        beside = [verdict.context for verdict in checks]
        overs = [one.over for one in beside if one.over is not None]
        near = [one.neighbours for one in beside if one.neighbours is not None]
        named = [one.witness_keys for one in beside if one.witness_keys is not None]
        decided = [one.witness_models for one in beside if one.witness_models is not None]
        alarms = [one.neighbours or 0 for one in beside if one.alarm]
        lacking = np.array([one.incomplete for one in beside], np.int64)
        return cls.of(
            first_row,
            [verdict.witnesses for verdict in checks],
            firsts=np.array([over.first for over in overs], np.int64) if overs else None,
            absent=np.array([over.absent for over in overs], np.int64) if overs else None,
            neighbours=np.array(near, np.int64) if near else None,
            alarm_from=min(alarms, default=None),
            comparable=np.array([one.comparable for one in beside], np.bool_)
            if comparable
            else None,
            keys=(None,) * len(checks) if named else None,
            witness_keys=tuple(key for keys in named for key in keys) if named else None,
            models=tuple(one.model for one in beside) if decided else None,
            witness_models=tuple(one for some in decided for one in some) if decided else None,
            missing=beside[0].missing if beside else 0,
            question=beside[0].question if beside else None,
            incomplete=lacking if lacking.any() else None,
            past=beside[0].past if beside else None,
            values=[one.values for one in beside],
        )

    @classmethod
    def with_repeats(
        cls, first_row: int, each: "Sequence[Verdict]", new_verdicts: "Verdicts | None"
    ) -> "Verdicts":
        """A batch of which some were sent before (`known`); the others are `fresh`, in order.

        Where those sent before are not counted, there are zeros.
        """
        beside = [verdict.context for verdict in each]
        overs = [ComparedRows(0, 0, 0) if one.over is None else one.over for one in beside]
        more: dict[str, Any] = {}
        if new_verdicts is not None:
            kept = ("alarm_from", "missing")
            more = {name: getattr(new_verdicts, name) for name in kept}
            if new_verdicts.firsts is not None:
                more["firsts"] = np.array([over.first for over in overs], np.int64)
                more["absent"] = np.array([over.absent for over in overs], np.int64)
            if new_verdicts.neighbours is not None:
                more["neighbours"] = np.array([one.neighbours or 0 for one in beside], np.int64)
        if any(one.incomplete for one in beside):
            more["incomplete"] = np.array([one.incomplete for one in beside], np.int64)
        if all(one.comparable is not None for one in beside):
            more["comparable"] = np.array([one.comparable for one in beside], np.bool_)
        if any(one.witness_models is not None for one in beside):
            more["models"] = tuple(one.model for one in beside)
            named = [verdict.witness_models for verdict in each]
            more["witness_models"] = tuple(name for some in named for name in some)
        return cls.of(
            first_row,
            [verdict.witnesses for verdict in each],
            keys=tuple(one.key for one in beside),
            witness_keys=tuple(key for verdict in each for key in verdict.witness_keys),
            repeats=tuple(verdict if verdict.known else None for verdict in each),
            row_numbers=np.array([verdict.row for verdict in each], np.int64),
            past=beside[0].past,
            question=beside[0].question,
            **more,
        )

    def select_witnesses(self, chosen: npt.NDArray[np.bool_]) -> "Verdicts":
        """The same verdicts with these witnesses only."""
        counts = np.bincount(self.owners[chosen], minlength=len(self))
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            witnesses=self.witnesses.select(chosen),
            witness_keys=_select_names(self.witness_keys, chosen),
            witness_models=_select_names(self.witness_models, chosen),
        )

    def mark_nearest(self, most: int) -> npt.NDArray[np.bool_]:
        """Which of `witnesses` are among the `most` nearest of their decision.

        The earlier row counts as nearer where two are equally near.
        """
        owners, near, sizes = self.owners, self.witnesses.input_distances, self._named_counts
        order = _nearest_first(near, self.offsets[:-1], np.where(sizes > most, sizes, 0))
        nearest = np.empty(len(near), np.bool_)
        nearest[order] = np.arange(len(near)) - self.offsets[owners] < most
        return nearest

    def nearest_witnesses(self, most: int) -> tuple[Rows, Rows]:
        """The `most` nearest of each: whose they are, and their places among `witnesses`.

        By decision, nearest first; the earlier row first where equally near.
        """
        owners, near = self.owners, self.witnesses.input_distances
        order = _nearest_first(near, self.offsets[:-1], self._named_counts)
        nearest = np.arange(len(near)) - self.offsets[owners] < most
        return owners[nearest], order[nearest]

    @property
    def owners(self) -> Rows:
        """For each of `witnesses`, the place in the batch of the decision that it belongs to."""
        return np.arange(len(self), dtype=np.int64).repeat(self._named_counts)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether each was sent before, under its key: then this is what was answered then."""
        each = self.repeats or (None,) * len(self)
        return np.array([one is not None for one in each], np.bool_)

    @property
    def omitted(self) -> Rows:
        """How many witnesses of each are counted but not told."""
        fresh = np.zeros(len(self), np.int64) if self.left_out is None else self.left_out
        if self.repeats is None:
            return fresh
        each = zip(self.repeats, fresh.tolist(), strict=True)
        return np.array([more if one is None else one.omitted for one, more in each], np.int64)

    @property
    def alarms(self) -> npt.NDArray[np.bool_]:
        """Whether each decision raised an alarm."""
        if self.neighbours is None or self.alarm_from is None:
            return np.zeros(len(self), dtype=np.bool_)
        return self.neighbours >= self.alarm_from

    @property
    def rows(self) -> Rows:
        """The batch's rows in the history."""
        if self.row_numbers is not None:
            return self.row_numbers
        return np.arange(self.first_row, self.first_row + len(self), dtype=np.int64)

    @property
    def counts(self) -> Rows:
        """Witnesses per decision, those that are not told included."""
        if self.repeats is None and self.left_out is None:
            return self._named_counts
        return self._named_counts + self.omitted

    @property
    def _named_counts(self) -> Rows:
        """Witnesses per decision that are told."""
        told: Rows = self.offsets[1:] - self.offsets[:-1]  # a fifth of the time of np.diff
        return told

    @property
    def violations(self) -> npt.NDArray[np.bool_]:
        """Whether each decision has a witness; of slopes, one above the limit."""
        if self.question is not None:
            return self.slopes > self.question.limit
        return self.counts > 0

    @property
    def slopes(self) -> Floats:
        """`Verdict.slope` of each, where slopes are asked for; elsewhere zeros."""
        slopes = np.zeros(len(self))
        if self.question is not None:
            found = self.witnesses
            steepest = self.question.slopes(found.input_distances, found.output_distances)
            slopes[self._named_counts > 0] = steepest
        slopes.flags.writeable = False
        return slopes

    @property
    def clean(self) -> npt.NDArray[np.bool_]:
        """`Verdict.clean` of each: nothing contradicts it, and nothing stands against saying so."""
        clean: npt.NDArray[np.bool_] = ~(self.violations | self.alarms)
        if self.comparable is not None:
            clean &= self.comparable
        clean &= self.missing == 0
        if self.incomplete is not None:
            clean &= self.incomplete == 0
        if self.question is not None:
            clean &= ~np.isnan(self.slopes)
        for i, one in enumerate(self.repeats or ()):
            if one is not None:
                clean[i] = one.clean
        return clean

    @property
    def pairs(self) -> int:
        """Witnesses in all, those that are not told included: each is one violating pair."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __bool__(self) -> bool:
        raise TypeError(
            "several verdicts are neither true nor false: ask verdicts.violations.any(), whether a"
            " decision contradicts an earlier one, or len(verdicts)."
        )

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other, "past") if isinstance(other, Verdicts) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        how = f"from row {self.first_row} on" if self.values is None else "checked"
        return (
            f"<Verdicts: {len(self):,} decisions {how}, {int(self.violations.sum()):,} violations,"
            f" {self.pairs:,} pairs>"
        )

    def __getitem__(self, i: int) -> Verdict:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"this batch has {n} verdicts, there is no number {i}")
        i %= n
        before = None if self.repeats is None else self.repeats[i]
        if before is not None:
            return before
        part = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        found = self.witnesses
        return Verdict(
            self._row(i) if self.values is None else None,
            Witnesses(found.rows[part], found.input_distances[part], found.output_distances[part]),
            self._make_context(i, part),
        )

    def _row(self, i: int) -> int:
        return self.first_row + i if self.row_numbers is None else int(self.row_numbers[i])

    def _make_context(self, i: int, part: slice) -> VerdictContext:
        over, near = None, None
        if self.firsts is not None and self.absent is not None:
            stop = self._row(i) if self.values is None else self.first_row
            over = ComparedRows(int(self.firsts[i]), stop, int(self.absent[i]))
        if self.neighbours is not None:
            near = int(self.neighbours[i])
        return VerdictContext(
            self.past,
            over,
            near,
            near is not None and self.alarm_from is not None and near >= self.alarm_from,
            None if self.keys is None else self.keys[i],
            None if self.witness_keys is None else self.witness_keys[part],
            None if self.values is None else self.values[i],
            None if self.comparable is None else bool(self.comparable[i]),
            None if self.models is None else self.models[i],
            None if self.witness_models is None else self.witness_models[part],
            self.missing,
            omitted=0 if self.left_out is None else int(self.left_out[i]),
            incomplete=0 if self.incomplete is None else int(self.incomplete[i]),
            question=self.question,
        )

    def by_group(self, column: str) -> GroupEffects:
        """Who got less, by protected group: these decisions and all before them, compared."""
        if self.past is None:
            raise BadRow("these verdicts were made without a monitor, so nothing can be counted.")
        return self.past.by_group(self, column)

    def by_model(self) -> tuple[ModelCounts, ...]:
        """Decisions and contradictions of each model; none where no decision has a model.

        Contradictions with earlier decisions of the same model are counted apart from those with
        decisions of other models.
        """
        if self.past is None:
            raise BadRow("these verdicts were made without a monitor, so nothing can be counted.")
        _require_contradictions(self.question)
        return self.past.by_model(self)

    def to_dicts(self, witnesses: int | None = None) -> list[dict[str, Any]]:
        """`Verdict.to_dict` of each, in the order of the batch."""
        return [verdict.to_dict(witnesses) for verdict in self]

    def _repr_html_(self) -> str | None:
        return html_of_verdicts(self) if self.question is None else None

    def __iter__(self) -> Iterator[Verdict]:
        return (self[i] for i in range(len(self)))


def _require_contradictions(question: SlopeQuestion | None) -> None:
    if question is not None:
        raise BadRule(
            "these verdicts name slopes, and this is about contradictions: ask for `slope` and"
            " `witnesses`.",
            setting="slope",
        )


def _select_names(
    names: tuple[Any, ...] | None, chosen: npt.NDArray[np.bool_]
) -> tuple[Any, ...] | None:
    return None if names is None else tuple(compress(names, chosen.tolist()))


def same_fields(one: Any, other: Any, *but: str) -> bool:
    """Whether two values of a dataclass are equal in all fields but these."""
    return all(
        _is_same(getattr(one, field.name), getattr(other, field.name))
        for field in fields(one)
        if field.name not in but
    )


def _is_same(one: Any, other: Any) -> bool:
    arrays = isinstance(one, np.ndarray), isinstance(other, np.ndarray)
    if not all(arrays):
        return not any(arrays) and bool(one == other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def _verdicts_of(given: dict[str, Any]) -> Verdicts:
    return Verdicts(**given)


def _nearest_first(distances: Floats, starts: Rows, counts: Rows) -> Rows:
    """An order of runs of distances, each sorted for itself; the earlier one first where equal.

    Runs of about the same length are rows of one matrix, filled up to its width: sorting those
    takes a fraction of the time of sorting all distances at once.
    """
    order: Rows = np.arange(len(distances))
    several = np.flatnonzero(counts > 1)
    if len(several) <= _FEW_RUNS:
        for start, count in zip(starts[several].tolist(), counts[several].tolist(), strict=True):
            run = slice(start, start + count)
            order[run] = start + distances[run].argsort(kind="stable")
        return order
    for bits in range(1, int(counts.max(initial=0)).bit_length() + 1):
        width = 1 << bits
        runs = np.flatnonzero((counts > width // 2) & (counts <= width))
        together = max(1, _SORTED_TOGETHER // width)
        for first in range(0, len(runs), together):
            some = runs[first : first + together]
            there = np.arange(width) < counts[some, None]
            places = np.where(there, starts[some, None] + np.arange(width), 0)
            ranks = np.where(there, distances[places], np.inf).argsort(axis=1, kind="stable")
            order[places[there]] = np.take_along_axis(places, ranks, axis=1)[there]
    return order
