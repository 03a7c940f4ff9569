"""The past of a monitor behind a service: every look is a request.

Rows are asked for in stretches, so that no answer is too large; what is too large all the same is
asked for in halves.
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
from likewise.verdict.model_counts import ModelCounts
from likewise.verdict.past_rows import CodedColumn, ComparisonSpan, LikeModels
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.verdicts import Verdict, Verdicts

_CHUNK_ROWS = 50_000  # rows


class RemotePast:
    """Looks through a client.

    make: makes a call and waits for its answer
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
            left_open = np.concatenate(
                [
                    np.zeros(part.vectors.shape, np.bool_)
                    if part.left_open is None
                    else part.left_open
                    for part in parts
                ]
            )
        return Points(vectors, left_open, parts[0].rule)

    def outputs(self, rows: Any) -> list[Any]:
        return [one for part in self._fetch_in_chunks("outputs", rows) for one in part]

    def keys(self, rows: Any) -> list[Any]:
        return [one for part in self._fetch_in_chunks("keys", rows) for one in part]

    def models(self, rows: Any) -> list[str | None]:
        return [one for part in self._fetch_in_chunks("models", rows) for one in part]

    def model_codes(self, rows: Any) -> CodedColumn | None:
        parts = self._fetch_in_chunks(
            "model_codes", rows, lambda told: None if told is None else _codes_of(told)
        )
        known = [part for part in parts if part is not None]
        return _join_codes(known) if known else None

    def row_of(self, key: Any) -> int | None:
        row: int | None = self._make(api_calls.row_of(key))
        return row

    def alive(self, rows: Any) -> npt.NDArray[np.bool_]:
        return np.concatenate(self._fetch_in_chunks("alive", rows))

    def codes(self, column: str, rows: Any) -> CodedColumn:
        parts = self._fetch_in_chunks("codes", rows, _codes_of, column=column)
        return _join_codes(parts)

    def numbers(self, rows: Any) -> npt.NDArray[np.float64]:
        return np.concatenate(self._fetch_in_chunks("numbers", rows))

    def span(self, rows: Any) -> ComparisonSpan | None:
        parts = self._fetch_in_chunks("span", rows, _span_of)
        known: list[ComparisonSpan] = [part for part in parts if part is not None]
        if not known:
            return None
        return known[0]._replace(times=np.concatenate([part.times for part in known]))

    def like_models(self, rows: range) -> LikeModels | None:
        found: LikeModels | None = self._make(
            api_calls.query_past("like_models", _like_models_of, first=rows.start, stop=rows.stop)
        )
        return found

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
        """The answers for some rows after another; at least one."""
        wanted = np.atleast_1d(np.asarray(rows))
        waiting = [wanted[i : i + _CHUNK_ROWS] for i in range(0, max(1, len(wanted)), _CHUNK_ROWS)]
        answers = []
        while waiting:
            part = waiting.pop(0)
            try:
                answers.append(
                    self._make(api_calls.query_past(name, read, rows=part.tolist(), **more_fields))
                )
            except BadDecision:  # too large for an answer
                if len(part) <= 1:
                    raise
                waiting[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]
        return answers


def _codes_of(told: Any) -> CodedColumn:
    return CodedColumn(told["codes"], told["values"])


def _points_of(told: Any) -> Points:
    return Points(told["vectors"], told["left_open"], Rule.from_toml(told["rule"]))


def _span_of(told: Any) -> ComparisonSpan | None:
    return None if told is None else ComparisonSpan(**told)


def _like_models_of(told: Any) -> LikeModels | None:
    return None if told is None else LikeModels(**told)


def _join_codes(parts: Sequence[CodedColumn]) -> CodedColumn:
    """Codes of several stretches of rows. The values of the last are those of all, or more."""
    return CodedColumn(np.concatenate([part.codes for part in parts]), parts[-1].values)
