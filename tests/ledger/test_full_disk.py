"""A monitor fills a disk: what it refuses it refuses whole, and with room it goes on."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.small_disk import on_small_disk, skip_without

PROGRAM = Path(__file__).with_name("filling.py")
FIT = {"commit": 45, "batch": 400}
"""More decisions than that find room on the small disk, beside the ballast: 51 and 464 do.

With "commit" each decision is a transaction of its own, and SQLite writes every page that it
touches to its log whole: a record of 136 bytes takes some 15 kB. What is looked up stands in
several tables and indexes, so that a contradiction touches many pages. The log is written back into
the database when it has 16 MB, or when the disk has refused something, and neither happens before
this disk is full for the first time.
"""


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
    assert found["full"] > FIT[durability] and found["taken"] >= found["full"] + 40
    assert list(disk.iterdir()) == []  # it was another file system
