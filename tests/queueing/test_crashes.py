"""A process that submits to a ledger through a buffer that accepts is killed at random instants.

The slow tier kills it hundreds of times: tests/contracts/test_crashes.py.
"""

import pytest

from tests.queueing.crash_checks import crash_and_finish


@pytest.mark.parametrize("kills", [12, pytest.param(40, marks=pytest.mark.long)])
def test_killed(tmp_path, kills):
    crash_and_finish(tmp_path, kills, kills)
