"""Where a process may have little address space, less is reserved, and nothing else changes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such limit, or another")
@pytest.mark.parametrize("gigabytes", [3, 6, 16])
def test_monitors_of_every_kind_work_in_little_address_space(gigabytes, tmp_path):
    done = subprocess.run(
        [sys.executable, str(HERE / "limited.py"), str(gigabytes), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
    )
    assert done.stdout.strip().endswith("done"), done.stderr[-3000:]
