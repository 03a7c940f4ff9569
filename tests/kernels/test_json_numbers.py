"""A matrix in JSON is read as Python reads it, or not at all."""

import json
import random
import struct

import numpy as np
import pytest

from likewise.service.json_matrix import vectors_first

ODD = """
[] [[]] [[1],[]] [[1,2],[3]] [1] [[[1]]] [[01]] [[-01]] [[1.]] [[.5]] [[-]] [[+1]] [[1e]] [[1e+]]
[[1.e5]] [[1,]] [[,1]] [[1],] [[1]]] [[1 [[1] [[1],[2 [[1e400]] [[1e-400]] [[NaN]] [[Infinity]]
[[true]] [[null]] [["1"]] [[0x1]] [[1_0]] [[-0]] [[12345678901234567890]] [[1;2]] [[1]:[2]] {} 1 [
[[1.5.5]] [[1-1]] [[--1]] [[1e5e5]]
"""


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
    found = vectors_first(b'{"x":%b,"z":[1]}' % text.encode())
    if found is not None:
        assert found[1] == b'{"x":[],"z":[1]}'
    return None if found is None else found[0]


@pytest.mark.parametrize("seed", range(4))
def test_every_number_is_the_nearest_float(seed):
    rng, taken = random.Random(seed), 0
    for _ in range(1500):
        words = [number(rng) for _ in range(6)]
        matrix = read(f"[[{','.join(words[:3])}],[{' , '.join(words[3:])}]]")
        if matrix is None:
            assert any(abs(float(word)) > 1e19 or len(word) > 19 for word in words), words
            continue
        taken += 1
        expected = np.array([float(word) for word in words]).reshape(2, 3)
        assert matrix.tobytes() == expected.tobytes(), words
    assert taken > 1000


@pytest.mark.parametrize("digits", [5, 17])
def test_what_python_writes_is_read_back(digits):
    x = np.random.default_rng(digits).normal(size=(200, 7)).round(digits)
    for separators in ((",", ":"), (", ", ": "), (" ,\n", "\t:\r ")):
        body = json.dumps({"x": x.tolist(), "z": [1, 2], "type": None}, separators=separators)
        matrix, rest = vectors_first(body.encode())
        assert matrix.tobytes() == x.tobytes()
        assert json.loads(rest) == {"x": [], "z": [1, 2], "type": None}


@pytest.mark.parametrize("text", ODD.split())
def test_everything_else_is_left_to_another_reader(text):
    if text != "[[1]]]":  # whose last bracket the other reader finds
        assert read(text) is None
    for body in (f'{{"x":{text}', f'{{"x": {text}\0]]'):
        found = vectors_first(body.encode())
        assert found is None or found[1].startswith((b'{"x":[]', b'{"x": []'))


def test_only_vectors_that_come_first_are_read_here():
    for body in (b"", b"{", b"[]", b'{"z":[1],"x":[[1.0]]}', b'{"x" 1}', b'{"y":[[1.0]]}'):
        assert vectors_first(body) is None
    assert vectors_first(bytearray(b'{"x":[[1.0]]}')) is None
    assert vectors_first(b'\n{ "x"\t: [[1.5]], "z": [2]}')[0].tolist() == [[1.5]]
