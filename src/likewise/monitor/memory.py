"""A reader, an engine and models by row that have the same rows: what a monitor remembers.

The engine takes a decision first, then the reader, then the models; whoever calls says afterwards
which rows count (`settle`), should a call have been cut off between them.

For a journal, rows come out as bytes and go back in (`pack`, `append`), and the words that codes
stand for are told by column: "" for labels.

Invariant: after `settle(rows)` all have those rows and no others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile, TooManyNames
from likewise.monitor.readers.encoding import ERASED, MISSING
from likewise.monitor.readers.protocol import Batch, Bytes, Reader
from likewise.monitor.row_models import ModelNames, RowModels
from likewise.monitor.time_span import TimeSpan
from likewise.search.engine.engine import Engine
from likewise.search.engine.near_pairs import NearPairs, find_near_pairs
from likewise.search.engine.wildcards import WildcardMask
from likewise.search.outputs import LabelCodec, outputs_of
from likewise.tables.rows import Floats, Rows
from likewise.verdict.verdicts import Verdict, Verdicts

WordCodes = npt.NDArray[Any]
"""Whole numbers that stand for words; MISSING where there is none."""


class Memory:
    """What is remembered of decisions."""

    def __init__(self, reader: Reader, engine: Engine, span: TimeSpan | None = None) -> None:
        self.reader = reader
        self.engine = engine
        self.span = span
        """How far back decisions are compared, where that is limited in time."""
        self.models = RowModels(reader.rule.compare)
        self._filters_pairs = reader.filters_pairs or self.models.filters_pairs
        self.most_words: int | None = None
        """Distinct labels, values of one column, or models that are taken."""
        self._check_writable: Callable[[Any, str], Any] | None = None
        self._cleared = 0
        """Rows before this one are forgotten, and the reader and the models know it."""

    # Judging

    def observe(self, batch: Batch, first: int) -> Verdict:
        """Judge one decision against the past from row `first` on, and remember it."""
        models = batch.models
        if models is not None:
            self._check_models(models)
        row = self.engine.rows
        verdict = self.engine.observe(batch.vectors, batch.outputs, first, batch.left_open)
        self.reader.accept(row, batch, 1)
        if models is not None or self.models.has_codes:
            self.models.add(row, models, 1)
        if self._filters_pairs:
            return self._filter_witnesses(verdict, None, first, batch.left_open)
        return verdict

    def check(self, batch: Batch, first: int) -> Verdict:
        verdict = self.engine.check(batch.vectors, batch.outputs, first, batch.left_open)
        if self._filters_pairs:
            return self._filter_witnesses(verdict, batch, first, batch.left_open)
        return verdict

    def _filter_witnesses(
        self, verdict: Verdict, batch: Batch | None, first: int, left_open: WildcardMask | None
    ) -> Verdict:
        """With those witnesses, and like cases, that count."""
        found = verdict.witnesses
        if not (len(found) or verdict.comparable):
            return verdict
        row = self.engine.rows if verdict.row is None else verdict.row
        chosen = found.select(self._mask_pairs(batch, np.array([row]), found.rows))
        beside = verdict.context
        if verdict.comparable and len(chosen) == 0:
            counts = self._has_like(batch, row, first, left_open)
            beside = beside._replace(comparable=counts)
        return Verdict(verdict.row, chosen, beside)

    def _has_like(
        self, batch: Batch | None, row: int, first: int, left_open: WildcardMask | None
    ) -> bool:
        """Whether a row near a remembered one, or near what was checked last, counts."""
        others = self.engine.find_near_rows(row, first, left_open)
        return bool(self._mask_pairs(batch, np.full(len(others), row), others).any())

    def _mask_pairs(self, batch: Batch | None, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        """Which pairs of rows and others count, for the reader and by their models.

        batch: a single decision, that was only checked, instead of `rows`
        """
        counted = self.reader.mask_pairs(batch, rows, others)
        if self.models.filters_pairs:
            checked = None if batch is None else batch.models or [None]
            counted = counted & self.models.mask_pairs(checked, rows, others)
        return counted

    def observe_many(self, batch: Batch, firsts: Rows | None, threads: int | None) -> Verdicts:
        self._check_models(batch.models)
        row, vectors = self.engine.rows, batch.vectors
        verdicts = self.engine.observe_many(
            vectors, batch.outputs, firsts, batch.left_open, threads
        )
        self.reader.accept(row, batch, len(verdicts))
        self.models.add(row, batch.models, len(verdicts))
        if not self._filters_pairs:
            return verdicts
        mine = verdicts.first_row + verdicts.owners
        chosen = verdicts.select_witnesses(self._mask_pairs(None, mine, verdicts.witnesses.rows))
        if verdicts.comparable is None:
            return chosen
        likes = self.engine.found_likes
        comparable = chosen.violations.copy()
        some = np.flatnonzero(verdicts.comparable & ~comparable)
        comparable[some] = self._mask_pairs(None, row + some, likes[some])
        for i in np.flatnonzero(verdicts.comparable & ~comparable).tolist():
            first = 0 if firsts is None else int(firsts[i])
            left_open = None if batch.left_open is None else batch.left_open[i]
            comparable[i] = self._has_like(None, row + i, first, left_open)
        return replace(chosen, comparable=comparable)

    def filter_late_pairs(self, found: Verdicts) -> Verdicts:
        """Of pairs of whole remembered rows that are near and differ, those that count."""
        rows, others = found.rows[found.owners], found.witnesses.rows
        is_open = self.engine.wildcards.mask(self.engine.rows)  # they were compared here
        chosen = ~(is_open[rows] | is_open[others])
        if self._filters_pairs:
            chosen &= self._mask_pairs(None, rows, others)
        return found.select_witnesses(chosen)

    def like_pairs(self, *, most: int, threads: int) -> Iterator[NearPairs]:
        """All pairs of remembered rows that are near and count, whatever their outputs."""
        chooser = self.engine.chooser
        if chooser is None:
            return
        for pairs in find_near_pairs(chooser, self.engine.wildcards, most=most, threads=threads):
            if self.span is not None:
                pairs = pairs.select(self.span.mask_pairs(pairs.later, pairs.earlier))  # noqa: PLW2901
            if self._filters_pairs:
                yield pairs.select(self._mask_pairs(None, pairs.later, pairs.earlier))
            else:
                yield pairs

    def load(self, batch: Batch) -> range:
        self._check_models(batch.models)
        rows = self.engine.load(batch.vectors, batch.outputs, batch.left_open)
        self.reader.accept(rows.start, batch, len(rows))
        self.models.add(rows.start, batch.models, len(rows))
        return rows

    def forget(self, rows: Rows) -> Rows:
        """Forget rows; those of them that were still remembered."""
        gone = self.engine.forget(rows)
        self.reader.forget(gone)
        self.models.forget(gone)
        self._note_cleared()
        return gone

    def release(self, row: int) -> None:
        """Rows before that one are forgotten: give their memory back."""
        self.reader.release(row)
        self.models.release(row)

    def _note_cleared(self) -> None:
        """All that is forgotten has left the reader and the models."""
        history = self.engine.history
        self._cleared = 0 if history is None else history.first

    # After a call that was cut off

    def settle(self, rows: int) -> None:
        """Have the first `rows` rows and no others."""
        self.engine.settle(rows)
        history = self.engine.history
        if history is None:
            self.reader.reset()
            self.models.reset()
        else:
            self.reader.settle(rows)
            first = min(self._cleared, rows)
            forgotten = np.flatnonzero(history.remembered_flags()[first:] == 0) + first
            self.reader.forget(forgotten)
            self.models.settle(rows, forgotten)
        self._note_cleared()

    def reset(self) -> None:
        """Have no rows."""
        self.engine.reset()
        self.reader.reset()
        self.models.reset()
        self._note_cleared()

    # Words

    def words(self) -> dict[str, list[Any]]:
        """By column and code; labels under ""."""
        words = self.reader.words()
        if self.engine.rule.output == "label":
            outputs = self.engine.outputs
            words[""] = outputs.labels if isinstance(outputs, LabelCodec) else []
        return words

    def word_counts(self) -> dict[str, int]:
        words = self.words()
        return dict(zip(words, map(len, words.values()), strict=True))

    def set_word_check(self, check: Callable[[Any, str], Any]) -> None:
        """Have new words checked before a decision is taken: can they be kept?"""
        self._check_writable = check
        self._set_guard()

    def limit_words(self, most: int) -> None:
        """Have no more than so many distinct labels, values of each column, and models."""
        self.most_words = most
        self._set_guard()

    def _set_guard(self) -> None:
        self.engine.check_new_label = self._check_new
        if self.engine.outputs is not None:
            self.engine.outputs.check_new_label = self._check_new
        self.reader.set_word_check(self._check_new)

    def _check_new(self, value: Any, what: str, known: int) -> None:
        """Raise BadDecision if a new word cannot be kept, or is one too many."""
        most = self.most_words
        if most is not None and known >= most:
            raise TooManyNames(
                f"{what} is {value!r}, which is new, and there are {known:,} others already; at"
                f" most {most:,} are taken."
            )
        if self._check_writable is not None:
            self._check_writable(value, what)

    def _check_models(self, models: ModelNames) -> None:
        """Raise BadDecision if these are too many together with those that are known."""
        if self.most_words is None or models is None:
            return
        total = self.models.total_with(models)
        if total > self.most_words:
            raise TooManyNames(
                f"with the models given there would be {total:,} different ones; at most"
                f" {self.most_words:,} are taken."
            )

    def truncate_words(self, counts: Mapping[str, int]) -> None:
        """Of each column's words keep the first so many; no row has any of the others."""
        if isinstance(self.engine.outputs, LabelCodec):
            self.engine.outputs.cut(counts.get("", 0))
        self.reader.truncate_words(counts)

    def drop_words(self, codes: Mapping[str, Sequence[int]]) -> None:
        """Words that no row has leave memory."""
        for column, gone in codes.items():
            values = [*self.words()[column]]
            for code in gone:
                values[code] = ERASED
            self._set_words(column, values)
        history = self.engine.history
        if history is not None and codes:
            first = history.first
            there = history.remembered_flags()[first:] != 0
            self.reader.prune_combinations(set(codes), history.rows[first : history.total][there])

    def _set_words(self, column: str, values: Sequence[Any]) -> None:
        if column:
            self.reader.set_words(column, values)
        else:
            assert isinstance(self.engine.outputs, LabelCodec)
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
        self._note_cleared()
        for column, values in words.items():
            self._set_words(column, values)

    def append(
        self, dtype: np.dtype[Any], records: Bytes, outputs: Floats, models: ModelNames = None
    ) -> None:
        """Further rows; erased ones, whose outputs are NaN, are to be forgotten afterwards."""
        engine, first = self.engine, self.engine.rows
        labels = isinstance(engine.outputs, LabelCodec)
        if labels and np.nanmax(outputs, initial=-1) >= len(engine.labels):
            raise BadFile("the ledger has no word for a label: it was altered.")
        erased = np.isnan(outputs[:, 0])
        batch = self.reader.unpack(dtype, records, erased)
        vectors = batch.vectors
        if erased.any():
            vectors, outputs = self._placeholders(vectors, outputs, erased)
        at = engine.append_stored(vectors, outputs)
        if at >= 0:
            raise BadFile(
                f"row {first + at:,} of the ledger holds an input or output that no monitor would"
                " have taken. Nothing was changed."
            )
        if batch.left_open is not None:
            engine.add_wildcards(first, batch.left_open)
        self.reader.accept(first, batch, len(vectors))
        self.models.add(first, models, len(vectors))

    def stage(self, batch: Batch) -> int:
        """Check and write rows behind those that are remembered, where no query sees them.

        Returns how many there are; `settle` removes them, and their words stay.
        """
        self._check_models(batch.models)
        count = self.engine.stage(batch.vectors, batch.outputs)
        self.reader.accept(self.engine.rows, batch, count)
        return count

    def judge(
        self,
        dtype: np.dtype[Any],
        records: Bytes,
        outputs: Floats,
        firsts: Rows,
        models: ModelNames = None,
    ) -> Verdicts:
        """Judge and remember rows of a journal that wait for their verdicts; none was erased."""
        engine = self.engine
        batch = self.reader.unpack(dtype, records, np.zeros(len(outputs), np.bool_))
        batch.outputs, batch.models = outputs, models
        if engine.rule.output == "label":
            batch.outputs = [engine.labels[int(code)] for code in outputs[:, 0]]
        elif engine.rule.output == "number":
            batch.outputs = outputs[:, 0]
        return self.observe_many(batch, firsts, None)

    def skip_erased(
        self, dtype: np.dtype[Any], records: Bytes, outputs: Floats, models: ModelNames = None
    ) -> None:
        """Remember and forget rows of a journal that were erased before they were judged.

        They are not judged: the label that stands for theirs may be erased as well.
        """
        erased = np.ones(len(outputs), np.bool_)
        batch = self.reader.unpack(dtype, records, erased)
        vectors, outputs = self._placeholders(batch.vectors, outputs, erased)
        rows = self.engine.load_stored(vectors, outputs, batch.left_open)
        self.reader.accept(rows.start, batch, len(rows))
        self.models.add(rows.start, models, len(rows))
        self.forget(np.arange(rows.start, rows.stop))

    def _placeholders(
        self, vectors: Any, outputs: Floats, erased: npt.NDArray[np.bool_]
    ) -> tuple[Any, Floats]:
        """Give erased rows values that are admitted; these are forgotten before anybody looks."""
        vectors, outputs = vectors.copy(), outputs.copy()
        vectors[erased], outputs[erased] = 1, 0
        outputs[erased, 0] = self.engine.rule.output == "probabilities"
        return vectors, outputs

    def finish(self, erased: Rows) -> None:
        """All rows are there: build the index, and forget what was erased."""
        self.engine.fill_index()
        if len(erased):
            self.forget(erased)
