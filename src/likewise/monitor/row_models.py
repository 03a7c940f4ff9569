"""Which model decided each row, and which pairs of rows count for a rule that asks.

A row has a number for its model, 0 for none. A number stands for a name as long as a row has it;
then the name is gone, and the number is free for another.

Invariant: as many rows as the history has, once a model was given; a forgotten row has no model.
Cost: nothing as long as no model is given; then four bytes for each row, and each name once.
Not here: what a name is (tables/model_names.py).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from likewise.search.history.reserved_memory import GrowingRows
from likewise.tables.rows import Rows
from likewise.verdict.past_rows import CodedColumn

NO_MODEL = 0
_UNKNOWN = -1  # the number of a model that no row has

ModelNames = list[str | None] | None
"""A name, or None, for each of some decisions; None if none was given for any."""


class RowModels:
    """Models by row.

    compare: which pairs count: "all", those "within" a model, or those "across" models
    """

    def __init__(self, compare: str) -> None:
        self._within = compare == "within"
        self.filters_pairs = compare != "all"
        """Whether some pairs of rows do not count, however near they are."""
        self.reset()

    def reset(self) -> None:
        """Have no rows."""
        self.has_codes = False
        """Whether a model was ever given, so that every row has a number."""
        self._codes: GrowingRows | None = None  # made when the first model is given
        self._count = 0
        self._names: list[str | None] = [None]  # by number; None for one that is free
        self._code_of: dict[str | None, int] = {None: NO_MODEL}
        self._uses: list[int] = [0]
        self._free: list[int] = []

    def __bool__(self) -> bool:
        """Whether a remembered row has a model."""
        return len(self._code_of) > 1

    def add(self, first: int, models: ModelNames, count: int) -> None:
        """The history has decisions of these models now, as rows from `first` on."""
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
            self._take_many(into[:, 0], models, count)
        self._count = first + count

    def _take_many(self, into: npt.NDArray[np.int32], models: list[str | None], count: int) -> None:
        for name in dict.fromkeys(models):
            self._learn(name)
        into[:] = codes = np.fromiter(map(self._code_of.__getitem__, models), np.int32, count)
        for code, many in enumerate(np.bincount(codes).tolist()):
            self._uses[code] += many

    def _learn(self, name: str | None) -> int:
        """The number of a model, which may be a new one."""
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
        """How many different models there would be with these."""
        new = {name for name in models if name not in self._code_of}
        return len(self._code_of) - 1 + len(new)

    def forget(self, rows: Rows) -> None:
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
        """After a call that was cut off: have the first `rows` rows, and names of no others.

        Numbers of further rows are not looked at: `took` writes those of every row.
        """
        if self._codes is None:
            return
        self._codes.room(rows, 0)  # there is room for the rows before, even if that was cut off
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
        """Rows before that one are forgotten: give their memory back."""
        if self._codes is not None:
            self._codes.release(row)

    # What is there

    def codes(self, rows: Rows) -> npt.NDArray[np.int32]:
        """The numbers of rows' models."""
        if self._codes is None:
            return np.zeros(len(rows), np.int32)
        codes: npt.NDArray[np.int32] = self._codes.first(self._count)[rows, 0]
        return codes

    def read_codes(self, rows: Rows) -> CodedColumn:
        """Models of rows as numbers, and the names that these stand for."""
        return CodedColumn(self.codes(rows).astype(np.int64), tuple(self._names))

    def names(self, rows: Rows) -> tuple[str | None, ...]:
        """The models of rows; None for one without, or forgotten."""
        if len(rows) == 0:
            return ()
        return tuple(map(self._names.__getitem__, self.codes(rows).tolist()))

    def mask_pairs(
        self, checked: Sequence[str | None] | None, rows: Rows, others: Rows
    ) -> npt.NDArray[np.bool_]:
        """Which pairs of rows and others count, by their models alone.

        checked: the model of a single decision, that was only checked, instead of `rows`
        """
        theirs = self.codes(others)
        if checked is None:
            mine = self.codes(rows)
        else:
            mine = np.array([self._code_of.get(checked[0], _UNKNOWN)], np.int32)
        same: npt.NDArray[np.bool_] = theirs == mine
        return same if self._within else ~same
