"""A monitor fills a disk: what it refuses it refuses whole, and with room it goes on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("filling.py")
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


@pytest.fixture
def disk(tmp_path):
    if shutil.which("unshare") is None or on_small_disk(tmp_path, "true").returncode != 0:
        pytest.skip("no file system can be mounted here")
    return tmp_path


@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_a_full_disk_loses_nothing(disk, durability):
    done = on_small_disk(disk, sys.executable, PROGRAM, disk, durability)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["refused"] > 5
    assert durability == "batch" or found["faults"] >= 1  # a batch waits until it can be written
    assert found["full"] > 100 and found["taken"] >= found["full"] + 40
    assert list(disk.iterdir()) == []  # it was another file system
