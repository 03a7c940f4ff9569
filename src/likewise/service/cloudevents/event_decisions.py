"""From a pair of events to decisions: row i of the request with row i of the response.

The key of a decision is the id of the events, a slash and its place: `0009174a-…/0`. Its time is
the response's, or else the request's; its model is what the response says, or else the name of the
service.

A rule about vectors takes lists, a tensor with a row for each decision, or a tensor for each
coordinate. A rule about a table takes objects, a tensor for each column, or, where the columns are
named in the address (`?columns=age,income`), lists. Where there are several outputs, a rule about a
table takes them as columns, and a rule about vectors is told which one counts (`?output=approved`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.monitor.protocol import Decision
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.service.cloudevents.event_formats import CloudEvent
from likewise.service.cloudevents.prediction_bodies import Array, PredictionRows
from likewise.service.decision_limits import check_lengths, check_time
from likewise.service.http_errors import Refusal
from likewise.service.settings import Limits

_RowGetter = Callable[[int], Any]
"""What a row has, by its place."""


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """What the address says about bodies."""

    output: str | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def from_query(cls, query: dict[str, str]) -> "ColumnNames":
        unknown = query.keys() - {"output", "columns"}
        if unknown:
            raise Refusal(400, "the address has a parameter other than `output` and `columns`.")
        columns = query.get("columns")
        names = None if columns is None else tuple(columns.split(","))
        if names is not None and len(set(names)) < len(names):
            raise Refusal(400, "a column is named twice in the address.")
        return cls(query.get("output"), names)


class RowCountMismatch(Refusal):
    """The halves of a pair have not equally many rows."""

    def __init__(self, requests: int, responses: int) -> None:
        super().__init__(
            422,
            f"the request has {requests} rows, the response {responses}. Nothing was stored.",
        )


def make_decisions(
    rule: Rule,
    limits: Limits,
    events: tuple[CloudEvent, CloudEvent],
    rows: tuple[PredictionRows, PredictionRows],
    names: ColumnNames,
) -> list[Decision]:
    """All of them; Refusal if one cannot be what the rule is about."""
    request, response = events
    inputs, outputs = rows
    if inputs.count != outputs.count:
        raise RowCountMismatch(inputs.count, outputs.count)
    table = rule.features is not None
    x_of = _row_getter(inputs, names) if table else _vector_getter(rule, inputs)
    z_of = _output_getter(rule, limits, outputs, names)
    model = outputs.model or ":".join(filter(None, (response.service, response.endpoint))) or None
    when = response.time if response.time is not None else request.time
    time = None if limits.skew_seconds == 0 else check_time(limits, when)
    decisions = []
    for place in range(inputs.count):
        x, z = x_of(place), z_of(place)
        if table and isinstance(z, dict):
            if z.keys() & x.keys():
                raise Refusal(422, "a column is in the request and in the response.")
            x, z = x | z, FROM_ROW
        key = f"{response.id}/{place}"
        check_lengths(limits, z, key, model)
        decisions.append(Decision(x, z, key, time, model))
    return decisions


def _vector_getter(rule: Rule, inputs: PredictionRows) -> _RowGetter:
    if inputs.values is not None:
        listed = inputs.values
        texts = rule.embed is not None
        if not all(isinstance(one, list) or (texts and isinstance(one, str)) for one in listed):
            raise Refusal(422, "the rule is about vectors: expected lists as instances.")
        return listed.__getitem__
    arrays = list((inputs.arrays or {}).values())
    if len(arrays) > 1:
        return _numbers(_join_tensors(arrays)).__getitem__
    (array,) = arrays
    if array.dtype == object:  # texts, of which a rule with an embedder makes vectors
        return _value_getter(array)
    return _numbers(array.reshape(-1, 1) if array.ndim == 1 else array).__getitem__


def _join_tensors(arrays: list[Array]) -> Array:
    """A tensor for each coordinate, side by side."""
    if any(array.size != len(array) or array.dtype == object for array in arrays):
        raise Refusal(422, "there are several tensors: expected one number of each for a decision.")
    return np.column_stack([array.reshape(len(array)) for array in arrays])


def _numbers(array: Array) -> Array:
    return array.astype(np.uint8) if array.dtype == np.bool_ else array


def _row_getter(inputs: PredictionRows, names: ColumnNames) -> _RowGetter:
    if inputs.arrays is not None:
        arrays = inputs.arrays
        if names.columns is None or len(arrays) > 1:
            columns = {name: _value_getter(array) for name, array in arrays.items()}
            return lambda place: {name: column(place) for name, column in columns.items()}
        (array,) = arrays.values()
        listed = array.reshape(len(array), -1).tolist()
    else:
        listed = inputs.values or []
    if all(isinstance(one, dict) for one in listed):
        return listed.__getitem__
    wanted = names.columns
    if wanted is None or not all(
        isinstance(one, list) and len(one) == len(wanted) for one in listed
    ):
        raise Refusal(
            422,
            "the rule is about a table: expected objects as instances, a tensor for each column, or"
            " lists as long as the columns that the address names (?columns=…).",
        )
    return lambda place: dict(zip(wanted, listed[place], strict=True))


def _output_getter(
    rule: Rule, limits: Limits, outputs: PredictionRows, names: ColumnNames
) -> _RowGetter:
    """The output of a row, or for a table all of them by name."""
    if outputs.arrays is not None:
        columns = {name: _value_getter(array) for name, array in outputs.arrays.items()}
        if names.output is None and len(columns) > 1 and rule.features is not None:
            return lambda place: {name: column(place) for name, column in columns.items()}
        column = columns[_choose_output(list(columns), names)]
        return lambda place: _shape_output(rule, limits, column(place))
    listed = outputs.values or []

    def get_output(place: int) -> Any:
        z = listed[place]
        if isinstance(z, dict):
            if names.output is None and rule.features is not None:
                return z
            z = z[_choose_output(list(z), names)]
        return _shape_output(rule, limits, z)

    return get_output


def _choose_output(there: list[str], names: ColumnNames) -> str:
    if names.output is None and len(there) == 1:
        return there[0]
    if names.output is None or names.output not in there:
        raise Refusal(
            422, "expected one output, or the name of one of them in the address (?output=…)."
        )
    return names.output


def _value_getter(array: Array) -> _RowGetter:
    """A value for each row: a list if it has several."""
    single = array.size == len(array)
    values: list[Any] = array.reshape(len(array) if single else array.shape).tolist()
    return values.__getitem__


def _shape_output(rule: Rule, limits: Limits, z: Any) -> Any:
    """An output as the rule's kind of output takes it."""
    if z is None or isinstance(z, dict):
        raise Refusal(422, "a row of the response has no output.")
    if rule.output == "probabilities" and not isinstance(z, list):
        return [z]
    if rule.output == "label" and isinstance(z, list):
        label = _to_tuples(z)
        if len(repr(label)) > limits.label_bytes:
            raise Refusal(413, f"the output has more than {limits.label_bytes} bytes.")
        return label
    return z


def _to_tuples(value: Any) -> Any:
    """Lists as tuples, to any depth that a tensor or msgspec lets through."""
    if isinstance(value, dict):
        raise Refusal(422, "an output has an object inside.")
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value
