"""What is said beside decisions: keys, times, models, positions; checked before anything changes.

Invariant: what is refused here leaves no trace.
Not here: which rows a time lets a decision be compared with (comparison_window.py).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import BadDecision, BadRule, MissingValue
from likewise.monitor.journal import Journal
from likewise.monitor.readers.protocol import Batch, Reader
from likewise.monitor.row_models import ModelNames
from likewise.monitor.time_span import TimeSpan
from likewise.tables.keys import Keys, list_keys
from likewise.tables.model_names import check_name, check_names
from likewise.tables.positions import SourcePositions, check_position, check_positions
from likewise.tables.rows import Rows
from likewise.tables.times import to_microseconds, to_microseconds_each

_NO_TIMES: Rows = np.empty(0, np.int64)


class RawMetadata(NamedTuple):
    """As it came: of one decision, or of many."""

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
    """Of decisions that are about to be taken; their batch is told their models."""

    keys: list[Any] | None
    times: Rows
    """Empty where nothing asks for them."""
    positions: SourcePositions | None = None
    """Where they come from."""


_NOTHING = Metadata(None, _NO_TIMES)


class MetadataReader:
    """Reads what is said beside the decisions of one monitor."""

    def __init__(self, reader: Reader, keys: Keys, span: TimeSpan | None) -> None:
        self._reader = reader
        self._keys = keys
        self._span = span
        self.journal: Journal | None = None
        """Of a monitor with a ledger, which then is asked about times."""

    @property
    def _needs_nothing(self) -> bool:
        """Whether decisions may come with nothing beside them, and then nothing is to be known."""
        return self.journal is None and self._span is None and self._reader.key_column is None

    def read_one(self, batch: Batch, row: int, raw_metadata: RawMetadata) -> Metadata:
        """Of a single decision, which is to be `row`."""
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
        return Metadata(keys, self._time(time), places)

    def _check_places(self, places: SourcePositions | None) -> None:
        if self.journal is None:
            raise BadRule(
                "a position is given, and this monitor is in memory only, which keeps none. Nothing"
                " was stored: leave it out, or let lw.open(folder, rule) make a ledger."
            )
        self.journal.check_places(places)

    def read_many(
        self, batch: Batch, row: int, raw_metadata: RawMetadata, new_places: list[int] | None = None
    ) -> Metadata:
        """Of decisions that are to be rows from `row` on.

        fresh: the places of those that are to be taken; all of them unless given
        """
        if self._needs_nothing and raw_metadata.is_empty:
            return _NOTHING
        keys, times, models = raw_metadata.keys, raw_metadata.times, raw_metadata.models
        try:
            count = len(batch.outputs)
        except TypeError:
            count = 0  # the engine says what is wrong with them
        batch.models = self.read_models(models, count)
        given = self._read_keys(batch, row, keys, count, new_places)
        places = None
        if not raw_metadata.has_no_source:
            places = check_positions(raw_metadata.sources, raw_metadata.positions, count)
            if places is not None and new_places is not None:
                places = places.select(new_places)
            self._check_places(places)
        when = self._times(times, count)
        return Metadata(given, when if new_places is None else when[new_places], places)

    def _times(self, times: Any, count: int) -> Rows:
        if times is None:
            now = self._time(None)
            return np.broadcast_to(now, count) if len(now) else now
        if self.journal is None:
            return to_microseconds_each(times, count)
        return self.journal.retention.times_of(times, count)

    def read_models(self, models: Any, count: int | None = None) -> ModelNames:
        """The models of so many decisions; without a count, that of a single one."""
        if count is not None:
            return check_names(models, count)
        return None if models is None else [check_name(models)]

    def _read_keys(
        self, batch: Batch, row: int, keys: Any, count: int, new_places: list[int] | None = None
    ) -> list[Any] | None:
        column = self._reader.key_column
        if new_places is not None:
            given = batch.keys if keys is None else list_keys(keys)
            assert given is not None  # since one of them was repeated
            return self._keys.check([given[i] for i in new_places], len(new_places), row)
        if keys is None:
            many = 0 if batch.keys is None else len(batch.keys)
            return self._keys.check(batch.keys, many, row, column=True)
        if column is not None:
            some = next((key for key in list_keys(keys) if key is not None), None)
            raise BadDecision(
                f"the key is {some!r}, but the rule takes keys from the column {column!r}.",
                advice="Leave it out.",
            )
        return self._keys.check(list_keys(keys), count, row)

    def _time(self, time: Any) -> Rows:
        """The time of a decision; if none is given, the clock's where it is kept."""
        if self.journal is not None:
            return np.array([self.journal.resolve_time(time)])
        if time is not None:
            return np.array([to_microseconds(time)])
        if self._span is not None:
            raise MissingValue(
                f"no time is given, and decisions are compared within {self._span.text}; expected"
                " `time` of a decision, or `times` of many."
            )
        return _NO_TIMES
