"""Objects with known names are read quickly, and exactly as they are read slowly; or left alone."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.sources.decoding import Decoder, FlatObjectDecoder, UndecodedRecord
from likewise.sources.json_lines import parse_object
from likewise.sources.protocol import Record

NAMES = ("a", "b c", "é")
NUMBERS = ("a",)


def quickly(body, **more):
    return FlatObjectDecoder(NAMES, NUMBERS).decode_rows([Record("s", 1, body, **more)])[0]


def same(one, other):
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return (type(one), one, str(one)) == (type(other), other, str(other))


numbers = st.integers() | st.floats() | st.sampled_from([-0.0, 2**53 + 1, 10**400, 5e-324, 1e308])
values = numbers | st.text(max_size=5) | st.booleans() | st.none() | st.just([1]) | st.just({})
escaped = st.sampled_from([b"\\ud800", b"\\ud83d\\ude00", b"\\u00e9", b"\\n", b"\\/", b"\xc3\xa9"])


@given(st.permutations(NAMES), st.lists(values, min_size=3, max_size=3), st.booleans())
def test_values_are_those_of_the_slow_reader(names, some, ascii_only):
    given_values = dict(zip(names, some, strict=True))
    body = json.dumps(given_values, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    row = quickly(body)
    if row is not None:
        read = parse_object(body, NUMBERS)
        assert all(map(same, row, [read[name] for name in NAMES]))


@given(st.binary(max_size=12), escaped, st.integers(0, 30), st.integers(0, 30))
def test_damaged_bodies_are_left_to_the_slow_reader(some, escape, at, cut):
    whole = '{"a": 1.5, "b c": "x", "é": "y"}'.encode()
    for body in (
        whole[:at] + some + whole[at:],
        whole[:at] + whole[at + cut :],
        whole.replace(b"x", escape),
        whole.replace(b'"y"', b'"y", "a": 2'),
    ):
        row = quickly(body)
        if row is not None:
            read = parse_object(body, NUMBERS)
            assert row == tuple(read[name] for name in NAMES)


def test_plain_decisions_are_read_quickly():
    body = json.dumps({"a": 1, "b c": "x", "é": None}).encode()
    assert quickly(body) == (1, "x", None)
    assert quickly(body, headers={"ce_id": "1"}) is None
    assert quickly(body, flaw="too long") is None


def told(bodies, format="auto", numbers=NUMBERS, decoder=None):
    records = [Record("s", i, body) for i, body in enumerate(bodies)]
    return list((decoder or Decoder(format)).decode(records, numbers))


def line(**row):
    return json.dumps(row).encode()


def test_objects_with_the_same_names_become_columns():
    (messages,) = told([line(a=1, z="x"), line(z="y:", a=2.5), line(a=None, z="\ud83d\ude00")])
    assert messages.table.columns == {"a": [1, 2.5, None], "z": ["x", "y:", "😀"]}
    assert [record.position for record in messages[1:].records] == [1, 2]
    assert messages[1:].first_row == {"a": 2.5, "z": "y:"}


@pytest.mark.parametrize("odd", [line(a=1), line(a=1, z="x", more=1), line(b=2)])
def test_an_object_with_other_names_is_a_row_like_any_other(odd):
    (messages,) = told([line(a=1, z="x"), odd, line(z="y", a=2)])
    assert messages.table == [{"a": 1, "z": "x"}, json.loads(odd), {"a": 2, "z": "y"}]
    (messages,) = told([odd, line(a=1, z="x")])
    assert messages.table == [json.loads(odd), {"a": 1, "z": "x"}]


@pytest.mark.parametrize("name", ["\x00a", 'a"', "a\\", "a\nb", "\x7f", "a\ud800"])
def test_names_that_json_escapes_are_left_to_the_slow_reader(name):
    body = json.dumps({name: 1.5, "z": "x"}).encode()
    (part,) = told([body])
    if "\ud800" in name:
        assert isinstance(part, UndecodedRecord)
    else:
        assert part.first_row == {name: 1.5, "z": "x"}


def test_bad_messages_come_before_what_is_judged_after_them():
    bad, messages = told([line(a=1, z="x"), b"{", line(a=2, z="y")])
    assert isinstance(bad, UndecodedRecord)
    assert (bad.record.position, [one.position for one in messages.records]) == (1, [0, 2])
    assert messages.table.columns == {"a": [1, 2], "z": ["x", "y"]}


def test_bad_messages_come_in_their_place_where_that_is_asked():
    bodies = [line(a=1, z="x"), b"{", line(a=2, z="y"), b"[]"]
    parts = told(bodies, decoder=Decoder("json", in_order=True))
    places = [
        one.record.position if isinstance(one, UndecodedRecord) else len(one) for one in parts
    ]
    assert places == [1, 1, 1, 3]
    assert [one.code for one in parts if isinstance(one, UndecodedRecord)] == ["bad-json"] * 2


def test_names_and_numbers_may_change_from_poll_to_poll():
    decoder = Decoder("auto")
    for names in ("ab", "abc", "b", "ab"):
        row = dict.fromkeys(names, True)
        (messages,) = told([line(**row)] * 2, numbers=(), decoder=decoder)
        assert messages.table.columns == {name: [True, True] for name in names}
    (bad,) = told([line(a=True, b=True)], numbers=["a"], decoder=decoder)
    assert "expected a number" in bad.why


def test_objects_without_names_and_events_are_no_columns():
    (messages,) = told([b"{}", b"{}"])
    assert messages.table == [{}, {}]
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    (messages,) = told([line(**{**event, "specversion": 2}), line(**event, data={"a": 1})])
    assert messages.table == [{**event, "specversion": 2}, {"a": 1}]
    (messages,) = told([line(**event)] * 2, "json")
    assert messages.table.columns == {name: [value] * 2 for name, value in event.items()}
