"""The contract of a reader: from what came to vectors, outputs and what is kept beside them.

There is one reader for each kind of input: vectors, what an embedder makes vectors of, rows of a
table. A reader knows nothing of disks and of other decisions' verdicts. It remembers what its rows
were made of (columns, words), in step with an engine that remembers their vectors.

Invariant: reading changes nothing; `accept` makes what was read last part of what is remembered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from likewise.rule.rule import Rule
from likewise.tables.rows import Rows
from likewise.verdict.past_rows import CodedColumn

FROM_ROW: Any = type("FromRow", (), {"__repr__": lambda _: "FROM_ROW"})()
"""The default output: it stands in the row itself, in the rule's output columns."""

Bytes = npt.NDArray[np.uint8]
WordCheck = Callable[[Any, str, int], Any]
"""Raises BadDecision if a new value cannot be kept; told how to call it, and how many others are
known."""


@dataclass(slots=True)
class Batch:
    """Decisions as an engine takes them."""

    vectors: Any
    """One for each decision; of a single decision, the vector itself."""
    outputs: Any
    keys: list[Any] | None = None
    """Of a column of keys."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What is kept of each column of a table: numbers, NaN where missing, or codes."""
    left_open: npt.NDArray[np.bool_] | None = None
    """Coordinates that match everything, where the rule allows that."""
    has_new_values: bool = True
    """Whether values may be among them that `accept` has to learn."""
    models: list[str | None] | None = None
    """Which model made each; None if none is given for any. No reader looks at it."""

    def select(self, places: list[int]) -> "Batch":
        """The decisions at these places, of a batch whose vectors are an array."""
        outputs, keys, models = self.outputs, self.keys, self.models
        array = isinstance(outputs, np.ndarray)
        return Batch(
            self.vectors[places],
            outputs[places] if array else [outputs[i] for i in places],
            None if keys is None else [keys[i] for i in places],
            {name: np.asarray(column)[places] for name, column in self.columns.items()},
            None if self.left_open is None else self.left_open[places],
            self.has_new_values,
            None if models is None else [models[i] for i in places],
        )


class Reader(Protocol):
    """Reads one kind of input."""

    rule: Rule
    """The user's."""
    vector_rule: Rule
    """The rule for the vectors."""
    key_column: str | None
    output_columns: tuple[str, ...]
    embeds: bool
    """Whether `vectors_of` asks a model: it is called before the monitor's lock is taken."""
    filters_pairs: bool
    """Whether some pairs of rows do not count, however near they are."""

    def embed_inputs(self, x: Any, *, many: bool) -> Any:
        """What an embedder makes of inputs; others as they came. Slow, and changes nothing."""

    def read_one(self, x: Any, z: Any) -> Batch:
        """A single decision; raise BadDecision if it cannot be read."""

    def read_many(self, x: Any, z: Any) -> Batch: ...

    def split(self, batch: Batch) -> Iterator[Batch]:
        """The decisions of a batch, one by one."""

    def accept(self, first: int, batch: Batch, count: int) -> None:
        """The engine has these decisions, as rows from `first` on: so has the reader."""

    # After a call that was cut off

    def reset(self) -> None:
        """Have no rows."""

    def settle(self, rows: int) -> None:
        """Have the first `rows` rows and no others."""

    # Rows that leave

    def forget(self, rows: Rows) -> None: ...

    def release(self, row: int) -> None:
        """Rows before that one are forgotten: give their memory back."""

    # What is there

    def values(self, row: int) -> dict[str, Any]:
        """A row as it came, without key and output; None where there was nothing."""

    def decode_values(self, batch: Batch) -> dict[str, Any] | None:
        """The same of a single decision that was read last."""

    def codes(self, column: str, rows: Any) -> CodedColumn: ...

    def mask_pairs(self, batch: Batch | None, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        """Which pairs of rows and others count; all of them unless the reader is `selective`.

        batch: a single decision, that was only checked, instead of `rows`
        """

    # Words: values that are kept by code

    def words(self) -> dict[str, list[Any]]:
        """By column and code; columns whose values the rule lists are left out."""

    def set_words(self, column: str, values: Sequence[Any]) -> None:
        """Take over the words of an earlier history."""

    def truncate_words(self, counts: Mapping[str, int]) -> None:
        """Of each column's words keep the first so many; no row has any of the others."""

    def prune_combinations(self, columns: set[str], vectors: npt.NDArray[Any]) -> None:
        """Words of these columns are gone; the vectors are those of all rows that are there."""

    def set_word_check(self, check: WordCheck | None) -> None:
        """Have new words checked before a decision is taken."""

    # Packing: rows as bytes, for a journal

    def record_columns(self) -> tuple[tuple[str, str], ...] | None:
        """Name and type of each column of a record; None where a record is a vector."""

    def pack(self, dtype: np.dtype[Any], vectors: npt.NDArray[Any], first: int, stop: int) -> Bytes:
        """Rows that are remembered, as records."""

    def unpack(self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]) -> Batch:
        """Records as they are to be appended; raise BadFile if they make no sense."""

    def codes_in(
        self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]
    ) -> dict[str, npt.NDArray[Any]]:
        """The codes of words in records; MISSING for erased ones."""

    def begin_at(self, row: int, dtype: np.dtype[Any]) -> tuple[int, ...] | None:
        """Of no rows yet: those before `row` are forgotten. The shape of vectors, if known."""
