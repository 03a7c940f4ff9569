"""A reader and an engine that have the same rows: what a monitor remembers.

The engine takes a decision first, then the reader; whoever calls says afterwards which rows count
(`settle`), should a call have been cut off between the two.

For a journal, rows come out as bytes and go back in (`pack`, `append`), and the words that codes
stand for are told by column: "" for labels.

Invariant: after `settle(rows)` both have those rows and no others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.engine.engine import Engine
from likewise.metrics.outputs import Labels, outputs_of
from likewise.reading.encoding import ERASED, MISSING
from likewise.reading.protocol import Batch, Bytes, Keepable, Reader
from likewise.values.errors import BadFile
from likewise.values.verdicts import Floats, Rows, Verdict, Verdicts

WordCodes = npt.NDArray[Any]
"""Whole numbers that stand for words; MISSING where there is none."""


class Memory:
    """What is remembered of decisions."""

    def __init__(self, reader: Reader, engine: Engine) -> None:
        self.reader = reader
        self.engine = engine
        self._must_differ = reader.rule.protected_must_differ

    # Judging

    def observe(self, batch: Batch, first: int) -> Verdict:
        """Judge one decision against the past from row `first` on, and remember it."""
        row = self.engine.rows
        verdict = self.engine.observe(batch.vectors, batch.outputs, first, batch.left_open)
        self.reader.accept(row, batch, 1)
        return self._counted(verdict, None)

    def check(self, batch: Batch, first: int) -> Verdict:
        verdict = self.engine.check(batch.vectors, batch.outputs, first, batch.left_open)
        return self._counted(verdict, batch)

    def _counted(self, verdict: Verdict, batch: Batch | None) -> Verdict:
        """With those witnesses that count: all, or those that differ in a protected column."""
        found = verdict.witnesses
        if not self._must_differ or len(found) == 0:
            return verdict
        mine = np.array([verdict.row or 0])
        chosen = found.some(self.reader.differing(batch, mine, found.rows))
        return Verdict(verdict.row, chosen, verdict.beside)

    def observe_many(self, batch: Batch, firsts: Rows | None, threads: int | None) -> Verdicts:
        row, vectors = self.engine.rows, batch.vectors
        verdicts = self.engine.observe_many(
            vectors, batch.outputs, firsts, batch.left_open, threads
        )
        self.reader.accept(row, batch, len(verdicts))
        if not self._must_differ:
            return verdicts
        mine = verdicts.first_row + verdicts.owners
        return verdicts.some_witnesses(self.reader.differing(None, mine, verdicts.witnesses.rows))

    def load(self, batch: Batch) -> range:
        rows = self.engine.load(batch.vectors, batch.outputs, batch.left_open)
        self.reader.accept(rows.start, batch, len(rows))
        return rows

    def forget(self, rows: Rows) -> Rows:
        """Forget rows; those of them that were still remembered."""
        gone = self.engine.forget(rows)
        self.reader.forget(gone)
        return gone

    # After a call that was cut off

    def settle(self, rows: int) -> None:
        """Have the first `rows` rows and no others."""
        self.engine.settle(rows)
        history = self.engine.history
        if history is None:
            self.reader.reset()
        else:
            self.reader.settle(rows)
            first = history.first
            self.reader.forget(np.flatnonzero(history.alive()[first:] == 0) + first)

    def reset(self) -> None:
        """Have no rows."""
        self.engine.reset()
        self.reader.reset()

    # Words

    def words(self) -> dict[str, list[Any]]:
        """By column and code; labels under ""."""
        own = {"": self.engine.labels} if self.engine.rule.output == "label" else {}
        return own | self.reader.words()

    def word_counts(self) -> dict[str, int]:
        return {column: len(words) for column, words in self.words().items()}

    def guard(self, keepable: Keepable) -> None:
        """Have new words checked before a decision is taken."""
        self.engine.keepable = keepable
        if self.engine.outputs is not None:
            self.engine.outputs.keepable = keepable
        self.reader.guard(keepable)

    def cut_words(self, counts: Mapping[str, int]) -> None:
        """Of each column's words keep the first so many; no row has any of the others."""
        if isinstance(self.engine.outputs, Labels):
            self.engine.outputs.cut(counts.get("", 0))
        self.reader.cut_words(counts)

    def drop_words(self, codes: Mapping[str, Sequence[int]]) -> None:
        """Words that no row has leave memory."""
        for column, gone in codes.items():
            values = [*self.words()[column]]
            for code in gone:
                values[code] = ERASED
            self._know(column, values)
        history = self.engine.history
        if history is not None and codes:
            first = history.first
            there = history.alive()[first:] != 0
            self.reader.words_left(set(codes), history.rows[first : history.total][there])

    def _know(self, column: str, values: Sequence[Any]) -> None:
        if column:
            self.reader.know_words(column, values)
        else:
            assert isinstance(self.engine.outputs, Labels)
            self.engine.outputs.know(values, ERASED)

    def word_codes(self) -> tuple[int, dict[str, WordCodes]]:
        """The first row in memory, and of the rows from there on the codes of all words."""
        history = self.engine.history
        first = 0 if history is None else history.first
        codes = self._label_codes(self.engine.numbers(slice(first, None)))
        rows = slice(first, None)
        return first, codes | {
            name: self.reader.codes(name, rows).codes for name in self.reader.words()
        }

    def word_codes_in(
        self, dtype: np.dtype[Any], records: Bytes, outputs: Floats
    ) -> dict[str, WordCodes]:
        """The same of rows as they are on disk."""
        erased = np.isnan(outputs[:, 0])
        return self._label_codes(outputs) | self.reader.codes_in(dtype, records, erased)

    def _label_codes(self, outputs: Floats) -> dict[str, WordCodes]:
        if self.engine.rule.output != "label":
            return {}
        return {"": np.nan_to_num(outputs[:, 0], nan=MISSING).astype(np.int64)}

    # Rows that come back from a journal

    def begin(
        self,
        row: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...] | None,
        storage: str | None,
        outputs: int,
        words: Mapping[str, Sequence[Any]],
    ) -> None:
        """Of no rows yet: go on at `row`, with inputs and outputs such as these."""
        shape = self.reader.begin_at(row, dtype) or shape
        assert shape is not None
        engine = self.engine
        engine.begin(shape, storage or "float64", outputs_of(engine.rule, np.zeros(outputs)))
        engine.begin_at(row)
        for column, values in words.items():
            self._know(column, values)

    def append(self, dtype: np.dtype[Any], records: Bytes, outputs: Floats) -> None:
        """Further rows; erased ones, whose outputs are NaN, are to be forgotten afterwards."""
        engine, first = self.engine, self.engine.rows
        labels = isinstance(engine.outputs, Labels)
        if labels and np.nanmax(outputs, initial=-1) >= len(engine.labels):
            raise BadFile("the ledger has no word for a label: it was altered.")
        erased = np.isnan(outputs[:, 0])
        batch = self.reader.unpack(dtype, records, erased)
        vectors = batch.vectors
        if erased.any():  # anything that is admitted will do
            vectors, outputs = vectors.copy(), outputs.copy()
            vectors[erased], outputs[erased] = 1, 0
            outputs[erased, 0] = engine.rule.output == "probabilities"
        at = engine.append(vectors, outputs)
        if at >= 0:
            raise BadFile(
                f"row {first + at:,} of the ledger holds an input or output that no monitor would"
                " have taken. Nothing was changed."
            )
        if batch.left_open is not None:
            engine.add_wildcards(first, batch.left_open)
        self.reader.accept(first, batch, len(vectors))

    def finish(self, erased: Rows) -> None:
        """All rows are there: build the index, and forget what was erased."""
        self.engine.fill()
        if len(erased):
            self.forget(erased)
