"""What travels: the bodies that clients send, as types. The answers are `Verdict.to_dict()`.

A decision on vectors has `x` and `z`; one on a table has `values`. JSON is read strictly: a name
that is not known is refused, and so is a value of another type.

Labels, keys and values that JSON has no form for travel as the ledger writes them: an object with
one entry, such as {"date": "2026-01-31"} (ledger/words.py).
"""

from typing import Any

import msgspec

Time = int | float | str | None


class DecisionBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One decision."""

    x: list[Any] | str | None = None
    z: Any = None
    values: dict[str, Any] | None = None
    key: str | int | None = None
    time: Time = None
    model: str | None = None


class ColumnsBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A batch, column by column: `x` and `z`, or `values` by column."""

    x: list[Any] | None = None
    z: list[Any] | None = None
    values: dict[str, list[Any]] | None = None
    keys: list[str | int | None] | None = None
    times: list[Time] | None = None
    models: list[str | None] | str | None = None
    type: str | None = None
    """The type of `x`, if it is not float64: "float32", "uint8"."""


class RowsBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A batch, decision by decision."""

    decisions: list[DecisionBody]


class VectorColumns(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The commonest batch, read in half the time: plain vectors of numbers."""

    x: list[list[float]]
    z: list[Any]
    keys: list[str | int | None] | None = None
    times: list[Time] | None = None
    models: list[str | None] | str | None = None
    type: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """Why something was refused."""

    error: str
    """The class: BadDecision, RepeatedKey, …"""
    message: str
    row: int | None = None
    """Of a repeated key: the row that has it."""


decode_decision = msgspec.json.Decoder(DecisionBody).decode
decode_columns = msgspec.json.Decoder(ColumnsBody).decode
decode_vectors = msgspec.json.Decoder(VectorColumns).decode
decode_rows = msgspec.json.Decoder(RowsBody).decode
encode = msgspec.json.Encoder().encode
