"""What a monitor remembers: a reader, an engine and models by row, which have the same rows.

The engine takes a decision first, then the reader, then the models. For a journal, stored rows go
back in (`append`), and the words that codes stand for are listed by column; labels under "".

Invariant: after `settle(rows)`, which undoes an interrupted call, all have exactly those rows.
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
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.verdict.verdicts import Verdict, Verdicts

WordCodes = npt.NDArray[Any]
"""Whole numbers that stand for words; MISSING where there is none."""


class Memory:
    """Keeps reader, engine and models in step."""

    def __init__(self, reader: Reader, engine: Engine, span: TimeSpan | None = None) -> None:
        self.reader = reader
        self.engine = engine
        self.span = span
        """How far back decisions are compared, if that is limited in time."""
        self.models = RowModels(reader.rule.compare)
        self._filters_pairs = reader.filters_pairs or self.models.filters_pairs
        self.most_words: int | None = None
        """The largest number of distinct labels, values of one column, or models."""
        self._check_writable: Callable[[Any, str], Any] | None = None
        self._cleared = 0
        """Rows before this one are forgotten, also by the reader and the models."""

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
        """Judge one decision as `observe` does, without remembering it."""
        verdict = self.engine.check(batch.vectors, batch.outputs, first, batch.left_open)
        if self._filters_pairs:
            return self._filter_witnesses(verdict, batch, first, batch.left_open)
        return verdict

    def _filter_witnesses(
        self, verdict: Verdict, batch: Batch | None, first: int, left_open: WildcardMask | None
    ) -> Verdict:
        """Keep the witnesses that count, and say whether any similar case counts."""
        witnesses = verdict.witnesses
        if not (len(witnesses) or verdict.comparable):
            return verdict
        row = self.engine.rows if verdict.row is None else verdict.row
        chosen = witnesses.select(self._mask_pairs(batch, np.array([row]), witnesses.rows))
        context = verdict.context
        if context.near is not None:
            near = self._count_similar(batch, row, first, left_open)
            context = context._replace(comparable=near > 0, near=near)
        elif verdict.comparable and len(chosen) == 0:
            near = self._count_similar(batch, row, first, left_open)
            context = context._replace(comparable=near > 0)
        return Verdict(verdict.row, chosen, context)

    def _count_similar(
        self, batch: Batch | None, row: int, first: int, left_open: WildcardMask | None
    ) -> int:
        """Count the rows near a remembered one, or near the one checked last, that count."""
        others, _ = self.engine.find_near_rows(row, first, left_open)
        return int(self._mask_pairs(batch, np.full(len(others), row), others).sum())

    def find_precedents(self, batch: Batch, first: int) -> tuple[NearRows, int]:
        """Return the rows from `first` on that are near an input and count, as the engine does."""
        (rows, distances), missing = self.engine.find_precedents(
            batch.vectors, first, batch.left_open
        )
        if self._filters_pairs and len(rows):
            counted = self._mask_pairs(batch, np.array([self.engine.rows]), rows)
            rows, distances = rows[counted], distances[counted]
        return (rows, distances), missing

    def _mask_pairs(self, batch: Batch | None, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        """Mark the pairs of rows and others that count, for the reader and by their models.

        batch: a single decision that is only checked, in place of `rows`
        """
        counted = self.reader.mask_pairs(batch, rows, others)
        if self.models.filters_pairs:
            checked = None if batch is None else batch.models or [None]
            counted = counted & self.models.mask_pairs(checked, rows, others)
        return counted

    def _accept(self, first: int, batch: Batch, count: int) -> None:
        """Have reader and models remember decisions that are in the engine, from row `first` on."""
        self.reader.accept(first, batch, count)
        self.models.add(first, batch.models, count)

    def observe_many(self, batch: Batch, firsts: Rows | None, threads: int | None) -> Verdicts:
        """Judge decisions and remember them, all or none.

        firsts: for each, the first past row that it is compared with; row 0 if None
        """
        self._check_models(batch.models)
        row = self.engine.rows
        verdicts = self.engine.observe_many(
            batch.vectors, batch.outputs, firsts, batch.left_open, threads
        )
        self._accept(row, batch, len(verdicts))
        if not self._filters_pairs:
            return verdicts
        mine = verdicts.first_row + verdicts.owners
        chosen = verdicts.select_witnesses(self._mask_pairs(None, mine, verdicts.witnesses.rows))
        if verdicts.comparable is None:
            return chosen
        if verdicts.near is not None:
            near = np.zeros(len(verdicts), np.int64)
            for owners, others in self.engine.find_near_rows_of_many(
                row, verdicts.near, firsts, batch.left_open
            ):
                counted = self._mask_pairs(None, row + owners, others)
                near += np.bincount(owners[counted], minlength=len(near))
            return replace(chosen, comparable=near > 0, near=near)
        near_rows = self.engine.similar  # one for each decision that has any
        comparable = chosen.violations.copy()
        places = np.flatnonzero(verdicts.comparable & ~comparable)
        comparable[places] = self._mask_pairs(None, row + places, near_rows[places])
        for i in np.flatnonzero(verdicts.comparable & ~comparable).tolist():
            first = 0 if firsts is None else int(firsts[i])
            left_open = None if batch.left_open is None else batch.left_open[i]
            comparable[i] = self._count_similar(None, row + i, first, left_open) > 0
        return replace(chosen, comparable=comparable)

    def filter_late_pairs(self, verdicts: Verdicts) -> Verdicts:
        """Keep of the contradicting pairs that shards found late those that count."""
        rows, others = verdicts.rows[verdicts.owners], verdicts.witnesses.rows
        is_open = self.engine.wildcards.mask(self.engine.rows)  # those were compared here, in time
        chosen = ~(is_open[rows] | is_open[others])
        if self._filters_pairs:
            chosen &= self._mask_pairs(None, rows, others)
        return verdicts.select_witnesses(chosen)

    def like_pairs(self, *, most: int, threads: int) -> Iterator[NearPairs]:
        """Find all pairs of remembered rows that are near and count, whatever their outputs."""
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
        """Remember decisions without judging them; return their rows."""
        self._check_models(batch.models)
        rows = self.engine.load(batch.vectors, batch.outputs, batch.left_open)
        self._accept(rows.start, batch, len(rows))
        return rows

    def forget(self, rows: Rows) -> Rows:
        """Forget rows; return those that were still remembered."""
        gone = self.engine.forget(rows)
        self.reader.forget(gone)
        self.models.forget(gone)
        self._note_cleared()
        return gone

    def release(self, row: int) -> None:
        """Free the memory of the rows before this one, which are forgotten."""
        self.reader.release(row)
        self.models.release(row)

    def _note_cleared(self) -> None:
        """Note that reader and models have forgotten all that the engine has."""
        history = self.engine.history
        self._cleared = 0 if history is None else history.first

    # After an interrupted call

    def settle(self, rows: int) -> None:
        """Return to the first `rows` rows."""
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
        """Forget all rows."""
        self.engine.reset()
        self.reader.reset()
        self.models.reset()
        self._note_cleared()

    # Words

    def words(self) -> dict[str, list[Any]]:
        """Return the words of each column, in the order of their codes; labels under ""."""
        words = self.reader.words()
        if self.engine.rule.output == "label":
            outputs = self.engine.outputs
            words[""] = outputs.labels if isinstance(outputs, LabelCodec) else []
        return words

    def word_counts(self) -> dict[str, int]:
        words = self.words()
        return dict(zip(words, map(len, words.values()), strict=True))

    def set_word_check(self, check: Callable[[Any, str], Any]) -> None:
        """Have this callable check, before a decision is taken, whether new words can be stored."""
        self._check_writable = check
        self._set_guard()

    def limit_words(self, most: int) -> None:
        """Take at most so many distinct labels, values of each column, and models."""
        self.most_words = most
        self._set_guard()

    def _set_guard(self) -> None:
        self.engine.check_new_label = self._check_new
        if self.engine.outputs is not None:
            self.engine.outputs.check_new_label = self._check_new
        self.reader.set_word_check(self._check_new)

    def _check_new(self, value: Any, what: str, known: int) -> None:
        """Raise BadDecision if a new word cannot be stored, or is one too many."""
        most = self.most_words
        if most is not None and known >= most:
            raise TooManyNames(
                f"{what} is {value!r}, which is new, and there are {known:,} others already; at"
                f" most {most:,} are taken."
            )
        if self._check_writable is not None:
            self._check_writable(value, what)

    def _check_models(self, models: ModelNames) -> None:
        """Raise BadDecision if these are too many, together with those that are known."""
        if self.most_words is None or models is None:
            return
        total = self.models.total_with(models)
        if total > self.most_words:
            raise TooManyNames(
                f"with the models given there would be {total:,} different ones; at most"
                f" {self.most_words:,} are taken."
            )

    def truncate_words(self, counts: Mapping[str, int]) -> None:
        """Keep the first so many words of each column; no row has any of the others."""
        if isinstance(self.engine.outputs, LabelCodec):
            self.engine.outputs.cut(counts.get("", 0))
        self.reader.truncate_words(counts)

    def drop_words(self, codes: Mapping[str, Sequence[int]]) -> None:
        """Drop words that no row has from memory."""
        for column, gone in codes.items():
            values = [*self.words()[column]]
            for code in gone:
                values[code] = ERASED
            self._set_words(column, values)
        history = self.engine.history
        if history is not None and codes:
            first = history.first
            remembered = history.remembered_flags()[first:] != 0
            vectors = history.rows[first : history.total][remembered]
            self.reader.prune_combinations(set(codes), vectors)

    def _set_words(self, column: str, values: Sequence[Any]) -> None:
        if column:
            self.reader.set_words(column, values)
        else:
            assert isinstance(self.engine.outputs, LabelCodec)
            self.engine.outputs.know(values, ERASED)

    def word_codes(self) -> tuple[int, dict[str, WordCodes]]:
        """Return the first row in memory and, by column, the codes of words from that row on."""
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
        """Return by column the codes of words in rows as they are on disk."""
        erased = np.isnan(outputs[:, 0])
        return self._label_codes(outputs) | self.reader.codes_in(dtype, records, erased)

    def _label_codes(self, outputs: Floats) -> dict[str, WordCodes]:
        if self.engine.rule.output != "label":
            return {}
        return {"": np.nan_to_num(outputs[:, 0], nan=MISSING).astype(np.int64)}

    # Rows from a journal

    def begin(
        self,
        row: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...] | None,
        storage: str | None,
        outputs: int,
        words: Mapping[str, Sequence[Any]],
    ) -> None:
        """Begin an empty memory at `row`, with these types of inputs and outputs, and words."""
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
        """Add rows; the caller forgets erased ones, whose outputs are NaN, afterwards."""
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
        batch.models = models
        self._accept(first, batch, len(vectors))

    def stage(self, batch: Batch) -> int:
        """Check rows and put them after the remembered ones, where no query sees them.

        Returns how many they are. `settle` removes them; their words stay.
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
        """Judge and remember rows of a journal that await their verdicts; none was erased."""
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

        They are not judged: the words of their labels may be erased as well.
        """
        erased = np.ones(len(outputs), np.bool_)
        batch = self.reader.unpack(dtype, records, erased)
        vectors, outputs = self._placeholders(batch.vectors, outputs, erased)
        rows = self.engine.load_stored(vectors, outputs, batch.left_open)
        batch.models = models
        self._accept(rows.start, batch, len(rows))
        self.forget(np.arange(rows.start, rows.stop))

    def _placeholders(
        self, vectors: Any, outputs: Floats, erased: npt.NDArray[np.bool_]
    ) -> tuple[Any, Floats]:
        """Give erased rows values that the engine admits; no query ever sees them."""
        vectors, outputs = vectors.copy(), outputs.copy()
        vectors[erased], outputs[erased] = 1, 0
        outputs[erased, 0] = self.engine.rule.output == "probabilities"
        return vectors, outputs

    def finish(self, erased: Rows) -> None:
        """Build the index once all rows are there, and forget what was erased."""
        self.engine.fill_index()
        if len(erased):
            self.forget(erased)
