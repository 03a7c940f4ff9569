"""A monitor fills a disk: what it refuses it refuses whole, and with room it goes on."""

import json
import sys
from pathlib import Path

import pytest

from tests.small_disk import on_small_disk, skip_without

PROGRAM = Path(__file__).with_name("filling.py")


@pytest.fixture
def disk(tmp_path):
    skip_without(tmp_path)
    return tmp_path


@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_a_full_disk_loses_nothing(disk, durability):
    done = on_small_disk(disk, sys.executable, PROGRAM, disk, durability)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["refused"] > 5
    assert durability == "batch" or found["faults"] >= 1  # a batch waits until it can be written
    assert found["full"] > 40 and found["taken"] >= found["full"] + 40
    assert list(disk.iterdir()) == []  # it was another file system
