"""The answers of a monitor: a `Verdict` on one decision, or the `Verdicts` on a batch.

`Verdicts` hold a batch in flat arrays, and make a `Verdict` when asked for one.
Invariant: both are frozen, and their arrays are read-only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, compress
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRow, BadRule
from likewise.tables.array_types import Floats, Rows
from likewise.tables.new_frames import make_frame
from likewise.verdict.context import (
    EMPTY_CONTEXT,
    ComparedRows,
    Support,
    VerdictContext,
    VerdictPast,
)
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import ModelCounts
from likewise.verdict.notebook_views import html_of_verdict, html_of_verdicts
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdict_body import write_body
from likewise.verdict.witnesses import NO_WITNESSES, Witnesses

SAID_OF_EACH = ("firsts", "absent", "neighbours", "comparable", "near", "not_compared")
"""Fields of `Verdicts` that are None, or arrays with one element for each decision."""
_FEW_RUNS = 16  # so few runs of distances are sorted one by one
_SORTED_TOGETHER = 1 << 17  # so many distances, with their temporary arrays, fit into a CPU cache


@dataclass(frozen=True, slots=True, init=False)
class Verdict:
    """The verdict on one decision: the past decisions that it contradicts, if any.

    `row` is the decision's row in the history, or None if it was only checked.
    Verdicts are equal if they have the same row and witnesses, whatever their context.
    """

    row: int | None
    witnesses: Witnesses
    context: VerdictContext = field(repr=False, compare=False)

    def __init__(
        self, row: int | None, witnesses: Witnesses, context: VerdictContext = EMPTY_CONTEXT
    ) -> None:
        _set_row(self, row)  # half the time of a frozen dataclass's own __init__
        _set_witnesses(self, witnesses)
        _set_context(self, context)

    def __bool__(self) -> bool:
        raise TypeError(
            "a verdict is neither true nor false: ask verdict.violation, whether a near past input"
            " got a different output, or verdict.clean."
        )

    @property
    def violation(self) -> bool:
        """Whether a near past input got a different output, or a slope is above the limit."""
        question = self.context.question
        if question is not None:
            return (self.slope or 0.0) > question.limit
        return len(self.witnesses) > 0 or self.context.omitted_witnesses > 0

    @property
    def slope(self) -> float | None:
        """The steepest slope to a past decision, which is then the only witness.

        0 if no past output differs, NaN if an erasure has destroyed the distances. None for a
        monitor of contradictions (`Monitor(rule, slope=True)` is one of slopes).
        """
        question = self.context.question
        if question is None:
            return None
        return question.slope(*self.witnesses.first[1:]) if len(self.witnesses) else 0.0

    @property
    def count(self) -> int:
        """How many witnesses there are, including omitted ones."""
        return len(self.witnesses) + self.context.omitted_witnesses

    @property
    def repeated(self) -> bool:
        """Whether the decision was sent before, under its key; this is the answer of that time.

        A ledger stores only the nearest witnesses; `omitted_witnesses` counts the others.
        """
        return self.context.repeated

    @property
    def omitted_witnesses(self) -> int:
        """How many witnesses are counted but not listed."""
        return self.context.omitted_witnesses

    @property
    def comparable(self) -> bool | None:
        """Whether there was a near past input, whatever its output.

        None unless the monitor was asked for it (`Monitor(rule, comparable=True)`).
        """
        return self.context.comparable

    @property
    def support(self) -> Support | None:
        """How many past decisions were near, and how many of them agree with this one.

        The others are its witnesses. None unless the monitor was asked for it
        (`Monitor(rule, support=True)`).
        """
        near = self.context.near
        return None if near is None else Support(near, near - self.count)

    @property
    def missing_decisions(self) -> int:
        """How many decisions were known to be missing from the history when it was judged.

        A missing decision cannot contradict anything, so a verdict without a witness says less.
        """
        return self.context.missing_decisions

    @property
    def not_compared(self) -> int:
        """How many past decisions were not compared, since their shards of a cluster were down.

        That happens with `lw.cluster(when_down="incomplete")`; `late()` returns what was missed.
        """
        return self.context.not_compared

    @property
    def clean(self) -> bool:
        """Whether nothing contradicts it, and the comparison was complete.

        That is: no violation, no alarm, nothing missing or not compared, and `comparable` is not
        False (None, which means that it was not asked, does not count against it). Rows that a
        window or an erasure excluded do not count either; `compared_with` says which were compared.
        """
        context = self.context
        return (
            not self.violation
            and (context.question is None or not isnan(self.slope or 0.0))
            and not context.alarm
            and context.missing_decisions == 0
            and context.not_compared == 0
            and context.comparable is not False
        )

    @property
    def compared_with(self) -> ComparedRows | None:
        """The rows that it was compared with; None without a ledger: all that were remembered."""
        return self.context.compared_with

    @property
    def neighbours(self) -> int | None:
        """How many of the last decisions had a near input, whatever their output.

        None if the monitor has no burst.
        """
        return self.context.neighbours

    @property
    def alarm(self) -> bool:
        """Whether there are enough neighbours to raise the burst's alarm."""
        return self.context.alarm

    @property
    def key(self) -> Any:
        """The caller's own key of this decision, if it has one."""
        return self.context.key

    @property
    def witness_keys(self) -> tuple[Any, ...]:
        """The keys of the witnesses, in their order; None for a decision without a key."""
        keys = self.context.witness_keys
        return (None,) * len(self.witnesses) if keys is None else keys

    @property
    def model(self) -> str | None:
        """The model that made this decision, if that is known."""
        return self.context.model

    @property
    def witness_models(self) -> tuple[str | None, ...]:
        """The models of the witnesses, in their order; None for a decision without a model."""
        models = self.context.witness_models
        return (None,) * len(self.witnesses) if models is None else models

    def explain(self, count: int = 3) -> SideBySide:
        """Show the decision beside its nearest witnesses, what differs first, in its own units."""
        if self.context.past is None:
            raise BadRow("this verdict was made without a monitor, so its rows cannot be shown.")
        _require_contradictions(self.context.question)
        return self.context.past.explain(self, count)

    @property
    def values(self) -> Mapping[str, Any] | None:
        """The row of a table that was only checked; the monitor's past has the other rows."""
        return self.context.values

    def __reduce__(self) -> Any:
        """Pickle or copy all but the monitor's past."""
        return Verdict, (self.row, self.witnesses, self.context._replace(past=None))

    def detach(self) -> "Verdict":
        """Return the verdict with copies of its witnesses, which keep no batch alive."""
        if isinstance(self.witnesses._rows, bytes):  # it is not part of a batch
            return self
        witnesses = self.witnesses.select(np.arange(len(self.witnesses)))
        return Verdict(self.row, witnesses, self.context)

    def keep_nearest(self, most: int) -> "Verdict":
        """Return the verdict with at most so many witnesses, the nearest; others are omitted."""
        witnesses, context = self.witnesses, self.context
        if len(witnesses) <= most:
            return self
        places = sorted(witnesses.nearest_places(most))
        keys, models = context.witness_keys, context.witness_models
        context = context._replace(
            omitted_witnesses=context.omitted_witnesses + len(witnesses) - len(places),
            witness_keys=None if keys is None else tuple(keys[i] for i in places),
            witness_models=None if models is None else tuple(models[i] for i in places),
        )
        return Verdict(self.row, witnesses.select(np.array(places, np.int64)), context)

    def to_dict(self, witnesses: int | None = None) -> dict[str, Any]:
        """Return the verdict's body for JSON; see verdict_body.py.

        witnesses: how many are listed, nearest first; None lists all

        >>> Verdict(1, NO_WITNESSES).to_dict()
        {'row': 1, 'violation': False, 'count': 0, 'witnesses': []}
        """
        return write_body(self, witnesses)

    def _repr_html_(self) -> str | None:
        return html_of_verdict(self) if self.context.question is None else None


_set_row = vars(Verdict)["row"].__set__
_set_witnesses = vars(Verdict)["witnesses"].__set__
_set_context = vars(Verdict)["context"].__set__


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Verdicts:
    """The verdicts on a batch, in its order.

    The witnesses of decision i are `witnesses` from offsets[i] up to offsets[i + 1].
    Verdicts are equal if all their fields are, whichever monitor they come from.
    """

    first_row: int
    offsets: Rows
    witnesses: Witnesses
    firsts: Rows | None = None
    """The first row that each was compared with, where a ledger records that."""
    absent: Rows | None = None
    """How many rows since then were erased, so that they were not compared."""
    neighbours: Rows | None = None
    """How many of the last decisions had a near input, where a burst is counted."""
    alarm_from: int | None = None
    """How many neighbours raise an alarm."""
    keys: tuple[Any, ...] | None = None
    """The key of each decision, None for one without; None if the monitor has no keys."""
    witness_keys: tuple[Any, ...] | None = None
    """The key of each of `witnesses`, None for one without."""
    comparable: npt.NDArray[np.bool_] | None = None
    """Whether each had a near past input, whatever its output; None where that is not asked."""
    near: Rows | None = None
    """How many past inputs were near each, whatever their output; None where that is not asked.
    All but `counts` of them agree."""
    models: tuple[str | None, ...] | None = None
    """The model of each decision, None for one without; None if the monitor has no models."""
    witness_models: tuple[str | None, ...] | None = None
    """The model of each of `witnesses`, None for one without."""
    missing_decisions: int = 0
    """How many decisions were known to be missing from the history when these were judged."""
    unlisted_witnesses: Rows | None = None
    """How many witnesses of each a service has counted but not listed; None if it listed all."""
    first_verdicts: tuple[Verdict | None, ...] | None = None
    """The first answer for each decision that was sent before, under its key; None for the others,
    and None if there are only others."""
    row_numbers: Rows | None = None
    """The row of each, if some were sent before; else rows count from `first_row` on."""
    not_compared: Rows | None = None
    """How many past decisions were not compared with each, since shards were down; None for 0."""
    question: SlopeQuestion | None = None
    """The question of a monitor of slopes: the one witness of each is the steepest decision."""

    past: VerdictPast | None = None
    """The past in which the rows of the verdicts can be looked up."""
    values: Sequence[Mapping[str, Any] | None] | None = None
    """The rows of a table that were only checked; they have no row in the history."""

    def __post_init__(self) -> None:
        for name in ("offsets", "row_numbers", "unlisted_witnesses", *SAID_OF_EACH):
            array = getattr(self, name)
            if array is not None:
                array.flags.writeable = False

    def __reduce__(self) -> Any:
        """Pickle or copy all but the monitor's past."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return _verdicts_of, ({**values, "past": None},)

    @classmethod
    def of(cls, first_row: int, each: Sequence[Witnesses], **more: Any) -> "Verdicts":
        """Make the verdicts of a batch from the witnesses of each decision."""
        each = [NO_WITNESSES, *each]  # np.concatenate needs at least one
        offsets = np.cumsum([len(witnesses) for witnesses in each], dtype=np.int64)
        columns = zip(*(witnesses.columns() for witnesses in each), strict=True)
        return cls(first_row, offsets, Witnesses(*map(np.concatenate, columns)), **more)

    @classmethod
    def of_checks(
        cls, first_row: int, checks: "Sequence[Verdict]", *, comparable: bool = False
    ) -> "Verdicts":
        """Join the verdicts of decisions that were only checked.

        comparable: whether each says if it was comparable
        """
        contexts = [verdict.context for verdict in checks]
        overs = [one.compared_with for one in contexts if one.compared_with is not None]
        near = [one.neighbours for one in contexts if one.neighbours is not None]
        keys = [one.witness_keys for one in contexts if one.witness_keys is not None]
        models = [one.witness_models for one in contexts if one.witness_models is not None]
        alarms = [one.neighbours or 0 for one in contexts if one.alarm]
        not_compared = np.array([one.not_compared for one in contexts], np.int64)
        common = contexts[0] if contexts else EMPTY_CONTEXT
        return cls.of(
            first_row,
            [verdict.witnesses for verdict in checks],
            firsts=np.array([over.first for over in overs], np.int64) if overs else None,
            absent=np.array([over.absent for over in overs], np.int64) if overs else None,
            neighbours=np.array(near, np.int64) if near else None,
            alarm_from=min(alarms, default=None),
            comparable=np.array([one.comparable for one in contexts], np.bool_)
            if comparable
            else None,
            near=_column_of(one.near for one in contexts),
            keys=(None,) * len(checks) if keys else None,
            witness_keys=tuple(chain.from_iterable(keys)) if keys else None,
            models=tuple(one.model for one in contexts) if models else None,
            witness_models=tuple(chain.from_iterable(models)) if models else None,
            missing_decisions=common.missing_decisions,
            question=common.question,
            not_compared=not_compared if not_compared.any() else None,
            past=common.past,
            values=[one.values for one in contexts],
        )

    @classmethod
    def with_repeats(
        cls, first_row: int, each: "Sequence[Verdict]", new_verdicts: "Verdicts | None"
    ) -> "Verdicts":
        """Join a batch of which some decisions were sent before (`repeated`).

        `new_verdicts` are those of the other decisions. Counts of decisions that were sent before
        are 0 if they are not known.
        """
        contexts = [verdict.context for verdict in each]
        more: dict[str, Any] = {}
        if new_verdicts is not None:
            more = {
                "alarm_from": new_verdicts.alarm_from,
                "missing_decisions": new_verdicts.missing_decisions,
            }
            if new_verdicts.firsts is not None:
                overs = [one.compared_with or ComparedRows(0, 0, 0) for one in contexts]
                more["firsts"] = np.array([over.first for over in overs], np.int64)
                more["absent"] = np.array([over.absent for over in overs], np.int64)
            if new_verdicts.neighbours is not None:
                more["neighbours"] = np.array([one.neighbours or 0 for one in contexts], np.int64)
        if any(one.not_compared for one in contexts):
            more["not_compared"] = np.array([one.not_compared for one in contexts], np.int64)
        if all(one.comparable is not None for one in contexts):
            more["comparable"] = np.array([one.comparable for one in contexts], np.bool_)
        more["near"] = _column_of(one.near for one in contexts)
        if any(one.witness_models is not None for one in contexts):
            more["models"] = tuple(one.model for one in contexts)
            models = (verdict.witness_models for verdict in each)
            more["witness_models"] = tuple(chain.from_iterable(models))
        return cls.of(
            first_row,
            [verdict.witnesses for verdict in each],
            keys=tuple(one.key for one in contexts),
            witness_keys=tuple(key for verdict in each for key in verdict.witness_keys),
            first_verdicts=tuple(verdict if verdict.repeated else None for verdict in each),
            row_numbers=np.array([verdict.row for verdict in each], np.int64),
            past=contexts[0].past,
            question=contexts[0].question,
            **more,
        )

    def select_witnesses(self, chosen: npt.NDArray[np.bool_]) -> "Verdicts":
        """Return the verdicts with these witnesses only."""
        counts = np.bincount(self.owners[chosen], minlength=len(self))
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            witnesses=self.witnesses.select(chosen),
            witness_keys=_select_names(self.witness_keys, chosen),
            witness_models=_select_names(self.witness_models, chosen),
        )

    def mark_nearest(self, most: int) -> npt.NDArray[np.bool_]:
        """Return which of `witnesses` are among the `most` nearest of their decision.

        Of two that are equally near, the earlier row counts as nearer.
        """
        owners, near, sizes = self.owners, self.witnesses.input_distances, self._listed_counts
        order = _nearest_first(near, self.offsets[:-1], np.where(sizes > most, sizes, 0))
        nearest = np.empty(len(near), np.bool_)
        nearest[order] = np.arange(len(near)) - self.offsets[owners] < most
        return nearest

    def nearest_witnesses(self, most: int) -> tuple[Rows, Rows]:
        """Return the `most` nearest of each: their decisions, and their places in `witnesses`.

        They are sorted by decision, then by distance; equally near ones by row.
        """
        owners, near = self.owners, self.witnesses.input_distances
        order = _nearest_first(near, self.offsets[:-1], self._listed_counts)
        nearest = np.arange(len(near)) - self.offsets[owners] < most
        return owners[nearest], order[nearest]

    @property
    def owners(self) -> Rows:
        """The place in the batch of the decision of each of `witnesses`."""
        return np.arange(len(self), dtype=np.int64).repeat(self._listed_counts)

    @property
    def repeated(self) -> npt.NDArray[np.bool_]:
        """Whether each was sent before, under its key; then this is the answer of that time."""
        each = self.first_verdicts or (None,) * len(self)
        return np.array([first is not None for first in each], np.bool_)

    @property
    def omitted_witnesses(self) -> Rows:
        """How many witnesses of each are counted but not listed."""
        unlisted = self.unlisted_witnesses
        own_counts = np.zeros(len(self), np.int64) if unlisted is None else unlisted
        if self.first_verdicts is None:
            return own_counts
        each = zip(self.first_verdicts, own_counts.tolist(), strict=True)
        return np.array(
            [own if one is None else one.omitted_witnesses for one, own in each], np.int64
        )

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
        """Witnesses per decision, including omitted ones."""
        if self.first_verdicts is None and self.unlisted_witnesses is None:
            return self._listed_counts
        return self._listed_counts + self.omitted_witnesses

    @property
    def _listed_counts(self) -> Rows:
        """Witnesses per decision, without omitted ones."""
        counts: Rows = self.offsets[1:] - self.offsets[:-1]  # a fifth of the time of np.diff
        return counts

    @property
    def violations(self) -> npt.NDArray[np.bool_]:
        """Whether each decision has a witness, or a slope above the limit."""
        if self.question is not None:
            return self.slopes > self.question.limit
        return self.counts > 0

    @property
    def slopes(self) -> Floats:
        """`Verdict.slope` of each; zeros for a monitor of contradictions."""
        slopes = np.zeros(len(self))
        if self.question is not None:
            _, near, far = self.witnesses.columns()
            slopes[self._listed_counts > 0] = self.question.slopes(near, far)
        slopes.flags.writeable = False
        return slopes

    @property
    def clean(self) -> npt.NDArray[np.bool_]:
        """`Verdict.clean` of each: nothing contradicts it, and the comparison was complete."""
        clean: npt.NDArray[np.bool_] = ~(self.violations | self.alarms)
        if self.comparable is not None:
            clean &= self.comparable
        clean &= self.missing_decisions == 0
        if self.not_compared is not None:
            clean &= self.not_compared == 0
        if self.question is not None:
            clean &= ~np.isnan(self.slopes)
        for i, one in enumerate(self.first_verdicts or ()):
            if one is not None:
                clean[i] = one.clean
        return clean

    @property
    def pairs(self) -> int:
        """The number of violating pairs: all witnesses, including omitted ones."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __bool__(self) -> bool:
        raise TypeError(
            "several verdicts are neither true nor false: ask verdicts.violations.any(), whether a"
            " decision contradicts an earlier one, or len(verdicts)."
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verdicts):
            return NotImplemented
        return all(
            _is_same(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
            if field.name != "past"
        )

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
        first = None if self.first_verdicts is None else self.first_verdicts[i]
        if first is not None:
            return first
        part = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        rows, near, far = self.witnesses.columns()
        return Verdict(
            self._row(i) if self.values is None else None,
            Witnesses(rows[part], near[part], far[part]),
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
        unlisted = self.unlisted_witnesses
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
            self.missing_decisions,
            omitted_witnesses=0 if unlisted is None else int(unlisted[i]),
            not_compared=0 if self.not_compared is None else int(self.not_compared[i]),
            near=None if self.near is None else int(self.near[i]),
            question=self.question,
        )

    def by_group(self, column: str) -> GroupEffects:
        """Compare the groups of a protected column over these decisions and all before them."""
        if self.past is None:
            raise BadRow("these verdicts were made without a monitor, so nothing can be counted.")
        return self.past.by_group(self, column)

    def by_model(self) -> tuple[ModelCounts, ...]:
        """Count the decisions and contradictions of each model; () if no decision has a model.

        Contradictions with decisions of the same model and of other models are counted separately.
        """
        if self.past is None:
            raise BadRow("these verdicts were made without a monitor, so nothing can be counted.")
        _require_contradictions(self.question)
        return self.past.by_model(self)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a frame with a line for each decision, and its nearest witness.

        library: "pandas", "polars" or "pyarrow"; unless given, pandas or else Polars. Without a
        witness `nearest_row` is -1, and its distances are NaN.
        """
        checked = self.values is not None
        columns: dict[str, Any] = {
            "place" if checked else "row": np.arange(len(self)) if checked else self.rows,
            "key": self.keys,
            "model": self.models,
            "violation": self.violations,
            "count": self.counts,
            "comparable": self.comparable,
            "near": self.near,
            "agree": None if self.near is None else self.near - self.counts,
            "neighbours": self.neighbours,
            "alarm": None if self.neighbours is None else self.alarms,
            "slope": None if self.question is None else self.slopes,
        }
        owners, places = self.nearest_witnesses(1)
        for name, missing, values in zip(
            ("nearest_row", "input_distance", "output_distance"),
            (-1, np.nan, np.nan),
            self.witnesses.columns(),
            strict=True,
        ):
            columns[name] = np.full(len(self), missing)
            columns[name][owners] = values[places]
        filled = {name: column for name, column in columns.items() if column is not None}
        return make_frame(filled, library)

    def to_dicts(self, witnesses: int | None = None) -> list[dict[str, Any]]:
        """Return `Verdict.to_dict` of each, in the order of the batch."""
        return [verdict.to_dict(witnesses) for verdict in self]

    def _repr_html_(self) -> str | None:
        return html_of_verdicts(self) if self.question is None else None

    def __iter__(self) -> Iterator[Verdict]:
        return (self[i] for i in range(len(self)))


def _require_contradictions(question: SlopeQuestion | None) -> None:
    if question is not None:
        raise BadRule(
            "these verdicts are about slopes, and this is about contradictions: use `slope` and"
            " `witnesses`.",
            setting="slope",
        )


def _column_of(values: Iterable[int | None]) -> Rows | None:
    """Return counts as an array; None unless all are known."""
    counts = [*values]
    return np.array(counts, np.int64) if counts and None not in counts else None


def _select_names(
    names: tuple[Any, ...] | None, chosen: npt.NDArray[np.bool_]
) -> tuple[Any, ...] | None:
    return None if names is None else tuple(compress(names, chosen.tolist()))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of a field are equal; NaN in arrays equals NaN."""
    arrays = isinstance(one, np.ndarray), isinstance(other, np.ndarray)
    if not all(arrays):
        return not any(arrays) and bool(one == other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def _verdicts_of(values: dict[str, Any]) -> Verdicts:
    return Verdicts(**values)


def _nearest_first(distances: Floats, starts: Rows, counts: Rows) -> Rows:
    """Return an order that sorts each run of distances by itself; equal ones stay in order.

    Runs of about the same length become the rows of one padded matrix: sorting it takes a fraction
    of the time of sorting all distances at once.
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
            batch = runs[first : first + together]
            filled = np.arange(width) < counts[batch, None]
            places = np.where(filled, starts[batch, None] + np.arange(width), 0)
            ranks = np.where(filled, distances[places], np.inf).argsort(axis=1, kind="stable")
            order[places[filled]] = np.take_along_axis(places, ranks, axis=1)[filled]
    return order
