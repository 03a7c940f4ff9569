"""A process that was forked off, while a thread was inside a monitor, does not hang."""

import os

import pytest

from tests.support.programs import run_module

WHAT = [
    "a_copy_goes_on",
    "a_copy_with_models_goes_on",
    "a_table_can_be_forked",
    "a_watched_model_answers",
    "a_watched_ledger_leaves_the_model_alone",
    "a_ledger_refuses",
    "a_file_of_rows_stays_with_its_process",
]


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("what", WHAT)
def test_a_forked_process(what, tmp_path):
    assert run_module("monitor.forked", what, tmp_path).stdout.endswith("done\n")
