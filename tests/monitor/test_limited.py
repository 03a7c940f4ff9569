"""Where a process may have little address space, less is reserved, and nothing else changes."""

import sys

import pytest

from tests.support.programs import run_module


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such limit, or another")
@pytest.mark.parametrize("gigabytes", [3, 6, 16])
def test_monitors_of_every_kind_work_in_little_address_space(gigabytes, tmp_path):
    assert run_module("monitor.limited", gigabytes, tmp_path).stdout.endswith("done\n")
