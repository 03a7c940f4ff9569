"""Read inputs that are vectors already.

Vectors are compared by position. So of the first table the names of its columns are remembered, and
a later table with other names, or another order, is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRule, MissingColumn, MissingValue, UnknownColumn, WrongShape
from likewise.monitor.readers.protocol import FROM_ROW, Batch, Bytes, WordCheck
from likewise.rule.rule import Rule
from likewise.tables.array_types import Rows
from likewise.tables.named_array import names_of
from likewise.tables.printing import join_names
from likewise.verdict.model_counts import CodedColumn


def no_person_column() -> BadRule:
    """Return the error for a person where the rule names no column of persons."""
    return BadRule(
        'a person is given, and the rule has no column of kind "person"; leave it out',
        setting="person",
    )


class VectorReader:
    """Passes vectors on, after a check of their columns' names; it has no words to remember."""

    key_column: str | None = None
    output_columns: tuple[str, ...] = ()
    embeds = filters_pairs = False

    def __init__(self, rule: Rule) -> None:
        self.rule = self.vector_rule = rule
        self._names: tuple[str, ...] = ()
        """The names of the columns of the first table that was taken; empty until then."""
        self._named_at = 0
        """The first row of that table."""

    def embed_inputs(self, x: Any, *, many: bool) -> Any:
        return x

    def read_one(self, x: Any, z: Any) -> Batch:
        if z is FROM_ROW:
            raise MissingValue(
                "the output is missing: observe(x, z) takes both.",
                advice="(Under a rule with features, the output may be one of the columns.)",
            )
        self._refuse_other_names(names_of(x))
        return Batch(x, z)

    read_many = read_one

    def read_case(self, x: Any, person: Any) -> Batch:
        if person is not None:
            raise no_person_column()
        return self.read_one(x, None)

    def _refuse_other_names(self, names: tuple[str, ...]) -> None:
        known = self._names
        if names == known or len(names) != len(known) or not names:
            return  # the engine refuses another number of columns
        at = next(j for j, name in enumerate(names) if name != known[j])
        problem = (
            f"column {at} is {names[at]!r}, but this history holds {known[at]!r} there, set by"
            f" decision {self._named_at}: it holds {join_names(map(repr, known))}, and the"
            " table has"
            f" {join_names(map(repr, names))}."
        )
        advice = "Send the same columns in the same order, or use a rule with features."
        for lacking, kind in (
            ([name for name in known if name not in names], MissingColumn),
            ([name for name in names if name not in known], UnknownColumn),
        ):
            if lacking:
                raise kind(problem, column=lacking[0], advice=advice)
        raise WrongShape(problem, advice=advice)

    def split(self, batch: Batch) -> Iterator[Batch]:
        return (Batch(x, z) for x, z in zip(batch.vectors, batch.outputs, strict=True))

    def accept(self, first: int, batch: Batch, count: int) -> None:
        if not self._names and count:
            self._names, self._named_at = names_of(batch.vectors), first

    def reset(self) -> None:
        self._names = ()

    def settle(self, rows: int) -> None:
        if rows <= self._named_at:
            self._names = ()

    def forget(self, rows: Rows) -> None: ...

    def release(self, row: int) -> None: ...

    def values(self, row: int) -> dict[str, Any]:
        raise BadRule("this rule has no columns; use `inputs` for vectors")

    def decode_values(self, batch: Batch) -> dict[str, Any] | None:
        return None

    def codes(self, column: str, rows: Any) -> CodedColumn:
        raise BadRule(f"this rule has no columns, so there is no {column!r}")

    def mask_pairs(self, batch: Batch | None, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        return np.ones(len(others), dtype=np.bool_)

    def words(self) -> dict[str, list[Any]]:
        return {}

    def set_words(self, column: str, values: Sequence[Any]) -> None: ...

    def truncate_words(self, counts: Mapping[str, int]) -> None: ...

    def prune_combinations(self, columns: set[str], vectors: npt.NDArray[Any]) -> None: ...

    def set_word_check(self, check: WordCheck | None) -> None: ...

    def record_columns(self) -> tuple[tuple[str, str], ...] | None:
        return None

    def pack(self, dtype: np.dtype[Any], vectors: npt.NDArray[Any], first: int, stop: int) -> Bytes:
        base, _ = dtype.subdtype or (dtype, ())
        rows = np.ascontiguousarray(vectors[first:stop], base)
        return rows.view(np.uint8).reshape(stop - first, -1)

    def unpack(self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]) -> Batch:
        base, shape = dtype.subdtype or (dtype, ())
        return Batch(np.ascontiguousarray(records).view(base).reshape(len(records), *shape), None)

    def codes_in(
        self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]
    ) -> dict[str, npt.NDArray[Any]]:
        return {}

    def begin_at(self, row: int, dtype: np.dtype[Any]) -> tuple[int, ...] | None:
        return None
