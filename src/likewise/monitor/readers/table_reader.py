"""Read rows of a table under a rule with features: as vectors, and as columns that are stored.

Columns become vectors in encoding.py; row_reader.py is a shortcut for a single row of plain values.
Invariant: the stored columns and the engine's history have the same rows.
Cost: reading a row takes longer than judging it; a whole table takes less time per row.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, BadFile, BadRule, MissingValue, UnexpectedValue, WrongShape
from likewise.monitor.readers.encoding import ERASED, MISSING, Encoder
from likewise.monitor.readers.protocol import FROM_ROW, Batch, Bytes, WordCheck
from likewise.monitor.readers.row_reader import PlainRow, RowReader, plain_number
from likewise.monitor.readers.vector_reader import no_person_column
from likewise.rule.rule import Rule
from likewise.search.history.reserved_memory import GrowingRows
from likewise.tables.array_types import Rows
from likewise.tables.codec import CODE, VECTOR, make_column_type
from likewise.tables.frames import Column, as_row, columns_of, is_missing, read_single_row
from likewise.tables.known_names import did_you_mean
from likewise.tables.normalize import (
    label_of,
    numbers_of_each,
    require_list,
    sequence_of,
    short_repr,
)
from likewise.verdict.model_counts import CodedColumn


class ColumnHistory:
    """Stores the columns of the rows of a history."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        features = encoder.kept_features
        self.names = list(features)
        numbers = [name for name in self.names if features[name].kind == "number"]
        codes = [name for name in self.names if features[name].kind != "number"]
        self._numbers = GrowingRows(np.float64, len(numbers))
        self._codes = GrowingRows(np.int32, len(codes))
        self._place = {name: (self._numbers, j) for j, name in enumerate(numbers)}
        self._place |= {name: (self._codes, j) for j, name in enumerate(codes)}
        self._number_names, self._code_names = numbers, codes
        persons = [name for name in codes if features[name].kind == "person"]
        self._uses: dict[str, Counter[int]] = {
            name: Counter() for name in (*encoder.embedded, *persons)
        }
        self.count = 0

    def begin_at(self, row: int) -> None:
        """Begin without rows at `row`; earlier ones count as forgotten."""
        self.count = row
        self.release(row)

    def add(self, stored: Mapping[str, Any], many: int) -> None:
        """Add the next rows, each column an array."""
        first = self.count
        for names, rows in ((self._number_names, self._numbers), (self._code_names, self._codes)):
            if names:
                into = rows.room(first, many)
                for j, name in enumerate(names):
                    into[:, j] = stored[name]
        for name, uses in self._uses.items():
            uses.update(np.atleast_1d(stored[name]).tolist())
        self.count += many

    def add_one(self, numbers: Sequence[float], codes: Sequence[int]) -> None:
        """Add the next row: its numbers, and its codes, in the order of the columns."""
        if numbers:
            self._numbers.room(self.count, 1)[0] = numbers
        if codes:
            self._codes.room(self.count, 1)[0] = codes
        for name, uses in self._uses.items():
            uses[codes[self._place[name][1]]] += 1
        self.count += 1

    def settle(self, rows: int) -> None:
        """Return to the first `rows` rows and their texts, after an interrupted call."""
        self.count = rows
        for name in self._uses:
            uses = self._uses[name] = Counter(self.column(name).tolist())
            vocabulary = self._encoder.vocabularies[name]
            for code, value in enumerate(vocabulary.values):
                if value is not ERASED and code not in uses:
                    vocabulary.drop(code)

    def erase(self, rows: Rows) -> None:
        """Erase the values of these rows."""
        for name in self.names:
            column = self.column(name)
            if name in self._uses:
                self._release_codes(name, column[rows].tolist())
            column[rows] = np.nan if column.dtype.kind == "f" else MISSING

    def _release_codes(self, name: str, codes: list[int]) -> None:
        """Count one use less of these texts, pictures or persons; forget those without any."""
        uses = self._uses[name]
        uses.subtract(codes)
        for code in set(codes) - {MISSING}:
            if uses[code] <= 0:
                del uses[code]
                self._encoder.vocabularies[name].drop(code)

    def release(self, row: int) -> None:
        """Free the memory of the rows before this one, which are forgotten."""
        self._numbers.release(row)
        self._codes.release(row)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the numbers, or codes, of all rows."""
        rows, j = self._place[name]
        return rows.first(self.count)[:, j]

    def values(self, row: int) -> dict[str, Any]:
        """Return a row as it came; None for missing values."""
        return {name: self.decode_value(name, self.column(name)[row]) for name in self.names}

    def decode_value(self, name: str, stored: Any) -> Any:
        """Return the value that a stored number or code stands for."""
        if name in self._encoder.vocabularies:
            return (
                None if stored == MISSING else self._encoder.vocabularies[name].values[int(stored)]
            )
        number = float(stored)
        if np.isnan(number):
            return None
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


class TableReader:
    """Reads rows of a table, and remembers their columns."""

    embeds = False

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.encoder = Encoder(rule)
        self.vector_rule = self.encoder.make_vector_rule(rule)
        features = self.encoder.features
        self.output_columns = rule.output_columns
        self.key_column = rule.key_column
        self._protected = [name for name, one in features.items() if one.kind == "protected"]
        self._person = rule.person_column
        self.filters_pairs = rule.protected_must_differ or self._person is not None
        self._names = [name for name, one in features.items() if one.kind != "ignore"]
        known = (*features, *self.output_columns)
        self._known = None if rule.extra == "ignore" else known
        self._known_names = set(known)
        self._feature_names = set(self._names)
        self._all_names = self._feature_names | set(self.output_columns)
        self._word_check: WordCheck | None = None
        self._begin()

    def _begin(self) -> None:
        self.columns = ColumnHistory(self.encoder)
        self._row_reader = RowReader(self.encoder)

    def embed_inputs(self, x: Any, *, many: bool) -> Any:
        return x

    # Reading

    def read_one(self, x: Any, z: Any) -> Batch:
        """Read a single row (tables/frames.py), or a frame of one; the output in it, or as z."""
        values = x if type(x) is dict else as_row(x)
        if values is None:
            return self._read_frame_of_one(x, z)
        if self._known is None:
            values = {name: value for name, value in values.items() if name in self._known_names}
        if z is FROM_ROW and values.keys() >= self._all_names:
            z = self._read_output(values)
        if z is not FROM_ROW and self._known_names >= values.keys() >= self._feature_names:
            row = self._row_reader.read(values)
            if row is not None:
                return self._make_plain_batch(row, z, values)
        if z is FROM_ROW:
            return _make_single(self.read_many(x, z))
        rest = {name: one for name, one in values.items() if name not in self.output_columns}
        return _make_single(self.read_many(rest, [z]))

    def read_case(self, x: Any, person: Any) -> Batch:
        values = as_row(x)
        if values is None:
            if not hasattr(x, "columns"):
                raise _no_row(x, _ONE_CASE)
            values = read_single_row(x, _ONE_CASE)
        left_out = {*self.output_columns, self.key_column}
        values = {name: value for name, value in values.items() if name not in left_out}
        optional = [] if self.rule.protected_must_differ else [*self._protected]
        if self._person is not None:
            optional.append(self._person)
        values = dict.fromkeys(optional) | values
        if person is not None:
            if self._person is None:
                raise no_person_column()
            values[self._person] = person
        names = [name for name in self._names if name != self.key_column]
        batch = self.encoder.read(columns_of(values, names, self._known), 1, optional)
        batch.outputs = [None]
        return _make_single(batch)

    def _read_frame_of_one(self, x: Any, z: Any) -> Batch:
        if not hasattr(x, "columns"):
            raise _no_row(x, "Give tables to observe_many.")
        batch = self.read_many(x, z if z is FROM_ROW else [z])
        if len(batch.vectors) != 1:
            raise WrongShape(
                f"the frame has {len(batch.vectors)} rows; expected one.",
                advice="Give tables to observe_many.",
            )
        return _make_single(batch)

    def _make_plain_batch(self, row: PlainRow, z: Any, values: Mapping[str, Any]) -> Batch:
        keys = None if self.key_column is None else self._read_keys([values[self.key_column]])
        left_open = None
        if self.encoder.can_leave_open:
            left_open = np.zeros(len(row.vector), dtype=np.bool_)
        return Batch(row.vector, z, keys, row, left_open, row.has_new_values)

    def _read_output(self, row: Mapping[str, Any]) -> Any:
        """Return the output in a row if it is a plain value, else FROM_ROW."""
        if self.rule.output == "label":
            output = row[self.output_columns[0]]
            return output if type(output) is str or not is_missing(output) else FROM_ROW
        outputs = [row[name] for name in self.output_columns]
        if any(plain_number(one) is None for one in outputs):
            return FROM_ROW
        return outputs if self.rule.output == "probabilities" else outputs[0]

    def read_many(self, x: Any, z: Any) -> Batch:
        """Read a table of any kind (tables/frames.py)."""
        apart = z is not FROM_ROW
        names = self._names if apart else [*self._names, *self.output_columns]
        columns = columns_of(x, names, self._known)
        counts = {len(column) for column in columns.values()}
        count = counts.pop() if counts else 0
        z = sequence_of(z) if apart else self._pop_outputs(columns)
        batch = self.encoder.read(columns, count)
        batch.outputs = z
        if self.key_column is not None:
            batch.keys = self._read_keys(require_list(columns[self.key_column]))
        return batch

    def _pop_outputs(self, columns: dict[str, Column]) -> Any:
        """Take the outputs out of the columns; each decision has one."""
        kind = self.rule.output
        outputs = [output_column(name, columns.pop(name), kind) for name in self.output_columns]
        return np.stack(outputs, axis=1) if self.rule.output == "probabilities" else outputs[0]

    def _read_keys(self, column: Sequence[Any]) -> list[Any]:
        keys = []
        for i, key in enumerate(column):
            if is_missing(key):
                raise MissingValue(
                    f"the key {self.key_column!r} is missing.",
                    place=i,
                    column=self.key_column,
                    advice="Every decision needs one, or leave the key out of the rule.",
                )
            try:
                keys.append(label_of(key, f"the key {self.key_column!r}"))
            except BadDecision as error:
                raise error.with_place(i) from None
        return keys

    # Remembering

    def split(self, batch: Batch) -> Iterator[Batch]:
        for i in range(len(batch.vectors)):
            yield Batch(
                batch.vectors[i],
                batch.outputs[i],
                None if batch.keys is None else batch.keys[i : i + 1],
                {name: column[i : i + 1] for name, column in batch.columns.items()},
                None if batch.left_open is None else batch.left_open[i],
            )

    def accept(self, first: int, batch: Batch, count: int) -> None:
        if batch.has_new_values:
            self.encoder.commit()
        if isinstance(batch.columns, PlainRow):
            self.columns.add_one(batch.columns.numbers, batch.columns.codes)
        else:
            self.columns.add(batch.columns, count)

    def reset(self) -> None:
        self.encoder.reset()
        self._begin()
        self.set_word_check(self._word_check)

    def settle(self, rows: int) -> None:
        self.encoder.settle()
        self.columns.settle(rows)

    def forget(self, rows: Rows) -> None:
        self.columns.erase(rows)

    def release(self, row: int) -> None:
        self.columns.release(row)

    # What is there

    def values(self, row: int) -> dict[str, Any]:
        return self.columns.values(row)

    def decode_values(self, batch: Batch) -> dict[str, Any] | None:
        values = {}
        for name, column in batch.columns.items():
            stored = np.atleast_1d(column)[0]
            vocabulary = self.encoder.vocabularies.get(name)
            if vocabulary is not None and stored >= len(vocabulary.values):
                values[name] = vocabulary.find_uncommitted(stored)
            else:
                values[name] = self.columns.decode_value(name, stored)
        return values

    def codes(self, column: str, rows: Any) -> CodedColumn:
        if column not in self.encoder.vocabularies:
            known = list(self.encoder.vocabularies)
            raise BadRule(
                f"{short_repr(column)} is no column of this rule whose values are counted"
                + did_you_mean(column, known)
            )
        codes = self.columns.column(column)[rows].astype(np.int64)
        return CodedColumn(codes, self.encoder.vocabularies[column].values)

    def mask_pairs(self, batch: Batch | None, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        counted = np.ones(len(others), dtype=np.bool_)
        if self.rule.protected_must_differ:
            counted[:] = False
            for name in self._protected:
                mine, theirs = self._codes_of(name, batch, rows, others)
                counted |= theirs != mine
        if self._person is not None:
            mine, theirs = self._codes_of(self._person, batch, rows, others)
            counted &= (theirs != mine) | (theirs == MISSING)
        return counted

    def _codes_of(
        self, name: str, batch: Batch | None, rows: Rows, others: Rows
    ) -> tuple[Any, Any]:
        """Return the codes of a column: of `rows`, or of a checked decision, and of the others."""
        codes = self.columns.column(name)
        mine = codes[rows] if batch is None else np.atleast_1d(batch.columns[name])[0]
        return mine, codes[others]

    # Words

    def words(self) -> dict[str, list[Any]]:
        vocabularies = self.encoder.vocabularies
        return {name: one.values for name, one in vocabularies.items() if not one.closed}

    def set_words(self, column: str, values: Sequence[Any]) -> None:
        self.encoder.vocabularies[column].set_values(values)

    def truncate_words(self, counts: Mapping[str, int]) -> None:
        for name, vocabulary in self.encoder.vocabularies.items():
            if not vocabulary.closed:
                vocabulary.cut(counts.get(name, 0))

    def prune_combinations(self, columns: set[str], vectors: npt.NDArray[Any]) -> None:
        if self.encoder.combines(columns):
            self.encoder.keep_combinations(vectors[:, 0])

    def set_word_check(self, check: WordCheck | None) -> None:
        self._word_check = check
        for vocabulary in self.encoder.vocabularies.values():
            vocabulary.check_word = check

    # Packing

    def record_columns(self) -> tuple[tuple[str, str], ...] | None:
        features, embedded = self.encoder.features, self.encoder.embedded
        return tuple(
            (
                name,
                make_column_type(embedded[name].dtype)
                if name in embedded
                else "<f8"
                if features[name].kind == "number"
                else "<i4",
            )
            for name in self.columns.names
        )

    def pack(self, dtype: np.dtype[Any], vectors: npt.NDArray[Any], first: int, stop: int) -> Bytes:
        packed = np.zeros(stop - first, dtype)
        for name in dtype.names or ():
            stored = self.columns.column(name)[first:stop]
            if name in self.encoder.embedded:
                packed[name][CODE] = stored
                packed[name][VECTOR] = vectors[first:stop, self.encoder.places[name]]
            else:
                packed[name] = stored
        return packed.view(np.uint8).reshape(stop - first, -1)

    def unpack(self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]) -> Batch:
        packed = np.ascontiguousarray(records).view(dtype).reshape(-1)
        stored: dict[str, npt.NDArray[Any]] = {}
        vectors: dict[str, npt.NDArray[np.float64]] = {}
        for name in dtype.names or ():
            column = packed[name]
            if column.dtype.names is not None:
                vectors[name] = column[VECTOR].astype(np.float64)
                column = column[CODE]
            stored[name] = column.astype(np.float64 if column.dtype.kind == "f" else np.int32)
            vocabulary = self.encoder.vocabularies.get(name)
            if vocabulary is not None:
                stored[name][erased] = MISSING  # their records are zeros, and 0 is a code
                if stored[name].max(initial=-1) >= len(vocabulary.values):
                    raise BadFile(f"the ledger has no word for a code of {name!r}: it was altered.")
        return self.encoder.encode(stored, len(packed), vectors)

    def codes_in(
        self, dtype: np.dtype[Any], records: Bytes, erased: npt.NDArray[np.bool_]
    ) -> dict[str, npt.NDArray[Any]]:
        packed = np.ascontiguousarray(records).view(dtype).reshape(-1)
        codes = {}
        for name in self.words():
            column = packed[name]
            column = column if column.dtype.names is None else column[CODE]
            codes[name] = np.where(erased, MISSING, column)  # erased records are zeros
        return codes

    def begin_at(self, row: int, dtype: np.dtype[Any]) -> tuple[int, ...] | None:
        for name in dtype.names or ():
            if dtype[name].names is None:
                continue
            stored, own = dtype[name][VECTOR], self.encoder.embedded[name].dtype
            if own != stored:
                raise BadRule(
                    f"column {name!r} becomes {own.shape[0]} numbers of {own.base}, and the"
                    f" ledger keeps {stored.shape[0]} of {stored.base}: bring the model back that"
                    " it was begun with. Nothing was changed."
                )
        self.columns.begin_at(row)
        return (len(self.encoder.weights),)


_ONE_CASE = "Look up one case at a time."


def _no_row(x: Any, advice: str) -> UnexpectedValue:
    return UnexpectedValue(
        f"the decision is {x!r}; expected a dictionary, a named tuple, a dataclass, a"
        " pydantic model or a frame of one row, with the rule's columns.",
        advice=advice,
    )


def output_column(name: str, column: Column, kind: str) -> Column:
    """Read the outputs in a column, labels or numbers; each decision has one."""
    at = _first_missing(require_list(column))
    if at is not None:
        raise MissingValue(
            f"the output {name!r} is missing.",
            place=at,
            column=name,
            advice="Every decision has one.",
        )
    try:
        return column if kind == "label" else numbers_of_each(column, repr(name))
    except BadDecision as error:
        error.column = name
        raise


def _first_missing(values: list[Any]) -> int | None:
    if set(map(type, values)) <= {str, int, bool}:  # values of these types are never missing
        return None
    return next((i for i, one in enumerate(values) if is_missing(one)), None)


def _make_single(batch: Batch) -> Batch:
    """Turn a batch of one into a single decision."""
    if batch.left_open is not None:
        batch.left_open = batch.left_open[0]
    batch.vectors, batch.outputs = batch.vectors[0], batch.outputs[0]
    return batch
