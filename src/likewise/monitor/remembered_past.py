"""Read the past of a monitor in this process: what its memory holds, by row."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.compare_groups import compare_groups
from likewise.explaining.model_tally import counts_by_model
from likewise.explaining.pairs import explain_pairs
from likewise.explaining.past import Points
from likewise.monitor.memory import Memory
from likewise.rule.rule import Rule
from likewise.search.engine.engine import threads_of
from likewise.search.engine.refusal import row_of, rows_of
from likewise.tables.array_types import Rows
from likewise.tables.keys import Keys
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import CodedColumn, ComparisonSpan, LikeModels, ModelCounts
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.verdicts import Verdict, Verdicts

MOST_PAIRS = 100_000_000  # some twelve seconds
_CHUNK = 1 << 20


def find_like_models(memory: Memory, rows: range) -> LikeModels | None:
    """Say for each of these rows whether it has an earlier similar case within and across models.

    None if no model is known; if a row up to the last of these is forgotten, so that what was
    compared with it is gone; or if there are more pairs than MOST_PAIRS.
    """
    if not memory.models or not memory.engine.are_remembered(np.arange(rows.stop)).all():
        return None
    count = memory.engine.rows
    codes = memory.models.codes(np.arange(count))
    within, across = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    seen = 0
    for pairs in memory.like_pairs(most=_CHUNK, threads=threads_of(None)):
        seen += len(pairs)
        if seen > MOST_PAIRS:
            return None
        same = codes[pairs.later] == codes[pairs.earlier]
        within[pairs.later[same]] = True
        across[pairs.later[~same]] = True
    part = slice(rows.start, rows.stop)
    return LikeModels(within[part], across[part])


_ADVICE = "Ask for rows that it has."


class RememberedPast:
    """Reads a memory while the lock of its monitor is held, so that only finished calls are seen.

    lock_for_reading: context manager that holds the lock
    """

    def __init__(
        self,
        memory: Memory,
        keys: Keys,
        lock_for_reading: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._memory = memory
        self._keys = keys
        self._lock_for_reading = lock_for_reading

    @property
    def rule(self) -> Rule:
        return self._memory.reader.rule

    def _check_rows(self, rows: Any) -> Rows:
        return rows_of(rows, self._memory.engine.rows, _ADVICE)

    def values(self, row: int) -> dict[str, Any]:
        with self._lock_for_reading():
            row = row_of(row, self._memory.engine.rows, _ADVICE)
            reader = self._memory.reader
            values = reader.values(row)
            if reader.key_column is not None:
                values = {reader.key_column: self._keys.key_of(row), **values}
            return values | self.output_values(self._memory.engine.output_at(row))

    def output_values(self, output: Any) -> dict[str, Any]:
        """Return an output under the names of its columns."""
        names = self._memory.reader.output_columns
        if len(names) == 1:
            return {names[0]: output}
        values = [None] * len(names) if output is None else list(output)
        return dict(zip(names, values, strict=False))

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        with self._lock_for_reading():
            return self._memory.engine.inputs(self._check_rows(rows))

    def points(self, rows: Any) -> Points:
        with self._lock_for_reading():
            rows, engine = self._check_rows(rows), self._memory.engine
            left_open = None
            if len(engine.wildcards):
                left_open = engine.wildcards.open_places(engine.rows)[rows]
            return Points(engine.inputs(rows), left_open, self._memory.reader.vector_rule)

    def outputs(self, rows: Any) -> list[Any]:
        with self._lock_for_reading():
            return [self._memory.engine.output_at(row) for row in self._check_rows(rows).tolist()]

    def numbers(self, rows: Any) -> npt.NDArray[np.float64]:
        with self._lock_for_reading():
            return self._memory.engine.numbers(self._check_rows(rows))[:, 0]

    def keys(self, rows: Any) -> list[Any]:
        with self._lock_for_reading():
            return [self._keys.key_of(row) for row in self._check_rows(rows).tolist()]

    def models(self, rows: Any) -> list[str | None]:
        with self._lock_for_reading():
            return list(self._memory.models.names(self._check_rows(rows)))

    def model_codes(self, rows: Any) -> CodedColumn | None:
        with self._lock_for_reading():
            models = self._memory.models
            return models.read_codes(self._check_rows(rows)) if models else None

    def row_of(self, key: Any) -> int | None:
        with self._lock_for_reading():
            return self._keys.row_of(key)

    def alive(self, rows: Any) -> npt.NDArray[np.bool_]:
        with self._lock_for_reading():
            return self._memory.engine.are_remembered(self._check_rows(rows))

    def codes(self, column: str, rows: Any) -> CodedColumn:
        with self._lock_for_reading():
            rows = self._check_rows(rows)
            if column:
                return self._memory.reader.codes(column, rows)
            codes = np.nan_to_num(self._memory.engine.numbers(rows)[:, 0], nan=-1)
            return CodedColumn(codes.astype(np.int64), self._memory.engine.labels)

    def span(self, rows: Any) -> ComparisonSpan | None:
        with self._lock_for_reading():
            span = self._memory.span
            if span is None:
                return None
            times = span.times(self._memory.engine.rows)[self._check_rows(rows)]
            return ComparisonSpan(span.text, span.microseconds, times)

    def like_models(self, rows: range) -> LikeModels | None:
        with self._lock_for_reading():
            return find_like_models(self._memory, rows)

    def explain(self, verdict: Verdict, count: int) -> SideBySide:
        with self._lock_for_reading():
            return explain_pairs(self, verdict, count)

    def by_group(self, verdicts: Verdicts, column: str) -> GroupEffects:
        with self._lock_for_reading():
            stop = min(int(verdicts.rows.max(initial=-1)) + 1, self._memory.engine.rows)
            return compare_groups(self, range(stop), [column])[0]

    def by_model(self, verdicts: Verdicts) -> tuple[ModelCounts, ...]:
        return counts_by_model(verdicts, self.rule.compare)
