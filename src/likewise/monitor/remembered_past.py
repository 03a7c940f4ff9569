"""The past of a monitor in this process: what its memory holds, by row."""

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
from likewise.tables.keys import Keys
from likewise.tables.rows import Rows
from likewise.verdict.group_effects import Groups
from likewise.verdict.model_counts import ModelCounts
from likewise.verdict.past_rows import Codes, LikeModels, Span
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.verdicts import Verdict, Verdicts

MOST_PAIRS = 100_000_000  # some twelve seconds
_CHUNK = 1 << 20


def like_models(memory: Memory, rows: range, *, most_pairs: int = MOST_PAIRS) -> LikeModels | None:
    """For each of these rows, whether there is an earlier like case within and across models.

    None where no model is known, where one of the rows up to the last is forgotten, so that what it
    was compared with is not there any more, or where there are more pairs than `most_pairs`.
    """
    known = np.arange(rows.stop)
    if not memory.models or not memory.engine.alive(known).all():
        return None
    count = memory.engine.rows
    codes = memory.models.codes(np.arange(count))
    within, across = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    seen = 0
    for pairs in memory.like_pairs(most=_CHUNK, threads=threads_of(None)):
        seen += len(pairs)
        if seen > most_pairs:
            return None
        same = codes[pairs.later] == codes[pairs.earlier]
        within[pairs.later[same]] = True
        across[pairs.later[~same]] = True
    part = slice(rows.start, rows.stop)
    return LikeModels(within[part], across[part])


_LOOK = "Ask for rows that it has."


class RememberedPast:
    """Looks into a memory, through the door by which every call of its monitor goes.

    looking: that door; within it nothing changes, and only finished calls can be seen
    """

    def __init__(
        self,
        memory: Memory,
        keys: Keys,
        looking: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._memory = memory
        self._keys = keys
        self._looking = looking

    @property
    def rule(self) -> Rule:
        return self._memory.reader.rule

    def _wanted(self, rows: Any) -> Rows:
        return rows_of(rows, self._memory.engine.rows, _LOOK)

    def values(self, row: int) -> dict[str, Any]:
        with self._looking():
            row = row_of(row, self._memory.engine.rows, _LOOK)
            reader = self._memory.reader
            values = reader.values(row)
            if reader.key_column is not None:
                values = {reader.key_column: self._keys.key_of(row), **values}
            return values | self.output_values(self._memory.engine.output_at(row))

    def output_values(self, output: Any) -> dict[str, Any]:
        """An output under the names of its columns."""
        names = self._memory.reader.output_columns
        if len(names) == 1:
            return {names[0]: output}
        values = [None] * len(names) if output is None else list(output)
        return dict(zip(names, values, strict=False))

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        with self._looking():
            return self._memory.engine.inputs(self._wanted(rows))

    def points(self, rows: Any) -> Points:
        with self._looking():
            wanted, engine = self._wanted(rows), self._memory.engine
            left_open = None
            if len(engine.wildcards):
                left_open = engine.wildcards.open_places(engine.rows)[wanted]
            return Points(engine.inputs(wanted), left_open, self._memory.reader.plain)

    def outputs(self, rows: Any) -> list[Any]:
        with self._looking():
            return [self._memory.engine.output_at(row) for row in self._wanted(rows).tolist()]

    def numbers(self, rows: Any) -> npt.NDArray[np.float64]:
        with self._looking():
            return self._memory.engine.numbers(self._wanted(rows))[:, 0]

    def keys(self, rows: Any) -> list[Any]:
        with self._looking():
            return [self._keys.key_of(row) for row in self._wanted(rows).tolist()]

    def models(self, rows: Any) -> list[str | None]:
        with self._looking():
            return list(self._memory.models.names(self._wanted(rows)))

    def model_codes(self, rows: Any) -> Codes | None:
        with self._looking():
            models = self._memory.models
            return models.coded(self._wanted(rows)) if models else None

    def row_of(self, key: Any) -> int | None:
        with self._looking():
            return self._keys.row_of(key)

    def alive(self, rows: Any) -> npt.NDArray[np.bool_]:
        with self._looking():
            return self._memory.engine.alive(self._wanted(rows))

    def codes(self, column: str, rows: Any) -> Codes:
        with self._looking():
            wanted = self._wanted(rows)
            if column:
                return self._memory.reader.codes(column, wanted)
            codes = np.nan_to_num(self._memory.engine.numbers(wanted)[:, 0], nan=-1)
            return Codes(codes.astype(np.int64), self._memory.engine.labels)

    def span(self, rows: Any) -> Span | None:
        with self._looking():
            span = self._memory.span
            if span is None:
                return None
            wanted = self._wanted(rows)
            times = span.times(self._memory.engine.rows)[wanted]
            return Span(span.text, span.microseconds, times)

    def like_models(self, rows: range) -> LikeModels | None:
        with self._looking():
            return like_models(self._memory, rows)

    def explain(self, verdict: Verdict, count: int) -> SideBySide:
        with self._looking():
            return explain_pairs(self, verdict, count)

    def by_group(self, verdicts: Verdicts, column: str) -> Groups:
        with self._looking():
            stop = min(int(verdicts.rows.max(initial=-1)) + 1, self._memory.engine.rows)
            return compare_groups(self, range(stop), [column])[0]

    def by_model(self, verdicts: Verdicts) -> tuple[ModelCounts, ...]:
        return counts_by_model(verdicts, self.rule.compare)
