"""What is packed comes back with its type; other bytes are refused, at little cost."""

import contextlib
import datetime
import decimal
import math
import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import likewise as lw
from likewise.tables import exact_values
from likewise.tables.exact_values import (
    BadMessagePack,
    TooManyMessageParts,
    decoder_of,
    pack,
    unpack,
)
from likewise.tables.named_array import names_of, with_names

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
    except lw.errors.BadDecision:  # a lone surrogate, which no text can hold
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


def test_what_python_has_no_type_for_and_what_cannot_be_sent():
    assert unpack(pack(np.float32(0.1))) == float(np.float32(0.1))
    assert math.isnan(unpack(pack(math.nan))) and unpack(pack([math.inf])) == [math.inf]
    assert unpack(pack(np.array(["a", "b"]))) == ["a", "b"]
    assert unpack(pack(np.array([[1, 2]]).T)).tolist() == [[1], [2]]
    assert unpack(pack(np.arange(3, dtype=">i4"))).tolist() == [0, 1, 2]
    assert unpack(pack(range(3))) == [0, 1, 2]
    assert unpack(pack(decimal.Decimal("1.10"))).as_tuple() == decimal.Decimal("1.10").as_tuple()
    named = with_names(np.zeros((2, 2)), ("age", "debt"))
    assert names_of(unpack(pack(named))) == ("age", "debt")
    for wrong in (object(), {1: 2}, {"a": {2, 3}}, np.ma.masked_array([1], [True]), "\ud800"):
        with pytest.raises(lw.errors.UnexpectedValue):
            pack(wrong)


@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_nothing_else(data):
    packed = bytearray(pack({"x": np.arange(6.0).reshape(2, 3), "z": ["a", (1, 2.5)], "k": None}))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    for body in (bytes(packed), bytes(packed[:cut])):
        with contextlib.suppress(BadMessagePack):
            unpack(body)


def test_every_shorter_body_is_refused():
    packed = pack({"x": np.arange(6.0), "z": ["a", (1, 2.5)], "day": datetime.date(2026, 1, 31)})
    for cut in range(len(packed)):
        with pytest.raises(BadMessagePack):
            unpack(packed[:cut])


def extension(code, content):
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, content))


def array(*fields):
    return extension(3, msgspec.msgpack.encode(list(fields)))


HOSTILE = [
    b"",
    b"\xc1",
    b"\x01\x02",
    b"\xa1\xff",
    b"\x91" * 100_000,
    b"\x81\xa1a" * 100_000,
    b"\xdd\xff\xff\xff\xff",
    b"\xdd\x7f\xff\xff\xff" * 500,
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x03",
    b"\x81\x81\x01\x02\x03",
    extension(4, b"x"),
    extension(1, b"[" * 60_000),
    extension(1, b'{"decimal":"x"}'),
    extension(1, b'{"a":1,"b":2}'),
    extension(1, b'"' + b"x" * (1 << 16) + b'"'),
    extension(1, b"\xff"),
    extension(2, b"\x05"),
    extension(2, b"\xdd\xff\xff\xff\xff"),
    extension(3, b"\x93"),
    array("O", [1], bytes(8), []),
    array(">f8", [1], bytes(8), []),
    array("(1000000000,)f8", [1], bytes(8), []),
    array("f8,f8", [1], bytes(16), []),
    array("<f16", [1], bytes(16), []),
    array("<f8", [1_000_000_000_000], bytes(8), []),
    array("<f8", [1 << 62, 1 << 62], bytes(8), []),
    array("<f8", [-1], bytes(8), []),
    array("<f8", [-1, -1], bytes(8), []),
    array("<f8", [2], bytes(8), []),
    array("<f8", [1.0], bytes(8), []),
    array("<f8", [1] * 100, bytes(8), []),
    array("<f8", [1], bytes(8), [5]),
    array("<f8"),
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_what_makes_no_sense_is_refused_at_little_cost(body):
    tracemalloc.start()
    try:
        with pytest.raises(BadMessagePack):
            unpack(body)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_values_of_another_type_are_told_apart():
    with pytest.raises(msgspec.ValidationError):
        unpack(pack({"a": 1}), decoder_of(list[int]))


@pytest.mark.parametrize("nested", [False, True])
def test_more_parts_than_are_read_are_refused_and_numbers_are_no_parts(monkeypatch, nested):
    monkeypatch.setattr(exact_values, "MOST_PARTS", 100)
    inside = [()] * 200 if nested else [[]] * 200
    for value in ({"a": inside}, {"a": tuple(inside)}, [datetime.date(2026, 1, 31)] * 200):
        with pytest.raises(TooManyMessageParts):
            unpack(pack(value))
    sent = {
        "x": np.full((40, 30), -1e-300),
        "keys": ["☂" * (i % 40) for i in range(300)],
        "z": [-1.5e300, 2**63, -129, b"\x90" * 300, "x" * 70_000] * 50,
    }
    told = unpack(pack(sent))
    assert told["z"] == sent["z"] and np.array_equal(told["x"], sent["x"])


@given(VALUES)
def test_parts_are_counted_exactly(value):
    try:
        packed = pack(value)
    except lw.errors.BadDecision:
        return

    def parts_of(one):
        if isinstance(one, dict):
            return 1 + sum(map(parts_of, one.values()))
        if isinstance(one, list | tuple):  # a tuple is an extension with an array
            return 1 + isinstance(one, tuple) + sum(map(parts_of, one))
        words = (datetime.date, datetime.time, decimal.Decimal)
        big = isinstance(one, int) and not -(2**63) <= one < 2**64
        return int(isinstance(one, words) or big)

    count = parts_of(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_values, "MOST_PARTS", count)
        assert not exact_values._has_too_many_parts(packed)
        patch.setattr(exact_values, "MOST_PARTS", max(0, count - 1))
        assert exact_values._has_too_many_parts(packed) == (count > 0)
