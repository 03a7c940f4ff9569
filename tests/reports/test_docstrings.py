"""Examples in docstrings answer what they say."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["findings", "gallery", "pictures", "safe", "texts", "words"])
def test_docstring_examples_answer_what_they_say(name):
    failed, attempted = doctest.testmod(importlib.import_module(f"likewise.reports.{name}"))
    assert attempted > 0
    assert failed == 0
