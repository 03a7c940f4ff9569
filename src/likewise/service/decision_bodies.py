"""Reads the bodies of decisions: JSON, Arrow or MessagePack becomes what a monitor takes.

Invariant: a body is read exactly or refused; a whole number that a float would round is refused.
Cost: a batch of plain vectors is decoded once, without an object per decision.
Values in MessagePack come with their types, so the monitor itself checks them; here only sizes are.
Not here: limits of sizes and texts (decision_limits.py), answers (routes/decisions.py).
"""

import re
import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from likewise.monitor.readers.protocol import FROM_ROW, Decision
from likewise.rule.rule import Rule
from likewise.service import body_types
from likewise.service.body_types import CheckBatchBody, ColumnsBody, DecisionBody, LikeBody
from likewise.service.content_types import EXACT_BYTES, decode_exact, decode_json
from likewise.service.decision_limits import (
    check_columns,
    check_count,
    check_lengths,
    check_names,
    check_numbers,
    check_table,
    check_time,
    check_words,
    count_decisions,
    make_column_table,
    normalize_column,
    normalize_label,
    normalize_row,
    normalize_value,
    refuse_fields,
)
from likewise.service.http_errors import Refusal
from likewise.service.request_guard import AdmittedCall
from likewise.service.served_monitor import ServedMonitor
from likewise.sources.arrow_ipc import read_columns
from likewise.sources.protocol import BadRecord
from likewise.tables.exact_values import decoder_of
from likewise.tables.frames import ColumnTable
from likewise.tables.named_array import with_names
from likewise.tables.normalize import MAX_EXACT_INT, require_list, to_number_array
from likewise.tables.times import to_microseconds_each

ARROW = "application/vnd.apache.arrow.stream"
METADATA_COLUMNS = {
    "key": "keys",
    "time": "times",
    "model": "models",
    "source": "sources",
    "position": "positions",
}
_STATUS = {"bad-arrow": 400, "too-large": 413, "compressed": 415, "unexpected-type": 422}


# Reads a batch of decisions from an Arrow IPC stream.
# For a rule about vectors, `x` is a column of lists of one length, or every column but `z` and the
# metadata is a feature, in their order. For a rule about a table, columns have the names of the
# rule. The columns key, time, model, source and position (a whole number or a list of two) are
# metadata.


def read_arrow_batch(body: bytes, rule: Rule, most: int) -> dict[str, Any]:
    """Read the arguments of `observe_many`; raise Refusal if the stream is not what is expected."""
    try:
        table = read_columns(body, most)
    except BadRecord as error:
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


_RULE_FIELDS = ("x", "z", "values")
_SCALARS = {int, float, bool, str}
_ROWS_BODY = re.compile(rb'\s*\{\s*"decisions"\s*:')  # a body of rows; columns have no such name
_STORAGE = ("float64", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")


def parse_decision(call: AdmittedCall) -> Decision:
    """Read one decision."""
    if call.content_type.startswith(EXACT_BYTES):
        return _read_exact_decision(call.served, call.body)
    return make_decision(call.served, decode_json(body_types.decode_decision, call.body))


def parse_columns(call: AdmittedCall) -> dict[str, Any]:
    """Read the arguments of `observe_many`."""
    served = call.served
    rule, limits = served.monitor.rule, served.limits
    if call.content_type.startswith(EXACT_BYTES):
        return _read_exact_batch(served, call.body)
    if call.content_type.partition(b";")[0].strip().lower() == ARROW.encode():
        columns = read_arrow_batch(call.body, rule, limits.batch_rows)
    elif _ROWS_BODY.match(call.body):
        return _columns_from_rows(served, decode_json(body_types.decode_rows, call.body).decisions)
    elif rule.features is None and rule.embed is None:
        body, x = _parse_vectors(call.body)
        _check_exact(x, lambda: decode_json(body_types.decode_columns, call.body).x)
        columns = {"x": x, "z": body.z, **_metadata_columns(body)}
    else:
        sent = decode_json(body_types.decode_columns, call.body)
        table, z = _make_table(served, sent)
        columns = {"x": table, "z": z, **_metadata_columns(sent)}
    return _normalize_columns(served, columns)


def parse_checks(call: AdmittedCall) -> dict[str, Any]:
    """Read the arguments of `check_many`."""
    served = call.served
    rule = served.monitor.rule
    if call.content_type.startswith(EXACT_BYTES):
        return _read_exact_checks(served, call.body)
    sent = decode_json(body_types.decode_checks, call.body)
    if rule.features is None and rule.embed is None:
        if sent.x is None or sent.z is None or sent.values is not None:
            refuse_fields(rule)
        check_numbers(sent.x)
        x, z = _make_matrix(sent.x, sent.type), sent.z
        _check_exact(x, lambda: sent.x)
    else:
        x, z = _make_table(served, sent)
    metadata = dict.fromkeys(METADATA_COLUMNS.values()) | {"models": sent.models}
    columns = _normalize_columns(served, {"x": x, "z": z, **metadata})
    time = check_time(served.limits, sent.time)
    return {"x": columns["x"], "z": columns["z"], "models": sent.models, "time": time}


def make_decision(served: ServedMonitor, body: DecisionBody) -> Decision:
    """Convert a body to what a monitor takes; raise Refusal if it does not fit the rule."""
    limits, rule = served.limits, served.monitor.rule
    x: Any = body.x
    if rule.features is not None:
        if body.values is None or x is not None or body.z is not None:
            refuse_fields(rule)
        x, z = normalize_row(limits, rule, body.values), FROM_ROW
        check_lengths(limits, None, body.key, body.model)
    else:
        z = body.z
        if body.values is not None or x is None:
            refuse_fields(rule)
        if z is None:
            raise Refusal(422, "there is no output: expected `z`.")
        if type(z) is list or type(z) is dict:
            z = normalize_label(limits, z, rule.output)
        check_lengths(limits, z, body.key, body.model)
        if type(x) is list and rule.embed is None:
            check_numbers(x)
    time = None if body.time is None else check_time(limits, body.time)
    if body.source is not None:
        check_words("the source", body.source, limits.label_bytes)
    return Decision(x, z, body.key, time, body.model, body.source, body.position)


def parse_case(served: ServedMonitor, content_type: bytes, body: bytes) -> dict[str, Any]:
    """Read the arguments of `Monitor.like`."""
    limits, rule = served.limits, served.monitor.rule
    exact = content_type.startswith(EXACT_BYTES)
    x: Any
    if exact:
        sent = decode_exact(_decode_exact_case, body)
        x, _ = _choose_exact_input(rule, sent)
        _check_texts(served, x, ())
    else:
        sent = decode_json(_decode_case, body)
        x, values = sent.x, sent.values
        if (x is None) == (values is None) or (values is None) == (rule.features is not None):
            refuse_fields(rule)
        if values is not None:
            x = normalize_row(limits, rule, values)
        elif type(x) is list and rule.embed is None:
            check_numbers(x)
    check_lengths(limits, None, None, sent.model)
    person = sent.person if exact else normalize_value(sent.person, limits.label_bytes)
    check_words("the person", person, limits.label_bytes)
    most = limits.precedents
    limit = most if sent.limit is None else sent.limit
    if isinstance(limit, int) and limit > most:
        raise Refusal(422, f"limit is {limit}; at most {most} similar cases are listed.")
    time = check_time(limits, sent.time)
    return {"x": x, "limit": limit, "model": sent.model, "time": time, "person": person}


def _normalize_columns(served: ServedMonitor, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a batch as a monitor takes them; Refusal if something is too large."""
    rule, limits = served.monitor.rule, served.limits
    x = columns["x"]
    if isinstance(x, ColumnTable):
        columns["x"] = ColumnTable(
            {name: normalize_column(limits, rule, name, x.columns[name]) for name in x.columns}
        )
    if columns["z"] is not FROM_ROW:
        columns["z"] = _normalize_outputs(served, columns["z"])
    check_names(limits, columns)
    if columns["times"] is not None:
        columns["times"] = _all_or_none([check_time(limits, time) for time in columns["times"]])
    return columns


def _metadata_columns(body: Any) -> dict[str, Any]:
    return {name: getattr(body, name) for name in METADATA_COLUMNS.values()}


def _normalize_outputs(served: ServedMonitor, outputs: Any) -> Any:
    """Return the outputs of a batch as a monitor takes them."""
    limits, output_kind = served.limits, served.monitor.rule.output
    types = set(map(type, outputs)) if isinstance(outputs, list) else set()
    if type(None) in types:
        raise Refusal(422, "a decision of the batch has no output.")
    if str in types:
        check_words("an output", outputs, limits.label_bytes)
    if output_kind != "label" or types <= _SCALARS:
        return outputs
    return [normalize_label(limits, one, output_kind) for one in outputs]


def _columns_from_rows(served: ServedMonitor, bodies: list[DecisionBody]) -> dict[str, Any]:
    check_count(served.limits, len(bodies))
    decisions = [make_decision(served, one) for one in bodies]
    rule = served.monitor.rule
    x: Any = [one.x for one in decisions]
    if rule.features is None and rule.embed is None:
        rows, x = x, _pack_matrix(x)
        _check_exact(x, lambda: rows)
    z = FROM_ROW if rule.features is not None else [one.z for one in decisions]
    columns = {"x": x, "z": z}
    for field, name in METADATA_COLUMNS.items():
        clean = _all_or_none if field == "time" else _none_if_empty
        columns[name] = clean(list(map(attrgetter(field), decisions)))
    return columns


def _parse_vectors(sent: bytes) -> tuple[body_types.VectorColumns, Any]:
    """Return a batch of vectors, and their matrix."""
    body = decode_json(body_types.decode_vectors, sent)
    return body, _pack_matrix(body.x) if body.type is None else _make_matrix(body.x, body.type)


def _pack_matrix(rows: list[Any]) -> Any:
    """Make a matrix of rows of numbers, four times as fast as NumPy does from lists of lists."""
    width = len(rows[0]) if rows else 0
    pack = struct.Struct(f"{width}d").pack
    try:
        numbers = b"".join([pack(*row) for row in rows])
    except (struct.error, TypeError, OverflowError):  # not equally long: NumPy says what is wrong
        return _make_matrix(rows, None)
    return np.frombuffer(numbers).reshape(len(rows), width) if width else _make_matrix(rows, None)


def _check_exact(x: Any, get_sent: Callable[[], Any]) -> None:
    """Raise BadDecision if a whole number was rounded when inputs became floats.

    get_sent: returns the inputs as they came; called only if some number is large enough
    """
    if x.size and max(x.max().item(), -x.min().item()) >= MAX_EXACT_INT:
        to_number_array(get_sent(), "x")


def _make_matrix(rows: list[Any], kind: str | None) -> Any:
    kind = kind or "float64"
    if kind not in _STORAGE:
        raise Refusal(422, f"the type is {kind[:100]!r}; expected one of {', '.join(_STORAGE)}.")
    try:
        numbers = np.array(rows, "float64")
    except (ValueError, OverflowError, TypeError) as error:
        raise Refusal(422, f"x is no matrix of {kind}: {str(error)[:200]}.") from None
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = numbers.astype(kind, copy=False)
    if matrix.dtype.kind != "f" and (matrix != numbers).any():
        number = numbers[matrix != numbers][0]
        raise Refusal(422, f"x is no matrix of {kind}: it has {number:.12g}.")
    return matrix


def _make_table(served: ServedMonitor, body: ColumnsBody | CheckBatchBody) -> tuple[Any, Any]:
    """Return the inputs and outputs of a table by column, or of texts that are embedded."""
    rule = served.monitor.rule
    if rule.features is not None:
        if body.values is None or body.x is not None or body.z is not None:
            refuse_fields(rule)
        check_columns(body.values)
        return make_column_table(body.values), FROM_ROW
    if body.values is not None or body.x is None or body.z is None:
        refuse_fields(rule)
    if len(body.x) != len(body.z):
        raise Refusal(422, "x and z are not equally long.")
    return body.x, body.z


def _none_if_empty(values: list[Any]) -> list[Any] | None:
    return None if all(value is None for value in values) else values


def _all_or_none(times: list[Any]) -> list[Any] | None:
    if (present := _none_if_empty(times)) is not None and None in present:
        raise Refusal(422, "some decisions of the batch have a time and some have none.")
    return present


# MessagePack with exact values


def _decoder(body: type[msgspec.Struct]) -> Callable[[bytes], Any]:
    """Return what reads a body that has the fields of one in JSON, with whatever values."""
    names = [name for name in body.__struct_fields__ if name != "type"]
    fields = [(name, Any, msgspec.UNSET if name in _RULE_FIELDS else None) for name in names]
    kind = msgspec.defstruct(body.__name__, fields, forbid_unknown_fields=True, frozen=True)
    return decoder_of(kind)


_decode_one, _decode_many = _decoder(DecisionBody), _decoder(ColumnsBody)
_decode_checks = _decoder(CheckBatchBody)
_decode_case = msgspec.json.Decoder(LikeBody).decode
_decode_exact_case = _decoder(LikeBody)


def _read_exact_decision(served: ServedMonitor, body: bytes) -> Decision:
    """Read one decision."""
    sent, limits = decode_exact(_decode_one, body), served.limits
    x, z = _choose_exact_input(served.monitor.rule, sent)
    _check_texts(served, x, (z,))
    check_names(limits, {"keys": (sent.key,), "models": sent.model, "sources": sent.source})
    time = check_time(limits, sent.time)
    return Decision(x, z, sent.key, time, sent.model, sent.source, sent.position)


def _read_exact_batch(served: ServedMonitor, body: bytes) -> dict[str, Any]:
    """Read the arguments of `observe_many`, or of `load`."""
    columns, limits = _read_exact_columns(served, decode_exact(_decode_many, body)), served.limits
    if columns["times"] is not None:
        times = to_microseconds_each(columns["times"], count_decisions(limits, columns))
        if len(times):
            check_time(limits, int(times.min()) / 1e6)
            check_time(limits, int(times.max()) / 1e6)
    return columns


def _read_exact_checks(served: ServedMonitor, body: bytes) -> dict[str, Any]:
    """Read the arguments of `check_many`."""
    columns = _read_exact_columns(served, decode_exact(_decode_checks, body))
    return columns | {"time": check_time(served.limits, columns["time"])}


def _read_exact_columns(served: ServedMonitor, sent: Any) -> dict[str, Any]:
    x, z = _choose_exact_input(served.monitor.rule, sent, many=True)
    others = [name for name in sent.__struct_fields__ if name not in _RULE_FIELDS]
    columns = {"x": x, "z": z, **{name: getattr(sent, name) for name in others}}
    count_decisions(served.limits, columns)
    _check_texts(served, x, z)
    check_names(served.limits, columns)
    return columns


def _choose_exact_input(rule: Rule, sent: Any, *, many: bool = False) -> tuple[Any, Any]:
    """Return the inputs and the outputs of a body."""
    z = getattr(sent, "z", msgspec.UNSET)
    z = FROM_ROW if z is msgspec.UNSET else z
    own, other = (sent.x, sent.values) if rule.features is None else (sent.values, sent.x)
    if own is msgspec.UNSET or other is not msgspec.UNSET:
        refuse_fields(rule)
    if rule.features is None:
        return own, z
    for row in own if isinstance(own, list) else [own]:
        if isinstance(row, dict):
            if not all(isinstance(name, str) for name in row):
                raise Refusal(422, "the names of the columns of `values` are no text.")
            check_columns(row)
    return (make_column_table(own) if many and isinstance(own, dict) else own), z


def _check_texts(served: ServedMonitor, x: Any, z: Any) -> None:
    """Raise Refusal if a label or a text of a table is too long."""
    limits, rule = served.limits, served.monitor.rule
    if rule.output == "label":
        check_words("an output", z, limits.label_bytes)
    if rule.features is not None:
        check_table(limits, rule, x)
