"""Bodies of v1 and v2 are read as they are meant, in JSON and raw; anything else is refused."""

import json

import numpy as np
import pytest

from likewise.service.cloudevents.prediction_bodies import read_prediction
from likewise.service.http_errors import Refusal
from tests.service.cloudevents.payloads import (
    V1_REQUEST,
    V1_RESPONSE,
    V2_REQUEST,
    V2_RESPONSE,
    with_raw,
)
from tests.support.looping import each

MOST = 1_000
DATA = {
    "BOOL": [True, False, True, True],
    "UINT8": [0, 255, 3, 4],
    "UINT16": [0, 65535, 3, 4],
    "UINT32": [0, 2**32 - 1, 3, 4],
    "UINT64": [0, 2**64 - 1, 3, 4],
    "INT8": [-128, 127, 3, 4],
    "INT16": [-(2**15), 2, 3, 4],
    "INT32": [-(2**31), 2, 3, 4],
    "INT64": [-(2**63), 2, 3, 4],
    "FP16": [0.1, 2, 3.5, -4],
    "FP32": [0.1, 2, 3.5, -4],
    "FP64": [0.1, 2, 3.5, -4],
    "BF16": [0.5, 2, 3.5, -4],
    "BYTES": ["no", "yes", "", "ja, ähnlich"],
}


def tensor(datatype, shape, data, name="x"):
    one = {"name": name, "shape": shape, "datatype": datatype, "data": data}
    return json.dumps({"inputs": [one]}).encode()


def refusal(body, kind="request"):
    with pytest.raises(Refusal) as caught:
        read_prediction(kind, body, MOST)
    return caught.value.status, str(caught.value)


def test_bodies_of_v1_are_rows():
    rows = read_prediction("request", V1_REQUEST, MOST)
    assert (rows.count, rows.values) == (2, [[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]])
    rows = read_prediction("response", V1_RESPONSE, MOST)
    assert (rows.count, rows.values, rows.model) == (2, [1, 1], None)


def test_bodies_of_v2_are_arrays_by_name():
    rows = read_prediction("request", V2_REQUEST, MOST)
    assert rows.count == 2
    assert {name: array.tolist() for name, array in rows.arrays.items()} == {
        "age": [[41.0], [44.0]],
        "income": [[3100.0], [3000.0]],
    }
    rows = read_prediction("response", V2_RESPONSE, MOST)
    assert rows.model == "loans:7"
    assert rows.arrays["approved"].tolist() == ["no", "yes"]


@each("datatype", DATA)
def test_tensor_is_the_same_flat_nested_and_raw(datatype):
    values = DATA[datatype]
    flat = read_prediction("request", tensor(datatype, [2, 2], values), MOST)
    nested = read_prediction("request", tensor(datatype, [2, 2], [values[:2], values[2:]]), MOST)
    raw = read_prediction("request", with_raw("inputs", [("x", [2, 2], datatype, values)]), MOST)
    expected = flat.arrays["x"]
    assert expected.shape == (2, 2)
    assert expected.ravel().tolist() == (
        np.array(values, expected.dtype).tolist() if datatype != "BYTES" else values
    )
    for other in (nested, raw):
        assert other.arrays["x"].dtype == expected.dtype
        assert other.arrays["x"].tolist() == expected.tolist()


def test_raw_tensors_follow_in_order_and_may_contain_anything():
    """Raw bytes that look like JSON, quotes and braces do not confuse the end of the JSON."""
    hostile = ['"}]{"', '\\"}}}', "{[("]
    body = with_raw(
        "inputs",
        [
            ("t}\"'{", [3], "BYTES", hostile),
            ("n", [3, 2], "FP32", [1, 2, 3, 4, 5, 6]),
        ],
        id='}"\\{',
    )
    rows = read_prediction("request", body, MOST)
    assert rows.arrays["t}\"'{"].tolist() == hostile
    assert rows.arrays["n"].tolist() == [[1, 2], [3, 4], [5, 6]]


@each(
    ("body", "status", "words"),
    [
        (b"{}", 422, "exactly one of instances or inputs"),
        (b'{"instances": [[1]], "inputs": []}', 422, "exactly one of"),
        (b'{"instances": []}', 422, "from 1 to"),
        (b'{"instances": [' + b"1," * MOST + b"1]}", 413, "from 1 to 1000"),
        (b'{"instances": {"a": 1}}', 422, "not what is expected"),
        (b'{"instances": [[1]]', 400, "no JSON"),
        (b'{"instances": [[1]]} more', 400, "no JSON"),
        (b'{"instances": [NaN]}', 400, "no JSON"),
        (b'{"instances": ' + b"[" * 100_000, 400, "no JSON"),
        (b'{"a": "' + rb"\"" * 1_000_000, 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b'{"inputs": []}', 422, "no rows"),
        (tensor("FP64", [2], [1]), 422, "more or fewer values"),
        (tensor("FP64", [2, 2], [[1, 2], [3]]), 422, "not nested"),
        (tensor("FP64", [2, 2], [[1, 2], 3]), 422, "not nested"),
        (tensor("FP64", [1, 1], [[[1]]]), 422, "not nested"),
        (tensor("FP64", [2, 2], [[1, 2, 3, 4]]), 422, "not nested"),
        (tensor("FP64", [], []), 422, "no dimension"),
        (tensor("FP64", [0], []), 422, "below 1"),
        (tensor("FP64", [-1], [1]), 422, "below 1"),
        (tensor("FP64", [10**9, 1], []), 413, "at most 1000"),
        (tensor("FP64", [1] * 9, [1]), 422, "over 8"),
        (tensor("FP64", [1, 10**30], [1]), 422, "more or fewer values"),
        (tensor("FP64", [1], ["1"]), 422, "something else"),
        (tensor("FP64", [1], [True]), 422, "something else"),
        (tensor("FP64", [1], [None]), 422, "something else"),
        (tensor("INT8", [1], [1.5]), 422, "something else"),
        (tensor("INT8", [1], [300]), 422, "does not fit"),
        (tensor("UINT8", [1], [-1]), 422, "does not fit"),
        (tensor("BYTES", [1], [1]), 422, "something else than text"),
        (tensor("COMPLEX", [1], [1]), 422, "datatype is not known"),
        (b'{"inputs": [{"name": "a", "shape": [1], "datatype": "FP64"}]}', 422, "neither data"),
        (with_raw("inputs", [("x", [2], "FP64", [1, 2])])[:-1], 422, "raw bytes"),
        (with_raw("inputs", [("x", [2], "FP64", [1, 2])]) + b"0", 422, "more raw bytes"),
        (with_raw("inputs", [("x", [3], "FP64", [1, 2])]), 422, "than its shape says"),
        (with_raw("inputs", [("x", [3], "BYTES", ["a", "b"])]), 422, "as many texts"),
        (with_raw("inputs", [("x", [1], "BYTES", ["ä"])])[:-1] + b"\xff", 422, "no UTF-8"),
        (
            with_raw("inputs", [("x", [1], "FP64", [1]), ("x", [1], "FP64", [1])]),
            422,
            "same name",
        ),
        (with_raw("inputs", [("x", [1], "FP64", [1]), ("y", [2], "FP64", [1, 2])]), 422, "equally"),
    ],
)
def test_body_that_is_none_is_refused(body, status, words):
    told, message = refusal(body)
    assert told == status
    assert words in message
