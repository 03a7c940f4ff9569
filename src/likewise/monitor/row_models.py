"""Which model decided each row, and which pairs of rows count if the rule's `compare` asks.

Each row has a code for its model; once no row has a code, its name is forgotten and it is reused.
Invariant: as many rows as the history has, once a model was given; a forgotten row has no model.
Cost: nothing as long as no model is given; then four bytes for each row, and each name once.
Not here: what a name is (tables/known_names.py).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from likewise.search.history.reserved_memory import GrowingRows
from likewise.tables.array_types import Rows
from likewise.verdict.model_counts import CodedColumn

NO_MODEL = 0
_UNKNOWN = -1  # the code of a model that no row has

ModelNames = list[str | None] | None
"""For each decision a name, or None; just None if none was given for any."""


class RowModels:
    """Remembers the model of each row, as codes.

    compare: which pairs count: "all", those "within" a model, or those "across" models
    """

    def __init__(self, compare: str) -> None:
        self._within = compare == "within"
        self.filters_pairs = compare != "all"
        """Whether some pairs of rows do not count, however near they are."""
        self.reset()

    def reset(self) -> None:
        """Forget all rows."""
        self.has_codes = False
        """Whether a model was ever given, so that every row has a code."""
        self._codes: GrowingRows | None = None  # made when the first model is given
        self._count = 0
        self._names: list[str | None] = [None]  # by code; None if the code is free
        self._code_of: dict[str | None, int] = {None: NO_MODEL}
        self._uses: list[int] = [0]
        self._free: list[int] = []

    def __bool__(self) -> bool:
        """Whether a remembered row has a model."""
        return len(self._code_of) > 1

    def add(self, first: int, models: ModelNames, count: int) -> None:
        """Remember the models of new rows, from `first` on."""
        if self._codes is None:
            if models is None:
                return
            self._codes = GrowingRows(np.int32, 1)
            self.has_codes = True
        into = self._codes.room(first, count)
        if models is None:
            into[:] = NO_MODEL
        elif count == 1:
            code = self._learn(models[0])
            into[0, 0] = code
            self._uses[code] += 1
        else:
            for name in dict.fromkeys(models):
                self._learn(name)
            codes = np.fromiter(map(self._code_of.__getitem__, models), np.int32, count)
            into[:, 0] = codes
            for code, uses in enumerate(np.bincount(codes).tolist()):
                self._uses[code] += uses
        self._count = first + count

    def _learn(self, name: str | None) -> int:
        """Return the code of a model, which may be a new one."""
        code = self._code_of.get(name)
        if code is None:
            code = self._free.pop() if self._free else len(self._names)
            if code == len(self._names):
                self._names.append(name)
                self._uses.append(0)
            self._names[code] = name
            self._code_of[name] = code
        return code

    def total_with(self, models: list[str | None]) -> int:
        """Return how many different models there would be with these."""
        new = {name for name in models if name not in self._code_of}
        return len(self._code_of) - 1 + len(new)

    def forget(self, rows: Rows) -> None:
        """Forget the models of these rows, and names that no other row has."""
        if self._codes is None:
            return
        codes = self._codes.first(self._count)[:, 0]
        gone = np.bincount(codes[rows], minlength=1)
        gone[NO_MODEL] = 0
        codes[rows] = NO_MODEL
        for code in np.flatnonzero(gone).tolist():
            self._uses[code] -= int(gone[code])
            if self._uses[code] == 0:
                self._drop(code)

    def _drop(self, code: int) -> None:
        self._code_of.pop(self._names[code], None)
        self._names[code] = None
        self._free.append(code)

    def settle(self, rows: int, forgotten: Rows) -> None:
        """Return to the first `rows` rows and their names, after an interrupted call.

        Codes of later rows need no change: `add` writes the code of every row.
        """
        if self._codes is None:
            return
        self._codes.room(rows, 0)  # makes room for the earlier rows if that was interrupted
        self._count = rows
        codes = self._codes.first(rows)[:, 0]
        codes[forgotten] = NO_MODEL
        uses = np.bincount(codes, minlength=len(self._names)).tolist()
        used = [code for code in range(1, len(self._names)) if uses[code]]
        self._names = [name if uses[code] else None for code, name in enumerate(self._names)]
        self._code_of = {None: NO_MODEL, **{self._names[code]: code for code in used}}
        self._uses = uses
        self._free = [code for code in range(1, len(uses)) if not uses[code]]

    def release(self, row: int) -> None:
        """Free the memory of the rows before this one, which are forgotten."""
        if self._codes is not None:
            self._codes.release(row)

    # What is there

    def codes(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Return the codes of the models of rows."""
        if self._codes is None:
            return np.zeros(len(rows), np.int32)
        codes: npt.NDArray[np.int32] = self._codes.first(self._count)[rows, 0]
        return codes

    def read_codes(self, rows: Rows) -> CodedColumn:
        """Return the models of rows as codes, and the names that these stand for."""
        return CodedColumn(self.codes(rows).astype(np.int64), tuple(self._names))

    def names(self, rows: Rows) -> tuple[str | None, ...]:
        """Return the models of rows; None for a row without one, or a forgotten one."""
        if len(rows) == 0:
            return ()
        return tuple(map(self._names.__getitem__, self.codes(rows).tolist()))

    def mask_pairs(
        self, checked: Sequence[str | None] | None, rows: Rows, others: Rows
    ) -> npt.NDArray[np.bool_]:
        """Mark the pairs of rows and others that count, by their models alone.

        checked: the model of a single decision that is only checked, in place of `rows`
        """
        theirs = self.codes(others)
        if checked is None:
            mine = self.codes(rows)
        else:
            mine = np.array([self._code_of.get(checked[0], _UNKNOWN)], np.int32)
        same: npt.NDArray[np.bool_] = theirs == mine
        return same if self._within else ~same
