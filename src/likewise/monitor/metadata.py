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
from likewise.monitor.row_models import Models
from likewise.monitor.time_span import TimeSpan
from likewise.tables.keys import Keys, list_keys
from likewise.tables.model_names import model_of, models_of
from likewise.tables.positions import Places, place_of, places_of
from likewise.tables.rows import Rows
from likewise.tables.times import all_microseconds, microseconds

_NO_TIMES: Rows = np.empty(0, np.int64)


class Said(NamedTuple):
    """As it came: of one decision, or of many."""

    keys: Any = None
    times: Any = None
    models: Any = None
    sources: Any = None
    positions: Any = None

    @property
    def from_nowhere(self) -> bool:
        return self.sources is None and self.positions is None

    @property
    def nothing(self) -> bool:
        unnamed = self.keys is None and self.times is None and self.models is None
        return unnamed and self.from_nowhere


@dataclass(frozen=True, slots=True)
class Stated:
    """Of decisions that are about to be taken; their batch is told their models."""

    keys: list[Any] | None
    times: Rows
    """Empty where nothing asks for them."""
    places: Places | None = None
    """Where they come from."""


_NOTHING = Stated(None, _NO_TIMES)


class Stating:
    """Reads what is said beside the decisions of one monitor."""

    def __init__(self, reader: Reader, keys: Keys, span: TimeSpan | None) -> None:
        self._reader = reader
        self._keys = keys
        self._span = span
        self.journal: Journal | None = None
        """Of a monitor with a ledger, which then is asked about times."""

    @property
    def _plain(self) -> bool:
        """Whether decisions may come with nothing beside them, and then nothing is to be known."""
        return self.journal is None and self._span is None and self._reader.key_column is None

    def one(self, batch: Batch, row: int, said: Said) -> Stated:
        """Of a single decision, which is to be `row`."""
        key, time, model, source, position = said
        keys = places = None
        if model is not None:
            batch.models = [model_of(model)]
        if key is not None:
            keys = self._given_keys(batch, row, [key], 1)
        elif batch.keys is not None:
            keys = self._given_keys(batch, row, None, 1)
        if source is not None or position is not None:
            places = place_of(source, position)
            self._check_places(places)
        return Stated(keys, self._time(time), places)

    def _check_places(self, places: Places | None) -> None:
        if self.journal is None:
            raise BadRule(
                "a position is given, and this monitor is in memory only, which keeps none. Nothing"
                " was stored: leave it out, or let lw.open(folder, rule) make a ledger."
            )
        self.journal.check_places(places)

    def many(self, batch: Batch, row: int, said: Said, fresh: list[int] | None = None) -> Stated:
        """Of decisions that are to be rows from `row` on.

        fresh: the places of those that are to be taken; all of them unless given
        """
        if self._plain and said.nothing:
            return _NOTHING
        keys, times, models = said.keys, said.times, said.models
        try:
            count = len(batch.outputs)
        except TypeError:
            count = 0  # the engine says what is wrong with them
        batch.models = self.models(models, count)
        given = self._given_keys(batch, row, keys, count, fresh)
        places = None
        if not said.from_nowhere:
            places = places_of(said.sources, said.positions, count)
            if places is not None and fresh is not None:
                places = places.some(fresh)
            self._check_places(places)
        when = self._times(times, count)
        return Stated(given, when if fresh is None else when[fresh], places)

    def _times(self, times: Any, count: int) -> Rows:
        if times is None:
            now = self._time(None)
            return np.broadcast_to(now, count) if len(now) else now
        if self.journal is None:
            return all_microseconds(times, count)
        return self.journal.retention.all_given(times, count)

    def models(self, models: Any, count: int | None = None) -> Models:
        """The models of so many decisions; without a count, that of a single one."""
        if count is not None:
            return models_of(models, count)
        return None if models is None else [model_of(models)]

    def _given_keys(
        self, batch: Batch, row: int, keys: Any, count: int, fresh: list[int] | None = None
    ) -> list[Any] | None:
        column = self._reader.key_column
        if fresh is not None:
            given = batch.keys if keys is None else list_keys(keys)
            assert given is not None  # since one of them was repeated
            return self._keys.check([given[i] for i in fresh], len(fresh), row)
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
            return np.array([self.journal.now(time)])
        if time is not None:
            return np.array([microseconds(time)])
        if self._span is not None:
            raise MissingValue(
                f"no time is given, and decisions are compared within {self._span.text}; expected"
                " `time` of a decision, or `times` of many."
            )
        return _NO_TIMES
