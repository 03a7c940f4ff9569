"""Values as bytes and back, with their types: what a client and a service tell each other.

JSON first, then the numbers of all arrays as they are in memory. Labels, keys and single values are
written as a ledger writes words (ledger/words.py): a JSON list is a tuple, and an object with one
entry is a date, bytes and so on. To these come

    {"list": […]}   {"dict": {…}}   {"table": {…}}    a list; a dictionary; a table by column
    {"array": [type, shape, offset, …]}               an array, from that offset of the numbers on;
                                                      then the names of its columns, if it has any

Invariant: what comes back equals what was packed, and has its type: float32 stays float32, and a
number is the same to its last bit. Nothing is ever executed to read one, and what makes no sense is
refused before anything of it is used.
Cost: an array is copied once; lists are JSON, some hundred nanoseconds for each number.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from likewise.ledger import words
from likewise.values.errors import BadDecision, UnexpectedValue
from likewise.values.frames import ColumnTable, is_missing
from likewise.values.named_array import names_of, with_names
from likewise.values.plain import array_of_tensor, is_tensor, scalar

CONTENT_TYPE = "application/x-likewise"
_HEAD = 8  # bytes that say how long the JSON is
_ALIGNED = 8
_KINDS = "biufMm"  # of arrays that travel as numbers
_PLAIN = {str, int, bool, type(None)}
_DEPTH = 64


def pack(value: Any, what: str = "what was sent") -> bytes:
    """A value as bytes; raise BadDecision if it has no such form.

    what: how to call it in an error
    """
    numbers: list[bytes] = []
    try:
        head = json.dumps(
            _Packer(numbers, what).plain(value), ensure_ascii=False, separators=(",", ":")
        ).encode()
    except UnicodeEncodeError:
        raise _unsendable(what, value) from None
    head += b" " * (-len(head) % _ALIGNED)  # so that numbers lie in memory as arrays need them
    return b"".join([len(head).to_bytes(_HEAD, "little"), head, *numbers])


def unpack(body: bytes) -> Any:
    """What was packed; raise BadDecision if nothing was."""
    size = int.from_bytes(body[:_HEAD], "little")
    if len(body) < _HEAD + size:
        raise BadDecision("the body was cut off, or is not likewise's own.")
    try:
        head = json.loads(body[_HEAD : _HEAD + size])
        return _value(head, memoryview(body)[_HEAD + size :], _DEPTH)
    except BadDecision:
        raise
    except (
        TypeError,
        ValueError,
        KeyError,
        ArithmeticError,
        RecursionError,
        AttributeError,
    ) as error:
        raise BadDecision(f"the body is not likewise's own ({type(error).__name__}).") from None


class _Packer:
    """Makes plain values, and puts the numbers of arrays aside."""

    def __init__(self, numbers: list[bytes], what: str) -> None:
        self._numbers = numbers
        self._what = what
        self._offset = 0

    def plain(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list or kind is tuple:
            listed = self._listed(value)
            return {"list": listed} if kind is list else listed
        if isinstance(value, ColumnTable):
            columns = {name: self.plain(column) for name, column in value.columns.items()}
            return {"table": columns}
        if isinstance(value, Mapping):
            return {"dict": self._named(value)}
        return self._other(value)

    def _listed(self, values: Any) -> list[Any]:
        if _PLAIN.issuperset(map(type, values)):
            return list(values)
        return [self.plain(one) for one in values]

    def _named(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        for name in value:
            if not isinstance(name, str):
                raise UnexpectedValue(
                    f"{self._what} has a column {name!r} of type {type(name).__name__}; expected"
                    " names of columns that are text."
                )
        return {str(name): self.plain(one) for name, one in value.items()}

    def _other(self, value: Any) -> Any:
        if is_tensor(value):
            value = array_of_tensor(value)
        if isinstance(value, np.ma.MaskedArray):
            raise _unsendable(self._what, value)
        if isinstance(value, np.ndarray):
            return self._array(value) if value.ndim else self.plain(value[()])
        value = scalar(value)
        if is_missing(value) and not isinstance(value, float):  # pandas' own
            return None
        try:
            return words.plain(value)
        except (TypeError, ValueError):
            pass
        for name in ("to_list", "to_pylist", "tolist"):  # a series, an Arrow array
            if hasattr(value, name):
                return self.plain(getattr(value, name)())
        if isinstance(value, range | list | tuple):
            return {"list": self._listed(value)}
        raise _unsendable(self._what, value)

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        if array.dtype.kind not in _KINDS or array.dtype.itemsize > _ALIGNED:
            return self.plain(array.tolist())
        names = names_of(array)
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        told = [array.dtype.str, list(array.shape), self._offset, *names]
        numbers = array.tobytes()
        spare = -len(numbers) % _ALIGNED
        self._numbers += [numbers, bytes(spare)]
        self._offset += len(numbers) + spare
        return {"array": told}


def _unsendable(what: str, value: Any) -> BadDecision:
    return UnexpectedValue(
        f"{what} is {value!r:.200} of type {type(value).__name__}, which cannot be sent; expected"
        " text, numbers, dates, bytes, arrays, or lists and dictionaries of such."
    )


def _value(plain: Any, numbers: memoryview, depth: int) -> Any:
    if depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(plain, list):
        return tuple(_value(one, numbers, depth - 1) for one in plain)
    if not isinstance(plain, dict):
        return plain
    ((kind, inner),) = plain.items()
    if kind == "list" and type(inner) is list and _PLAIN.issuperset(map(type, inner)):
        return inner
    return _MADE[kind](inner, numbers, depth - 1) if kind in _MADE else words.value_of(plain)


def _list(inner: Any, numbers: memoryview, depth: int) -> list[Any]:
    if type(inner) is not list:
        raise ValueError("a list that is none")
    return [_value(one, numbers, depth) for one in inner]


def _dict(inner: Any, numbers: memoryview, depth: int) -> dict[str, Any]:
    return {name: _value(one, numbers, depth) for name, one in inner.items()}


def _table(inner: Any, numbers: memoryview, depth: int) -> ColumnTable:
    columns = _dict(inner, numbers, depth)
    if not all(isinstance(column, list | np.ndarray) for column in columns.values()):
        raise ValueError("a column that is no list")
    if len({len(column) for column in columns.values()}) > 1:
        raise BadDecision("the columns of the table are not equally long.")
    return ColumnTable(columns)


def _array(inner: Any, numbers: memoryview, _: int) -> Any:
    name, shape, offset, *names = inner
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS or dtype.itemsize > _ALIGNED or dtype.byteorder == ">":
        raise ValueError("an array of another type")
    if any(type(one) is not int or one < 0 for one in (*shape, offset)):
        raise ValueError("an array of another shape")
    count = math.prod(shape)
    if offset % dtype.alignment or offset + count * dtype.itemsize > len(numbers):
        raise ValueError("an array beyond the end")
    if not all(isinstance(one, str) for one in names):
        raise ValueError("names of columns that are no text")
    return with_names(np.frombuffer(numbers, dtype, count, offset).reshape(shape), tuple(names))


_MADE: dict[str, Callable[[Any, memoryview, int], Any]] = {
    "list": _list,
    "dict": _dict,
    "table": _table,
    "array": _array,
}
