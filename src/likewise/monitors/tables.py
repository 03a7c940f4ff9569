"""The monitor of a rule with features: rows of a table in, verdicts that can be explained out.

`Monitor(rule)` makes one of these where the rule has features. Columns become vectors
(features/encoding.py), which the engine compares; here stand the names around it: keys, groups,
values as they came.

Invariant: the columns kept and the history have the same rows.
Cost: reading a row takes longer than judging it; a table at once takes less for each row.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.burst import Burst
from likewise.errors import BadDecision, LikewiseError
from likewise.features.encoding import Encoder, Read
from likewise.features.remembered import Remembered
from likewise.features.single import SingleReader, plain_number
from likewise.monitors.groups import Groups, count_groups
from likewise.monitors.loose import Loose
from likewise.monitors.refusal import rows_of
from likewise.monitors.remembering import SURE
from likewise.monitors.robustness import Monitor
from likewise.monitors.side_by_side import Pair, SideBySide, measured_gaps
from likewise.rule import Rule
from likewise.tables import Column, columns_of, is_missing, numbers_of, row_of, values_of
from likewise.types import NO_WITNESSES, Rows, Verdict, Verdicts, Witnesses

_Reading: TypeAlias = tuple[Read, Any, list[Any]]
"""Vectors, outputs and keys."""
GIVEN_APART: Any = object()
"""Stands for the output of a decision that has it among its columns."""


class TableMonitor(Monitor):
    """Watches decisions that come as rows of a table.

    >>> import likewise as lw
    >>> rule = lw.Rule(
    ...     features={
    ...         "age": lw.Feature("number", tolerance=5),
    ...         "job": lw.Feature("category"),
    ...         "sex": lw.Feature("protected"),
    ...     },
    ...     output_column="approved",
    ... )
    >>> monitor = lw.Monitor(rule)
    >>> monitor.observe({"age": 41, "job": "nurse", "sex": "f", "approved": "no"}).violation
    False
    >>> verdict = monitor.observe({"age": 44, "job": "nurse", "sex": "m", "approved": "yes"})
    >>> print(verdict.explain())  # doctest: +NORMALIZE_WHITESPACE
    row 1 contradicts row 0, 0.6 away
              row 1  row 0
    approved  yes    no     *
    age       44     41     *
    sex       m      f      *
    job       nurse  nurse
    """

    def __init__(
        self,
        rule: Rule,
        *,
        index: Any = "auto",
        rows: str | os.PathLike[str] | None = None,
        burst: Burst | None = None,
    ) -> None:
        self._encoder = Encoder(rule)
        super().__init__(self._encoder.plain(rule), index=index, rows=rows, burst=burst)
        self.rule = rule
        self._unkept = False  # whether a call was cut off before all that it judged was kept
        self._kept = Remembered(self._encoder)
        self._loose = Loose()
        given = rule.output_column or ()
        self._output_columns: tuple[str, ...] = (given,) if isinstance(given, str) else tuple(given)
        self._known = (*self._encoder.features, *self._output_columns)
        self._single = SingleReader(self._encoder)
        self._known_names = set(self._known)
        self._feature_names = {
            name for name, feature in self._encoder.features.items() if feature.kind != "ignore"
        }
        self._all_names = self._feature_names | set(self._output_columns)

    # Reading

    def _read(self, given: Any, z: Any) -> tuple[Read, Any, list[Any]]:
        """Vectors, outputs and keys of a table, nothing changed."""
        features = self._encoder.features
        names = [name for name, feature in features.items() if feature.kind != "ignore"]
        apart = z is not GIVEN_APART
        wanted = names if apart else [*names, *self._output_columns]
        columns = columns_of(given, wanted, self._known)
        counts = {len(column) for column in columns.values()}
        count = counts.pop() if counts else 0
        if not apart:
            z = self._outputs_in(columns)
        elif hasattr(z, "to_list"):  # a series, whose z[0] may be anything
            z = z.to_list()
        read = self._encoder.read(columns, count)
        return read, z, self._kept.check_keys(columns)

    def _outputs_in(self, columns: dict[str, Column]) -> Any:
        """Take the outputs out of the columns; each decision has one."""
        outputs = []
        for name in self._output_columns:
            column = columns.pop(name)
            outputs.append(column if self.rule.output == "label" else numbers_of(name, column))
            at = next((i for i, one in enumerate(values_of(outputs[-1])) if is_missing(one)), None)
            if at is not None:
                raise BadDecision(
                    f"row {at}: the output {name!r} is missing. Nothing was stored: every decision"
                    " has one."
                )
        return np.stack(outputs, axis=1) if self.rule.output == "probabilities" else outputs[0]

    def vectors(self, table: Any, z: Any = GIVEN_APART) -> tuple[Rule, Read, Any]:
        """What a table's rows become: the rule for vectors, the vectors, the outputs."""
        with self._lock:
            self._ready()
            read, outputs, _ = self._begun(self._read, table, z)
            self._unkept = False
            return self._rule, read, outputs

    def _keep(self, read: Read, keys: list[Any]) -> None:
        """Keep the columns of rows that the history has; the last step counts them."""
        first, count = self._kept.count, len(read.vectors)
        if read.news:
            self._encoder.commit()
        for i in range(count) if self._encoder.can_be_loose else ():
            self._loose.add(first + i, read.loose[i])
        self._kept.add(read.kept, keys, count)

    # After a call that was cut off

    def _begun(self, read: Callable[[Any, Any], _Reading], x: Any, z: Any) -> _Reading:
        """What was read; from here on, until all of it is kept, a call may be cut off."""
        self._unkept = True
        try:
            return read(x, z)
        except LikewiseError:  # refused: nothing has changed
            self._unkept = False
            raise

    def _refused(self) -> None:
        super()._refused()
        self._unkept = self._cut_off != SURE

    def _ready(self) -> None:
        if self._cut_off or self._unkept:
            self._recover()
            self._unkept = False

    def _settled_rows(self) -> int:
        """Rows whose columns are kept: the history may be ahead of them."""
        self._encoder.settle()
        self._kept.settle()
        self._loose.settle(self._kept.count)
        return self._kept.count

    def _take_back(self, rows: int) -> None:
        with self._lock:
            self._ready()
            self._unkept = True
            self._kept.count = rows
            self._ready()

    def _forgotten(self, rows: Rows) -> None:
        self._kept.erase(rows)
        self._loose.erase(rows)

    # Judging

    def observe(self, x: Any, z: Any = GIVEN_APART) -> "TableVerdict":
        """Compare a row with the past, then make it part of the past.

        x is a dictionary or named tuple; its output may be in it, or be given as z.
        """
        with self._lock:
            self._ready()
            read, outputs, keys = self._begun(self._read_one, x, z)
            verdict = super().observe(read.vectors[0], _one(outputs))
            assert verdict.row is not None
            witnesses = self._whole(read, 0, verdict.row, verdict.witnesses)
            near = self._near(read, verdict.row, verdict.neighbours)
            self._keep(read, keys)
            self._unkept = False
            told = TableVerdict(verdict.row, self._counted(verdict.row, witnesses), self, None)
            if self._kept.key is not None:
                told.named(self._kept.key_of)
            return told if near is None else told.amid(near, self._alarm)

    def check(self, x: Any, z: Any = GIVEN_APART) -> "TableVerdict":
        """The verdict on a row as if it came now; nothing is remembered."""
        with self._lock:
            self._ready()
            read, outputs, _ = self._begun(self._read_one, x, z)
            verdict = super().check(read.vectors[0], _one(outputs))
            witnesses = self._whole(read, 0, self._kept.count, verdict.witnesses)
            kept = {name: np.atleast_1d(column)[0] for name, column in read.kept.items()}
            near = self._near(read, self._kept.count, verdict.neighbours)
            self._unkept = False
            given = self._shown(kept, _one(outputs), read)
            told = TableVerdict(None, self._counted(None, witnesses, kept), self, given)
            if self._kept.key is not None:
                told.named(self._kept.key_of)
            return told if near is None else told.amid(near, self._alarm)

    def observe_many(
        self, x: Any, z: Any = GIVEN_APART, *, threads: int | None = None
    ) -> "TableVerdicts":
        """The same verdicts as `observe` would give one by one; all are remembered, or none."""
        with self._lock:
            self._ready()
            read, outputs, keys = self._begun(self._read, x, z)
            first = self._kept.count
            found = super().observe_many(read.vectors, outputs, threads=threads)
            self._keep(read, keys)
            offsets, witnesses, near = found.offsets, found.witnesses, found.neighbours
            if self._encoder.can_be_loose and len(self._loose):
                each = [
                    self._whole(read, i, first + i, one.witnesses) for i, one in enumerate(found)
                ]
                offsets, witnesses = _joined(each)
                near = self._near_many(read, first, near)
            self._unkept = False
            if self.rule.protected_must_differ:
                owners = np.repeat(np.arange(first, self._kept.count), np.diff(offsets))
                differ = self._differ(owners, witnesses.rows)
                counts = np.bincount(owners[differ] - first, minlength=len(found))
                offsets = np.concatenate([[0], np.cumsum(counts)])
                witnesses = witnesses.some(differ)
            verdicts = TableVerdicts(first, offsets, witnesses, self)
            if self._kept.key is not None:
                verdicts.named(self._kept.key_of)
            return verdicts if near is None else verdicts.amid(near, self._alarm)

    def load(self, x: Any, z: Any = GIVEN_APART) -> range:
        """Remember rows without judging them; their rows."""
        with self._lock:
            self._ready()
            read, outputs, keys = self._begun(self._read, x, z)
            rows = super().load(read.vectors, outputs)
            self._keep(read, keys)
            self._unkept = False
            return rows

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""
        with self._lock:
            self._ready()
            return self._kept.row_of(key)

    def keys(self, rows: Any) -> list[Any]:
        """The keys of rows; None where the rule has no key, or the row is forgotten."""
        with self._lock:
            self._ready()
            return [self._kept.key_of(row) for row in np.asarray(rows).reshape(-1).tolist()]

    def values(self, row: int) -> dict[str, Any]:
        """A row as it came, its output included; None where something was missing."""
        with self._lock:
            self._ready()
            rows_of(row, self._next_row, "Ask for rows that it has.")
            return {**self._kept.values(row), **self._output_of(self._output_at(row))}

    def _read_one(self, x: Any, z: Any) -> tuple[Read, Any, list[Any]]:
        given = row_of(x)
        if given is None:
            raise BadDecision(
                f"the decision is {x!r}; expected a dictionary or a named tuple with the rule's"
                " columns. Nothing was stored: give tables to observe_many."
            )
        if z is GIVEN_APART and given.keys() >= self._all_names:
            z = self._output_in(given)
        if z is not GIVEN_APART and self._known_names >= given.keys() >= self._feature_names:
            read = self._single.read(given)
            if read is not None:
                key = self._kept.key
                keys = [] if key is None else self._kept.check_keys({key: [given[key]]})
                return read, [z], keys
        if z is GIVEN_APART:
            return self._read(x, z)
        row = {name: one for name, one in given.items() if name not in self._output_columns}
        return self._read(row, [z])

    def _output_in(self, row: Mapping[str, Any]) -> Any:
        """The output in a row, if it is a plain one."""
        outputs = [row[name] for name in self._output_columns]
        if self.rule.output == "label":
            return GIVEN_APART if is_missing(outputs[0]) else outputs[0]
        if any(plain_number(one) is None for one in outputs):
            return GIVEN_APART
        return outputs if self.rule.output == "probabilities" else outputs[0]

    def _whole(self, read: Read, i: int, row: int, found: Witnesses) -> Witnesses:
        """With rows that leave something open, where a rule allows that."""
        if not self._encoder.can_be_loose or self._history is None:
            return found
        assert self._index is not None
        return self._loose.judge(self._history, self._index, row, read.loose[i], found)

    def _near(self, read: Read, row: int, counted: int | None) -> int | None:
        """The neighbours of a row, counted again where a row leaves something open."""
        if counted is None or not self._encoder.can_be_loose or self._history is None:
            return counted
        if not read.loose[0].any() and not len(self._loose):
            return counted
        again = self._near_many(read, row, np.array([counted]))
        return None if again is None else int(again[0])

    def _near_many(self, read: Read, row: int, counted: Rows | None) -> Rows | None:
        """The same for rows of a batch, of which the first is `row`."""
        if counted is None or self._crowd is None or self._history is None:
            return counted
        index = self._crowd.ready(self._history.total)
        firsts = self._crowd.bounds(row, len(counted)).tolist()
        again = [
            self._loose.count(self._history, index, row + i, read.loose[i], first)
            for i, first in enumerate(firsts)
        ]
        return np.array(again, dtype=np.int64)

    # Protected columns

    def _protected(self) -> list[str]:
        return [
            name for name, feature in self._encoder.features.items() if feature.kind == "protected"
        ]

    def _differ(self, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        """Whether rows differ from others in a protected column."""
        differ = np.zeros(len(rows), dtype=np.bool_)
        for name in self._protected():
            codes = self._kept.column(name)
            differ |= codes[rows] != codes[others]
        return differ

    def _counted(
        self, row: int | None, witnesses: Witnesses, kept: Mapping[str, Any] | None = None
    ) -> Witnesses:
        """Those witnesses that count: all, or those that differ in a protected column."""
        if not self.rule.protected_must_differ or len(witnesses) == 0:
            return witnesses
        differ = np.zeros(len(witnesses), dtype=np.bool_)
        for name in self._protected():
            codes = self._kept.column(name)
            mine = codes[row] if kept is None else kept[name]
            differ |= codes[witnesses.rows] != mine
        return witnesses.some(differ)

    # Telling

    def _output_of(self, output: Any) -> dict[str, Any]:
        if len(self._output_columns) == 1:
            return {self._output_columns[0]: output}
        values = [None] * len(self._output_columns) if output is None else list(output)
        return dict(zip(self._output_columns, values, strict=False))

    def _shown(self, kept: Mapping[str, Any], output: Any, read: Read) -> dict[str, Any]:
        """A row that was only checked, as it came."""
        values = {}
        for name, one in kept.items():
            vocabulary = self._encoder.vocabularies.get(name)
            if vocabulary is not None and one >= len(vocabulary.values):
                values[name] = vocabulary.fresh_value(one)
            else:
                values[name] = self._kept.shown(name, one)
        return {**values, **self._output_of(output)}


class TableVerdict(Verdict):
    """A verdict that can be explained."""

    __slots__ = ("_given", "_monitor")
    _monitor: TableMonitor
    _given: dict[str, Any] | None

    def __init__(
        self,
        row: int | None,
        witnesses: Witnesses,
        monitor: TableMonitor,
        given: dict[str, Any] | None,
    ) -> None:
        super().__init__(row, witnesses)
        object.__setattr__(self, "_monitor", monitor)
        object.__setattr__(self, "_given", given)

    def explain(self, count: int = 3) -> SideBySide:
        """The decision beside its nearest witnesses, columns that differ first, in their units."""
        monitor = self._monitor
        with monitor._lock:
            mine = self._given or monitor.values(self.row or 0)
            pairs = []
            for witness in self.witnesses.nearest(count):
                other = monitor.values(witness.row)
                gaps = measured_gaps(monitor._encoder.features, mine, other)
                pairs.append(Pair(self.row, witness, mine, other, gaps, monitor._output_columns))
            return SideBySide(tuple(pairs), len(self.witnesses))


class TableVerdicts(Verdicts):
    """Verdicts of a table's rows."""

    __slots__ = ("_monitor",)
    _monitor: TableMonitor

    def __init__(
        self, first_row: int, offsets: Rows, witnesses: Witnesses, monitor: TableMonitor
    ) -> None:
        super().__init__(first_row, offsets, witnesses)
        object.__setattr__(self, "_monitor", monitor)

    def __getitem__(self, i: int) -> TableVerdict:
        one = super().__getitem__(i)
        verdict = TableVerdict(one.row, one.witnesses, self._monitor, None)
        object.__setattr__(verdict, "_beside", one._beside)
        return verdict

    def by_group(self, column: str) -> Groups:
        """How often a violating pair put which protected group at a disadvantage."""
        return count_groups(self, self._monitor, column)


def _one(outputs: Any) -> Any:
    return outputs[0]


def _joined(each: list[Witnesses]) -> tuple[Rows, Witnesses]:
    each = [NO_WITNESSES, *each]  # there may be none
    offsets = np.cumsum([len(one) for one in each], dtype=np.int64)
    return offsets, Witnesses(
        np.concatenate([one.rows for one in each]),
        np.concatenate([one.input_distances for one in each]),
        np.concatenate([one.output_distances for one in each]),
    )
