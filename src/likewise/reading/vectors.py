"""The reader of inputs that are vectors already: there is nothing to read, and nothing to keep."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.reading.protocol import FROM_ROW, Batch, Bytes, Keepable
from likewise.rules.rule import Rule
from likewise.values.errors import BadRule, MissingValue
from likewise.values.past import Codes
from likewise.values.verdicts import Rows


class VectorReader:
    """Passes vectors on."""

    key_column: str | None = None
    output_columns: tuple[str, ...] = ()
    selective = False

    def __init__(self, rule: Rule) -> None:
        self.rule = self.plain = rule

    def vectors_of(self, x: Any, *, many: bool) -> Any:
        return x

    def one(self, x: Any, z: Any) -> Batch:
        if z is FROM_ROW:
            raise MissingValue(
                "the output is missing: observe(x, z) takes both.",
                advice="(Under a rule with features, the output may be one of the columns.)",
            )
        return Batch(x, z)

    many = one

    def split(self, batch: Batch) -> Iterator[Batch]:
        return (Batch(x, z) for x, z in zip(batch.vectors, batch.outputs, strict=True))

    def accept(self, first: int, batch: Batch, count: int) -> None: ...

    def reset(self) -> None: ...

    def settle(self, rows: int) -> None: ...

    def forget(self, rows: Rows) -> None: ...

    def release(self, row: int) -> None: ...

    def values(self, row: int) -> dict[str, Any]:
        raise BadRule("this rule has no columns; use `inputs` for vectors")

    def values_read(self, batch: Batch) -> dict[str, Any] | None:
        return None

    def codes(self, column: str, rows: Any) -> Codes:
        raise BadRule(f"this rule has no columns, so there is no {column!r}")

    def counted(self, batch: Batch | None, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        return np.ones(len(others), dtype=np.bool_)

    def words(self) -> dict[str, list[Any]]:
        return {}

    def know_words(self, column: str, values: Sequence[Any]) -> None: ...

    def cut_words(self, counts: Mapping[str, int]) -> None: ...

    def words_left(self, columns: set[str], vectors: npt.NDArray[Any]) -> None: ...

    def guard(self, keepable: Keepable | None) -> None: ...

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
