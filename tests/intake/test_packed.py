"""What is packed comes back with its type; what was not packed is refused, whatever it is."""

import contextlib
import datetime
import decimal
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import likewise as lw
from likewise.intake.packed import pack, unpack
from likewise.values.frames import ColumnTable
from tests.looping import each

SINGLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.UTC)),
    st.times(),
    st.decimals(allow_nan=False),
)
VALUES = st.recursive(
    SINGLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
    ),
    max_leaves=12,
)
ARRAYS = hnp.arrays(
    st.sampled_from(["f8", "f4", "f2", "i8", "u1", "u4", "i2", "?", "M8[us]"]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
)


def alike(one, other):
    """Equal, and of one type all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other


@given(VALUES)
def test_values_come_back_with_their_types(value):
    try:
        packed = pack(value)
    except lw.BadDecision:  # a lone surrogate, which no text can hold
        assert "\\ud" in repr(value)
        return
    assert alike(unpack(packed), value)


@given(st.lists(ARRAYS, max_size=3), st.text("ab", max_size=9))
def test_arrays_come_back_to_the_last_bit_and_aligned(arrays, between):
    told = unpack(pack({"arrays": arrays, "between": between}))
    assert told["between"] == between
    for one, other in zip(told["arrays"], arrays, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and one.flags.aligned
        assert one.tobytes() == other.tobytes()


def test_tables_and_what_python_has_no_type_for():
    table = ColumnTable({"age": np.array([1, 2]), "job": ["a", None]})
    told = unpack(pack(table))
    assert told.columns["age"].tolist() == [1, 2] and told.columns["job"] == ["a", None]
    assert unpack(pack(np.float32(0.1))) == float(np.float32(0.1))
    assert math.isnan(unpack(pack(math.nan))) and unpack(pack([math.inf])) == [math.inf]
    assert unpack(pack(np.array(["a", "b"]))) == ["a", "b"]
    assert unpack(pack(np.array([[1, 2]]).T)).tolist() == [[1], [2]]
    assert unpack(pack(np.arange(3, dtype=">i4"))).tolist() == [0, 1, 2]
    assert unpack(pack(decimal.Decimal("1.10"))).as_tuple() == decimal.Decimal("1.10").as_tuple()
    for wrong in (object(), {1: 2}, {"a": {2, 3}}, np.ma.masked_array([1], [True]), "\ud800"):
        with pytest.raises(lw.BadDecision):
            pack(wrong)


@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_nothing_else(data):
    packed = bytearray(pack({"x": np.arange(6.0).reshape(2, 3), "z": ["a", (1, 2.5)], "k": None}))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    for body in (bytes(packed), bytes(packed[:cut])):
        with contextlib.suppress(lw.BadDecision):
            unpack(body)


@each(
    "head",
    [
        b"[" * 100_000,
        b'{"list": ' * 200 + b"1" + b"}" * 200,
        b'{"array": ["O", [1], 0]}',
        b'{"array": ["<f8", [1000000000000], 0]}',
        b'{"array": ["<f8", [-1], 0]}',
        b'{"array": ["<f8", [1], 4]}',
        b'{"array": ["<f8", [true], 0]}',
        b'{"array": "<f8"}',
        b'{"list": 5}',
        b'{"dict": [1]}',
        b'{"table": {"a": 5}}',
        b'{"table": {"a": {"list": [1]}, "b": {"list": []}}}',
        b'{"a": 1, "b": 2}',
        b"{}",
        b'{"decimal": "x"}',
        b"NaN",
        b"\xff",
    ],
)
def test_what_makes_no_sense_is_refused(head):
    body = len(head).to_bytes(8, "little") + head + bytes(8)
    if head == b"NaN":
        assert math.isnan(unpack(body))
        return
    with pytest.raises(lw.BadDecision):
        unpack(body)
