"""A ledger's folder and files are its owner's alone, and nothing is written through a link."""

import os
import shutil
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

import likewise as lw
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.1)
GOLDEN = Path(__file__).parents[1] / "golden" / "ledger-2" / "vectors"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs permissions of POSIX")


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def modes(folder):
    return {path.name: oct(mode(path)) for path in folder.iterdir()}


def all_private(folder):
    found = modes(folder)
    assert set(found.values()) == {"0o600"}, found
    return set(found)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o377])
def test_folder_and_files_are_private_whatever_the_umask(tmp_path, mask):
    folder = tmp_path / "made" / "on the way" / "ledger"
    with umask(mask):
        with lw.open(folder, RULE) as monitor:
            monitor.observe([0.5], "yes", key="a")
            open_files = all_private(folder)
            monitor.erase(key="a")  # writes the database anew
            monitor.observe([0.5], "no", key="b")
            all_private(folder)
        closed_files = all_private(folder)
        with lw.Ledger(folder) as ledger:  # which makes a log of its own
            assert ledger.rows == 2
            all_private(folder)
        with lw.open(folder) as monitor:
            monitor.observe([0.7], "yes")
            all_private(folder)
    assert {mode(path) for path in (folder, folder.parent, folder.parent.parent)} == {0o700}
    assert open_files == closed_files | {"ledger.sqlite-wal", "ledger.sqlite-shm"}
    assert closed_files == {"ledger.sqlite", "lock", "000000000000.rows"}


def test_folder_that_was_there_stays_as_it_was_and_files_are_private(tmp_path):
    folder = tmp_path / "ledger"
    folder.mkdir()
    folder.chmod(0o755)
    with umask(0), lw.open(folder, RULE) as monitor:
        monitor.observe([0.5], "yes")
        all_private(folder)
    assert mode(folder) == 0o755
    assert all_private(folder)


def test_files_of_an_older_ledger_become_private_when_it_is_gone_on_with(tmp_path):
    folder = tmp_path / "ledger"
    shutil.copytree(GOLDEN, folder)
    for path in folder.iterdir():
        path.chmod(0o664)
    with lw.Ledger(folder) as ledger:
        assert ledger.rows == 20
    assert modes(folder)["ledger.sqlite"] == "0o664"  # whoever looks changes nothing
    with umask(0), lw.open(folder) as monitor:
        monitor.observe([0.5, 0.5], 1.0)
        all_private(folder)


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
@pytest.mark.parametrize("name", ["lock", "ledger.sqlite", "ledger.sqlite-wal"])
def test_new_ledger_writes_through_no_link(tmp_path, name, there):
    folder, victim = tmp_path / "ledger", tmp_path / "victim"
    folder.mkdir()
    if there:
        victim.touch()
    (folder / name).symlink_to(victim)
    with raises(lw.errors.BadFile):
        lw.open(folder, RULE)
    assert victim.exists() == there
    assert not there or victim.read_bytes() == b""


@pytest.mark.parametrize("name", ["lock", "000000000000.rows"])
def test_ledger_gone_on_with_writes_through_no_link(tmp_path, name):
    folder, victim = tmp_path / "ledger", tmp_path / "victim"
    with lw.open(folder, RULE) as monitor:
        monitor.observe([0.5], "yes")
    content = (folder / name).read_bytes()
    victim.write_bytes(content)
    (folder / name).unlink()
    (folder / name).symlink_to(victim)
    with raises(lw.errors.BadFile):
        lw.open(folder)
    assert victim.read_bytes() == content
    with lw.Ledger(folder) as ledger:  # to read through one does no harm
        assert ledger.verify().ok


def test_folder_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with lw.open(tmp_path / "link", RULE) as monitor:
        monitor.observe([0.5], "yes")
    with lw.open(tmp_path / "link") as monitor:
        assert monitor.rows == 1
    assert all_private(tmp_path / "real")


def test_file_of_rows_is_private_and_no_link_is_followed(tmp_path):
    with umask(0), lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        monitor.observe([0.5], "yes")
    assert mode(tmp_path / "rows") == 0o600
    for there in (False, True):
        victim, link = tmp_path / f"victim {there}", tmp_path / f"link {there}"
        link.symlink_to(victim)
        if there:
            victim.touch()
        with raises(lw.errors.BadFile):
            lw.Monitor(RULE, row_file=link)
        assert victim.exists() == there
        assert not there or victim.read_bytes() == b""
