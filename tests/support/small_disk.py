"""Runs a program where a folder is a small file system of its own, so that it can be filled."""

import shutil
import subprocess

import pytest

MOUNT = 'mount -t tmpfs -o size=1200k none "$0" && exec "$@"'


def on_small_disk(folder, *command):
    """Run a command where a folder is a small file system, which only it sees."""
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", MOUNT, str(folder), *map(str, command)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def skip_without(folder):
    """Skip the test where this is not allowed."""
    if shutil.which("unshare") is None or on_small_disk(folder, "true").returncode != 0:
        pytest.skip("no file system can be mounted here")
