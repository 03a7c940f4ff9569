"""Reads a batch of decisions from an Arrow IPC stream.

For a rule about vectors, `x` is a column of lists of one length, or every column but `z` and the
metadata is a feature, in their order. For a rule about a table, columns have the names of the rule.
The columns key, time, model, source and position (a whole number or a list of two) are metadata.
"""

from typing import Any

import numpy as np

from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.service.http_errors import Refusal
from likewise.sources.arrow_ipc import BadArrow, read_columns
from likewise.tables.frames import ColumnTable
from likewise.tables.named_array import with_names
from likewise.tables.normalize import require_list, to_number_array

ARROW = "application/vnd.apache.arrow.stream"
METADATA_COLUMNS = {
    "key": "keys",
    "time": "times",
    "model": "models",
    "source": "sources",
    "position": "positions",
}
_STATUS = {"bad-arrow": 400, "too-large": 413, "compressed": 415, "unexpected-type": 422}


def read_arrow_batch(body: bytes, rule: Rule, most: int) -> dict[str, Any]:
    """Read the arguments of `observe_many`; raise Refusal if the stream is not what is expected."""
    try:
        table = read_columns(body, most)
    except BadArrow as error:
        message = f"the body is {error}" if error.code == "bad-arrow" else str(error)
        raise Refusal(_STATUS[error.code], message) from None
    own = {*(rule.features or ()), *rule.output_columns}  # names that the rule takes for itself
    metadata = {
        argument: require_list(table.pop(name)) if name in table and name not in own else None
        for name, argument in METADATA_COLUMNS.items()
    }
    if rule.features is not None:
        if not table:
            raise Refusal(422, "the stream has no columns of the rule.")
        return {"x": ColumnTable(table), "z": FROM_ROW, **metadata}
    if "z" not in table:
        raise Refusal(422, "the stream has no column `z`.")
    z = table.pop("z")
    x = table.pop("x", None)
    if x is None:
        x = _stack_columns(table)
    elif table:
        raise Refusal(422, f"the stream has `x` and also {next(iter(table))!r}; expected one.")
    elif rule.embed is not None:
        x = require_list(x)
    return {"x": x, "z": z, **metadata}


def _stack_columns(table: dict[str, Any]) -> Any:
    for name, column in table.items():
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in "iuf":
            raise Refusal(422, f"the column {name!r} is no feature: expected numbers, none missing")
    if not table:
        raise Refusal(422, "the stream has no features: expected `x`, or a column for each.")
    # One by one: next to floats, NumPy would round whole numbers beyond 2**53.
    columns = [to_number_array(column, repr(name)) for name, column in table.items()]
    return with_names(np.stack(columns, axis=1), tuple(table))
