"""Values as they come become plain ones: arrays of numbers, and labels that can be compared.

A caller may send a tensor that records gradients, a masked array, a NumPy date, a series with an
index of its own. Here these become NumPy arrays and Python values. What would lose its meaning on
the way is refused: masked places, whole numbers that float64 rounds, and labels that are equal to
nothing but themselves.

Invariant: nothing that was sent is changed, and a value means the same alone and in a batch.
Cost: an array is not copied. Integers of 64 bits are looked at once, lists once more than NumPy
looks at them.
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
BEYOND_EXACT = (
    "a whole number beyond 2**53. Numbers are compared as float64, which rounds it to another."
)
OFFSET_ADVICE = (
    "Subtract an offset from such numbers, or send them as float if rounding does not matter."
)
"""Up to here every whole number is a float64."""

Array = npt.NDArray[Any]
_MOST_BITS = 10_000  # of a whole number that is written out
_FEW = 256  # numbers that Python looks through faster than NumPy
_UNREADABLE = (TypeError, ValueError, RuntimeError, ArithmeticError)
_NUMBERS = {float, int, bool, str, bytes, NoneType, np.float64, np.float32, np.int64, np.bool_}
"""Types that NumPy reads from a list as they are."""
_FLOATS = {float}
_OWN_NUMBERS = {float, int}
_NO_NUMBERS = (str, bytes, bool, np.bool_, np.datetime64, np.timedelta64)
"""What Python would make a float of, and that is no number."""
_FOR_FLAGS = 'For yes and no, say output = "label" in the rule, or send 0 and 1.'
PLAIN_LABELS = {str, int, bool, bytes, NoneType}
"""Types of labels that need no second look."""
_SINGLE = (type, Enum, NoneType, EllipsisType, NotImplementedType)
"""Of what there is only one of each, so that being the same object is being equal."""
_FINE = ("ns", "ps", "fs", "as")  # units of NumPy's dates that Python's dates do not have


# Arrays


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor. Who has one has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_of_tensor(tensor: Any) -> Array:
    """A tensor's numbers, without its gradient; on the CPU they share memory."""
    torch = sys.modules["torch"]
    known = (torch.float64, torch.float32, torch.float16)
    if tensor.is_floating_point() and tensor.dtype not in known:  # such as bfloat16
        tensor = tensor.float()
    array: Array = tensor.numpy(force=True)
    return array


def array_of(given: Any, what: str, expected: str = "numbers") -> Array:
    """Anything as an array of whatever type it has.

    Raises BadDecision if it cannot be read as one, if places are masked, and if whole numbers were
    rounded because they stood beside fractions.
    """
    if type(given) is np.ndarray:
        return given
    if type(given) is list and set(map(type, given)) == _FLOATS:  # the usual list, without delay
        return np.asarray(given)
    try:
        if is_tensor(given):
            return array_of_tensor(given)
        given = _readable(given, what)
        array = np.asarray(given)
        if array.dtype.kind in "fiub" and hasattr(given, "get_columns"):
            _check_columns(given, what, expected)
        if array.dtype.kind == "f" and _largest(array) >= MAX_EXACT_INT:
            _check_rounded(given, array, what)
        return array
    except BadDecision:
        raise
    except Exception as error:  # also what a foreign table raises
        raise UnexpectedValue(
            f"{what} is {short_repr(given)} of type {type(given).__name__}; expected {expected}"
            f" ({error})."
        ) from None


def to_number_array(given: Any, what: str, expected: str = "numbers") -> Array:
    """Numbers as an array, with no guesses about anything else.

    Raises BadDecision, also for whole numbers that float64 rounds.
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
    """For an array of integers of which one is beyond EXACT."""
    at = np.unravel_index(
        int(((array > MAX_EXACT_INT) | (array < -MAX_EXACT_INT)).argmax()), array.shape
    )
    place = "" if array.ndim == 0 else f" at position {_place(at)}"
    return UnexpectedValue(
        f"{what} has {int(array[at])}{place}, {BEYOND_EXACT}", advice=OFFSET_ADVICE
    )


def _readable(given: Any, what: str) -> Any:
    """What NumPy reads without losing a mask or failing at a gradient."""
    if isinstance(given, np.ma.MaskedArray):
        return unmask(given, what)
    if is_tensor(given):
        return array_of_tensor(given)
    if isinstance(given, list | tuple) and not set(map(type, given)) <= _NUMBERS:
        return [_readable(one, what) for one in given]
    return given


def unmask(given: Any, what: str) -> Array:
    """The values of a masked array that masks none of them."""
    mask = np.ma.getmaskarray(given)
    if mask.dtype.names is not None:  # columns by name, each with a mask of its own
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
    """Raise if a column of a Polars frame, which makes numbers of dates, is not of numbers."""
    for j, column in enumerate(frame.get_columns()):
        kind = np.asarray(column).dtype
        if kind.kind not in "fiub":
            raise UnexpectedValue(
                f"{what}, column {j}, is of type {type_name(kind)}; expected {expected}."
            )


def _check_rounded(given: Any, array: Array, what: str) -> None:
    """Raise if a number in a list or frame was whole, and became another as a float."""
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
    """Whether a number is beyond EXACT and was no float before."""
    plain = to_python_scalar(value)  # as Python has it: -2**63 has no opposite in NumPy
    if isinstance(plain, Decimal) and plain.is_nan():  # which cannot be compared
        return False
    return (
        isinstance(plain, int | Decimal | Fraction) and not -MAX_EXACT_INT <= plain <= MAX_EXACT_INT
    )


def _columns(frame: Any) -> Any:
    """The columns of a frame of pandas, of Polars, or of an Arrow table."""
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, j] for j in range(frame.shape[1])]
    return frame.get_columns() if hasattr(frame, "get_columns") else frame.columns


def _largest(array: Array) -> Any:
    """The largest size of a number in it."""
    if array.size <= _FEW:
        return max(map(abs, array.reshape(-1).tolist()), default=0)
    return max(array.max().item(), -array.min().item())


def _place(at: tuple[Any, ...]) -> str:
    """A position in an array, as a number or as several."""
    numbers = [str(int(one)) for one in at]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


# Batches


def as_list(given: Any) -> list[Any] | None:
    """Return the values of a list, an array or a series as a list; None if it is none of these.

    Arrays, tensors and series of pandas, Polars or Arrow give Python's own values, but dates of
    NumPy stay as they are: some of them would become whole numbers.
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
            except Exception as error:  # such as of a date that Python has none for
                kind = type(given).__name__
                raise UnexpectedValue(f"a {kind} cannot be read as a list ({error}).") from None
            return values if isinstance(values, list) else None
    sized = hasattr(given, "__len__") and hasattr(given, "__iter__")
    return list(given) if sized and not hasattr(given, "columns") else None


def require_list(given: Any, what: str = "the values", expected: str = "a list") -> list[Any]:
    """Return the same as `as_list`; raise BadDecision if it is no list, array or series."""
    values = given if type(given) is list else as_list(given)
    if values is None:
        raise UnexpectedValue(f"{what} are {short_repr(given)}; expected {expected}.")
    return values


def sequence_of(given: Any) -> Any:
    """Return the values of a batch as an array or a list, whose first has number 0.

    A series may number its values otherwise, a frame its columns.
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
    array = _numeric(given)
    if array is not None:
        return array
    values = as_list(given)
    if values is None and hasattr(given, "__array__"):
        return array_of(given, "the output", "one for each decision")
    return given if values is None else values


def _numeric(given: Any) -> Array | None:
    """The array of a series of numbers; None for other series, and where a number is missing."""
    if not hasattr(given, "__array__"):
        return None
    try:
        array = np.asarray(given)
    except Exception:  # such as Polars', for whole numbers of 128 bits
        return None
    if array.ndim > 1:  # of structs, whose parts would be taken for numbers of a vector
        return None
    whole = array.dtype.kind in "iub" or (array.dtype.kind == "f" and not np.isnan(array).any())
    return array if whole else None


# Single values


def to_python_scalar(value: Any) -> Any:
    """A NumPy or torch scalar as what Python has for it; anything else as it is."""
    if not hasattr(value, "dtype") or getattr(value, "ndim", 1) != 0:
        return value
    if isinstance(value, np.ma.MaskedArray):  # whose value would come without its mask
        return value
    if getattr(value.dtype, "kind", "") in ("M", "m"):
        return _date_of(value)
    try:
        return value.item()
    except (*_UNREADABLE, AttributeError):  # it has no value here, such as a tensor without data
        return value


def _date_of(value: Any) -> Any:
    """A NumPy date as Python's; as it is where Python has none."""
    if np.datetime_data(value.dtype)[0] in _FINE:
        rounded = value.astype(f"{value.dtype.kind}8[us]")
        value = rounded if rounded == value else value
    date = value.item()
    return value if isinstance(date, int) or date is None else date


# Outputs that are numbers: alone and in batches, these functions decide


def number_of(value: Any, what: str) -> float:
    """One number as a float; raise BadDecision if it is none, or if float64 rounds it.

    An array or a list that holds one number is that number, as models answer about one row.
    """
    if isinstance(value, float):
        return value
    if type(value) is int and -MAX_EXACT_INT <= value <= MAX_EXACT_INT:
        return value
    if isinstance(value, np.ma.MaskedArray):
        value = unmask(value, what)
    held = value
    shape = getattr(value, "shape", None)
    if isinstance(value, list | tuple) or (isinstance(shape, tuple) and len(shape) == 1):
        # Not value[0]: a series may number its values otherwise.
        held = next(iter(value)) if len(value) == 1 else value
    plain = to_python_scalar(held)
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
        advice=_FOR_FLAGS if isinstance(plain, bool) else "",
    )


def numbers_of_each(values: Any, what: str) -> npt.NDArray[np.float64]:
    """One number for each decision of a batch, each as `number_of` reads it."""
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
        exact = (
            array.dtype.kind == "f" or array.dtype.itemsize < 8 or _largest(array) <= MAX_EXACT_INT
        )
        if exact:
            return np.ascontiguousarray(array, dtype=np.float64)
    return np.array(_of_each(number_of, values, what), dtype=np.float64)


def probabilities_of(value: Any, what: str) -> npt.NDArray[np.float64]:
    """One vector of numbers."""
    if isinstance(value, np.ma.MaskedArray):
        value = unmask(value, what)
    if not isinstance(value, list | tuple):
        value = array_of(value, what, "probabilities")
    array = value if isinstance(value, np.ndarray) else _plain_array(value)
    if array is None or (array.dtype.kind not in "fiu" and array.ndim == 1):
        array = np.array([_probability(one, what) for one in value], dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise WrongShape(f"{what} has shape {array.shape}; expected a vector of probabilities.")
    if array.dtype.kind not in "f":
        array = numbers_of_each(array, what)
    return np.ascontiguousarray(array, dtype=np.float64)


def probabilities_of_each(values: Any, what: str) -> list[npt.NDArray[np.float64]] | Array:
    """A vector for each decision of a batch, each as `probabilities_of` reads it."""
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
    return _of_each(probabilities_of, values, what)


def _of_each(read: Any, values: Any, what: str) -> list[Any]:
    """What a function reads of each value; its error says at which place."""
    answers = []
    for place, value in enumerate(values):
        try:
            answers.append(read(value, what))
        except BadDecision as error:
            raise error.with_place(place) from None
    return answers


def _plain_array(values: Any) -> Array | None:
    """The array of a list of Python's own numbers; None for others, and where NumPy would round."""
    kinds = set(map(type, values))
    if not kinds <= _OWN_NUMBERS:
        return None
    try:
        array = np.asarray(values)
    except _UNREADABLE:
        return None
    rounded = len(kinds) > 1 and _largest(array) >= MAX_EXACT_INT
    return None if rounded else array


def _probability(value: Any, what: str) -> float:
    """One number of a vector; one that holds others is refused."""
    alone = not isinstance(value, list | tuple) and getattr(value, "ndim", 0) == 0
    try:
        return number_of(value if alone else None, what)
    except UnexpectedValue:
        if alone and is_rounded(to_python_scalar(value)):
            raise
        raise UnexpectedValue(
            f"{what} has {short_repr(value)} of type {type(value).__name__}; expected a vector of"
            " probabilities, each of them one finite number."
        ) from None


def label_of(value: Any, what: str) -> Hashable:
    """A label as Python has it: equal to another exactly if it means the same.

    Raises BadDecision for what cannot be hashed, equals nothing, or is equal only to itself.
    """
    if type(value) in PLAIN_LABELS:
        label: Hashable = value
        return label
    if isinstance(value, np.ma.MaskedArray):
        value = unmask(value, what)
    value = to_python_scalar(value)
    if isinstance(value, tuple | frozenset):
        parts = [label_of(one, what) for one in value]
        if any(part is not one for part, one in zip(parts, value, strict=True)):
            value = tuple(parts) if isinstance(value, tuple) else frozenset(parts)
    try:
        hash(value)
        same = value == value  # noqa: PLR0124 - NaN is not, and an array does not say
    except _UNREADABLE:
        raise UnexpectedValue(
            f"{what} is {short_repr(value)}, which cannot be hashed; expected a label such as a"
            " string, a number or a tuple."
        ) from None
    if isinstance(value, np.datetime64 | np.timedelta64) and same:
        raise UnexpectedValue(
            f"{what} is {value!r}, a time that Python has none for: it is beyond the years 1 to"
            " 9999, or finer than microseconds.",
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
    if by_identity and not isinstance(value, _SINGLE):
        raise UnexpectedValue(
            f"{what} is {short_repr(value)} of type {kind.__name__}, which is equal only to"
            " itself, so the same answer would be another label each time; expected a string, a"
            " number, a tuple.",
            advice=f"Send what it stands for, or give {kind.__name__} an __eq__ and a __hash__.",
        )
    return value


class _ShortRepr(reprlib.Repr):
    """Of a long value the beginning and the end; NumPy's own as Python writes theirs."""

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > _MOST_BITS:  # Python refuses to write those of many digits
            return f"a whole number of about {round(x.bit_length() * math.log10(2)):,} digits"
        return super().repr_int(x, level)

    def repr1(self, x: Any, level: int) -> str:
        if type(x) is np.ndarray:
            few: Any = (*((slice(self.maxlist + 1),) * x.ndim), ...)  # one more, for the "..."
            x = x[few].tolist()
        if isinstance(x, np.datetime64 | np.timedelta64):
            return repr(str(x))  # Python may have none for it
        return super().repr1(x.item() if isinstance(x, np.generic) else x, level)


short_repr = _ShortRepr().repr
"""A value as messages tell it."""


def type_name(dtype: np.dtype[Any]) -> str:
    """What an array holds, as messages tell it: NumPy calls a text of 7 letters <U7."""
    return {"U": "text", "S": "bytes"}.get(dtype.kind, str(dtype))
