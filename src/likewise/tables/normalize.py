"""Converts values of any library to NumPy arrays of numbers and to comparable Python labels.

Refuses what would lose its meaning: masked values, whole numbers that float64 rounds, and labels
that are equal only to themselves. Also writes values for error messages (`short_repr`).
Invariant: no input is changed, and a value means the same alone and in a batch.
Cost: arrays are not copied; 64-bit integers are scanned once, lists once more than by NumPy.
"""

import math
import reprlib
import sys
from collections.abc import Hashable, Mapping, Set
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import chain
from types import EllipsisType, NoneType, NotImplementedType
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, UnexpectedValue, WrongShape

MAX_EXACT_INT = 2**53
"""Up to here every whole number is a float64."""
BEYOND_EXACT = (
    "a whole number beyond 2**53. Numbers are compared as float64, which rounds it to another."
)
OFFSET_ADVICE = (
    "Subtract an offset from such numbers, or send them as float if rounding does not matter."
)

Array = npt.NDArray[Any]
_MOST_BITS = 10_000  # a longer whole number is not written out
_FEW = 256  # so few numbers Python scans faster than NumPy
_UNREADABLE = (TypeError, ValueError, RuntimeError, ArithmeticError)
_NUMPY_READS = {float, int, bool, str, bytes, NoneType, np.float64, np.float32, np.int64, np.bool_}
"""Types that NumPy reads from a list without our help."""
_FLOATS = {float}
_PYTHON_NUMBERS = {float, int}
_NO_NUMBERS = (str, bytes, bool, np.bool_, np.datetime64, np.timedelta64)
"""Types that `float()` accepts, but that are no numbers."""
_BOOLEAN_ADVICE = 'For yes and no, say output = "label" in the rule, or send 0 and 1.'
PLAIN_LABELS = {str, int, bool, bytes, NoneType}
"""Types of labels that need no conversion."""
_SINGLETONS = (type, Enum, NoneType, EllipsisType, NotImplementedType)
"""Types whose values exist once, so that identity is equality."""
_FINE_UNITS = ("ns", "ps", "fs", "as")  # of NumPy's dates; Python's dates do not have them


# Arrays


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported torch
    return torch is not None and isinstance(value, torch.Tensor)


def array_of_tensor(tensor: Any) -> Array:
    """Return a tensor's numbers without its gradient; a tensor on the CPU is not copied."""
    torch = sys.modules["torch"]
    numpy_has = (torch.float64, torch.float32, torch.float16)
    if tensor.is_floating_point() and tensor.dtype not in numpy_has:  # such as bfloat16
        tensor = tensor.float()
    array: Array = tensor.numpy(force=True)
    return array


def array_of(given: Any, what: str, expected: str = "numbers") -> Array:
    """Convert anything to an array of any type.

    Raises UnexpectedValue if that is impossible, if values are masked, and if whole numbers would
    be rounded because there are fractions among them.
    """
    if type(given) is np.ndarray:
        return given
    if type(given) is list and set(map(type, given)) == _FLOATS:  # fast path for the usual list
        return np.asarray(given)
    try:
        if is_tensor(given):
            return array_of_tensor(given)
        given = _prepare_for_numpy(given, what)
        array = np.asarray(given)
        if array.dtype.kind in "fiub" and hasattr(given, "get_columns"):
            _check_columns(given, what, expected)
        if array.dtype.kind == "f" and _largest(array) >= MAX_EXACT_INT:
            _check_rounded(given, array, what)
        return array
    except BadDecision:
        raise
    except Exception as error:  # a foreign table may raise anything
        raise UnexpectedValue(
            f"{what} is {short_repr(given)} of type {type(given).__name__}; expected {expected}"
            f" ({error})."
        ) from None


def to_number_array(given: Any, what: str, expected: str = "numbers") -> Array:
    """Convert numbers to an array; raise UnexpectedValue for anything that is no exact number.

    No exact numbers are dates, text, and whole numbers that float64 rounds.
    """
    array = array_of(given, what, expected)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise UnexpectedValue(
            f"{what} is {short_repr(given)}, an array of type {type_name(array.dtype)}; expected"
            f" {expected}."
        )
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and _largest(array) > MAX_EXACT_INT:
        raise rounded_integer_error(array, what)
    return array


def rounded_integer_error(array: Array, what: str) -> BadDecision:
    """Return the error for an array of integers of which one is beyond MAX_EXACT_INT."""
    at = np.unravel_index(
        int(((array > MAX_EXACT_INT) | (array < -MAX_EXACT_INT)).argmax()), array.shape
    )
    place = "" if array.ndim == 0 else f" at position {_place(at)}"
    return UnexpectedValue(
        f"{what} has {int(array[at])}{place}, {BEYOND_EXACT}", advice=OFFSET_ADVICE
    )


def _prepare_for_numpy(given: Any, what: str) -> Any:
    """Return what NumPy reads without losing a mask or failing at a gradient."""
    if isinstance(given, np.ma.MaskedArray):
        return unmask(given, what)
    if is_tensor(given):
        return array_of_tensor(given)
    if isinstance(given, list | tuple) and not set(map(type, given)) <= _NUMPY_READS:
        return [_prepare_for_numpy(item, what) for item in given]
    return given


def unmask(given: Any, what: str) -> Array:
    """Return the values of a masked array; raise UnexpectedValue if any is masked."""
    mask = np.ma.getmaskarray(given)
    if mask.dtype.names is not None:  # a structured array, with a mask for each column
        for name in mask.dtype.names:
            unmask(given[name], f"{what}, column {name!r},")
    elif mask.any():
        at = np.unravel_index(int(mask.argmax()), mask.shape)
        place = "masked" if mask.ndim == 0 else f"masked at position {_place(at)}"
        raise UnexpectedValue(
            f"{what} is {place}; expected a value everywhere.",
            advice="Say what a missing value means, for example with `filled`.",
        )
    return np.asarray(given.data)


def _check_columns(frame: Any, what: str, expected: str) -> None:
    """Raise if a column of a Polars frame is not numeric: Polars turns dates into numbers."""
    for j, column in enumerate(frame.get_columns()):
        kind = np.asarray(column).dtype
        if kind.kind not in "fiub":
            raise UnexpectedValue(
                f"{what}, column {j}, is of type {type_name(kind)}; expected {expected}."
            )


def _check_rounded(given: Any, array: Array, what: str) -> None:
    """Raise if a whole number in a list or frame was rounded to another float."""
    if hasattr(given, "columns") and array.ndim == 2:
        for j, column in enumerate(_columns(given)):
            part = np.asarray(column)
            if part.dtype.kind in "iu" and _largest(part) > MAX_EXACT_INT:
                raise rounded_integer_error(part, f"{what}, column {j},")
        return
    values = np.asarray(given, dtype=object)
    for at in zip(*np.nonzero(np.abs(array) >= MAX_EXACT_INT), strict=True):
        if is_rounded(values[at]):
            place = "" if array.ndim == 0 else f" at position {_place(at)}"
            raise UnexpectedValue(
                f"{what} has {values[at]}{place}, {BEYOND_EXACT}", advice=OFFSET_ADVICE
            )


def is_rounded(value: Any) -> bool:
    """Whether a number is beyond MAX_EXACT_INT and not a float already."""
    plain = to_python_scalar(value)  # NumPy's -2**63 has no opposite
    if isinstance(plain, Decimal) and plain.is_nan():  # comparing it would raise
        return False
    return (
        isinstance(plain, int | Decimal | Fraction) and not -MAX_EXACT_INT <= plain <= MAX_EXACT_INT
    )


def _columns(frame: Any) -> Any:
    """Return the columns of a frame of pandas or Polars, or of an Arrow table."""
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, j] for j in range(frame.shape[1])]
    return frame.get_columns() if hasattr(frame, "get_columns") else frame.columns


def _largest(array: Array) -> Any:
    """Return the largest absolute value."""
    if array.size <= _FEW:
        return max(map(abs, array.reshape(-1).tolist()), default=0)
    return max(array.max().item(), -array.min().item())


def _place(at: tuple[Any, ...]) -> str:
    """Write a position in an array as a number, or as several in parentheses."""
    numbers = [str(int(index)) for index in at]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


# Batches


def as_list(given: Any) -> list[Any] | None:
    """Return the values of a list, an array or a series as a list; None if it is none of these.

    Arrays, tensors and series of pandas, Polars or Arrow give Python values, except that NumPy's
    dates stay as they are: some would become whole numbers.
    """
    if type(given) is list:
        return given
    if isinstance(given, np.ndarray):
        if given.ndim == 0:
            return None
        return list(given) if given.dtype.kind in "mM" else given.tolist()
    if isinstance(given, str | bytes | bytearray | Mapping | Set):
        return None
    for name in ("to_list", "to_pylist", "tolist"):
        if hasattr(given, name):
            try:
                values = getattr(given, name)()
            except Exception as error:  # such as for a date that Python cannot represent
                kind = type(given).__name__
                raise UnexpectedValue(f"a {kind} cannot be read as a list ({error}).") from None
            return values if isinstance(values, list) else None
    sized = hasattr(given, "__len__") and hasattr(given, "__iter__")
    return list(given) if sized and not hasattr(given, "columns") else None


def require_list(given: Any, what: str = "the values", expected: str = "a list") -> list[Any]:
    """Return the values as a list; raise UnexpectedValue if it is no list, array or series."""
    values = given if type(given) is list else as_list(given)
    if values is None:
        raise UnexpectedValue(f"{what} are {short_repr(given)}; expected {expected}.")
    return values


def sequence_of(given: Any) -> Any:
    """Return the values of a batch as an array or a list, which is indexed from 0.

    A series may have another index, a frame is indexed by its columns.
    """
    if isinstance(given, list | tuple | np.ndarray):
        return given
    if is_tensor(given) or (hasattr(given, "columns") and hasattr(given, "__array__")):
        return array_of(given, "the output", "one for each decision")
    if isinstance(given, Mapping | Set):
        raise UnexpectedValue(
            f"the outputs are a {type(given).__name__}; expected a list or an array, in the order"
            " of the inputs."
        )
    array = _array_of_series(given)
    if array is not None:
        return array
    values = as_list(given)
    if values is None and hasattr(given, "__array__"):
        return array_of(given, "the output", "one for each decision")
    return given if values is None else values


def _array_of_series(given: Any) -> Array | None:
    """Return a series of numbers as an array; None for other series, and where one is missing."""
    if not hasattr(given, "__array__"):
        return None
    try:
        array = np.asarray(given)
    except Exception:  # such as Polars raises for whole numbers of 128 bits
        return None
    if array.ndim > 1:  # the fields of structs would be taken for the numbers of a vector
        return None
    complete = array.dtype.kind in "iub" or (array.dtype.kind == "f" and not np.isnan(array).any())
    return array if complete else None


# Single values


def to_python_scalar(value: Any) -> Any:
    """Return a NumPy or torch scalar as a Python value; anything else as it is."""
    if not hasattr(value, "dtype") or getattr(value, "ndim", 1) != 0:
        return value
    if isinstance(value, np.ma.MaskedArray):  # its value would lose the mask
        return value
    if getattr(value.dtype, "kind", "") in ("M", "m"):
        return _to_python_date(value)
    try:
        return value.item()
    except (*_UNREADABLE, AttributeError):  # such as a tensor without data
        return value


def _to_python_date(value: Any) -> Any:
    """Return a NumPy date as a Python date; as it is if Python cannot represent it."""
    if np.datetime_data(value.dtype)[0] in _FINE_UNITS:
        rounded = value.astype(f"{value.dtype.kind}8[us]")
        value = rounded if rounded == value else value
    date = value.item()
    return value if isinstance(date, int) or date is None else date


# Outputs that are numbers, alone and in batches


def number_of(value: Any, what: str) -> float:
    """Return one number as a float; raise UnexpectedValue if it is none, or float64 rounds it.

    An array or a list with one number is that number: so models answer for one row.
    """
    if isinstance(value, float):
        return value
    if type(value) is int and -MAX_EXACT_INT <= value <= MAX_EXACT_INT:
        return value
    if isinstance(value, np.ma.MaskedArray):
        value = unmask(value, what)
    item = value
    shape = getattr(value, "shape", None)
    if isinstance(value, list | tuple) or (isinstance(shape, tuple) and len(shape) == 1):
        # Not value[0]: a series may have another index.
        item = next(iter(value)) if len(value) == 1 else value
    plain = to_python_scalar(item)
    if is_rounded(plain):
        raise UnexpectedValue(
            f"{what} is {short_repr(plain)}, {BEYOND_EXACT}", advice=OFFSET_ADVICE
        )
    try:
        if not isinstance(plain, _NO_NUMBERS) and getattr(plain, "ndim", 0) == 0:
            return float(plain)
    except _UNREADABLE:
        pass
    raise UnexpectedValue(
        f"{what} is {short_repr(value)} of type {type(value).__name__}; expected one finite"
        " number.",
        advice=_BOOLEAN_ADVICE if isinstance(plain, bool) else "",
    )


def numbers_of_each(values: Any, what: str) -> npt.NDArray[np.float64]:
    """Return the numbers of a batch, each as `number_of` reads it."""
    if isinstance(values, np.ma.MaskedArray):
        values = unmask(values, what)
    array = values if isinstance(values, np.ndarray) else _plain_array(values)
    if array is not None and array.dtype.kind in "fiu":
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise WrongShape(
                f"the outputs have shape {array.shape}; expected one number for each decision."
            )
        small = array.dtype.kind == "f" or array.dtype.itemsize < 8
        if small or _largest(array) <= MAX_EXACT_INT:
            return np.ascontiguousarray(array, dtype=np.float64)
    return np.array(_read_each(number_of, values, what), dtype=np.float64)


def probabilities_of(value: Any, what: str) -> npt.NDArray[np.float64]:
    """Return one vector of probabilities; raise BadDecision if it is none."""
    if isinstance(value, np.ma.MaskedArray):
        value = unmask(value, what)
    if not isinstance(value, list | tuple):
        value = array_of(value, what, "probabilities")
    array = value if isinstance(value, np.ndarray) else _plain_array(value)
    if array is None or (array.dtype.kind not in "fiu" and array.ndim == 1):
        array = np.array([_probability(number, what) for number in value], dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise WrongShape(f"{what} has shape {array.shape}; expected a vector of probabilities.")
    if array.dtype.kind not in "f":
        array = numbers_of_each(array, what)
    return np.ascontiguousarray(array, dtype=np.float64)


def probabilities_of_each(values: Any, what: str) -> list[npt.NDArray[np.float64]] | Array:
    """Return the vectors of a batch, each as `probabilities_of` reads it."""
    array: Array | None = values if type(values) is np.ndarray and values.ndim == 2 else None
    if (
        type(values) is list
        and set(map(type, values)) == {list}
        and len(set(map(len, values))) == 1
    ):
        array = _plain_array(list(chain.from_iterable(values)))
        array = None if array is None else array.reshape(len(values), -1)
    if array is not None and array.dtype.kind == "f":
        return np.ascontiguousarray(array, dtype=np.float64)
    return _read_each(probabilities_of, values, what)


def _read_each(read: Any, values: Any, what: str) -> list[Any]:
    """Call a function for each value; its error then says at which place."""
    answers = []
    for place, value in enumerate(values):
        try:
            answers.append(read(value, what))
        except BadDecision as error:
            raise error.with_place(place) from None
    return answers


def _plain_array(values: Any) -> Array | None:
    """Return Python's own numbers as an array; None for others, and where NumPy would round."""
    kinds = set(map(type, values))
    if not kinds <= _PYTHON_NUMBERS:
        return None
    try:
        array = np.asarray(values)
    except _UNREADABLE:
        return None
    rounded = len(kinds) > 1 and _largest(array) >= MAX_EXACT_INT
    return None if rounded else array


def _probability(value: Any, what: str) -> float:
    """Return one number of a vector; raise UnexpectedValue if it is itself a list or an array."""
    single = not isinstance(value, list | tuple) and getattr(value, "ndim", 0) == 0
    try:
        return number_of(value if single else None, what)
    except UnexpectedValue:
        if single and is_rounded(to_python_scalar(value)):
            raise
        raise UnexpectedValue(
            f"{what} has {short_repr(value)} of type {type(value).__name__}; expected a vector of"
            " probabilities, each of them one finite number."
        ) from None


def label_of(value: Any, what: str) -> Hashable:
    """Return a label as a Python value, which equals another exactly if both mean the same.

    Raises UnexpectedValue if it cannot be hashed, equals nothing, or equals only itself.
    """
    if type(value) in PLAIN_LABELS:
        label: Hashable = value
        return label
    if isinstance(value, np.ma.MaskedArray):
        value = unmask(value, what)
    value = to_python_scalar(value)
    if isinstance(value, tuple | frozenset):
        parts = [label_of(part, what) for part in value]
        if any(part is not before for part, before in zip(parts, value, strict=True)):
            value = tuple(parts) if isinstance(value, tuple) else frozenset(parts)
    try:
        hash(value)
        same = value == value  # noqa: PLR0124 - False for NaN, and an array for an array
    except _UNREADABLE:
        raise UnexpectedValue(
            f"{what} is {short_repr(value)}, which cannot be hashed; expected a label such as a"
            " string, a number or a tuple."
        ) from None
    if isinstance(value, np.datetime64 | np.timedelta64) and same:
        raise UnexpectedValue(
            f"{what} is {value!r}, a time that Python cannot represent: it is beyond the years 1"
            " to 9999, or finer than microseconds.",
            advice="Round it, or send text.",
        )
    if isinstance(same, bool | np.bool_) and same:
        return _require_value_equality(value, what)
    if getattr(value, "ndim", 0):
        raise UnexpectedValue(
            f"{what} is {short_repr(value)} of type {type(value).__name__}, which holds several"
            " values; expected one label."
        )
    raise UnexpectedValue(
        f"{what} is {short_repr(value)}, which equals nothing, not even itself; expected a label.",
        advice="Say what a missing value means, for example 'none'.",
    )


def _require_value_equality(value: Hashable, what: str) -> Hashable:
    kind = type(value)
    by_identity = kind.__eq__ is object.__eq__ or kind.__hash__ is object.__hash__
    if by_identity and not isinstance(value, _SINGLETONS):
        raise UnexpectedValue(
            f"{what} is {short_repr(value)} of type {kind.__name__}, which is equal only to"
            " itself, so the same answer would be another label each time; expected a string, a"
            " number or a tuple.",
            advice=f"Send what it stands for, or give {kind.__name__} an __eq__ and a __hash__.",
        )
    return value


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded; half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _ShortRepr(reprlib.Repr):
    """Writes the beginning and the end of a long value; NumPy's values look like Python's."""

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > _MOST_BITS:  # Python refuses to write very many digits
            return f"a whole number of about {round(x.bit_length() * math.log10(2)):,} digits"
        return super().repr_int(x, level)

    def repr1(self, x: Any, level: int) -> str:
        if type(x) is np.ndarray:
            few: Any = (*((slice(self.maxlist + 1),) * x.ndim), ...)  # one more, for the "..."
            x = x[few].tolist()
        if isinstance(x, np.datetime64 | np.timedelta64):
            return repr(str(x))  # Python may not be able to represent it
        return super().repr1(x.item() if isinstance(x, np.generic) else x, level)


short_repr = _ShortRepr().repr
"""Writes a value for an error message."""


def type_name(dtype: np.dtype[Any]) -> str:
    """Return the name of an array's type for messages: NumPy calls text of 7 letters <U7."""
    return {"U": "text", "S": "bytes"}.get(dtype.kind, str(dtype))
