"""The contract of a reader, which turns inputs into vectors and remembers their columns and words.

There is one reader for each kind of input: vectors, inputs of an embedder, rows of a table. Its
rows are in step with those of an engine, which remembers the vectors.
Invariant: reading changes nothing; `accept` makes what was read last part of what is remembered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.rule.rule import Rule
from likewise.tables.array_types import Rows
from likewise.tables.printing import with_bounded_repr
from likewise.verdict.model_counts import CodedColumn

FROM_ROW: Any = type("FromRow", (), {"__repr__": lambda _: "FROM_ROW"})()
"""The default output, which means that the row itself holds it, in the rule's output columns."""

Bytes = npt.NDArray[np.uint8]
WordCheck = Callable[[Any, str, int], Any]
"""Raises BadDecision if a new value cannot be stored. Its arguments are the value, its name for
messages, and how many other values are known."""


ForEach: TypeAlias = str | Sequence[str | None] | None
"""One name for all decisions of a call; or a name, or None, for each."""


@with_bounded_repr
class Decision(NamedTuple):
    """Holds the arguments of `observe` in one value."""

    x: Any
    z: Any = FROM_ROW
    key: Any = None
    time: Any = None
    model: str | None = None
    source: str | None = None
    position: Any = None


@dataclass(slots=True)
class Batch:
    """Holds decisions as an engine takes them, several or a single one."""

    vectors: Any
    """One for each decision; of a single decision, the vector itself."""
    outputs: Any
    keys: list[Any] | None = None
    """The values of a key column."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The stored values of each table column: numbers, NaN if missing, or codes."""
    left_open: npt.NDArray[np.bool_] | None = None
    """Coordinates that match everything, if the rule allows that."""
    has_new_values: bool = True
    """Whether there may be values that `accept` has to learn."""
    models: list[str | None] | None = None
    """The model of each; None if none is given for any. Readers do not use it."""

    def select(self, places: list[int]) -> "Batch":
        """Return the decisions at these places, of a batch whose vectors are an array."""
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
    """Reads one kind of input, and remembers what its rows were made of."""

    rule: Rule
    """The user's rule."""
    vector_rule: Rule
    """The rule for the vectors."""
    key_column: str | None
    output_columns: tuple[str, ...]
    embeds: bool
    """Whether `embed_inputs` calls a model, so that it runs before the monitor's lock is taken."""
    filters_pairs: bool
    """Whether some pairs of rows do not count, however near they are."""

    def embed_inputs(self, x: Any, *, many: bool) -> Any:
        """Return the vectors of texts or pictures, and other inputs unchanged; slow."""

    def read_one(self, x: Any, z: Any) -> Batch:
        """Read a single decision; raise BadDecision if it cannot be read."""

    def read_many(self, x: Any, z: Any) -> Batch:
        """Read decisions; raise BadDecision if one cannot be read."""

    def read_case(self, x: Any, person: Any) -> Batch:
        """Read a single input without an output, for a look at similar decisions.

        Its key and other columns that are not compared may be missing.

        person: whose decisions are left out; None for the person in the row, if there is one
        """

    def split(self, batch: Batch) -> Iterator[Batch]:
        """Yield the decisions of a batch one by one."""

    def accept(self, first: int, batch: Batch, count: int) -> None:
        """Remember decisions that the engine has taken as rows from `first` on."""

    # After an interrupted call

    def reset(self) -> None:
        """Forget all rows."""

    def settle(self, rows: int) -> None:
        """Return to the first `rows` rows."""

    # Rows that leave

    def forget(self, rows: Rows) -> None:
        """Forget these rows."""

    def release(self, row: int) -> None:
        """Free the memory of the rows before this one, which are forgotten."""

    # What is there

    def values(self, row: int) -> dict[str, Any]:
        """Return a row as it came, without key and output; None for missing values."""

    def decode_values(self, batch: Batch) -> dict[str, Any] | None:
        """Return the values of a single decision that was read last; None for a vector."""

    def codes(self, column: str, rows: Any) -> CodedColumn:
        """Return the values of a column in rows, as codes."""

    def mask_pairs(self, batch: Batch | None, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        """Mark the pairs of rows and others that count; all unless the reader `filters_pairs`.

        batch: a single decision that is only checked, in place of `rows`
        """

    # Words: values that are stored as codes

    def words(self) -> dict[str, list[Any]]:
        """Return the words by column and code; columns whose values the rule lists are left out."""

    def set_words(self, column: str, values: Sequence[Any]) -> None:
        """Take over the words of an earlier history."""

    def truncate_words(self, counts: Mapping[str, int]) -> None:
        """Keep the first so many words of each column; no row has any of the others."""

    def prune_combinations(self, columns: set[str], vectors: npt.NDArray[Any]) -> None:
        """Forget combinations of words that none of these vectors, those of all rows, has.

        columns: those that have lost words
        """

    def set_word_check(self, check: WordCheck | None) -> None:
        """Have new words checked before a decision is taken."""

    # Packing: rows as bytes, for a journal

    def record_columns(self) -> tuple[tuple[str, str], ...] | None:
        """Return name and type of each column of a record; None if a record is a vector."""

    def pack(self, dtype: np.dtype[Any], vectors: npt.NDArray[Any], first: int, stop: int) -> Bytes:
        """Return remembered rows as records."""

    def unpack(self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]) -> Batch:
        """Read records as decisions to be appended; raise BadFile if they make no sense."""

    def codes_in(
        self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the codes of words in records; MISSING for erased ones."""

    def begin_at(self, row: int, dtype: np.dtype[Any]) -> tuple[int, ...] | None:
        """Begin without rows at `row`, as if earlier ones were forgotten; return the vector shape.

        None if the shape is not known.
        """
