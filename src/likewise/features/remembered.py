"""What is kept of a table's columns beside the vectors: to explain a pair, and to count groups.

Numbers are kept as numbers, everything else as codes of its vocabulary; keys by value.

Invariant: as many rows as the history has; a forgotten one has lost its values and its key, and a
text or picture that no other row has is gone.
Cost: 8 bytes for a number, 4 for anything else, a key as it is; what is forgotten from the front on
is given back.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, RepeatedKey
from likewise.features.encoding import ERASED, MISSING, Encoder
from likewise.history.memory import Growing
from likewise.plain import label_of
from likewise.tables import Column, is_missing, values_of
from likewise.types import Rows


class Remembered:
    """Columns of the rows of a history."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        features = encoder.features
        self.names = [name for name, one in features.items() if one.kind not in ("key", "ignore")]
        self._columns = {
            name: Growing(np.float64 if features[name].kind == "number" else np.int32)
            for name in self.names
        }
        keys = [name for name, one in features.items() if one.kind == "key"]
        self.key = keys[0] if keys else None
        self.keepable: Callable[[Any], Any] | None = None  # asked about every key
        self._uses: dict[str, Counter[int]] = {name: Counter() for name in encoder.embedded}
        self._row_of: dict[Any, int] = {}
        self._key_of: dict[int, Any] = {}
        self.count = 0

    # Keys

    def check_keys(self, columns: Mapping[str, Column]) -> list[Any]:
        """The keys of rows to come; raise BadDecision if one is there already, or missing."""
        if self.key is None:
            return []
        given = values_of(columns[self.key])
        seen: dict[Any, int] = {}
        for i, key in enumerate(given):
            if is_missing(key):
                raise BadDecision(
                    f"row {i}: the key {self.key!r} is missing. Nothing was stored: every decision"
                    " needs one, or leave the key out of the rule."
                )
            key = label_of(key, f"row {i}: the key {self.key!r}")  # noqa: PLW2901
            before = self._row_of.get(key, seen.get(key, MISSING))
            if self.keepable is not None:
                self.keepable(key)
            if before != MISSING:
                raise RepeatedKey(
                    f"row {i}: the key {key!r} was given to row {before} already. Nothing was"
                    " stored: keys are unique.",
                    before,
                )
            seen[key] = self.count + i
        return list(seen)

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""
        return self._row_of.get(label_of(key, "the key"))

    # Rows

    def begin_at(self, row: int) -> None:
        """Of no rows yet: those before `row` count as forgotten."""
        self.count = row
        self.release(row)

    def add(self, kept: Mapping[str, npt.NDArray[Any]], keys: list[Any], many: int) -> None:
        for name, column in self._columns.items():
            column.put(self.count, kept[name], many)
        for name, uses in self._uses.items():
            uses.update(np.atleast_1d(kept[name]).tolist())
        for row, key in enumerate(keys, self.count):
            self._row_of[key] = row
            self._key_of[row] = key
        self.count += many

    def settle(self) -> None:
        """After a call that was cut off: have keys and texts of the rows that count, no others."""
        for row in [row for row in self._key_of if row >= self.count]:
            del self._key_of[row]
        self._row_of = {key: row for row, key in self._key_of.items()}
        for name in self._uses:
            self._uses[name] = Counter(self.column(name).tolist())
            self.drop_unused(name)

    def erase(self, rows: Rows) -> None:
        for name in self.names:
            column = self.column(name)
            if name in self._uses:
                self._less(name, column[rows].tolist())
            column[rows] = np.nan if column.dtype.kind == "f" else MISSING
        for row in rows.tolist() if self.key is not None else ():
            self._row_of.pop(self._key_of.pop(row, None), None)

    def _less(self, name: str, codes: list[int]) -> None:
        """These texts or pictures are used once less each; those not used any more are gone."""
        uses = self._uses[name]
        uses.subtract(codes)
        for code in set(codes) - {MISSING}:
            if uses[code] <= 0:
                del uses[code]
                self._encoder.vocabularies[name].drop(code)

    def drop_unused(self, name: str) -> list[int]:
        """Let go of texts or pictures that no row has; their codes."""
        vocabulary, uses = self._encoder.vocabularies[name], self._uses[name]
        codes = [
            code
            for code, value in enumerate(vocabulary.values)
            if value is not ERASED and code not in uses
        ]
        for code in codes:
            vocabulary.drop(code)
        return codes

    def release(self, row: int) -> None:
        """Rows before that one are forgotten: give their memory back."""
        for column in self._columns.values():
            column.release(row)

    def key_of(self, row: int) -> Any:
        return self._key_of.get(row)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Numbers, or codes, of all rows."""
        return self._columns[name].first(self.count)

    def values(self, row: int) -> dict[str, Any]:
        """A row as it came; None where something was missing."""
        values = {name: self.shown(name, self.column(name)[row]) for name in self.names}
        return values if self.key is None else {self.key: self.key_of(row), **values}

    def shown(self, name: str, kept: Any) -> Any:
        """What a kept number or code stands for."""
        if name in self._encoder.vocabularies:
            return None if kept == MISSING else self._encoder.vocabularies[name].values[int(kept)]
        number = float(kept)
        if np.isnan(number):
            return None
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
