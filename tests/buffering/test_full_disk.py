"""A full disk: under the spill folder, and under the ledger."""

import json
import sys
from pathlib import Path

import pytest

from tests.small_disk import on_small_disk, skip_without

PROGRAM = Path(__file__).with_name("filling.py")


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    skip_without(folder)
    return folder


def test_full_spill_disk_loses_what_finds_no_room_and_nothing_else(disk, tmp_path):
    done = on_small_disk(disk, sys.executable, PROGRAM, "spill", disk, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["answered"] > 1000 and found["lost"] == 100


def test_ledger_on_a_full_disk_is_tried_again_and_nothing_is_lost(disk, tmp_path):
    done = on_small_disk(disk, sys.executable, PROGRAM, "ledger", disk, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["stuck"] > 100 and found["answered"] > found["stuck"]
