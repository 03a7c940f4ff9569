"""Examples in docstrings answer what they say."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "reports.findings",
        "reports.finding_words",
        "verdict.html",
    ],
)
def test_docstring_examples_answer_what_they_say(name):
    failed, attempted = doctest.testmod(importlib.import_module(f"likewise.{name}"))
    assert attempted > 0
    assert failed == 0
