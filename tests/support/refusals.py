"""What is refused, by its class and facts; the texts of messages are in one golden file.

    with raises(lw.errors.MissingValue, place=3, column="age"):
        monitor.observe_many(table)

asserts the class and these facts. Its code and its whole text are compared with
tests/golden/messages.json, under the names of the test and the case: a sentence is repaired in the
code, and `make golden` repairs it there.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from likewise.errors import LikewiseError
from tests.support import golden_files as golden
from tests.support import looping

_VOLATILE = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"process \d+"), "process <pid>"),
    (re.compile(r"monitor 'm\d+'"), "monitor '<name>'"),
    (re.compile(r"(0|\.\.\.)x[0-9a-f]{6,}"), r"\1x<address>"),
)
_LONGEST = 80  # characters of the name of a case
_base = ""


@pytest.fixture(autouse=True, scope="session")
def base_of_temporary_folders(tmp_path_factory):
    """Know the folder in which each test has one of its own."""
    global _base
    _base = str(tmp_path_factory.getbasetemp())


class raises:  # noqa: N801 - it is used like pytest.raises
    """Expect an error of this class with these facts.

    text: whether its message is in the golden file; False where it differs from run to run

    It is no generator: an error that passed through one would be part of a cycle with its frame,
    and what a test has opened would stay open until the collector comes.
    """

    def __init__(self, kind: type[LikewiseError], *, text: bool = True, **facts: Any) -> None:
        self._raises = pytest.raises(kind)
        self._text = text
        self._facts = facts

    def __enter__(self) -> pytest.ExceptionInfo[Any]:
        self._caught = self._raises.__enter__()
        return self._caught

    def __exit__(self, *raised: Any) -> bool:
        expected = self._raises.__exit__(*raised)
        if expected:
            error = self._caught.value
            there = {name: getattr(error, name) for name in self._facts}
            assert there == self._facts, str(error)
            if self._text:
                _compare(f"{error.code}: {error}")
        return expected


@contextmanager
def warns(kind: type[Warning]) -> Iterator[pytest.WarningsRecorder]:
    """Expect warnings of this class, whose texts are in the golden file."""
    with pytest.warns(kind) as warned:
        yield warned
    for one in warned.list:
        _compare(f"{one.category.__name__}: {one.message}")


def _compare(message: str) -> None:
    """Fail unless the golden file has a message among those of this test and case."""
    test, _, case = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].partition("[")
    cases = [case.removesuffix("]")] * bool(case) + looping.under_way
    case = _without_places(", ".join(cases))[:_LONGEST]
    golden.member("messages.json", golden.test_name(test), case, _without_places(message))


def _without_places(message: str) -> str:
    """Return a message without what differs from run to run."""
    message = re.sub(rf"{re.escape(_base)}/[^/'\"\s]+", "<folder>", message)
    for pattern, placeholder in _VOLATILE:
        message = pattern.sub(placeholder, message)
    return message
