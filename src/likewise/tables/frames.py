"""Tables in: whatever holds named columns becomes a list of values for each.

pandas, Polars, PyArrow and anything else that narwhals knows or that exports an Arrow stream; a
list of dictionaries or named tuples; a NumPy array with named fields, or a plain one whose columns
come in the order that is asked for. A single dictionary or named tuple is a table of one row.

A ColumnTable is a table whose columns were taken out before: whoever takes the same rows many times
reads them once.

Invariant: columns come out in the order asked for, all of the same length, missing places as None.
"""

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, MissingColumn, UnexpectedValue, UnknownColumn, WrongShape
from likewise.tables.known_names import did_you_mean
from likewise.tables.normalize import (
    BEYOND_EXACT,
    MAX_EXACT_INT,
    OFFSET_ADVICE,
    is_rounded,
    require_list,
    short_repr,
    to_python_scalar,
    unmask,
)

Column: TypeAlias = list[Any] | npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns by name, all of the same length."""

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, rows: slice) -> "ColumnTable":
        return ColumnTable({name: column[rows] for name, column in self.columns.items()})

    def row(self, i: int) -> dict[str, Any]:
        """One row."""
        return {name: to_python_scalar(column[i]) for name, column in self.columns.items()}

    def drop(self, names: Collection[str]) -> "ColumnTable":
        """The same without these columns, whether it has them or not."""
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return ColumnTable(kept)


_NO_VALUES = ("NAType", "NaTType")
_NAMED = 50  # columns that a message names
_NOT_NUMPY = ("Int128", "UInt128")
BOOLEAN_ADVICE = 'For yes and no, say kind = "category" in the rule, or send 0 and 1.'
"""What to do where true or false stands in a column of numbers."""


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has for them."""
    if value is None or type(value).__name__ in _NO_VALUES:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN of any type, and NumPy's NaT
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        return False


def as_row(given: Any) -> Mapping[str, Any] | None:
    """A single row as a mapping from names of columns to values; None for anything else.

    A dictionary or any other mapping, a named tuple, a dataclass, a pydantic model, or a row of a
    pandas frame (a Series with the columns' names as its index).
    """
    if isinstance(given, Mapping):
        return given
    if isinstance(given, tuple):
        made: Mapping[str, Any] | None = given._asdict() if hasattr(given, "_asdict") else None
        return made
    names: list[Any] = []
    if is_dataclass(type(given)):
        names = [field.name for field in fields(given)]
    elif isinstance(declared := getattr(type(given), "model_fields", None), Mapping):  # pydantic's
        names = list(declared)
    elif type(given).__name__ == "Series" and _has_text_names(getattr(given, "index", ())):
        return dict(zip(given.index, given.to_list(), strict=True))
    return {name: getattr(given, name) for name in names} or None


def _has_text_names(index: Any) -> bool:
    return len(index) > 0 and all(isinstance(name, str) for name in index)


def columns_of(given: Any, names: Sequence[str], known: Sequence[str] | None) -> dict[str, Column]:
    """The columns `names` of a table.

    known: all of its columns must be among these; None where others do not matter
    """
    if isinstance(given, ColumnTable):
        _check_names(list(given.columns), names, known)
        return {name: given.columns[name] for name in names}
    row = as_row(given)
    if row is not None:
        given = [row]
    if isinstance(given, np.ndarray):
        return _of_array(given, names, known)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return _of_rows(given, names, known)
    return _of_frame(given, names, known)


def table_columns(given: Any) -> dict[str, Column]:
    """All columns of a table, by the names that it has itself."""
    if isinstance(given, np.ndarray):
        names = list(given.dtype.names or ())
    elif isinstance(given, Sequence) and given and as_row(given[0]) is not None:
        names = list(as_row(given[0]) or ())
    else:
        names = list(_frame(given).columns) if not isinstance(given, Sequence) else []
    if not names:
        raise UnexpectedValue(
            f"the table is of type {type(given).__name__}, without names of columns; expected a"
            " data frame, an Arrow table, or a list of dictionaries."
        )
    return columns_of(given, names, names)


def _few_of(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(map(repr, names[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def _check_names(there: Sequence[str], names: Sequence[str], known: Sequence[str] | None) -> None:
    for name in names:
        if name not in there:
            raise MissingColumn(
                f"column {name!r} is missing; the table has"
                f" {_few_of(there)}"
                f"{did_you_mean(name, there) or '.'}",
                column=name,
            )
    for name in there:
        if known is not None and name not in known:
            raise UnknownColumn(
                f"column {name!r} is unknown to the rule; it has"
                f" {_few_of(known)}"
                f"{did_you_mean(name, known) or '.'}",
                column=name,
                advice="Add it to the rule, with kind"
                ' "ignore" if it says nothing, or say extra = "ignore" for all such columns.',
            )


def _of_array(
    given: npt.NDArray[Any], names: Sequence[str], known: Sequence[str] | None
) -> dict[str, Any]:
    if given.dtype.names is not None:
        _check_names(given.dtype.names, names, known)
        return {name: _unmask_column(name, given[name]) for name in names}
    if given.ndim != 2 or given.shape[1] != len(names):
        raise WrongShape(
            f"the array has shape {given.shape}; expected {len(names)} columns, in the order"
            f" {', '.join(map(repr, names))}."
        )
    return {name: _unmask_column(name, given[:, j]) for j, name in enumerate(names)}


def _unmask_column(name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return unmask(column, repr(name)) if isinstance(column, np.ma.MaskedArray) else column


def _find_common_names(given: Sequence[Any]) -> tuple[Any, ...] | None:
    """The names of rows that are dictionaries with the same names in the same order."""
    if set(map(type, given)) != {dict}:
        return None
    shapes = set(map(tuple, given))
    return shapes.pop() if len(shapes) == 1 else None


def _of_rows(
    given: Sequence[Any], names: Sequence[str], known: Sequence[str] | None
) -> dict[str, Any]:
    wanted, allowed = set(names), None if known is None else set(known)
    shape = _find_common_names(given)
    if shape is not None and wanted.issubset(shape) and (allowed is None or allowed >= set(shape)):
        columns = dict(zip(shape, zip(*map(dict.values, given), strict=True), strict=True))
        return {name: list(columns[name]) for name in names}
    rows = []
    for i, one in enumerate(given):
        row = as_row(one)
        if row is None:
            raise UnexpectedValue(
                f"the decision is {one!r}; expected a dictionary, a named tuple or the like.",
                place=i,
            )
        if not wanted <= row.keys() or not (allowed is None or row.keys() <= allowed):
            try:
                _check_names(list(row), names, known)
            except BadDecision as error:
                raise error.with_place(i) from None
        rows.append(row)
    return {name: [row[name] for row in rows] for name in names}


def _frame(given: Any) -> Any:
    """A table as narwhals sees it; one of Polars as it is, which has the same names."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(given, polars.DataFrame):
        return given
    if find_spec("narwhals") is None:
        raise BadDecision(
            f"the table is of type {type(given).__name__}, which needs the package narwhals."
            " Install it with: pip install 'likewise[tables]'."
        )
    import narwhals.stable.v1 as nw

    try:
        return nw.from_native(given, eager_only=True)
    except ValueError as error:
        raise BadDecision(f"{error}.") from None
    except TypeError:
        if not hasattr(given, "__arrow_c_stream__"):
            raise UnexpectedValue(
                f"the table is of type {type(given).__name__}; expected a data frame, an Arrow"
                " table, a list of dictionaries or an array."
            ) from None
    import pyarrow

    return nw.from_native(pyarrow.table(given), eager_only=True)


def _of_frame(given: Any, names: Sequence[str], known: Sequence[str] | None) -> dict[str, Column]:
    frame = _frame(given)
    _check_names(frame.columns, names, known)
    columns: dict[str, Column] = {}
    for name in names:
        series = frame[name]
        plain = series.dtype.is_numeric() and str(series.dtype) not in _NOT_NUMPY
        if plain and series.null_count() == 0:
            columns[name] = series.to_numpy()
        else:
            columns[name] = series.to_list()
    return columns


def read_number_column(name: str, column: Column) -> npt.NDArray[np.float64]:
    """A column as float64, NaN where missing; raise BadDecision at the first that is no number."""
    _refuse_flags(name, column)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and column.ndim == 1:
        numbers = column.astype(np.float64)
    else:
        column = require_list(column)
        odd = {kind for kind in set(map(type, column)) if not issubclass(kind, int | float)}
        for i, value in enumerate(column) if odd else ():
            if isinstance(value, str | bytes) or not (is_missing(value) or _is_number(value)):
                raise UnexpectedValue(
                    f"{name!r} is {short_repr(value)}; expected a number.", place=i, column=name
                )
        if odd:
            column = [
                math.nan if is_missing(value) else to_python_scalar(value) for value in column
            ]
        try:
            numbers = np.array(column, dtype=np.float64)
        except OverflowError:
            at = next(i for i, value in enumerate(column) if not _is_number(value))
            raise UnexpectedValue(
                f"{name!r} is a number beyond 1e308.", place=at, column=name
            ) from None
    _check_exact(name, column, numbers)
    if np.isinf(numbers).any():
        at = int(np.flatnonzero(np.isinf(numbers))[0])
        raise UnexpectedValue(f"{name!r} is infinite.", place=at, column=name)
    return numbers


def _refuse_flags(name: str, column: Column) -> None:
    """True is no number, though Python counts with it: most likely another column was meant."""
    if isinstance(column, np.ndarray) and column.dtype.kind not in "bO":
        return
    if not {bool, np.bool_}.isdisjoint(map(type, column)):
        at = next(i for i, value in enumerate(column) if isinstance(value, bool | np.bool_))
        raise UnexpectedValue(
            f"{name!r} is {bool(column[at])}; expected a number.",
            place=at,
            column=name,
            advice=BOOLEAN_ADVICE,
        )


def _check_exact(name: str, column: Column, numbers: npt.NDArray[np.float64]) -> None:
    """Raise at the first whole number that is another one as float64."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return
    for i in np.flatnonzero(np.abs(numbers) >= MAX_EXACT_INT).tolist():
        if is_rounded(column[i]):
            raise UnexpectedValue(
                f"{name!r} is {short_repr(column[i])}, {BEYOND_EXACT}",
                place=i,
                column=name,
                advice=OFFSET_ADVICE,
            )


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ma.MaskedArray):  # which becomes NaN, with a warning
        return False
    try:
        float(to_python_scalar(value))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False
    return True
