"""What of a monitor's memory goes into a ledger, and comes back.

A ledger follows a monitor: rows that memory has taken are copied out by their numbers, as bytes
whose layout the ledger keeps. On opening, the bytes come back and the index is built at once.

Invariant: a monitor that was restored gives the verdicts of the one that was copied out.
Not here: files (history/ledger), and when to write what (ledgered.py).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile, BadRule
from likewise.features.encoding import ERASED, MISSING
from likewise.history.ledger.chain import Bytes, Key
from likewise.history.ledger.layout import CODE, VECTOR, Layout, with_vector
from likewise.history.ledger.words import written
from likewise.metrics.outputs import Keepable, Labels, outputs_of
from likewise.monitors.keys import plain_key
from likewise.monitors.robustness import Monitor
from likewise.monitors.tables import TableMonitor
from likewise.types import Floats, Rows

Codes = npt.NDArray[Any]
"""Whole numbers that stand for words."""


class Cargo:
    """Of a monitor whose inputs are vectors."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    # Out

    def layout(self) -> Layout:
        """Settled by the first decision."""
        history = self._monitor._history
        assert history is not None
        return Layout.of_vectors(history.shape, history.storage, history.out_width)

    def inputs(self, layout: Layout, first: int, stop: int) -> Bytes:
        history = self._monitor._history
        assert history is not None
        base, _ = layout.dtype.subdtype or (layout.dtype, ())
        rows = np.ascontiguousarray(history.rows[first:stop], base)
        return rows.view(np.uint8).reshape(stop - first, -1)

    def outputs(self, first: int, stop: int) -> Floats:
        history = self._monitor._history
        assert history is not None
        return history.outputs()[first:stop]

    def keys(self, first: int, stop: int) -> list[Key] | None:
        """Those that are among the columns."""
        return None

    def keys_of(self, rows: Rows) -> list[Key] | None:
        """The same of single rows."""
        return None

    def words(self) -> dict[str, list[Any]]:
        """Labels, under "", and categories that the rule does not list, by column and code."""
        outputs = self._monitor._outputs
        return {"": outputs.labels} if isinstance(outputs, Labels) else {}

    def columns_of_words(self) -> set[str]:
        """Where there may be words, also before the first decision."""
        return {""} if self._monitor._rule.output == "label" else set()

    def codes(self) -> tuple[int, dict[str, Codes]]:
        """The first row in memory, and of the rows from there on the codes of all that has words.

        MISSING where a row is forgotten, or had nothing there.
        """
        first, outputs = self._monitor._outputs_from_first()
        return first, self._label_codes(outputs)

    def codes_in(self, layout: Layout, inputs: Bytes, outputs: Floats) -> dict[str, Codes]:
        """The same of rows as they are on disk."""
        return self._label_codes(outputs)

    def _label_codes(self, outputs: Floats) -> dict[str, Codes]:
        if not isinstance(self._monitor._outputs, Labels):
            return {}
        return {"": np.nan_to_num(outputs[:, 0], nan=MISSING).astype(np.int64)}

    def drop_words(self, codes: dict[str, list[int]]) -> None:
        """Words that no row has leave memory."""
        for column, gone in codes.items():
            values = [*self.words()[column]]
            for code in gone:
                values[code] = ERASED
            self._know(column, values)

    def cut_words(self, counts: dict[str, int]) -> None:
        """Of each column's words, keep the first so many; no row has any of the others."""
        outputs = self._monitor._outputs
        if isinstance(outputs, Labels):
            outputs.cut(counts.get("", 0))

    def _know(self, column: str, values: Sequence[Any]) -> None:
        outputs = self._monitor._outputs
        assert isinstance(outputs, Labels)
        outputs.know(values, ERASED)

    def guard(self, check: Keepable = written) -> None:
        """Have new labels and categories checked before a decision is taken."""
        self._monitor._keepable = check

    # Back

    def begin(self, layout: Layout, first: int, words: dict[str, list[Any]]) -> None:
        """An empty history that goes on at row `first`."""
        assert layout.shape is not None and layout.storage is not None
        self._begin(layout.shape, layout.storage, layout.outputs, first, words)

    def _begin(
        self, shape: tuple[int, ...], storage: str, width: int, first: int, words: dict[str, Any]
    ) -> None:
        monitor = self._monitor
        outputs = outputs_of(monitor._rule, np.zeros(width))
        monitor._begin_with(shape, storage, outputs)
        assert monitor._history is not None and monitor._index is not None
        monitor._index.state.ensure(first + 1, 0)
        monitor._history.begin_at(first)
        monitor._next_row = monitor._room = first
        for column, values in words.items():
            self._know(column, values)

    def add(
        self, layout: Layout, inputs: Bytes, outputs: Floats, keys: Sequence[Key] | None
    ) -> None:
        """Further rows; erased ones, whose outputs are NaN, are to be forgotten afterwards."""
        self._check_labels(outputs)
        base, shape = layout.dtype.subdtype or (layout.dtype, ())
        vectors = np.ascontiguousarray(inputs).view(base).reshape(len(inputs), *shape)
        self._write(vectors, outputs)

    def _check_labels(self, outputs: Floats) -> None:
        known = self._monitor._outputs
        if isinstance(known, Labels) and np.nanmax(outputs, initial=-1) >= len(known.labels):
            raise BadFile("the ledger has no word for a label: it was altered.")

    def _write(self, vectors: npt.NDArray[Any], outputs: Floats) -> None:
        erased = np.isnan(outputs[:, 0])
        monitor = self._monitor
        if erased.any():  # anything that is admitted will do
            vectors, outputs = vectors.copy(), outputs.copy()
            vectors[erased], outputs[erased] = 1, 0
            outputs[erased, 0] = monitor._rule.output == "probabilities"
        assert monitor._index is not None and monitor._history is not None
        first = monitor._next_row
        bad, at = monitor._index.crew.write(vectors, outputs)
        if bad != 0:
            raise BadFile(
                f"row {first + at:,} of the ledger holds an input or output that no monitor would"
                " have taken. Nothing was changed."
            )
        monitor._rows = monitor._history.rows
        monitor._history.join(len(vectors))
        monitor._joined(len(vectors))

    def finish(self, erased: Rows) -> None:
        """All rows are there: build the index, and forget what was erased."""
        monitor = self._monitor
        assert monitor._chooser is not None
        monitor._chooser.fill()
        monitor._mind(1)
        if len(erased):
            monitor.forget(erased)


class TableCargo(Cargo):
    """Of a monitor whose inputs are rows of a table: their kept columns, numbers and codes."""

    _monitor: TableMonitor

    def layout(self) -> Layout:
        features = self._monitor._encoder.features
        embedded = self._monitor._encoder.embedded
        columns = tuple(
            (
                name,
                with_vector(embedded[name].dtype)
                if name in embedded
                else "<f8"
                if features[name].kind == "number"
                else "<i4",
            )
            for name in self._monitor._kept.names
        )
        history = self._monitor._history
        assert history is not None
        return Layout.of_columns(columns, history.out_width)

    def inputs(self, layout: Layout, first: int, stop: int) -> Bytes:
        packed = np.zeros(stop - first, layout.dtype)
        encoder, history = self._monitor._encoder, self._monitor._history
        assert history is not None
        for name, _ in layout.columns:
            kept = self._monitor._kept.column(name)[first:stop]
            if name in encoder.embedded:
                packed[name][CODE] = kept
                packed[name][VECTOR] = history.rows[first:stop, encoder.places[name]]
            else:
                packed[name] = kept
        return packed.view(np.uint8).reshape(stop - first, -1)

    def guard(self, check: Keepable = written) -> None:
        super().guard(check)
        for vocabulary in self._monitor._encoder.vocabularies.values():
            vocabulary.keepable = check

    def keys(self, first: int, stop: int) -> list[Key] | None:
        kept = self._monitor._kept
        return None if kept.key is None else [kept.key_of(row) for row in range(first, stop)]

    def keys_of(self, rows: Rows) -> list[Key] | None:
        kept = self._monitor._kept
        return None if kept.key is None else [plain_key(kept.key_of(row)) for row in rows.tolist()]

    def words(self) -> dict[str, list[Any]]:
        vocabularies = self._monitor._encoder.vocabularies
        own = {name: one.values for name, one in vocabularies.items() if not one.closed}
        return super().words() | own

    def cut_words(self, counts: dict[str, int]) -> None:
        super().cut_words(counts)
        for name, vocabulary in self._monitor._encoder.vocabularies.items():
            if not vocabulary.closed:
                vocabulary.cut(counts.get(name, 0))

    def columns_of_words(self) -> set[str]:
        vocabularies = self._monitor._encoder.vocabularies
        own = {name for name, one in vocabularies.items() if not one.closed}
        return super().columns_of_words() | own

    def codes(self) -> tuple[int, dict[str, Codes]]:
        first, codes = super().codes()
        kept = self._monitor._kept
        return first, codes | {name: kept.column(name)[first:] for name in self.words() if name}

    def codes_in(self, layout: Layout, inputs: Bytes, outputs: Floats) -> dict[str, Codes]:
        codes = super().codes_in(layout, inputs, outputs)
        packed = np.ascontiguousarray(inputs).view(layout.dtype).reshape(-1)
        erased = np.isnan(outputs[:, 0])  # their records are zeros, and 0 is a code
        for name in self.words():
            if name:
                column = packed[name]
                column = column if column.dtype.names is None else column[CODE]
                codes[name] = np.where(erased, MISSING, column)
        return codes

    def drop_words(self, codes: dict[str, list[int]]) -> None:
        super().drop_words(codes)
        history, encoder = self._monitor._history, self._monitor._encoder
        if history is not None and encoder.combines(codes):
            first = history.first
            there = history.alive()[first:] != 0
            encoder.keep_combinations(history.rows[first : history.total][there, 0])

    def _know(self, column: str, values: Sequence[Any]) -> None:
        if column == "":
            super()._know(column, values)
        else:
            self._monitor._encoder.vocabularies[column].know(values)

    def begin(self, layout: Layout, first: int, words: dict[str, list[Any]]) -> None:
        encoder = self._monitor._encoder
        for name, kept in layout.vector_types.items():
            made = encoder.embedded[name].dtype
            if made != kept:
                raise BadRule(
                    f"column {name!r} becomes {made.shape[0]} numbers of {made.base}, and the"
                    f" ledger keeps {kept.shape[0]} of {kept.base}: bring the model back that it"
                    " was begun with. Nothing was changed."
                )
        width = len(encoder.weights)
        self._begin((width,), "float64", layout.outputs, first, words)
        self._monitor._kept.begin_at(first)

    def add(
        self, layout: Layout, inputs: Bytes, outputs: Floats, keys: Sequence[Key] | None
    ) -> None:
        self._check_labels(outputs)
        packed = np.ascontiguousarray(inputs).view(layout.dtype).reshape(-1)
        kept: dict[str, npt.NDArray[Any]] = {}
        vectors: dict[str, Floats] = {}
        erased = np.isnan(outputs[:, 0])
        for name, kind in layout.columns:
            codes = packed[name]
            if codes.dtype.names is not None:
                vectors[name] = codes[VECTOR].astype(np.float64)
                codes = codes[CODE]
            kept[name] = codes.astype(np.float64 if kind == "<f8" else np.int32)
            vocabulary = self._monitor._encoder.vocabularies.get(name)
            if vocabulary is not None:
                kept[name][erased] = MISSING  # their records are zeros, and 0 is a code
            if vocabulary is not None and kept[name].max(initial=-1) >= len(vocabulary.values):
                raise BadFile(f"the ledger has no word for a code of {name!r}: it was altered.")
        read = self._monitor._encoder.encode(kept, len(packed), vectors)
        self._write(read.vectors, outputs)
        own = [] if self._monitor._kept.key is None else list(keys or [None] * len(packed))
        self._monitor._keep(read, own)


def cargo_of(monitor: Monitor) -> Cargo:
    return TableCargo(monitor) if isinstance(monitor, TableMonitor) else Cargo(monitor)
