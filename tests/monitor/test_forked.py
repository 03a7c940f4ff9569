"""A process that was forked off, while a thread was inside a monitor, does not hang."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent
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
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    done = subprocess.run(
        [sys.executable, str(HERE / "forked.py"), what, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout.strip().endswith("done"), done.stderr[-3000:]
