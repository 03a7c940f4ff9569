"""Values as JSON: what is written is read back with its type; answers say it readably."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pytest

from likewise.errors import BadFile, UnexpectedValue
from likewise.tables.codec import form_of, json_value, read_word, value_of, write_word
from tests.support.looping import each


@each("value", [
    None, True, 1, -(2**70), 0.1, float("inf"), "", "日本", b"\x00", Decimal("0.10"),
    (1, ("a", None)),
    datetime.date(2026, 1, 31), datetime.time(1, 2), datetime.datetime(2026, 1, 31, 1, 2, 3, 4),
    datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC),
])  # fmt: skip
def test_value_is_read_back_with_its_type(value):
    again = read_word(write_word(value, "the label"))
    assert again == value and type(again) is type(value)


@each("value, plain", [(np.int8(3), 3), (np.float32(0.5), 0.5), (np.str_("a"), "a"),
    (np.True_, True),
    (np.datetime64("2026-01-31", "ns"), datetime.datetime(2026, 1, 31)),
])  # fmt: skip
def test_scalar_of_numpy_is_written_as_what_python_has(value, plain):
    assert value_of(form_of(value)) == plain


@each("value", [object(), {1}, [1], "\ud800", 10**5000], ids=lambda one: repr(type(one)))
def test_what_has_no_form_is_refused(value):
    with pytest.raises(UnexpectedValue):
        write_word(value, "the label")


@each("form", [{}, {"date": "x"}, {"a": 1}, {"date": 10**5000}, {"date": "2026-01-31", "b": 1}],
      ids=lambda one: str(list(one)))  # fmt: skip
def test_what_is_no_form_is_refused(form):
    with pytest.raises(BadFile):
        value_of(form)


def test_answers_hold_what_json_can():
    told = json_value(
        [np.array([0.5, np.nan]), (b"a", datetime.date(2026, 1, 31)), None, np.int64(3)]
    )
    assert json.dumps(told) == '[[0.5, null], ["b\'a\'", "2026-01-31"], null, 3]'
