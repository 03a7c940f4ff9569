"""A batch of vectors in JSON is read exactly as Python reads it, or refused."""

import asyncio
import json
import random
import struct

import numpy as np
import pytest

from likewise.service import decision_bodies
from likewise.service.http_errors import Refusal
from tests.service.asgi_calls import call, serving

BATCH = "/v1/monitors/default/batch"
ACCEPTED = [
    "[[0.1,-2.5e-3],[1,18014398509481984]]",
    "[[0.1, 0.2], [0.30000000000000004, 1e300]]",
    "[[0.1,-0.0],[-0.0,0]]",
]
REFUSED = [
    '{"x":[[0.1],[0.2,0.3]],"z":[1,2]}',
    '{"x":[[0.1,null]],"z":[1]}',
    '{"x":[[0.1,true]],"z":[1]}',
    '{"x":[[0.1,"1"]],"z":[1]}',
    '{"x":[[0.1,1e400]],"z":[1]}',
    '{"x":[[0.1,NaN]],"z":[1]}',
    '{"x":[[0.1,Infinity]],"z":[1]}',
    '{"x":[[0.1,-Infinity]],"z":[1]}',
    '{"x":[[0.1,18014398509481985]],"z":[1]}',
    '{"x":[[0.1,-9007199254740993]],"z":[1]}',
    '{"x":[[01,1]],"z":[1]}',
    '{"x":[[1.,1]],"z":[1]}',
    '{"x":[[.5,1]],"z":[1]}',
    '{"x":[[+1,1]],"z":[1]}',
    '{"x":[[1e,1]],"z":[1]}',
    '{"x":[[0x1,1]],"z":[1]}',
    '{"x":[[1,1,]],"z":[1]}',
    '{"x":[[1,1],],"z":[1]}',
    '{"x":[[1,1]]],"z":[1]}',
    '{"x":[[1,1]',
    '{"x":[1,1],"z":[1]}',
    '{"x":[[[1,1]]],"z":[1]}',
    '{"x":null,"z":[1]}',
    '{"x":[[1,1]],"z":[1],"type":"float3"}',
    '{"x":[[1,1]],"z":[1],"z":[1]}',
    '{"x":[[1,1]],"z":[1],"x":[[1,2]]}',
    '{"x":[[1,1]],"z":["\\ud800"]}',
    '{"x":[[1,1]],"y":1,"z":[1]}',
    '{"x":[[1,1]],"z":[1]}}',
    '{"x":[[1,1]]}',
]


def number(rng):
    """A number as text, of every kind that JSON has."""
    kind = rng.randrange(7)
    if kind == 0:
        bits = rng.getrandbits(52) | rng.randrange(900, 1150) << 52 | rng.getrandbits(1) << 63
        return repr(struct.unpack("d", struct.pack("Q", bits))[0])
    if kind == 1:
        return repr(rng.random() * 10 ** rng.randrange(-6, 8))
    if kind == 2:
        return repr(round(rng.uniform(-2, 2), rng.randrange(1, 6)))
    if kind == 3:
        return str(rng.randrange(1 - 10**18, 10 ** rng.randrange(1, 19)) or 1)
    if kind == 4:
        digits = 10 ** rng.randrange(1, 20) - 1
        return f"{rng.randrange(1, digits + 1)}e{rng.randrange(-64, 46)}"
    if kind == 5:  # halfway between two floats, or next to that
        half = (2 * (rng.getrandbits(52) | 1 << 52) + 1) << rng.randrange(0, 9)
        near = half + rng.randrange(-1, 2)
        power = rng.randrange(0, 3)
        text = str(near)
        return text if power == 0 else f"{text[:-power]}.{text[-power:]}E+{power}"
    return f"-{rng.randrange(10**6)}.{rng.randrange(10**9):09}E{rng.randrange(-20, 20):+}"


def read(text):
    """The matrix that is read from an array of arrays, as a body has it."""
    _, matrix = decision_bodies._parse_vectors(b'{"x":%b,"z":[1,2]}' % text.encode())
    return matrix


@pytest.mark.parametrize("seed", range(4))
def test_every_number_is_the_nearest_float(seed):
    rng = random.Random(seed)
    for _ in range(1500):
        words = [number(rng) for _ in range(6)]
        matrix = read(f"[[{','.join(words[:3])}],[{' , '.join(words[3:])}]]")
        expected = np.array([float(word) for word in words]).reshape(2, 3)
        assert matrix.tobytes() == expected.tobytes(), words


@pytest.mark.parametrize("digits", [5, 17])
def test_what_python_writes_is_read_back(digits):
    x = np.random.default_rng(digits).normal(size=(200, 7)).round(digits)
    for separators in ((",", ":"), (", ", ": "), (" ,\n", "\t:\r ")):
        assert read(json.dumps(x.tolist(), separators=separators)).tobytes() == x.tobytes()


@pytest.mark.parametrize("vectors", ACCEPTED)
def test_vectors_mean_the_same_wherever_they_stand_in_a_body(vectors):
    expected = np.array(json.loads(vectors), "float64")
    for beside in ('"z":[1,2]', '"z":["a","b"],"keys":["k",null],"models":"m","times":null'):
        for body in (
            f'{{"x":{vectors},{beside}}}',
            f'{{{beside},"x":{vectors}}}',
            f' {{ "x" :\n {vectors} , {beside} }} ',
        ):
            columns, x = decision_bodies._parse_vectors(body.encode())
            assert x.dtype == expected.dtype and x.tobytes() == expected.tobytes()
            sent = json.loads(body)
            assert [columns.z, columns.keys] == [sent["z"], sent.get("keys")]
            assert columns.models == sent.get("models") and columns.type is None
    with_type = f'{{"x":{vectors},"z":[1,2],"type":"float32"}}'
    with np.errstate(over="ignore"):
        rounded = expected.astype("float32")
    assert decision_bodies._parse_vectors(with_type.encode())[1].tobytes() == rounded.tobytes()


@pytest.mark.parametrize("vectors", ["[]", "[[]]", "[[],[]]"])
def test_vectors_without_numbers_are_read_as_such(vectors):
    assert read(vectors).size == 0


def test_every_other_body_is_refused_and_leaves_no_trace(tmp_path):
    async def run():
        async with serving(tmp_path) as app:
            for body in REFUSED:
                answer = await call(app, "POST", BATCH, body.encode())
                assert answer.status in (400, 422), body
                assert app.service.monitors["default"].monitor.rows == 0, body
            good = await call(app, "POST", BATCH, b'{"x":[[1,2],[0.5,1e3]],"z":[1,2]}')
            assert good.status == 200 and good.json["decisions"] == 2

    asyncio.run(run())


def test_a_body_that_ends_early_is_refused():
    whole = b'{"x":[[0.5,-1e3]],"z":[1]}'
    for end in range(len(whole)):
        with pytest.raises(Refusal):
            decision_bodies._parse_vectors(whole[:end])
