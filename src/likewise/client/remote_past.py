"""The past of a monitor behind a service; every look at it is a request.

Rows are asked for in chunks, so that no answer is too large; a chunk that is too large all the same
is asked for in halves.
Not here: what is computed from a past. `explain` and `by_group` fetch what they need and compute it
in this process.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.client import api_calls
from likewise.client.api_calls import Call
from likewise.errors import BadDecision, BadRow
from likewise.explaining.model_tally import counts_by_model
from likewise.explaining.past import Points
from likewise.rule.rule import Rule
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import CodedColumn, ComparisonSpan, LikeModels, ModelCounts
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.verdicts import Verdict, Verdicts

_CHUNK_ROWS = 50_000


class RemotePast:
    """Looks back through a client.

    make    makes a call and waits for its answer
    """

    def __init__(self, make: Callable[[Call[Any]], Any], rule: Callable[[], Rule]) -> None:
        self._make = make
        self._rule = rule

    @property
    def rule(self) -> Rule:
        return self._rule()

    def values(self, row: int) -> dict[str, Any]:
        if np.ndim(row) != 0:
            raise BadRow(f"the row is {row!r:.80}; expected one row number.")
        values: dict[str, Any] = self._make(api_calls.query_past("values", row=int(row)))
        return values

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        return np.concatenate(self._fetch_in_chunks("inputs", rows))

    def points(self, rows: Any) -> Points:
        parts = self._fetch_in_chunks("points", rows, _points_of)
        vectors = np.concatenate([part.vectors for part in parts])
        left_open = None
        if any(part.left_open is not None for part in parts):
            closed = (np.zeros(part.vectors.shape, np.bool_) for part in parts)
            masks = (part.left_open for part in parts)
            left_open = np.concatenate(
                [none if mask is None else mask for mask, none in zip(masks, closed, strict=True)]
            )
        return Points(vectors, left_open, parts[0].rule)

    def outputs(self, rows: Any) -> list[Any]:
        return [one for part in self._fetch_in_chunks("outputs", rows) for one in part]

    def keys(self, rows: Any) -> list[Any]:
        return [one for part in self._fetch_in_chunks("keys", rows) for one in part]

    def models(self, rows: Any) -> list[str | None]:
        return [one for part in self._fetch_in_chunks("models", rows) for one in part]

    def model_codes(self, rows: Any) -> CodedColumn | None:
        parts = self._fetch_in_chunks("model_codes", rows, _reader(CodedColumn))
        present = [part for part in parts if part is not None]
        return _join_codes(present) if present else None

    def row_of(self, key: Any) -> int | None:
        row: int | None = self._make(api_calls.row_of(key))
        return row

    def alive(self, rows: Any) -> npt.NDArray[np.bool_]:
        return np.concatenate(self._fetch_in_chunks("alive", rows))

    def codes(self, column: str, rows: Any) -> CodedColumn:
        return _join_codes(
            self._fetch_in_chunks("codes", rows, _reader(CodedColumn), column=column)
        )

    def numbers(self, rows: Any) -> npt.NDArray[np.float64]:
        return np.concatenate(self._fetch_in_chunks("numbers", rows))

    def span(self, rows: Any) -> ComparisonSpan | None:
        parts = self._fetch_in_chunks("span", rows, _reader(ComparisonSpan))
        spans: list[ComparisonSpan] = [part for part in parts if part is not None]
        if not spans:
            return None
        return spans[0]._replace(times=np.concatenate([span.times for span in spans]))

    def like_models(self, rows: range) -> LikeModels | None:
        models: LikeModels | None = self._make(
            api_calls.query_past(
                "like_models", _reader(LikeModels), first=rows.start, stop=rows.stop
            )
        )
        return models

    def explain(self, verdict: Verdict, count: int) -> SideBySide:
        from likewise.explaining.pairs import explain_pairs

        return explain_pairs(self, verdict, count)

    def by_group(self, verdicts: Verdicts, column: str) -> GroupEffects:
        from likewise.explaining.compare_groups import compare_groups

        stop = verdicts.first_row + len(verdicts)
        return compare_groups(self, range(stop), [column])[0]

    def by_model(self, verdicts: Verdicts) -> tuple[ModelCounts, ...]:
        return counts_by_model(verdicts, self.rule.compare)

    def _fetch_in_chunks(
        self, name: str, rows: Any, read: Callable[[Any], Any] | None = None, **more_fields: Any
    ) -> list[Any]:
        """Return the answers for one chunk of rows after another; at least one."""
        all_rows = np.atleast_1d(np.asarray(rows))
        starts = range(0, max(1, len(all_rows)), _CHUNK_ROWS)
        waiting = [all_rows[start : start + _CHUNK_ROWS] for start in starts]
        answers = []
        while waiting:
            part = waiting.pop(0)
            call = api_calls.query_past(name, read, rows=part.tolist(), **more_fields)
            try:
                answers.append(self._make(call))
            except BadDecision:  # too large for an answer
                if len(part) <= 1:
                    raise
                waiting[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]
        return answers


def _reader(kind: type[Any]) -> Callable[[Any], Any]:
    """Return what makes a value of an answer that has its fields, or is None."""
    return lambda body: None if body is None else kind(**body)


def _points_of(body: Any) -> Points:
    return Points(body["vectors"], body["left_open"], Rule.from_toml(body["rule"]))


def _join_codes(parts: Sequence[CodedColumn]) -> CodedColumn:
    """Join the codes of several chunks. The values of the last are those of all, or more."""
    return CodedColumn(np.concatenate([part.codes for part in parts]), parts[-1].values)
