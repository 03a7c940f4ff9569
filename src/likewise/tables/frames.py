"""Reads the named columns of any table: one list or array of values for each.

A table is a frame of pandas, Polars, PyArrow or anything that narwhals knows or that exports an
Arrow stream; a list of dictionaries or named tuples; a NumPy array, whose columns have names or
come in the order asked for; a single row; or a ColumnTable, whose columns were read before.
Invariant: columns come out in the order asked for, of equal length, with None for missing values.
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
    """A table whose columns were read before, so that taking rows of it again is cheap."""

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, rows: slice) -> "ColumnTable":
        return ColumnTable({name: column[rows] for name, column in self.columns.items()})

    def take(self, rows: Sequence[int]) -> "ColumnTable":
        """Return these rows."""
        return ColumnTable(
            {
                name: column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]
                for name, column in self.columns.items()
            }
        )

    def row(self, i: int) -> dict[str, Any]:
        """Return a row as a dictionary."""
        return {name: to_python_scalar(column[i]) for name, column in self.columns.items()}

    def drop(self, names: Collection[str]) -> "ColumnTable":
        """Return the table without these columns, whether it has them or not."""
        rest = {name: column for name, column in self.columns.items() if name not in names}
        return ColumnTable(rest)


_MISSING_TYPES = ("NAType", "NaTType")  # of pandas
_NAMED = 50  # columns that a message names
_NOT_NUMPY = ("Int128", "UInt128")
BOOLEAN_ADVICE = 'For yes and no, say kind = "category" in the rule, or send 0 and 1.'
"""What to do about true or false in a column of numbers."""


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or a missing value of pandas."""
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN of any type, and NumPy's NaT
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        return False


def as_row(given: Any) -> Mapping[str, Any] | None:
    """Return a single row as a mapping from column names to values; None for anything else.

    A row is a mapping, a named tuple, a dataclass, a pydantic model, or a row of a pandas frame (a
    Series whose index is the names of the columns).
    """
    if isinstance(given, Mapping):
        return given
    if isinstance(given, tuple):
        row: Mapping[str, Any] | None = given._asdict() if hasattr(given, "_asdict") else None
        return row
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
    """Return the columns `names` of a table.

    known: the columns that the table may have; None allows any other column
    """
    if isinstance(given, ColumnTable):
        _check_names(list(given.columns), names, known)
        return {name: given.columns[name] for name in names}
    row = as_row(given)
    if row is not None:
        given = [row]
    if isinstance(given, np.ndarray):
        return _columns_of_array(given, names, known)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return _columns_of_rows(given, names, known)
    return _columns_of_frame(given, names, known)


def table_columns(given: Any) -> dict[str, Column]:
    """Return all columns of a table that names its columns itself."""
    if isinstance(given, np.ndarray):
        names = list(given.dtype.names or ())
    elif isinstance(given, Sequence) and given and as_row(given[0]) is not None:
        names = list(as_row(given[0]) or ())
    else:
        names = list(_open_frame(given).columns) if not isinstance(given, Sequence) else []
    if not names:
        raise UnexpectedValue(
            f"the table is of type {type(given).__name__}, without names of columns; expected a"
            " data frame, an Arrow table, or a list of dictionaries."
        )
    unnamed = [name for name in names if not isinstance(name, str)]
    if unnamed:
        raise UnexpectedValue(
            f"the table has a column named {unnamed[0]!r}; expected names that are text.",
            advice="For a frame of pandas: frame.rename(columns=str).",
        )
    return columns_of(given, names, names)


def read_single_row(frame: Any, advice: str) -> dict[str, Any]:
    """Return the row of a frame that has only one; raise WrongShape if it has more or none."""
    columns = table_columns(frame)
    counts = {len(column) for column in columns.values()}
    if counts != {1}:
        raise WrongShape(
            f"the frame has {max(counts, default=0)} rows; expected one.", advice=advice
        )
    return {name: column[0] for name, column in columns.items()}


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(map(repr, names[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def _check_names(present: Sequence[str], names: Sequence[str], known: Sequence[str] | None) -> None:
    for name in names:
        if name not in present:
            raise MissingColumn(
                f"column {name!r} is missing; the table has {_list_names(present)}"
                f"{did_you_mean(name, present) or '.'}",
                column=name,
            )
    for name in present:
        if known is not None and name not in known:
            raise UnknownColumn(
                f"column {name!r} is unknown to the rule; it has {_list_names(known)}"
                f"{did_you_mean(name, known) or '.'}",
                column=name,
                advice='Add it to the rule, with kind = "ignore" if it says nothing, or say extra ='
                ' "ignore" for all such columns.',
            )


def _columns_of_array(
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
    """Return the names of rows if all are dictionaries with the same names in the same order."""
    if set(map(type, given)) != {dict}:
        return None
    shapes = set(map(tuple, given))
    return shapes.pop() if len(shapes) == 1 else None


def _columns_of_rows(
    given: Sequence[Any], names: Sequence[str], known: Sequence[str] | None
) -> dict[str, Any]:
    required, allowed = set(names), None if known is None else set(known)
    common = _find_common_names(given)
    if common and required.issubset(common) and (allowed is None or allowed >= set(common)):
        columns = dict(zip(common, zip(*map(dict.values, given), strict=True), strict=True))
        return {name: list(columns[name]) for name in names}
    rows = []
    for i, item in enumerate(given):
        row = as_row(item)
        if row is None:
            raise UnexpectedValue(
                f"the decision is {item!r}; expected a dictionary, a named tuple or the like.",
                place=i,
            )
        if not required <= row.keys() or not (allowed is None or row.keys() <= allowed):
            try:
                _check_names(list(row), names, known)
            except BadDecision as error:
                raise error.with_place(i) from None
        rows.append(row)
    return {name: [row[name] for row in rows] for name in names}


def _open_frame(given: Any) -> Any:
    """Return a table as a frame of narwhals, or of Polars, whose methods have the same names."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(given, polars.DataFrame):
        return given
    if find_spec("narwhals") is None:
        raise BadDecision(
            f"the table is of type {type(given).__name__}, which needs the package narwhals."
            " Install it with: pip install '.[tables]' in the clone of likewise."
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


def _columns_of_frame(
    given: Any, names: Sequence[str], known: Sequence[str] | None
) -> dict[str, Column]:
    frame = _open_frame(given)
    _check_names(frame.columns, names, known)
    columns: dict[str, Column] = {}
    for name in names:
        series = frame[name]
        numeric = series.dtype.is_numeric() and str(series.dtype) not in _NOT_NUMPY
        no_gaps = numeric and series.null_count() == 0
        columns[name] = series.to_numpy() if no_gaps else series.to_list()
    return columns


def read_number_column(name: str, column: Column) -> npt.NDArray[np.float64]:
    """Return a column as float64, with NaN for missing values.

    Raises BadDecision at the first value that is no number.
    """
    _refuse_booleans(name, column)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and column.ndim == 1:
        numbers = column.astype(np.float64)
    else:
        column = require_list(column)
        odd = {kind for kind in set(map(type, column)) if not issubclass(kind, int | float)}
        for i, value in enumerate(column) if odd else ():
            if isinstance(value, str | bytes) or not (is_missing(value) or _has_float(value)):
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
            at = next(i for i, value in enumerate(column) if not _has_float(value))
            raise UnexpectedValue(
                f"{name!r} is a number beyond 1e308.", place=at, column=name
            ) from None
    _check_exact(name, column, numbers)
    if np.isinf(numbers).any():
        at = int(np.flatnonzero(np.isinf(numbers))[0])
        raise UnexpectedValue(f"{name!r} is infinite.", place=at, column=name)
    return numbers


def _refuse_booleans(name: str, column: Column) -> None:
    """Raise at the first True or False: Python counts with them, but it is probably a mistake."""
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
    """Raise at the first whole number that float64 rounds."""
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


def _has_float(value: Any) -> bool:
    """Whether a value can be converted to float."""
    if isinstance(value, np.ma.MaskedArray):  # it would become NaN, with a warning
        return False
    try:
        float(to_python_scalar(value))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False
    return True
