"""A full disk under the ledger of a buffer."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.small_disk import on_small_disk, skip_without

PROGRAM = Path(__file__).with_name("filling.py")


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    skip_without(folder)
    return folder


@pytest.mark.parametrize("when_full", ["block", "accept"])
def test_ledger_on_a_full_disk_is_tried_again_and_nothing_is_lost(disk, when_full):
    done = on_small_disk(disk, sys.executable, PROGRAM, disk, when_full)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["stuck"] > 100 and found["answered"] > found["stuck"]
