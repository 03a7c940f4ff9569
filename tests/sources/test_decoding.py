"""Bodies of messages become decisions, or a reason why not; nothing else."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.sources.decoding import MOST_ROWS, decode_message
from likewise.sources.protocol import BadRecord, Record
from tests.support.lazily import polars as pl
from tests.support.looping import each

ROW = {"a": 1.5, "z": "yes"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def rows(body, format="auto", headers=None, numbers=()):
    return decode_message(Record("s", 1, body, headers or {}), format, numbers).rows


def arrow(table):
    buffer = io.BytesIO()
    table.write_ipc_stream(buffer)
    return buffer.getvalue()


def test_json_is_one_decision():
    assert rows(json.dumps(ROW).encode()) == [ROW]
    assert rows(b" " + json.dumps(ROW).encode(), "json") == [ROW]


def test_arrow_is_a_decision_for_each_row():
    table = pl.DataFrame({"a": [1.5, None], "z": ["yes", "no"]})
    assert rows(arrow(table)) == [ROW, {"a": None, "z": "no"}]
    assert rows(arrow(table[:0]), "arrow") == []


@pytest.mark.parametrize("format", ["auto", "cloudevents"])
def test_event_has_its_decision_inside(format):
    assert rows(json.dumps({**EVENT, "data": ROW}).encode(), format) == [ROW]
    headers = {f"ce_{name}": value for name, value in EVENT.items()}
    assert rows(json.dumps(ROW).encode(), format, headers) == [ROW]
    table = pl.DataFrame([ROW])
    assert rows(arrow(table), format, headers) == [ROW]


def test_column_named_like_an_attribute_is_no_event():
    row = {"specversion": 2, "id": "1", "source": "/s", "type": "t"}
    assert rows(json.dumps(row).encode()) == [row]
    event = {**EVENT, "a": 1}
    assert rows(json.dumps(event).encode(), "json") == [event]


@each(
    ("body", "format", "headers", "word"),
    [
        (b"{", "auto", {}, "not JSON"),
        (b"", "auto", {}, "not JSON"),
        (b'{"a": 1, "a": 2}', "auto", {}, "twice"),
        (b'{"a": true}', "auto", {}, "expected a number"),
        (b"{}", "cloudevents", {}, "no CloudEvent"),
        (json.dumps({**EVENT, "specversion": "9"}).encode(), "auto", {}, "specversion"),
        (json.dumps(EVENT).encode(), "auto", {}, "no data"),
        (json.dumps({**EVENT, "data_base64": "!"}).encode(), "auto", {}, "base64"),
        (json.dumps({**EVENT, "data": [1]}).encode(), "auto", {}, "no object"),
        (b"{}", "auto", {"ce_id": "1"}, "specversion"),
        (b"\xff\xff\xff\xffnonsense", "auto", {}, "no Arrow stream"),
        (b"{}", "arrow", {}, "no Arrow stream"),
        (arrow(pl.DataFrame({"a": [[1]]})), "auto", {}, "plain values"),
        (arrow(pl.DataFrame({"a": range(MOST_ROWS + 1)})), "auto", {}, "most taken"),
    ],
)
def test_what_is_no_decision_is_refused_with_the_reason(body, format, headers, word):
    with pytest.raises(BadRecord, match=word):
        rows(body, format, headers, ["a"])


@given(st.binary(max_size=200), st.sampled_from(["auto", "json", "arrow", "cloudevents"]))
def test_no_bytes_do_anything_else(body, format):
    for start in (b"", b"\xff\xff\xff\xff", b"{"):
        try:
            assert isinstance(rows(start + body, format), list)
        except BadRecord as error:
            assert str(error)
