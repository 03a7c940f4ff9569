"""A batch in JSON means the same whichever reader its vectors went through."""

import numpy as np
import pytest

from likewise.service.refusals import Refusal
from likewise.service.routes import decisions

VECTORS = [
    "[[0.1,-2.5e-3],[1,18014398509481984]]",
    "[[0.1, 0.2], [0.30000000000000004, 1e300]]",
    "[[0.1],[0.2,0.3]]",
    "[[0.1,-0],[-0.0,0]]",
    "[[0.1,null]]",
    "[[0.1,1e400]]",
    "[]",
    "[[]]",
    "null",
]
BESIDE = [
    '"z":[1,2]',
    '"z":["a","b"],"keys":["k",null],"models":"m","times":null',
    '"z":[1,2],"type":"float32"',
    '"z":[1,2],"type":"float3"',
    '"z":[1,2],"z":[1,2]',
    '"z":[1,2],"x":[[1.0,2.0]]',
    '"z":["\\ud800",2]',
    '"y":1,"z":[1,2]',
    '"z":[1,2]} ',
    '"z":[1,2',
    "",
]


def read(body):
    """What is read of a body; or why it is refused."""
    try:
        columns, x = decisions._vectors(body)
    except Refusal as error:
        return error.status, str(error)
    assert isinstance(x, np.ndarray)
    said = (columns.z, columns.keys, columns.times, columns.models, columns.type)
    return x.dtype, x.shape, x.tobytes(), said


@pytest.mark.parametrize("vectors", VECTORS)
def test_both_readers_read_the_same(vectors, monkeypatch):
    bodies = [f'{{"x":{vectors},{beside}}}'.encode() for beside in BESIDE]
    bodies += [f'{{{beside},"x":{vectors}}}'.encode() for beside in BESIDE]
    bodies += [b" " + bodies[0].replace(b'"x":', b'"x" :\n '), bodies[0][:-9]]
    found = [read(body) for body in bodies]
    monkeypatch.setattr(decisions, "vectors_first", lambda _: None)
    assert found == [read(body) for body in bodies]
