"""What is remembered of a table's rows beside their vectors: every column as it came.

Numbers of all columns lie side by side, so do the codes of all others: a row is two writes, however
many columns it has.

Invariant: as many rows as the history has; a forgotten one has lost its values, and a text, picture
or person that no other row has is gone.
Cost: 8 bytes for a number, 4 for anything else; what is forgotten from the front on is given back.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.history.memory import GrowingRows
from likewise.reading.encoding import ERASED, MISSING, Encoder
from likewise.values.witnesses import Rows


class Columns:
    """Columns of the rows of a history."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        features = encoder.features
        self.names = [name for name, one in features.items() if one.kind not in ("key", "ignore")]
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
        """Of no rows yet: those before `row` count as forgotten."""
        self.count = row
        self.release(row)

    def add(self, kept: Mapping[str, Any], many: int) -> None:
        """The next rows, each column an array."""
        first = self.count
        for names, rows in ((self._number_names, self._numbers), (self._code_names, self._codes)):
            if names:
                into = rows.room(first, many)
                for j, name in enumerate(names):
                    into[:, j] = kept[name]
        self._added(kept, many)

    def add_one(self, numbers: Sequence[float], codes: Sequence[int]) -> None:
        """The next row: its numbers, and its codes, in the order of the columns."""
        if numbers:
            self._numbers.room(self.count, 1)[0] = numbers
        if codes:
            self._codes.room(self.count, 1)[0] = codes
        for name, uses in self._uses.items():
            uses[codes[self._place[name][1]]] += 1
        self.count += 1

    def _added(self, kept: Mapping[str, Any], many: int) -> None:
        for name, uses in self._uses.items():
            uses.update(np.atleast_1d(kept[name]).tolist())
        self.count += many

    def settle(self, rows: int) -> None:
        """After a call that was cut off: have the first `rows` rows, and texts of no others."""
        self.count = rows
        for name in self._uses:
            self._uses[name] = Counter(self.column(name).tolist())
            self.drop_unused(name)

    def erase(self, rows: Rows) -> None:
        for name in self.names:
            column = self.column(name)
            if name in self._uses:
                self._less(name, column[rows].tolist())
            column[rows] = np.nan if column.dtype.kind == "f" else MISSING

    def _less(self, name: str, codes: list[int]) -> None:
        """These texts, pictures or persons are used once less each; those unused now are gone."""
        uses = self._uses[name]
        uses.subtract(codes)
        for code in set(codes) - {MISSING}:
            if uses[code] <= 0:
                del uses[code]
                self._encoder.vocabularies[name].drop(code)

    def drop_unused(self, name: str) -> list[int]:
        """Let go of texts, pictures or persons that no row has; their codes."""
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
        self._numbers.release(row)
        self._codes.release(row)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Numbers, or codes, of all rows."""
        rows, j = self._place[name]
        return rows.first(self.count)[:, j]

    def values(self, row: int) -> dict[str, Any]:
        """A row as it came; None where something was missing."""
        return {name: self.shown(name, self.column(name)[row]) for name in self.names}

    def shown(self, name: str, kept: Any) -> Any:
        """What a kept number or code stands for."""
        if name in self._encoder.vocabularies:
            return None if kept == MISSING else self._encoder.vocabularies[name].values[int(kept)]
        number = float(kept)
        if np.isnan(number):
            return None
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
