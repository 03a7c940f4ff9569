"""What is given to a client, as it is sent: read by the same functions as in process.

Invariant: the service judges what a monitor in this process would judge: the same types, and the
same numbers to the last bit.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from likewise.errors import WrongShape
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.tables.frames import ColumnTable, as_row, table_columns
from likewise.tables.named_array import named_array_of
from likewise.tables.normalize import sequence_of


def input_of(rule: Rule, x: Any) -> dict[str, Any]:
    """The input of one decision, as a field of its body."""
    if rule.features is not None:
        return {"values": _encode_row(x)}
    return {"x": x if rule.embed is not None else named_array_of(x, "the input")}


def inputs_of(rule: Rule, x: Any) -> dict[str, Any]:
    """The inputs of many, as a field of their body."""
    if rule.features is None:
        return {"x": x if rule.embed is not None else named_array_of(x, "the input")}
    if isinstance(x, list | tuple):
        return {"values": [row if row is not None else one for one in x for row in [as_row(one)]]}
    if isinstance(x, ColumnTable):
        return {"values": x.columns}
    plain = isinstance(x, np.ndarray) and x.dtype.names is None
    named = isinstance(x, Mapping | np.ndarray) or hasattr(x, "columns")
    return {"values": table_columns(x) if named and not plain else x}


def output_fields(z: Any, *, many: bool = False) -> dict[str, Any]:
    """The output, or the outputs of many; nothing where they stand in the rows."""
    if z is FROM_ROW:
        return {}
    return {"z": sequence_of(z) if many else z}


def _encode_row(x: Any) -> Any:
    row = as_row(x)
    if row is not None:
        return dict(row)
    if not hasattr(x, "columns"):
        return x
    columns = table_columns(x)
    sizes = {len(column) for column in columns.values()}
    if sizes != {1}:
        raise WrongShape(
            f"the frame has {max(sizes, default=0)} rows; expected one.",
            advice="Give tables to observe_many.",
        )
    return {name: column[0] for name, column in columns.items()}
