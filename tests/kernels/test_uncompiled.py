"""The kernels run as plain Python too: that is how one is debugged, and how coverage sees it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

HERE = Path(__file__).parent


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="this is the uncompiled run")
def test_kernels_pass_the_same_tests_uncompiled(tmp_path):
    files = sorted(str(path) for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-o", f"cache_dir={tmp_path}"]
    quiet = ["-W", "ignore::RuntimeWarning"]  # unsigned bytes wrap around on purpose
    run = subprocess.run(
        [*command, *quiet, *files],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-3_000:] + run.stderr[-1_000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed and int(passed[1]) >= 150, run.stdout[-500:]
    assert "skipped" not in run.stdout
