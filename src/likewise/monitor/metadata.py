"""Read what comes with decisions (keys, times, models, positions), and find the rows to compare.

In memory a span of time may limit the comparison (`within`); with a ledger, its window does.
Invariant: what is refused here leaves no trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import BadDecision, BadRule, MissingValue
from likewise.monitor.journal import Journal
from likewise.monitor.readers.protocol import Batch, Reader
from likewise.monitor.row_models import ModelNames
from likewise.monitor.time_span import TimeSpan
from likewise.tables.array_types import Rows
from likewise.tables.keys import Keys, list_keys
from likewise.tables.model_names import check_name, check_names
from likewise.tables.positions import SourcePositions, check_position, check_positions
from likewise.tables.times import to_microseconds, to_microseconds_each
from likewise.verdict.context import ComparedRows

_NO_TIMES: Rows = np.empty(0, np.int64)


class ComparisonWindow:
    """Finds the past rows that the next decisions are compared with."""

    def __init__(self, span: TimeSpan | None) -> None:
        self.span = span
        self.journal: Journal | None = None
        """The journal of a monitor with a ledger; it knows the ledger's window."""

    def resolve_time(self, time: Any) -> Rows:
        """Return the time of a decision in an array; no time if nothing asks for one.

        If none is given, a ledger uses its clock.
        """
        if self.journal is not None:
            return np.array([self.journal.resolve_time(time)])
        if time is not None:
            return np.array([to_microseconds(time)])
        if self.span is not None:
            raise MissingValue(
                f"no time is given, and decisions are compared within {self.span.text}; expected"
                " `time` of a decision, or `times` of many."
            )
        return _NO_TIMES

    def resolve_times(self, times: Any, count: int) -> Rows:
        """Return the times of so many decisions; no times if nothing asks for them."""
        if times is None:
            now = self.resolve_time(None)
            return np.broadcast_to(now, count) if len(now) else now
        if self.journal is None:
            return to_microseconds_each(times, count)
        return self.journal.retention.times_of(times, count)

    def find_first_row(self, row: int, times: Rows) -> tuple[int, ComparedRows | None]:
        """Return the first row to compare `row` with, and what a ledger's verdict says about it."""
        if self.journal is not None:
            compared = self.journal.retention.comparison_range(row, int(times[0]))
            return compared.first, compared
        return (0 if self.span is None else int(self.span.find_first_rows(row, times)[0])), None

    def find_first_row_for_check(self, row: int, time: Any) -> tuple[int, ComparedRows | None]:
        """Like `find_first_row`, for a decision that is not remembered; by default it comes now.

        A ledger's clock that has gone back is not recorded for it.
        """
        if self.journal is not None:
            return self.find_first_row(row, np.array([self.journal.retention.now(time)]))
        if self.span is None:
            return 0, None
        now = self.span.last(row) if time is None else to_microseconds(time)
        return self.find_first_row(row, np.array([now]))

    def find_first_rows(self, row: int, times: Rows) -> Rows | None:
        """Return the first row to compare each decision with; None if that is row 0 for all."""
        if self.journal is not None:
            return self.journal.retention.firsts(row, times)
        return None if self.span is None else self.span.find_first_rows(row, times)

    def count_erased(self, firsts: Rows | None) -> Rows | None:
        """Count the erased rows from each of these rows on; None without a ledger."""
        if self.journal is None or firsts is None:
            return None
        return self.journal.retention.count_absent(firsts)


class RawMetadata(NamedTuple):
    """What comes with one decision, or with many, before it is checked."""

    keys: Any = None
    times: Any = None
    models: Any = None
    sources: Any = None
    positions: Any = None

    @property
    def has_no_source(self) -> bool:
        return self.sources is None and self.positions is None

    @property
    def is_empty(self) -> bool:
        unnamed = self.keys is None and self.times is None and self.models is None
        return unnamed and self.has_no_source


@dataclass(frozen=True, slots=True)
class Metadata:
    """Holds the checked metadata of decisions to be taken; their models are in the batch."""

    keys: list[Any] | None
    times: Rows
    """Empty if nothing asks for times."""
    positions: SourcePositions | None = None
    """The source and the position there from which each decision comes."""


_NO_METADATA = Metadata(None, _NO_TIMES)


class MetadataReader:
    """Reads and checks what comes with the decisions of one monitor."""

    def __init__(self, reader: Reader, keys: Keys, window: ComparisonWindow) -> None:
        self._reader = reader
        self._keys = keys
        self._window = window

    def read_one(self, batch: Batch, row: int, raw_metadata: RawMetadata) -> Metadata:
        """Read the metadata of a single decision that will become `row`."""
        key, time, model, source, position = raw_metadata
        keys = places = None
        if model is not None:
            batch.models = [check_name(model)]
        if key is not None:
            keys = self._read_keys(batch, row, [key], 1)
        elif batch.keys is not None:
            keys = self._read_keys(batch, row, None, 1)
        if source is not None or position is not None:
            places = check_position(source, position)
            self._check_places(places)
        return Metadata(keys, self._window.resolve_time(time), places)

    def _check_places(self, places: SourcePositions | None) -> None:
        journal = self._window.journal
        if journal is None:
            raise BadRule(
                "a position is given, and this monitor is in memory only, which keeps none. Nothing"
                " was stored: leave it out, or let lw.open(folder, rule) make a ledger."
            )
        journal.check_places(places)

    def read_many(
        self, batch: Batch, row: int, raw_metadata: RawMetadata, new_places: list[int] | None = None
    ) -> Metadata:
        """Read the metadata of decisions that will become rows from `row` on.

        new_places: which decisions of the batch are taken; all of them by default
        """
        window = self._window
        asks_nothing = window.journal is None and window.span is None
        if asks_nothing and self._reader.key_column is None and raw_metadata.is_empty:
            return _NO_METADATA
        keys, times, models = raw_metadata.keys, raw_metadata.times, raw_metadata.models
        try:
            count = len(batch.outputs)
        except TypeError:
            count = 0  # the engine says what is wrong with them
        batch.models = self.read_models(models, count)
        checked_keys = self._read_keys(batch, row, keys, count, new_places)
        places = None
        if not raw_metadata.has_no_source:
            places = check_positions(raw_metadata.sources, raw_metadata.positions, count)
            if places is not None and new_places is not None:
                places = places.select(new_places)
            self._check_places(places)
        when = window.resolve_times(times, count)
        return Metadata(checked_keys, when if new_places is None else when[new_places], places)

    def read_models(self, models: Any, count: int | None = None) -> ModelNames:
        """Check the models of so many decisions; without a count, that of a single one."""
        if count is not None:
            return check_names(models, count)
        return None if models is None else [check_name(models)]

    def _read_keys(
        self, batch: Batch, row: int, keys: Any, count: int, new_places: list[int] | None = None
    ) -> list[Any] | None:
        column = self._reader.key_column
        if new_places is not None:
            all_keys: Sequence[Any] | None = batch.keys if keys is None else list_keys(keys)
            assert all_keys is not None  # since one of them was repeated
            return self._keys.check([all_keys[i] for i in new_places], len(new_places), row)
        if keys is None:
            many = 0 if batch.keys is None else len(batch.keys)
            return self._keys.check(batch.keys, many, row, column=True)
        if column is not None:
            first_key = next((key for key in list_keys(keys) if key is not None), None)
            raise BadDecision(
                f"the key is {first_key!r}, but the rule takes keys from the column {column!r}.",
                advice="Leave it out.",
            )
        return self._keys.check(list_keys(keys), count, row)
