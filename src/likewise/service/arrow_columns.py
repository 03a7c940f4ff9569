"""A batch as an Arrow IPC stream: x, z, and what is said beside them; or a column a feature.

Beside decisions stand key, time, model, source and position, a whole number or a list of two. For
a rule about vectors, `x` is a column of lists of one length, or every other column is a feature, in
their order. For a rule about a table, columns have the names of
the rule. PyArrow reads it where it is installed, else Polars.

Invariant: nothing that a column could be made to hold crashes or hangs: only plain kinds are taken,
and every buffer is checked by the library before values are looked at.
Not here: how much there may be (arrow_stream.py).
"""

import io
from importlib.util import find_spec
from typing import Any

import numpy as np

from likewise.reading.protocol import FROM_ROW
from likewise.rules.rule import Rule
from likewise.service.arrow_stream import check_stream
from likewise.service.refusals import Refusal
from likewise.values.frames import ColumnTable
from likewise.values.named_array import with_names

ARROW = "application/vnd.apache.arrow.stream"
_BESIDE = {
    "key": "keys",
    "time": "times",
    "model": "models",
    "source": "sources",
    "position": "positions",
}
_COLUMNS = 10_000


def columns_of(body: bytes, rule: Rule, most: int) -> dict[str, Any]:
    """The arguments of `observe_many`, from a stream; Refusal if it is none, or has others."""
    check_stream(body, most)
    table = _with_pyarrow(body) if find_spec("pyarrow") is not None else _with_polars(body)
    own = _columns_of_rule(rule)
    beside = {
        argument: _listed(table.pop(name)) if name in table and name not in own else None
        for name, argument in _BESIDE.items()
    }
    if rule.features is not None:
        if not table:
            raise Refusal(422, "the stream has no columns of the rule.")
        return {"x": ColumnTable(table), "z": FROM_ROW, **beside}
    if "z" not in table:
        raise Refusal(422, "the stream has no column `z`.")
    z = table.pop("z")
    x = table.pop("x", None)
    if x is None:
        x = _stacked(table)
    elif table:
        raise Refusal(422, f"the stream has `x` and also {next(iter(table))!r}; expected one.")
    elif rule.embed is not None:
        x = _listed(x)
    return {"x": x, "z": z, **beside}


def load_library() -> None:
    """Load what reads streams, which takes tenths of a second; then no request waits for it."""
    if find_spec("pyarrow") is not None:
        import pyarrow as pa

        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, pa.schema({"z": pa.int64()})):
            pass
        _with_pyarrow(stream.getvalue())
    else:
        import polars  # noqa: F401


def _columns_of_rule(rule: Rule) -> set[str]:
    """Names that the rule takes for itself."""
    output = rule.output_column or ()
    return {*(rule.features or ()), *((output,) if isinstance(output, str) else output)}


def _stacked(table: dict[str, Any]) -> Any:
    for name, column in table.items():
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in "iuf":
            raise Refusal(422, f"the column {name!r} is no feature: expected numbers, none missing")
    if not table:
        raise Refusal(422, "the stream has no features: expected `x`, or a column for each.")
    return with_names(np.stack(list(table.values()), axis=1), tuple(table))


def _listed(column: Any) -> list[Any]:
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return values


def _unreadable(error: BaseException) -> Refusal:
    return Refusal(400, f"the body is no Arrow stream: {str(error)[:200]}.")


# PyArrow


def _with_pyarrow(body: bytes) -> dict[str, Any]:
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            _check_names(stream.schema.names)
            for field in stream.schema:
                _check_type(pa, field.name, field.type)
            table = stream.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as error:
        raise _unreadable(error) from None
    return {name: _of_pyarrow(pa, name, table[name]) for name in table.column_names}


def _check_type(pa: Any, name: str, kind: Any) -> None:
    types = pa.types
    inner = kind
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_type
        if types.is_floating(inner) or types.is_integer(inner):
            return
    elif types.is_dictionary(kind):
        inner = kind.value_type
    if (
        types.is_floating(inner)
        or types.is_integer(inner)
        or types.is_boolean(inner)
        or types.is_string(inner)
        or types.is_large_string(inner)
        or types.is_timestamp(inner)
        or types.is_date(inner)
    ) and (inner is kind or types.is_dictionary(kind)):
        return
    raise Refusal(
        422,
        f"the column {name!r} is of type {kind}; expected numbers, text, true or false, times, or"
        " lists of numbers.",
    )


def _of_pyarrow(pa: Any, name: str, column: Any) -> Any:
    types, kind = pa.types, column.type
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        return _matrix(pa, name, column)
    plain = types.is_floating(kind) or types.is_integer(kind)
    if plain and column.null_count == 0:
        return column.to_numpy()
    try:
        return column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:  # a date that Python has not
        raise Refusal(422, f"the column {name!r} cannot be read: {str(error)[:200]}.") from None


def _matrix(pa: Any, name: str, column: Any) -> Any:
    count = len(column)
    if count == 0:
        return np.empty((0, 0))
    column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    fixed = pa.types.is_fixed_size_list(column.type)
    whole = fixed and len(column.values) == count * column.type.list_size
    values = column.values if whole else column.flatten()  # the latter copies them
    if column.null_count or values.null_count:
        raise Refusal(422, f"the column {name!r} has places without a value.")
    if not fixed:
        lengths = np.diff(column.offsets.to_numpy())
        if (lengths != lengths[0]).any():
            raise Refusal(422, f"the lists of {name!r} are not equally long.")
    return values.to_numpy(zero_copy_only=False).reshape(count, len(values) // count)


def _check_names(names: list[str]) -> None:
    if len(names) > _COLUMNS:
        raise Refusal(413, f"the stream has {len(names)} columns; at most {_COLUMNS} are taken.")
    if len(set(names)) < len(names):
        raise Refusal(400, "two columns of the stream have the same name.")


# Polars


def _with_polars(body: bytes) -> dict[str, Any]:
    import polars as pl

    try:
        table = pl.read_ipc_stream(io.BytesIO(body), use_pyarrow=False)
        _check_names(table.columns)
        return {name: _of_polars(pl, name, table[name]) for name in table.columns}
    except Refusal:
        raise
    except Exception as error:
        raise _unreadable(error) from None
    except BaseException as error:  # a panic of its own is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise _unreadable(error) from None


def _of_polars(pl: Any, name: str, column: Any) -> Any:
    kind = column.dtype
    if isinstance(kind, pl.List | pl.Array):
        if column.null_count() or column.explode().null_count():
            raise Refusal(422, f"the column {name!r} has places without a value.")
        return np.array(column.to_list())
    if kind.is_numeric() and column.null_count() == 0:
        return column.to_numpy()
    known = kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Date, pl.Datetime)
    if not known and not isinstance(kind, pl.Categorical | pl.Enum):
        raise Refusal(422, f"the column {name!r} is of type {kind}, which is not taken.")
    return column.to_list()
