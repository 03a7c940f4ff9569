"""Runs promtool, of Debian's package prometheus; tests that need it skip where it is missing."""

import os
import shutil
import subprocess

import pytest


def promtool(*arguments, stdin=None, cwd=None):
    """Run it; what it said."""
    path = shutil.which("promtool")
    if path is None:
        if os.environ.get("LIKEWISE_PROMTOOL") == "required":
            pytest.fail("promtool is required here, and is missing")
        pytest.skip("promtool is missing: apt-get install prometheus")
    done = subprocess.run(
        [path, *map(str, arguments)],
        input=stdin,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
