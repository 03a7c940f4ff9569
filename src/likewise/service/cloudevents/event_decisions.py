"""Makes decisions of a pair of events: row i of the request with row i of the response.

The key is the id of the events, a slash and the place (`0009174a-…/0`); time and model come from
the response, or else from the request and the name of the service. Vectors may be lists, one
tensor, or a tensor per coordinate; rows of a table may be objects, a tensor per column, or lists
with `?columns=age,income`. `?output=approved` picks one of several outputs.
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
"""Returns the value of a row, by its place."""


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Holds what the address says about bodies."""

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
    """Refuses a pair whose halves have different numbers of rows."""

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
    """Make all decisions of a pair; raise Refusal if one does not fit the rule."""
    request, response = events
    inputs, outputs = rows
    if inputs.count != outputs.count:
        raise RowCountMismatch(inputs.count, outputs.count)
    table = rule.features is not None
    get_input = _row_getter(inputs, names) if table else _vector_getter(rule, inputs)
    get_output = _output_getter(rule, limits, outputs, names)
    model = outputs.model or ":".join(filter(None, (response.service, response.endpoint))) or None
    when = response.time if response.time is not None else request.time
    time = None if limits.skew_seconds == 0 else check_time(limits, when)
    decisions = []
    for place in range(inputs.count):
        x, z = get_input(place), get_output(place)
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
        kinds = list if rule.embed is None else (list, str)
        if not all(isinstance(one, kinds) for one in inputs.values):
            raise Refusal(422, "the rule is about vectors: expected lists as instances.")
        return inputs.values.__getitem__
    arrays = list((inputs.arrays or {}).values())
    if len(arrays) > 1:
        return _numbers(_join_tensors(arrays)).__getitem__
    (array,) = arrays
    if array.dtype == object:  # texts, of which a rule with an embedder makes vectors
        return _value_getter(array)
    return _numbers(array.reshape(-1, 1) if array.ndim == 1 else array).__getitem__


def _join_tensors(arrays: list[Array]) -> Array:
    """Join tensors, one for each coordinate, side by side."""
    if any(array.size != len(array) or array.dtype == object for array in arrays):
        raise Refusal(422, "there are several tensors: expected one number of each for a decision.")
    return np.column_stack([array.reshape(len(array)) for array in arrays])


def _numbers(array: Array) -> Array:
    return array.astype(np.uint8) if array.dtype == np.bool_ else array


def _row_getter(inputs: PredictionRows, names: ColumnNames) -> _RowGetter:
    if inputs.arrays is not None:
        arrays = inputs.arrays
        if names.columns is None or len(arrays) > 1:
            getters = {name: _value_getter(array) for name, array in arrays.items()}
            return lambda place: {name: get(place) for name, get in getters.items()}
        (array,) = arrays.values()
        rows = array.reshape(len(array), -1).tolist()
    else:
        rows = inputs.values or []
    if all(isinstance(one, dict) for one in rows):
        return rows.__getitem__
    columns = names.columns
    if columns is None or not all(
        isinstance(one, list) and len(one) == len(columns) for one in rows
    ):
        raise Refusal(
            422,
            "the rule is about a table: expected objects as instances, a tensor for each column, or"
            " lists as long as the columns that the address names (?columns=…).",
        )
    return lambda place: dict(zip(columns, rows[place], strict=True))


def _output_getter(
    rule: Rule, limits: Limits, outputs: PredictionRows, names: ColumnNames
) -> _RowGetter:
    """Return what gets the output of a row, or for a table all outputs by name."""
    if outputs.arrays is not None:
        getters = {name: _value_getter(array) for name, array in outputs.arrays.items()}
        if names.output is None and len(getters) > 1 and rule.features is not None:
            return lambda place: {name: get(place) for name, get in getters.items()}
        get_value = getters[_choose_output(list(getters), names)]
        return lambda place: _shape_output(rule, limits, get_value(place))
    rows = outputs.values or []

    def get_output(place: int) -> Any:
        z = rows[place]
        if isinstance(z, dict):
            if names.output is None and rule.features is not None:
                return z
            z = z[_choose_output(list(z), names)]
        return _shape_output(rule, limits, z)

    return get_output


def _choose_output(outputs: list[str], names: ColumnNames) -> str:
    if names.output is None and len(outputs) == 1:
        return outputs[0]
    if names.output is None or names.output not in outputs:
        raise Refusal(
            422, "expected one output, or the name of one of them in the address (?output=…)."
        )
    return names.output


def _value_getter(array: Array) -> _RowGetter:
    """Return what gets the value of a row: a list if it has several."""
    single = array.size == len(array)
    values: list[Any] = array.reshape(len(array) if single else array.shape).tolist()
    return values.__getitem__


def _shape_output(rule: Rule, limits: Limits, z: Any) -> Any:
    """Convert an output to the rule's kind of output."""
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
    """Convert lists to tuples, at every depth; tensors and msgspec bound the depth."""
    if isinstance(value, dict):
        raise Refusal(422, "an output has an object inside.")
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value
